"""What no device can do, and what its framework does not see: shares of a peak, memory in use."""

import re
from collections.abc import Iterator

import numpy as np

from scaleproof.auditor.checks.context import AuditContext, listed, near, of_evidence
from scaleproof.auditor.read.reported import ReportedRun
from scaleproof.ground.facts.peaks import DEVICES, TERA
from scaleproof.ground.findings.finding import Correction
from scaleproof.ground.findings.registry import Code, Flag
from scaleproof.ground.number_format import integer, percent

AFTER = 0.2  # reported over used memory, below which the report is of what is left after a step
CONTEXT_BYTES = 2**31  # that libraries take on a device

MFU_IMPOSSIBLE = Code(
    "mfu-impossible",
    "invalid",
    what="More than the peak of the device, or less than nothing.",
    detected="MFU above 100 % or below 0; MFU x peak below 2 FLOPs for each parameter and token (1, where fp8 may be "
    "meant), as the forward pass alone takes.",
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


@of_evidence.check(MFU_IMPOSSIBLE, PEAK_OF_ANOTHER_DEVICE, PEAK_ASSUMED)
def utilization_is_possible(context: AuditContext) -> Iterator[Flag]:
    """No device exceeds its peak, and the peak is this device's."""
    for run in context.runs:
        shares = run.logged_steps.values("mfu")
        if not shares.size:
            continue
        if shares.max() > 1:
            yield Flag(f"MFU is {percent(shares.max(), 1)}", [run], MFU_IMPOSSIBLE.name)
        elif shares.min() < 0:
            evidence = f"MFU is {percent(shares.min())}: an unknown device, printed as a number"
            yield Flag(evidence, [run], MFU_IMPOSSIBLE.name, severity="suspect")
        if run.peak_flops:
            yield from _peak_flags(run, run.peak_flops, float(np.median(shares)))


def _peak_flags(run: ReportedRun, stated: float, share: float) -> Iterator[Flag]:
    """Whether the peak that a run divided by is one of its device's.

    `stated`: that peak, in FLOP/s; `share`: the MFU relative to it, 1 is the peak.
    """
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
    evidence = f"MFU {percent(share, 1)} is of {stated / TERA:g} TFLOP/s; {run.device} has {known}"
    if any(near(stated, 2 * peak, 0.02) for peak in peaks):
        evidence += ": the figure with sparsity"
    correction = Correction(
        value=round(100 * share * stated / best, 1),
        unit="%",
        derivation=f"of {best / TERA:g} TFLOP/s, the highest dense peak of the device",
    )
    yield Flag(evidence, [run], PEAK_OF_ANOTHER_DEVICE.name, corrected=correction)


def known_peaks(device: str | None) -> set[float]:
    """Every published dense peak of a device in FLOP/s, and of its siblings where the name does not tell them apart."""
    if not device:
        return set()
    rows = [figures for pattern, figures, _ in DEVICES if _names_device(pattern, device)]
    return {figure * TERA for figures in rows for figure in figures if figure}


def _names_device(pattern: str, device: str) -> bool:
    """Whether a device matches a pattern of DEVICES, or is any variant of the model that the pattern begins with."""
    # The plain beginning of the pattern: "V100" of "V100.*SXM", "H100" of "H[18]00.*PCIe".
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
    for run in context.runs:
        reported, used = run.memory_reported_bytes, run.memory_used_bytes
        if reported and used and reported < min(AFTER * used, used - CONTEXT_BYTES):
            derivation = "an upper bound: in use on the device, allocator's cache and contexts included"
            yield Flag(
                f"{reported / 2**20:,.1f} MB reported, {integer(used / 2**20)} MB in use on the device",
                [run],
                corrected=Correction(value=used / 2**20, unit="MB", derivation=derivation),
            )
