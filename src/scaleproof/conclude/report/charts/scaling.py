"""Charts of scaling: against the number of devices, and cells beside each other."""

from collections.abc import Callable, Sequence

import pandas as pd
from matplotlib.axes import Axes

from scaleproof.conclude.report import chart_style as style
from scaleproof.conclude.report.charts.forecast import Band, bands_of_series, draw_bands
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.forecast_report import ForecastRow
from scaleproof.ground.records.result_file import Estimated
from scaleproof.ground.records.scaling_report import ScalingPoint, ScalingReport, ScalingSeries

DOTS_BESIDE = 0.014  # runs beside their interval, in parts of the axis' doubling


Forecasts = Sequence[ForecastRow]


def throughput(
    axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: ScalingReport, forecasts: Forecasts = ()
) -> None:
    """Draw tokens/s against devices: each run as a dot, each cell with its interval, the ideal from the best baseline.

    Forecasts stand as bands beside them. `runs`, `cells`: runs.csv and cells.csv.
    """
    if not report.series:
        style.write_empty(axes, "no measured runs")
        return
    every, title = style.fastest_series(report.series, cells)
    rates = style.values_by_cell(runs, "tokens_per_s")
    drawn = []  # of each series: where its points stand, the points, its colour
    for series, look, place in zip(every, style.series_styles(every), style.places_side_by_side(every), strict=True):
        points = [(point, point.tokens_per_sec_global) for point in series.points]
        at = style.draw_line(axes, place, look, series.name, points, "tokens/s")
        drawn.append((at, points, look["color"]))
        for (point, _), x in zip(points, at, strict=True):
            values = rates.get(point.cell, [])
            axes.plot([x * 2**DOTS_BESIDE] * len(values), values, **style.DOT | {"ms": 4, "mew": 0.5})
    bands = _draw_bands(axes, every, forecasts, "tokens/s", lambda _: 1.0)
    baselines = [series.points[0] for series in every]
    start = max(baselines, key=lambda point: point.tokens_per_sec_global.value / point.devices)
    best = start.tokens_per_sec_global.value / start.devices  # tokens/s of one device
    devices = sorted({*style.devices_of(every), *(band.devices for band in bands)})
    larger = [number for number in devices if number >= start.devices]  # the line starts at what was measured
    style.draw_ideal(axes, larger, [best * number for number in larger])
    axes.set_ylabel("throughput (tokens/s)")
    axes.set_title(f"Throughput and devices ({title})")
    style.draw_device_axis(axes, devices)
    style.leave_headroom(axes, [best * devices[-1], *(rate.value for _, points, _ in drawn for _, rate in points)])
    for at, points, shade in drawn:
        style.mark_clipped(axes, at, points, shade)


def speedup(
    axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: ScalingReport, forecasts: Forecasts = ()
) -> None:
    """Draw the speed-up of each series over itself at its smallest number of devices, with the ideal."""
    # One label and one ideal stand for all series: those of the smallest baseline.
    smallest = min((series.baseline_devices for series in report.series if series.kind), default=1)
    kinds = " and ".join(sorted({series.kind for series in report.series if series.kind}))
    axes.set_ylabel(f"speed-up over {plural(smallest, 'device')} (ratio of tokens/s)")
    title = f"Speed-up, {kinds} scaling"
    _draw_ratio_lines(axes, cells, report, lambda point: point.speedup, title, lambda n: n / smallest, forecasts)


def efficiency(axes: Axes, runs: pd.DataFrame, cells: pd.DataFrame, report: ScalingReport) -> None:
    """Draw the speed-up as a part of the ideal one, of each series over itself at its smallest number of devices."""
    axes.set_ylabel("efficiency (part of the ideal speed-up)")
    title = "Scaling efficiency"
    _draw_ratio_lines(axes, cells, report, lambda point: point.scaling_efficiency, title, lambda devices: 1.0)


def _draw_bands(
    axes: Axes, every: list[ScalingSeries], forecasts: Forecasts, unit: str, base: Callable[[ScalingSeries], float]
) -> list[Band]:
    """Draw the forecasts of each series of `every` as bands, and return all bands.

    `base`: returns the rate of a series that is 1 on the value axis, which is in `unit`.
    """
    drawn = []
    for series, look, place in zip(every, style.series_styles(every), style.places_side_by_side(every), strict=True):
        bands = bands_of_series(series, forecasts)
        draw_bands(axes, place, look["color"], bands, unit, base(series))
        drawn += bands
    return drawn


def _draw_ratio_lines(
    axes: Axes,
    cells: pd.DataFrame,
    report: ScalingReport,
    figure: Callable[[ScalingPoint], Estimated | None],
    title: str,
    ideal: Callable[[int], float],
    forecasts: Forecasts = (),
) -> None:
    """Draw a line for each series through its points that have a ratio, beside the ideal one.

    `figure`: the ratio of a point; a baseline has none, and is drawn as 1 without an interval. `ideal`: number of
    devices -> the ideal ratio.
    """
    scaled = [series for series in report.series if series.kind]
    if not scaled:
        style.write_empty(axes, "no series with more than one size")
        return
    every, count = style.fastest_series(scaled, cells)
    of_baseline = Estimated(value=1.0, low=None, high=None, n=0)
    drawn = []  # of each series: where its points stand, the points, its colour
    for series, look, place in zip(every, style.series_styles(every), style.places_side_by_side(every), strict=True):
        points = [(point, figure(point) or of_baseline) for point in series.points if not point.incomparable]
        at = style.draw_line(axes, place, look, series.name, points)
        drawn.append((at, points, look["color"]))
    bands = _draw_bands(
        axes, every, forecasts, "times the baseline", lambda series: series.points[0].tokens_per_sec_global.value
    )
    devices = sorted({*style.devices_of(every), *(band.devices for band in bands)})
    style.draw_ideal(axes, devices, [ideal(number) for number in devices])
    axes.set_title(f"{title} ({count})")
    style.draw_device_axis(axes, devices)
    style.leave_headroom(axes, [ideal(devices[-1]), *(ratio.value for _, points, _ in drawn for _, ratio in points)])
    for at, points, shade in drawn:
        style.mark_clipped(axes, at, points, shade)
