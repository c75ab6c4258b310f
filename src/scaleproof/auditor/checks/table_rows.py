"""Rows of a published table as the checks see them: which are comparable, which is the baseline, what was measured."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from scaleproof.auditor.checks.printed import PrintedInterval, interval
from scaleproof.auditor.read.kinds import KINDS
from scaleproof.auditor.read.reported_tables import Quantity, ReportedRow, ReportedTable

RATES = ("tokens_per_s", "samples_per_s", "steps_per_s", "rate", "flops_per_s")
TIMES = ("step_time_s", "epoch_time_s", "total_time_s", "time_s")
MEASURED = (*RATES, *TIMES)
STEADY = (*RATES, "step_time_s", "epoch_time_s")  # without start-up, evaluation and checkpoints
# What says which work a row did. Where one of these differs, two rows are not one configuration at two sizes.
WORK_WORDS = ("strategy", "precision", "model", "dataset", "device", "backend")
WORK_FIGURES = ("seq_len", "parameters", "zero_stage", "tensor_parallel", "pipeline_parallel")
# Words that only say how large a configuration is; figures with their units.
SIZE_WORD = re.compile(
    r"[\d.]+[a-z%]{0,4}|x|\d*x?gpus?\d*|\d*x?(?:devices?|nodes?|workers?|ranks?|processes|accelerators?|cards?)\d*|"
    r"single|multi|one|two|four|eight|sixteen|s|ms|sec|seconds|with|on|and|the|per|total|n|np|ws"
)


@dataclass(frozen=True)
class RowSeries:
    """Rows of a table that differ in the number of devices: one configuration at several sizes."""

    table: ReportedTable
    rows: tuple[ReportedRow, ...]

    @cached_property
    def baseline(self) -> ReportedRow | None:
        """The one row with the fewest devices; None where there are several, or sizes are not stated."""
        fewest = min((row.devices or 0 for row in self.rows), default=0)
        smallest = [row for row in self.rows if row.devices == fewest]
        return smallest[0] if fewest and len(smallest) == 1 else None

    def larger(self) -> Iterator[tuple[ReportedRow, float]]:
        """(row, how many times the baseline's devices)."""
        if self.baseline is None or not self.baseline.devices:
            return
        for row in self.rows:
            if row.devices and row.devices > self.baseline.devices:
                yield row, row.devices / self.baseline.devices


def series_of(table: ReportedTable) -> list[RowSeries]:
    """Measured rows of a table by configuration, those with two sizes or more; a size is in each one once."""
    groups: dict[tuple[Any, ...], list[ReportedRow]] = defaultdict(list)
    for row in table.rows:
        if row.measured and row.devices:
            groups[work_of(row, table)].append(row)
    series = (RowSeries(table, tuple(sorted(rows, key=lambda row: row.devices or 0))) for rows in groups.values())
    return [s for s in series if len({row.devices for row in s.rows}) == len(s.rows) >= 2]


def work_of(row: ReportedRow, table: ReportedTable) -> tuple[Any, ...]:
    """What identifies a row's configuration but for its size. Text that is not understood counts too."""
    words = tuple(row.words.get(word) or table.words.get(word) for word in WORK_WORDS)
    figures = tuple(row.value(kind) for kind in WORK_FIGURES)
    return (*words, *figures, other_text(row, table))


def other_text(row: ReportedRow, table: ReportedTable) -> frozenset[str]:
    """Words that say something about the row beyond its figures and its size: notes, variants, names."""
    figure_columns = {column.heading for column in table.columns if column.kind in KINDS}
    texts = [text for heading, text in row.texts.items() if heading not in figure_columns]
    words = re.split(r"[^a-z0-9.]+", " ".join(texts).lower())
    return frozenset(word for word in words if word and not SIZE_WORD.fullmatch(word))


def figure(row: ReportedRow, kind: str) -> Quantity | None:
    """A positive figure of a kind that can be compared: measured, with its unit, without a bound, and, of a ratio,
    over fewer devices and not over another configuration.
    """
    quantity = row.figure(kind)
    if quantity is None or quantity.value <= 0 or quantity.bound or quantity.remark or quantity.over:
        return None
    return quantity


def known(row: ReportedRow, kind: str) -> Quantity | None:
    """The same, in a unit that is stated: its value can be multiplied with others, not only its ratios."""
    quantity = figure(row, kind)
    return quantity if quantity is not None and quantity.unit_stated else None


def multiplies(*factors: Quantity) -> bool:
    """Whether a product of figures is one of the same run: of means it is, of medians and percentiles it is not."""
    return all(factor.statistic in (None, "mean") for factor in factors)


def same_kind(a: Quantity, b: Quantity) -> bool:
    """Whether two figures are of one column in all but the row."""
    return (a.statistic, a.per_device, a.item, a.unit_stated) == (b.statistic, b.per_device, b.item, b.unit_stated)


def speed_ratios(
    row: ReportedRow, base: ReportedRow, devices: float, kinds: Iterable[str] = MEASURED
) -> dict[str, PrintedInterval]:
    """How many times as fast a row is, by each of its measured figures: heading of the figure -> ratio.

    A rate of one device is multiplied by the ratio of devices.
    """
    ratios: dict[str, PrintedInterval] = {}
    for kind in kinds:
        here, there = figure(row, kind), figure(base, kind)
        if here is None or there is None or not same_kind(here, there):
            continue
        if kind in RATES:
            ratio = interval(here) / interval(there) * (devices if here.per_device else 1.0)
        else:
            ratio = interval(there) / interval(here) * work_ratio(row, base, kind)
        ratios[here.heading or kind] = ratio
    return ratios


def work_ratio(row: ReportedRow, base: ReportedRow, kind: str) -> float:
    """How many times the work a row did in a time of this kind, as far as both rows state it; 1 where they do not."""
    batches = (row.value("global_batch"), base.value("global_batch"))
    steps = (1.0, 1.0) if kind == "step_time_s" else (row.value("steps"), base.value("steps"))
    if not all(batches) or not all(steps):
        return 1.0
    return (batches[0] or 1) / (batches[1] or 1) * (steps[0] or 1) / (steps[1] or 1)


def place(row: ReportedRow) -> str:
    """Where it stands, as findings name a row."""
    return row.place


def describe(row: ReportedRow) -> str:
    label = " ".join(row.label.split())[:60]
    return label or (f"{row.devices} devices" if row.devices else place(row))


def printed(quantity: Quantity) -> str:
    return " ".join(quantity.text.split())[:40] or f"{quantity.value:g}"


def places(rows: Iterable[ReportedRow]) -> list[str]:
    return list(dict.fromkeys(place(row) for row in rows))
