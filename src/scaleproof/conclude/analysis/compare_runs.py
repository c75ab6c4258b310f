"""Any two results compared by the rules of a campaign: `scaleproof compare A B`.

A result is a run, a cell (a configuration with its runs), or a campaign of cells. Provenance is what ran and where.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

from scaleproof.conclude.analysis.measured_cells import (
    MeasuredCell,
    cell_provenance,
    measured_cells,
    unintended_differences,
)
from scaleproof.conclude.analysis.run_tables import cell_rate
from scaleproof.conclude.checks.all_checks import audit
from scaleproof.conclude.checks.printed import losses_of_cells
from scaleproof.ground.comparison import Compared, field_error, why_incomparable, with_simultaneous_intervals
from scaleproof.ground.confidence import claimed_ratio
from scaleproof.ground.configurations import configuration_differences, dotted_items
from scaleproof.ground.errors import UserError, path_fault, shortened
from scaleproof.ground.findings.finding import Finding
from scaleproof.ground.json_faults import NEWER
from scaleproof.ground.records.evidence import lowest_level
from scaleproof.ground.records.grouping import runs_by_cell
from scaleproof.ground.records.metrics import Printed
from scaleproof.ground.records.run import (
    BEGIN_OF_METRICS,
    LAUNCHER,
    METRICS,
    DamagedMetrics,
    Run,
    TimedRun,
    has_record,
    metrics_files,
    read_run,
    retry_command_of_run,
)
from scaleproof.ground.snakemake_command import RESULTS


def are_all_own(*paths: Path) -> bool:
    """Return whether all paths hold runs of scaleproof. A missing path counts as if it did: reading it reports it."""
    return all(not path.exists() or any(map(_begins_as_own, _metrics_files(path))) for path in paths)


def _begins_as_own(path: Path) -> bool:
    """Return whether a file begins as metrics of scaleproof. What is no file counts too: reading it reports it."""
    if not path.is_file():
        return True
    with path.open("rb") as file:
        return re.search(BEGIN_OF_METRICS, file.read(200)) is not None


def _metrics_files(path: Path) -> list[Path]:
    """Return the file `path` itself, or all metrics files below the folder `path`."""
    return [path] if path.is_file() else metrics_files(path)


def read_runs_by_cell(path: Path) -> dict[str, list[TimedRun]]:
    """Return the runs with numbers below a path, by cell. Raises UserError where no run has numbers.

    `path`: a metrics file, or a folder of a run, a cell or a campaign.
    """
    if not path.exists():
        raise UserError(f"{path}{_nearest_result(path) or path_fault(path)}")
    runs = _read_timed_runs(path)
    if not runs:
        raise UserError(f"{path}: no measured run below; a run is a folder with {METRICS} whose status is ok")
    return runs_by_cell(runs)


def _read_timed_runs(path: Path, besides: Sequence[Path] = ()) -> list[TimedRun]:
    """Return the runs with numbers below a path. `besides`: folders in it that are left out."""
    files = [file for file in _metrics_files(path) if not any(file.is_relative_to(folder) for folder in besides)]
    folders = [file.parent for file in files if _is_compared(file, path)]
    return [run for run in map(_read_run, folders) if isinstance(run, TimedRun)]


def missing_metrics(*paths: Path) -> list[Path]:
    """Return the metrics files below the paths that are missing where a run left its other files."""
    others = [file for path in paths for file in path.rglob(LAUNCHER) if _is_compared(file, path)]
    return sorted(file.with_name(METRICS) for file in others if not has_record(file.parent))


def _is_compared(file: Path, path: Path) -> bool:
    """Return whether a file below `path` is of a run of its own.

    Unless `path` is inside of such a folder, runs in compare/ belong to pairs, and runs in together/ are in runs/, too.
    """
    return {"together", "compare"}.isdisjoint(file.relative_to(path.parent).parts)


def _read_run(folder: Path) -> Run:
    """Return the run in `folder`. Raises UserError, with the cure, where its metrics are damaged."""
    try:
        return read_run(folder)
    except DamagedMetrics as error:
        is_of_campaign = folder.match("results/*/runs/*/*")
        again = f"measure it again ({retry_command_of_run(folder)}), " if is_of_campaign else ""
        cure = "update scaleproof " if NEWER in str(error) else f"restore it, {again}"
        raise UserError(f"{error}; {cure}or move {folder} away to compare the others") from None


def _nearest_result(path: Path) -> str:
    """Return the end of a message that names the folder probably meant by the missing `path`; "" for none."""
    # Of campaigns, of those that are published, and of the cells of each campaign.
    parents = [RESULTS, RESULTS / "published", *RESULTS.glob("*/runs")]
    candidates = [parent for parent in parents if (parent / path.name).is_dir()]
    in_named_campaign = [parent for parent in candidates if parent.parent in path.parents]
    for parent in in_named_campaign or candidates:
        return f': no such file or folder. Did you mean "{parent / path.name}"?'  # the first one
    return ""


def compare_results(a: Path, b: Path, vary: list[str]) -> tuple[list[Compared], list[str]]:
    """Compare the cells that A and B both have, by name; where both have a single cell, these, whatever their names.

    `vary`: fields that are meant to differ, e.g. strategy. Returns the comparisons, and names of cells that are on one
    side alone. Raises UserError where nothing can be compared.
    """
    runs_a, runs_b = read_runs_by_cell(a), read_runs_by_cell(b)
    ids_a, ids_b = ({run.metrics.run_id for runs in side.values() for run in runs} for side in (runs_a, runs_b))
    if ids_a <= ids_b or ids_b <= ids_a:  # copies, too
        raise UserError(f"{a} and {b} are the same results, or one is part of the other")

    cells_on_one_side: list[str] = []
    if len(runs_a) == len(runs_b) == 1:
        pairs = [(*runs_a.values(), *runs_b.values())]
    else:
        pairs = [(runs_a[cell], runs_b[cell]) for cell in runs_a if cell in runs_b]
        cells_on_one_side = sorted(set(runs_a) ^ set(runs_b))
    if not pairs:
        fault = f"{a} and {b} have no cell in common: {', '.join(runs_a)} | {', '.join(runs_b)}"
        raise UserError("; ".join([fault, *_misplaced(runs_a), *_misplaced(runs_b)]))

    runs = [*chain.from_iterable(runs_a.values()), *chain.from_iterable(runs_b.values())]
    _check_fields(vary, runs)
    campaign = _cells_of_campaign(a, b, runs)
    comparisons = [_compare(str(a), str(b), cell_a, cell_b, set(vary), campaign) for cell_a, cell_b in pairs]
    return with_simultaneous_intervals(comparisons), cells_on_one_side


def _misplaced(runs_by_cell: Mapping[str, Sequence[TimedRun]]) -> Iterator[str]:
    """Yield, for each run that lies in the folder of another cell, what it is."""
    for cell, runs in runs_by_cell.items():
        for run in runs:
            if len(runs_by_cell) > 1 and run.folder.name.startswith("rep") and run.folder.parent.name != cell:
                yield f"{run.folder} is a run of {cell}"


def _cells_of_campaign(a: Path, b: Path, runs: Sequence[TimedRun]) -> dict[str, MeasuredCell]:
    """Return all cells of the campaign of both folders, whose `runs` are read already; {} for other results."""
    folders = a.resolve(), b.resolve()
    runs_folder = folders[0].parent
    if runs_folder.name != "runs" or folders[1].parent != runs_folder:
        return {}
    all_runs = [*runs, *_read_timed_runs(runs_folder, besides=folders)]
    # In one order, whichever of them are of A and of B.
    return measured_cells(sorted(all_runs, key=lambda run: run.folder.resolve()))


def _compare(
    a: str,
    b: str,
    runs_a: list[TimedRun],
    runs_b: list[TimedRun],
    vary: set[str],
    campaign: Mapping[str, MeasuredCell],
) -> Compared:
    """Return a cell of B relative to a cell of A, from their runs; without a ratio where `why` says what forbids it.

    `a`, `b`: the paths as given. `vary`: fields that are meant to differ. `campaign`: all cells of the campaign that
    both belong to, if any: then repeats are paired and the noise is that of all its cells, as on its page.
    """
    first_a, first_b = runs_a[0].metrics, runs_b[0].metrics
    keys = list(configuration_differences(first_a.config, first_b.config))
    provenance = unintended_differences(cell_provenance(runs_a), cell_provenance(runs_b), same_program=not keys)
    differing_fields = [*keys, *provenance]
    unexpected_fields = [field for field in differing_fields if not vary & _names_of(field)]

    expected_codes = _expected_codes(keys)
    audited_b = _as_cells_of_b(runs_b) if first_a.cell == first_b.cell else runs_b
    all_findings = audit("compare", [*runs_a, *audited_b]).findings
    findings = [finding for finding in all_findings if finding.code not in expected_codes]
    suspect = sorted({finding.code for finding in findings if finding.severity == "suspect"})
    why = _why_invalid(findings, a, b)
    if unexpected_fields:  # this reason comes before a finding, which may follow from it
        why = why_incomparable(unexpected_fields, sorted(vary))

    rate_a, rate_b = cell_rate(runs_a), cell_rate(runs_b)
    b_over_a = campaign[first_b.cell].relative_to(campaign[first_a.cell]) if campaign else claimed_ratio(rate_b, rate_a)
    return Compared(
        a=_compared_name(a, first_a.cell),
        b=_compared_name(b, first_b.cell),
        runs=(len(runs_a), len(runs_b)),
        unit=f"{first_a.unit}/s",
        evidence=lowest_level(run.metrics.evidence for run in (*runs_a, *runs_b)),
        rates=(rate_a.value, rate_b.value),
        intended=sorted(set(differing_fields) - set(unexpected_fields)),
        why=why,
        ratio=None if why else b_over_a.value,
        low=None if why else b_over_a.low,
        high=None if why else b_over_a.high,
        losses=losses_of_cells(a, b, runs_a, runs_b)[1] if isinstance(first_a, Printed) else "",
        suspect=suspect,
        suspect_sides=_sides_of(suspect, runs_a, audited_b),
        freedom=b_over_a.freedom,
        sessions=_sessions_of(runs_a, runs_b),
    )


def _as_cells_of_b(runs: list[TimedRun]) -> list[TimedRun]:
    """Return the runs as those of a cell of another name: by one name, both sides would be repeats of one cell."""
    return [replace(run, metrics=run.metrics.model_copy(update={"cell": f"{run.metrics.cell} (B)"})) for run in runs]


def _sessions_of(runs_a: list[TimedRun], runs_b: list[TimedRun]) -> list[str]:
    """Return the day of A and of B, or the job, where one side followed the other on another one; [] elsewhere.

    Runs in turn share what changes slowly, even where each is a job of its own, or midnight is among them.
    """
    sides = [sorted(runs, key=_start) for runs in (runs_a, runs_b)]
    first, second = sorted(sides, key=lambda side: _start(side[0]))
    if _start(first[-1]) >= _start(second[0]):
        return []
    days_a, days_b = ([f"{_start(run):%Y-%m-%d}" for run in side] for side in sides)
    if not set(days_a) & set(days_b):
        return [" to ".join(dict.fromkeys([days[0], days[-1]])) for days in (days_a, days_b)]
    jobs_a, jobs_b = ([(run.metrics.scheduler or {}).get("job_id", "") for run in side] for side in sides)
    if "" in (*jobs_a, *jobs_b) or set(jobs_a) & set(jobs_b):
        return []
    return [f"job {' to '.join(dict.fromkeys([jobs[0], jobs[-1]]))}" for jobs in (jobs_a, jobs_b)]


def _start(run: TimedRun) -> datetime:
    """Return when a run began, in UTC."""
    return datetime.fromisoformat(run.metrics.timestamp_utc).astimezone(UTC)


def _sides_of(codes: list[str], runs_a: list[TimedRun], runs_b: list[TimedRun]) -> dict[str, str]:
    """Return the side, "A" or "B", of each code that is suspect on one side alone. Without codes neither is audited."""
    if not codes:
        return {}
    findings = [audit("compare", runs).findings for runs in (runs_a, runs_b)]
    codes_a, codes_b = ({one.code for one in of_side if one.severity == "suspect"} for of_side in findings)
    return {code: "A" if code in codes_a else "B" for code in codes_a ^ codes_b if code in codes}


def _why_invalid(findings: list[Finding], a: str, b: str) -> str | None:
    """Return the codes of invalid findings, the first one's evidence and the command that lists all; None without."""
    invalid = {finding.code: finding for finding in findings if finding.severity == "invalid"}
    if not invalid:
        return None
    codes = sorted(invalid)
    first = invalid[codes[0]]
    run_name = "".join(f"{name}: " for name in first.runs[:1] if name not in first.evidence)
    evidence = run_name + shortened(first.evidence, 300)
    return f"invalid: {', '.join(codes)}: {evidence} (scaleproof audit {a} {b})"


def _compared_name(path: str, cell: str) -> str:
    """Return the name of a cell in a comparison: its path, and the cell where the path does not name it."""
    return path if cell in Path(path).parts else f"{path} {cell}"


def _expected_codes(keys: list[str]) -> set[str]:
    """Return the codes of findings that say nothing new, as they follow from the differing `keys` of configuration."""
    # provenance-differs: the comparison lists what differs anyway. cells-alike: campaigns name a cell by the keys that
    # they vary, so that A and B may be one configuration under two names.
    codes = {"provenance-differs", "cells-alike"}
    # Where workload or updates differ on purpose, losses do as well.
    if any(not key.startswith("execution.") for key in keys):
        codes |= {"losses-differ", "learns-differently"}
    return codes


def _check_fields(vary: list[str], runs: list[TimedRun]) -> None:
    """Raise UserError unless each of `vary` is a section or key of the configuration, or a field of the provenance."""
    names = set(cell_provenance(runs))
    for run in runs:  # older records lack younger keys
        for field, _ in dotted_items(run.metrics.config):
            names |= _names_of(field)
    for name in vary:
        if name not in names:
            raise field_error(name, names, runs[0].folder / METRICS)


def _names_of(field: str) -> set[str]:
    """Return the names by which --vary may mean a field: whole, its last part, each section before it."""
    *sections, key = field.split(".")
    section_names = {".".join(sections[:depth]) for depth in range(1, len(sections) + 1)}
    return {field, key} | section_names
