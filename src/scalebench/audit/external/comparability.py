"""Are the runs that stand side by side the same but for what is compared, and were there enough of them?"""

from collections import defaultdict
from typing import Any

from scalebench.audit.external.context import (
    CONDITIONS,
    DISTINCT,
    AuditContext,
    differences,
    identity,
    listed,
    named,
    near,
)
from scalebench.audit.finding import Finding
from scalebench.importers.reported import ReportedRun

PROGRAM = ("engine", "precision")
SURROUNDINGS = ("commit", "launcher", "device")
TF32_DEVICES = ("A100", "H100", "H200", "B200", "L4", "L40", "A10", "A30", "A40", "RTX 30", "RTX 40")
NO_TF32 = ("V100", "T4", "P100", "K80", "RTX 20")
LOW = ("fp16", "bf16", "float16", "bfloat16")


def baseline_is_the_same_program(context: AuditContext) -> list[Finding]:
    """A speed-up over another engine or precision mixes that with scaling."""
    return _baselines(context, "baseline-other-program", "invalid", PROGRAM)


def baseline_has_the_same_surroundings(context: AuditContext) -> list[Finding]:
    """A speed-up over a run of another commit, launcher or device."""
    return _baselines(context, "baseline-other-surroundings", "suspect", SURROUNDINGS)


def _baselines(context: AuditContext, code: str, severity: Any, names: tuple[str, ...]) -> list[Finding]:
    found = []
    for base, claim in context.scalings:
        different = differences(base, claim, names)
        versions = {}
        if names == SURROUNDINGS:
            versions = {
                k: (base.versions[k], v)
                for k, v in claim.versions.items()
                if k in base.versions and base.versions[k] != v
            }
        if different or versions:
            what = [f"{name}: {a} | {b}" for name, (a, b) in {**different, **versions}.items()]
            evidence = f"{base.world_size} device{'s' * (base.world_size > 1)} ({base.name}) and {claim.world_size} ({claim.name}) differ in {'; '.join(what)}"
            found.append(named(code, severity, [base, claim], evidence))
    return found


def arms_differ_in_one_thing(context: AuditContext) -> list[Finding]:
    """Runs of equal work on equally many devices differ in one thing, or their difference has no one cause."""
    grouped: dict[Any, list[ReportedRun]] = defaultdict(list)
    for claim in context.runs:
        if (
            claim.world_size
            and claim.seq_len
            and claim.tokens
            and sum(getattr(claim, n) is not None for n in CONDITIONS) >= 3
        ):
            grouped[(claim.format, claim.world_size, claim.model, claim.dataset, claim.seq_len, claim.tokens)].append(
                claim
            )
    found = []
    for group in grouped.values():
        arms = list({repr((c.debug_settings, identity(c))): c for c in reversed(group)}.values())[::-1]
        reported: set[frozenset[str]] = set()
        for arm in arms if 2 <= len(arms) <= DISTINCT else ():
            apart = {other.name: _apart(arm, other) for other in arms if other is not arm}
            nearest = min(apart, key=lambda name: _weight(apart[name]))
            if _weight(apart[nearest]) > 1 and frozenset((arm.name, nearest)) not in reported:
                reported.add(frozenset((arm.name, nearest)))
                what = [f"{name}: {_short(a)} | {_short(b)}" for name, (a, b) in apart[nearest].items()]
                found.append(
                    named(
                        "arms-differ",
                        "suspect",
                        [arm.name, nearest],
                        f"they differ in {'; '.join(what)}",
                    )
                )
    return found


def _weight(apart: dict) -> int:
    """Differences; other nodes of the same cluster are told, but are none by themselves."""
    return len(apart.keys() - {"hosts"})


def _apart(a: ReportedRun, b: ReportedRun) -> dict[str, tuple[Any, Any]]:
    found = differences(a, b, (*CONDITIONS, "micro_batch", "accumulation"))
    if a.debug_settings != b.debug_settings:
        found["debugging"] = (listed(a.debug_settings) or "none", listed(b.debug_settings) or "none")
    if {"micro_batch", "accumulation"} <= set(found) and a.global_batch == b.global_batch:
        del found["micro_batch"]  # one follows from the other
    if {"zero_stage", "strategy"} <= set(found):
        del found["zero_stage"]
    return found


def _short(value: Any) -> str:
    text = str(value)
    return text[:12] if len(text) >= 40 and " " not in text else text[:60]


def repeated_enough(context: AuditContext) -> list[Finding]:
    """One run says nothing about its own spread."""
    grouped: dict[Any, list[ReportedRun]] = defaultdict(list)
    for claim in context.runs:
        if claim.details.get("status") not in ("failed", "not_applicable"):
            grouped[
                (claim.name_without_repeat, claim.world_size, claim.precision, claim.micro_batch, claim.accumulation)
            ].append(claim)
    alone = [group[0] for group in grouped.values() if len(group) == 1]
    if not alone:
        return []
    return [
        named(
            "single-run",
            "note",
            alone,
            f"n=1 in {len(alone):,} configuration{'s' * (len(alone) > 1)}: there is no interval",
        )
    ]


def runs_are_counted_once(context: AuditContext) -> list[Finding]:
    """A run is one run, however often its file was copied."""
    grouped: dict[Any, list[ReportedRun]] = defaultdict(list)
    for claim in context.runs:
        if claim.run_id and claim.tokens_per_s:
            grouped[(claim.run_id, claim.tokens_per_s)].append(claim)
    return [
        named(
            "run-counted-twice",
            "note",
            copies,
            f"one run, {copies[0].run_id[:60]}, is in {listed(c.name for c in copies)}",
            "n is smaller by the copies",
        )
        for copies in grouped.values()
        if len(copies) > 1
    ]


def shards_need_devices(context: AuditContext) -> list[Finding]:
    """ZeRO and FSDP on one device have nothing to shard."""
    alone = [
        c
        for c in context.runs
        if c.world_size == 1 and ((c.zero_stage or 0) >= 1 or c.strategy in ("fsdp", "zero1", "zero2", "zero3"))
    ]
    if not alone:
        return []
    return [
        named(
            "sharding-one-device",
            "note",
            alone,
            f"one device: {listed(dict.fromkeys(c.name_without_repeat for c in alone))}",
        )
    ]


def tf32_was_on(context: AuditContext) -> list[Finding]:
    """fp32 without TF32 leaves the tensor cores idle: 16-bit over that is not the gain of 16 bits."""
    low = [c for c in context.runs if c.precision and any(p in c.precision for p in LOW)]
    strict = [c for c in context.runs if c.precision in ("fp32", "float32")]
    able = [c for c in strict if c.device and any(d in c.device for d in TF32_DEVICES)]
    beside = [c for c in able or strict if any(c.world_size == other.world_size for other in low)]
    unable = all(c.device and any(d in c.device for d in NO_TF32) for c in strict)
    if not beside or unable or any(c.precision == "tf32" for c in context.runs):
        return []
    evidence = f"{len(beside)} fp32 runs stand beside {len(low)} in 16 bits; nothing says that TF32 was on"
    return [named("fp32-without-tf32", "suspect" if able else "note", beside, evidence)]


def offload_is_disclosed(context: AuditContext) -> list[Finding]:
    """Optimizer state on the CPU measures the bus and the CPU's Adam."""
    return [
        named(
            "offload-undisclosed",
            "suspect",
            [c],
            f"the log's configuration has offload_optimizer on {c.offload}; the name of the run does not",
        )
        for c in context.runs
        if c.offload and "offload" not in f"{c.name} {c.strategy}".lower()
    ]


def engine_was_told_the_batch(context: AuditContext) -> list[Finding]:
    """The micro-batch of the engine's configuration is the one that the loader feeds."""
    return [
        named(
            "engine-batch-differs",
            "suspect",
            [c],
            f"the engine was told {c.engine_batch} samples, the program's own argument is {c.micro_batch}",
        )
        for c in context.runs
        if c.engine_batch and c.micro_batch and c.engine_batch != c.micro_batch
    ]


def hash_is_of_what_ran(context: AuditContext) -> list[Finding]:
    """One hash for two different batches is a hash of the file, not of what ran."""
    grouped: dict[str, list[ReportedRun]] = defaultdict(list)
    for claim in context.runs:
        if claim.config_sha256:
            grouped[claim.config_sha256].append(claim)
    found = []
    for sha, claims in grouped.items():
        ran = {(c.micro_batch, c.accumulation) for c in claims if c.micro_batch and c.accumulation}
        if len(ran) > 1:
            pairs = listed(f"micro-batch {m} x accumulation {a}" for m, a in sorted(ran))
            found.append(named("hash-of-the-file", "note", claims, f"sha256 {sha[:12]} stands for {pairs}"))
    return found


def report_is_its_runs(context: AuditContext) -> list[Finding]:
    """A table of speed-ups follows from its own rates; its spread is of more than one run."""
    found = []
    for report in context.evidence.scaling_reports:
        first = report.rows[min(report.rows)]["rate"] if report.rows else None
        wrong, zero = [], []
        for devices, row in sorted(report.rows.items()):
            if row["rate"] and first and row["speedup"] and not near(row["speedup"], row["rate"] / first):
                wrong.append(
                    f"{devices}: speed-up {row['speedup']:.3f}, but {row['rate']:,.2f} / {first:,.2f} = {row['rate'] / first:.3f}"
                )
            ratio = devices / min(report.rows)
            if row["speedup"] and row["efficiency"] and not near(row["efficiency"], row["speedup"] / ratio):
                wrong.append(
                    f"{devices}: efficiency {row['efficiency']:.3f}, but {row['speedup']:.3f} / {ratio:g} = {row['speedup'] / ratio:.3f}"
                )
            if row["spread"] == 0 and row["runs"] <= 1:
                zero.append(devices)
        if wrong:
            found.append(named("report-differs-from-runs", "invalid", [report], "; ".join(wrong)))
        if zero:
            found.append(
                named(
                    "spread-of-one-run",
                    "suspect",
                    [report],
                    f"a standard deviation of 0.0 from one run at {listed(zero)} devices",
                    "n=1: unknown",
                )
            )
        if report.status == "invalid_comparison" or report.mismatches:
            evidence = f"its own program marks it {report.status}: {listed(report.mismatches)}"
            found.append(named("comparison-refused", "suspect", [report], evidence))
    return found


CHECKS = (
    baseline_is_the_same_program,
    baseline_has_the_same_surroundings,
    arms_differ_in_one_thing,
    repeated_enough,
    runs_are_counted_once,
    shards_need_devices,
    tf32_was_on,
    offload_is_disclosed,
    engine_was_told_the_batch,
    hash_is_of_what_ran,
    report_is_its_runs,
)
