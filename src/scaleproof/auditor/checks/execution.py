"""What was on during a run, and what it left out: profilers, validation, updates, fields."""

from collections import defaultdict
from collections.abc import Iterator

from scaleproof.auditor.checks.context import AuditContext, listed, of_evidence
from scaleproof.auditor.read.reported import ReportedRun
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.registry import Code, Flag

NOT_FINITE = Code(
    "not-finite",
    "invalid",
    what="NaN or infinity in the figures of a run.",
    detected="Values that are not finite.",
    seen="",
    repair="Find the step at which it began; a run without finite losses did not do the work.",
)


@of_evidence.check(
    Code(
        "profiled-run",
        "suspect",
        what="Profilers, collective logs, synchronising timers and debugging slow runs down, and not all runs alike.",
        detected="Command lines, environments and configurations that are recorded: nsys, --profile, NCCL_DEBUG=INFO, "
        "TORCH_DISTRIBUTED_DEBUG, wall_clock_breakdown, ...",
        seen="GPT-2 on two nodes of V100: 24,091 tokens/s under a profiler, 35,807 without.",
        repair="Take throughput from a run without any of them.",
    )
)
def nothing_disturbed(context: AuditContext) -> Iterator[Flag]:
    by_settings: dict[str, list[ReportedRun]] = defaultdict(list)
    for run in context.runs:
        if run.debug_settings:
            settings = sorted(run.debug_settings.items())
            by_settings[listed(f"{k}={v}" if v != "on" else k for k, v in settings)].append(run)
    for settings_text, runs in by_settings.items():
        yield Flag(f"on during {plural(len(runs), 'run')}: {settings_text}", runs)


@of_evidence.check(
    Code(
        "validation-zero",
        "invalid",
        what="A validation loss of 0.0 is the sum of nothing; as a best loss it beats every model.",
        detected="Exactly 0.",
        seen="GPT-2 on two nodes of V100: best_val_loss 0.0 with no validation steps.",
        repair="Write null where nothing was validated.",
    )
)
def validation_was_made(context: AuditContext) -> Iterator[Flag]:
    for run in context.runs:
        zeros = ["best_val_loss"] if run.best_val_loss == 0 else []
        zeros += [f"epoch {span.index}" for span in run.timed_spans if span.val_loss == 0]
        if zeros:
            yield Flag(f"validation loss is 0.0 ({listed(zeros)}): nothing was validated", [run])


UPDATES_SKIPPED = Code(
    "updates-skipped",
    "suspect",
    what="fp16 overflow skips updates: such steps are cheaper and the work is not done.",
    detected="Skipped iterations in the log; fewer all-gathers in the trace of a ZeRO run than optimizer steps.",
    seen="GPT-2 on two nodes of V100: 38 updates in 40 steps; DeepSpeed issue 2879.",
    repair="Warm up until the loss scale is stable; count updates; prefer bf16.",
)


@of_evidence.check(UPDATES_SKIPPED)
def updates_were_made(context: AuditContext) -> Iterator[Flag]:
    """No step was skipped by the loss scaler: such steps cost less and teach nothing."""
    for run in context.runs:
        if run.skipped_steps:
            verb = "was" if run.skipped_steps == 1 else "were"
            evidence = f"{plural(run.skipped_steps, 'step')} {verb} skipped by the loss scaler"
            yield Flag(evidence, [run])


@of_evidence.check(
    NOT_FINITE,
    Code(
        "field-unusable",
        "suspect",
        what="A field does not hold what its name says; it was left out of all checks.",
        detected="Text where a number belongs, times and rates of 0 or below, broken rows.",
        seen="",
        repair="Write null for unknown, and numbers as numbers.",
    ),
    Code(
        "field-missing",
        "note",
        what="A field of the file's schema is missing; what it would say is derived, or unknown.",
        detected="Fields that other files of the schema have.",
        seen="GPT-2 on V100: deepspeed_enabled.",
        repair="Raise the schema's version when fields change.",
    ),
)
def fields_are_usable(context: AuditContext) -> Iterator[Flag]:
    """Each field holds what its name says (not text for a number, not a time below zero), and none is missing."""
    for run in context.runs:
        if run.problems:
            is_not_finite = any("finite" in problem for problem in run.problems)
            code = NOT_FINITE.name if is_not_finite else "field-unusable"
            yield Flag(listed(run.problems), [run], code, severity="suspect")
    missing = [run for run in context.runs if run.details.get("missing")]
    if missing:
        names = sorted({name for run in missing for name in run.details["missing"]})
        verb = "is" if len(names) == 1 else "are"
        yield Flag(f"{listed(names)} {verb} missing", missing, "field-missing")
