"""What an upgrade or an edited campaign would measure again, why, and what that costs, before anything runs."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from scalebench.campaign.code_dependencies import MEASURING, code_sha256
from scalebench.campaign.loaded import LoadedCampaign
from scalebench.errors import UserError
from scalebench.record.metrics import Failed, Measured
from scalebench.record.run import METRICS, read_run


@dataclass(frozen=True)
class StaleRuns:
    """The runs of one campaign that the next `snakemake` would measure again."""

    campaign: str
    planned: int
    reasons: dict[str, int]  # why -> number of runs
    device_hours: float  # what they took when they were measured
    commits: tuple[str, ...]  # that they were measured at

    @property
    def runs(self) -> int:
        return sum(self.reasons.values())


def stale_runs(path: Path, results: Path) -> StaleRuns:
    """Compare the finished runs of a campaign with its file and with the code of today. Runs never made do not count.

    Raises UserError if the campaign is not valid.
    """
    loaded = LoadedCampaign(path)
    current_code = code_sha256(*MEASURING)
    reasons: Counter[str] = Counter()
    device_seconds = 0.0
    commits = set()
    planned = loaded.planned(results)
    for folder, cell, _ in planned:
        if not (folder / METRICS).is_file():
            continue
        try:
            metrics = read_run(folder).metrics
        except UserError:
            reasons["unreadable metrics"] += 1
            continue
        reason = _reason(metrics, cell.fingerprint, current_code)
        if reason:
            reasons[reason] += 1
            device_seconds += (metrics.total_wall_time_s or 0.0) * cell.execution.geometry.n_devices
            commits.add(metrics.git_commit[:10])
    return StaleRuns(loaded.name, len(planned), dict(reasons), device_seconds / 3600, tuple(sorted(commits)))


def _reason(metrics: Measured | Failed, fingerprint: str, current_code: str) -> str | None:
    if metrics.fingerprint != fingerprint:
        return "its configuration changed"
    if metrics.code_sha256 != current_code:
        return "code that takes part in a run changed"
    return None


def stale_text(stale: StaleRuns) -> str:
    """The answer for one campaign, with what to do."""
    if not stale.runs:
        return f"{stale.campaign}: no finished run would be measured again"
    why = "; ".join(f"{count} because {reason}" for reason, count in stale.reasons.items())
    report = f"results/{stale.campaign}/report.html"
    return (
        f"{stale.campaign}: {stale.runs} of {stale.planned} runs would be measured again "
        f"({stale.device_hours:.3g} device hours): {why}; measured at "
        f"{', '.join(stale.commits) or 'an unknown commit'}\n"
        f"  to measure them again: snakemake {report}\n"
        f"  to keep them: snakemake --touch {report}; each run keeps the hash of the code that measured it, and no "
        "ratio is\n"
        f"  formed between runs of different code"
    )
