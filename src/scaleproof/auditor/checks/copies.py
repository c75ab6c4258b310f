"""Are repeats runs of their own?"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from scaleproof.auditor.checks.context import AuditContext, of_evidence
from scaleproof.auditor.read.logged_steps import Figures
from scaleproof.auditor.read.reported import REPEAT, ReportedRun
from scaleproof.ground.findings.registry import Flag
from scaleproof.ground.findings.shared_codes import RUN_COPIED

DIGITS = 8  # significant ones of one time, from which two measurements never agree by chance
STEPS = 10  # of a series, and DISTINCT different times in it
DISTINCT = 5


@of_evidence.check(RUN_COPIED)
def repeats_are_no_copies(context: AuditContext) -> Iterator[Flag]:
    """Runs whose names differ only by their repeat were measured one by one."""
    configurations: dict[tuple[str, str], list[ReportedRun]] = defaultdict(list)
    for run in context.runs:
        # Where a folder of repeats is audited by itself, the whole name is a repeat.
        name = "" if REPEAT.fullmatch(run.name.lower()) else run.name_without_repeat
        configurations[name, run.format].append(run)
    for repeats in configurations.values():
        for first, second in combinations(repeats, 2):
            what_agrees = same_measurement(first, second)
            if what_agrees and first.name != second.name:
                yield Flag(f"{first.name} and {second.name} have the same {what_agrees}", [first, second])


def same_measurement(a: ReportedRun, b: ReportedRun) -> str | None:
    """What shows that two runs are one, as a phrase: their id, or measured times that agree to all of many digits.

    None where nothing does.
    """
    if a.run_id and a.run_id == b.run_id and a.tokens_per_s == b.tokens_per_s is not None:
        return f"run id and rate: {str(a.run_id)[:60]}"
    times = _step_times(a)
    if len(times) and np.array_equal(times, _step_times(b)):
        return f"times of {len(times)} steps"
    seconds = [span.seconds for span in a.timed_spans]
    if seconds and seconds == [span.seconds for span in b.timed_spans] and max(map(_digits, seconds)) >= DIGITS:
        return f"time, {a.seconds:g} s to all digits"
    return None


def _step_times(run: ReportedRun) -> Figures:
    """The seconds of each logged step; empty where they are too few, or printed too coarsely, to be a fingerprint."""
    times = run.logged_steps.nonzero("seconds")
    return times if len(times) >= STEPS and len(np.unique(times)) >= DISTINCT else times[:0]


def _digits(value: float | None) -> int:
    """Significant digits of a number as it is written."""
    return len(f"{value!r}".partition("e")[0].replace(".", "").strip("0")) if value else 0
