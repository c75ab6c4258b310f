"""Do the figures of one file agree with each other? Rate and time with the tokens, tokens and steps with the batches."""

from collections.abc import Iterator
from statistics import median

from scalebench.audit.external.context import SAME, AuditContext, named, near
from scalebench.audit.finding import Finding
from scalebench.importers.reported import ReportedRun, TimedSpan

SPLIT = ("dp", "dataparallel")  # strategies whose batch is split over the devices
SMOOTHED = 0.15  # of rates that a program prints as a moving average


def rate_times_time(context: AuditContext) -> list[Finding]:
    """tokens/s x time = tokens, epoch by epoch. A factor of exactly the world size has a name of its own."""
    found = []
    for claim in context.runs:
        for window in claim.timed_spans:
            if not (window.tokens_per_s and window.seconds and window.tokens):
                continue
            product, n = window.tokens_per_s * window.seconds, claim.world_size or 1
            arithmetic = f"{_which(claim, window)}{window.tokens_per_s:,.1f} tokens/s x {window.seconds:,.2f} s = {product:,.0f} tokens"
            if near(product, window.tokens):
                continue
            if n > 1 and near(product * n, window.tokens):
                found.append(
                    named("rate-of-one-rank", "invalid", [claim], f"{arithmetic}, 1/{n} of the {window.tokens:,} that {n} ranks processed",
                          f"{window.tokens_per_s * n:,.2f} tokens/s: the rate x {n} ranks")
                )  # fmt: skip
            elif n > 1 and near(product, window.tokens * n):
                found.append(
                    named("rate-multiplied", "invalid", [claim], f"{arithmetic}, {n} times the {window.tokens:,} that were processed by all {n} ranks",
                          f"{window.tokens_per_s / n:,.2f} tokens/s: tokens over time")
                )  # fmt: skip
            else:
                found.append(
                    named("rate-times-time", "suspect", [claim], f"{arithmetic}, but {window.tokens:,} were processed",
                          f"{window.tokens / window.seconds:,.2f} tokens/s, if tokens and time are right")
                )  # fmt: skip
            break
        found += _rows(claim)
    return found


def _rows(claim: ReportedRun) -> Iterator[Finding]:
    """The same for a log of steps: the middle of rate x step time, and the tokens of a step where they are known."""
    products = [row.tokens_per_s * row.seconds for row in claim.logged_steps if row.tokens_per_s and row.seconds]
    tokens = claim.details.get("tokens_per_step")
    if not tokens and claim.global_batch and claim.seq_len:
        tokens = claim.global_batch * claim.seq_len
    if len(products) < 5 or not tokens:
        per_second, runtime = (
            claim.details.get("steps_per_second"),
            claim.timed_spans[0].seconds if claim.timed_spans else None,
        )
        steps = claim.timed_spans[0].optimizer_steps if claim.timed_spans else None
        if per_second and runtime and steps and abs(per_second * runtime - steps) > 0.0006 * runtime + SAME * steps:
            yield named(
                "rate-times-time", "suspect", [claim],
                f"{per_second:g} steps/s x {runtime:,.1f} s = {per_second * runtime:,.0f} steps, but {steps:,} were made",
                f"{steps / runtime:.3f} steps/s",
            )  # fmt: skip
        return
    middle = median(products)
    if near(middle, tokens, SMOOTHED):
        return
    n = claim.world_size or 1
    evidence = (
        f"tokens/s x step time is {middle:,.0f} in the middle of {len(products):,} steps; a step has {tokens:,} tokens"
    )
    if n > 1 and near(middle * n, tokens, SMOOTHED):
        yield named("rate-of-one-rank", "invalid", [claim], evidence, f"the printed rate x {n} ranks")
    elif n > 1 and near(middle, tokens * n, SMOOTHED):
        yield named("rate-multiplied", "invalid", [claim], evidence, f"the printed rate / {n}")
    else:
        yield named("rate-times-time", "suspect", [claim], evidence)


def tokens_are_the_batches(context: AuditContext) -> list[Finding]:
    """tokens = micro-batch x world x seq_len x micro-steps; the last micro-step of an epoch may be smaller."""
    found = []
    for claim in context.runs:
        for window in claim.timed_spans:
            if not (claim.samples_per_micro_step and claim.seq_len and window.micro_steps and window.tokens):
                continue
            ranks = 1 if _total_batch(claim, window) else claim.world_size
            step = claim.micro_batch * ranks * claim.seq_len
            expected = step * window.micro_steps
            if expected - step < window.tokens <= expected or near(window.tokens, expected, 1e-3):
                continue
            factors = f"{claim.micro_batch} x {ranks} x {claim.seq_len} x {window.micro_steps:,}"
            evidence = f"{_which(claim, window)}{factors} = {expected:,} tokens, {window.tokens:,} stated"
            whole = claim.world_size > 1 and any(
                near(window.tokens * f, expected, 1e-3) for f in (claim.world_size, 1 / claim.world_size)
            )
            found.append(named("tokens-differ-from-batches", "invalid" if whole else "suspect", [claim], evidence))
            break
    return found


def _total_batch(claim: ReportedRun, window: TimedSpan) -> bool:
    """Whether the batch of an nn.DataParallel run is the loader's, which is split over the devices."""
    if (claim.strategy or "").lower() not in SPLIT or not (claim.seq_len and window.tokens):
        return False
    return near(window.tokens, claim.micro_batch * claim.seq_len * window.micro_steps, 1e-3)


def batch_arithmetic(context: AuditContext) -> list[Finding]:
    """global batch = micro-batch x accumulation x world size."""
    found = []
    for c in context.runs:
        if c.micro_batch and c.accumulation and c.world_size and c.global_batch:
            product = c.micro_batch * c.accumulation * c.world_size
            split = (c.strategy or "").lower() in SPLIT and c.micro_batch * c.accumulation == c.global_batch
            if product != c.global_batch and not split:
                evidence = f"{c.micro_batch} x {c.accumulation} x {c.world_size} = {product}, but the global batch is given as {c.global_batch}"
                # Ranks that share a model (tensor or pipeline parallel) share a batch too.
                shared = product % c.global_batch == 0 and 1 < product // c.global_batch < c.world_size
                if c.micro_batch * c.accumulation == c.global_batch:
                    evidence += ", which is that of one rank"
                elif shared:
                    evidence += f": right only if {product // c.global_batch} ranks share each copy of the model"
                found.append(named("batch-arithmetic", "suspect" if shared else "invalid", [c], evidence))
    return found


def steps_are_the_batches(context: AuditContext) -> list[Finding]:
    """optimizer steps = micro-steps / accumulation, rounded either way."""
    found = []
    for claim in context.runs:
        for window in claim.timed_spans:
            if window.optimizer_steps is None or not (window.micro_steps and claim.accumulation):
                continue
            least = window.micro_steps // claim.accumulation
            if not least <= window.optimizer_steps <= least + 1:
                evidence = f"{_which(claim, window)}{window.micro_steps:,} micro-steps / {claim.accumulation} = {least:,} steps, {window.optimizer_steps:,} stated"
                found.append(named("steps-differ-from-batches", "suspect", [claim], evidence))
                break
    return found


def epoch_is_the_data(context: AuditContext) -> list[Finding]:
    """The ranks together take each sample once an epoch; N times the data set is each rank taking all of it."""
    found = []
    for claim in context.runs:
        for window in claim.timed_spans:
            if (
                not (claim.samples_per_micro_step and window.micro_steps and claim.dataset_samples)
                or claim.world_size < 2
            ):
                continue
            samples = claim.micro_batch * window.micro_steps * (1 if _total_batch(claim, window) else claim.world_size)
            if near(samples, claim.world_size * claim.dataset_samples, 0.03):
                evidence = (
                    f"{_which(claim, window)}{claim.micro_batch} x {claim.world_size} ranks x {window.micro_steps:,} micro-steps = {samples:,} samples "
                    f"in one epoch over a data set of {claim.dataset_samples:,}: {samples / claim.dataset_samples:.2f} times all of it"
                )
                found.append(
                    named("each-rank-trained-on-everything", "invalid", [claim], evidence, _times(claim, window))
                )
                break
    return found


def _times(claim: ReportedRun, window: TimedSpan) -> str:
    return (
        f"an epoch's share would take {window.seconds / claim.world_size:,.2f} s: the time / {claim.world_size}"
        if window.seconds
        else ""
    )


def mean_of_rates(context: AuditContext) -> list[Finding]:
    """A mean over epochs is all tokens over all time."""
    found = []
    for claim in context.runs:
        stated, seconds, tokens = claim.details.get("mean_rate"), claim.seconds, claim.tokens
        if stated and seconds and tokens and len(claim.timed_spans) > 1 and not near(stated, tokens / seconds):
            evidence = f"the mean of the epochs' rates is {stated:,.2f} tokens/s, all tokens over all time {tokens / seconds:,.2f}"
            found.append(named("mean-of-rates", "note", [claim], evidence, f"{tokens / seconds:,.2f} tokens/s"))
    return found


def files_agree(context: AuditContext) -> list[Finding]:
    """The marker of completion and the launcher's record say what the metrics beside them say."""
    found = []
    for claim in context.runs:
        wrong = []
        for mark in context.evidence.completions:
            if mark["folder"] == claim.details.get("folder") and claim.rate_scope == "global" and claim.timed_spans:
                for what, here in (
                    ("world", claim.world_size),
                    ("rate", claim.details.get("mean_rate")),
                    ("wall", claim.details.get("wall")),
                ):
                    if mark[what] and here and not near(mark[what], here, 1e-3):
                        wrong.append(f"{what} is {here:g} in the metrics and {mark[what]:g} in {mark['name']}")
        launched = claim.details.get("launcher_world")
        if launched and claim.world_size and launched != claim.world_size:
            wrong.append(f"world size is {claim.world_size} in the metrics and {launched} in the launcher's record")
        if wrong:
            found.append(named("files-disagree", "suspect", [claim], "; ".join(wrong)))
    return found


def _which(claim: ReportedRun, window: TimedSpan) -> str:
    return f"epoch {window.index}: " if len(claim.timed_spans) > 1 and window.index is not None else ""


CHECKS = (
    rate_times_time,
    tokens_are_the_batches,
    batch_arithmetic,
    steps_are_the_batches,
    epoch_is_the_data,
    mean_of_rates,
    files_agree,
)
