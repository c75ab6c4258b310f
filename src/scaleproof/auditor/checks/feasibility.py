"""What no device can do, and what its framework does not see: shares of a peak, memory in use."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from scaleproof.auditor.checks.context import AuditContext, listed, near, of_evidence
from scaleproof.auditor.checks.rows import multiplies
from scaleproof.auditor.read.reported import PublishedClaim, ReportedRun
from scaleproof.auditor.read.reported_tables import PrintedInterval, Quantity, ReportedRow, ReportedTable
from scaleproof.ground.facts.peaks import DEVICES, TERA, peak
from scaleproof.ground.findings.finding import Correction
from scaleproof.ground.findings.registry import Code, Flag
from scaleproof.ground.number_format import integer, percent

AFTER = 0.2  # reported over used memory, below which the report is of what is left after a step
CONTEXT_BYTES = 2**31  # that libraries take on a device
WHOLE = 1.005  # a share of 1, with half a percent beside its rounding
SAME_PEAK = 0.02
CARDS = ("A100", "H100", "V100", "T4", "L4", "H200")  # whose peaks others are taken for
MOST = 2  # rows that show which peak is meant, for each one that does not follow
CONSTANT = 0.01  # relative difference of two figures that are one peak
RECOMPUTED = 4 / 3  # FLOPs of the hardware with full activation checkpointing, over the model's: MFU beside these
OTHER_PEAK = 0.08  # by which a peak may differ between variants of a device
PEAKS = {figure * TERA for _, figures, _ in DEVICES for figure in figures if figure}
FORWARD = 2.0  # FLOPs for each parameter and token; training takes 6
ROUNDED = 0.05  # relative difference that rounded sizes of models explain
# Models that use a part of their parameters for a token, or train a part of them.
IN_PART = re.compile(r"(?i)moe|expert|\bep\d|\da\d|a\d+(?:\.\d+)?b\b|\dx\d+b|mixtral|deepseek|glam|switch|lora")
WITH_FP8 = re.compile(r"(?i)[hb][12]00|gb|h800|l4|40\d0|50\d0|mi3")
SIZE = re.compile(r"(?i)(?<![\w.])(\d+(?:\.\d+)?) ?b(?![a-z\d])")  # "LLaMA-7B"

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
    """No device exceeds its peak, and the peak behind an MFU is this device's."""
    for table in context.tables_and_runs:
        for row in (row for row in table.rows if row.measured):
            for share in row.all_of("mfu"):
                evidence = f"{row.description}: {share.heading} is {share.printed}"
                if share.interval.low > WHOLE:
                    yield Flag(evidence, [row.place], MFU_IMPOSSIBLE.name)
                elif share.value < 0:
                    unknown = f"{evidence}: an unknown device, printed as a number"
                    yield Flag(unknown, [row.place], MFU_IMPOSSIBLE.name, severity="suspect")
    for table in context.tables:
        yield from _flops_of_parameters(table)
    for run in context.runs:
        yield from _peak_of_run(run)
    for claim in context.claims("mfu"):
        yield from _peak_of_claim(claim)
    for table in context.tables:
        yield from _peaks_of_table(table)


def _peak_of_run(run: ReportedRun) -> Iterator[Flag]:
    """Whether the peak that a run divided by is one of its device's."""
    shares, stated = run.logged_steps.values("mfu"), run.peak_flops
    if not (shares.size and stated):
        return
    peaks = known_peaks(run.device)
    if run.device is None and run.format.startswith("nanoGPT"):
        evidence = f"MFU is of {stated / TERA:g} TFLOP/s, an A100's peak, whatever device it ran on"
        yield Flag(evidence, [run], PEAK_ASSUMED.name)
    elif run.device and peaks and not any(near(stated, peak, SAME_PEAK) for peak in peaks):
        share = float(np.median(shares))
        yield _other_peak([run], f"MFU {percent(share, 1)}", stated, share * stated, run.device, peaks)


def _peak_of_claim(claim: PublishedClaim) -> Iterator[Flag]:
    """Whether a published MFU is below 1, and the peak behind it that of the device and the precision."""
    flops, stated = claim.values["flops"], claim.values["peak"]
    device, precision = str(claim.values["device"]), claim.values["precision"]
    if stated <= 0:
        return
    if flops > stated:
        evidence = f"{flops / TERA:g} of {stated / TERA:g} TFLOP/s is {percent(flops / stated)}"
        yield Flag(evidence, [claim.source], MFU_IMPOSSIBLE.name)
    right = peak(device, precision) if precision in ("fp32", "tf32", "bf16", "fp16") else None
    if right and not near(stated, right.flops, SAME_PEAK):
        what, whose = f"{claim.source}: MFU", f"{device} in {precision}"
        yield _other_peak([claim.source], what, stated, flops, whose, {right.flops}, right.source)


def _peaks_of_table(table: ReportedTable) -> Iterator[Flag]:
    """Rows in which MFU x peak is not the FLOP/s of one device, for any dense peak that its device has."""
    common_peaks = _peaks_of_rows(table.rows)
    for row in table.rows:
        named = row.words.get("device") or table.words.get("device")
        peaks = known_peaks(named) if named else common_peaks
        share, flops = row.known("mfu"), row.known("flops_per_s")
        if not (row.measured and peaks and share and flops and multiplies(share, flops)):
            continue
        readings = _flops_of_one(flops, row.devices or 1)
        pairs = [(share.interval * peak, reading) for peak in peaks for reading in readings]
        if any(one.meets(flop, OTHER_PEAK) or (one * RECOMPUTED).meets(flop, CONSTANT) for one, flop in pairs):
            continue
        what = f"{row.description}: MFU {share.printed} of {flops.printed}"
        of_one = readings[0].middle
        device = named or "the device of the other rows"
        stated = float(f"{of_one / share.value:.3g}")
        flag = _other_peak([row.place], what, stated, of_one, device, peaks)
        yield replace(flag, severity="suspect", corrected=flag.corrected if len(readings) == 1 else None)


def _other_peak(
    about: list[str | ReportedRun],
    what: str,
    stated: float,
    flops: float,
    device: str,
    peaks: set[float],
    source: str = "the highest dense peak of the device",
) -> Flag:
    """The finding that `what`, an MFU of `flops`, is relative to the peak `stated`: none of the device's `peaks`."""
    others = [
        name for name in CARDS if name not in device and any(near(stated, p, SAME_PEAK) for p in known_peaks(name))
    ]
    whose = f", the peak of {listed(others)}" if others else ""
    if any(near(stated, 2 * one, SAME_PEAK) for one in peaks):
        whose = ", the figure with sparsity"
    best, known = max(peaks), " or ".join(f"{one / TERA:g}" for one in sorted(peaks))
    derivation = f"{flops / TERA:.4g} of {best / TERA:g} TFLOP/s, {source}"
    return Flag(
        f"{what} is of {stated / TERA:g} TFLOP/s{whose}; {device} has {known}",
        about,
        PEAK_OF_ANOTHER_DEVICE.name,
        corrected=Correction(value=round(100 * flops / best, 1), unit="%", derivation=derivation),
    )


def _peaks_of_rows(rows: Sequence[ReportedRow]) -> set[float]:
    """The published peak that MFU and FLOP/s of most rows imply; none where any row names a device."""
    pairs = [(row.known("mfu"), row.known("flops_per_s"), row) for row in rows if row.measured]
    implied = [
        _flops_of_one(flops, row.devices or 1)[0] / share.interval for share, flops, row in pairs if share and flops
    ]
    if any("device" in row.words for row in rows):
        return set()
    counts = {peak: sum(one.contains(peak, CONSTANT) for one in implied) for peak in PEAKS}
    most = max(counts.values(), default=0)
    return {peak for peak, count in counts.items() if count == most >= max(2, MOST * (len(implied) - count))}


def _flops_of_one(flops: Quantity, devices: int) -> list[PrintedInterval]:
    """FLOP/s of one device: one interval, or two where the figure may be of one device or of all."""
    stated = flops.interval
    if flops.per_device or devices == 1:
        return [stated]
    if flops.per_device is False:
        return [stated / devices]
    return [stated, stated / devices]


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


def _flops_of_parameters(table: ReportedTable) -> Iterator[Flag]:
    """The rows whose MFU and rate leave fewer FLOPs for each token than the forward pass of their model takes."""
    for row in (row for row in table.rows if row.measured):
        share, rate = row.known("mfu"), row.known("tokens_per_s")
        device = row.words.get("device") or table.words.get("device") or ""
        peaks, parameters = known_peaks(device), _parameters(row, table)
        if share and rate and peaks and parameters and (row.devices or rate.per_device):
            tokens = rate.value / (1 if rate.per_device else row.devices or 1)
            least = FORWARD * (1 - ROUNDED) / (2 if WITH_FP8.search(device) else 1)
            if (flops := share.interval.high * max(peaks) / tokens / parameters) < least:
                evidence = (
                    f"{row.description}: MFU {share.printed} of {device} at {rate.printed} is {flops:.2g} FLOPs for "
                )
                evidence += f"each of {parameters / 1e9:g}B parameters and token; the forward pass takes {FORWARD:g}"
                yield Flag(evidence, [row.place], MFU_IMPOSSIBLE.name, severity="suspect")


def _parameters(row: ReportedRow, table: ReportedTable) -> float | None:
    """The parameters of a dense model, as its row or its name states them; None where they are not known."""
    if IN_PART.search(" ".join((*row.texts.values(), table.caption, table.heading))):
        return None
    size = SIZE.search(row.words.get("model", ""))
    return row.value("parameters") or (float(size[1]) * 1e9 if size else None)


@of_evidence.finds("memory-after-step", "suspect")
def memory_is_the_peak(context: AuditContext) -> Iterator[Flag]:
    """Memory that is allocated after a step is what is left, not what was needed.

    Detected: The framework's figure is below a fifth of what the driver sees.
    Seen: GPT-2 on L4: 651.7 MB reported, 21.5 GB in use.
    Repair: Report the peaks of allocated and reserved memory, reset after the warm-up.
    """
    for run in context.runs:
        reported, used = run.memory_reported_bytes, run.memory_used_bytes
        if reported and used and reported < min(AFTER * used, used - CONTEXT_BYTES):
            derivation = "an upper bound: in use on the device, allocator's cache and contexts included"
            yield Flag(
                f"{reported / 2**20:,.1f} MB reported, {integer(used / 2**20)} MB in use on the device",
                [run],
                corrected=Correction(value=used / 2**20, unit="MB", derivation=derivation),
            )
