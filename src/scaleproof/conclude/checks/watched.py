"""Checks of a training loop that was watched from inside its process: those that need no formula."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise, takewhile

from scaleproof.ground.errors import plural
from scaleproof.ground.findings.registry import Code, Flag, Register
from scaleproof.ground.number_format import integer, percent, seconds
from scaleproof.ground.records.watched import NEVER_STEPPED, WatchedRank

NO_UPDATE = 1e-12  # an update below this share of the weights' norm changes no number in fp32
FEWEST_STEPS = 3  # equal batches in fewer steps, in a row or on two ranks, may be chance
FEW_BATCHES, CYCLES = 4, 4  # so few batches, each taken so often or more, are worth a note
CLOCKS = 0.02  # the steps together may be longer by this share of the time by the host's clock
ENDED_APART = 2  # so many steps may lie between the ranks of a run that was ended
MOST_PENDING = 2  # so many forward passes may have their backward pass after the last step
LATER = ", later mostly "
WARM_UP = 2  # the first step, and the step in which operations are counted, are in no rate


@dataclass(frozen=True)
class WatchedRun:
    """The records of all ranks of one watched run.

    `name`: the name of its folder, or of the run in a campaign; `cells`: the cell of a campaign's run, else empty.
    """

    name: str
    ranks: Sequence[WatchedRank]
    cells: tuple[str, ...] = ()
    was_ended: bool = False  # by the launcher, which no two ranks hear at the same moment

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens/s of all ranks, by the slowest rank's time after the warm-up; None without tokens or steps."""
        return self._rate([rank.tokens for rank in self.ranks])

    @property
    def samples_per_s(self) -> float | None:
        return self._rate([rank.samples for rank in self.ranks])

    @property
    def losses(self) -> dict[int, float]:
        """Step -> mean loss of all ranks; {} where a rank has none."""
        of_steps = list(zip(*(rank.losses or [] for rank in self.ranks), strict=False))
        return {step: sum(losses) / len(losses) for step, losses in enumerate(of_steps)}

    def _rate(self, work: Sequence[list[int]]) -> float | None:
        """Return the `work` of all steps of all ranks over the slowest rank's seconds, both after the warm-up."""
        amount = sum(sum(amounts_of_rank[WARM_UP:]) for amounts_of_rank in work)
        slowest_s = max(sum(rank.step_s[WARM_UP:]) for rank in self.ranks)
        return amount / slowest_s if amount and slowest_s else None


of_watched: Register[WatchedRun] = Register(lambda run: [run.name], lambda run: run.cells)


@of_watched.finds("weights-not-updated", "invalid", only_first=True)
def weights_are_updated(run: WatchedRun) -> Iterator[Flag]:
    """The optimizer's steps change no weight, or leave weights that are no numbers: nothing is trained, so that no
    speed of training was measured.

    Detected: Norms of the gradients before, and of what a step added to the weights, in the steps that
    `scaleproof.watch` looks at; norms of the weights, and losses of the last steps (NaN, infinity); parameters that are
    trained, and those with gradients that the optimizer lacks; forward passes without a step of the optimizer.
    Seen: A publication whose 46,000 tokens/s were of steps with gradients of zero.
    Repair: See that gradients reach the weights and that the optimizer has the model's own parameters; where the loss
    is lost, look at learning rate, precision and loss scale.
    """
    for rank in run.ranks:
        if rank.forwards and not rank.step_s:
            passes = plural(rank.forwards, "forward pass", "forward passes")
            made = f"on rank {rank.rank} the model made {passes} in training"
            yield Flag(f"{made}, and the optimizer no step: {NEVER_STEPPED}")
        if not rank.trainable:
            yield Flag(f"rank {rank.rank} trains none of its {integer(rank.parameters)} parameters")
        if rank.looks:
            yield from _flag_norms(rank)
        lost = list(takewhile(lambda loss: not math.isfinite(loss), reversed(rank.losses or [])))
        if len(lost) >= FEWEST_STEPS:
            of_steps = f"{len(lost)} of {plural(len(rank.losses or []), 'step')}"
            yield Flag(f"on rank {rank.rank} the loss was NaN or infinite in the last {of_steps}")
        if rank.left_out is None or len(rank.step_s) < FEWEST_STEPS:  # gradients unknown, or too few steps to judge
            continue
        if not any(look.gradient_norm for look in rank.looks):  # NaN is not 0; weight decay may still change weights
            yield Flag(f"on rank {rank.rank} all gradients were zero before {len(rank.looks)} updates")
        if rank.left_out:
            parameters = f"{integer(rank.left_out)} of {integer(rank.trainable)} trainable parameters"
            yield Flag(f"on rank {rank.rank} {parameters} got gradients and never changed", severity="suspect")


def _flag_norms(rank: WatchedRank) -> Iterator[Flag]:
    """Flag weights that are no numbers, and updates that changed no weight, by the norms in a few steps of a rank."""
    last_look = rank.looks[-1]
    if not math.isfinite(last_look.weight_norm):
        yield Flag(f"on rank {rank.rank} weights were NaN or infinite before step {last_look.step}")
    if all(look.update_norm <= NO_UPDATE * look.weight_norm for look in rank.looks):
        finite_norms = [look.gradient_norm for look in rank.looks if math.isfinite(look.gradient_norm)]
        largest = f"; the largest norm of the gradients was {max(finite_norms):.3g}" if finite_norms else ""
        yield Flag(f"on rank {rank.rank} none of {len(rank.looks)} updates changed the weights{largest}")


@of_watched.finds("gradients-not-cleared", "suspect", only_first=True)
def gradients_are_cleared(run: WatchedRun) -> Iterator[Flag]:
    """No gradient is set to zero between the optimizer's steps: each update has those of all steps before in it, which
    is another training than it seems.

    Detected: A parameter's gradient after the updates of the first steps, which is still there in all backward passes
    that follow, in the first one unchanged.
    Seen: Loops that lack optimizer.zero_grad().
    Repair: Call optimizer.zero_grad() in every step.
    """
    for rank in run.ranks:
        if rank.carried:
            yield Flag(f"on rank {rank.rank} gradients of a step were still there in the steps that followed")


@of_watched.finds("ranks-train-apart", "invalid")
def replicas_stay_together(run: WatchedRun) -> Iterator[Flag]:
    """The replicas of a data-parallel training have other weights at the end: gradients were not exchanged, and each
    rank trained a model of its own.

    Detected: A checksum over the bits of all weights on every rank after the last step; not of sharded weights.
    Seen: Models that were called inside of their wrapper; a no_sync that is never left.
    Repair: Call the wrapped model; see what wraps it.
    """
    # Ranks with sharded weights (None) are no replicas, nor are ranks that may hold parts of a model: they take the
    # same batches (tensor parallel), or have other numbers of parameters (pipelines).
    are_replicas = len({rank.parameters for rank in run.ranks}) == 1 and not _ranks_with_same_batches(run)
    checksums = {rank.weights for rank in run.ranks if rank.weights is not None}
    if len(checksums) > 1 and are_replicas and not run.was_ended:
        yield Flag(f"{len(run.ranks)} ranks have {len(checksums)} different sets of weights after the last step")


@of_watched.finds("gradients-not-exchanged", "suspect")
def gradients_are_exchanged(run: WatchedRun) -> Iterator[Flag]:
    """Ranks with replicas of a model and batches of their own exchanged nothing in some steps: they train apart, and
    what an exchange costs is not in the rate.

    Detected: Collectives of the probed step, counted by the dispatcher on every rank; a checksum over a parameter after
    every step, a different one each time, which replicas have in common.
    Seen: A communication hook that does nothing, with the weights made equal after the last step.
    Repair: Call the wrapped model, outside of no_sync. Where replicas are averaged once in many steps, say so beside
    the rate.
    """
    probed_steps = [rank.probed for rank in run.ranks if rank.probed and rank.weights is not None]  # not sharded
    if len(run.ranks) < 2 or len(probed_steps) < len(run.ranks) or _ranks_with_same_batches(run):
        return
    collectives = list(chain.from_iterable(step.collectives.items() for step in probed_steps))  # (name, bytes)
    # Broadcasts carry buffers and the layout of buckets, never gradients.
    if not any(size for name, size in collectives if not name.startswith("broadcast")):
        yield Flag(f"in step {probed_steps[0].step} {len(run.ranks)} ranks exchanged no gradients")
        return
    # Ranks that send or receive are parts of a pipeline, with different parameters.
    if any(name.startswith(("send", "recv")) for name, _ in collectives):
        return
    # Replicas have equal traces: a checksum of all parameters at the start (entry 0), then of one after each step.
    traces = zip(*[rank.traces for rank in run.ranks], strict=False)
    are_apart = [len(set(traces_of_ranks)) > 1 for traces_of_ranks in traces]
    if any(are_apart) and not are_apart[0]:
        share, first = f"{sum(are_apart)} of {len(are_apart) - 1}", are_apart.index(True) - 1
        yield Flag(f"after {share} steps, first after step {first}, ranks had different weights")


@of_watched.finds("steps-differ-between-ranks", "invalid", only_first=True)
def ranks_step_together(run: WatchedRun) -> Iterator[Flag]:
    """Ranks made different numbers of optimizer steps, or took different amounts of work in a step.

    Detected: Optimizer steps counted by hooks on every rank.
    Seen: Loaders of different lengths.
    Repair: Give every rank as many batches.
    """
    if len(run.ranks) != run.ranks[0].world_size:
        yield Flag(f"{len(run.ranks)} ranks left a record, the world has {run.ranks[0].world_size}")
    step_counts = {len(rank.step_s) for rank in run.ranks}
    if max(step_counts) - min(step_counts) > (ENDED_APART if run.was_ended else 0):
        yield Flag(f"ranks made {min(step_counts)} to {max(step_counts)} optimizer steps")


@of_watched.check(
    Code(
        "batch-repeated",
        "suspect",
        what="The same batch was trained on in consecutive steps, or a loader of many batches gave a few again and "
        "again: loading, and the cost of new data, is not in the rate, and the loss says nothing.",
        detected=f"Checksums of what entered the model, equal in {FEWEST_STEPS} or more steps in a row, where the "
        f"loader has more than one batch; or one pass over a loader of {CYCLES} times as many.",
        seen="Loops that fetch one batch before the timer starts.",
        repair="Take a new batch in every step, as training does.",
    ),
    Code(
        "few-batches",
        "note",
        what="A training took a few batches again and again, and nothing says that the data set has more: all of it is "
        "in a cache, and the loss says little.",
        detected=f"No more than {FEW_BATCHES} different checksums of what entered the model, each in {CYCLES} steps or "
        "more; the length of the loader, if it has one.",
        seen="",
        repair="Take a data set of the size that will be trained on, where loading it matters.",
    ),
    only_first=True,
)
def batches_are_new(run: WatchedRun) -> Iterator[Flag]:
    """Flag the first rank that trains on few different batches.

    `batch-repeated` where its loader is known to have more of them, or one batch came in several steps in a row.
    """
    for rank in run.ranks:
        steps = len(rank.batches)
        repeats = _longest_run_of_equal_batches(rank.batches)
        different = len({tuple(batches) for batches in rank.batches if batches})
        in_loader = rank.loader_batches  # number of batches; None: unknown
        batches_of_step = max([1, *map(len, rank.batches)])
        first_pass_steps = min(steps, (in_loader or 0) // batches_of_step)  # until the loader begins again
        where = f"on rank {rank.rank}"
        if repeats >= FEWEST_STEPS and in_loader != 1:
            yield Flag(f"{where} the same batch entered the model in {repeats} steps in a row", code="batch-repeated")
        if 0 < CYCLES * different <= first_pass_steps:  # though one pass has no batch twice
            evidence = f"{where} the loader has {in_loader} batches, and {different} different ones entered the model"
            yield Flag(f"{evidence} in {steps} steps", code="batch-repeated")
        if 0 < different <= FEW_BATCHES and steps >= CYCLES * different:
            size = f"has {plural(in_loader, 'batch', 'batches')}" if in_loader else "does not say how many it has"
            entered = f"{plural(different, 'batch', 'batches')} entered the model in {steps} steps"
            yield Flag(f"{where} {entered}; the loader {size}", code="few-batches")


def _longest_run_of_equal_batches(batches: Sequence[list[int]]) -> int:
    """Return the most steps in a row with equal batches; 1 where each batch differs from the batch before it.

    `batches`: for each step the checksums of what entered the model; empty where unknown.
    """
    longest_row = row = 1
    for before, after in pairwise(batches):
        is_repeated = bool(after) and after == before
        row = row + 1 if is_repeated else 1
        longest_row = max(longest_row, row)
    return longest_row


@of_watched.finds("ranks-share-batches", "suspect")
def ranks_have_their_own_batches(run: WatchedRun) -> Iterator[Flag]:
    """Ranks train on the same samples: an epoch, or a number of tokens, is counted once for each of them.

    Detected: Checksums of what entered the model, equal on two ranks in all steps.
    Seen: A DistributedSampler that is missing: DDP seemed to scale while all ranks did the same work.
    Repair: Give each rank its own part of the data. Ranks that share one sample (tensor or sequence parallel) are right
    to see it twice: count its tokens once.
    """
    if ranks := _ranks_with_same_batches(run):
        first, second = (rank.rank for rank in ranks)
        yield Flag(f"ranks {first} and {second} trained on the same batches in all {len(ranks[1].batches)} steps")


def _ranks_with_same_batches(run: WatchedRun) -> tuple[WatchedRank, WatchedRank] | None:
    """Return the first two ranks that take the same batches throughout; None where all differ or are unknown."""
    first_ranks: dict[str, WatchedRank] = {}  # batches -> the first rank that takes them
    for rank in run.ranks:
        if len(rank.batches) < FEWEST_STEPS or not all(rank.batches):  # too few, or some are unknown
            continue
        first = first_ranks.setdefault(str(rank.batches), rank)
        if first is not rank:
            return first, rank
    return None


@of_watched.finds("passes-missing", "suspect", only_first=True)
def steps_have_their_passes(run: WatchedRun) -> Iterator[Flag]:
    """Samples entered the model in training, and no backward pass followed: they are in the rate, and nothing was
    learnt from them. Or the optimizer made steps for which nothing had entered the model, or in evaluation mode alone.

    Detected: Hooks on the model, and on what it returns, called when its gradient is there; where some are called, and
    some not.
    Seen: Loops that drop the backward pass of most micro-batches once they are warm; a model.train() that is missing.
    Repair: Take a backward pass after each forward pass, or run it under torch.no_grad(). Call model.train() first.
    """
    for rank in run.ranks:
        forward, backward = sum(map(len, rank.batches)), sum(rank.backward or [])  # a forward pass takes a batch
        if 0 < backward < forward - MOST_PENDING:
            yield Flag(f"on rank {rank.rank} {forward - backward} of {forward} forward passes had no backward pass")
        empty_steps = rank.batches.count([])
        # Unless backward passes are counted, a step without a batch is no fault: a batch may serve several steps.
        if empty_steps > MOST_PENDING and (backward or rank.evaluated):
            mode = " in training, but in evaluation mode," if rank.evaluated else ""
            where = f"on rank {rank.rank} nothing entered the model{mode}"
            yield Flag(f"{where} before {empty_steps} of {len(rank.batches)} steps")


@of_watched.finds("precision-changes", "suspect", only_first=True)
def precision_stays(run: WatchedRun) -> Iterator[Flag]:
    """Most steps have another precision than the step in which operations were counted.

    Detected: Dtypes of what the model's largest layer returns, in all forward passes of the training.
    Seen: Autocast that is put on after the warm-up.
    Repair: Train all steps in one precision.
    """
    for rank in run.ranks:
        dtypes = dtypes_of_products(rank) or ""
        if LATER in dtypes:
            yield Flag(f"dtypes of matrix products on rank {rank.rank}: {dtypes}")


def dtypes_of_products(rank: WatchedRank) -> str | None:
    """Return a rank's dtypes of matrix products, "float32, later mostly bfloat16"; None where no step counted them."""
    if rank.probed is None:
        return None
    dtypes = rank.probed.products
    pass_counts = rank.layer_dtypes  # dtype of the largest layer -> in how many forward passes
    most_frequent = max(pass_counts, key=pass_counts.__getitem__, default=None)
    has_changed = len(pass_counts) > 1 and most_frequent not in dtypes.split("+")
    return f"{dtypes}{LATER}{most_frequent}" if has_changed else dtypes


@of_watched.finds("watched-clocks-differ", "invalid", only_first=True, clocks=percent(CLOCKS))
def steps_fit_into_the_time(run: WatchedRun) -> Iterator[Flag]:
    """The steps together take longer than the time from the first to the last of them.

    Detected: Times of the steps, added up, against the host's clock ({clocks}).
    Seen: Work that is queued and never waited for.
    Repair: Look at what the loop does between the optimizer's steps.
    """
    for rank in run.ranks:
        # Less is no fault: what follows the last step, such as an evaluation, is in the host's time alone.
        steps_s, passed_s = sum(rank.step_s), rank.wall_s
        if steps_s > (1 + CLOCKS) * passed_s:
            yield Flag(f"on rank {rank.rank} steps add up to {seconds(steps_s)}, and {seconds(passed_s)} passed")
