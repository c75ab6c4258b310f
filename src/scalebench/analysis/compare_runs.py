"""Any two results compared by the rules of a campaign: `scalebench compare A B`."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from scalebench.analysis.ab_comparison import differences
from scalebench.analysis.comparability import circumstances, undeclared
from scalebench.analysis.confidence import ratio
from scalebench.analysis.run_tables import by_cell, throughput
from scalebench.audit.campaign.all_checks import audit
from scalebench.errors import UserError, nearest
from scalebench.record.run import METRICS, Run, read_run


@dataclass(frozen=True)
class Compared:
    """B relative to A. `why` says what stands against a ratio; low and high are None where a side has one run."""

    a: str
    b: str
    runs: tuple[int, int]
    rates: tuple[float, float]
    declared: list[str]
    why: str | None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    unit: str = "tokens/s"
    unsaid: list[str] = field(default_factory=list)  # fields that one of the sides does not tell
    suspect: list[str] = field(default_factory=list)  # codes of findings that do not stand against a ratio

    @property
    def sentence(self) -> str:
        """What the runs carry, in words."""
        unsaid = f" Not told by both, so not compared: {', '.join(self.unsaid)}." if self.unsaid else ""
        suspect = f" With reservations: {', '.join(self.suspect)}." if self.suspect else ""
        return self._told + unsaid + suspect

    @property
    def _told(self) -> str:
        if self.why:
            return f"{self.b} and {self.a}: no ratio; {self.why}."
        runs = f"{self.runs[0]} and {self.runs[1]} runs"
        times = f"{self.ratio:.4g} times the {self.unit} of {self.a}"
        if self.low is None:
            return f"{self.b} made {times}, but without an interval nothing is claimed ({runs})."
        interval = f"95 % interval {self.low:.4g} to {self.high:.4g}, {runs}"
        if self.low <= 1 <= self.high:
            return f"{self.b} and {self.a} are not distinguishable: {times} ({interval})."
        word = "faster" if self.ratio > 1 else "slower"
        return f"{self.b} is {100 * abs(self.ratio - 1):.3g} % {word}: {times} ({interval})."


def all_own(*paths: Path) -> bool:
    """Whether every path that exists holds runs of schema 3.0; what does not exist is told by whoever reads it."""
    return all(not path.exists() or any(_is_own(file) for file in _metrics_files(path)) for path in paths)


def _is_own(path: Path) -> bool:
    with path.open(errors="replace") as file:
        return '"schema_version": "3.' in file.read(200)


def _metrics_files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(path.rglob(METRICS))


def measured_runs(path: Path) -> dict[str, list[Run]]:
    """The runs with numbers below a path, by cell. `path`: a metrics file, or a folder of a run, a cell or a campaign.

    Raises UserError where there is none.
    """
    if not path.exists():
        raise UserError(f"{path}: no such file or folder")
    files = _metrics_files(path)
    # Pairs of a comparison are arms of their own, and runs made together lie under runs/ as well.
    kept = [f for f in files if not {"together", "compare"} & set(f.relative_to(path.parent).parts)]
    runs = [run for f in kept if (run := read_run(f.parent)).ok]
    if not runs:
        raise UserError(f"{path}: no measured run below; a run is a folder with {METRICS} whose status is ok")
    return by_cell(runs)


def compare_results(a: Path, b: Path, may_differ: list[str]) -> tuple[list[Compared], list[str]]:
    """Cells of B against those of A with the same name; one cell against one, whatever their names.

    `may_differ`: fields that are allowed to differ, e.g. strategy. Returns also the cells that are on one side alone.
    """
    one, other = measured_runs(a), measured_runs(b)
    if a.resolve() == b.resolve():
        raise UserError(f"{a} and {b} are the same results")
    if len(one) == len(other) == 1:
        pairs, alone = [(*one.values(), *other.values())], []
    else:
        pairs = [(one[cell], other[cell]) for cell in one if cell in other]
        alone = sorted(set(one) ^ set(other))
    if not pairs:
        raise UserError(f"{a} and {b} have no cell in common: {', '.join(one)} | {', '.join(other)}")
    _check(may_differ, [run for group in (*one.values(), *other.values()) for run in group])
    return [_compare(str(a), str(b), x, y, set(may_differ)) for x, y in pairs], alone


def _compare(a: str, b: str, x: list[Run], y: list[Run], allowed: set[str]) -> Compared:
    names = [_name(path, runs[0].metrics.cell) for path, runs in ((a, x), (b, y))]
    configured = list(differences(x[0].metrics.config, y[0].metrics.config))
    around = undeclared(circumstances(x), circumstances(y), same_program=not configured)
    differing = [*configured, *around]
    unexpected = [f for f in differing if not allowed & {f, f.rpartition(".")[2]}]
    findings = audit("compare", [*x, *y]).findings
    allowed_codes = _allowed_codes(configured)
    invalid = sorted({f.code for f in findings if f.severity == "invalid"} - allowed_codes)
    suspect = sorted({f.code for f in findings if f.severity == "suspect"} - allowed_codes)
    why = None
    if unexpected:
        why = f"incomparable: {', '.join(unexpected)} (what is meant to differ: --may-differ {' '.join([*sorted(allowed), *unexpected])})"
    elif invalid:
        why = f"invalid: {', '.join(invalid)}"
    rates = throughput(x), throughput(y)
    found = ratio(rates[1], rates[0])
    shown = {} if why else {"ratio": found.value, "low": found.low, "high": found.high}
    values = rates[0].value, rates[1].value
    return Compared(
        *names, (len(x), len(y)), values, sorted(set(differing) - set(unexpected)), why, suspect=suspect, **shown
    )


def _name(path: str, cell: str) -> str:
    return path if cell in Path(path).parts else f"{path} {cell}"


def _allowed_codes(configured: list[str]) -> set[str]:
    """What the comparison says itself; and where the workload or the updates differ on purpose, losses do as well."""
    learning = any(not f.startswith("execution.") for f in configured)
    return {"surroundings-differ"} | ({"losses-differ", "learns-differently"} if learning else set())


def _check(may_differ: list[str], runs: list[Run]) -> None:
    config = runs[0].metrics.config
    keys = {f"{section}.{key}" for section, keys in config.items() if isinstance(keys, dict) for key in keys}
    known = keys | {key.rpartition(".")[2] for key in keys} | set(circumstances(runs))
    for name in may_differ:
        if name not in known and not any(key.startswith(f"{name}.") for key in keys):
            raise field_error(name, known)


def field_error(name: str, known: Iterable[str]) -> UserError:
    return UserError(f'--may-differ: there is no field "{name}".{nearest(name, known)}')
