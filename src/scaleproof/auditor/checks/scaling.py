"""Did the ranks share the work? What runs with different numbers of devices say about each other."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean, median
from typing import NamedTuple

from scaleproof.auditor.checks.baselines import Scaling, epoch_seconds, epochs_of_runs, fields_that_settle
from scaleproof.auditor.checks.context import AuditContext, first_of_each_run, listed, near, of_evidence
from scaleproof.auditor.checks.work import RATE_OF_ONE_RANK, samples_repeated, wrong_scope
from scaleproof.auditor.read.reported import ReportedRun, TimedSpan
from scaleproof.auditor.read.reported_tables import Quantity, exact
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.finding import Correction
from scaleproof.ground.findings.registry import Flag
from scaleproof.ground.number_format import integer, percent
from scaleproof.ground.records.grouping import lists_by_key

NOISE_FACTOR = 1.03  # of two rates or times, which noise may explain
MOST_LOSS_RATIO = 0.75  # after the same epochs; smaller batches alone do not explain less
COMPARED_EPOCHS = {2, 3, 4, 5}  # the first begins from random weights
SAME_TOKENS_TOLERANCE = 0.005  # relative difference of two products that are of the same number of tokens
SHRUNK_MEMORY_RATIO = 0.85  # ratio of a device's memory that shows a smaller share


def rates_over_baselines(context: AuditContext) -> Iterator[Flag]:
    """Flag runs whose rate x time is 1/N of the baseline's tokens, or N times as many."""
    yield from (flag for scaling in context.scalings if (flag := _rate_over_baseline(scaling)) is not None)


def _rate_over_baseline(scaling: Scaling) -> Flag | None:
    """Flag a run on N devices whose rate x time is 1/N of the baseline's tokens, or N times as many.

    Both runs processed the same tokens, so rate x time should be equal. Example: 4 devices ran 40 s at 250 tokens/s,
    one device ran 40 s at 1,000 tokens/s. The 250 tokens/s are the rate of one rank.
    """
    run, base = scaling.run, scaling.base
    if run.tokens or run.rate_scope:
        return None  # `rates_of_runs` judges it by its own file
    if not (run.tokens_per_s and run.seconds and base.tokens_per_s and base.seconds):
        return None

    tokens = run.tokens_per_s * run.seconds
    base_tokens = base.tokens_per_s * base.seconds
    evidence = f"{run.tokens_per_s:,.2f} x {run.seconds:,.2f} s = {integer(tokens)} tokens, in {base.name} "
    evidence += f"{base.tokens_per_s:,.2f} x {base.seconds:,.2f} s = {integer(base_tokens)}"
    rate = Quantity(kind="tokens_per_s", value=run.tokens_per_s, text="", heading="", per_device=False)
    product, work = exact(tokens), exact(base_tokens)
    flag = wrong_scope([run.name], evidence, rate, scaling.devices, SAME_TOKENS_TOLERANCE, product=product, work=work)
    if flag is None or flag.corrected is None or flag.code != RATE_OF_ONE_RANK.name:
        return flag

    ratio = f"{flag.corrected.value / base.tokens_per_s:.3f} times the baseline"
    derivation = f"the rate x {scaling.devices:g}; {ratio}, {percent(1 - run.seconds / base.seconds, 1)} less time"
    return replace(flag, corrected=flag.corrected.model_copy(update={"derivation": derivation}))


@of_evidence.finds("identical-losses", "suspect")
def identical_losses(context: AuditContext) -> Iterator[Flag]:
    """Ranks with different samples have different losses. Equal to the last digit means equal batches: N devices did
    one device's work.

    Detected: All ranks print the same loss at every logged step. `invalid` where a run with one device prints it too;
    otherwise the program may average before printing.
    Seen: GPT-2 on L4: 2.550994634628296 on all ranks; no sampler and one seed.
    Repair: Give each rank its share of the data; print the loss before it is averaged, once, to see that they differ.
    """
    single: dict[int, list[float]] = defaultdict(list)  # step -> losses of runs with one device
    for run in context.runs:
        if run.world_size == 1:
            for step, losses in run.rank_losses.items():
                single[step] += losses
    for run in context.runs:
        steps = {step: losses for step, losses in run.rank_losses.items() if len(losses) > 1}
        if not steps or (run.world_size or 2) < 2 or any(len(set(losses)) > 1 for losses in steps.values()):
            continue  # no losses of several ranks, or different ones, as they should be

        first_step, losses = next(iter(steps.items()))
        evidence = f"{len(losses)} ranks print the loss {losses[0]!r} at step {first_step}"
        evidence += f", and equal losses at each of {plural(len(steps), 'logged step')}"
        as_single = [step for step in steps if any(near(steps[step][0], loss, 1e-5) for loss in single.get(step, ()))]
        if as_single:
            evidence += f"; a run with one device has the same loss at step {as_single[0]}"
        yield Flag(evidence, [run], severity="invalid" if as_single else "suspect")


@of_evidence.finds("each-rank-trained-on-everything", "suspect")
def ranks_share_the_data(context: AuditContext) -> Iterator[Flag]:
    """Without a sampler each of N ranks trains on all of the data: N times the work in an epoch, reported as slow
    scaling.

    Detected: Samples of an epoch are N times the data set; or micro-steps per epoch do not fall with N; or the loss per
    epoch falls much faster with N ranks while an epoch takes as long or longer.
    Seen: a text classifier with DDP on 4 GPUs: a test of an attribute that does not exist switched the sampler off;
    0.46x and 0.80x were 1.85x and 3.20x.
    Repair: Give each rank its share (DistributedSampler with set_epoch) and assert that the ranks' sample ids are
    disjoint; run again.
    """
    yield from first_of_each_run(context, samples_repeated)
    for scaling in context.scalings:
        yield from (flag for find in (_learns_too_fast, _steps_unchanged) if (flag := find(scaling)))


def _learns_too_fast(scaling: Scaling) -> Flag | None:
    """Flag ranks that seem to train on all of the data each: their loss falls faster, and an epoch is no shorter.

    Ranks with 1/N of the data make 1/N of the updates per epoch, so their loss should fall more slowly. Example: 0.2
    after epochs 2 and 3 with 4 ranks, 0.4 with one, and 10 s an epoch in both.
    """
    run, base = scaling.run, scaling.base
    run_losses, base_losses = _loss_of_epochs(run), _loss_of_epochs(base)
    common = sorted(set(run_losses) & set(base_losses) & COMPARED_EPOCHS)
    base_s, run_s = epoch_seconds(base), epoch_seconds(run)
    ratios = [run_losses[epoch] / base_losses[epoch] for epoch in common if base_losses[epoch] > 0]
    if len(ratios) < 2 or not (base_s and run_s) or median(ratios) >= MOST_LOSS_RATIO:
        return None
    if base_s > NOISE_FACTOR * run_s:
        return None  # an epoch is shorter, as it should be
    first, ranks = common[0], scaling.devices
    losses = f"{run_losses[first]:.3g} with {run.world_size} ranks and {base_losses[first]:.3g} with {base.world_size}"
    evidence = f"after epoch {first} the loss is {losses}, and an epoch takes {run_s:.2f} s instead of {base_s:.2f} s"
    evidence += f": {ranks:g} shares of the data would make 1/{ranks:g} of the updates"
    return Flag(evidence, [run, base], corrected=_speedup_of_all_data(ranks, base_s, run_s))


def _speedup_of_all_data(ranks: float, base_s: float, run_s: float) -> Correction:
    """Return the speed-up of ranks of which each did the baseline's work: 4 x 10 s / 12.5 s = 3.2x, not 0.8x."""
    speedup = ranks * base_s / run_s
    derivation = f"not {base_s / run_s:.2f}x, if each rank trained on all of the data: {ranks:g} x {base_s:.2f} s / "
    derivation += f"{run_s:.2f} s, {percent(speedup / ranks)} of ideal"
    return Correction(value=round(speedup, 3), unit="x", derivation=derivation)


def _loss_of_epochs(run: ReportedRun) -> dict[int, float]:
    """Return epoch -> its training loss, {2: 0.41}; the mean where a file has an epoch of several runs."""
    losses = ((span.index, span.train_loss) for span in run.timed_spans)
    known = ((epoch, loss) for epoch, loss in losses if epoch is not None and loss is not None)
    return {epoch: fmean(values) for epoch, values in lists_by_key(known).items()}


def _steps_unchanged(scaling: Scaling) -> Flag | None:
    """Flag an epoch with as many micro-steps on each of N ranks as on one, where 1/N is due: 1,251 on 1 and on 4."""
    run, base = scaling.run, scaling.base
    has_same_batch = run.micro_batch is not None and run.micro_batch == base.micro_batch
    if not (has_same_batch and run.timed_spans and base.timed_spans and run.epochs):
        return None
    if run.dataset_samples is not None:
        return None  # `samples_repeated` counts the samples, which is more exact
    steps, base_steps = run.timed_spans[0].micro_steps, base.timed_spans[0].micro_steps
    # A round number of steps, or a limit, is as many as somebody asked for, not an epoch.
    if steps is None or steps % 10 == 0 or "max" in str(run.details.get("command", "")):
        return None
    if not base_steps or base_steps <= 10 or not near(steps, base_steps, 0.005):
        return None

    correction = None
    if run.seconds and base.seconds:
        correction = _speedup_of_all_data(scaling.devices, base.seconds, run.seconds)
    stated = f"{steps:,} micro-steps of {run.micro_batch} samples an epoch on each of {run.world_size} ranks"
    return Flag(f"{stated}, {base_steps:,} with {base.world_size}", [run, base], corrected=correction)


@of_evidence.finds("batch-multiplied", "invalid")
def batch_multiplied(context: AuditContext) -> Iterator[Flag]:
    """nn.DataParallel splits the loader's batch over the devices. Counting that batch once per device multiplies
    throughput by N.

    Detected: Strategy dp, equal stated work per device and step at 1 and N devices, while the first device's memory
    shrinks.
    Seen: GPT-2 on L4: 3.88 times on four devices were 0.97 times; transformers issue 24345.
    Repair: Count the loader's batch once.
    """
    for scaling in context.scalings:
        run, base = scaling.run, scaling.base
        if (run.strategy or "").lower() not in ("dp", "dataparallel", "data-parallel"):
            continue

        step, base_step = _last_timed(run), _last_timed(base)
        used, base_used = run.memory_used_bytes, base.memory_used_bytes
        if step is None or base_step is None or not (used and base_used):
            continue
        # FLOP of one device in a step: as many as the baseline's, although the memory shows that the device had a part
        # of the batch. The run counts the work of the whole batch for each device.
        work, base_work = step.flops_per_s * step.seconds, base_step.flops_per_s * base_step.seconds
        if not near(work, base_work, 0.03) or used >= SHRUNK_MEMORY_RATIO * base_used:
            continue  # the stated work of a device falls, as it should, or its memory does not

        repeats = (_last_timed(repeat) for repeat in scaling.bases)
        base_times = sorted(repeat.seconds for repeat in repeats if repeat is not None)
        stated_speedup = scaling.devices * step.flops_per_s / base_step.flops_per_s
        # The global batch is the baseline's, so that the true speed-up is the ratio of the times of a step.
        derivation = f"not {stated_speedup:.2f}x: {base_step.seconds:.4f} s / {step.seconds:.4f} s for the same batch"
        if len(base_times) > 1:
            lowest, highest = base_times[0] / step.seconds, base_times[-1] / step.seconds
            derivation += f"; {lowest:.2f}x to {highest:.2f}x over the repeats of the baseline"

        product = f"{step.flops_per_s / 1e12:.3f} TFLOP/s x {step.seconds:.4f} s = {work / 1e12:.2f} TFLOP"
        memory = f"{integer(base_used / 2**20)} to {integer(used / 2**20)} MB"
        evidence = f"{product} on each of {run.world_size} devices, as many as on one ({base_work / 1e12:.2f}), while "
        evidence += f"the memory of the first device falls from {memory}: its share is smaller, the batch is the total"
        corrected = Correction(value=round(base_step.seconds / step.seconds, 4), unit="x", derivation=derivation)
        yield Flag(evidence, [run, base], corrected=corrected)


class _TimedStep(NamedTuple):
    flops_per_s: float  # of one device
    seconds: float


def _last_timed(run: ReportedRun) -> _TimedStep | None:
    """Return the last step that states FLOP/s and seconds. Returns None where no step does."""
    timed = run.logged_steps.having("flops_per_s", "seconds")
    return _TimedStep(timed[-1].flops_per_s or 0, timed[-1].seconds or 0) if timed else None


@of_evidence.finds("baseline-ambiguous", "note")
def baseline_is_known(context: AuditContext) -> Iterator[Flag]:
    """Several runs could be the baseline of this one, and the files do not say which. No ratio is formed.

    Detected: Several configurations with the fewest devices fit equally well.
    Seen: a text classifier with DDP on 4 GPUs: two models, one folder each, and no model in the file.
    Repair: Write model, data and batch into the result, or name the baseline in a claims file (`{kind: speedup, value:
    ..., of: ..., over: ...}`).
    """
    for run, candidates in context.baselines.ambiguous:
        settling = listed(fields_that_settle(run, candidates)) or "a claims file that names it"
        names = listed(candidate.name for candidate in candidates)
        yield Flag(f"{names} would do as its baseline; {settling} would settle it", [run])


@of_evidence.finds("devices-unknown", "note")
def devices_are_known(context: AuditContext) -> Iterator[Flag]:
    """Without the number of devices no speed-up, efficiency or total can be checked.

    Detected: A run with a rate or a time, and no world size in its file or its name.
    Seen: per-epoch logs in CSV, per-rank rates in JSON.
    Repair: Give it: scaleproof audit PATH --world-size NAME=N, or world_size in a claims file.
    """
    unknown = [run for run in context.runs if not run.world_size and run.is_timed]
    if unknown and len(context.runs) > 1:
        verb = "does" if len(unknown) == 1 else "do"
        cure = "give it with --world-size NAME=N (NAME: part of the path)"
        yield Flag(f"{plural(len(unknown), 'run')} {verb} not say on how many devices: {cure}", unknown)


@of_evidence.finds("runs-interleaved", "invalid")
def runs_interleaved(context: AuditContext) -> Iterator[Flag]:
    """Two runs wrote to one file. Sums and averages over it are of neither.

    Detected: An epoch is there twice, a note where epochs only rise; or they are out of order.
    Seen: a text classifier with DDP on 4 GPUs: 35 rows, epochs 6, 1, 7, 2, ...
    Repair: Give every run a folder of its own; never append to an existing file.
    """
    for run in context.runs:
        indices = [span.index for span in run.timed_spans if span.index is not None]
        twice = [epoch for epoch, count in Counter(indices).items() if count > 1]
        if twice and indices == sorted(indices):  # resumed, or several rows an epoch, as one of its validation
            yield Flag(f"{plural(len(twice), 'epoch')} more than once, in rising order", [run], severity="note")
        elif twice:
            yield _interleaved(run, indices, len(twice))
        elif indices != sorted(indices):
            yield Flag(f"epochs are in the order {listed(indices)}", [run], severity="suspect")


def _interleaved(run: ReportedRun, indices: list[int], twice: int) -> Flag:
    """Flag a file with several runs, and say which: epochs 1, 2, 1, 2 are two runs of 2 epochs.

    `indices`: the numbers of its epochs in the order of the file; `twice`: how many of them are there more than once.
    """
    parts = epochs_of_runs(run)
    times = [span.seconds for span in run.timed_spans if span.seconds]
    repeated = f"{plural(twice, 'epoch')} more than once"
    evidence = f"{len(indices)} rows, epochs in the order {listed(indices[:8])}, ...; {repeated}"
    if times:
        evidence += f"; their sum, {sum(times):,.1f} s, is the time of no run"
    texts = [f"{plural(len(part), 'epoch')} ({part[0].index} to {part[-1].index}){_mean_time(part)}" for part in parts]
    corrected = Correction(value=len(parts), unit="runs", derivation=listed(texts))
    return Flag(evidence, [run], corrected=corrected)


def _mean_time(part: list[TimedSpan]) -> str:
    """Return the end of a sentence on epochs: ", 16.40 s an epoch after the first"; "" where no time is known."""
    times = [span.seconds for span in part[1:] if span.seconds]
    return f", {fmean(times):.2f} s an epoch after the first" if times else ""
