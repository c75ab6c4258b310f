"""Did the run make the steps that an independent replay of its workload made, where training does not amplify rounding?

Where the loss is steep, sound runs come apart by more than any constant allows: with a learning rate of 0.01 a tiny
GPT-2 does so a thousand times within two steps, on one device too. Tolerances grow by as much as replays of the same
steps that were rounded otherwise come apart. A census is what one rank did and was set to, most of it in two probed
steps, before and after the window.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from scaleproof.conclude.checks.census import settings_are_the_configured_ones
from scaleproof.conclude.checks.updates import gradient_norm
from scaleproof.ground.errors import UserError, without_place
from scaleproof.ground.findings.registry import AT_A_TIME, Flag, of_run, of_runs
from scaleproof.ground.number_format import fixed, integer, scientific, significant
from scaleproof.ground.records.census import ProbedStep
from scaleproof.ground.records.grouping import all_known, lists_by_key
from scaleproof.ground.records.run import MeasuredRun
from scaleproof.measure.reference.schema import Reference, Repetition, find_reference

SMALL_LOSS = 1.0  # nats; differences of smaller losses are relative to it
# How far apart three replays are in which nothing is amplified: losses were within 6e-8 over 29 steps, norms of the
# gradients, which show it earlier, within 5e-7. One draw of rounding may well be some ten times another: tolerances
# stand 50 to 100 times above.
QUIET, QUIET_NORM = 1e-7, 2e-6
UNSETTLED_NORM = 1e-5  # norms that are so far apart at the end of the replay announce that losses will be
MEANINGLESS, MEANINGLESS_NORM = 0.1, 0.5  # with larger (relative) tolerances nothing is compared any more


@dataclass(frozen=True)
class Amplification:
    """Factors by which tolerances are multiplied, 1 where training amplifies no rounding.

    `replayed`: the factor of each replayed step; `later`: the factor of all later steps; `validation`: that of the
    validation loss.
    """

    replayed: np.ndarray
    later: float = 1.0
    validation: float = 1.0

    def of(self, steps: int) -> np.ndarray:
        """Return the factors of the first `steps` steps."""
        replayed = self.replayed[:steps]
        return np.concatenate([replayed, np.full(steps - len(replayed), self.later)])


def rounding_amplification(reference: Reference | None) -> Amplification:
    """Return by which factors training amplifies rounding: how much further replays come apart than in quiet training.

    The replays are the reference and its repetitions, which make the same steps with other rounding; without
    repetitions all factors are 1.
    """
    if reference is None or not reference.repetitions or not reference.losses:
        return Amplification(np.ones(0))
    replays: tuple[Reference | Repetition, ...] = (reference, *reference.repetitions)
    loss_spreads = _largest_spreads([replay.losses for replay in replays], SMALL_LOSS)
    norm_spreads = _largest_spreads([replay.gradient_norms for replay in replays], 0.0)
    replayed = np.maximum(1.0, np.maximum(loss_spreads / QUIET, norm_spreads / QUIET_NORM))

    # Later losses come apart as in the last replayed step, or more where the norms of its gradients announce it.
    later = max(1.0, float(loss_spreads[-1]) / QUIET, float(norm_spreads[-1]) / UNSETTLED_NORM)

    validation = later
    validation_losses = [[replay.validation_loss] for replay in replays if replay.validation_loss is not None]
    if validation_losses:
        validation = max(later, float(_largest_spreads(validation_losses, SMALL_LOSS)[0]) / QUIET)
    return Amplification(replayed, later, validation)


def _largest_spreads(series: Sequence[Sequence[float]], least: float) -> np.ndarray:
    """Return for each step the largest spread of the `series` at any step up to it.

    A spread is relative to the value of the first series, or to `least` where that value is smaller.
    """
    values = np.array(series)  # series x steps
    scale = np.maximum(np.abs(values[0]), max(least, 1e-30))
    return np.asarray(np.maximum.accumulate((values.max(axis=0) - values.min(axis=0)) / scale))


def comparable_steps(tolerances: np.ndarray) -> int:
    """Return the number of steps before the first whose tolerance is too wide (MEANINGLESS) to compare anything."""
    incomparable_steps = np.flatnonzero(tolerances > MEANINGLESS)
    return int(incomparable_steps[0]) if len(incomparable_steps) else len(tolerances)


# Relative difference from a replay in fp32, where training does not amplify rounding. Sound fp32 runs of
# ddp, fsdp and zero1 to zero3, of every size and accumulation, were within 1.5e-7 over 30 steps; the smallest of 23
# faults was 2.4e-5. On a GPU fp32 attention is three products in TF32: an error of 1e-6 in all gradients moved losses
# by 2e-7 in 30 steps. tf32 and fp16 round to 11 bits where bf16 has 8: bounds of bf16 hold for them on every device.
TOLERANCE = {"fp32": 1e-5, "tf32": 2e-3, "bf16": 2e-3, "fp16": 2e-3}
# So much more is allowed with each step, since what was rounded differently goes on. Sound steps of 256 tokens in bf16
# and fp16, under all strategies, were within 6e-5 in the first 5 steps and within 2.3e-4 in 28.
GROWTH = {"fp32": 0.0, "tf32": 0.0, "bf16": 2e-4, "fp16": 2e-4}
# A classifier's loss is the mean of a few samples: on two kinds of CPU sound runs in bf16 were within 1.6e-2 over 34
# steps.
OF_CLASSES = {"fp32": 1e-5, "tf32": 5e-3, "bf16": 4e-2, "fp16": 4e-2}
OF_VALIDATION = {"fp32": 1e-5, "tf32": 5e-3, "bf16": 1e-2, "fp16": 1e-2}
# In low precision a fault may stay below these in every step and show in the mean of FEWEST_FOR_BIAS steps or more. The
# mean is tolerated up to BIAS and to so many of its standard errors (ERRORS); sound means in bf16 were 2e-5.
BIAS, ERRORS = 8e-4, 6.0
FEWEST_FOR_BIAS = 10
# Single samples are scored in strict fp32, whatever the precision of the run is: sound losses were within 1.5e-7.
AS_BUILT, AS_BUILT_OF_CLASSES = 2e-5, 2e-4
# Norms of a step's gradients: sound norms were within 3e-7 in fp32 and 1.5e-3 in bf16.
NORM = {"fp32": 1e-4, "tf32": 1e-2, "bf16": 3e-2, "fp16": 3e-2}
CLASSIFIER_NOISE = 5  # times these tolerances are allowed for a classifier, because its steps have few samples
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


@of_run.finds("losses-differ-from-reference", "invalid")
def losses_are_the_references(run: MeasuredRun) -> Iterator[Flag]:
    """The run did not train as its configuration says: other samples, another model, optimizer or precision.

    Detected: The loss of the first steps against a replay in one plain fp32 process that shares no code with the
    trainer: 1e-5 in fp32; 2e-3 in lower precision, in bf16 and fp16 2e-4 more with each step, and the mean over 10
    steps or more (`suspect` beyond 8e-4 and 6 standard errors). Where replays with the rows of each step in other
    orders come further apart than 1e-7 (norms of the gradients: 2e-6), training amplifies rounding: as many times as
    much is allowed, and nothing is compared any more from where that is 0.1. In every precision also a few samples,
    scored in fp32 by the model as it was built, and the norm of the gradients in probed steps.
    Seen: Ranks that all read the same samples; weight decay or clipping that an engine dropped; bf16 in an fp32 cell.
    Repair: Do not quote this run. The first step that differs says where to look: the first of all: model or samples;
    later ones: optimizer, learning rate, precision.
    """
    reference = reference_for(run)
    if reference is None or _scale_overflowed(run):
        return
    tolerances = loss_tolerances(run, reference)
    step_count = comparable_steps(tolerances)
    losses, expected_losses = run.losses[:step_count], np.array(reference.losses[:step_count])
    differences = (losses - expected_losses) / np.maximum(np.abs(expected_losses), SMALL_LOSS)
    distances = np.abs(differences)

    wrong_steps = np.flatnonzero(~(distances <= tolerances[:step_count]))  # also where a loss is NaN
    precision = run.metrics.training_config.precision
    if len(wrong_steps):
        first = int(wrong_steps[0])
        yield Flag(
            f"from step {first} of {step_count} on: the loss is {significant(losses[first], 8)}, that of the replay "
            f"{significant(expected_losses[first], 8)}, {scientific(distances[first])} apart, "
            f"{scientific(tolerances[first])} is allowed; at most {scientific(np.nanmax(distances))}"
        )
    elif precision != "fp32" and not run.is_classifier and step_count >= FEWEST_FOR_BIAS:
        largest_factor = float(rounding_amplification(reference).of(step_count)[-1])  # factors never fall
        yield from _flag_bias(differences, BIAS * largest_factor, precision)


def _flag_bias(differences: np.ndarray, allowed_bias: float, precision: str) -> Iterator[Flag]:
    """Flag losses of a low precision whose mean is above or below the replay's: rounding alone has no such bias.

    `differences`: the relative difference in each step, with its sign; `allowed_bias`: how large their mean may be.
    """
    step_count, bias = len(differences), float(differences.mean())
    standard_error = max(float(differences.std(ddof=1)) / step_count**0.5, 1e-12)
    error_count = abs(bias) / standard_error
    if abs(bias) > allowed_bias and error_count > ERRORS:
        yield Flag(
            f"over {step_count} steps the losses are {scientific(bias, 1, signed=True)} from those of the replay on "
            f"average, {fixed(error_count, 0)} standard errors; {precision} explains {scientific(allowed_bias, 0)}",
            severity="suspect",
            advice="Rounding has no such bias: compare the run with one in fp32, and look at model and dropout.",
        )


@of_run.check(*losses_are_the_references.codes, only_first=True)
def the_model_as_built_is_the_references(run: MeasuredRun) -> Iterator[Flag]:
    """Flag the first sample whose fp32 loss in the model as built, not yet wrapped or cast, is not the replay's."""
    reference = reference_for(run)
    if reference is None:
        return
    tolerance = AS_BUILT_OF_CLASSES if run.is_classifier else AS_BUILT
    for rank, census in enumerate(run.metrics.census or []):
        loss_pairs = zip(census.first_losses or [], reference.first_losses, strict=False)
        for sample, (loss, expected_loss) in enumerate(loss_pairs, start=1):
            difference = abs(loss - expected_loss) / max(abs(expected_loss), SMALL_LOSS)
            if not difference <= tolerance:  # flags NaN as well
                yield Flag(
                    f"on rank {rank}, before the first step and in fp32: sample {sample} has a loss of "
                    f"{significant(loss, 8)}, in the replay {significant(expected_loss, 8)}, {scientific(difference)} "
                    f"apart; {scientific(tolerance, 0)} is allowed",
                    advice="Weights, positions, mask, dropout or samples are others from the start: look at what "
                    "builds the model.",
                )


@of_run.check(*losses_are_the_references.codes, only_first=True)
def gradients_are_the_references(run: MeasuredRun) -> Iterator[Flag]:
    """Flag the first rank whose norm of all gradients in a probed step is not that of the replay."""
    reference = reference_for(run)
    if reference is None or _scale_overflowed(run):
        return
    expected_norms = reference.gradient_norms
    tolerance_of_rounding = NORM[run.metrics.training_config.precision]
    if run.is_classifier:
        tolerance_of_rounding *= CLASSIFIER_NOISE
    tolerances = tolerance_of_rounding * rounding_amplification(reference).of(len(expected_norms))

    for rank, census in enumerate(run.metrics.census or []):
        for when in ("before", "after"):
            step, norm = getattr(census, when), gradient_norm(run, rank, when)
            if step is None or norm is None or step.step >= len(expected_norms):  # not recorded, or not replayed
                continue
            expected_norm, tolerance = expected_norms[step.step], tolerances[step.step]
            is_meaningless = tolerance > MEANINGLESS_NORM  # training amplifies rounding too far to compare
            if not is_meaningless and not abs(norm - expected_norm) <= tolerance * expected_norm:
                yield Flag(
                    f"on rank {rank}, in step {step.step}: the gradients have a norm of {significant(norm, 5)}, in "
                    f"the replay {significant(expected_norm, 5)}; {scientific(tolerance, 0)} is allowed",
                    advice="The first thing to look at is what the loss and the gradients are divided by.",
                )


@of_run.check(*settings_are_the_configured_ones.codes, only_first=True)
def decayed_parameters_are_the_references(run: MeasuredRun) -> Iterator[Flag]:
    """Flag the first rank on which weight decay applies to another number of elements than in the replay."""
    reference = reference_for(run)
    decay = run.metrics.config["work"]["optimizer"]["weight_decay"]
    if reference is None or reference.decayed is None or reference.parameters is None or not decay:
        return
    expected_decayed, expected_total = reference.decayed, reference.parameters
    for rank, census in enumerate(run.metrics.census or []):
        for step in (census.before, census.after):
            if step is None or any(group.elements is None for group in step.groups):  # not recorded
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
    reference = reference_for(run)
    censuses = run.metrics.census or []
    if reference is None:
        return
    for when in ("before", "after"):
        steps: list[ProbedStep] = all_known(getattr(census, when) for census in censuses)
        if not steps:
            continue
        checksum = _sum_of_checksums([step.tokens_checksum for step in steps])
        expected_checksum = reference.step_checksums.get(steps[0].step)  # all ranks probe the same step
        if checksum and expected_checksum is not None and checksum != expected_checksum:
            yield Flag(f"in step {steps[0].step}, {when} the window, the ranks trained on other tokens than planned")

    # This checksum is made over all steps, in their order.
    checksum = _sum_of_checksums([census.tokens_in_window for census in censuses])
    if checksum and reference.window_chain and checksum != reference.window_chain:
        yield Flag("in the window the ranks trained on other tokens than planned, or in another order of steps")

    validation = run.metrics.validation
    checksum = validation.tokens_checksum if validation else None
    if checksum and reference.validation_checksum and checksum != reference.validation_checksum:
        yield Flag("the validation scored other tokens than those of its samples")


def _sum_of_checksums(checksums: list[str | None]) -> str | None:
    """Return the sum of all ranks' checksums as 16 hexadecimal digits; None unless all are known.

    A sum (modulo MODULUS) does not depend on which rank had which sample.
    """
    numbers = [int(checksum, 16) for checksum in all_known(checksums)]
    return f"{sum(numbers) % MODULUS:016x}" if numbers else None


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
    expected_loss = reference.validation_loss
    difference = abs(validation.loss - expected_loss) / max(expected_loss, SMALL_LOSS)
    tolerance = OF_VALIDATION[run.metrics.training_config.precision] * rounding_amplification(reference).validation
    is_comparable = tolerance <= MEANINGLESS  # else training amplifies rounding too far
    if is_comparable and not difference <= tolerance:
        yield Flag(
            f"the validation loss is {significant(validation.loss, 8)}, that of the replay "
            f"{significant(expected_loss, 8)}, {scientific(difference)} apart; {scientific(tolerance, 0)} is allowed"
        )


def _flag_other_scores(run: MeasuredRun) -> Iterator[Flag]:
    """Flag the first rank that scores the samples of the step after the window at another loss than in training.

    Both times the weights are the same: those after the window.
    """
    tolerances_of_one_loss = OF_CLASSES if run.is_classifier else OF_VALIDATION
    tolerance = 2 * tolerances_of_one_loss[run.metrics.training_config.precision]  # both losses are rounded
    for rank, census in enumerate(run.metrics.census or []):
        scored_loss, trained_loss = census.scored_and_trained or (0.0, 0.0)  # not recorded: no difference
        if not abs(scored_loss - trained_loss) <= tolerance * max(abs(trained_loss), SMALL_LOSS):
            yield Flag(
                f"rank {rank} scores the samples of the step after the window at {significant(scored_loss, 8)}; "
                f"trained on, with the same weights, they have a loss of {significant(trained_loss, 8)}"
            )
            break


@of_runs.finds("replay-in-part", "note")
def replay_is_whole(runs: list[MeasuredRun]) -> Iterator[Flag]:
    """Fewer steps than usual, or none, are held against a replay; the other checks look at these runs as ever.

    Detected: What the replay says of itself: time or memory did not suffice, or a loss was no number; its file is
    damaged, or of other tokens. Or training amplifies rounding so much that sound runs come further apart than 0.1 of
    their loss.
    Seen: Large models on a CPU; learning rates with which a loss jumps.
    Repair: Nothing about the runs. A replay on the device of the runs, a smaller global batch or a smaller learning
    rate is compared in more steps.
    """
    for reason, runs_alike in lists_by_key((why, run) for run in runs for why in _steps_not_compared(run)).items():
        yield Flag(reason, about=runs_alike)


def _steps_not_compared(run: MeasuredRun) -> Iterator[str]:
    """Yield in words which steps of a run are not compared with its replay, and why."""
    try:  # `reference_for` would hide the error
        reference = find_reference(run.folder, run.metrics.config, run.metrics.data["train_sha256"])
    except UserError as error:
        campaign_folder = run.folder.absolute().parent.parent.parent  # of CAMPAIGN/runs/CELL/rep1
        yield f"no step is compared with a replay: {without_place(str(error), campaign_folder)}"
        return
    if reference is None:
        return
    if reference.shortened:
        extent = f"{len(reference.losses)} of {reference.total_steps} steps"
        yield f"{extent} were replayed for comparison: {reference.shortened}"

    tolerances = loss_tolerances(run, reference)
    first_incomparable = comparable_steps(tolerances)
    if first_incomparable < len(tolerances):
        factor = rounding_amplification(reference).of(len(tolerances))[first_incomparable]
        yield (
            f"losses are compared with those of the replay before step {first_incomparable} alone: from there on "
            f"training itself amplifies rounding {integer(factor)} times, and sound runs come apart"
        )
