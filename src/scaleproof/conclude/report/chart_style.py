"""What all charts share: colours, axes, marks for findings, values on hover; every chart stays readable in grey."""

import io
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, NullLocator, ScalarFormatter

from scaleproof.ground.campaign.strategies import without_offload
from scaleproof.ground.files import whole_file, write_atomic
from scaleproof.ground.number_format import in_unit, integer, interval_text, number, significant
from scaleproof.ground.records.grouping import lists_by_key
from scaleproof.ground.records.result_file import Estimated
from scaleproof.ground.records.scaling_report import ScalingPoint, ScalingReport, ScalingSeries

# Okabe and Ito's colours, which differ for every kind of colour vision; the markers differ as well. One for each
# strategy, in every chart the same. The light ones are darker than theirs: a contrast of 3 to white, and to the dark
# page, where charts are shown inverted.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CA78A5", "#C28600", "#4A9AC7", "#000000", "#9D952B", "#8F5A3C")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "h")
STRATEGIES = ("ddp", "fsdp", "zero2", "zero3", "zero1", "dp", "single", "zero0", "hsdp")
LINES = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (4, 1, 1, 1)))  # cells of one strategy that differ in something else
ALARM = "#B00020"
DOT: dict[str, Any] = {"marker": "o", "ms": 5.5, "mew": 0.8, "mec": "white", "color": "0.2", "ls": "", "zorder": 5}
BESIDE = 0.045  # distance of series that share a number of devices, as a share of the axis' doubling
WIDTH = 5.2  # inches: on a phone as wide as the screen, with text as large as it is drawn
TITLE_WIDTH, LABEL_WIDTH = 52, 38  # characters that have room above and below a chart
LABEL_HEIGHT = 30  # characters that have room beside a chart
LONG_ENTRY = 16  # characters of a legend's entry: of longer entries, two stand side by side, not three
LEGEND_ROW = 0.25  # inches
MARGIN = 1.05  # the least room above the largest value
HEADROOM = 1.5  # an interval of two runs may be a hundred times as wide as the chart; it is cut off here
DOTS_PER_INCH = 150  # of the PNG
MOST_ROWS, MOST_LINES = 40, 12  # more cannot be read; the tables have all


Drawn = Sequence[tuple[ScalingPoint, Estimated]]  # (size of a series, figure that is drawn) of each size


def chart_style() -> Any:
    """Return the context of matplotlib's settings for all charts; text stays text in an SVG, to be searched."""
    return matplotlib.rc_context(
        {
            "font.size": 11,
            "axes.titlesize": 11,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.alpha": 0.25,
            "svg.hashsalt": "scaleproof",
            "svg.fonttype": "none",
            "figure.constrained_layout.use": True,
        }
    )


def fastest_cells(cells: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the fastest measured cells, as many as fit a chart, and their number of runs for its title.

    Where some are left out, the title says so: "n=3, the fastest 40 of 96 cells".
    """
    measured = cells[cells["n"] > 0]
    drawn = measured.sort_values("tokens_per_s", ascending=False, kind="stable")[:MOST_ROWS].reset_index(drop=True)
    selection = f", the fastest {MOST_ROWS} of {integer(len(measured))} cells" if len(drawn) < len(measured) else ""
    return drawn, runs_text(drawn["n"]) + selection


def fastest_series(series: list[ScalingSeries], cells: pd.DataFrame) -> tuple[list[ScalingSeries], str]:
    """Return the fastest series that a chart has room for, in the order of `series`, and a text for its title."""

    def highest_rate(index: int) -> float:
        return max(point.tokens_per_sec_global.value for point in series[index].points)

    fastest = sorted(range(len(series)), key=highest_rate, reverse=True)[:MOST_LINES]
    drawn = [series[index] for index in sorted(fastest)]
    selection = f", the fastest {len(drawn)} of {integer(len(series))} series" if len(drawn) < len(series) else ""
    return drawn, runs_text(cells["n"]) + selection


def values_by_cell(runs: pd.DataFrame, column: str) -> dict[str, list[float]]:
    """Return cell -> the values of `column` in its runs with numbers. `runs`: runs.csv."""
    return runs[runs["status"] == "ok"].groupby("cell")[column].agg(list).to_dict()


def colour(strategy: str) -> str:
    """Return the colour of a strategy, in every chart the same."""
    return COLOURS[_palette_index(strategy)]


def _palette_index(strategy: str) -> int:
    """Return the index of a strategy's colour and marker; any other name, set by a command, gets one by its bytes."""
    name = without_offload(strategy)
    return STRATEGIES.index(name) if name in STRATEGIES else sum(name.encode()) % len(COLOURS)


def line_styles(strategies: list[str]) -> list[dict[str, Any]]:
    """Return how each of several lines looks, as options of a plot. `strategies`: the strategy of each line.

    The strategy decides on colour and marker. Its first line has full marks, further lines hollow marks and dashes.
    """
    looks = []
    for line_number, strategy in enumerate(strategies):
        nth = strategies[:line_number].count(strategy)  # among the lines of its strategy, from 0 on
        index = _palette_index(strategy)
        look = {"color": COLOURS[index], "marker": MARKERS[index], "linestyle": LINES[nth % len(LINES)]}
        if nth:
            look["markerfacecolor"] = "white"
        looks.append(look)
    return looks


def series_styles(every_series: Sequence[ScalingSeries]) -> list[dict[str, Any]]:
    """Return how the line of each series looks."""
    return line_styles([series.strategy for series in every_series])


def bar_style(shade: str, fill: float = 0.4) -> dict[str, Any]:
    """Return how a bar looks: light inside, so that marks on it are seen, with an edge in full colour."""
    return {"color": (shade, fill), "edgecolor": shade, "lw": 1.2}


def tip(artist: Artist, text: str) -> None:
    """Show `text` when the mouse is over `artist`: `write_chart` makes it the title of the artist's SVG group."""
    artist.set_gid(f"{TIP}{text}")


TIP = "tip:"


def hover_text(subject: str, figure: Estimated, unit: str) -> str:
    """Return what hovering over a point says: `subject`, its figure in `unit`, and the interval."""
    text = f"{subject}: {number(figure.value, 4)} {unit}".strip()
    return f"{text} ({interval_text(figure.low, figure.high, figure.n, 4)})" if figure.bounds else text


def places_side_by_side(every_series: Sequence[ScalingSeries]) -> list[dict[int, float]]:
    """Return for each series devices -> place, so that the points of several series stand side by side.

    0 is the middle of the series that have a point at a number of devices; neighbours differ by 1.
    """
    # Number of devices -> indices of the series that have a point there.
    series_at = lists_by_key((point.devices, index) for index, one in enumerate(every_series) for point in one.points)
    places: list[dict[int, float]] = [{} for _ in every_series]
    for devices, indices in series_at.items():
        middle = (len(indices) - 1) / 2
        for nth, index in enumerate(indices):
            places[index][devices] = nth - middle
    return places


def draw_line(
    axes: Axes, place: dict[int, float], look: dict[str, Any], label: str, points: Drawn, unit: str = ""
) -> list[float]:
    """Draw one series with its intervals, and return the x of its points; a point with a finding has a red ring.

    `place`: an entry of `places_side_by_side`. `look`: colour, marker, dashes. `label`: the entry in the legend.
    """
    # The axis is logarithmic: a factor shifts a point.
    x_values = [point.devices * 2 ** (BESIDE * place[point.devices]) for point, _ in points]
    values = [estimate.value for _, estimate in points]
    below = [0 if estimate.low is None else estimate.value - estimate.low for _, estimate in points]
    above = [0 if estimate.high is None else estimate.high - estimate.value for _, estimate in points]
    axes.errorbar(x_values, values, yerr=[below, above], label=label, capsize=4, lw=1.4, **look)

    for x, (point, estimate) in zip(x_values, points, strict=True):
        edge = ALARM if point.findings else "none"
        (mark,) = axes.plot([x], [estimate.value], "o", ms=13, mfc="none", mew=1.6, mec=edge)
        codes = f"; findings: {', '.join(point.findings)}" if point.findings else ""
        tip(mark, hover_text(point.cell, estimate, unit) + codes)
        mark.set_alpha(None if point.findings else 0)  # without a finding the mark is only there to hover over

    _, legend_labels = axes.get_legend_handles_labels()
    has_findings = any(point.findings for point, _ in points)
    if has_findings and "has a finding" not in legend_labels:
        ring: dict[str, Any] = {"marker": "o", "ms": 9, "mfc": "none", "mec": ALARM, "mew": 1.6}
        axes.add_line(Line2D([], [], ls="", label="has a finding", **ring))
    return x_values


def draw_ideal(axes: Axes, devices: list[int], values: list[float]) -> None:
    """Draw the dashed line of ideal values; nothing for a single number of devices."""
    if len(devices) > 1:
        axes.plot(devices, values, "--", color="0.5", lw=1, zorder=0, label="ideal")


def devices_of(series: Sequence[ScalingSeries]) -> list[int]:
    """Return the numbers of devices at which a series has a point, ascending."""
    return sorted({point.devices for one_series in series for point in one_series.points})


def draw_device_axis(axes: Axes, devices: list[int]) -> None:
    """Make the axis of `devices` (ascending) logarithmic, with these numbers as its ticks."""
    axes.set_xlabel("devices")
    axes.set_xscale("log", base=2)
    axes.set_xticks(devices, [str(number_of_devices) for number_of_devices in devices])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(devices[0] / 1.35, devices[-1] * 1.35)


def leave_headroom(axes: Axes, values: list[float]) -> None:
    """End the value axis above `values`, so that their marks are whole; intervals that are too long are cut off."""
    # The automatic end, but at least MARGIN and at most HEADROOM times the largest value.
    axes.set_ylim(0, float(np.clip(axes.get_ylim()[1], MARGIN * max(values), HEADROOM * max(values))))


def mark_clipped(axes: Axes, x: list[float], points: Drawn, shade: str) -> None:
    """Draw an arrow at the top for each interval that leaves the chart. The axis must have its limits."""
    top = axes.get_ylim()[1]
    for x_of_point, (_, estimate) in zip(x, points, strict=True):
        if (estimate.high or 0) > top:
            axes.plot([x_of_point], [top], "^", ms=8, color=shade, mec="white", clip_on=False, zorder=6)


def label_rows(axes: Axes, labels: Sequence[str], above: float = 0.6, **look: Any) -> None:
    """Write a label beside each row of a chart, the first one on top, with `above` of a row's height over it."""
    axes.set_yticks(range(len(labels)), labels, **look)
    axes.set_ylim(len(labels) - (1 - above), -above)  # inverted: row 0 is on top; rows are 1 apart
    axes.grid(axis="y", visible=False)


def label_cells(axes: Axes, cells: pd.DataFrame, labels: Any, report: ScalingReport) -> None:
    """Label a row for each cell, with "! " where it has findings, and in red where only some cells have any."""
    cells_with_findings = {point.cell for point in report.points if point.findings}
    has_findings = [cell in cells_with_findings for cell in cells["cell"]]
    label_rows(axes, [f"! {text}" if marked else text for text, marked in zip(labels, has_findings, strict=True)])
    axes.locator_params(axis="x", nbins=5)  # so few ticks that labels of six digits fit
    for label, is_marked in zip(axes.get_yticklabels(), has_findings, strict=True):
        if is_marked and not all(has_findings):  # if all were red, none would stand out
            label.set_color(ALARM)


def write_empty(axes: Axes, why: str) -> None:
    axes.text(0.5, 0.5, why, ha="center", va="center", transform=axes.transAxes, color="0.4")
    axes.set_axis_off()


def runs_text(runs: Iterable[int]) -> str:
    """Return the number of runs for a title: "n=3", or "n=2-3" where cells differ. `runs`: the number of each cell."""
    counts = sorted({int(n) for n in runs if n})
    if not counts:
        return "n=0"
    return f"n={counts[0]}" if len(counts) == 1 else f"n={counts[0]}-{counts[-1]}"


def write_chart(path: Path, height: float, fill: Callable[[Any], None], panels: int = 1, unit: str = "tokens") -> None:
    """Write a chart as `path`.svg and .png; the same data makes the same bytes.

    `height`: inches of a panel; a legend adds to them. `fill`: draws into the axes that it is given, or into a list of
    them if there are several `panels`, one below the other. `unit`: what a rate counts, such as tokens.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with chart_style():
        figure = Figure(figsize=(WIDTH, height * panels))
        axes = figure.subplots(panels, 1)
        fill(axes if panels == 1 else list(axes))
        for text in figure.findobj(Text):  # charts say "tokens" everywhere; a program may count something else
            text.set_text(in_unit(text.get_text(), unit))
        if panels == 1:
            _move_title_left(figure)
        for one_of_axes in figure.axes:
            _fit_labels(one_of_axes)
        _add_legend_below(figure)
        _save_figure(figure, path, unit)


def _move_title_left(figure: Figure) -> None:
    """Let the title begin where the chart does, not where its axes do: there is more room."""
    main_axes = figure.axes[0]  # a scale of colours beside the chart has axes too
    title = textwrap.fill(main_axes.get_title(), TITLE_WIDTH)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    main_axes.set_title("")


def _fit_labels(axes: Axes) -> None:
    """Break the labels of both axes where there is no room, and write numbers in full: 2,000,000, not 2 x 1e6."""
    for label, width in ((axes.xaxis.label, LABEL_WIDTH), (axes.yaxis.label, LABEL_HEIGHT)):
        label.set_text(textwrap.fill(label.get_text(), width))  # it stays on its side, as with set_xlabel it would not
    for axis in (axes.xaxis, axes.yaxis):
        if isinstance(axis.get_major_formatter(), ScalarFormatter):
            axis.set_major_formatter(FuncFormatter(lambda value, _: significant(value, 10, grouped=True)))


def _add_legend_below(figure: Figure) -> None:
    """Write the legend of the first axes below the chart, which grows by its rows; nothing without entries."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    if not handles:
        return
    columns = 2 if max(map(len, labels)) > LONG_ENTRY else 3
    columns = min(columns, len(handles))
    legend_rows = math.ceil(len(handles) / columns)
    figure.set_figheight(figure.get_figheight() + LEGEND_ROW * legend_rows)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)


def _save_figure(figure: Figure, path: Path, unit: str) -> None:
    """Write both formats of a finished figure. `unit`: what a rate counts.

    The figure is laid out once: `savefig` would lay it out and draw it twice for each format.
    """
    figure.set_dpi(DOTS_PER_INCH)
    layout = figure.get_layout_engine()
    if layout is not None:
        layout.execute(figure)
        figure.set_layout_engine("none")
    grounds = [figure.patch, *(axes.patch for axes in figure.axes)]
    drawing = io.StringIO()
    for ground in grounds:  # so that the page's own background shines through the SVG
        ground.set_visible(False)
    FigureCanvasSVG(figure).print_svg(drawing, metadata={"Date": None})
    # What `tip` left as ids of groups becomes their titles.
    svg = re.sub(rf'<g id="{TIP}([^"]*)">', r'<g class="tip"><title>\1</title>', drawing.getvalue())
    write_atomic(path.with_suffix(".svg"), in_unit(svg, unit))
    for ground in grounds:
        ground.set_visible(True)
    figure.set_dpi(DOTS_PER_INCH)  # writing the SVG set 72
    with whole_file(path.with_suffix(".png")) as part:
        FigureCanvasAgg(figure).print_png(part, metadata={"Software": None})
