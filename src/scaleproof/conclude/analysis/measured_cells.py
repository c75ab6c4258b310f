"""Cells with the runs that have numbers: what rankings and scaling series are made of.

A cell is one configuration of a campaign, run in several repeats. Repeats of two cells match where they have the same
numbers: repeat k of both was made in round k. Provenance is what ran and where: code, versions, hardware.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scaleproof.conclude.analysis.comparability import Provenance, cell_provenance
from scaleproof.conclude.analysis.run_tables import configuration, measured_by_cell, rates_of_cells, throughput
from scaleproof.ground.confidence import CONFIDENCE, FEWEST_REPEATS, Estimate, paired_ratio, ratio
from scaleproof.ground.records.metrics import Printed
from scaleproof.ground.records.run import Run, TimedRun

# What two cells must have in common to do the same work, their batch aside.
SAME_WORK = ("model", "vocab_size", "corpus", "tokenizer", "seq_len")


@dataclass(frozen=True)
class MeasuredCell:
    """A cell with its runs that have numbers, in the order of their repeats."""

    cell: str
    runs: list[TimedRun]
    values: dict[str, Any]  # its configuration, as in runs.csv
    rate: Estimate  # tokens/s
    provenance: Provenance
    confidence: float = CONFIDENCE  # of a ratio to another cell; above 0.95 where results decided when to stop
    all_rates: Mapping[str, dict[int, float]] = field(default_factory=dict)  # of all cells: cell -> repeat -> tokens/s

    @property
    def rates(self) -> dict[int, float]:
        """Repeat -> tokens/s."""
        return {run.metrics.repeat: run.metrics.window.tokens_per_s for run in self.runs}

    def relative_to(self, other: "MeasuredCell", confidence: float | None = None) -> Estimate:
        """Rate of this cell over that of `other`: paired by repeat where repeats match, else of independent runs.

        Without bounds below FEWEST_REPEATS. `confidence`: of the interval; the cell's own, if not given.
        """
        level = confidence or self.confidence
        value = self.rate.value / other.rate.value
        paired = paired_ratio(self.rates, other.rates, value, level, self._others(other))
        if paired:
            return paired
        independent = ratio(throughput(self.runs), throughput(other.runs), level)
        if independent.n < FEWEST_REPEATS:
            return Estimate(value, None, None, independent.n, None, None)
        return independent

    def _others(self, other: "MeasuredCell") -> list[dict[int, float]]:
        """Rates by repeat of all cells but this one and `other`: how much their runs scatter counts as well."""
        return [rates for cell, rates in self.all_rates.items() if cell not in (self.cell, other.cell)]


def measured_cells(runs: Iterable[Run], confidence: float = CONFIDENCE) -> dict[str, MeasuredCell]:
    """The cells with measured runs, by slug, in the campaign's order. `confidence`: of ratios of two cells."""
    cells = {}
    unique: dict[frozenset, Provenance] = {}  # one object for equal ones: each cell is compared with many
    all_rates: dict[str, dict[int, float]] = {}  # shared by the cells, and complete when the last is made
    by_cell = measured_by_cell(runs)
    rates = rates_of_cells(by_cell)
    for name, repeats in by_cell.items():
        if repeats:
            provenance = cell_provenance(repeats)
            provenance = unique.setdefault(frozenset(provenance.items()), provenance)
            values = _values(repeats[0])  # the same in all repeats
            cell = MeasuredCell(name, repeats, values, rates[name], provenance, confidence, all_rates)
            all_rates[name] = cell.rates
            cells[name] = cell
    return cells


def _values(run: TimedRun) -> dict[str, Any]:
    """The configuration of a run's cell, as in runs.csv.

    Of a command (Printed: only its log is known) the tokens or samples of a step stand in place of the global batch.
    """
    values = configuration(run)
    if isinstance(run.metrics, Printed):
        per_step = run.metrics.reading.per_step
        values["global_batch"] = None if per_step is None else round(per_step)
    return values
