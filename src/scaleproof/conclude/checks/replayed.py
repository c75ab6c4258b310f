"""Did the run make the steps that an independent replay of its workload made, where training does not amplify rounding?

Where the loss is steep, sound runs come apart by more than any constant allows: with a learning rate of 0.01 a tiny
GPT-2 does so a thousand times within two steps, on one device too. Tolerances grow by as much as replays of the same
steps that were rounded otherwise come apart. A census is what one rank did and was set to, most of it in two probed
steps, before and after the window.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from scaleproof.conclude.checks.census import SETTINGS_DIFFER
from scaleproof.conclude.checks.updates import gradient_norm
from scaleproof.ground.errors import UserError, without_place
from scaleproof.ground.findings.registry import AT_A_TIME, Code, Flag, of_run, of_runs
from scaleproof.ground.number_format import fixed, integer, scientific, significant
from scaleproof.ground.records.run import MeasuredRun
from scaleproof.measure.reference.schema import Reference, Repetition, find_reference

SMALL_LOSS = 1.0  # nats; differences of smaller losses are relative to it
# How far apart three replays are in which nothing is amplified: losses were within 6e-8 over 29 steps, norms of the
# gradients, which show it earlier, within 5e-7. One draw of rounding may well be some ten times another: tolerances
# stand 50 to 100 times above.
QUIET, QUIET_NORM = 1e-7, 2e-6
UNSETTLED_NORM = 1e-5  # norms that are so far apart at the end of the replay announce that losses will be
MEANINGLESS, MEANINGLESS_NORM = 0.1, 0.5  # relative; of a tolerance with which nothing is compared any more


@dataclass(frozen=True)
class Amplification:
    """Factors by which tolerances are multiplied, 1 where training amplifies no rounding.

    `replayed`: of each replayed step; `later`: of all steps after them; `validation`: of the validation loss.
    """

    replayed: np.ndarray
    later: float = 1.0
    validation: float = 1.0

    def of(self, steps: int) -> np.ndarray:
        """Return the factors of the first `steps` steps."""
        known = self.replayed[:steps]
        return np.concatenate([known, np.full(steps - len(known), self.later)])


def rounding_amplification(reference: Reference | None) -> Amplification:
    """Return by which factors training amplifies rounding: how much further replays come apart than in quiet training.

    These are the replay and its repetitions, the same steps with other rounding; without them all factors are 1.
    """
    if reference is None or not reference.repetitions or not reference.losses:
        return Amplification(np.ones(0))
    replays: tuple[Reference | Repetition, ...] = (reference, *reference.repetitions)
    # Relative spreads of the replays, by step, each the largest so far.
    losses = _spread_so_far([replay.losses for replay in replays], SMALL_LOSS)
    norms = _spread_so_far([replay.gradient_norms for replay in replays], 0.0)
    scored = [[replay.validation_loss] for replay in replays if replay.validation_loss is not None]
    validation = float(_spread_so_far(scored, SMALL_LOSS)[0]) if scored else 0.0
    replayed = np.maximum(1.0, np.maximum(losses / QUIET, norms / QUIET_NORM))
    # Losses after the last replayed step come apart as there, or more where the norms of this step announce it.
    later = max(1.0, float(losses[-1]) / QUIET, float(norms[-1]) / UNSETTLED_NORM)
    return Amplification(replayed, later, max(later, validation / QUIET))


def _spread_so_far(series: Sequence[Sequence[float]], least: float) -> np.ndarray:
    """Return for each step the largest spread of the `series` at any step up to it.

    A spread is relative to the value of the first series, or to `least` where that value is smaller.
    """
    values = np.array(series)  # (series, steps)
    scale = np.maximum(np.abs(values[0]), max(least, 1e-30))
    return np.asarray(np.maximum.accumulate((values.max(axis=0) - values.min(axis=0)) / scale))


def comparable_steps(tolerance: np.ndarray) -> int:
    """Return the number of steps before the first whose `tolerance` is too wide (MEANINGLESS) to compare anything."""
    too_far = np.flatnonzero(tolerance > MEANINGLESS)
    return int(too_far[0]) if len(too_far) else len(tolerance)


# Relative difference from a replay in fp32, where training does not amplify rounding. Sound fp32 runs of
# ddp, fsdp and zero1 to zero3, of every size and accumulation, were within 1.5e-7 over 30 steps; the smallest of 23
# faults was 2.4e-5. On a GPU fp32 attention is three products in TF32: an error of 1e-6 in all gradients moved losses
# by 2e-7 in 30 steps. tf32 and fp16 round to 11 bits where bf16 has 8: bounds of bf16 hold for them on every device.
TOLERANCE = {"fp32": 1e-5, "tf32": 2e-3, "bf16": 2e-3, "fp16": 2e-3}
# ... and for each step, since what was rounded differently goes on. Sound steps of 256 tokens in bf16 and fp16, under
# all strategies, were within 6e-5 in the first 5 steps and within 2.3e-4 in 28.
GROWTH = {"fp32": 0.0, "tf32": 0.0, "bf16": 2e-4, "fp16": 2e-4}
# The mean of a few samples: on two kinds of CPU sound runs in bf16 were within 1.6e-2 over 34 steps.
OF_CLASSES = {"fp32": 1e-5, "tf32": 5e-3, "bf16": 4e-2, "fp16": 4e-2}
OF_VALIDATION = {"fp32": 1e-5, "tf32": 5e-3, "bf16": 1e-2, "fp16": 1e-2}
# In low precision a fault may stay below that in every step, and above it on average: sound means in bf16 were 2e-5.
BIAS, ERRORS = 8e-4, 6.0  # relative; standard errors of the mean
FEWEST_FOR_BIAS = 10  # steps
# Of single samples, in strict fp32 whatever the precision of the run is: sound ones were within 1.5e-7.
AS_BUILT, AS_BUILT_OF_CLASSES = 2e-5, 2e-4
# Of a step's gradients: sound norms were within 3e-7 in fp32 and 1.5e-3 in bf16.
CLASSIFIER_NOISE = 5  # times as much, because its steps have few samples
NORM = {"fp32": 1e-4, "tf32": 1e-2, "bf16": 3e-2, "fp16": 3e-2}
MODULUS = 2**64


@lru_cache(maxsize=AT_A_TIME)
def reference_for(run: MeasuredRun) -> Reference | None:
    """Return the replay of a run's workload, kept beside its campaign's runs; None where it is missing or damaged."""
    try:
        return find_reference(run.folder, run.metrics.config, run.metrics.data["train_sha256"])
    except UserError:  # a damaged file says nothing of the run: `replay_is_whole` notes it
        return None


def _scale_overflowed(run: MeasuredRun) -> bool:
    """Return whether the loss scale of fp16 overflowed, so that every later step is one update behind the replay."""
    metrics = run.metrics
    return metrics.training_config.precision == "fp16" and metrics.window.skipped_optimizer_steps > 0


DIFFER = Code(
    "losses-differ-from-reference",
    "invalid",
    what="The run did not train as its configuration says: other samples, another model, optimizer or precision.",
    detected="The loss of the first steps against a replay in one plain fp32 process that shares no code with the "
    "trainer: 1e-5 in fp32; 2e-3 in lower precision, in bf16 and fp16 2e-4 more with each step, and the mean over 10 "
    "steps or more (`suspect` beyond 8e-4 and 6 standard errors). Where replays with the rows of each step in other "
    "orders come further apart than 1e-7 (norms of the gradients: 2e-6), training amplifies rounding: as many times as "
    "much is allowed, and nothing is compared any more from where that is 0.1. In every precision also a few samples, "
    "scored in fp32 by the model as it was built, and the norm of the gradients in probed steps.",
    seen="Ranks that all read the same samples; weight decay or clipping that an engine dropped; bf16 in an fp32 cell.",
    repair="Do not quote this run. The first step that differs says where to look: the first of all: "
    "model or samples; later ones: optimizer, learning rate, precision.",
)


def loss_tolerances(run: MeasuredRun, reference: Reference) -> np.ndarray:
    """Return the allowed relative difference of losses at each step that both run and replay have made."""
    steps = min(len(run.losses), len(reference.losses))
    return np.asarray(tolerances_unamplified(run, steps) * rounding_amplification(reference).of(steps))


def tolerances_unamplified(run: MeasuredRun, steps: int) -> np.ndarray:
    """Return the allowed relative difference of a run's loss from its replay's at each of `steps` steps.

    It holds where training amplifies no rounding. In bf16 and fp16 it grows with the step; for a classifier, whose loss
    is a mean of few samples, it is constant.
    """
    precision = run.metrics.training_config.precision
    if run.is_classifier:
        return np.full(steps, OF_CLASSES[precision])
    return np.asarray(TOLERANCE[precision] + GROWTH[precision] * np.arange(steps))


@of_run.check(DIFFER)
def losses_are_the_references(run: MeasuredRun) -> Iterator[Flag]:
    """Flag a run that has other losses than its replay in some step, warm-up included, or on average."""
    reference = reference_for(run)
    if reference is None or _scale_overflowed(run):
        return
    precision = run.metrics.training_config.precision
    losses, tolerance = run.losses, loss_tolerances(run, reference)
    steps = comparable_steps(tolerance)
    expected = np.array(reference.losses[:steps])
    apart = (losses[:steps] - expected) / np.maximum(np.abs(expected), SMALL_LOSS)
    difference = np.abs(apart)
    wrong = np.flatnonzero(~(difference <= tolerance[:steps]))  # also where a loss is NaN
    if len(wrong):
        first = int(wrong[0])
        yield Flag(
            f"from step {first} of {steps} on: the loss is {significant(losses[first], 8)}, that of the replay "
            f"{significant(expected[first], 8)}, {scientific(difference[first])} apart, "
            f"{scientific(tolerance[first])} is allowed; at most {scientific(np.nanmax(difference))}"
        )
    elif precision != "fp32" and not run.is_classifier and steps >= FEWEST_FOR_BIAS:
        amplified = float(rounding_amplification(reference).of(steps)[-1])  # the last is the largest: it never falls
        yield from _flag_bias(apart, BIAS * amplified, precision)


def _flag_bias(apart: np.ndarray, allowed: float, precision: str) -> Iterator[Flag]:
    """Flag losses of a low precision whose mean is above or below the replay's: rounding alone has no such bias.

    `apart`: the relative difference in each step, with its sign; `allowed`: how large their mean may be.
    """
    steps, bias = len(apart), float(apart.mean())
    standard_error = max(float(apart.std(ddof=1)) / steps**0.5, 1e-12)
    n_errors = abs(bias) / standard_error
    if abs(bias) > allowed and n_errors > ERRORS:
        yield Flag(
            f"over {steps} steps the losses are {scientific(bias, 1, signed=True)} from those of the replay on "
            f"average, {fixed(n_errors, 0)} standard errors; {precision} explains {scientific(allowed, 0)}",
            severity="suspect",
            advice="Rounding has no such bias: compare the run with one in fp32, and look at model and dropout.",
        )


@of_run.check(DIFFER, only_first=True)
def the_model_as_built_is_the_references(run: MeasuredRun) -> Iterator[Flag]:
    """Flag the first sample whose fp32 loss in the model as built, not yet wrapped or cast, is not the replay's."""
    reference = reference_for(run)
    if reference is None:
        return
    tolerance = AS_BUILT_OF_CLASSES if run.is_classifier else AS_BUILT
    for rank, census in enumerate(run.metrics.census or []):
        losses = zip(census.first_losses or [], reference.first_losses, strict=False)  # of the rank, of the replay
        for number, (loss, expected) in enumerate(losses, start=1):
            difference = abs(loss - expected) / max(abs(expected), SMALL_LOSS)
            if not difference <= tolerance:  # flags NaN as well
                yield Flag(
                    f"on rank {rank}, before the first step and in fp32: sample {number} has a loss of "
                    f"{significant(loss, 8)}, in the replay {significant(expected, 8)}, {scientific(difference)} "
                    f"apart; {scientific(tolerance, 0)} is allowed",
                    advice="Weights, positions, mask, dropout or samples are others from the start: look at what "
                    "builds the model.",
                )


@of_run.check(DIFFER, only_first=True)
def gradients_are_the_references(run: MeasuredRun) -> Iterator[Flag]:
    """Flag the first rank whose norm of all gradients in a probed step is not that of the replay."""
    reference = reference_for(run)
    if reference is None or _scale_overflowed(run):
        return
    rounding = NORM[run.metrics.training_config.precision] * (CLASSIFIER_NOISE if run.is_classifier else 1)
    tolerances = rounding * rounding_amplification(reference).of(len(reference.gradient_norms))  # by step
    for rank, census in enumerate(run.metrics.census or []):
        for when in ("before", "after"):
            step, norm = getattr(census, when), gradient_norm(run, rank, when)
            if step is None or norm is None or step.step >= len(reference.gradient_norms):
                continue
            expected, tolerance = reference.gradient_norms[step.step], tolerances[step.step]
            is_meaningless = tolerance > MEANINGLESS_NORM  # training amplifies rounding too far to compare
            if not is_meaningless and not abs(norm - expected) <= tolerance * expected:
                yield Flag(
                    f"on rank {rank}, in step {step.step}: the gradients have a norm of {significant(norm, 5)}, in "
                    f"the replay {significant(expected, 5)}; {scientific(tolerance, 0)} is allowed",
                    advice="The first thing to look at is what the loss and the gradients are divided by.",
                )


@of_run.check(SETTINGS_DIFFER, only_first=True)
def decayed_parameters_are_the_references(run: MeasuredRun) -> Iterator[Flag]:
    """Flag the first rank on which weight decay applies to another number of elements than in the replay."""
    reference = reference_for(run)
    decay = run.metrics.config["work"]["optimizer"]["weight_decay"]
    if reference is None or reference.decayed is None or reference.parameters is None or not decay:
        return
    expected_decayed, expected_total = reference.decayed, reference.parameters
    for rank, census in enumerate(run.metrics.census or []):
        for step in (census.before, census.after):
            if step is None or any(group.elements is None for group in step.groups):
                continue
            decayed = sum(group.elements or 0 for group in step.groups if group.weight_decay)
            total = sum(group.elements or 0 for group in step.groups)
            if (decayed, total) != (expected_decayed, expected_total):
                yield Flag(
                    f"rank {rank}: weight decay applies to {integer(decayed)} of the {integer(total)} elements that "
                    f"the optimizer updates; in the replay to {integer(expected_decayed)} of {integer(expected_total)}"
                )


@of_run.finds("tokens-differ-from-reference", "invalid")
def tokens_are_the_references(run: MeasuredRun) -> Iterator[Flag]:
    """Other tokens entered the model than the configuration's samples have: text was cut, repeated or left out.

    Detected: A checksum of all tokens that entered the model on all ranks, in the steps of the window, in a probed step
    before and one after it, and in the validation, against the token file read by other code.
    Seen: Micro-batches that are read but not trained on; validation on the training text.
    Repair: Look at what is between the reader and the model; run the cell again.
    """
    reference, censuses = reference_for(run), run.metrics.census or []
    if reference is None:
        return
    for when in ("before", "after"):
        steps = [step for census in censuses if (step := getattr(census, when))]
        entered = _sum_of_checksums([step.tokens_checksum for step in steps], len(censuses))
        expected = reference.step_checksums.get(steps[0].step) if steps else None  # the same step on all ranks
        if entered and expected is not None and entered != expected:
            yield Flag(f"in step {steps[0].step}, {when} the window, the ranks trained on other tokens than planned")
    entered = _sum_of_checksums([census.tokens_in_window for census in censuses], len(censuses))
    if entered and reference.window_chain and entered != reference.window_chain:  # over all steps, in their order
        yield Flag("in the window the ranks trained on other tokens than planned, or in another order of steps")
    validation = run.metrics.validation
    scored = validation.tokens_checksum if validation else None
    if scored and reference.validation_checksum and scored != reference.validation_checksum:
        yield Flag("the validation scored other tokens than those of its samples")


def _sum_of_checksums(checksums: list[str | None], ranks: int) -> str | None:
    """Return the sum of the checksums of all `ranks` as 16 hexadecimal digits, as they are; None unless all are known.

    A sum (modulo MODULUS) does not depend on which rank had which sample.
    """
    known = [int(checksum, 16) for checksum in checksums if checksum is not None]
    return f"{sum(known) % MODULUS:016x}" if known and len(known) == ranks else None


@of_run.finds("validation-differs-from-reference", "invalid")
def validation_is_the_references(run: MeasuredRun) -> Iterator[Flag]:
    """The validation loss is not that of this training on these samples.

    Detected: The validation loss after the last step against that of the replay, where it made all steps: 1e-5 in fp32,
    and more where training amplifies rounding. The samples of the step after the window, scored as those of the
    validation are, against their loss in that step: twice as much.
    Seen: Validation on the training split.
    Repair: Do not quote the validation loss of this run.
    """
    yield from _flag_other_scores(run)
    reference, validation = reference_for(run), run.metrics.validation
    if reference is None or validation is None or reference.validation_loss is None or _scale_overflowed(run):
        return
    expected = reference.validation_loss
    difference = abs(validation.loss - expected) / max(expected, SMALL_LOSS)
    tolerance = OF_VALIDATION[run.metrics.training_config.precision] * rounding_amplification(reference).validation
    is_comparable = tolerance <= MEANINGLESS  # else training amplifies rounding too far
    if is_comparable and not difference <= tolerance:
        yield Flag(
            f"the validation loss is {significant(validation.loss, 8)}, that of the replay "
            f"{significant(expected, 8)}, {scientific(difference)} apart; {scientific(tolerance, 0)} is allowed"
        )


def _flag_other_scores(run: MeasuredRun) -> Iterator[Flag]:
    """Flag the first rank that scores the samples of the step after the window at another loss than in training.

    Both times the weights are the same: those after the window.
    """
    of_rounding = OF_CLASSES if run.is_classifier else OF_VALIDATION  # of one loss; here both are rounded
    tolerance = 2 * of_rounding[run.metrics.training_config.precision]
    for rank, census in enumerate(run.metrics.census or []):
        scored, trained = census.scored_and_trained or (0.0, 0.0)  # losses
        if not abs(scored - trained) <= tolerance * max(abs(trained), SMALL_LOSS):
            yield Flag(
                f"rank {rank} scores the samples of the step after the window at {significant(scored, 8)}; trained on, "
                f"with the same weights, they have a loss of {significant(trained, 8)}"
            )
            return


@of_runs.finds("replay-in-part", "note")
def replay_is_whole(runs: list[MeasuredRun]) -> Iterator[Flag]:
    """Fewer steps than usual, or none, are held against a replay; the other checks look at these runs as ever.

    Detected: What the replay says of itself: time or memory did not suffice, or a loss was no number. Or training
    amplifies rounding so much that sound runs come further apart than 0.1 of their loss.
    Seen: Large models on a CPU; learning rates with which a loss jumps.
    Repair: Nothing about the runs. A replay on the device of the runs, a smaller global batch or a smaller learning
    rate is compared in more steps.
    """
    runs_with: dict[str, list[MeasuredRun]] = defaultdict(list)
    for run in runs:
        for reason in _steps_not_compared(run):
            runs_with[reason].append(run)
    for reason, concerned in runs_with.items():
        yield Flag(reason, about=concerned)


def _steps_not_compared(run: MeasuredRun) -> Iterator[str]:
    """Yield in words which steps of a run are not compared with its replay, and why."""
    try:
        reference = find_reference(run.folder, run.metrics.config, run.metrics.data["train_sha256"])
    except UserError as error:
        yield f"no step is compared with a replay: {without_place(str(error), run.folder.parents[2])}"
        return
    if reference is None:
        return
    if reference.shortened:
        extent = f"{len(reference.losses)} of {reference.total_steps} steps"
        yield f"{extent} were replayed for comparison: {reference.shortened}"
    tolerance = loss_tolerances(run, reference)
    compared = comparable_steps(tolerance)
    if compared < len(tolerance):
        amplified = rounding_amplification(reference).of(len(tolerance))[compared]  # in the first step left out
        yield (
            f"losses are compared with those of the replay before step {compared} alone: from there on "
            f"training itself amplifies rounding {integer(amplified)} times, and sound runs come apart"
        )
