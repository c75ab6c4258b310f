"""Do step times mean what they are called?"""

from collections import Counter
from itertools import pairwise
from math import gcd
from statistics import fmean, median

from scalebench.audit.external.context import AuditContext, named, near
from scalebench.audit.finding import Finding
from scalebench.importers.reported import LoggedStep, ReportedRun

FEW = 20  # samples below which a 95th percentile is the largest one
RISING = 0.8  # part of the steps that must lie on the sawtooth
TOOTH = 0.15  # relative distance from it
MISSED = 1.05  # ratio of the time that steps need to the time that was recorded for them
FIRST = 1.15  # ratio of the first epoch's time to the others'


def sawtooth_timer(context: AuditContext) -> list[Finding]:
    """Step times that are 1, 2, ... p times something, again and again: the clock is restarted only every p-th step."""
    found = []
    for claim in context.runs:
        rows = [row for row in claim.logged_steps if row.seconds]
        tooth = _sawtooth([row.seconds for row in rows])
        if tooth:
            base, period, counts = tooth
            middle = median(row.seconds for row in rows)
            mean = fmean(row.seconds for row in rows)
            rates = [row.tokens_per_s * row.seconds / base for row in rows if row.tokens_per_s]
            printed = f", {median(row.tokens_per_s for row in rows if row.tokens_per_s):,.0f} tokens/s" if rates else ""
            evidence = (
                f"{len(rows):,} step times are 1 to {period} times {base * 1e3:.2f} ms, {period} of them in a row and again: "
                f"printed were {middle * 1e3:.1f} ms in the middle, {mean * 1e3:.1f} ms on average{printed}"
            )
            corrected = f"true step {base * 1e3:.2f} ms"
            if rates:
                corrected += f", {median(rates):,.0f} tokens/s"
            corrected += f": each time divided by the steps since the clock's last restart ({median(counts):g} in the middle, {fmean(counts):.2f} on average)"
            found.append(named("sawtooth-timer", "invalid", [claim], evidence, corrected))
    return found


def _sawtooth(times: list[float]) -> tuple[float, int, list[int]] | None:
    """(time of one step, period, steps since the restart for each time), or None."""
    counts, lengths, k = [], [], 0
    for i, time in enumerate(times):
        if k and time < 0.75 * times[i - 1]:
            lengths.append(k)
            k = 0
        k += 1
        counts.append(k)
    if len(lengths) < 3:
        return None
    period, often = Counter(lengths).most_common(1)[0]
    if period < 3 or often < 0.5 * len(lengths):
        return None
    base = median(t / k for t, k in zip(times, counts, strict=True))
    on = sum(near(t, k * base, TOOTH) for t, k in zip(times, counts, strict=True))
    return (base, period, counts) if on >= RISING * len(times) else None


def interval_over_cumulative(context: AuditContext) -> list[Finding]:
    """The time since the last log line divided by all steps so far: rates that rise as 1, 2, 3 without anything getting faster."""
    proven = {}
    for claim in context.runs:
        proof = _proof(claim)
        if proof:
            proven[claim.name] = (claim, *proof)
    found = [
        named("interval-over-cumulative", "invalid", [claim], evidence, _true_interval(before, row))
        for claim, before, row, evidence in proven.values()
    ]
    formats = {claim.format for claim, *_ in proven.values()}
    for claim in context.runs:
        timed = [row for row in claim.logged_steps if row.seconds]
        if (
            claim.format in formats
            and claim.name not in proven
            and len(timed) > 1
            and timed[-1].seconds < timed[-2].seconds
        ):
            before, row = timed[-2], timed[-1]
            evidence = (
                f"the program that wrote this log divides by all steps so far (proven in {next(iter(proven))}); here it "
                f"prints {before.seconds:.4f} s at step {before.step} and {row.seconds:.4f} s at step {row.step}"
            )
            found.append(named("interval-over-cumulative", "suspect", [claim], evidence, _true_interval(before, row)))
    return found


def _proof(claim: ReportedRun) -> tuple[LoggedStep, LoggedStep, str] | None:
    timed = [row for row in claim.logged_steps if row.seconds]
    bar = {step: (elapsed, pace) for step, elapsed, pace in claim.progress_bar}
    for before, row in pairwise(timed):
        steps = row.step - before.step
        if steps <= 0 or row.step < 1.5 * steps:
            continue
        if before.step in bar and row.step in bar:
            passed = bar[row.step][0] - bar[before.step][0]
            if (
                passed > 5
                and abs(row.seconds * row.step - passed) <= 0.05 * passed + 1.5
                and row.seconds * steps < 0.8 * passed - 1
            ):
                return before, row, (
                    f"at step {row.step} it prints {row.seconds:.4f} s an iteration; the progress bar took {passed:.0f} s for steps "
                    f"{before.step + 1} to {row.step}, {passed / steps:.2f} s each, and {row.seconds:.4f} x {row.step} = {row.seconds * row.step:.1f} s"
                )  # fmt: skip
    if len(timed) >= 4 and (first := timed[0].step) > 0 and all(r.step == first * (i + 1) for i, r in enumerate(timed)):
        scaled = [row.seconds * (i + 1) for i, row in enumerate(timed)]
        if max(scaled) < 1.3 * min(scaled):
            before, row = timed[-2], timed[-1]
            return before, row, (
                f"printed times fall as 1, 1/2, 1/3, ...: {', '.join(f'{r.seconds:.4g} s at {r.step}' for r in timed[:4])}; "
                f"times the number of the interval they are all {median(scaled):.3g} s"
            )  # fmt: skip
    return None


def _true_interval(before: LoggedStep, row: LoggedStep) -> str:
    steps = row.step - before.step
    true = row.seconds * row.step / steps
    text = f"{true:.4f} s an iteration: {row.seconds:.4f} x {row.step} / {steps}"
    return text + (
        f", so {row.flops_per_s * row.seconds / true / 1e12:.3f} TFLOP/s, not {row.flops_per_s / 1e12:.3f}"
        if row.flops_per_s
        else ""
    )


def sampled_steps(context: AuditContext) -> list[Finding]:
    """Only every n-th micro-step is timed, and with an even accumulation none of those is one that updates the weights."""
    found = []
    for claim in context.runs:
        for window in claim.timed_spans:
            every, accumulation = claim.sampled_every, claim.accumulation
            if not (every and accumulation and window.step_mean_s and window.seconds and window.micro_steps):
                continue
            implied = window.seconds / window.micro_steps
            if gcd(every, accumulation) > 1 and implied > MISSED * window.step_mean_s:
                evidence = (
                    f"one micro-step in {every} is timed and one in {accumulation} updates the weights, never the same one. Recorded are "
                    f"{window.step_mean_s * 1e3:.1f} ms on average, where {window.seconds:,.2f} s / {window.micro_steps:,} = {implied * 1e3:.1f} ms "
                    f"({implied / window.step_mean_s:.1f} times)"
                )
                corrected = f"{implied * 1e3:.1f} ms a micro-step, {implied * accumulation * 1e3:.1f} ms an optimizer step: time over steps"
                found.append(named("sampled-steps-miss-update", "invalid", [claim], evidence, corrected))
                break
    return found


def percentile_of_few(context: AuditContext) -> list[Finding]:
    """A 95th percentile needs twenty samples at the very least."""
    found = []
    for claim in context.runs:
        for window in claim.timed_spans:
            if not (window.step_p95_s and claim.sampled_every and window.micro_steps):
                continue
            n = sum(1 for s in range(0, window.micro_steps, claim.sampled_every) if s >= claim.sampled_from)
            if n < FEW:
                evidence = f"the 95th percentile, {window.step_p95_s * 1e3:.2f} ms, is of {n} sampled micro-step{'s' * (n != 1)}"
                if window.step_mean_s == window.step_p50_s == window.step_p95_s:
                    evidence += ": mean, median and 95th percentile are one number"
                found.append(named("percentile-of-few", "suspect", [claim], evidence))
                break
    return found


def warmup_in_window(context: AuditContext) -> list[Finding]:
    """First steps allocate, connect and compile; a rate with them in it is not the rate of training."""
    found = []
    for claim in context.runs:
        times = [w.seconds for w in claim.timed_spans if w.seconds]
        rows = [row.seconds for row in claim.logged_steps if row.seconds]
        if len(times) >= 3 and times[0] > FIRST * median(times[1:]):
            with_, without = fmean(times), fmean(times[1:])
            evidence = f"the first epoch took {times[0]:,.2f} s, the others {without:,.2f} s on average; with it the average is {with_:,.2f} s"
            found.append(
                named("warmup-in-window", "note", [claim], evidence, f"{without:,.2f} s an epoch, without the first")
            )
        elif len(rows) >= 10 and rows[0] > 3 * median(rows[1:]):
            evidence = f"the first step in the log took {rows[0]:.3f} s, the middle one {median(rows[1:]):.3f} s"
            found.append(named("warmup-in-window", "note", [claim], evidence))
        elif claim.details.get("steps_per_second"):
            evidence = f"{claim.details['steps_per_second']:g} steps/s is over the whole of train(), start-up and evaluation in it"
            found.append(named("warmup-in-window", "note", [claim], evidence))
        elif len(times) == 1 and claim.sampled_every and (claim.timed_spans[0].micro_steps or 1000) < 1000:
            evidence = f"the rate is over all {claim.timed_spans[0].micro_steps:,} micro-steps, the first one included"
            found.append(named("warmup-in-window", "note", [claim], evidence))
    return found


CHECKS = (sawtooth_timer, interval_over_cumulative, sampled_steps, percentile_of_few, warmup_in_window)
