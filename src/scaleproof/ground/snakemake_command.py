"""The command by which a campaign goes on: with the profile by which it was run, wherever it is asked for.

Without it, the advice below the results of a cluster would measure further repeats on the login node.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from scaleproof.ground.json_faults import read_part

SNAKEFILE = (Path(__file__).parents[1] / "workflow_files/workflow/Snakefile").resolve()  # this package's own
NOTE = "logs/snakemake.json"  # of a campaign's folder: how the last Snakemake that sent its jobs elsewhere was started
PROFILE = "slurm"  # of a cluster, where nothing else is said
HERE, ON_CLUSTER = "--cores 2", f"--profile {PROFILE}"
RESULTS = Path("results")  # where no option says otherwise
MEASURED_BESIDE = ("compare", "reference", "sweep", "traces")  # folders of results beside runs, which are no page's


def snakemake_command(target: Path | str) -> str:
    """Return the command that makes `target`, a file below results/."""
    return f"snakemake {options_for(Path(target))} {target}"


def derive_again_command(page: Path) -> str:
    """Return the command that makes again what is derived of a campaign with this page, and trains nothing."""
    return f"snakemake {options_for(page)} {force_tables(page.parent)}{page}"


def make_again_command(page: Path, files: Iterable[Path | str]) -> str:
    """Return the command that makes `files` of a campaign again, and then its page, whatever Snakemake thinks."""
    return f"snakemake {options_for(page)} --forcerun {' '.join(map(str, files))} -- {page}"


def force_tables(campaign: Path | str) -> str:
    """Return the options that force the table of runs and the findings of a folder, from which all else is made.

    Snakemake makes runs that are missing before. Files are named, as rules of a module may have a prefix.
    """
    return f"--forcerun {campaign}/runs.csv {campaign}/findings.json -- "


def results_target(results: Path) -> str:
    """Return the folder of all results as targets name it: "results" for an absolute path, which stays private."""
    return str(RESULTS if results.is_absolute() else results)


def results_option(results: Path | str) -> str:
    """Return the option of scaleproof's commands for results in another folder than usual, after a blank; else ""."""
    return "" if Path(results) == RESULTS else f" --results {results}"


def options_for(target: Path) -> str:
    """Return Snakemake's options for `target`: as its campaign was run (by NOTE, or by a run), else for one machine."""
    for folder in (target, *target.parents):
        noted = read_part(folder / NOTE, lambda note: str(note["options"]))
        if options := noted or _recorded_options(folder):
            return options
    return HERE


def _recorded_options(campaign: Path) -> str | None:
    """Return Snakemake's options by the first readable record of a run.

    Returns None where there is no such record, or where Slurm did not start that run.
    """
    for path in (campaign / "runs").glob("*/*/training_metrics.json"):
        # A list, so that a run without Slurm, [None], is told from an unreadable record, None.
        if options := read_part(path, lambda record: [options_of_runs([record["scheduler"]])]):
            return options[0]
    return None


def options_of_runs(schedulers: Iterable[Mapping[str, str] | None]) -> str | None:
    """Return Snakemake's options by the `schedulers` in records of runs; None where there was none."""
    return ON_CLUSTER if any(scheduler and scheduler.get("type") == "slurm" for scheduler in schedulers) else None
