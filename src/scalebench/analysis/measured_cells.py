"""Cells with the runs that have numbers: what rankings and scaling series are made of."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from scalebench.analysis.comparability import Provenance, cell_provenance
from scalebench.analysis.confidence import Estimate
from scalebench.analysis.run_tables import configuration, measured_by_cell, throughput
from scalebench.record.run import MeasuredRun, Run


@dataclass(frozen=True)
class MeasuredCell:
    """A cell with its runs that have numbers, in the order of their repeats."""

    cell: str
    runs: list[MeasuredRun]
    values: dict[str, Any]  # its configuration, as in runs.csv
    rate: Estimate  # tokens/s
    provenance: Provenance


def measured_cells(runs: Iterable[Run]) -> dict[str, MeasuredCell]:
    """By slug, in the order of the campaign; cells without numbers are left out."""
    return {
        cell: MeasuredCell(cell, repeats, configuration(repeats[0]), throughput(repeats), cell_provenance(repeats))
        for cell, repeats in measured_by_cell(runs).items()
        if repeats
    }
