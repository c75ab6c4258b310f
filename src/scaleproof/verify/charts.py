"""Charts read back: the figure that a mark shows on hover is recomputed, and the mark must stand at that figure."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path

import numpy as np

from scaleproof.ground.errors import describe_first_fault
from scaleproof.ground.json_faults import UNREADABLE
from scaleproof.ground.number_format import significant
from scaleproof.verify.contents import DAMAGES, entries_of, text_of
from scaleproof.verify.printed import numbers, stands_for
from scaleproof.verify.raw import Difference
from scaleproof.verify.recompute import Quantities, RecomputedQuantity

SVG = "{http://www.w3.org/2000/svg}"
UNITS = "tokens|samples|steps|runs"
# "(95 % CI 14,130-17,397, n=3)"; in charts of earlier versions ", 95 % CI 14,130 to 17,397, n=3".
BOUNDS = r"(?:,? \(?95 % CI (?P<low>[\d,.]+)(?:-| to )(?P<high>[\d,.]+), n=(?P<n>\d+))?"
FIGURE = r"(?P<value>[\d,.]+(?:e[+-]?\d+)?)"
CELL = r"^(?P<cell>[a-z0-9.-]+)"
RATE = re.compile(rf"{CELL}: {FIGURE} (?:{UNITS})/s{BOUNDS}")
# Chart -> (text on hover, column of the figure that it states, stated figure over the figure of the column).
TIPS = {
    "ranking": [(RATE, "tokens_per_s", 1.0)],
    "throughput": [(RATE, "tokens_per_s", 1.0)],
    "speedup": [(re.compile(rf"{CELL}: {FIGURE}{BOUNDS}"), "speedup", 1.0)],
    "efficiency": [(re.compile(rf"{CELL}: {FIGURE}{BOUNDS}"), "scaling_efficiency", 1.0)],
    "memory": [
        (re.compile(rf"{CELL}: state {FIGURE} MB"), "state_bytes", 1e-6),
        (re.compile(rf"{CELL}: state [\d,.]+ MB, ZeRO model {FIGURE} MB"), "state_bytes_predicted", 1e-6),
    ],
    "utilization": [(re.compile(rf"{CELL}: {FIGURE} % busy"), "device_load", 100.0)],
    "energy": [(re.compile(rf"{CELL}: {FIGURE} mJ/token"), "joules_per_token", 1e3)],
    "step_time": [
        (re.compile(rf"{CELL}: median {FIGURE} ms"), "step_time_p50_s", 1e3),
        (re.compile(rf"{CELL}: .* 25-75 %: {FIGURE}-"), "step_time_p25_s", 1e3),
        (re.compile(rf"{CELL}: .* 25-75 %: [\d,.]+-{FIGURE} ms"), "step_time_p75_s", 1e3),
        (re.compile(rf"{CELL}: .*; {FIGURE} (?:steps|printed lines)$"), "steps", 1.0),
    ],
    "job_time": [
        (re.compile(rf"{CELL}, start-up: {FIGURE} s"), "startup_s", 1.0),
        (re.compile(rf"{CELL}, warm-up: {FIGURE} s"), "warmup_s", 1.0),
        (re.compile(rf"{CELL}, timed window: {FIGURE} s"), "window_s", 1.0),
        (re.compile(rf"{CELL}, .*; in all {FIGURE} s"), "total_wall_time_s", 1.0),
    ],
}
TRACED = {
    "trace-steps": {"computing": "compute_ms", "exposed communication": "exposed_ms", "idle": "idle_ms"},
    "trace-communication": {"communication": "communication_ms", "exposed": "exposed_ms"},
}
for chart, parts in TRACED.items():
    TIPS[chart] = [(re.compile(rf"{CELL}: {part} {FIGURE} ms"), name, 1.0) for part, name in parts.items()]
# File -> text on hover of one of several runs or pairs.
NTH = {
    "ranking": re.compile(rf"{CELL}, run (?P<nth>\d+) of (?P<n>\d+): {FIGURE} (?:{UNITS})/s"),
    "comparison": re.compile(rf"^(?P<cell>.+), pair (?P<nth>\d+): B / A {FIGURE}"),
}
RATIOS = ("speedup", "scaling_efficiency")  # a baseline has 1
BY_DEVICES = ("throughput", "speedup", "efficiency")  # charts over the number of devices
MARK_TOLERANCE = 0.001  # of the length of an axis, within which a mark stands where it belongs
TICK_TOLERANCE = 1e-4  # the same for the numbers at an axis
TINY = 1e-30  # stands for 0 and less in a logarithm

Point = tuple[float, float]


@dataclass(frozen=True)
class Axis:
    """The axis of values. `coordinate`: 0 for x, 1 for y; value = `slope` * position in the drawing + `intercept`."""

    coordinate: int
    slope: float
    intercept: float
    value_range: float  # from the lowest to the highest number on it

    def value(self, point: Point) -> float:
        return self.slope * point[self.coordinate] + self.intercept


def check_charts(folder: Path, quantities: Quantities, at_fault: Collection[str] = ()) -> Iterator[Difference]:
    """Yield the figures and intervals of charts, on hover or as drawn, that are not the recomputed ones.

    `at_fault`: cells whose raw files are damaged, as is reported already: their texts on hover do not count.
    """
    figures_in_order = _figures_of_runs_and_pairs(folder, quantities)
    quantities = quantities | _parts_of_traces(folder)
    waterfall_ms: list[float] = []
    for entry in entries_of(folder / "waterfall.json", "cells"):
        waterfall_ms += [entry["ideal_ms"], entry["unexplained_ms"], entry["measured_ms"]]
        waterfall_ms += [part["ms"] for part in entry["parts"] if part["ms"] is not None]
    # Beginnings of the texts on hover of cells at fault: "ddp-n1x2: 1,234 tokens/s", "ddp-n1x2, run 1 of 3: ...".
    tips_of_fault = (*(f"{cell}:" for cell in at_fault), *(f"{cell}," for cell in at_fault))

    for path in sorted(folder.glob("charts/*.svg")):
        file = path.relative_to(folder).as_posix()
        try:
            drawing = ET.fromstring(text_of(path))
        except (ET.ParseError, *DAMAGES) as error:
            yield Difference(file, "", f"{UNREADABLE}: {describe_first_fault(error)}")
            continue

        for title in drawing.iter(f"{SVG}title"):
            tip = title.text or ""
            if not tip.startswith(tips_of_fault):
                yield from _check_tip(file, path.stem, tip, quantities)
                yield from _check_tip_in_order(file, path.stem, tip, figures_in_order)
        if path.stem == "waterfall" and waterfall_ms:
            yield from _check_labels(file, drawing, waterfall_ms)
        for group in drawing.iter(f"{SVG}g"):
            if group.get("id", "").startswith("axes_"):
                yield from _check_marks(file, group)
                if path.stem in BY_DEVICES:
                    yield from _check_devices(file, group, quantities)


def _parts_of_traces(folder: Path) -> Quantities:
    """Return the parts of traced steps that charts show, as traces.json states them, which another check verifies."""
    columns = {column for parts in TRACED.values() for column in parts.values()}
    quantities: Quantities = {}
    for trace in entries_of(folder / "traces.json", "traces"):
        for column in columns:
            if trace[column] is not None:
                name = f"cells/{trace['cell']}/{column}"
                quantities[name] = RecomputedQuantity(value=trace[column], n=1, formula="", sources=())
    return quantities


def _figures_of_runs_and_pairs(folder: Path, quantities: Quantities) -> dict[str, list[float]]:
    """Return cell -> rates of its runs, in the order of repeats, and A/B comparison -> ratios of its pairs."""
    figures: dict[str, list[float]] = {}
    for name, quantity in quantities.items():
        kind, cell, *_, column = name.split("/")  # "runs/CELL/repK/COLUMN", or "cells/CELL/COLUMN"
        if (kind, column) == ("runs", "tokens_per_s"):
            figures.setdefault(cell, []).append(quantity.value)
    comparisons = entries_of(folder / "comparison.json", "comparisons")
    return figures | {entry["name"]: entry["estimate"]["ratios"] for entry in comparisons if entry["estimate"]}


def _check_labels(file: str, drawing: ET.Element, figures: Sequence[float]) -> Iterator[Difference]:
    """Yield the numbers beside the bars of a waterfall that are none of its `figures`, in milliseconds."""
    ticks = (group for group in drawing.iter(f"{SVG}g") if "tick_" in group.get("id", ""))
    texts_at_axes = {element for group in ticks for element in group.iter()}
    for text in set(drawing.iter(f"{SVG}text")) - texts_at_axes:
        label = _plain_text(text).removeprefix("+")
        is_number = numbers(label) == [label]
        if is_number and not any(stands_for(label, figure) for figure in figures):
            yield Difference(file, "", f"has {label} beside a bar, which is none of its figures")


def _check_tip(file: str, chart: str, tip: str, quantities: Quantities) -> Iterator[Difference]:
    """Yield where a text on hover states another figure than the recomputed one, or a figure of an unknown cell."""
    for pattern, column, factor in TIPS.get(chart, []):
        match = pattern.match(tip)
        if not match:
            continue
        stated = match.groupdict()
        cell, value = stated["cell"], stated["value"]
        if quantity := quantities.get(f"cells/{cell}/{column}"):
            yield from _check_figures_of_tip(file, stated, quantity, factor)
        elif f"cells/{cell}/n" not in quantities:  # each cell with figures has this one
            yield Difference(file, cell, "is no cell with figures")
        elif column in RATIOS and not stands_for(value, 1.0):  # a baseline has no ratio, and is drawn at 1
            yield Difference(file, cell, f"shows {value}, and is a baseline")


def _check_figures_of_tip(
    file: str, stated: Mapping[str, str], quantity: RecomputedQuantity, factor: float
) -> Iterator[Difference]:
    """Yield the figures in `stated` (name -> text) that are not those of `quantity` in the unit of the chart."""
    for name, factor_of_name in {"n": 1.0, "value": factor, "low": factor, "high": factor}.items():
        printed, computed = stated.get(name), getattr(quantity, name)
        if not printed or computed is None:
            continue
        in_unit = computed * factor_of_name
        if not stands_for(printed, in_unit):
            gives = significant(in_unit, 6, grouped=True)
            yield Difference(file, stated["cell"], f"shows {printed}, the raw files give {gives}")


def _check_tip_in_order(
    file: str, chart: str, tip: str, figures_in_order: Mapping[str, Sequence[float]]
) -> Iterator[Difference]:
    """Yield where a text on hover states another figure than that of the n-th run of a cell, or pair of a comparison.

    `figures_in_order`: cell or comparison -> figure of each of its runs or pairs.
    """
    match = NTH[chart].match(tip) if chart in NTH else None
    if match:
        figures = figures_in_order.get(match["cell"], [])
        nth = int(match["nth"])  # from 1 on
        n = int(match.groupdict().get("n", len(figures)))  # "run 2 of 3"; pairs do not say how many there are
        if len(figures) != n or nth > n or not stands_for(match["value"], figures[nth - 1]):
            yield Difference(file, tip.partition(":")[0], f"shows {match['value']}, which no raw file gives")


def _check_devices(file: str, axes: ET.Element, quantities: Quantities) -> Iterator[Difference]:
    """Yield the numbers at the axis of devices that no cell has."""
    # The name has nodes x devices of its cell: cells/ddp-n1x2/tokens_per_s.
    geometries = re.findall(r"[/-]n(\d+)x(\d+)(?=[/-])", "\n".join(quantities))
    device_counts = {int(nodes) * int(devices) for nodes, devices in geometries}
    for _, number in _numbered_ticks(axes, "x"):
        if device_counts and number not in device_counts:
            yield Difference(file, "axis of devices", f"has {number:g}, and no cell has so many")


def _check_marks(file: str, axes: ET.Element) -> Iterator[Difference]:
    """Yield each mark that does not stand at the figure it shows on hover, and each interval that is not drawn."""
    try:
        axis = _axis_of_values(axes)
    except ValueError as error:
        yield Difference(file, "", str(error))
        return
    if axis is None:
        return
    paths = [_points_of_path(path) for path in axes.iter(f"{SVG}path")]
    lines = [points for points in paths if len(points) == 2]
    for mark in axes.iter(f"{SVG}g"):
        if mark.get("class") == "tip":
            yield from _check_mark(file, axis, mark, lines)


def _check_mark(file: str, axis: Axis, mark: ET.Element, lines: Sequence[list[Point]]) -> Iterator[Difference]:
    """Yield where a mark does not stand at the figure that it shows on hover, or none of `lines` is its interval."""
    tip = mark.findtext(f"{SVG}title", "")  # "ddp-n1x2: 1,234 tokens/s (95 % CI 1,200-1,270, n=3)"
    subject, _, text = tip.partition(":")
    values = [axis.value(point) for point in _points_of_mark(mark)]
    printed_numbers = numbers(text)
    if not values or not printed_numbers:
        return

    # A bar ends at its figure; a part of a stacked bar is as long as its figure.
    lengths = [abs(a - b) for a, b in combinations(values, 2) if a != b]
    drawn_and_printed = product([*values, *lengths], printed_numbers)
    if not any(_is_near(value, printed, axis) for value, printed in drawn_and_printed):
        stands_at = significant(values[-1], 4, grouped=True)
        yield Difference(file, subject, f'the mark stands at {stands_at} and says "{tip}"')
    if match := re.search(r"95 % CI ([\d,.]+)-([\d,.]+)", text):
        low, high = match[1].rstrip(".,"), match[2].rstrip(".,")
        if not any(_spans(line, low, high, axis) for line in lines):
            yield Difference(file, subject, f"no line is drawn from {low} to {high}")


def _is_near(value: float, printed: str, axis: Axis) -> bool:
    """Return whether a value read from a drawing is a printed figure, within MARK_TOLERANCE and its rounding."""
    figure = float(printed.replace(",", ""))
    _, _, decimals = printed.partition(".")
    # Integers are printed with four significant digits (rounded by up to 5e-4 of the figure), or with all digits.
    rounding = 0.5 * 10.0 ** -len(decimals) if decimals else max(0.5, 5e-4 * abs(figure))
    return abs(value - figure) <= MARK_TOLERANCE * axis.value_range + rounding


def _spans(line: list[Point], low: str, high: str, axis: Axis) -> bool:
    """Return whether a line goes from `low` to `high`; a line that leaves the chart may end where the chart does."""
    line_low, line_high = sorted(axis.value(point) for point in line)
    # The axis begins at 0, so that its range is its highest value.
    is_cut_off = axis.value_range <= line_high < float(high.replace(",", ""))
    return _is_near(line_low, low, axis) and (is_cut_off or _is_near(line_high, high, axis))


def _axis_of_values(axes: ET.Element) -> Axis | None:
    """Return y, else x, as the axis of numbers; None for neither, or a log scale. Raises ValueError for uneven ones."""
    for letter, coordinate in (("y", 1), ("x", 0)):
        ticks = _numbered_ticks(axes, letter)
        if len(ticks) < 2:
            continue
        positions, values = np.array(ticks).T
        if _is_linear(positions, values):
            slope, intercept = np.polyfit(positions, values, 1)
            value_range = float(values.max() - values.min())
            return Axis(coordinate, float(slope), float(intercept), value_range)
        if not _is_linear(positions, np.log(np.maximum(values, TINY))):
            raise ValueError(f"the numbers at its {letter} axis do not stand where they belong")
        return None  # a log scale
    return None


def _is_linear(positions: np.ndarray, values: np.ndarray) -> bool:
    """Return whether values stand evenly along their positions."""
    fitted = np.polyval(np.polyfit(positions, values, 1), positions)
    return bool(np.abs(fitted - values).max() <= TICK_TOLERANCE * (values.max() - values.min()))


def _numbered_ticks(axes: ET.Element, letter: str) -> list[Point]:
    """Return the numbers at an axis: (position in the drawing, number) of each."""
    texts = [_plain_text(text) for text in axes.iter(f"{SVG}text")]
    powers = [text for text in texts if re.fullmatch(r"1e-?\d+", text)]  # "1e6" at an axis: the factor of its numbers
    factor = float(powers[0]) if len(powers) == 1 else 1.0
    ticks = []
    for tick in axes.iter(f"{SVG}g"):
        if not re.fullmatch(rf"{letter}tick_\d+", tick.get("id", "")):
            continue
        text = _plain_text(tick).replace(",", "")
        mark = next(tick.iter(f"{SVG}use"), None)
        if mark is not None and re.fullmatch(r"-?\d+(?:\.\d+)?", text):
            ticks.append((float(mark.get(letter, "nan")), float(text) * factor))
    return ticks


def _plain_text(element: ET.Element) -> str:
    """Return the text of a drawing's element, with "-" for the minus sign of typesetters."""
    return "".join(element.itertext()).strip().replace("\u2212", "-")


def _points_of_mark(mark: ET.Element) -> list[Point]:
    """Return the points of a mark: the middle of each dot, or the corners of a bar."""
    dots = [(float(use.get("x", "nan")), float(use.get("y", "nan"))) for use in mark.iter(f"{SVG}use")]
    return dots or [corner for path in mark.findall(f"{SVG}path") for corner in _points_of_path(path)]


def _points_of_path(path: ET.Element) -> list[Point]:
    """Return the points of a path of straight lines; [] for one with curves."""
    commands = path.get("d", "")
    if "C" in commands or "Q" in commands:
        return []
    values = [float(text) for text in re.findall(r"-?\d+(?:\.\d+)?", commands)]
    return list(zip(values[::2], values[1::2], strict=False))
