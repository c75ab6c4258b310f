"""Forecasts in charts: as bands behind the measured points of a series, and with what was measured afterwards."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes

from scaleproof.conclude.report import chart_style as style
from scaleproof.ground.findings.forecast_report import ForecastRow, StepForecast
from scaleproof.ground.number_format import fixed, number, span_text
from scaleproof.ground.records.scaling_report import ScalingSeries

ROW_INCHES = 0.32
MISSED = "#b2182b"


def drawn_forecasts(rows: Sequence[ForecastRow]) -> list[tuple[ForecastRow, StepForecast]]:
    """Return the rows that have a forecast, with it, as many as one chart holds."""
    return [(row, row.forecast) for row in rows if row.forecast][: style.MOST_ROWS]


def forecast_chart(axes: Axes, rows: Sequence[ForecastRow]) -> None:
    """Draw a band for each interval, a line at its value, a dot for the measured step: red if it is outside."""
    forecasts = drawn_forecasts(rows)
    if not forecasts:
        style.write_empty(axes, "no cell has a forecast")
        return
    for i, (row, forecast) in enumerate(forecasts):
        low, high, value = (1e3 * seconds for seconds in (forecast.low, forecast.high, forecast.value))  # ms
        shade = style.colour(row.strategy)
        axes.barh(i, high - low, left=low, height=0.6, **style.bar_style(shade, 0.3))
        axes.plot([value, value], [i - 0.3, i + 0.3], color=shade, lw=2)
        if row.measured_s is not None:
            is_outside = not forecast.low <= row.measured_s <= forecast.high
            axes.plot(1e3 * row.measured_s, i, "o", color=MISSED if is_outside else "black", ms=6, zorder=3)
    style.label_rows(axes, [row.cell for row, _ in forecasts])

    drawn = ((forecast.low, forecast.high, row.measured_s or forecast.value) for row, forecast in forecasts)
    drawn_ms = [1e3 * seconds for figures in drawn for seconds in figures]
    margin = 0.05 * (max(drawn_ms) - min(drawn_ms))
    axes.set_xlim(min(drawn_ms) - margin, max(drawn_ms) + margin)
    axes.set_xlabel("time of a step (ms): band and line were forecast, the dot was measured")
    axes.set_title("Forecasts, and what came of them")


def draw_forecast(rows: Sequence[ForecastRow], folder: Path) -> None:
    """Write `folder`/forecast.svg and .png."""
    inches = 1.4 + ROW_INCHES * max(3, len(drawn_forecasts(rows)))
    style.write_chart(folder / "forecast", inches, lambda axes: forecast_chart(axes, rows))


HALF_WIDTH = 0.45 * style.BESIDE  # of a band, as a share of the axis' doubling: series stand BESIDE apart
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
    """Return as bands (tokens/s) the forecasts of a series' cells, and of cells that differ from them in size alone."""
    cells = {point.cell for point in series.points}
    bands = []
    for row in forecasts:
        tokens, forecast = row.tokens_per_step, row.forecast
        is_of_series = bool(cells & {row.cell, *row.relatives})  # relatives: same settings, another size
        if is_of_series and tokens and forecast:
            band = Band(
                cell=row.cell,
                devices=row.devices,
                value=None if row.wide else tokens / forecast.value,
                low=tokens / forecast.high,  # the longest step has the lowest rate
                high=tokens / forecast.low,
                level=forecast.level,
                made_utc=row.made_utc,
            )
            bands.append(band)
    return bands


def draw_bands(
    axes: Axes, place: Mapping[int, float], shade: str, bands: Sequence[Band], unit: str, base: float = 1.0
) -> None:
    """Draw each band of one series from low to high, with a line at its value.

    `place`: an entry of `places_side_by_side`. `shade`: the colour of the series. `base`: the rate that is 1 on the
    value axis, which is in `unit`. The axis of devices has a logarithmic scale: distances on it are factors.
    """
    for band in bands:
        middle = band.devices * 2 ** (style.BESIDE * place.get(band.devices, 0.0))
        left, right = middle * 2**-HALF_WIDTH, middle * 2**HALF_WIDTH
        low, high = band.low / base, band.high / base
        (bar,) = axes.bar(
            left, high - low, width=right - left, bottom=low, align="edge", zorder=1, **style.bar_style(shade, 0.3)
        )
        figures = span_text(number(low, 4), number(high, 4))
        if band.value is not None:
            value = band.value / base
            axes.plot([left, right], [value, value], color=shade, lw=2.2, solid_capstyle="butt")
            figures = f"{number(value, 4)}, {figures}"
        text = f"forecast of {band.cell} on {band.made_utc}: {figures} {unit}".strip()
        style.tip(bar, f"{text} ({fixed(100 * band.level, 0)} %)")

    _, legend_labels = axes.get_legend_handles_labels()
    if bands and LABEL not in legend_labels:
        axes.bar([bands[0].devices], [0], 0, label=LABEL, **style.bar_style("0.4", 0.3))  # of no size, for the legend
