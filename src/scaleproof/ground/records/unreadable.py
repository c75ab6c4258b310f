"""A planned run whose metrics are damaged: a run without numbers, so that all others can be looked at."""

from pathlib import Path

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.records.metrics import UnreadableRun
from scaleproof.ground.records.run import METRICS, DamagedMetrics, Run, read_planned
from scaleproof.ground.records.run_sections import Failure, FailureClass, TrainingConfig

UNREADABLE: FailureClass = "unreadable"
CONFIG_EDITED = "config is not what the fingerprint beside it stands for; it was edited"


def read_or_mark_unreadable(folder: Path, campaign: str, cell: Cell, repeat: int) -> Run:
    """Return the run of `cell` planned in `folder`; without numbers where its metrics are damaged or its config edited.

    Raises UserError where the folder has no metrics, or metrics of another run.
    """
    try:
        run = read_planned(folder, cell, repeat)
    except DamagedMetrics as error:
        return unreadable_run(folder, campaign, cell, repeat, str(error))
    if run.metrics.config != cell.config:  # though the fingerprint is the planned one
        return unreadable_run(folder, campaign, cell, repeat, f"{folder / METRICS}: {CONFIG_EDITED}")
    return run


def unreadable_run(folder: Path, campaign: str, cell: Cell, repeat: int, problem: str) -> Run:
    """Return the run that was planned in `folder`, as one without numbers. `problem`: what its metrics lack."""
    reason = problem.replace(str(folder / METRICS), f"{cell.slug}/{folder.name}/{METRICS}")
    return Run(folder, make_unreadable_run(campaign, cell, repeat, reason))


def make_unreadable_run(campaign: str, cell: Cell, repeat: int, reason: str) -> UnreadableRun:
    """Return the metrics of a planned run whose file is damaged: its plan, and `reason`, why it has no numbers."""
    return UnreadableRun(
        failure=Failure(failure_class=UNREADABLE, reason=reason),
        campaign=campaign,
        cell=cell.slug,
        repeat=repeat,
        fingerprint=cell.fingerprint,
        config=cell.config,
        data={"vocab_size": cell.vocab_size},
        training_config=TrainingConfig.for_cell(
            cell,
            model_name=str(cell.config["workload"]["model"]),
            model_size="unknown",
            dataset_name=str(cell.config["workload"]["corpus"]),
            dataset_subset_sizes={},
        ),
    )


def is_readable(run: Run) -> bool:
    """Return whether the record of a run says when and where it ran."""
    return not isinstance(run.metrics, UnreadableRun)
