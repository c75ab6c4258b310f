"""Forecasts as bands behind the measured points of a series."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from scaleproof.conclude.report.charts.style import BESIDE, bar, tip
from scaleproof.ground.findings.forecast_report import ForecastRow
from scaleproof.ground.number_format import fixed, number
from scaleproof.ground.records.scaling_report import ScalingSeries

HALF = 0.45 * BESIDE  # half the width of a band, in parts of the axis' doubling: series stand BESIDE apart
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


def bands_of(series: ScalingSeries, forecasts: Sequence[ForecastRow]) -> list[Band]:
    """Return the forecasts that belong to a series as bands of tokens/s, whether their cells ran or not.

    A forecast belongs where its cell is a point of the series, or one of its relatives is, which differ in size alone.
    """
    own = {point.cell for point in series.points}
    bands = []
    for row in forecasts:
        tokens, interval = row.tokens_per_step, row.forecast
        if tokens and interval and own & {row.cell, *row.relatives}:
            value = None if row.wide else tokens / interval.value
            low, high = tokens / interval.high, tokens / interval.low  # the longest step has the lowest rate
            bands.append(Band(row.cell, row.devices, value, low, high, interval.level, row.made_utc))
    return bands


def draw_bands(
    axes: Axes, place: Mapping[int, float], shade: str, bands: Sequence[Band], unit: str, base: float = 1.0
) -> None:
    """Draw each band from low to high, with a line at its value.

    `place`: number of devices -> place of the series beside others. `shade`: its colour. `base`: the rate that is 1 on
    the value axis, which is in `unit`.
    """
    for band in bands:
        x = band.devices * 2 ** (BESIDE * place.get(band.devices, 0.0))
        low, high = band.low / base, band.high / base
        left, right = x * 2**-HALF, x * 2**HALF
        (span,) = axes.bar(left, high - low, right - left, low, align="edge", zorder=1, **bar(shade, 0.3))
        what = f"{number(low, 4)}-{number(high, 4)}"
        if band.value is not None:
            axes.plot([left, right], [band.value / base] * 2, color=shade, lw=2.2, solid_capstyle="butt")
            what = f"{number(band.value / base, 4)}, {what}"
        tip(
            span,
            f"forecast of {band.cell} on {band.made_utc}: {what} {unit}".strip() + f" ({fixed(100 * band.level, 0)} %)",
        )
    if bands and LABEL not in axes.get_legend_handles_labels()[1]:
        axes.bar([bands[0].devices], [0], 0, label=LABEL, **bar("0.4", 0.3))
