"""Cells with the runs that have numbers: what rankings and scaling series are made of."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scaleproof.conclude.analysis.comparability import Provenance, cell_provenance
from scaleproof.conclude.analysis.run_tables import configuration, measured_by_cell, throughput
from scaleproof.ground.confidence import CONFIDENCE, FEWEST_REPEATS, Estimate, paired_ratio, ratio
from scaleproof.ground.records.run import MeasuredRun, Run

# What two cells must have in common to do the same work, their batch aside.
SAME_WORK = ("model", "vocab_size", "corpus", "tokenizer", "seq_len")


@dataclass(frozen=True)
class MeasuredCell:
    """A cell with its runs that have numbers, in the order of their repeats."""

    cell: str
    runs: list[MeasuredRun]
    values: dict[str, Any]  # its configuration, as in runs.csv
    rate: Estimate  # tokens/s
    provenance: Provenance
    confidence: float = CONFIDENCE  # of a ratio to another cell; above 0.95 where results decided when to stop
    same_work: Mapping[str, dict[int, float]] = field(default_factory=dict)  # cell -> its rates, itself included

    @property
    def rates(self) -> dict[int, float]:
        """Repeat -> tokens/s."""
        return {run.metrics.repeat: run.metrics.window.tokens_per_s for run in self.runs}

    def relative_to(self, other: "MeasuredCell", confidence: float | None = None) -> Estimate:
        """Ratio of the rates: paired by repeat where repeats match, else of independent runs.

        Without bounds below FEWEST_REPEATS. `confidence`: of the interval; the cell's own, if not given.
        """
        level = confidence or self.confidence
        value = self.rate.value / other.rate.value
        paired = paired_ratio(self.rates, other.rates, value, level, self._alike(other))
        independent = ratio(self.rate, other.rate, level)
        few = independent.n < FEWEST_REPEATS
        return paired or (Estimate(value, None, None, independent.n, None, None) if few else independent)

    def _alike(self, other: "MeasuredCell") -> list[dict[int, float]]:
        """Rates of the other cells with the same work, at any size: how much their runs scatter counts as well."""
        return [rates for cell, rates in self.same_work.items() if cell not in (self.cell, other.cell)]


def measured_cells(runs: Iterable[Run], confidence: float = CONFIDENCE) -> dict[str, MeasuredCell]:
    """By slug, in the order of the campaign; cells without numbers are left out."""
    cells = {}
    same: dict[frozenset, Provenance] = {}  # one object for equal ones: each cell is compared with many
    by_work: dict[tuple, dict[str, dict[int, float]]] = {}  # work -> cell -> its rates
    for name, repeats in measured_by_cell(runs).items():
        if repeats:
            provenance = cell_provenance(repeats)
            provenance = same.setdefault(frozenset(provenance.items()), provenance)
            values, rate = configuration(repeats[0]), throughput(repeats)
            same_work = by_work.setdefault(tuple(values[key] for key in SAME_WORK), {})
            cell = MeasuredCell(name, repeats, values, rate, provenance, confidence, same_work)
            same_work[name] = cell.rates
            cells[name] = cell
    return cells
