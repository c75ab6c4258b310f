"""Forecasts in charts: as bands behind the measured points of a series, and with what was measured afterwards."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes

from scaleproof.conclude.report import chart_style as style
from scaleproof.ground.findings.forecast_report import ForecastRow, StepForecast
from scaleproof.ground.number_format import fixed, number
from scaleproof.ground.records.scaling_report import ScalingSeries

ROW_INCHES = 0.32
MISSED = "#b2182b"


def drawn_forecasts(rows: Sequence[ForecastRow]) -> list[tuple[ForecastRow, StepForecast]]:
    """Return the rows that have a forecast, with it, as many as one chart holds."""
    return [(row, row.forecast) for row in rows if row.forecast][: style.MOST_ROWS]


def forecast_chart(axes: Axes, rows: Sequence[ForecastRow]) -> None:
    """Draw a band for each interval, a line at its value, a dot for the measured step, which is red outside."""
    cells = drawn_forecasts(rows)
    if not cells:
        style.write_empty(axes, "no cell has a forecast")
        return
    for place, (row, interval) in enumerate(cells):
        low, high, value = (1e3 * seconds for seconds in (interval.low, interval.high, interval.value))
        axes.barh(place, high - low, left=low, height=0.6, **style.bar_style(style.colour(row.strategy), 0.3))
        axes.plot([value, value], [place - 0.3, place + 0.3], color=style.colour(row.strategy), lw=2)
        if row.measured_s is not None:
            outside = not interval.low <= row.measured_s <= interval.high
            axes.plot(1e3 * row.measured_s, place, "o", color=MISSED if outside else "black", ms=6, zorder=3)
    style.label_rows(axes, [row.cell for row, _ in cells])
    ends = []
    for row, interval in cells:
        ends += [1e3 * seconds for seconds in (interval.low, interval.high, row.measured_s or interval.value)]
    margin = 0.05 * (max(ends) - min(ends))
    axes.set_xlim(min(ends) - margin, max(ends) + margin)
    axes.set_xlabel("time of a step (ms): band and line were forecast, the dot was measured")
    axes.set_title("Forecasts, and what came of them")


def draw_forecast(rows: Sequence[ForecastRow], folder: Path) -> None:
    """Write `folder`/forecast.svg and .png."""
    inches = 1.4 + ROW_INCHES * max(3, len(drawn_forecasts(rows)))
    style.write_chart(folder / "forecast", inches, lambda axes: forecast_chart(axes, rows))


HALF = 0.45 * style.BESIDE  # half the width of a band, in parts of the axis' doubling: series stand BESIDE apart
LABEL = "forecast, with its interval"


@dataclass(frozen=True)
class Band:
    """A forecast tokens/s: `value` is None where the interval is too wide for one."""

    cell: str
    devices: int
    value: float | None
    low: float
    high: float
    level: float
    made_utc: str


def bands_of_series(series: ScalingSeries, forecasts: Sequence[ForecastRow]) -> list[Band]:
    """Return the forecasts that belong to a series as bands of tokens/s, whether their cells ran or not.

    A forecast belongs to the series of its cell, or else of a relative: a cell that differs from it in size alone.
    """
    cells = {point.cell for point in series.points}
    bands = []
    for row in forecasts:
        tokens, interval = row.tokens_per_step, row.forecast
        if tokens and interval and cells & {row.cell, *row.relatives}:
            value = None if row.wide else tokens / interval.value
            low, high = tokens / interval.high, tokens / interval.low  # the longest step has the lowest rate
            bands.append(Band(row.cell, row.devices, value, low, high, interval.level, row.made_utc))
    return bands


def draw_bands(
    axes: Axes, place: Mapping[int, float], shade: str, bands: Sequence[Band], unit: str, base: float = 1.0
) -> None:
    """Draw each band of one series from low to high, with a line at its value.

    `place`: as of `places_side_by_side`. `shade`: the colour of the series. `base`: the rate that is 1 on the value
    axis, which is in `unit`. The axis of devices has a logarithmic scale: distances on it are factors.
    """
    for band in bands:
        middle = band.devices * 2 ** (style.BESIDE * place.get(band.devices, 0.0))
        low, high = band.low / base, band.high / base
        left, right = middle * 2**-HALF, middle * 2**HALF
        (span,) = axes.bar(left, high - low, right - left, low, align="edge", zorder=1, **style.bar_style(shade, 0.3))
        what = f"{number(low, 4)}-{number(high, 4)}"
        if band.value is not None:
            axes.plot([left, right], [band.value / base] * 2, color=shade, lw=2.2, solid_capstyle="butt")
            what = f"{number(band.value / base, 4)}, {what}"
        text = f"forecast of {band.cell} on {band.made_utc}: {what} {unit}".strip()
        style.tip(span, f"{text} ({fixed(100 * band.level, 0)} %)")
    if bands and LABEL not in axes.get_legend_handles_labels()[1]:
        axes.bar([bands[0].devices], [0], 0, label=LABEL, **style.bar_style("0.4", 0.3))
