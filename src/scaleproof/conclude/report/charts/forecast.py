"""Forecasts as bands, with what was measured afterwards."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from scaleproof.conclude.report.charts.style import MOST_ROWS, bar, colour, empty, thousands, write_chart
from scaleproof.ground.findings.forecast_report import ForecastRow, StepForecast

ROW_INCHES = 0.32
MISSED = "#b2182b"


def drawn(rows: Sequence[ForecastRow]) -> list[tuple[ForecastRow, StepForecast]]:
    """The cells with an interval, as many as one chart holds."""
    return [(row, row.forecast) for row in rows if row.forecast][:MOST_ROWS]


def forecast_chart(axes: Axes, rows: Sequence[ForecastRow]) -> None:
    """Draw a band for each interval, a line at its value, a dot for the measured step, which is red outside."""
    cells = drawn(rows)
    if not cells:
        empty(axes, "no cell has a forecast")
        return
    for place, (row, interval) in enumerate(cells):
        low, high, value = (1e3 * seconds for seconds in (interval.low, interval.high, interval.value))
        axes.barh(place, high - low, left=low, height=0.6, **bar(colour(row.strategy), 0.3))
        axes.plot([value, value], [place - 0.3, place + 0.3], color=colour(row.strategy), lw=2)
        if row.measured_s is not None:
            outside = not interval.low <= row.measured_s <= interval.high
            axes.plot(1e3 * row.measured_s, place, "o", color=MISSED if outside else "black", ms=6, zorder=3)
    axes.set_yticks(range(len(cells)), [row.cell for row, _ in cells])
    axes.set_ylim(len(cells) - 0.4, -0.6)
    ends: list[float] = []
    for row, interval in cells:
        ends += [1e3 * (seconds or interval.value) for seconds in (interval.low, interval.high, row.measured_s)]
    margin = 0.05 * (max(ends) - min(ends))
    axes.set_xlim(min(ends) - margin, max(ends) + margin)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("time of a step (ms): band and line were forecast, the dot was measured")
    axes.set_title("Forecasts, and what came of them")
    thousands(axes.xaxis)


def draw_forecast(rows: Sequence[ForecastRow], folder: Path) -> None:
    """Write `folder`/forecast.svg and .png."""
    inches = 1.4 + ROW_INCHES * max(3, len(drawn(rows)))
    write_chart(folder / "forecast", inches, lambda axes: forecast_chart(axes, rows))
