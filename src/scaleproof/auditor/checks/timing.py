"""Do step times mean what they are called?"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import gcd
from statistics import fmean, median
from typing import NamedTuple

import numpy as np

from scaleproof.auditor.checks.context import AuditContext, first_of_each_run, of_evidence
from scaleproof.auditor.read.logged_steps import Figures, LoggedStep, StepSeries
from scaleproof.auditor.read.reported import ReportedRun, TimedSpan
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.finding import Correction
from scaleproof.ground.findings.registry import Flag
from scaleproof.ground.number_format import integer

FEWEST_FOR_P95 = 20  # below, a 95th percentile is the largest sample
SHARE_ON_SAWTOOTH = 0.8  # part of the steps that must lie on a sawtooth
FALL_AT_RESTART = 0.75  # ratio of a step time to the one before it, where the clock was restarted
SAWTOOTH_TOLERANCE = 0.15  # relative distance of a step time that still lies on the sawtooth
MOST_INTERVAL_SPREAD = 1.3  # of the times of intervals that are alike, largest over smallest
MOST_OVER_RECORDED = 1.05  # ratio of the time that steps need to the time that was recorded for them
WARM_UP_RATIO = 1.15  # ratio of the first epoch's time to the time of later epochs


@of_evidence.finds("sawtooth-timer", "invalid")
def sawtooth_timer(context: AuditContext) -> Iterator[Flag]:
    """The step timer is restarted only where something is printed, so that most step times hold several steps:
    throughput is too low by half of the period.

    Detected: Times since the last fall are 1, 2, ... p times one base time, within 15 % for four fifths of the steps,
    with one period p of 3 or more.
    Seen: ZeRO stages and precisions on one H100: a restart every tenth step made 23,174 tokens/s of 115,869.
    Repair: Read the clock once a step, outside of any branch.
    """
    for run in context.runs:
        steps = run.logged_steps.having("seconds")
        times = steps.values("seconds")
        tooth = _sawtooth(times)
        if tooth is None:
            continue

        counts = f"{np.median(tooth.counts):g} in the median, {tooth.counts.mean():.2f} on average"
        base = f"{tooth.base_s * 1e3:.2f} ms"
        derivation = f"true step {base}: each time divided by the steps since the clock's last restart ({counts})"
        teeth = f"1 to {tooth.period} times {base}, {tooth.period} of them in a row, repeatedly"
        printed = f"{np.median(times) * 1e3:.1f} ms in the median, {times.mean() * 1e3:.1f} ms on average"
        correction = Correction(value=tooth.base_s * 1e3, unit="ms", derivation=derivation)

        rated = steps.having("tokens_per_s")
        rates = rated.values("tokens_per_s")
        if rates.size:
            printed += f", {integer(np.median(rates))} tokens/s"
            true_rate = float(np.median(rates * rated.values("seconds") / tooth.base_s))
            correction = Correction(value=true_rate, unit="tokens/s", derivation=derivation)
        evidence = f"{len(times):,} step times are {teeth}: printed were {printed}"
        yield Flag(evidence, [run], corrected=correction)


@dataclass(frozen=True)
class _Sawtooth:
    """Step times that count from the last restart of a clock: 0.2, 0.4, 0.6, 0.2, ... s has a period of 3."""

    base_s: float  # time of one step
    period: int
    counts: Figures  # steps since the restart, for each time


def _sawtooth(times: Figures) -> _Sawtooth | None:
    """Return the sawtooth on which most step times (s) lie: 0.2, 0.4, 0.6, 0.2 and so on. Returns None without it.

    It needs three falls or more, half of which come an equal number of steps, 3 or more, after the one before.
    """
    falls = 1 + np.flatnonzero(times[1:] < FALL_AT_RESTART * times[:-1])  # indices of the times after a restart
    if len(falls) < 3:
        return None
    lengths = np.diff(falls, prepend=0)  # steps from one restart to the next
    ((period, times_seen),) = Counter(lengths.tolist()).most_common(1)
    if period < 3 or 2 * times_seen < len(lengths):
        return None
    last_fall = np.zeros(len(times), dtype=np.int64)
    last_fall[falls] = falls
    # The time at a fall is the first after a restart: 1, 2, ... p, 1, 2, ...
    counts = np.arange(1.0, len(times) + 1) - np.maximum.accumulate(last_fall)
    base_s = float(np.median(times / counts))
    on_teeth = np.count_nonzero(np.abs(times - counts * base_s) <= SAWTOOTH_TOLERANCE * counts * base_s)
    return _Sawtooth(base_s, period, counts) if on_teeth >= SHARE_ON_SAWTOOTH * len(times) else None


@of_evidence.finds("interval-over-cumulative", "invalid")
def interval_over_cumulative(context: AuditContext) -> Iterator[Flag]:
    """The time since the last log line is divided by all steps so far: the printed time falls and the rate rises with
    every line.

    Detected: Printed time x all steps equals the interval on the progress bar's clock; or printed times fall as 1, 1/2,
    1/3, ...; other logs of the same program are suspect with it.
    Seen: GPT-2 on 1, 2 and 4 L4: throughput doubles from step 15 to step 30 in every log.
    Repair: Divide an interval by the steps in that interval.
    """
    proofs = {}
    for run in context.runs:
        timed = run.logged_steps.having("seconds")
        if proof := _proof_by_bar(run, timed, least=0.95, rounding_s=1.5) or _proof_by_falling_times(timed):
            proofs[run.name] = proof
    proofs |= _proofs_together(context.runs)

    proving_run: dict[str, str] = {}  # format -> the first run that proves it
    for run in context.runs:
        if run.name in proofs:
            proving_run.setdefault(run.format, run.name)
            proof = proofs[run.name]
            yield Flag(proof.evidence, [run], corrected=_true_step_time(proof.before, proof.step))

    for run in context.runs:
        if run.format in proving_run and run.name not in proofs:
            yield from _suspect_step_times(run, proving_run[run.format])


def _suspect_step_times(run: ReportedRun, proving_run: str) -> Iterator[Flag]:
    """Flag a log with falling step times, whose program divides by all steps so far in the log of `proving_run`."""
    timed = run.logged_steps.having("seconds")
    if len(timed) < 2:
        return
    before, step = timed[-2], timed[-1]
    seconds_before, seconds = before.seconds or 0, step.seconds or 0
    if seconds < seconds_before:
        fault = f"the program that wrote this log divides by all steps so far (proven in {proving_run})"
        printed = f"{seconds_before:.4f} s at step {before.step} and {seconds:.4f} s at step {step.step}"
        corrected = _true_step_time(before, step)
        yield Flag(f"{fault}; here it prints {printed}", [run], severity="suspect", corrected=corrected)


class Proof(NamedTuple):
    """Two neighbouring lines of a log that show that an interval was divided by all steps so far."""

    before: LoggedStep
    step: LoggedStep
    evidence: str


def _proofs_together(runs: list[ReportedRun]) -> dict[str, Proof]:
    """Return name of the run -> its proof, if three logs or more of one program have one; each proof may be weaker."""
    by_format: dict[str, dict[str, Proof]] = defaultdict(dict)
    for run in runs:
        proof = _proof_by_bar(run, run.logged_steps.having("seconds"), least=0.8, rounding_s=0)
        if proof is not None:
            by_format[run.format][run.name] = proof
    return {name: proof for proofs in by_format.values() if len(proofs) >= 3 for name, proof in proofs.items()}


def _proof_by_bar(run: ReportedRun, timed: StepSeries, least: float, rounding_s: float) -> Proof | None:
    """Return the first two lines between which a progress bar's clock shows a division by all steps.

    Returns None without such lines. The time on its clock is much more than printed time x steps in between, but about
    printed time x all steps. `least`: the smallest share of the clock's time that the latter may be, less `rounding_s`.
    Example: 0.5 s at step 20, 10 s after step 10 on the bar's clock.
    """
    elapsed = {step: seconds for step, seconds, _ in run.progress_bar}
    if not elapsed:
        return None
    for before, step in pairwise(timed):
        step_count, printed_s = step.step - before.step, step.seconds or 0
        if step_count <= 0 or step.step < 1.5 * step_count or before.step not in elapsed or step.step not in elapsed:
            continue  # not on the bar, or all steps are hardly more than those in between

        bar_s = elapsed[step.step] - elapsed[before.step]
        all_steps_s = printed_s * step.step
        # 5 % and 1.5 s more, 1 s less: the bar's clock has whole seconds.
        is_of_all_steps = least * bar_s - rounding_s <= all_steps_s <= 1.05 * bar_s + 1.5
        is_too_short = printed_s * step_count < 0.8 * least / 0.95 * bar_s - 1  # by a fifth where `least` is 0.95
        if bar_s > 5 and is_of_all_steps and is_too_short:
            bar = f"{bar_s:.0f} s for steps {before.step + 1} to {step.step}, {bar_s / step_count:.2f} s each"
            evidence = f"at step {step.step} it prints {printed_s:.4f} s an iteration; the progress bar took {bar}, "
            evidence += f"and {printed_s:.4f} x {step.step} = {all_steps_s:.1f} s"
            return Proof(before, step, evidence)
    return None


def _proof_by_falling_times(timed: StepSeries) -> Proof | None:
    """Return a proof by printed times that fall as 1, 1/2, 1/3: 6, 3, 2 s at steps 10, 20, 30. Returns None otherwise.

    Such times are an interval's, here always 60 s, divided by all steps so far: 60 / 10, 60 / 20, 60 / 30. It takes
    four lines or more, each at a multiple of the first one's step.
    """
    if len(timed) < 4:
        return None
    length = timed[0].step
    if length <= 0 or any(step.step != length * number for number, step in enumerate(timed, start=1)):
        return None
    # Each is an interval's time over an interval's steps, the same for all where the intervals took equally long.
    products = [(step.seconds or 0) * number for number, step in enumerate(timed, start=1)]
    if max(products) >= MOST_INTERVAL_SPREAD * min(products):
        return None
    printed = ", ".join(f"{step.seconds:.4g} s at {step.step}" for step in timed[:4])
    product = f"times the number of the interval they are all {median(products):.3g} s"
    return Proof(timed[-2], timed[-1], f"printed times fall as 1, 1/2, 1/3, ...: {printed}; {product}")


def _true_step_time(before: LoggedStep, step: LoggedStep) -> Correction:
    """Return the true seconds of a step: printed time x all steps is the time since `before`, over the steps since."""
    steps = step.step - before.step
    printed = step.seconds or 0
    true = printed * step.step / steps
    derivation = f"an iteration takes {printed:.4f} x {step.step} / {steps}"
    if step.flops_per_s:
        rate = step.flops_per_s * printed / true / 1e12
        derivation += f", so {rate:.3f} TFLOP/s, not {step.flops_per_s / 1e12:.3f}"
    return Correction(value=true, unit="s", derivation=derivation)


@of_evidence.finds("sampled-steps-miss-update", "invalid")
def sampled_steps(context: AuditContext) -> Iterator[Flag]:
    """Every n-th micro-step is timed and every m-th updates the weights; with a common divisor the two never meet, so
    that step times leave out gradient exchange, clipping and the optimizer.

    Detected: gcd(n, accumulation) > 1, and time over micro-steps exceeds the recorded mean by more than 5 %.
    Seen: GPT-2 on two nodes of V100: 51.8 ms recorded, 273 ms needed.
    Repair: Time whole optimizer steps, all of them.
    """
    yield from first_of_each_run(context, _missed_updates)


def _missed_updates(run: ReportedRun, span: TimedSpan) -> Flag | None:
    """Flag timed micro-steps that never update the weights: 50 ms are recorded, 100 s / 400 = 250 ms are needed."""
    every, accumulation = run.sampled_every, run.accumulation
    mean = span.step_mean_s
    if not (every and accumulation and mean and span.seconds and span.micro_steps):
        return None
    implied = span.seconds / span.micro_steps
    if gcd(every, accumulation) == 1 or implied <= MOST_OVER_RECORDED * mean:
        return None
    evidence = (
        f"one micro-step in {every} is timed and one in {accumulation} updates the weights, never the same one. "
        f"Recorded are {mean * 1e3:.1f} ms on average, where {span.seconds:,.2f} s / {span.micro_steps:,} = "
        f"{implied * 1e3:.1f} ms ({implied / mean:.1f} times)"
    )
    derivation = f"a micro-step, {implied * accumulation * 1e3:.1f} ms an optimizer step: time over steps"
    return Flag(evidence, [run], corrected=Correction(value=implied * 1e3, unit="ms", derivation=derivation))


@of_evidence.finds("percentile-of-few", "suspect")
def percentile_of_few(context: AuditContext) -> Iterator[Flag]:
    """A 95th percentile of five numbers is their maximum; of one number it is that number.

    Detected: Fewer than 20 timed steps behind it.
    Seen: GPT-2 on two nodes of V100: p95 of 5 samples, and of 1.
    Repair: Time every step; print a percentile only from 20 samples (p99: 100).
    """
    for run in context.runs:
        for span in run.timed_spans:
            if not (span.step_p95_s and run.sampled_every and span.micro_steps):
                continue
            count = sum(step >= run.sampled_from for step in range(0, span.micro_steps, run.sampled_every))
            if count >= FEWEST_FOR_P95:
                continue
            samples = plural(count, "sampled micro-step")
            evidence = f"the 95th percentile, {span.step_p95_s * 1e3:.2f} ms, is of {samples}"
            if span.step_mean_s == span.step_p50_s == span.step_p95_s:
                evidence += ": mean, median and 95th percentile are one number"
            yield Flag(evidence, [run])
            break  # one finding for a run


@of_evidence.finds("warmup-in-window", "note")
def warmup_in_window(context: AuditContext) -> Iterator[Flag]:
    """First steps start libraries, allocate and compile; an average with them depends on how long the run was.

    Detected: The first epoch takes 1.15 times the others or more, the first step 3 times; or the program is known to
    count from the first step.
    Seen: GPT-2 on V100, an early set: first epoch 22.1 s, then 16.4 s.
    Repair: State a number of warm-up steps and start the clock after them.
    """
    for run in context.runs:
        times = [span.seconds for span in run.timed_spans if span.seconds]
        steps = run.logged_steps.nonzero("seconds")
        if len(times) >= 3 and times[0] > WARM_UP_RATIO * median(times[1:]):
            rest = fmean(times[1:])
            evidence = f"the first epoch took {times[0]:,.2f} s, the others {rest:,.2f} s on average"
            right = Correction(value=rest, unit="s", derivation="an epoch, without the first")
            yield Flag(f"{evidence}; with it the average is {fmean(times):,.2f} s", [run], corrected=right)
        elif len(steps) >= 10 and steps[0] > 3 * np.median(steps[1:]):
            evidence = f"the first step in the log took {steps[0]:.3f} s, the median one {np.median(steps[1:]):.3f} s"
            yield Flag(evidence, [run])
        elif run.details.get("steps_per_second"):
            rate = run.details["steps_per_second"]
            yield Flag(f"{rate:g} steps/s covers all of train(), start-up and evaluation included", [run])
        # A program that samples step times takes its rate from all micro-steps: with 1,000 the first ones hardly count.
        elif len(times) == 1 and run.sampled_every and (run.timed_spans[0].micro_steps or 1000) < 1000:
            steps_made = run.timed_spans[0].micro_steps
            yield Flag(f"the rate covers all {steps_made:,} micro-steps, the first one included", [run])
