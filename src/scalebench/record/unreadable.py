"""A planned run whose metrics are damaged: a run without numbers, so that all others can be looked at."""

from pathlib import Path

from scalebench.campaign.cells import Cell
from scalebench.record.metrics import Failed, Failure, FailureClass, TrainingConfig
from scalebench.record.run import METRICS, DamagedMetrics, Run, read_planned

UNREADABLE: FailureClass = "unreadable"


def planned_run(folder: Path, campaign: str, cell: Cell, repeat: int) -> Run:
    """The run of `cell` that was planned in `folder`, without numbers where its metrics are damaged.

    Raises UserError where there are none, or those of another run.
    """
    try:
        return read_planned(folder, cell.slug, repeat, cell.fingerprint)
    except DamagedMetrics as error:
        reason = str(error).replace(str(folder / METRICS), f"{cell.slug}/{folder.name}/{METRICS}")
        return Run(folder, without_numbers(campaign, cell, repeat, reason))


def without_numbers(campaign: str, cell: Cell, repeat: int, reason: str) -> Failed:
    """What is known of a run without its file: the plan."""
    return Failed(
        failure=Failure(failure_class=UNREADABLE, reason=reason),
        run_id="unknown",
        timestamp_utc="unknown",
        campaign=campaign,
        cell=cell.slug,
        repeat=repeat,
        fingerprint=cell.fingerprint,
        config=cell.config,
        git_commit="unknown",
        git_dirty=None,
        code_sha256="unknown",
        command_line="unknown",
        env={},
        host={"hostname": "unknown", "os": "unknown"},
        hardware={},
        data={"vocab_size": cell.vocab_size},
        training_config=TrainingConfig.of(
            cell,
            model_name=str(cell.config["workload"]["model"]),
            model_size="unknown",
            dataset_name=str(cell.config["workload"]["corpus"]),
            dataset_subset_sizes={},
        ),
    )
