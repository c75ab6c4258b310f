"""Unintended differences between two cells: a ratio of their rates would measure these as well.

A cell is one configuration with its runs: of the trainer (Measured), or of a command, anybody's program.
"""

from collections.abc import Sequence

from scaleproof.conclude.checks.comparability import provenance
from scaleproof.ground.errors import damaged, first_fault
from scaleproof.ground.records.metrics import Measured
from scaleproof.ground.records.run import METRICS, TimedRun

DTYPE_OF = "dtype of "  # begins the names of fields of the program that ran
FILE = "file "  # before the name of a file of a command line
# The reduced dtype is none on one device, so it may differ between sizes.
DTYPES = ("parameters", "products", "gradients", "optimizer_state", "float32_matmul")

Provenance = dict[str, frozenset[str]]


def cell_provenance(runs: Sequence[TimedRun]) -> Provenance:
    """The provenance of a cell's runs, and what followed from their configuration: field -> all its values, as text.

    Code, versions, environment variables, hardware, operating system, launcher; then of the trainer the number of
    parameters and the dtypes that ran, of a command its files, its git state and the versions of its interpreter.
    """
    values: dict[str, set[str]] = {}
    for run in runs:
        try:
            fields = dict(provenance(run))
        except (LookupError, TypeError, AttributeError, ValueError) as error:  # parts of the record that have no schema
            raise damaged(run.folder / METRICS, first_fault(error)) from None
        if isinstance(run.metrics, Measured):
            fields["parameters"] = run.metrics.model.parameters
            fields |= {f"{DTYPE_OF}{name}": run.metrics.dtypes.get(name) for name in DTYPES}
        else:
            fields["unit"] = run.metrics.unit
        for field, value in fields.items():
            values.setdefault(field, set()).add(str(value))
    return {field: frozenset(texts) for field, texts in values.items()}


def unintended_differences(a: Provenance, b: Provenance, same_program: bool) -> list[str]:
    """Names of fields that differ between two cells with the same model; sorted, empty where they may be compared.

    `same_program`: the cells differ in nothing but their devices, so their dtypes must be equal too.
    """
    if a is b or a == b:  # nearly always, and this is asked of each pair of cells
        return []
    fields = {field for field in a | b if same_program or not field.startswith(DTYPE_OF)}
    # Two programs are two files: those that only one of them has are what is compared.
    fields -= {field for field in a.keys() ^ b.keys() if field.startswith(FILE)}
    return sorted(field for field in fields if a.get(field) != b.get(field))
