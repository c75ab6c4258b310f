"""`scalebench compare` where a side is somebody else's result: what its files tell is compared, what they do not is said."""

from pathlib import Path

from scalebench.analysis.compare_runs import Compared, field_error
from scalebench.analysis.confidence import rate, ratio
from scalebench.audit.audit_paths import audit_paths
from scalebench.audit.external.speeds import speed
from scalebench.errors import UserError
from scalebench.importers.discover import gather
from scalebench.importers.reported import ReportedRun, TimedSpan
from scalebench.record.run import Run, read_run

# What two results must have in common; the ones that a file does not tell are named beside the ratio.
CONTRACT = ("world_size", "global_batch", "seq_len", "strategy", "zero_stage", "offload", "engine", "precision", "model", "parameters",
            "dataset", "device", "commit", "launcher")  # fmt: skip
# Told by few, and nothing is missing where it is not told.
OPTIONAL = ("zero_stage", "offload")


def compare_foreign(a: Path, b: Path, may_differ: list[str]) -> Compared:
    """All results below A against all below B, each side one kind of run; repeats give an interval.

    Raises UserError where a side has no rate, several kinds of runs, or another unit than the other.
    """
    one, other = _claims(a), _claims(b)
    rates = [[speed(claim) for claim in side] for side in (one, other)]
    units = {found.unit for side in rates for found in side}
    if len(units) > 1:
        raise UserError(f"{a} and {b} say how fast they were in different units: {', '.join(sorted(units))}")
    told = [_told(side) for side in (one, other)]
    for name in may_differ:
        if name not in told[0]:
            raise field_error(name, told[0])
    differing = [f for f in told[0] if None not in (told[0][f], told[1][f]) and told[0][f] != told[1][f]]
    unexpected = [f for f in differing if f not in may_differ]
    findings = [f for side in (a, b) for f in audit_paths([side]).findings]
    invalid = sorted({f.code for f in findings if f.severity == "invalid"})
    why = (
        f"incomparable: {', '.join(unexpected)} (what is meant to differ: --may-differ {' '.join([*may_differ, *unexpected])})"
        if unexpected
        else None
    )
    if not why and invalid:
        why = f"invalid: {', '.join(invalid)} (scalebench audit {a} {b})"
    sides = [rate([s.value for s in side], [1.0] * len(side)) for side in rates]  # as if each had run for a second
    found = ratio(sides[1], sides[0])
    shown = {} if why else {"ratio": found.value, "low": found.low, "high": found.high}
    unsaid = [f for f in told[0] if None in (told[0][f], told[1][f]) and f not in OPTIONAL]
    values = tuple(side.value for side in sides)
    return Compared(
        str(a), str(b), (len(one), len(other)), values, sorted(set(differing) - set(unexpected)), why, **shown,
        unit=units.pop(), unsaid=unsaid,
    )  # fmt: skip


def _claims(path: Path) -> list[ReportedRun]:
    evidence = gather([path])
    own = [run for folder in evidence.own_runs if (run := read_run(Path(folder))).ok]
    claims = [c for c in [*evidence.runs, *map(_as_claim, own)] if speed(c)]
    # Names that tell nothing but repeats apart (run_1, run_2) are of one kind.
    kinds = sorted(
        {
            "" if c.name_without_repeat == c.name and len(claims) > 1 and _repeat(c.name) else c.name_without_repeat
            for c in claims
        }
    )
    if not claims:
        raise UserError(f"{path}: no result below that says how fast it was")
    if len(kinds) > 1:
        raise UserError(f"{path}: several kinds of runs ({', '.join(kinds[:5])}); name one of them")
    return claims


def _repeat(name: str) -> bool:
    return name.lower().startswith(("run", "rep", "seed"))


def _as_claim(run: Run) -> ReportedRun:
    """A run of our own in the neutral form."""
    m, config = run.metrics, run.metrics.training_config
    window = TimedSpan(
        seconds=m.window.wall_time_s,
        tokens=m.window.tokens,
        tokens_per_s=m.window.tokens_per_s,
    )
    return ReportedRun(
        name=run.metrics.cell,
        format="metrics JSON 3.0",
        world_size=sum(len(rank["devices"]) for rank in m.ranks),
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


def _told(claims: list[ReportedRun]) -> dict[str, str | None]:
    """Each field as all claims of a side tell it; None where one does not."""
    found = {}
    for name in CONTRACT:
        values = {getattr(claim, name) for claim in claims}
        found[name] = None if None in values else " | ".join(sorted(map(str, values)))
    knobs = {str(sorted(claim.debug_settings.items())) for claim in claims}
    return found | {"profilers and debugging": " | ".join(sorted(knobs))}
