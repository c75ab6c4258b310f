"""Cells with the runs that have numbers, which rankings and scaling series are made of; unintended differences of two,
which a ratio of their rates would measure as well.

Repeats of two cells match where they have the same numbers: repeat k of both was made in round k. Provenance is what
ran and where: code, versions, hardware.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scaleproof.conclude.analysis.run_tables import (
    cell_rate,
    configuration_columns,
    measured_by_cell,
    rates_by_repeat,
    rates_of_cells,
)
from scaleproof.conclude.checks.comparability import equal_in_campaign
from scaleproof.ground.confidence import CONFIDENCE, FEWEST_REPEATS, Estimate, paired_ratio, ratio_of_independent
from scaleproof.ground.errors import damaged_file, describe_first_fault
from scaleproof.ground.records.metrics import Measured, Printed
from scaleproof.ground.records.run import METRICS, Run, TimedRun

DTYPE_OF = "dtype of "  # begins the names of fields of the program that ran
FILE = "file "  # before the name of a file of a command line
# The reduced dtype is none on one device, so it may differ between sizes.
DTYPES = ("parameters", "products", "gradients", "optimizer_state", "float32_matmul")

Provenance = dict[str, frozenset[str]]


def cell_provenance(runs: Sequence[TimedRun]) -> Provenance:
    """Return the provenance of a cell's runs: field -> its values in all of them, as text; several where they differ.

    Fields are those of `equal_in_campaign`: code, versions, environment variables, hardware, operating system and
    launcher, of a command also its files, commit and packages. What followed from the configuration is added: of the
    trainer the number of parameters and the dtypes that ran, of a command the unit of its work.
    """
    values: dict[str, set[str]] = {}
    for run in runs:
        try:
            fields = dict(equal_in_campaign(run))
        except (LookupError, TypeError, AttributeError, ValueError) as error:  # damage that no schema has caught
            raise damaged_file(run.folder / METRICS, describe_first_fault(error)) from None
        if isinstance(run.metrics, Measured):
            fields["parameters"] = run.metrics.model.parameters
            fields |= {f"{DTYPE_OF}{name}": run.metrics.dtypes.get(name) for name in DTYPES}
        else:
            fields["unit"] = run.metrics.unit
        for name, value in fields.items():
            values.setdefault(name, set()).add(str(value))
    return {name: frozenset(texts) for name, texts in values.items()}


def unintended_differences(a: Provenance, b: Provenance, same_program: bool) -> list[str]:
    """Return the fields in which two cells differ though they were not meant to; empty where they may be compared.

    `same_program`: the cells differ in nothing but their devices, so their dtypes must be equal too.
    """
    if a is b or a == b:  # nearly always true; a short cut, because each pair of cells is compared
        return []
    differing = {field for field in a | b if a.get(field) != b.get(field)}
    if not same_program:
        differing -= {field for field in differing if field.startswith(DTYPE_OF)}
    # Files of a command line ("file NAME"): one that only one cell has is another program, which is meant to differ.
    return sorted(differing - {field for field in a.keys() ^ b.keys() if field.startswith(FILE)})


@dataclass(frozen=True)
class MeasuredCell:
    """A cell with its runs that have numbers, in the order of their repeats."""

    cell: str
    runs: list[TimedRun]
    values: dict[str, Any]  # its configuration, as in runs.csv
    rate: Estimate  # tokens/s
    provenance: Provenance
    all_rates: Mapping[str, dict[int, float]]  # of all cells: cell -> repeat -> tokens/s
    confidence: float = CONFIDENCE  # of a ratio to another cell; above 0.95 where results decided when to stop

    @property
    def rates(self) -> dict[int, float]:
        """Repeat -> tokens/s."""
        return self.all_rates[self.cell]

    def relative_to(self, other: "MeasuredCell", confidence: float | None = None) -> Estimate:
        """Return this cell's rate over that of `other`: paired by repeat where repeats match, else of independent runs.

        It has no bounds below FEWEST_REPEATS. `confidence`: of the interval; the cell's own, if not given.
        """
        confidence = confidence or self.confidence
        value = self.rate.value / other.rate.value
        # The scatter of all other cells counts in the noise as well.
        others = [rates for cell, rates in self.all_rates.items() if cell not in (self.cell, other.cell)]
        if paired := paired_ratio(self.rates, other.rates, value, confidence, others):
            return paired
        independent = ratio_of_independent(cell_rate(self.runs), cell_rate(other.runs), confidence)
        if independent.n < FEWEST_REPEATS:
            return Estimate(value, independent.n)
        return independent


def measured_cells(runs: Iterable[Run], confidence: float = CONFIDENCE) -> dict[str, MeasuredCell]:
    """Return the cells with measured runs, by slug, in the campaign's order.

    `confidence`: the level of the intervals of ratios of two cells.
    """
    cells: dict[str, MeasuredCell] = {}
    provenances: dict[frozenset, Provenance] = {}  # cells with equal provenance share an object: quickly compared
    runs_of_cells = {name: repeats for name, repeats in measured_by_cell(runs).items() if repeats}
    rates = rates_of_cells(runs_of_cells)
    all_rates = {name: rates_by_repeat(repeats) for name, repeats in runs_of_cells.items()}
    for name, repeats in runs_of_cells.items():
        provenance = cell_provenance(repeats)
        cells[name] = MeasuredCell(
            cell=name,
            runs=repeats,
            values=_configuration_values(repeats[0]),  # the same in all repeats
            rate=rates[name],
            provenance=provenances.setdefault(frozenset(provenance.items()), provenance),
            all_rates=all_rates,
            confidence=confidence,
        )
    return cells


def _configuration_values(run: TimedRun) -> dict[str, Any]:
    """Return a run's configuration as in runs.csv. The global batch of a command is the work of its step."""
    values = configuration_columns(run)
    if isinstance(run.metrics, Printed):
        per_step = run.metrics.reading.per_step
        values["global_batch"] = None if per_step is None else round(per_step)
    return values
