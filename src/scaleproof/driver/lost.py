"""What results were made from and is gone, and the shortest command that makes it again.

Snakemake looks no further than the next file, unless it is asked for the others.
"""

from collections.abc import Collection, Mapping
from pathlib import Path

from scaleproof.driver.snakemake_view import Seen
from scaleproof.ground.campaign.loaded import LoadedCampaign, asks_for_more_repeats, look_file, run_dir
from scaleproof.ground.errors import plural
from scaleproof.ground.records.lost_results import lost_results, lost_text, records_without_runs
from scaleproof.ground.records.run import METRICS
from scaleproof.ground.snakemake_command import options_for

MOST_NAMED = 6  # jobs that a command names one by one
DRAWN = ("tables", "charts")  # folders of what nothing else is made from but the page


def lost_files(loaded: LoadedCampaign, results: Path, drawn: Collection[str]) -> list[Path]:
    """Return what is missing behind the results of a campaign. `drawn`: the names of its tables and charts."""
    of_jobs = [path for missing in records_without_runs(loaded, results).values() for path in missing]
    return [*lost_results(loaded, results, drawn), *_looks_due(loaded, results), *of_jobs]


def _looks_due(loaded: LoadedCampaign, results: Path) -> list[Path]:
    """Return the look behind a table of runs that `repeats.resolve` asks for, if it has not been taken."""
    rule = loaded.campaign.repeat_until
    if rule is None or not (results / loaded.name / "runs.csv").is_file():
        return []
    looks = [look_file(results, loaded.name, n) for n in rule.looks()[:-1]]
    ending = next((look for look in looks if not asks_for_more_repeats(look)), None)
    return [ending] if ending and not ending.is_file() else []


def lost_advice(
    loaded: LoadedCampaign, results: Path, lost: Collection[Path], view: Mapping[Path, Seen] | None = None
) -> str:
    """Return which files are missing, and what to type; one file of each job is asked for.

    `view`: of Snakemake, which knows what one job makes.
    """
    folder = results / loaded.name
    report = folder / "report.html"
    records = records_without_runs(loaded, results)  # of jobs that Snakemake holds for done
    of_records = {path for missing in records.values() for path in missing}
    targets: dict[tuple[str, Path], Path] = {}  # rule and folder -> the first file
    for path in lost:
        if path not in of_records:
            rule = view[path].rule if view and path in view else path.stem
            targets.setdefault((rule, path.parent), path)
    forced, asked = [str(record) for record in records], [str(path) for path in targets.values()]
    if len(forced) + len(asked) > MOST_NAMED:
        of_runs = forced if len(forced) <= MOST_NAMED else ["shared_job"]
        forced, asked = [*of_runs, str(folder / "runs.csv"), str(folder / "findings.json")], []
    if forced or any(path.parent.name not in DRAWN for path in lost):
        asked.append(str(report))
    words = [options_for(report), *(["--forcerun", *forced, "--"] if forced else []), *asked]
    return f"{loaded.name}: {lost_text(lost)}\n  to make what is missing again: snakemake {' '.join(words)}"


def ended_early_text(loaded: LoadedCampaign, results: Path, planned: Collection[Path]) -> str | None:
    """Return how a campaign goes on whose Snakemake was stopped or has failed; None where no run is left.

    `planned`: all that it was to make. A run that is gone and was not planned needs another command.
    """
    records = loaded.records(results)
    unplanned = (missing for record, missing in records_without_runs(loaded, results).items() if record not in planned)
    lost = [path for missing in unplanned for path in missing]
    lost += [path for path in lost_results(loaded, results, ()) if path.name == METRICS and path not in planned]
    if lost:
        return lost_advice(loaded, results, lost)
    runs = [folder for folder in loaded.runs(results) if folder / METRICS in planned]
    for record in records.keys() & planned:
        runs += [run_dir(results, loaded.name, cell.slug, repeat) for cell, repeat in records[record].runs]
    left = sum(not (folder / METRICS).is_file() for folder in runs)
    total = plural(len(loaded.runs(results)), "run")
    return f"{left} of {total} of {loaded.name} left; the same command goes on with them" if left else None
