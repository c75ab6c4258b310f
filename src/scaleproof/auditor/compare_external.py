"""`scaleproof compare` where a side is an external result: what its files state is compared, the rest is named."""

import re
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from scaleproof.auditor.audit import audit_gathered
from scaleproof.auditor.checks.baselines import TotalRate, total_rate
from scaleproof.auditor.checks.comparability import same_measurement
from scaleproof.auditor.read.discover import gather
from scaleproof.auditor.read.reported import Evidence, ReportedRun, TimedSpan
from scaleproof.ground.comparison import Compared, field_error, why_incomparable
from scaleproof.ground.confidence import mean_rate, ratio
from scaleproof.ground.errors import UserError
from scaleproof.ground.findings.finding import Finding
from scaleproof.ground.findings.shared_codes import RUN_COPIED
from scaleproof.ground.records.run import MeasuredRun, read_run

# What two results must have in common; those that a file does not state are named beside the ratio.
COMPARED = (
    *("world_size", "global_batch", "seq_len", "strategy", "zero_stage", "offload", "engine"),
    *("precision", "model", "parameters", "dataset", "device", "commit", "launcher"),
)
REPEAT = re.compile(r"(run|rep|repeat|seed)[ _.=-]*\d*(\.[a-z]+)?", re.IGNORECASE)  # run1.log, seed3, rep_2
# Stated by few, and nothing is missing where they are not.
OPTIONAL = ("zero_stage", "offload")


def compare_external(a: Path, b: Path, vary: list[str]) -> Compared:
    """The ratio of the mean rate of all runs below `b` to that of all runs below `a`; repeats give an interval.

    `vary`: fields that are meant to differ; where others differ, the result says why there is no ratio.
    Raises UserError where a side has no rate, several kinds of runs, or another unit than the other.
    """
    evidence = [gather([path]) for path in (a, b)]  # each file is read once
    for path, gathered in zip((a, b), evidence, strict=True):
        if not gathered.runs and not gathered.own_runs:
            raise _no_speed(path, gathered)
    runs_a, runs_b = (_reported_runs(path, gathered) for path, gathered in zip((a, b), evidence, strict=True))
    speeds_a = _speeds(runs_a)
    speeds_b = _speeds(runs_b)
    units = sorted({speed.unit for speed in [*speeds_a, *speeds_b]})
    if len(units) > 1:
        raise UserError(f"{a} and {b} state how fast they were in different units: {', '.join(units)}")
    stated_a = _stated(runs_a)
    stated_b = _stated(runs_b)
    for name in vary:
        if name not in stated_a:
            raise field_error(name, stated_a)
    unstated = [f for f in stated_a if None in (stated_a[f], stated_b[f])]
    differing = [f for f in stated_a if f not in unstated and stated_a[f] != stated_b[f]]
    unexpected = [f for f in differing if f not in vary]
    why = why_incomparable(unexpected, vary) if unexpected else _copied(runs_a, runs_b) or _invalid(a, b, evidence)
    rate_a = mean_rate([speed.value for speed in speeds_a])
    rate_b = mean_rate([speed.value for speed in speeds_b])
    b_over_a = ratio(rate_b, rate_a)
    return Compared(
        a=str(a),
        b=str(b),
        runs=(len(runs_a), len(runs_b)),
        rates=(rate_a.value, rate_b.value),
        intended=sorted(set(differing) - set(unexpected)),
        why=why,
        ratio=None if why else b_over_a.value,
        low=None if why else b_over_a.low,
        high=None if why else b_over_a.high,
        unit=units[0],
        unstated=[f for f in unstated if f not in OPTIONAL],
        freedom=b_over_a.freedom,
    )


def _copied(runs_a: list[ReportedRun], runs_b: list[ReportedRun]) -> str | None:
    """Why there is no ratio where a run of one side is also on the other; None where no run is."""
    for first, second in product(runs_a, runs_b):
        what_agrees = same_measurement(first, second)
        if what_agrees:
            return f"invalid: {RUN_COPIED.name} ({first.name} and {second.name} have the same {what_agrees})"
    return None


def _invalid(a: Path, b: Path, evidence: Sequence[Evidence]) -> str | None:
    """Why the audit of the two sides forbids a ratio; None where it has no finding that is `invalid`."""
    findings: list[Finding] = []
    for path, gathered in zip((a, b), evidence, strict=True):
        findings += audit_gathered(gathered, str(path)).findings
    codes = sorted({finding.code for finding in findings if finding.severity == "invalid"})
    return f"invalid: {', '.join(codes)} (scaleproof audit {a} {b})" if codes else None


def _speeds(runs: list[ReportedRun]) -> list[TotalRate]:
    return [value for run in runs if (value := total_rate(run)) is not None]


def _reported_runs(path: Path, evidence: Evidence) -> list[ReportedRun]:
    """The runs of one side that state how fast they were.

    Raises UserError where there are none, or runs of several kinds: their names differ by more than a repeat.
    """
    own = [run for folder in evidence.own_runs if isinstance(run := read_run(Path(folder)), MeasuredRun)]
    whole = [run for run in evidence.runs if not run.quoted]  # of a quoted log lines may be left out
    runs = [run for run in [*whole, *map(_as_reported, own)] if total_rate(run)]
    # Names that differ only by a repeat (run_1, run_2) are of one kind.
    kinds = sorted({_kind(run, len(runs)) for run in runs})
    if not runs:
        raise _no_speed(path, evidence)
    if len(kinds) > 1:
        raise UserError(f"{path}: several kinds of runs ({', '.join(kinds[:5])}); name one of them")
    return runs


def _no_speed(path: Path, evidence: Evidence) -> UserError:
    """The error for a path without a run that says how fast it was, with the reasons why its files were not read."""
    unread = "; ".join(f"{file.name}: {file.reason}" for file in evidence.unread[:3])
    reasons = f" ({unread})" if unread else ""
    return UserError(
        f"{path}: no result below that states how fast it was{reasons}; scaleproof audit {path} says what it recognises"
    )


def _kind(run: ReportedRun, runs: int) -> str:
    """The run's name without its repeat; "" where one of several `runs` is called by its repeat alone ("seed3")."""
    is_repeat = runs > 1 and REPEAT.fullmatch(run.name)
    return "" if is_repeat else run.name_without_repeat


def _as_reported(run: MeasuredRun) -> ReportedRun:
    """A run of our own in the neutral form."""
    m = run.metrics
    config = m.training_config
    window = TimedSpan(
        seconds=m.window.wall_time_s,
        tokens=m.window.tokens,
        tokens_per_s=m.window.tokens_per_s,
    )
    return ReportedRun(
        name=m.cell,
        format="metrics JSON 3.0",
        world_size=run.n_devices,
        global_batch=config.global_batch,
        seq_len=config.seq_len,
        strategy=config.strategy,
        zero_stage=config.zero_stage,
        precision=config.precision,
        model=config.model_name,
        parameters=m.model.parameters,
        dataset=config.dataset_name,
        device=m.ranks[0]["device_name"],
        commit=m.git_commit,
        timed_spans=[window],
        rate_scope="global",
    )


def _stated(runs: list[ReportedRun]) -> dict[str, str | None]:
    """Each field of COMPARED, and the profilers, with its values in all runs of a side; None where a run has none."""
    stated: dict[str, str | None] = {}
    for name in COMPARED:
        values = {getattr(run, name) for run in runs}
        stated[name] = None if None in values else " | ".join(sorted(map(str, values)))
    settings = {str(sorted(run.debug_settings.items())) for run in runs}
    return stated | {"profilers and debugging": " | ".join(sorted(settings))}
