"""What one audit collects while it reads files, and how a run is added to it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scaleproof.auditor.read.reported import Evidence, ReportedRun
from scaleproof.auditor.read.text_files import UnreadableFile
from scaleproof.auditor.read.tracker_series import PREFIX

# Names that say nothing about a run: it goes by its folder.
GENERIC = {
    *("training_metrics.json", "metrics.csv", "metrics.json", "step_log.csv", "gpu_log.csv"),
    *("trainer_state.json", "train.log", "scaling_report.json", "results.json", "output.log"),
    *("log.txt", "stdout.txt", "summary.json", "wandb-summary.json", "results.csv"),
}
NO_NUMBERS = ("failed", "not_applicable")


@dataclass
class Reading:
    """What one call of `gather` collects along the way."""

    evidence: Evidence
    # (folder, facts by a part of a run's name) of each claims file
    claims_of_folders: list[tuple[str, dict[str, dict[str, Any]]]] = field(default_factory=list)
    launchers: dict[str, dict[str, Any]] = field(default_factory=dict)  # folder -> launcher's record
    paths: dict[str, Path] = field(default_factory=dict)  # name -> file, of all that was read
    settings: list[str] = field(default_factory=list)  # files of settings, which say what was meant, and are not read


def add_run(reading: Reading, run: ReportedRun, path: Path) -> None:
    """Add a run of a file. Raises UnreadableFile where it has neither a time nor a loss."""
    figures = run.timed_spans or run.logged_steps or run.rank_losses or run.steps_per_s
    if not figures and run.details.get("status") not in NO_NUMBERS:
        problems = f"; {'; '.join(run.problems[:3])}" if run.problems else ""
        raise UnreadableFile(f"it is a {run.format} without a single timed step or epoch{problems}")
    file, _, part = run.name.partition("#")
    run.files = [file]
    run.details["folder"] = str(path.parent)
    generic = path.name in GENERIC or PREFIX in path.name
    if generic and Path(file).parent != Path("."):
        run.name = str(Path(file).parent) + (f"#{part}" if part else "")
    reading.paths[file] = path
    reading.evidence.runs.append(run)
