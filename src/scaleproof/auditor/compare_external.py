"""`scaleproof compare` where a side is an external result: what its files state is compared, the rest is named."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path

from scaleproof.auditor.audit import audit_gathered
from scaleproof.auditor.checks.copies import same_measurement
from scaleproof.auditor.checks.speeds import Speed, speed
from scaleproof.auditor.read.discover import gather
from scaleproof.auditor.read.reported import Evidence, ReportedRun, TimedSpan
from scaleproof.ground.comparison import Compared, field_error, incomparable
from scaleproof.ground.confidence import mean_rate, ratio
from scaleproof.ground.errors import UserError
from scaleproof.ground.findings.shared_codes import RUN_COPIED
from scaleproof.ground.records.run import MeasuredRun, read_run

# What two results must have in common; those that a file does not state are named beside the ratio.
COMPARED = (
    "world_size",
    "global_batch",
    "seq_len",
    "strategy",
    "zero_stage",
    "offload",
    "engine",
    "precision",
    "model",
    "parameters",
    "dataset",
    "device",
    "commit",
    "launcher",
)
# Stated by few, and nothing is missing where they are not.
OPTIONAL = ("zero_stage", "offload")


def compare_external(a: Path, b: Path, vary: list[str]) -> Compared:
    """All results below A against all below B, each side one kind of run; repeats give an interval.

    `vary`: fields that are meant to differ. Raises UserError where a side has no rate, several kinds of runs, or
    another unit than the other.
    """
    evidence = [gather([path]) for path in (a, b)]  # each file is read once
    for path, one in zip((a, b), evidence, strict=True):
        if not one.runs and not one.own_runs:
            raise _no_speed(path, one)
    runs_a, runs_b = (_reported_runs(path, one) for path, one in zip((a, b), evidence, strict=True))
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
    why = incomparable(unexpected, vary) if unexpected else _copied(runs_a, runs_b) or _invalid(a, b, evidence)
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
    """Whether a run of one side is also on the other."""
    for first, second in product(runs_a, runs_b):
        same = same_measurement(first, second)
        if same:
            return f"invalid: {RUN_COPIED.name} ({first.name} and {second.name} have the same {same})"
    return None


def _invalid(a: Path, b: Path, evidence: Sequence[Evidence]) -> str | None:
    """Why the audit forbids a ratio."""
    findings = [f for path, one in zip((a, b), evidence, strict=True) for f in audit_gathered(one, str(path)).findings]
    codes = sorted({f.code for f in findings if f.severity == "invalid"})
    return f"invalid: {', '.join(codes)} (scaleproof audit {a} {b})" if codes else None


def _speeds(runs: list[ReportedRun]) -> list[Speed]:
    return [value for run in runs if (value := speed(run)) is not None]


def _reported_runs(path: Path, evidence: Evidence) -> list[ReportedRun]:
    """The runs of one side that state how fast they were; UserError where there are none, or of several kinds."""
    own = [run for folder in evidence.own_runs if isinstance(run := read_run(Path(folder)), MeasuredRun)]
    whole = [run for run in evidence.runs if not run.quoted]  # of a quoted log lines may be left out
    runs = [run for run in [*whole, *map(_as_reported, own)] if speed(run)]
    # Names that differ only by a repeat (run_1, run_2) are of one kind.
    kinds = sorted({_kind(run, len(runs)) for run in runs})
    if not runs:
        raise _no_speed(path, evidence)
    if len(kinds) > 1:
        raise UserError(f"{path}: several kinds of runs ({', '.join(kinds[:5])}); name one of them")
    return runs


def _no_speed(path: Path, evidence: Evidence) -> UserError:
    """What to say of a path without a run that states its speed: why its files were not read, where that is known."""
    unread = "; ".join(f"{file.name}: {file.reason}" for file in evidence.unread[:3])
    reasons = f" ({unread})" if unread else ""
    return UserError(
        f"{path}: no result below that states how fast it was{reasons}; scaleproof audit {path} says what it recognises"
    )


def _kind(run: ReportedRun, runs: int) -> str:
    name = run.name_without_repeat
    is_repeat = name == run.name and runs > 1 and name.lower().startswith(("run", "rep", "seed"))
    return "" if is_repeat else name


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
        name=run.metrics.cell,
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
    """Each field as all runs of a side state it; None where one does not."""
    stated: dict[str, str | None] = {}
    for name in COMPARED:
        values = {getattr(run, name) for run in runs}
        stated[name] = None if None in values else " | ".join(sorted(map(str, values)))
    settings = {str(sorted(run.debug_settings.items())) for run in runs}
    return stated | {"profilers and debugging": " | ".join(sorted(settings))}
