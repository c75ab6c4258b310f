"""Did the ranks share the work? What runs with different numbers of devices say about each other."""

from collections import Counter
from collections.abc import Iterator
from statistics import fmean, median

from scalebench.audit.external.context import AuditContext, epoch_seconds, epochs_apart, listed, named, near, speed
from scalebench.audit.finding import Finding
from scalebench.importers.reported import LoggedStep, ReportedRun, TimedSpan

BEYOND = 1.03  # speed-up over the ratio of devices that noise may explain
FASTER = 0.75  # ratio of losses after the same epochs that smaller batches alone do not explain
SHRUNK = 0.85  # ratio of a device's memory that shows a smaller share


def rate_of_one_rank(context: AuditContext) -> list[Finding]:
    """Rate x time of N ranks is exactly 1/N of the single run's: the same epoch, so the rate is one rank's."""
    found = []
    for base, claim in context.scalings:
        if (
            None in (claim.tokens_per_s, claim.seconds, base.tokens_per_s, base.seconds)
            or claim.tokens
            or claim.rate_scope
        ):
            continue
        ratio = claim.world_size / base.world_size
        product, whole = claim.tokens_per_s * claim.seconds, base.tokens_per_s * base.seconds
        evidence = f"{claim.tokens_per_s:,.2f} x {claim.seconds:,.2f} s = {product:,.0f} tokens, in {base.name} {base.tokens_per_s:,.2f} x {base.seconds:,.2f} s = {whole:,.0f}"
        if near(product * ratio, whole, 0.005):
            rate = claim.tokens_per_s * ratio
            corrected = f"{rate:,.2f} tokens/s, {rate / base.tokens_per_s:.3f} times the baseline: the rate x {ratio:g}; {1 - claim.seconds / base.seconds:.1%} less time"
            found.append(
                named("rate-of-one-rank", "invalid", [claim], f"{evidence}, {ratio:g} times as many", corrected)
            )
        elif near(product, whole * ratio, 0.005):
            rate = claim.tokens_per_s / ratio
            found.append(
                named(
                    "rate-multiplied", "invalid", [claim], f"{evidence}, a {ratio:g}th of it", f"{rate:,.2f} tokens/s"
                )
            )
    return found


def identical_losses(context: AuditContext) -> list[Finding]:
    """Ranks with samples of their own have losses of their own."""
    found = []
    singles = {
        (step, loss)
        for c in context.runs
        if c.world_size == 1
        for step, values in c.rank_losses.items()
        for loss in values
    }
    for claim in context.runs:
        steps = {s: v for s, v in claim.rank_losses.items() if len(v) > 1}
        if not steps or (claim.world_size or 2) < 2 or any(len(set(v)) > 1 for v in steps.values()):
            continue
        step, values = next(iter(steps.items()))
        alone = [s for s, v in steps.items() if any(s == t and near(v[0], x, 1e-5) for t, x in singles)]
        evidence = f"all {len(values)} ranks print the loss {values[0]!r} at step {step}, and so at each of {len(steps)} logged steps"
        if alone:
            evidence += f"; a run with one device has the same loss at step {alone[0]}"
        severity = "invalid" if alone else "suspect"
        found.append(
            named(
                "identical-losses",
                severity,
                [claim],
                evidence,
                "the ranks did the work of one: tokens/s of one rank are the whole",
            )
        )
    return found


def learns_too_fast(context: AuditContext) -> list[Finding]:
    """N ranks that share an epoch make 1/N of the updates; a loss that falls much faster, in no less time, is of ranks that share nothing."""
    found = []
    for base, claim in context.scalings:
        mine, theirs = _losses(claim), _losses(base)
        common = sorted(set(mine) & set(theirs) & {2, 3, 4, 5})
        n, t1, tn = claim.world_size / base.world_size, epoch_seconds(base), epoch_seconds(claim)
        if len(common) < 2 or not (t1 and tn):
            continue
        ratio = median(mine[e] / theirs[e] for e in common if theirs[e] > 0)
        if ratio < FASTER and tn > 0.9 * t1 and n * t1 / tn <= BEYOND * n:
            evidence = (
                f"after epoch {common[0]} the loss is {mine[common[0]]:.3g} with {claim.world_size} ranks and {theirs[common[0]]:.3g} with "
                f"{base.world_size}, and an epoch takes {tn:.2f} s instead of {t1:.2f} s: {n:g} shares of the data would make 1/{n:g} of the updates"
            )
            corrected = f"{t1 / tn:.2f}x is {n * t1 / tn:.2f}x ({t1 / tn:.0%} of ideal), if each rank trained on all of the data: {n:g} x {t1:.2f} s / {tn:.2f} s"
            found.append(named("each-rank-trained-on-everything", "suspect", [claim, base], evidence, corrected))
    return found


def _losses(claim: ReportedRun) -> dict[int, float]:
    """Loss by epoch, averaged over the runs in the file."""
    losses: dict[int, list[float]] = {}
    for window in claim.timed_spans:
        if window.index is not None and window.train_loss is not None:
            losses.setdefault(window.index, []).append(window.train_loss)
    return {epoch: fmean(values) for epoch, values in losses.items()}


def steps_per_epoch_unchanged(context: AuditContext) -> list[Finding]:
    """With N ranks an epoch has 1/N of the micro-steps, where a micro-step has as many samples per rank as before."""
    found = []
    for base, claim in context.scalings:
        if not (
            claim.micro_batch
            and claim.micro_batch == base.micro_batch
            and claim.timed_spans
            and base.timed_spans
            and claim.epochs
        ):
            continue
        mine, theirs = claim.timed_spans[0].micro_steps, base.timed_spans[0].micro_steps
        # A round number of steps, or a limit, is as many as somebody wanted, not an epoch.
        limited = mine is None or mine % 10 == 0 or "max" in str(claim.details.get("command", ""))
        if not limited and theirs and theirs > 10 and near(mine, theirs, 0.005) and claim.dataset_samples is None:
            n = claim.world_size / base.world_size
            evidence = f"{mine:,} micro-steps of {claim.micro_batch} samples an epoch on each of {claim.world_size} ranks, {theirs:,} with {base.world_size}"
            corrected = ""
            if claim.seconds and base.seconds:
                corrected = f"{base.seconds / claim.seconds:.2f}x is {n * base.seconds / claim.seconds:.2f}x, if each rank trained on all data"
            found.append(named("each-rank-trained-on-everything", "suspect", [claim, base], evidence, corrected))
    return found


def batch_multiplied(context: AuditContext) -> list[Finding]:
    """Under nn.DataParallel the loader's batch is the total: counting it once a device multiplies the work by the devices."""
    found = []
    for base, claim in context.scalings:
        if (claim.strategy or "").lower() not in ("dp", "dataparallel", "data-parallel"):
            continue
        mine, theirs = _last_timed(claim), _last_timed(base)
        if not (mine and theirs and claim.memory_used_bytes and base.memory_used_bytes):
            continue
        work, before = mine.flops_per_s * mine.seconds, theirs.flops_per_s * theirs.seconds
        if near(work, before, 0.03) and claim.memory_used_bytes < SHRUNK * base.memory_used_bytes:
            n = claim.world_size / base.world_size
            evidence = (
                f"{mine.flops_per_s / 1e12:.3f} TFLOP/s x {mine.seconds:.4f} s = {work / 1e12:.2f} TFLOP on each of {claim.world_size} devices, as many as on one "
                f"({before / 1e12:.2f}), while the memory of the first device falls from {base.memory_used_bytes / 2**20:,.0f} to {claim.memory_used_bytes / 2**20:,.0f} MB: "
                f"its share is smaller, the batch is the total"
            )
            corrected = f"{n * mine.flops_per_s / theirs.flops_per_s:.2f}x is {theirs.seconds / mine.seconds:.2f}x: {theirs.seconds:.4f} s / {mine.seconds:.4f} s for the same batch"
            found.append(named("batch-multiplied", "invalid", [claim, base], evidence, corrected))
    return found


def _last_timed(claim: ReportedRun) -> LoggedStep | None:
    rows = [row for row in claim.logged_steps if row.flops_per_s and row.seconds]
    return rows[-1] if rows else None


def super_linear(context: AuditContext) -> list[Finding]:
    """More than N times as fast with N times the devices is rarely a fact and often a fault of counting."""
    found = []
    for base, claim, ratio, n in _speedups(context):
        if ratio > BEYOND * n:
            evidence = f"{ratio:.3f} times as fast as {base.name} with {n:g} times the devices"
            found.append(named("super-linear", "suspect", [claim, base], evidence))
    return found


def non_monotone(context: AuditContext) -> list[Finding]:
    """Slower with more devices: a slow network can do that, and so can ranks that do all of the work each."""
    found = []
    explained = {f.runs[0] for f in rate_of_one_rank(context)}
    for base, claim, ratio, n in _speedups(context):
        if ratio < 0.98 and claim.name not in explained:
            evidence = f"{ratio:.3f} times as fast as {base.name} with {n:g} times the devices"
            found.append(named("slower-with-more", "suspect", [claim, base], evidence))
    return found


def _speedups(context: AuditContext) -> Iterator[tuple[ReportedRun, ReportedRun, float, float]]:
    """(baseline, run, ratio of speeds, ratio of devices)."""
    for base, claim in context.scalings:
        fast, slow = speed(claim), speed(base)
        if fast and slow and fast.unit == slow.unit:
            yield base, claim, fast.value / slow.value, claim.world_size / base.world_size


def runs_interleaved(context: AuditContext) -> list[Finding]:
    """An epoch is in a file once; twice is two runs that wrote to one file."""
    found = []
    for claim in context.runs:
        indices = [w.index for w in claim.timed_spans if w.index is not None]
        twice = sorted(e for e, n in Counter(indices).items() if n > 1)
        if twice:
            runs = epochs_apart(claim)
            times = [w.seconds for w in claim.timed_spans if w.seconds]
            evidence = f"{len(indices)} rows, epochs in the order {listed(indices[:8])}, ...; {len(twice)} epochs are there more than once"
            if times:
                evidence += f"; their sum, {sum(times):,.1f} s, is the time of no run"
            parts = [f"{len(run)} epochs ({run[0].index} to {run[-1].index})" + _mean(run) for run in runs]
            resumed = indices == sorted(indices)
            found.append(
                named(
                    "runs-interleaved",
                    "suspect" if resumed else "invalid",
                    [claim],
                    evidence,
                    f"{len(runs)} runs: {listed(parts)}",
                )
            )
        elif indices != sorted(indices):
            found.append(named("runs-interleaved", "suspect", [claim], f"epochs are in the order {listed(indices)}"))
    return found


def _mean(run: list[TimedSpan]) -> str:
    times = [w.seconds for w in run[1:] if w.seconds]
    return f", {fmean(times):.2f} s an epoch after the first" if times else ""


CHECKS = (
    rate_of_one_rank,
    identical_losses,
    learns_too_fast,
    steps_per_epoch_unchanged,
    batch_multiplied,
    super_linear,
    non_monotone,
    runs_interleaved,
)
