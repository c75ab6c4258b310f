"""What was sent to a scheduler and how it ended: results/<campaign>/jobs.jsonl, a line for each step of a job.

The only memory of what is in the queue. A driver that was killed leaves it behind, and the next one reads it.
"""

from pathlib import Path
from typing import Any

from scaleproof.ground.files import now_utc
from scaleproof.ground.records.jobs import FILE, LedgerEntry, read_ledger

ELSEWHERE = "job-logs"  # the folder of results/ for jobs of no campaign: corpora and tokens


class Ledger:
    """The jobs of all campaigns below a folder of results. The last line of a job counts."""

    def __init__(self, results: Path) -> None:
        """Read what earlier drivers have sent. `results`: the folder of all campaigns."""
        self._results = results
        self._entries: dict[str, LedgerEntry] = {}
        self._files: dict[str, Path] = {}
        for path in sorted(results.glob(f"*/{FILE}")):
            for entry in read_ledger(path):
                self._entries[entry.id] = entry
                self._files[entry.id] = path

    @property
    def open(self) -> dict[str, LedgerEntry]:
        """Number -> entry of the jobs that have not ended, as far as is known."""
        entries = list(self._entries.items())  # a copy, because another thread may add jobs meanwhile
        return {number: entry for number, entry in entries if entry.ended is None}

    def outputs_of(self, number: str) -> str:
        """Return the files that a job makes, as `outputs_text`. Returns "" for a job that is not in the ledger."""
        return self._entries[number].makes if number in self._entries else ""

    def note_submitted(self, number: str, job: Any) -> None:
        """Write down a job of Snakemake that was submitted under the scheduler's id `number`."""
        campaign = getattr(getattr(job, "wildcards", None), "campaign", None)
        params = getattr(job, "params", {})
        fingerprint = params.get("fingerprint") or params.get("fingerprints") or ""  # of one run, or of several
        self._files[number] = self._results / (campaign or ELSEWHERE) / FILE
        text = fingerprint if isinstance(fingerprint, str) else " ".join(map(str, fingerprint))
        self._write(LedgerEntry(id=number, makes=outputs_text(job), fingerprint=text, submitted=now_utc()))

    def note_ended(self, number: str, state: str, reason: str = "") -> None:
        """Write down the end of job `number`: `state` and `reason` in the scheduler's words. The first end counts."""
        entry = self._entries.get(number)
        if entry and entry.ended is None:
            self._write(entry.model_copy(update={"ended": now_utc(), "state": state, "reason": reason}))

    def _write(self, entry: LedgerEntry) -> None:
        self._entries[entry.id] = entry
        path = self._files[entry.id]
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(entry.model_dump_json() + "\n")


def outputs_text(job: Any) -> str:
    """Return the files that a job of Snakemake makes, as one text that identifies the job."""
    return " ".join(map(str, job.output))
