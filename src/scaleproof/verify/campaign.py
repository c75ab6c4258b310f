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
from scaleproof.ground.number_format import significant
from scaleproof.ground.snakemake_command import RESULTS, snakemake_command
from scaleproof.verify import charts, claims, derived, fields, page, pairs, recompute, reports, stated, tables
from scaleproof.verify.answer import check_answer
from scaleproof.verify.campaign_file import are_of_this_version, check_campaign_file, check_demands
from scaleproof.verify.contents import DAMAGES, REPORT, csv_of, json_of, schema_of
from scaleproof.verify.laws import check_laws
from scaleproof.verify.manifest import CAMPAIGN, FILES, MANIFEST, RENAMED, check_manifest
from scaleproof.verify.raw import Difference, RawRun, cells_at_fault, read_runs
from scaleproof.verify.raw_cells import answer_of, ratio_bounds
from scaleproof.verify.signature import signer_of

ARCHIVES = (".zip", ".gz", ".tgz", ".tar", ".zst", ".xz", ".7z")
INTERVALS_OF_ALL_CELLS = (5, 1)  # schema from which on the interval of a rate has the noise of all cells

Check = Callable[[], Iterator[Difference]]


def folder_of(path: Path) -> Path:
    """Return the folder of a campaign's results, given as itself or as one of its own files, such as report.html.

    Raises UserError if it is none: a page that only lies there is not what is verified.
    """
    folder = path.parent if path.is_file() else path
    if not (folder / "runs").is_dir():
        what = _not_results(path, folder)
        raise UserError(f"{path} is no campaign's results: {what}; give results/<campaign>.{_campaign_hint(path)}")
    if path != folder and path.name not in (*FILES, MANIFEST):
        raise UserError(f"{path} is none of the files that are verified with {folder}; give that folder")
    return folder


def _not_results(path: Path, folder: Path) -> str:
    """Return in words why `path`, in `folder` or the same, is no campaign's results."""
    fault = path_fault(path)
    if fault:
        return fault.removesuffix(nearest_path(path)).strip(" :.")
    if path.is_file() and not path.stat().st_size:
        return "it is an empty file"
    if path.suffix in ARCHIVES:
        return "it is an archive; unpack it"
    return f"there is no folder {folder / 'runs'}"


def _campaign_hint(path: Path) -> str:
    """Return a sentence with the results that a wrong path may mean; "" where there are none.

    They are the results that it lies in, else those of a campaign of its name; if it is not there, the nearest path;
    else all results in it, or in results/.
    """
    candidates = [parent for parent in path.parents if (parent / "runs").is_dir()]
    if (RESULTS / path.stem / "runs").is_dir():
        candidates.append(RESULTS / path.stem)
    if candidates:
        return f' Did you mean "{candidates[0]}"?'
    if not os.path.lexists(path):
        return nearest_path(path)
    parent = path if path.is_dir() and any(path.glob("*/runs")) else RESULTS
    results = sorted(str(runs.parent) for runs in parent.glob("*/runs/"))
    return f" Results there: {', '.join(results[:10])}" if results else ""


def quantities_of(folder: Path, runs: list[RawRun]) -> tuple[recompute.Quantities, list[Difference]]:
    """Return all figures that `runs` give, and a difference for each cell that gives none.

    Without a readable report in `folder`, which names baselines, there are no ratios and no intervals.
    """
    quantities: recompute.Quantities = {}
    differences = []
    for cell, group in recompute.by_cell(runs).items():
        try:
            quantities |= recompute.cell_quantities(group) | recompute.run_quantities(group)
        except DAMAGES as error:
            problem = f"no figure can be computed from its runs: {describe_first_fault(error)}"
            differences.append(Difference(f"runs/{cell}", "", problem))
    try:
        report = json_of(folder / REPORT)
        if schema_of(report) < INTERVALS_OF_ALL_CELLS:  # each cell has an interval of its own, a ratio has none
            return quantities | recompute.ratio_quantities(quantities, runs, report), differences
        quantities = recompute.with_pooled_intervals(quantities, runs)
        quantities |= recompute.ratio_quantities(quantities, runs, report)
        return recompute.with_bounds(quantities, ratio_bounds(answer_of(report, runs, {}))), differences
    except (OSError, *DAMAGES):  # the check of the report says what is wrong with it
        return recompute.without_intervals(quantities), differences


def _check_regular(folder: Path) -> None:
    """Raise UserError for a pipe, a socket or a device in the folder: reading it would wait or go on for ever."""
    for path in folder.rglob("*"):
        if path.exists() and not path.is_file() and not path.is_dir():
            raise UserError(f"{path}{path_fault(path)}")


def verify(path: Path, with_manifest: bool = True) -> tuple[list[Difference], int, int]:
    """Recompute a campaign's figures from its raw files and hold all other files against them.

    Returns what differs, how many runs were read, and how many figures recomputed. Raises UserError where `path` is no
    campaign's results.
    """
    folder = folder_of(path)
    _check_regular(folder)
    runs, differences = read_runs(folder)
    if not runs and not differences:
        raise UserError(f"{folder}/runs has no run")
    if not any((folder / name).exists() for name in (MANIFEST, REPORT, "report.html", "runs.csv")):
        problem = f"there is no report yet; it is made by: {snakemake_command(folder / 'report.html')}"
        return [*differences, Difference("report.html", "", problem)], len(runs), 0
    left_over = _runs_left_over(folder, runs)
    if with_manifest:
        known = {(difference.file, "sha256") for difference in differences if difference.where == "sha256"}
        of_manifest = [one for one in check_manifest(folder) if (one.file, one.where) not in known]
        renamed = tuple(f"{one.file}/" for one in of_manifest if one.problem.startswith(RENAMED))
        differences = [one for one in differences if not one.file.startswith(renamed)] + of_manifest
        _, faults_of_signature = signer_of(folder)
        differences += faults_of_signature
    if left_over:
        runs = [run for run in runs if run.name not in left_over]
        of_these = tuple(f"runs/{name}/" for name in left_over)
        differences = [one for one in differences if not one.file.startswith(of_these)]
    at_fault = cells_at_fault(differences)
    sound = [run for run in runs if run.cell not in at_fault]
    quantities, incomputable = quantities_of(folder, sound)
    differences += incomputable
    if at_fault or incomputable:  # the interval of a rate may need the runs of other cells
        quantities = recompute.without_intervals(quantities)
    for file, check in _checks(folder, sound, quantities, at_fault).items():
        differences += _run_check(file, check)
    if left_over:
        what = f"{plural(len(left_over), 'run')} ({shortened(', '.join(left_over), 100)}) that the report does not have"
        cure = "were they taken out of the campaign? move them away, or take them in again and make the report"
        differences.append(Difference("runs", "", f"{what}: {cure}"))
    return list(dict.fromkeys(differences)), len(runs), len(quantities)


def _runs_left_over(folder: Path, runs: list[RawRun]) -> list[str]:
    """Return the names of runs beyond the repeats and cells of runs.csv, as after fewer `repeats`; [] without it."""
    try:
        rows = csv_of(folder / "runs.csv")
        cells, most = {row["cell"] for row in rows}, max(int(row["repeat"]) for row in rows)
    except (OSError, *DAMAGES):  # the check of this table says so
        return []
    return [run.name for run in runs if run.cell not in cells or int(run.metrics["repeat"]) > most]


def _checks(folder: Path, runs: list[RawRun], quantities: recompute.Quantities, at_fault: set[str]) -> dict[str, Check]:
    """Return all checks, by the file (or the subject) that is named where a check cannot read it.

    `runs`: those of sound cells; `at_fault`: cells whose raw files differ, which is reported already: what follows from
    them is not.
    """

    def table(file: str, figures: Iterator[Difference]) -> Iterator[Difference]:
        yield from figures
        is_comparable = are_of_this_version(runs)
        if is_comparable and file in tables.COLUMNS_OF:
            yield from tables.check_columns(folder, file)
        yield from stated.check_settings(file, csv_of(folder / file), runs)
        if is_comparable and file == "tables/scaling.csv":
            yield from tables.check_places(folder, file, json_of(folder / REPORT))

    def table_of_cells(file: str) -> Check:
        return lambda: table(file, tables.check_cells_table(folder, file, runs, quantities, at_fault))

    checks: dict[str, Check] = {
        "runs.csv": lambda: table("runs.csv", tables.check_runs_table(folder, runs, quantities, at_fault)),
        "cells.csv": table_of_cells("cells.csv"),
        REPORT: lambda: _report_differences(folder, runs, quantities, at_fault),
        "findings.json": lambda: reports.check_finding_codes(folder),
        "report.html": lambda: page.check_page(folder, quantities, runs, at_fault),
        "charts": lambda: charts.check_charts(folder, quantities, at_fault),
        "forecasts": lambda: reports.check_forecasts(folder),
        "campaign": lambda: reports.check_campaign_name(folder),
        "fields": lambda: fields.check_left_out(folder),
        "twice": lambda: fields.check_repeated(folder),
        "tables/scaling.csv": table_of_cells("tables/scaling.csv"),
    }
    where_they_are: dict[str, Check] = {  # files that a campaign need not have
        "tables/strong.csv": table_of_cells("tables/strong.csv"),
        "tables/weak.csv": table_of_cells("tables/weak.csv"),
        CAMPAIGN: lambda: check_campaign_file(folder / CAMPAIGN, folder, runs, at_fault),
        "comparison.json": lambda: pairs.check_comparison(folder, runs),
        "traces.json": lambda: derived.check_traces(folder, runs),
        "waterfall.json": lambda: derived.check_waterfall(folder, runs, json_of(folder / REPORT)),
    }
    if at_fault:  # this check and all that follow need the runs of all cells
        del where_they_are["waterfall.json"]
    checks |= {file: check for file, check in where_they_are.items() if (folder / file).exists()}
    if at_fault:
        return checks
    if (folder / CAMPAIGN).exists() or (folder / stated.ENVIRONMENT).exists():  # a publication has both
        checks[stated.ENVIRONMENT] = lambda: stated.check_environment(folder, runs)
    checks["losses.csv"] = lambda: derived.check_losses(folder, runs)
    checks["cells.csv: time to loss"] = lambda: derived.check_time_to_loss(folder, runs)
    if not is_rehearsal(folder.name):  # whose page claims nothing
        checks[claims.FILE] = lambda: _claims_differences(folder, quantities)
    return checks


def _claims_differences(folder: Path, quantities: recompute.Quantities) -> Iterator[Difference]:
    """Yield where claims.json differs from what the runs give, or that it stands beside a report older than claims."""
    report = json_of(folder / REPORT)
    if schema_of(report) >= INTERVALS_OF_ALL_CELLS:
        yield from claims.check_claims(folder, quantities, report)
    elif (folder / claims.FILE).exists():
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
        name = Path(error.filename).name
        return [Difference(file, "", f"{'the file' if name == Path(file).name else name} is missing")]
    except DAMAGES as error:
        file = getattr(error, "__notes__", [file])[0]  # `json_of` notes which file: a check may read several
        return [Difference(file, "", f"not readable: {describe_first_fault(error)}")]


def why(path: Path, identity: str) -> str:
    """Return where the figure `identity` comes from: value, n, interval, formula, files with their hashes, in lines.

    Raises UserError where there is no such figure, with the likely reason or similar names.
    """
    folder = folder_of(path)
    _check_regular(folder)
    runs, differences = read_runs(folder)
    at_fault = cells_at_fault(differences)
    quantities, incomputable = quantities_of(folder, [run for run in runs if run.cell not in at_fault])
    if identity in quantities:
        return _explain(identity, quantities[identity], folder)
    unknown = f'there is no figure "{identity}"'
    for difference in (*differences, *incomputable):
        _, damaged_cell, *_ = difference.file.split("/")  # runs/<cell>/...
        if damaged_cell in identity.split("/"):
            raise UserError(f"{unknown}: {difference}")
    cells = sorted({run.cell for run in runs})
    cell, _, _ = identity.removeprefix("cells/").partition("/")
    if identity.startswith("cells/") and cells and cell not in cells:
        hint = f"{did_you_mean(cell, cells)} Cells: {', '.join(cells)}"
        raise UserError(f'{unknown}: no run of "{cell}" is in {folder / "runs"}.{hint}')
    containing = [name for name in quantities if identity in name.split("/")]
    if containing:
        raise UserError(f"{unknown}; it is a part of several names. Figures: {', '.join(containing[:8])}")
    try:  # the report names ratios: for want of it a figure may be unknown
        recompute.ratio_quantities(quantities, runs, json_of(folder / REPORT))
    except FileNotFoundError:
        raise missing_file(folder / REPORT) from None
    except (OSError, *DAMAGES) as error:
        raise damaged_file(folder / REPORT, describe_first_fault(error)) from None
    raise UserError(f"{unknown}.{_similar_figures(identity, quantities)}")


def _similar_figures(identity: str, quantities: recompute.Quantities) -> str:
    """Return the name that `identity` may mean, and the figures of the same cell or run, or without these, examples."""
    is_whole = any(name.startswith(f"{identity}/") for name in quantities)  # it is a cell or a run, without a figure
    around = identity if is_whole else identity.rpartition("/")[0]
    beside = [name.removeprefix(f"{around}/") for name in quantities if name.startswith(f"{around}/")]
    if beside:
        column = nearest_name(identity.removeprefix(f"{around}/"), beside)
        meant, figures = column and f"{around}/{column}", beside
    else:
        meant, figures = nearest_name(identity, quantities), [*list(quantities)[:3], "..."]
    hint = f' Did you mean "{meant}"?' if meant else ""
    return f"{hint} Figures: {', '.join(figures)}"


def _explain(identity: str, quantity: recompute.RecomputedQuantity, folder: Path) -> str:
    """Return a figure with its formula and the files that it is from, in lines."""
    interval = ""
    if quantity.low is not None and quantity.high is not None:
        interval = f", 95 % CI {significant(quantity.low, 7)} to {significant(quantity.high, 7)}"
    lines = [
        identity,
        f"  value    {significant(quantity.value, 7)}{interval}, n={quantity.n}",
        f"  formula  {quantity.formula}",
        *(f"  from     {folder}/{path}  sha256 {sha256}" for path, sha256 in quantity.sources),
        f"  check    scaleproof verify {folder}",
    ]
    return "\n".join(lines)
