"""Jobs that a driver has sent, and how they ended: results/<campaign>/jobs.jsonl, a line for each step of a job."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ValidationError

if TYPE_CHECKING:  # each Snakemake imports this file; the schemas of all records would take a third of its start
    from scaleproof.ground.records.run import Run

FILE = "jobs.jsonl"


class LedgerEntry(BaseModel, extra="ignore", frozen=True):
    """A job: what it makes, and what became of it. Moments are UTC."""

    id: str
    makes: str
    fingerprint: str = ""  # of the cells that it was sent for
    submitted: str
    ended: str | None = None
    state: str = "SUBMITTED"
    reason: str = ""


def read_ledger(path: Path) -> list[LedgerEntry]:
    """Return the entries of a ledger. Lines that a crash or a full disk has cut off are skipped; [] without a file."""
    entries = []
    for line in path.read_text().splitlines() if path.is_file() else ():
        try:
            entries.append(LedgerEntry.model_validate(json.loads(line)))
        except (ValueError, ValidationError):
            continue
    return entries


def job_end_counts(runs: "Iterable[Run]") -> str:
    """Return how the jobs of `runs` ended, in the scheduler's words: "3 COMPLETED, 1 NODE_FAIL".

    Returns "" where unknown. The campaign's ledger says it, because a run's own record is written before its job ends.
    """
    jobs = set()  # (ledger of the campaign, number of the job) of each run
    for run in runs:  # its folder is CAMPAIGN/runs/CELL/REPEAT
        ledger = run.folder.absolute().parent.parent.parent / FILE
        jobs.add((ledger, str((run.metrics.scheduler or {}).get("job_id"))))
    # A ledger has a line for each step of a job: its last line replaces those before it.
    last = {(path, entry.id): entry for path in {path for path, _ in jobs} for entry in read_ledger(path)}
    ends = Counter(last[job].state if last[job].ended else "unknown" for job in sorted(jobs & last.keys()))
    return ", ".join(f"{number} {state}" for state, number in ends.most_common())
