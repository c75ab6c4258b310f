"""Charts of scaling: against the number of devices, and cells beside each other."""

# All charts have the same parameters; some do not use `runs`.

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pandas as pd
from matplotlib.axes import Axes

from scaleproof.conclude.report import chart_style as style
from scaleproof.conclude.report.charts.forecast import Band, bands_of_series, draw_bands
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.forecast_report import ForecastRow
from scaleproof.ground.records.result_file import Estimated
from scaleproof.ground.records.scaling_report import ScalingPoint, ScalingReport, ScalingSeries

DOTS_BESIDE = 0.014  # distance of runs from their interval, as a share of the axis' doubling


Forecasts = Sequence[ForecastRow]


class DrawnLine(NamedTuple):
    """The line of a series as it was drawn: the x of its points, the points, its colour."""

    x_values: list[float]
    points: style.Drawn
    shade: str


def throughput(
    axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: ScalingReport, forecasts: Forecasts = ()
) -> None:
    """Draw tokens/s against devices: each run as a dot, each cell with its interval, the ideal from the best baseline.

    Forecasts stand as bands beside them. `runs`, `cells`: runs.csv and cells.csv.
    """
    if not report.series:
        style.write_empty(axes, "no measured runs")
        return
    drawn, title = style.fastest_series(report.series, cells)
    rates = style.values_by_cell(runs, "tokens_per_s")
    lines = []
    for series, look, place in zip(drawn, style.series_styles(drawn), style.places_side_by_side(drawn), strict=True):
        points = [(point, point.tokens_per_sec_global) for point in series.points]
        x_values = style.draw_line(axes, place, look, series.name, points, "tokens/s")
        lines.append(DrawnLine(x_values, points, look["color"]))
        for (point, _), x in zip(points, x_values, strict=True):
            values = rates.get(point.cell, [])
            axes.plot([x * 2**DOTS_BESIDE] * len(values), values, **style.DOT | {"ms": 4, "mew": 0.5})
    bands = _draw_bands(axes, drawn, forecasts, "tokens/s", lambda _: 1.0)  # rates as they are

    baselines = [series.points[0] for series in drawn]
    best_baseline = max(baselines, key=lambda point: point.tokens_per_sec_global.value / point.devices)
    rate_per_device = best_baseline.tokens_per_sec_global.value / best_baseline.devices
    devices = sorted({*style.devices_of(drawn), *(band.devices for band in bands)})
    ideal_devices = [count for count in devices if count >= best_baseline.devices]  # from the best baseline on
    style.draw_ideal(axes, ideal_devices, [rate_per_device * count for count in ideal_devices])
    axes.set_ylabel("throughput (tokens/s)")
    axes.set_title(f"Throughput and devices ({title})")
    _fit_axes(axes, devices, rate_per_device * devices[-1], lines)


def speedup(
    axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: ScalingReport, forecasts: Forecasts = ()
) -> None:
    """Draw the speed-up of each series with a kind over its smallest number of devices, with the ideal."""
    # The smallest baseline gives the label and the ideal for all series.
    smallest = min((series.baseline_devices for series in report.series if series.kind), default=1)
    # "strong", "weak", or "strong and weak".
    kinds = " and ".join(sorted({series.kind for series in report.series if series.kind}))
    axes.set_ylabel(f"speed-up over {plural(smallest, 'device')} (ratio of tokens/s)")
    title = f"Speed-up, {kinds} scaling"
    _draw_ratio_lines(axes, cells, report, lambda point: point.speedup, title, lambda n: n / smallest, forecasts)


def efficiency(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: ScalingReport) -> None:
    """Draw the speed-up of each series, over its smallest number of devices, as a part of the ideal speed-up."""
    axes.set_ylabel("efficiency (part of the ideal speed-up)")
    title = "Scaling efficiency"
    _draw_ratio_lines(axes, cells, report, lambda point: point.scaling_efficiency, title, lambda devices: 1.0)


def _draw_bands(
    axes: Axes, drawn: list[ScalingSeries], forecasts: Forecasts, unit: str, base: Callable[[ScalingSeries], float]
) -> list[Band]:
    """Draw the forecasts of each `drawn` series as bands, and return all bands.

    `base`: returns the rate of a series that is 1 on the value axis, which is in `unit`.
    """
    all_bands = []
    for series, look, place in zip(drawn, style.series_styles(drawn), style.places_side_by_side(drawn), strict=True):
        bands = bands_of_series(series, forecasts)
        draw_bands(axes, place, look["color"], bands, unit, base(series))
        all_bands += bands
    return all_bands


def _fit_axes(axes: Axes, devices: list[int], ideal: float, lines: Sequence[DrawnLine]) -> None:
    """End the axes behind `lines` and the `ideal` value on most devices, and mark intervals that leave the chart."""
    style.draw_device_axis(axes, devices)
    style.leave_headroom(axes, [ideal, *(figure.value for line in lines for _, figure in line.points)])
    for line in lines:
        style.mark_clipped(axes, line.x_values, line.points, line.shade)


def _draw_ratio_lines(
    axes: Axes,
    cells: pd.DataFrame,
    report: ScalingReport,
    figure: Callable[[ScalingPoint], Estimated | None],
    title: str,
    ideal: Callable[[int], float],
    forecasts: Forecasts = (),
) -> None:
    """Draw a line for each series through its points that have a ratio, beside the line of ideal ratios.

    `figure`: the ratio of a point; a baseline has none, and is drawn as 1 without an interval. `ideal`: number of
    devices -> the ideal ratio.
    """
    scaled_series = [series for series in report.series if series.kind]
    if not scaled_series:
        style.write_empty(axes, "no series with more than one size")
        return
    drawn, runs_text = style.fastest_series(scaled_series, cells)
    of_baseline = Estimated(value=1.0, low=None, high=None, n=0)
    lines = []
    for series, look, place in zip(drawn, style.series_styles(drawn), style.places_side_by_side(drawn), strict=True):
        points = [(point, figure(point) or of_baseline) for point in series.points if not point.incomparable]
        x_values = style.draw_line(axes, place, look, series.name, points)
        lines.append(DrawnLine(x_values, points, look["color"]))
    bands = _draw_bands(
        axes, drawn, forecasts, "times the baseline", lambda series: series.points[0].tokens_per_sec_global.value
    )
    devices = sorted({*style.devices_of(drawn), *(band.devices for band in bands)})
    style.draw_ideal(axes, devices, [ideal(count) for count in devices])
    axes.set_title(f"{title} ({runs_text})")
    _fit_axes(axes, devices, ideal(devices[-1]), lines)
