"""Which things that nobody declared differ between two cells: a ratio of their rates would measure these as well."""

from scalebench.audit.campaign.comparability import surroundings
from scalebench.record.run import Run

PROGRAM = "dtype of "
# The reduced dtype is none on one device, so it may differ between sizes.
DTYPES = ("parameters", "products", "gradients", "optimizer_state", "float32_matmul")

Circumstances = dict[str, frozenset[str]]


def circumstances(runs: list[Run]) -> Circumstances:
    """What the runs of a cell had around them, and what followed from their configuration: field -> all its values.

    Code, versions, environment variables, hardware, operating system, launcher; then the number of parameters and the
    dtypes that ran.
    """
    found: dict[str, set[str]] = {}
    for run in runs:
        fields = dict(surroundings(run))
        fields["parameters"] = run.metrics.model.parameters if run.metrics.model else None
        fields |= {f"{PROGRAM}{name}": (run.metrics.dtypes or {}).get(name) for name in DTYPES}
        for field, value in fields.items():
            found.setdefault(field, set()).add(str(value))
    return {field: frozenset(values) for field, values in found.items()}


def undeclared(a: Circumstances, b: Circumstances, same_program: bool) -> list[str]:
    """Names of fields that differ between two cells with the same model; sorted, empty where they may be compared.

    `same_program`: the cells differ in nothing but their devices, so their dtypes must be equal too.
    """
    if a == b:  # nearly always, and this is asked of each pair of cells
        return []
    fields = {f for f in a | b if same_program or not f.startswith(PROGRAM)}
    return sorted(f for f in fields if a.get(f) != b.get(f))
