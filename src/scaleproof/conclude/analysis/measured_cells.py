"""Cells with the runs that have numbers: what rankings and scaling series are made of."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from scaleproof.conclude.analysis.comparability import Provenance, cell_provenance
from scaleproof.conclude.analysis.run_tables import configuration, measured_by_cell, throughput
from scaleproof.ground.confidence import CONFIDENCE, Estimate, paired_ratio, ratio
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

    @property
    def rates(self) -> dict[int, float]:
        """Repeat -> tokens/s."""
        return {run.metrics.repeat: run.metrics.window.tokens_per_s for run in self.runs}

    def relative_to(self, other: "MeasuredCell") -> Estimate:
        """Ratio of the rates: paired by repeat where repeats match, else of independent runs."""
        paired = paired_ratio(self.rates, other.rates, self.rate.value / other.rate.value, self.confidence)
        return paired or ratio(self.rate, other.rate, self.confidence)


def measured_cells(runs: Iterable[Run], confidence: float = CONFIDENCE) -> dict[str, MeasuredCell]:
    """By slug, in the order of the campaign; cells without numbers are left out."""
    cells = {}
    same: dict[frozenset, Provenance] = {}  # one object for equal ones: each cell is compared with many
    for cell, repeats in measured_by_cell(runs).items():
        if repeats:
            provenance = cell_provenance(repeats)
            provenance = same.setdefault(frozenset(provenance.items()), provenance)
            values, rate = _values(repeats[0]), throughput(repeats)
            cells[cell] = MeasuredCell(cell, repeats, values, rate, provenance, confidence)
    return cells


def _values(run: TimedRun) -> dict[str, Any]:
    """The configuration of a cell; of a command, the work of a step stands in place of the global batch."""
    values = configuration(run)
    if isinstance(run.metrics, Printed):
        per_step = run.metrics.reading.per_step
        values["global_batch"] = None if per_step is None else round(per_step)
    return values
