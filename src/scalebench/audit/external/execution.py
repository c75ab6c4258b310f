"""What was on during a run, and figures that cannot be."""

from statistics import median

from scalebench.audit.external.context import AuditContext, listed, named, near
from scalebench.audit.finding import Finding
from scalebench.importers.reported import ReportedRun
from scalebench.model.peaks import DEVICES, TERA

TIMES_OWN = 1.5  # inclusive over own time of a profile
AFTER = 0.2  # reported memory over used memory, beside
CONTEXT = 2**31  # bytes that libraries take on a device


def nothing_disturbed(context: AuditContext) -> list[Finding]:
    """A profiler or debugging in a timed run."""
    found = []
    grouped: dict[str, list[ReportedRun]] = {}
    for claim in context.runs:
        if claim.debug_settings:
            grouped.setdefault(
                listed(f"{k}={v}" if v != "on" else k for k, v in sorted(claim.debug_settings.items())), []
            ).append(claim)
    for knobs, claims in grouped.items():
        found.append(
            named("profiled-run", "suspect", claims, f"on while {listed(c.name for c in claims)} ran: {knobs}")
        )
    return found


def validation_was_made(context: AuditContext) -> list[Finding]:
    """A loss of exactly 0 is a validation that did not happen."""
    found = []
    for claim in context.runs:
        zeros = ["best_val_loss"] if claim.best_val_loss == 0 else []
        zeros += [f"epoch {w.index}" for w in claim.timed_spans if w.val_loss == 0]
        if zeros:
            found.append(
                named(
                    "validation-zero",
                    "invalid",
                    [claim],
                    f"validation loss is 0.0 ({listed(zeros)})",
                    "unknown: nothing was validated",
                )
            )
    return found


def updates_were_made(context: AuditContext) -> list[Finding]:
    """Steps that the optimizer skipped cost less and teach nothing."""
    found = []
    for claim in context.runs:
        if claim.skipped_steps:
            found.append(
                named(
                    "updates-skipped",
                    "suspect",
                    [claim],
                    f"{claim.skipped_steps:,} steps were skipped by the loss scaler",
                )
            )
        if claim.details.get("nan_steps"):
            found.append(
                named("not-finite", "invalid", [claim], f"{claim.details['nan_steps']:,} iterations were not a number")
            )
    return found


def fields_are_usable(context: AuditContext) -> list[Finding]:
    """Fields that are not what they are called: not finite, below zero, text for a number."""
    found = []
    for claim in context.runs:
        if claim.problems:
            code = "not-finite" if any("finite" in p for p in claim.problems) else "field-unusable"
            found.append(named(code, "suspect", [claim], listed(claim.problems)))
    missing = [c for c in context.runs if c.details.get("missing")]
    if missing:
        names = sorted({f for c in missing for f in c.details["missing"]})
        found.append(
            named("field-missing", "note", missing, f"{listed(names)} is missing in {listed(c.name for c in missing)}")
        )
    return found


def utilization_is_possible(context: AuditContext) -> list[Finding]:
    """No device exceeds its peak, and the peak is this device's."""
    found = []
    for claim in context.runs:
        shares = [row.mfu for row in claim.logged_steps if row.mfu is not None]
        if any(s > 1 for s in shares):
            found.append(named("mfu-impossible", "invalid", [claim], f"MFU is {max(shares):.1%}"))
        elif any(s < 0 for s in shares):
            found.append(
                named(
                    "mfu-impossible",
                    "suspect",
                    [claim],
                    f"MFU is {min(shares):.0%}: an unknown device, printed as a number",
                    "unknown",
                )
            )
        if claim.peak_flops and shares:
            finding = _peak(claim, median(shares))
            found += [finding] if finding else []
    return found


def _peak(claim: ReportedRun, share: float) -> Finding | None:
    peaks = known_peaks(claim.device)
    if claim.device is None:
        if claim.format.startswith("nanoGPT"):
            return named(
                "peak-assumed",
                "note",
                [claim],
                f"MFU is of {claim.peak_flops / TERA:g} TFLOP/s, an A100's peak, whatever device it ran on",
            )
        return None
    if not peaks or any(near(claim.peak_flops, p, 0.02) for p in peaks):
        return None
    sparse = any(near(claim.peak_flops, 2 * p, 0.02) for p in peaks)
    best = max(peaks)
    evidence = f"MFU {share:.1%} is of {claim.peak_flops / TERA:g} TFLOP/s; {claim.device} has {listed(f'{p / TERA:g}' for p in sorted(peaks))}"
    if sparse:
        evidence += ": the figure with sparsity"
    return named(
        "peak-of-another-device",
        "invalid",
        [claim],
        evidence,
        f"{share * claim.peak_flops / best:.1%} of {best / TERA:g} TFLOP/s, the highest dense peak of the device",
    )


def known_peaks(device: str | None) -> set[float]:
    """Every published dense peak of a device, and of its siblings where the name does not tell them apart."""
    rows = [(pattern, figures) for pattern, figures, _ in DEVICES if device and _model_in(pattern, device)]
    return {f * TERA for _, figures in rows for f in figures if f}


def _model_in(pattern: str, device: str) -> bool:
    models = [p.replace(r"\b", "").split(".")[0] for p in pattern.split("|")]
    words = device.replace("-", " ").split()
    return any(m in words or (" " in m and m in device) for m in models)


def memory_is_the_peak(context: AuditContext) -> list[Finding]:
    """Memory that the framework holds after a step is not what the step needed."""
    return [
        named("memory-after-step", "suspect", [c], f"{c.memory_reported_bytes / 2**20:,.1f} MB reported, {c.memory_used_bytes / 2**20:,.0f} MB in use on the device",
              f"up to {c.memory_used_bytes / 2**20:,.0f} MB, allocator's cache and contexts included")
        for c in context.runs
        if c.memory_reported_bytes and c.memory_used_bytes and c.memory_reported_bytes < min(AFTER * c.memory_used_bytes, c.memory_used_bytes - CONTEXT)
    ]  # fmt: skip


def profiles_are_read_right(context: AuditContext) -> list[Finding]:
    """Inclusive times count nested operators again and again; windows of different lengths are not compared."""
    found = []
    for profile in context.evidence.operator_tables:
        if profile.self_s and profile.inclusive_s > TIMES_OWN * profile.self_s:
            claimed = [
                s for s in context.evidence.published_claims
                if s.kind == "total_time" and s.values["of"] in profile.name and near(s.values["value"], profile.inclusive_s, 0.02)
            ]  # fmt: skip
            evidence = f"the inclusive times add up to {profile.inclusive_s:,.1f} s, the operators' own to {profile.self_s:,.1f} s ({profile.inclusive_s / profile.self_s:.1f} times)"
            if claimed:
                evidence += f"; {claimed[0].source} states {claimed[0].values['value']:,.1f} s"
            corrected = f"{profile.self_s:,.1f} s of device time: the sum of the column of own times" if claimed else ""
            found.append(
                named("inclusive-times-summed", "invalid" if claimed else "note", [profile], evidence, corrected)
            )
    steps = {p.name: p.steps for p in context.evidence.operator_tables if p.steps}
    if len(set(steps.values())) > 1:
        evidence = listed(f"{name}: {n} steps" for name, n in steps.items())
        found.append(
            named("profiles-of-different-length", "suspect", list(steps), evidence, "divide each sum by its steps")
        )
    return found


def one_poller(context: AuditContext) -> list[Finding]:
    """Samples of one device come one after the other; a clock that goes back is a second poller in the same file."""
    return [
        named(
            "pollers-overlap",
            "suspect",
            [p],
            f"{p.samples:,} samples of {p.devices} devices; time goes backwards {p.backwards:,} times",
        )
        for p in context.evidence.gpu_logs
        if p.backwards > max(2, 0.01 * p.samples)
    ]


def files_were_read(context: AuditContext) -> list[Finding]:
    """Files that could not be read are no results."""
    return [named("file-unreadable", "suspect", [u], u.reason) for u in context.evidence.unread]


def runs_have_numbers(context: AuditContext) -> list[Finding]:
    """Failed runs are rows, not gaps."""
    failed = [c for c in context.runs if c.details.get("status") == "failed"]
    return [named("run-failed", "note", failed, f"failed: {listed(c.name for c in failed)}")] if failed else []


CHECKS = (
    nothing_disturbed,
    validation_was_made,
    updates_were_made,
    fields_are_usable,
    utilization_is_possible,
    memory_is_the_peak,
    profiles_are_read_right,
    one_poller,
    files_were_read,
    runs_have_numbers,
)
