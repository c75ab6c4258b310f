"""What was on during a run, and figures that cannot be."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np

from scaleproof.auditor.checks.context import AuditContext, listed, near, of_evidence
from scaleproof.auditor.read.reported import BROKEN, ReportedRun
from scaleproof.ground.errors import plural
from scaleproof.ground.facts.peaks import DEVICES, TERA
from scaleproof.ground.findings.finding import Correction
from scaleproof.ground.findings.registry import FILE_UNREADABLE, Code, Flag

TIMES_OWN = 1.5  # inclusive over own time of a profile
AFTER = 0.2  # reported memory over used memory, beside
CONTEXT_BYTES = 2**31  # that libraries take on a device

NOT_FINITE = Code(
    "not-finite",
    "invalid",
    what="NaN or infinity in the figures of a run.",
    detected="Values that are not finite.",
    seen="",
    repair="Find the step at which it began; a run without finite losses did not do the work.",
)
MFU_IMPOSSIBLE = Code(
    "mfu-impossible",
    "invalid",
    what="More than the peak of the device, or less than nothing.",
    detected="MFU above 100 % or below 0.",
    seen="nanoGPT pull request 464 (104 %), flame issue 7 (133 %), llm.c issue 796 (-100 %).",
    repair="Check tokens, time, parameter count and peak; print no figure for a device that is not in the table.",
)
PEAK_OF_ANOTHER_DEVICE = Code(
    "peak-of-another-device",
    "invalid",
    what="The MFU is relative to the peak of another device, precision, or to one with sparsity.",
    detected="The peak that the program divided by is none of the device's published dense ones.",
    seen="torchtitan falls back to an A100's 312 TFLOP/s; torchtitan issues 668 and 2307.",
    repair="Take the dense peak of this device and precision, with its source; otherwise print nothing.",
)
PEAK_ASSUMED = Code(
    "peak-assumed",
    "note",
    what="nanoGPT divides by an A100's bf16 peak whatever it runs on.",
    detected="A log of nanoGPT, and no word about the device.",
    seen="nanoGPT, estimate_mfu.",
    repair="Say which device it was (`runs:` in a claims file), or recompute.",
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
    """A profiler or debugging in a timed run."""
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
    """A loss of exactly 0 is a validation that did not happen."""
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


@of_evidence.check(UPDATES_SKIPPED, NOT_FINITE)
def updates_were_made(context: AuditContext) -> Iterator[Flag]:
    """Steps that the optimizer skipped cost less and teach nothing."""
    for run in context.runs:
        if run.skipped_steps:
            verb = "was" if run.skipped_steps == 1 else "were"
            evidence = f"{plural(run.skipped_steps, 'step')} {verb} skipped by the loss scaler"
            yield Flag(evidence, [run], UPDATES_SKIPPED.name)
        if run.details.get("nan_steps"):
            evidence = f"the loss of {plural(run.details['nan_steps'], 'iteration')} is not a number"
            yield Flag(evidence, [run], NOT_FINITE.name)


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
    """Fields that are not what they are called: not finite, below zero, text for a number."""
    for run in context.runs:
        if run.problems:
            infinite = any("finite" in problem for problem in run.problems)
            code = NOT_FINITE.name if infinite else "field-unusable"
            yield Flag(listed(run.problems), [run], code, severity="suspect")
    missing = [run for run in context.runs if run.details.get("missing")]
    if missing:
        names = sorted({name for run in missing for name in run.details["missing"]})
        verb = "is" if len(names) == 1 else "are"
        yield Flag(f"{listed(names)} {verb} missing", missing, "field-missing")


@of_evidence.check(MFU_IMPOSSIBLE, PEAK_OF_ANOTHER_DEVICE, PEAK_ASSUMED)
def utilization_is_possible(context: AuditContext) -> Iterator[Flag]:
    """No device exceeds its peak, and the peak is this device's."""
    for run in context.runs:
        shares = run.logged_steps.values("mfu")
        if not shares.size:
            continue
        if shares.max() > 1:
            yield Flag(f"MFU is {shares.max():.1%}", [run], MFU_IMPOSSIBLE.name)
        elif shares.min() < 0:
            evidence = f"MFU is {shares.min():.0%}: an unknown device, printed as a number"
            yield Flag(evidence, [run], MFU_IMPOSSIBLE.name, severity="suspect")
        if run.peak_flops:
            yield from _peak(run, run.peak_flops, float(np.median(shares)))


def _peak(run: ReportedRun, stated: float, share: float) -> Iterator[Flag]:
    if run.device is None:
        if run.format.startswith("nanoGPT"):
            yield Flag(
                f"MFU is of {stated / TERA:g} TFLOP/s, an A100's peak, whatever device it ran on",
                [run],
                PEAK_ASSUMED.name,
            )
        return
    peaks = known_peaks(run.device)
    if not peaks or any(near(stated, peak, 0.02) for peak in peaks):
        return
    best = max(peaks)
    known = listed(f"{peak / TERA:g}" for peak in sorted(peaks))
    evidence = f"MFU {share:.1%} is of {stated / TERA:g} TFLOP/s; {run.device} has {known}"
    if any(near(stated, 2 * peak, 0.02) for peak in peaks):
        evidence += ": the figure with sparsity"
    correction = Correction(
        value=round(100 * share * stated / best, 1),
        unit="%",
        derivation=f"of {best / TERA:g} TFLOP/s, the highest dense peak of the device",
    )
    yield Flag(evidence, [run], PEAK_OF_ANOTHER_DEVICE.name, corrected=correction)


def known_peaks(device: str | None) -> set[float]:
    """Every published dense peak of a device, and of its siblings where the name does not tell them apart."""
    rows = [(pattern, figures) for pattern, figures, _ in DEVICES if device and _names_device(pattern, device)]
    return {figure * TERA for _, figures in rows for figure in figures if figure}


def _names_device(pattern: str, device: str) -> bool:
    """Whether a device is of the model that a pattern begins with, whatever its variant."""
    model = re.split(r"[.(]", pattern.replace(r"\b", "").replace("[18]", "1"))[0]
    words = device.replace("-", " ").split()
    return bool(re.search(pattern, device)) or model in words or (" " in model and model in device)


@of_evidence.check(
    Code(
        "memory-after-step",
        "suspect",
        what="Memory that is allocated after a step is what is left, not what was needed.",
        detected="The framework's figure is below a fifth of what the driver sees.",
        seen="GPT-2 on L4: 651.7 MB reported, 21.5 GB in use.",
        repair="Report the peaks of allocated and reserved memory, reset after the warm-up.",
    )
)
def memory_is_the_peak(context: AuditContext) -> Iterator[Flag]:
    """Memory that the framework holds after a step is not what the step needed."""
    for run in context.runs:
        reported, used = run.memory_reported_bytes, run.memory_used_bytes
        if reported and used and reported < min(AFTER * used, used - CONTEXT_BYTES):
            derivation = "an upper bound: in use on the device, allocator's cache and contexts included"
            yield Flag(
                f"{reported / 2**20:,.1f} MB reported, {used / 2**20:,.0f} MB in use on the device",
                [run],
                corrected=Correction(value=used / 2**20, unit="MB", derivation=derivation),
            )


@of_evidence.check(
    Code(
        "inclusive-times-summed",
        "note",
        what="Inclusive times hold the time of nested operators; their sum counts it several times. `note` where "
        "nobody "
        "has published the sum.",
        detected="The sum of inclusive device times exceeds that of own times by half; `invalid` where a claim equals "
        "it.",
        seen="GPT-2 on L4: 125 s published, 21.8 s of device time.",
        repair="Add the column of own times.",
    ),
    Code(
        "profiles-of-different-length",
        "suspect",
        what="Sums over profiles of different numbers of steps are not comparable.",
        detected="ProfilerStep counts differ between profiles.",
        seen="GPT-2 on L4: 15 and 10 steps.",
        repair="Divide by the profiled steps.",
    ),
)
def profiles_are_read_right(context: AuditContext) -> Iterator[Flag]:
    """Inclusive times count nested operators repeatedly; windows of different lengths are not compared."""
    for table in context.evidence.operator_tables:
        if not table.self_s or table.inclusive_s <= TIMES_OWN * table.self_s:
            continue
        claims = [
            claim
            for claim in context.claims("total_time")
            if claim.values["of"] in table.name and near(claim.values["value"], table.inclusive_s, 0.02)
        ]
        evidence = (
            f"the inclusive times add up to {table.inclusive_s:,.1f} s, the operators' own to {table.self_s:,.1f} s "
            f"({table.inclusive_s / table.self_s:.1f} times)"
        )
        if not claims:
            yield Flag(evidence, [table], "inclusive-times-summed")
            continue
        evidence += f"; {claims[0].source} states {claims[0].values['value']:,.1f} s"
        correction = Correction(
            value=round(table.self_s, 1), unit="s", derivation="device time, the sum of the column of own times"
        )
        yield Flag(evidence, [table], "inclusive-times-summed", severity="invalid", corrected=correction)
    steps = {table.name: table.steps for table in context.evidence.operator_tables if table.steps}
    if len(set(steps.values())) > 1:
        lengths = Counter(steps.values())
        evidence = listed(f"{plural(lengths[n], 'profile')} of {plural(n, 'step')}" for n in sorted(lengths))
        yield Flag(f"{evidence}; divide each sum by its steps", list(steps), "profiles-of-different-length")


@of_evidence.check(
    Code(
        "pollers-overlap",
        "suspect",
        what="Pollers of earlier runs still write into this file and load this run.",
        detected="Samples of one device whose time goes backwards.",
        seen="ZeRO stages and precisions on one H100: the wrapper was killed, its nvidia-smi lived on.",
        repair="Stop the process that polls, not its wrapper; one file for each run.",
    )
)
def one_poller(context: AuditContext) -> Iterator[Flag]:
    """Samples of one device come one after the other; a clock that goes back is a second poller in the same file."""
    for log in context.evidence.gpu_logs:
        if log.backwards > max(2, 0.01 * log.samples):
            yield Flag(
                f"{log.samples:,} samples of {plural(log.devices, 'device')}; time goes backwards "
                f"{plural(log.backwards, 'time')}",
                [log],
            )


@of_evidence.check(FILE_UNREADABLE)
def files_were_read(context: AuditContext) -> Iterator[Flag]:
    """Files that could not be read are named."""
    for unread in context.evidence.unread:
        if unread.kind in BROKEN:
            yield Flag(unread.reason, [unread])


@of_evidence.check(
    Code(
        "run-failed",
        "note",
        what="A run without numbers.",
        detected="Its status says so.",
        seen="",
        repair="See its reason; keep it as a row of the table.",
    )
)
def runs_have_numbers(context: AuditContext) -> Iterator[Flag]:
    """Failed runs are rows, not gaps."""
    failed = [run for run in context.runs if run.details.get("status") == "failed"]
    if failed:
        yield Flag(f"failed: {listed(run.name for run in failed)}", failed)
