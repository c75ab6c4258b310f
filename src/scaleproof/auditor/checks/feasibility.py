"""What no device can do, and what its framework does not see: shares of a peak, memory in use."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from scaleproof.auditor.checks.context import ROWS_PER_ODD_ROW, SAME_TOLERANCE, AuditContext, listed, near, of_evidence
from scaleproof.auditor.checks.rows import multiplies
from scaleproof.auditor.read.reported import PublishedClaim, ReportedRun
from scaleproof.auditor.read.reported_tables import PrintedInterval, Quantity, ReportedRow, ReportedTable
from scaleproof.ground.facts.peaks import DEVICES, TERA, peak
from scaleproof.ground.findings.finding import Correction
from scaleproof.ground.findings.registry import Code, Flag
from scaleproof.ground.number_format import integer, percent
from scaleproof.ground.records.grouping import lists_by_key

LEFT_AFTER_STEP_RATIO = 0.2  # reported over used memory, below which the report is of what is left after a step
CONTEXT_BYTES = 2**31  # that libraries take on a device
LARGEST_SHARE = 1.005  # a share of 1, with half a percent beside its rounding
SAME_PEAK_TOLERANCE = 0.02  # relative difference of a peak that a program names
LOGGED_PEAK_TOLERANCE = 0.1  # the same of FLOP/s over an MFU in whole per cents
LEAST_MFU = 0.1  # that has two digits in whole per cents
CARDS = ("A100", "H100", "V100", "T4", "L4", "H200")  # whose peaks others are taken for
RECOMPUTED_FLOPS_RATIO = 4 / 3  # FLOPs with full activation checkpointing, over the model's: MFU beside these
PEAK_VARIANTS_TOLERANCE = 0.08  # relative difference of the peaks of two variants of a device
ALL_PEAKS = {figure * TERA for _, figures, _ in DEVICES for figure in figures if figure}
LARGE = 1e9  # parameters from which on attention to 128k tokens takes less than MOST_FLOPS
MOST_FLOPS = 60.0  # for each parameter and token
FORWARD_FLOPS = 2.0  # FLOPs for each parameter and token; training takes 6
ROUNDED_SIZE_TOLERANCE = 0.05  # relative difference that rounded sizes of models explain
# Models that use a part of their parameters for a token, or train a part of them.
SPARSE_MODEL = re.compile(r"(?i)moe|expert|\bep\d|\da\d|a\d+(?:\.\d+)?b\b|\dx\d+b|mixtral|deepseek|glam|switch|lora")
WITH_FP8 = re.compile(r"(?i)[hb][12]00|gb|h800|l4|40\d0|50\d0|mi3")
SIZE_IN_NAME = re.compile(r"(?i)(?<![\w.])(\d+(?:\.\d+)?) ?b(?![a-z\d])")  # "LLaMA-7B"

MFU_IMPOSSIBLE = Code(
    "mfu-impossible",
    "invalid",
    what="More than the peak of the device, or less than nothing.",
    detected="MFU above 100 % or below 0; MFU x peak, or FLOP/s, below 2 FLOPs for each parameter and token (1, where "
    "fp8 may be meant), as the forward pass alone takes, or above 60 of a model with a billion parameters or more.",
    seen="nanoGPT pull request 464 (104 %), flame issue 7 (133 %), llm.c issue 796 (-100 %).",
    repair="Check tokens, time, parameter count and peak; print no figure for a device that is not in the table.",
)
PEAK_OF_ANOTHER_DEVICE = Code(
    "peak-of-another-device",
    "invalid",
    what="The MFU is relative to the peak of another device, precision, or to one with sparsity.",
    detected="The peak that the program names, or divided its FLOP/s by, is none of the device's published dense ones.",
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
    """Flag MFUs above 1, or of more than the peak of their device, and those that are of another device's peak."""
    for table in context.tables_and_runs:
        for row in table.rows:
            if row.measured:
                yield from _impossible_shares(row)
    for table in context.tables:
        yield from _flops_of_parameters(table)
    for run in context.runs:
        yield from _wrong_peak_of_run(run)
    for claim in context.claims("mfu"):
        yield from _wrong_peak_of_claim(claim)
    for table in context.tables:
        yield from _wrong_peaks_of_table(table)


def _impossible_shares(row: ReportedRow) -> Iterator[Flag]:
    """Flag an MFU of a row that is above 100 %, whatever its rounding, or below 0."""
    for share in row.all_of("mfu"):
        evidence = f"{row.description}: {share.heading} is {share.printed}"
        if share.interval.low > LARGEST_SHARE:
            yield Flag(evidence, [row.place], MFU_IMPOSSIBLE.name)
        elif share.value < 0:
            evidence += ": an unknown device, printed as a number"
            yield Flag(evidence, [row.place], MFU_IMPOSSIBLE.name, severity="suspect")


def _wrong_peak_of_run(run: ReportedRun) -> Iterator[Flag]:
    """Flag a run whose logged MFU was computed with another device's peak, e.g. an A100's 312 TFLOP/s on an H100.

    nanoGPT always divides by an A100's: without a named device that peak is only assumed.
    """
    mfus, assumed_peak = run.logged_steps.values("mfu"), run.peak_flops
    if not (mfus.size and assumed_peak):
        return
    peaks = peaks_of(run.device)
    both = run.logged_steps.having("mfu", "flops_per_s")
    if any(near(assumed_peak, peak, SAME_PEAK_TOLERANCE) for peak in peaks) and np.median(mfus) >= LEAST_MFU:
        ratios = both.values("flops_per_s") / both.values("mfu")  # by what it really divided
        divided_by = float(f"{np.median(ratios):.3g}") if ratios.size else assumed_peak
        assumed_peak = assumed_peak if near(divided_by, assumed_peak, LOGGED_PEAK_TOLERANCE) else divided_by
    if run.device is None and run.format.startswith("nanoGPT"):
        evidence = f"MFU is of {assumed_peak / TERA:g} TFLOP/s, an A100's peak, whatever device it ran on"
        yield Flag(evidence, [run], PEAK_ASSUMED.name)
    elif run.device and peaks and not any(near(assumed_peak, peak, SAME_PEAK_TOLERANCE) for peak in peaks):
        median_mfu = float(np.median(mfus))
        flops, what = median_mfu * assumed_peak, f"MFU {percent(median_mfu, 1)}"
        yield _peak_of_another_device([run], what, assumed_peak, flops, run.device, peaks)


def _wrong_peak_of_claim(claim: PublishedClaim) -> Iterator[Flag]:
    """Flag a published MFU above 1, or of another peak: 150 of 312 TFLOP/s on an A100 in tf32, which has 156."""
    flops, stated = claim.values["flops"], claim.values["peak"]  # FLOP/s
    device, precision = str(claim.values["device"]), claim.values["precision"]
    if stated <= 0:
        return
    if flops > stated:
        evidence = f"{flops / TERA:g} of {stated / TERA:g} TFLOP/s is {percent(flops / stated)}"
        yield Flag(evidence, [claim.source], MFU_IMPOSSIBLE.name)
    right = peak(device, precision) if precision in ("fp32", "tf32", "bf16", "fp16") else None
    if right and not near(stated, right.flops, SAME_PEAK_TOLERANCE):
        what, device = f"{claim.source}: MFU", f"{device} in {precision}"
        yield _peak_of_another_device([claim.source], what, stated, flops, device, {right.flops}, right.source)


def _wrong_peaks_of_table(table: ReportedTable) -> Iterator[Flag]:
    """Flag rows whose FLOP/s over MFU is no peak of their device: 125 TFLOP/s over 40 % is an A100's 312.

    Where no row names a device, the peak of most rows is expected in all.
    """
    rows_by_device = lists_by_key((row.words.get("device") or table.words.get("device"), row) for row in table.rows)
    for named, rows in rows_by_device.items():
        usual_peaks = _peaks_of_most_rows(rows)
        if named:
            yield from _wrong_peaks_of_rows(rows, peaks_of(named), usual_peaks, named)
        elif len(rows_by_device) == 1:
            yield from _wrong_peaks_of_rows(rows, usual_peaks, usual_peaks, "the device of the other rows")


def _wrong_peaks_of_rows(
    rows: Sequence[ReportedRow], peaks: set[float], usual_peaks: set[float], device: str
) -> Iterator[Flag]:
    """Flag rows of one device whose FLOP/s over MFU is none of its `peaks`.

    `usual_peaks`: of most rows. Recomputed activations explain a third more of these alone, of the peaks of half
    precision where there are none: of several precisions together they would explain nearly every figure.
    """
    is_half = not any(row.words.get("precision", "").lower() in ("fp32", "tf32", "float32") for row in rows)
    recomputed_peaks = peaks & usual_peaks or {one for one in peaks if not is_half or one > max(peaks) / 2}
    for row in rows:
        share, flops = row.known("mfu"), row.known("flops_per_s")
        if not (row.measured and peaks and share and flops and multiplies(share, flops)):
            continue
        readings = _flops_of_one_device(flops, row.devices or 1)  # two, if nobody says whether they are of all devices
        as_stated = [share.interval * right_peak for right_peak in peaks]
        recomputed = [share.interval * (RECOMPUTED_FLOPS_RATIO * right_peak) for right_peak in recomputed_peaks]
        if any(possible.meets(reading, PEAK_VARIANTS_TOLERANCE) for possible in as_stated for reading in readings):
            continue
        if any(possible.meets(reading, SAME_TOLERANCE) for possible in recomputed for reading in readings):
            continue

        what = f"{row.description}: MFU {share.printed} of {flops.printed}"
        device_flops = readings[0].middle
        peak_meant = float(f"{device_flops / share.value:.3g}")  # that the MFU was divided by, in three digits
        flag = _peak_of_another_device([row.place], what, peak_meant, device_flops, device, recomputed_peaks)
        # With two readings the FLOP/s of one device are unknown, and so is the right MFU.
        yield replace(flag, severity="suspect", corrected=flag.corrected if len(readings) == 1 else None)


def _peak_of_another_device(
    about: list[str | ReportedRun],
    what: str,
    stated: float,
    flops: float,
    device: str,
    peaks: set[float],
    source: str = "the highest dense peak of the device",
) -> Flag:
    """Flag `what`, an MFU that is `flops` over a `stated` peak, none of the `peaks` of the device.

    The sentence says whose peak it is: "the peak of A100" of 312 TFLOP/s, or "the figure with sparsity". The MFU is
    corrected by the highest of `peaks`, which is from `source`.
    """
    cards = [name for name in CARDS if name not in device]
    others = [name for name in cards if any(near(stated, peak, SAME_PEAK_TOLERANCE) for peak in peaks_of(name))]
    whose = f", the peak of {listed(others)}" if others else ""
    if any(near(stated, 2 * peak, SAME_PEAK_TOLERANCE) for peak in peaks):
        whose = ", the figure with sparsity"  # which is twice the dense one
    best, right = max(peaks), " or ".join(f"{peak / TERA:g}" for peak in sorted(peaks))
    derivation = f"{flops / TERA:.4g} of {best / TERA:g} TFLOP/s, {source}"
    corrected = Correction(value=round(100 * flops / best, 1), unit="%", derivation=derivation)
    evidence = f"{what} is of {stated / TERA:g} TFLOP/s{whose}; {device} has {right}"
    return Flag(evidence, about, PEAK_OF_ANOTHER_DEVICE.name, corrected=corrected)


def _peaks_of_most_rows(rows: Sequence[ReportedRow]) -> set[float]:
    """Return the peaks that most rows imply: 312 TFLOP/s by 125 at 40 %."""
    implied_peaks = []
    for row in (row for row in rows if row.measured):
        share, flops = row.known("mfu"), row.known("flops_per_s")
        if share and flops:
            implied_peaks.append(_flops_of_one_device(flops, row.devices or 1)[0] / share.interval)

    row_counts = {peak: sum(implied.contains(peak, SAME_TOLERANCE) for implied in implied_peaks) for peak in ALL_PEAKS}
    most_rows = max(row_counts.values(), default=0)
    needed_rows = max(2, ROWS_PER_ODD_ROW * (len(implied_peaks) - most_rows))  # one row is no majority
    return {peak for peak, count in row_counts.items() if count == most_rows >= needed_rows}


def _flops_of_one_device(flops: Quantity, devices: int) -> list[PrintedInterval]:
    """Return the FLOP/s of one device: [100] of 400 on 4 devices, [400, 100] where nobody says whose the figure is."""
    stated = flops.interval
    if flops.per_device or devices == 1:
        return [stated]
    if flops.per_device is False:
        return [stated / devices]
    return [stated, stated / devices]


def peaks_of(device: str | None) -> set[float]:
    """Return all published dense peaks (FLOP/s) of a device: of all variants ("SXM", "PCIe") that its name may mean."""
    if not device:
        return set()
    rows = [figures for pattern, figures, _ in DEVICES if _names_device(pattern, device)]
    return {figure * TERA for figures in rows for figure in figures if figure}


def _names_device(pattern: str, device: str) -> bool:
    """Whether a device matches a pattern of DEVICES, or its name says the model alone: "V100" may be any variant."""
    if re.search(pattern, device):
        return True
    # The plain beginning of the pattern: "V100" of "V100.*SXM", "H100" of "H[18]00.*PCIe".
    model, *_ = re.split(r"[.(]", pattern.replace(r"\b", "").replace("[18]", "1"))
    # A model of one word must be a whole word of the name: "L4" is not in "L40".
    return model in (device if " " in model else device.replace("-", " ").split())


def _flops_of_parameters(table: ReportedTable) -> Iterator[Flag]:
    """Flag rows whose MFU x peak, or FLOP/s, over tokens/s is too little or too much for their parameters.

    Example: 10 % of an A100 at 5,000 tokens/s are 6.2 GFLOP a token, 0.89 for each of 7B parameters.
    """
    for row in (row for row in table.rows if row.measured):
        device = row.words.get("device") or table.words.get("device") or ""
        rate = row.known("tokens_per_s")
        if rate is None or not (row.devices or rate.per_device):
            continue
        text, flops_of_device = _stated_flops(row, device)
        parameters = _dense_parameters(row, table) if flops_of_device else None
        if not parameters:
            continue

        device_rate = rate.value / (1 if rate.per_device else row.devices or 1)  # tokens/s
        # FLOPs for each parameter and token.
        most = max(reading.high for reading in flops_of_device) / device_rate / parameters
        least = min(reading.low for reading in flops_of_device) / device_rate / parameters
        # In fp8 the peak is twice as high: the MFU may be relative to that.
        fewest_flops = FORWARD_FLOPS / (2 if WITH_FP8.search(device) else 1)
        if most < fewest_flops * (1 - ROUNDED_SIZE_TOLERANCE):
            wrong, why = most, f"the forward pass takes {FORWARD_FLOPS:g}"
        elif parameters >= LARGE and least > MOST_FLOPS:
            wrong, why = least, "training takes 6, and attention some more"
        else:
            continue

        evidence = f"{row.description}: {text} at {rate.printed} is {wrong:.2g} FLOPs for each of "
        evidence += f"{parameters / 1e9:g}B parameters and token; {why}"
        yield Flag(evidence, [row.place], MFU_IMPOSSIBLE.name, severity="suspect")


def _stated_flops(row: ReportedRow, device: str) -> tuple[str, list[PrintedInterval]]:
    """Return how a row states its FLOP/s, and what they may be for one device. Returns ("", []) where it does not."""
    share, flops = row.known("mfu"), row.known("flops_per_s")
    if share and (peaks := peaks_of(device)):
        return f"{share.heading} {share.printed} of {device}", [share.interval * max(peaks)]
    if flops:
        return f"{flops.heading} {flops.printed}", _flops_of_one_device(flops, row.devices or 1)
    return "", []


def _dense_parameters(row: ReportedRow, table: ReportedTable) -> float | None:
    """Return the parameters of a dense model as its row or its name ("LLaMA-7B") states them.

    None where they do not, or where a word says that a token uses or trains only a part of them.
    """
    if SPARSE_MODEL.search(" ".join((*row.texts.values(), table.caption, table.heading))):
        return None
    size = SIZE_IN_NAME.search(row.words.get("model", ""))
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
        # Libraries alone may explain a gap of CONTEXT_BYTES.
        if reported and used and reported < min(LEFT_AFTER_STEP_RATIO * used, used - CONTEXT_BYTES):
            derivation = "an upper bound: in use on the device, allocator's cache and contexts included"
            right = Correction(value=used / 2**20, unit="MB", derivation=derivation)
            evidence = f"{reported / 2**20:,.1f} MB reported, {integer(used / 2**20)} MB in use on the device"
            yield Flag(evidence, [run], corrected=right)
