"""`scaleproof verify` and `scaleproof why`: a whole campaign, and one figure of it."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from scaleproof.ground.campaign.rehearsal import is_rehearsal
from scaleproof.ground.errors import (
    UserError,
    damaged_file,
    describe_first_fault,
    did_you_mean,
    missing_file,
    nearest_name,
    nearest_path,
    path_fault,
    plural,
    shortened,
)
from scaleproof.ground.json_faults import UNREADABLE
from scaleproof.ground.records.run import MANIFEST
from scaleproof.ground.snakemake_command import RESULTS, results_option, snakemake_command
from scaleproof.verify import charts, claims, derived, losses, page, pairs, recompute, reports, stated, tables
from scaleproof.verify.answer import check_answer
from scaleproof.verify.campaign_file import are_of_this_version, check_campaign_file, check_demands
from scaleproof.verify.claim_sentences import FILE as CLAIMS
from scaleproof.verify.contents import DAMAGES, REPORT, csv_of, json_of, schema_of
from scaleproof.verify.explained import explain, in_tokens, in_unit_of
from scaleproof.verify.laws import check_laws
from scaleproof.verify.manifest import (
    CAMPAIGN,
    CRATE,
    FILES,
    LATER_FILES,
    LINE_ENDS,
    OTHER_ENDS,
    check_manifest,
    each_once,
)
from scaleproof.verify.raw import METRICS, PLACES, Difference, RawRun, cells_at_fault, read_runs
from scaleproof.verify.raw_cells import answer_of, ratio_bounds
from scaleproof.verify.signature import signer_of

ARCHIVES = (".zip", ".gz", ".tgz", ".tar", ".zst", ".xz", ".7z")
INTERVALS_OF_ALL_CELLS = (5, 1)  # schema from which on the interval of a rate has the noise of all cells

Check = Callable[[], Iterator[Difference]]


def folder_of(path: Path) -> Path:
    """Return the folder of a campaign's results, given as itself or as one of its own files, such as report.html.

    Raises UserError for any other path, and for a file in the folder that is not verified with it, such as a copy.
    """
    folder = path.parent if path.is_file() else path
    if not (folder / "runs").is_dir():
        if (folder / MANIFEST).is_file():
            made = f"{folder} was made from runs, and {folder / 'runs'} is gone: restore it, or measure again: "
            raise UserError(f"{made}scaleproof stale" + results_option(folder.parent))
        what = _not_results(path, folder)
        hint = _campaign_hint(path) or f" Of other programs: scaleproof audit {path}" * path.is_file()
        if not hint and path.parent == RESULTS and not (path.is_symlink() or RESULTS.is_file()):
            raise missing_file(path / page.FILE)  # nothing was measured yet, or the name is that of no campaign
        raise UserError(f"{path} is no campaign's results: {what}; give results/<campaign>.{hint}")
    if path != folder and path.name not in (*FILES, MANIFEST):
        raise UserError(f"{path} is none of the files that are verified with {folder}; give that folder")
    return folder


def _not_results(path: Path, folder: Path) -> str:
    """Return in words why `path` is no campaign's results. `folder`: `path` itself, or the folder of that file."""
    if fault := path_fault(path):
        # Without its hint, which `_campaign_hint` gives instead, and without the marks that join it to a path.
        words = fault.removesuffix(nearest_path(path)).strip(" :.")
        return f"it {words}" if words.startswith("is ") else words
    if path.is_file() and not path.stat().st_size:
        return "it is an empty file"
    if path.suffix in ARCHIVES:
        return "it is an archive; unpack it"
    return f"there is no folder {folder / 'runs'}"


def _campaign_hint(path: Path) -> str:
    """Return a sentence with the results that a wrong path may mean; "" where there are none.

    In this order: the results that the path lies in; those of a campaign with its name (ddp.yaml: results/ddp); for a
    path that does not exist, the nearest one; all results in the path, or in results/.
    """
    candidates = [parent for parent in path.parents if (parent / "runs").is_dir()]
    if (RESULTS / path.stem / "runs").is_dir():
        candidates.append(RESULTS / path.stem)
    if candidates:
        return f' Did you mean "{candidates[0]}"?'
    if not os.path.lexists(path):
        above = next((folder for folder in Path.cwd().parents if (folder / path / "runs").is_dir()), None)
        return f" They are seen from {above}: cd {above}" if above else nearest_path(path)

    has_results = path.is_dir() and any(path.glob("*/runs"))
    parent = path if has_results else RESULTS
    results = sorted(str(runs.parent) for runs in parent.glob("*/runs/"))
    return f" Results there: {', '.join(results[:10])}" if results else ""


def quantities_of(folder: Path, runs: list[RawRun]) -> tuple[recompute.Quantities, list[Difference]]:
    """Return all figures that `runs` give, and a Difference for each cell of which no figure can be computed."""
    quantities: recompute.Quantities = {}
    differences = []
    for cell, group in recompute.by_cell(runs).items():
        try:
            quantities |= recompute.cell_quantities(group) | recompute.run_quantities(group)
        except DAMAGES as error:
            problem = f"no figure can be computed from its runs: {describe_first_fault(error)}"
            differences.append(Difference(f"runs/{cell}", "", problem))
    return _with_ratios(quantities, folder, runs), differences


def _with_ratios(quantities: recompute.Quantities, folder: Path, runs: list[RawRun]) -> recompute.Quantities:
    """Return the figures of cells with the ratios of cells, and with the intervals of both.

    The report in `folder` names the baselines: where it is not readable, there are no ratios and no intervals. With an
    old report each cell has an interval of its own, and a ratio has none.
    """
    try:
        report = json_of(folder / REPORT)
        if schema_of(report) < INTERVALS_OF_ALL_CELLS:  # an old report
            return quantities | recompute.ratio_quantities(quantities, runs, report)
        quantities = recompute.with_pooled_intervals(quantities, runs)
        quantities |= recompute.ratio_quantities(quantities, runs, report)
        return recompute.with_bounds(quantities, ratio_bounds(answer_of(report, runs, {})))
    except (OSError, *DAMAGES):  # the check of the report says what is wrong with it
        return recompute.without_intervals(quantities)


def _refuse_special_files(folder: Path) -> None:
    """Raise UserError for a pipe, a socket or a device in the folder: reading it would wait or go on for ever."""
    for path in folder.rglob("*"):
        if path.exists() and not path.is_file() and not path.is_dir():
            raise UserError(f"{path}{path_fault(path)}")


def verify(path: Path, with_manifest: bool = True) -> tuple[list[Difference], int, int]:
    """Recompute a campaign's figures from its raw files and hold all other files against them.

    Returns the differences, the number of runs that were read, and the number of recomputed figures. Raises UserError
    where `path` is no campaign's results. `with_manifest`: whether manifest, signature and crate are checked as well.
    """
    folder = folder_of(path)
    _refuse_special_files(folder)
    runs, differences = read_runs(folder)
    if not runs and not differences:
        raise UserError(f"{folder}/runs has no run")
    if not any((folder / name).exists() for name in (MANIFEST, REPORT, "report.html", "runs.csv")):
        problem = f"there is no report yet; it is made by: {snakemake_command(folder / 'report.html')}"
        return [*differences, Difference("report.html", "", problem)], len(runs), 0
    left_over = _runs_left_over(folder, runs)
    if with_manifest:
        differences = _with_differences_of_manifest(folder, differences)
    if left_over:  # reported once, at the end: no check sees these runs
        runs = [run for run in runs if run.name not in left_over]
        folders = tuple(f"runs/{name}/" for name in left_over)
        differences = [difference for difference in differences if not difference.file.startswith(folders)]
    if any(one.problem == LATER_FILES for one in differences):  # checks would read these
        return differences, len(runs), 0

    at_fault = cells_at_fault(differences)
    sound_runs = [run for run in runs if run.cell not in at_fault]
    quantities, incomputable = quantities_of(folder, sound_runs)
    differences += incomputable
    if at_fault or incomputable:  # the interval of a rate may need the runs of other cells
        quantities = recompute.without_intervals(quantities)

    for file, check in _checks(folder, sound_runs, quantities, at_fault).items():
        differences += _run_check(file, check)
    if left_over:
        what = f"{plural(len(left_over), 'run')} ({shortened(', '.join(left_over), 100)}) that the report does not have"
        cure = "were they taken out of the campaign? move them away, or take them in again and make the report"
        differences.append(Difference("runs", "", f"{what}: {cure}"))
    return each_once(differences), len(runs), len(quantities)


def _runs_left_over(folder: Path, runs: list[RawRun]) -> list[str]:
    """Return the names of runs that runs.csv has no place for, as `repeats` or cells were taken away; [] without it."""
    try:
        rows = csv_of(folder / "runs.csv")
        cells = {row["cell"] for row in rows}
        last_repeat = max(int(row["repeat"]) for row in rows)
    except (OSError, *DAMAGES):  # the check of this table says so
        return []
    names = [run.name for run in runs if run.cell not in cells or int(run.metrics["repeat"]) > last_repeat]
    repeats = {f"rep{k}" for k in range(1, 1 + last_repeat)}
    empty = [place for place in folder.glob(PLACES) if place.name not in repeats and not (place / METRICS).exists()]
    return [*names, *(f"{place.parent.name}/{place.name}" for place in empty)]


def _with_differences_of_manifest(folder: Path, run_differences: list[Difference]) -> list[Difference]:
    """Return the differences of runs, manifest, signature and crate, without those that a renamed folder causes."""
    manifest_differences = _line_ends_once(check_manifest(folder))
    renamed_folders = tuple(f"{one.file}/" for one in manifest_differences if one.former_name)
    other_run_differences = [one for one in run_differences if not one.file.startswith(renamed_folders)]
    _, signature_differences = signer_of(folder)
    is_published = (folder / CAMPAIGN).exists() or (folder / CRATE).exists()
    crate_differences = _run_check(CRATE, lambda: stated.check_crate(folder)) if is_published else []
    return other_run_differences + manifest_differences + signature_differences + crate_differences


def _line_ends_once(differences: list[Difference]) -> list[Difference]:
    """Return the differences of a manifest, those of files whose line ends alone a checkout has changed as one."""
    files = [one.file for one in differences if LINE_ENDS in one.problem]
    if len(files) < 2:
        return differences
    problem = f"this and {plural(len(files) - 1, 'more file')} changed ({LINE_ENDS})"
    others = [one for one in differences if one.file not in files]
    return [*others, Difference(files[0], "sha256", f"{problem}; {OTHER_ENDS}")]


def _checks(folder: Path, runs: list[RawRun], quantities: recompute.Quantities, at_fault: set[str]) -> dict[str, Check]:
    """Return {name: check} of all checks, for `_run_check` to make. A name is a file, or a subject such as "fields".

    A check that cannot be made, as a file is missing or damaged, is reported under its name.
    `runs`: the runs of sound cells. `at_fault`: cells whose raw files are damaged, as is reported already; what
    follows from that is not reported.
    """

    def table(file: str) -> Check:
        return lambda: _table_differences(folder, file, runs, quantities, at_fault)

    checks: dict[str, Check] = {
        "fields": lambda: reports.check_left_out(folder),  # those that a file lacks
        "runs.csv": table("runs.csv"),
        "cells.csv": table("cells.csv"),
        REPORT: lambda: _report_differences(folder, runs, quantities, at_fault),
        "findings.json": lambda: reports.check_finding_codes(folder),
        "report.html": lambda: page.check_page(folder, quantities, runs, at_fault),
        "charts": lambda: charts.check_charts(folder, quantities, at_fault),
        "forecasts": lambda: reports.check_forecasts(folder),
        "campaign": lambda: reports.check_campaign_name(folder),
        "twice": lambda: reports.check_repeated(folder),  # entries that stand in a file more than once
        "tables/scaling.csv": table("tables/scaling.csv"),
    }
    optional_checks: dict[str, Check] = {  # of files that a campaign need not have
        "tables/strong.csv": table("tables/strong.csv"),
        "tables/weak.csv": table("tables/weak.csv"),
        CAMPAIGN: lambda: check_campaign_file(folder / CAMPAIGN, folder, runs, at_fault),
        "comparison.json": lambda: pairs.check_comparison(folder, runs),
        "traces.json": lambda: derived.check_traces(folder, runs),
        "waterfall.json": lambda: derived.check_waterfall(folder, runs, json_of(folder / REPORT)),
    }
    if at_fault:  # this check and all that follow need the runs of all cells
        del optional_checks["waterfall.json"]
    checks |= {file: check for file, check in optional_checks.items() if (folder / file).exists()}
    if at_fault:
        return checks

    is_publication = (folder / CAMPAIGN).exists() or (folder / stated.ENVIRONMENT).exists()
    if is_publication:  # then it has both: a missing environment.json is a difference
        checks[stated.ENVIRONMENT] = lambda: stated.check_environment(folder, runs)
    checks["losses.csv"] = lambda: losses.check_losses(folder, runs)
    checks["cells.csv: time to loss"] = lambda: losses.check_time_to_loss(folder, runs)
    if not is_rehearsal(folder.name):  # the page of a rehearsal claims nothing
        checks[CLAIMS] = lambda: _claims_differences(folder, quantities)
    return checks


def _table_differences(
    folder: Path, file: str, runs: list[RawRun], quantities: recompute.Quantities, at_fault: set[str]
) -> Iterator[Difference]:
    """Yield what a table of runs or cells has otherwise than its runs: figures, columns, settings, ranks."""
    check_figures = tables.check_runs_table if file == "runs.csv" else tables.check_cells_table
    yield from check_figures(folder, file, runs, quantities, at_fault)
    is_comparable = are_of_this_version(runs)
    if is_comparable and file in tables.COLUMNS_OF:
        yield from tables.check_columns(folder, file)
    yield from stated.check_settings(file, csv_of(folder / file), runs)
    if is_comparable and file == "tables/scaling.csv":
        yield from tables.check_places(folder, file, json_of(folder / REPORT))


def _claims_differences(folder: Path, quantities: recompute.Quantities) -> Iterator[Difference]:
    """Yield where claims.json differs from what the runs give; older schemas must have none."""
    report = json_of(folder / REPORT)
    if schema_of(report) >= INTERVALS_OF_ALL_CELLS:
        yield from claims.check_claims(folder, quantities, report)
    elif (folder / CLAIMS).exists():
        yield Difference(REPORT, "schema_version", "is of before there were claims, and there is claims.json")


def _report_differences(
    folder: Path, runs: list[RawRun], quantities: recompute.Quantities, at_fault: set[str]
) -> Iterator[Difference]:
    """Yield the values and conclusions of scaling_report.json that the runs do not give."""
    report = json_of(folder / REPORT)
    yield from reports.check_scaling_report(report, quantities, at_fault)
    yield from check_demands(folder, report)
    if schema_of(report) >= INTERVALS_OF_ALL_CELLS and not at_fault:  # families need the runs of all cells
        findings = json_of(folder / "findings.json")["findings"]
        yield from check_answer(answer_of(report, runs, reports.codes_above_note(findings)), runs, findings)
        yield from check_laws(report, runs)


def _run_check(file: str, check: Check) -> list[Difference]:
    """Return the differences of a check, or that `file` is missing or not readable: other checks go on."""
    try:
        return list(check())
    except FileNotFoundError as error:
        missing_name = Path(error.filename).name
        subject = "the file" if missing_name == Path(file).name else missing_name
        return [Difference(file, "", f"{subject} is missing")]
    except DAMAGES as error:
        unreadable_file, *_ = getattr(error, "__notes__", [file])  # json_of adds the name of the file that it read
        return [Difference(unreadable_file, "", f"{UNREADABLE}: {describe_first_fault(error)}")]


def why(path: Path, identity: str) -> str:
    """Return where the figure `identity` comes from: value, n, interval, formula, files with their hashes, in lines.

    Raises UserError where there is no such figure, with the likely reason or similar names.
    """
    folder = folder_of(path)
    _refuse_special_files(folder)
    runs, differences = read_runs(folder)
    differences = _with_differences_of_manifest(folder, differences)  # of runs that are lost, too
    at_fault = cells_at_fault(differences)
    runs = [run for run in runs if run.cell not in at_fault]
    quantities, incomputable = quantities_of(folder, runs)
    name = in_tokens(identity, runs)
    quantities |= {} if name in quantities else losses.times_to_loss(folder, runs)
    if name in quantities:
        return explain(identity, in_unit_of(quantities[name], runs), folder)

    if fault := _fault_of_cell(identity, differences + incomputable):
        raise UserError(f'"{identity}" cannot be explained: {fault}; how to mend it: scaleproof verify {folder}')
    reason = _absent_cell(identity, folder, runs)
    figures_with_part = [name for name in quantities if identity in name.split("/")]
    if not reason and figures_with_part:
        reason = f"; it is a part of several names. Figures: {', '.join(figures_with_part[:8])}"
    if not reason and at_fault:  # "cells/ddp-n1x2/speedup" needs its baseline, too
        reason = f", or it needs what is at fault: {next(one for one in differences if cells_at_fault([one]))}"
    if not reason:
        _check_report_is_readable(folder, quantities, runs)  # without the report the figures have no ratios
        reason = f".{_similar_figures(identity, quantities, folder)}"
    raise UserError(f'there is no figure "{identity}"{reason}')


def _fault_of_cell(identity: str, differences: list[Difference]) -> str:
    """Return what is wrong with the runs of the cell that `identity` names; "" where nothing is."""
    parts = set(identity.split("/"))
    return next((str(one) for one in differences if cells_at_fault([one]) & parts), "")


def _absent_cell(identity: str, folder: Path, runs: list[RawRun]) -> str:
    """Return that the cell in `identity` has no run (and which cells have), or no numbers; "" where it has some."""
    cells = sorted({run.cell for run in runs})
    cell, _, _ = identity.removeprefix("cells/").partition("/")
    if cell in cells and not any(run.ok for run in runs if run.cell == cell):
        return f": no run of {cell} has numbers; the logs are in {folder / 'runs' / cell}"
    if cell in cells or not cells or not identity.startswith("cells/"):
        return ""
    return f': no run of "{cell}" is in {folder / "runs"}.{did_you_mean(cell, cells)} Cells: {", ".join(cells)}'


def _check_report_is_readable(folder: Path, quantities: recompute.Quantities, runs: list[RawRun]) -> None:
    """Raise UserError where the report in `folder` is missing, or no ratios can be computed by it."""
    try:
        recompute.ratio_quantities(quantities, runs, json_of(folder / REPORT))
    except FileNotFoundError:
        raise missing_file(folder / REPORT) from None
    except (OSError, *DAMAGES) as error:
        raise damaged_file(folder / REPORT, describe_first_fault(error)) from None


def _similar_figures(identity: str, quantities: recompute.Quantities, folder: Path) -> str:
    """Return the name that `identity` may mean and its cell's or run's figures, else what lists those of a cell."""
    is_cell_or_run = any(name.startswith(f"{identity}/") for name in quantities)  # without the name of a figure
    prefix = f"{identity}/" if is_cell_or_run else f"{identity.rpartition('/')[0]}/"  # "cells/ddp-n1x2/"
    if columns := [name.removeprefix(prefix) for name in quantities if name.startswith(prefix)]:
        column = columns[0] if is_cell_or_run else nearest_name(identity.removeprefix(prefix), columns)
        if not is_cell_or_run and identity.endswith("_per_s"):  # samples, steps: of a command the rate has one name
            column = "tokens_per_s"
        nearest = column and f"{prefix}{column}"
        figures = ", ".join(columns)
    else:
        nearest = nearest_name(identity, quantities)
        first = next(iter(quantities), "cells/CELL/").rpartition("/")[0]
        figures = f"{', '.join([*quantities][:3])}, ... (all of a cell: scaleproof why {folder} {first})"
    hint = f' Did you mean "{nearest}"?' if nearest else ""
    return f"{hint} Figures: {figures}"
