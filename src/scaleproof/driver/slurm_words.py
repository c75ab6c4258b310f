"""What Slurm says of a job that did not end well, on the console: the plugin, which asks squeue, does not know why."""

import sys

from scaleproof.measure.machine.slurm import describe

WELL = ("PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "COMPLETING", "COMPLETED", "REQUEUED", "UNKNOWN")


class SlurmsWords:
    """Says it once of each job."""

    def __init__(self) -> None:
        self._named: set[str] = set()

    def hear(self, states: dict[str, str]) -> None:
        """Take note of the states of jobs."""
        for job, state in states.items():
            if state in WELL or job in self._named:
                continue
            self._named.add(job)
            facts = describe(job, patience=(0,))
            if facts:
                print(f"Slurm says of job {job}: {in_words(facts)}", file=sys.stderr)


def in_words(facts: dict[str, str]) -> str:
    """State, place, reason and exit code: "FAILED on n1, NonZeroExitCode, exit code 1"."""
    code, _, signal = facts.get("ExitCode", "").partition(":")
    entries = [
        facts.get("JobState", "no state") + (f" on {facts['NodeList']}" if facts.get("NodeList") else ""),
        facts.get("Reason", "None").replace("None", ""),
        f"limit {facts['TimeLimit']}" if facts.get("JobState") == "TIMEOUT" and facts.get("TimeLimit") else "",
        f"exit code {code}" if code.strip("0") else "",
        f"signal {signal}" if signal.strip("0") else "",
    ]
    return ", ".join(filter(None, entries))
