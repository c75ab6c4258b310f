"""Do the figures of one file agree: rate and time with the tokens, tokens and steps with the batches?"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from scaleproof.auditor.checks.baselines import NANOGPT, tokens_per_step
from scaleproof.auditor.checks.context import (
    ROWS_PER_ODD_ROW,
    SAME_TOLERANCE,
    AuditContext,
    first_of_each_run,
    near,
    of_evidence,
)
from scaleproof.auditor.checks.rows import RATE_UNITS
from scaleproof.auditor.read.logged_steps import Figures
from scaleproof.auditor.read.reported import ReportedRun, TimedSpan
from scaleproof.auditor.read.reported_tables import PrintedInterval, Quantity, exact
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.finding import Correction, Severity
from scaleproof.ground.findings.registry import Code, Flag
from scaleproof.ground.findings.shared_codes import RATE_TIMES_TIME, TOKENS_DIFFER_FROM_BATCHES
from scaleproof.ground.number_format import integer, number

SPLITS_BATCH = ("dp", "dataparallel")  # strategies whose batch is split over the devices
LINE_TOLERANCE = 0.005  # relative difference of samples/s x time of lines of one batch, beside rounding
LINE_CONTRADICTION = 0.1  # the same of a line of another batch
TIME_DIGIT_S = 0.001  # times of batches are printed so
RATE_DIGIT = 0.001  # of rates of transformers.Trainer
MOST_ABOVE_OTHERS = 3  # times the second highest rate of a line, which another line may be
MOST_ABOVE_LINES = 1.15  # times the highest rate of a line, which the rate of the whole run may be
# Programs whose rates of a line are its work over the time beside it.
DIVIDE_LINES = ("log of batches", "Megatron-LM log", "GPT-NeoX log", "nanotron log", "nanochat log", "MaxText log")
UNITS = {"samples_per_s": ("samples", 1.0), "tokens_per_s": ("tokens", 1.0), "flops_per_s": ("TFLOP", 1e12)}
MORE_VARIED = 2  # times LINE_TOLERANCE, by which times vary where a product that does not shows how it was divided
FEWEST_TELLING_LINES = 8  # that show how a program divides
FEWEST_LINES = 3  # whose consumed samples grow alike, or that show the work of a step
SHARE_TOLERANCE = 0.05  # relative difference of a number of ranks from a whole one
MOVING_AVERAGE_TOLERANCE = 0.15  # relative difference of rates that a program prints as a moving average

RATE_OF_ONE_RANK = Code(
    "rate-of-one-rank",
    "invalid",
    what="The rate is that of one rank, where the reader takes it for all: N devices look slower than one.",
    detected="Rate x time is exactly 1/N of the tokens, or of the single run's rate x time over the same epoch.",
    seen="GPT-2 on 1, 2 and 4 V100 with a fixed global batch, its T4 runs: 11,213 tokens/s on four devices after "
    "12,915 on one; all four made 44,854.",
    repair="Add the tokens of all ranks before dividing, and name the figure global or per device.",
)
RATE_MULTIPLIED = Code(
    "rate-multiplied",
    "invalid",
    what="A rate that already counted all ranks was multiplied by their number again.",
    detected="Rate x time is exactly N times the tokens.",
    seen="huggingface/optimum-benchmark issue 29 asks whether to multiply.",
    repair="Multiply a per-rank rate once, a global rate never.",
)


def wrong_scope(
    about: list[str | ReportedRun],
    sentence: str,
    rate: Quantity,
    devices: float,
    tolerance: float,
    *,
    product: PrintedInterval,
    work: PrintedInterval,
) -> Flag | None:
    """Flag a rate of one device that is given as that of all devices, or a rate that was multiplied by their number.

    Example: 4 devices processed 400 tokens, `work`. Where rate x time, `product`, is 100 tokens, the rate is of one
    device; where it is 1,600 tokens, somebody multiplied the rate by 4. Returns None where neither explains it.
    """
    if devices <= 1:
        return None
    unit = RATE_UNITS.get(rate.kind, "")
    if rate.per_device is False and (product * devices).meets(work, tolerance):
        correction = Correction(value=rate.value * devices, unit=unit, derivation=f"the rate x {devices:g} ranks")
        return Flag(f"{sentence}: 1/{devices:g} of it", about, RATE_OF_ONE_RANK.name, corrected=correction)
    if rate.per_device is not True and product.meets(work * devices, tolerance):
        correction = Correction(value=rate.value / devices, unit=unit, derivation=f"the rate / {devices:g}")
        return Flag(f"{sentence}: {devices:g} times of it", about, RATE_MULTIPLIED.name, corrected=correction)
    return None


def rates_of_runs(context: AuditContext) -> Iterator[Flag]:
    """Flag runs in which tokens/s x time is not the tokens: of the first such epoch, and of the logged steps."""
    yield from first_of_each_run(context, _wrong_rate_of_span)
    yield from (flag for run in context.runs if (flag := _wrong_rate_of_steps(run)))
    for run in context.runs:
        yield from _odd_rates_of_lines(run)
        yield from (flag for flag in (_wrong_samples_of_step(run), _rate_above_all_lines(run)) if flag)


def _wrong_rate(
    run: ReportedRun,
    sentence: str,
    tokens_per_s: float,
    product: float,
    tokens: float,
    tolerance: float = SAME_TOLERANCE,
) -> Flag | None:
    """Flag a rate whose `product` with the time is not the number of processed `tokens`.

    Returns None where the two agree. They also agree where the file calls the rate that of a rank and the product x
    ranks gives the tokens.
    """
    is_of_rank = run.rate_scope == "rank"
    ranks = run.world_size or 1
    if near(product, tokens, tolerance) or (is_of_rank and near(product * ranks, tokens, tolerance)):
        return None
    rate = Quantity(kind="tokens_per_s", value=tokens_per_s, text="", heading="", per_device=is_of_rank)
    flag = wrong_scope([run], sentence, rate, ranks, tolerance, product=exact(product), work=exact(tokens))
    return flag or Flag(sentence, [run], RATE_TIMES_TIME.name, severity="suspect")


def _wrong_rate_of_span(run: ReportedRun, span: TimedSpan) -> Flag | None:
    """Flag an epoch whose tokens/s x seconds is not its tokens: 100 tokens/s x 10 s, but 2,000 tokens."""
    rate, seconds = span.tokens_per_s, span.seconds
    tokens = span.tokens
    if not (rate and seconds and tokens):
        return None
    product = f"{rate:,.1f} tokens/s x {seconds:,.2f} s = {integer(rate * seconds)} tokens"
    sentence = f"{_epoch_prefix(run, span)}{product}, but {tokens:,} were processed"
    flag = _wrong_rate(run, sentence, rate, rate * seconds, tokens)
    if flag is None or flag.code == RATE_OF_ONE_RANK.name:
        return flag  # its correction is the rate x ranks
    right = Correction(value=tokens / seconds, unit="tokens/s", derivation="tokens over time, if both are right")
    return replace(flag, corrected=right)


def _wrong_rate_of_steps(run: ReportedRun) -> Flag | None:
    """Flag a log whose median tokens/s x step time is not the tokens of a step; without these, one of wrong steps/s."""
    timed = run.logged_steps.having("tokens_per_s", "seconds")
    products = timed.values("tokens_per_s") * timed.values("seconds")
    tokens = tokens_per_step(run)
    if len(products) < 5 or not tokens:
        return _wrong_steps_per_second(run)
    median = float(np.median(products))
    if not run.states_time_unit and near(median, 1000 * tokens, MOVING_AVERAGE_TOLERANCE):
        return None  # milliseconds under a heading without a unit
    if run.format == NANOGPT and not _divides_by_times(products, timed.values("seconds"), median / tokens):
        return None
    sentence = f"tokens/s x step time is {integer(median)} in the median of {len(products):,} steps; "
    sentence += f"a step has {tokens:,} tokens"
    rate = float(np.median(run.logged_steps.nonzero("tokens_per_s")))
    return _wrong_rate(run, sentence, rate, median, tokens, MOVING_AVERAGE_TOLERANCE)


def _divides_by_times(products: Figures, seconds: Figures, ratio: float) -> bool:
    """Whether the rates of a fork are of all its ranks, each over the time beside it: `products` vary less than times.

    `ratio`: of what was processed to the tokens of a step; 1/N may be a rate of one of N ranks. An average over several
    iterations has other evaluations and checkpoints in it than the time of one.
    """
    if not ratio:
        return False
    is_share = ratio < 1 - MOVING_AVERAGE_TOLERANCE and near(1 / ratio, round(1 / ratio), SHARE_TOLERANCE)
    spread = np.std(products) / np.median(products)
    return not is_share and bool(spread <= np.std(seconds) / np.median(seconds) / MORE_VARIED)


def _odd_rates_of_lines(run: ReportedRun) -> Iterator[Flag]:
    """Flag a log in which rate x time of a line is not the work of the others: 361.42/s x 0.734 s = 265, not 192.

    The last batch of an epoch may be smaller. Only a note where no known program, but times that vary more than the
    products show that a rate follows from the time beside it: a moving average would vary with the times.
    """
    for kind, (unit, scale) in UNITS.items():
        timed = run.logged_steps.having(kind, "seconds")
        seconds = timed.figures("seconds")
        work = timed.figures(kind) * seconds / scale
        if len(work) < FEWEST_LINES or len(run.details.get("samples_of_steps", ())) > 1:
            continue  # too few, or the batch itself changes
        usual = float(np.median(work))
        distances = np.abs(work / usual - 1)
        fits = distances <= LINE_TOLERANCE + TIME_DIGIT_S / seconds
        if run.format not in DIVIDE_LINES and not (
            fits.sum() >= FEWEST_TELLING_LINES and np.std(seconds[fits]) > MORE_VARIED * LINE_TOLERANCE * seconds.min()
        ):
            continue
        steps, among = np.array(timed.step_numbers), np.pad(fits, 1, constant_values=True)
        is_alone = among[:-2] & among[2:]  # where lengths or batches grow, the lines around it are others, too
        is_last = np.append(steps[1:] <= steps[:-1], True)
        is_far = distances > LINE_CONTRADICTION + TIME_DIGIT_S / seconds
        odd = np.flatnonzero(is_far & is_alone & ((work > usual) | ~is_last))
        if odd.size and fits.sum() >= ROWS_PER_ODD_ROW * (~fits).sum():
            step = timed[int(odd[0])]
            product = f"{getattr(step, kind) / scale:,.6g}/s x {step.seconds:g} s = {number(work[odd[0]])} {unit}"
            others = f"{number(usual)} in {plural(int(fits.sum()), 'other line')}"
            more = f"; so are {odd.size - 1:,} more" if odd.size > 1 else ""
            severity: Severity = "suspect" if run.format in DIVIDE_LINES else "note"
            yield Flag(f"line {step.line}: {product}, {others}{more}", [run], RATE_TIMES_TIME.name, severity=severity)
            return


def _wrong_samples_of_step(run: ReportedRun) -> Flag | None:
    """Flag a run of Trainer whose samples/s over steps/s is no batch: 93.2 / 1.563 = 59.6, with 8 on each device.

    Epochs end with a smaller batch or drop it: that changes the mean by one step of an epoch. Only a note, unless a
    stated batch is exceeded: trainers of answers count prompts, of which a batch has several answers. Also a note where
    the log has a multiple of the batch that a person stated, who may have left out the accumulation.
    """
    span = run.timed_spans[0] if run.timed_spans else TimedSpan()
    steps_per_s, batch = run.details.get("steps_per_second"), run.global_batch or run.micro_batch
    if not (steps_per_s and span.samples_per_s and batch):
        return None
    steps = span.optimizer_steps or steps_per_s * (span.seconds or 0)  # a log may lack its header
    if not steps:
        return None
    samples = span.samples_per_s / steps_per_s
    epochs = max(1, run.epochs or run.details.get("epoch") or 1)
    tolerance = SAME_TOLERANCE + epochs / steps + RATE_DIGIT / steps_per_s
    multiple = 1 if run.global_batch else max(1, round(samples / batch))
    if near(samples, multiple * batch, tolerance):
        return None
    what = f"the batch is {batch}" if run.global_batch else f"no multiple of {batch} on each device"
    sentence = f"{span.samples_per_s:g} samples/s over {steps_per_s:g} steps/s is {samples:.3g} a step; {what}"
    is_above = run.global_batch and samples > batch
    times = round(samples / batch)
    if is_above and "global_batch" in run.claimed and near(samples, times * batch, tolerance):
        sentence += f", right only if that leaves out an accumulation of {times}"
        is_above = False
    return Flag(sentence, [run], RATE_TIMES_TIME.name, severity="suspect" if is_above else "note")


def _rate_above_all_lines(run: ReportedRun) -> Flag | None:
    """Flag samples/s of a whole run, or of one line (a note), that are more than any other line has: 1,802 of 180."""
    rates = run.logged_steps.nonzero("samples_per_s")
    total = run.timed_spans[0].samples_per_s if len(run.timed_spans) == 1 else None
    if rates.size < FEWEST_LINES:
        return None
    *_, second, top = np.sort(rates).tolist()
    if rates.size >= FEWEST_TELLING_LINES and top > MOST_ABOVE_OTHERS * second:
        sentence = f"{top:,.6g} samples/s in one of {rates.size:,} lines, {second:,.6g} or less in all others"
        return Flag(sentence, [run], RATE_TIMES_TIME.name, severity="note")
    if total is None or total <= MOST_ABOVE_LINES * top or not run.world_size or run.rate_scope != "global":
        return None
    if near(total, run.world_size * np.median(rates), LINE_CONTRADICTION):
        return None
    sentence = f"{total:,.6g} samples/s in all, but none of {rates.size:,} lines has more than {top:,.6g}"
    return Flag(sentence, [run], RATE_TIMES_TIME.name, severity="suspect")


def _wrong_steps_per_second(run: ReportedRun) -> Flag | None:
    """Flag a log whose steps/s x time is not its steps: 2 steps/s x 100 s, but 500 steps."""
    span = run.timed_spans[0] if run.timed_spans else TimedSpan()
    rate, seconds = run.details.get("steps_per_second"), span.seconds
    steps = span.optimizer_steps
    if not (rate and seconds and steps):
        return None
    rounding = 0.0006 * seconds  # the rate is printed with three decimals
    if abs(rate * seconds - steps) <= rounding + SAME_TOLERANCE * steps:
        return None
    sentence = f"{rate:g} steps/s x {seconds:,.1f} s = {integer(rate * seconds)} steps, but {steps:,} were made"
    right = Correction(value=steps / seconds, unit="steps/s", derivation="steps over time")
    return Flag(sentence, [run], RATE_TIMES_TIME.name, severity="suspect", corrected=right)


@of_evidence.check(TOKENS_DIFFER_FROM_BATCHES)
def tokens_are_the_batches(context: AuditContext) -> Iterator[Flag]:
    """Flag the first epoch of each run whose tokens are not micro-batch x world size x seq_len x micro-steps."""
    yield from first_of_each_run(context, _wrong_tokens_of_span)


def _wrong_tokens_of_span(run: ReportedRun, span: TimedSpan) -> Flag | None:
    """Flag an epoch whose tokens are not those of its batches; `invalid` where they are N or 1/N times, on N ranks."""
    micro, world = run.micro_batch, run.world_size
    seq_len = run.seq_len
    if not (micro and world and seq_len and span.micro_steps and span.tokens):
        return None
    ranks = 1 if _is_loader_batch(run, span) else world  # nn.DataParallel splits its batch
    step_tokens = micro * ranks * seq_len
    expected = step_tokens * span.micro_steps
    last_is_smaller = expected - step_tokens < span.tokens <= expected  # the last micro-step has fewer samples
    if last_is_smaller or near(span.tokens, expected, 1e-3):
        return None
    factors = f"{micro} x {ranks} x {seq_len} x {span.micro_steps:,}"
    by_world = world > 1 and any(near(span.tokens * factor, expected, 1e-3) for factor in (world, 1 / world))
    evidence = f"{_epoch_prefix(run, span)}{factors} = {expected:,} tokens, {span.tokens:,} stated"
    return Flag(evidence, [run], severity="invalid" if by_world else "suspect")


def _is_loader_batch(run: ReportedRun, span: TimedSpan) -> bool:
    """Whether the batch of an nn.DataParallel run is that of all devices: tokens are batch x seq_len x steps."""
    if (run.strategy or "").lower() not in SPLITS_BATCH or not (run.seq_len and span.tokens):
        return False
    return near(span.tokens, (run.micro_batch or 0) * run.seq_len * (span.micro_steps or 0), 1e-3)


@of_evidence.finds("batch-arithmetic", "invalid")
def batch_arithmetic(context: AuditContext) -> Iterator[Flag]:
    """Two runs are compared at equal global batch, which one of them does not have.

    Detected: micro-batch x accumulation x world size is not the global batch that is stated; `suspect`: neither is what
    a log's consumed samples grow by in a step, in all of its lines, or in one between two that agree; nor does it make
    the tokens of a step that the log states, or a whole part of them.
    Seen: a text classifier with DDP on 4 GPUs: “128 in total, 32 per GPU” was 128 on each.
    Repair: State all four numbers and derive one of them in the program.
    """
    for run in context.runs:
        if evidence := _odd_samples(run) or _other_growth(run) or _other_tokens(run):
            yield Flag(evidence, [run], severity="suspect")
        micro, accumulation = run.micro_batch, run.accumulation
        world, stated = run.world_size, run.global_batch
        if not (micro and accumulation and world and stated):
            continue
        product = micro * accumulation * world
        is_split = (run.strategy or "").lower() in SPLITS_BATCH and micro * accumulation == stated
        if product == stated or is_split:
            continue

        sentence = f"{micro} x {accumulation} x {world} = {product}, but the global batch is given as {stated}"
        # Ranks that share a model (tensor or pipeline parallel) share a batch too.
        shared = product % stated == 0 and 1 < product // stated < world
        if micro * accumulation == stated:
            sentence += ", which is that of one rank"
        elif shared:
            sentence += f": right only if {product // stated} ranks share each copy of the model"
        yield Flag(sentence, [run], severity="suspect" if shared else "invalid")


def _odd_samples(run: ReportedRun) -> str:
    """Return a sentence where the consumed samples of a line are not those between the lines around it; else ""."""
    odd = run.details.get("odd_samples", [])
    if not odd or len(odd) * ROWS_PER_ODD_ROW > len(run.logged_steps):
        return ""
    step, consumed, batch, expected = odd[0]
    more = f"; so are {len(odd) - 1:,} more" if len(odd) > 1 else ""
    right = f"{expected:,} by the lines around it and the batch of {batch:,}"
    return f"step {step:,}: {consumed:,} consumed samples, but {right}{more}"


def _other_growth(run: ReportedRun) -> str:
    """Return a sentence where consumed samples grow by another number than the batch, in all lines; else ""."""
    counts = run.details.get("samples_of_steps", {})
    if len(counts) != 1:
        return ""
    ((growth, batch), lines), *_ = counts.items()
    if growth == batch or growth <= 0 or lines < FEWEST_LINES:
        return ""
    return f"consumed samples grow by {growth:,.6g} a step in all of {lines:,} lines, but the global batch is {batch:,}"


@of_evidence.finds("steps-differ-from-batches", "suspect")
def steps_are_the_batches(context: AuditContext) -> Iterator[Flag]:
    """Optimizer steps are not micro-steps over accumulation: accumulation was ignored, or steps are counted by another
    rule.

    Detected: Optimizer steps outside of floor and ceiling of micro-steps / accumulation.
    Seen: DeepSpeed issues 2165 and 2498: the throughput timer is wrong with accumulation.
    Repair: Read how often the optimizer has updated; do not compute it.
    """
    for run in context.runs:
        for span in run.timed_spans:
            if span.optimizer_steps is None or not (span.micro_steps and run.accumulation):
                continue
            least = span.micro_steps // run.accumulation
            if not least <= span.optimizer_steps <= least + 1:
                division = f"{span.micro_steps:,} micro-steps / {run.accumulation} = {plural(least, 'step')}"
                yield Flag(f"{_epoch_prefix(run, span)}{division}, {span.optimizer_steps:,} stated", [run])
                break  # one finding for a run


def samples_repeated(run: ReportedRun, span: TimedSpan) -> Flag | None:
    """Flag an epoch in which each rank went through the whole data set: 4 ranks took 4,000 samples of 1,000."""
    micro, world = run.micro_batch, run.world_size
    data = run.dataset_samples
    if not (micro and world and span.micro_steps and data) or world < 2:
        return None
    samples = micro * span.micro_steps * (1 if _is_loader_batch(run, span) else world)
    if not near(samples, world * data, 0.03):
        return None
    correction = None
    if span.seconds:
        derivation = f"an epoch in which each rank takes its share: the time / {world}"
        correction = Correction(value=span.seconds / world, unit="s", derivation=derivation)
    factors = f"{_epoch_prefix(run, span)}{micro} x {world} ranks x {span.micro_steps:,} micro-steps"
    work = f"{samples:,} samples in one epoch over a data set of {data:,}: {samples / data:.2f} times all of it"
    return Flag(f"{factors} = {work}", [run], severity="invalid", corrected=correction)


def _epoch_prefix(run: ReportedRun, span: TimedSpan) -> str:
    """Return how a sentence about an epoch begins: "epoch 3: ". Returns "" where the run has only this one."""
    return f"epoch {span.index}: " if len(run.timed_spans) > 1 and span.index is not None else ""


def _other_tokens(run: ReportedRun) -> str:
    """Return a sentence where the stated tokens of a step are no whole number of global batches, nor a whole part."""
    stated = run.details.get("tokens_per_step")
    if not (stated and run.global_batch and run.seq_len):
        return ""
    tokens = run.global_batch * run.seq_len
    may_be_parts = not run.claimed & {"global_batch", "seq_len"}  # what a person says of a step is all of it
    if stated == tokens or (may_be_parts and (stated % tokens == 0 or tokens % stated == 0)):
        return ""
    return f"{run.global_batch:,} x {run.seq_len:,} = {tokens:,} tokens in a global batch, but a step has {stated:,}"
