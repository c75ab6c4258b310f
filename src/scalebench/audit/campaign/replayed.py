"""Did the run make the steps that an independent replay of its workload made?"""

from collections.abc import Iterator

import numpy as np

from scalebench.audit.registry import Code, Flag, of_run
from scalebench.record.run import MeasuredRun
from scalebench.record.steps import loss_series
from scalebench.reference.schema import Reference, reference_of

# Relative difference from a replay in fp32. Sound fp32 runs of ddp, fsdp and zero1 to zero3, of every size and
# accumulation, were within 1.5e-7 over 30 steps; the smallest of 23 faults was 2.4e-5.
TOLERANCE = {"fp32": 1e-5, "tf32": 2e-3, "bf16": 1e-2, "fp16": 1e-2}
OF_CLASSES = {"fp32": 1e-5, "tf32": 5e-3, "bf16": 3e-2, "fp16": 3e-2}  # the mean of a few samples
OF_VALIDATION = {"fp32": 1e-5, "tf32": 5e-3, "bf16": 1e-2, "fp16": 1e-2}
SMALL_LOSS = 1.0  # nats; differences of smaller losses are relative to it
MODULUS = 2**64


def reference_for(run: MeasuredRun) -> Reference | None:
    """The reference of a run's workload, beside its campaign's runs; None where there is none."""
    return reference_of(run.folder, run.metrics.config, run.metrics.data["train_sha256"])


def _overflowed(run: MeasuredRun) -> bool:
    """Whether the loss scale of fp16 overflowed: every step after that is one update behind the replay."""
    metrics = run.metrics
    return metrics.training_config.precision == "fp16" and metrics.window.skipped_optimizer_steps > 0


@of_run.check(
    Code(
        "losses-differ-from-reference",
        "invalid",
        what="The run did not train as its configuration says: other samples, another model, optimizer or precision.",
        detected="The loss of the first steps against a replay in one plain fp32 process that shares no code with the "
        "trainer: 1e-5 in fp32, wider in lower precision.",
        seen="Ranks that all read the same samples; weight decay or clipping that an engine dropped; bf16 in "
        "an fp32 cell.",
        repair="Do not quote this run. The first step that differs says where to look: the first of all: "
        "model or samples; "
        "later ones: optimizer, learning rate, precision.",
    )
)
def losses_are_the_references(run: MeasuredRun) -> Iterator[Flag]:
    """Each step has the loss of the replay, warm-up included."""
    reference = reference_for(run)
    if reference is None or _overflowed(run):
        return
    precision = run.metrics.training_config.precision
    classes = run.metrics.config["workload"]["task"] == "classification"
    tolerance = (OF_CLASSES if classes else TOLERANCE)[precision]
    losses = loss_series(run.steps)
    n = min(len(losses), len(reference.losses))
    expected = np.array(reference.losses[:n])
    difference = np.abs(losses[:n] - expected) / np.maximum(np.abs(expected), SMALL_LOSS)
    wrong = np.flatnonzero(~(difference <= tolerance))
    if len(wrong):
        first = int(wrong[0])
        yield Flag(
            f"from step {first} of {n} on: the loss is {losses[first]:.8g}, that of the replay {expected[first]:.8g}, "
            f"{difference[first]:.1e} apart, {tolerance:.0e} is allowed; at most {np.nanmax(difference):.1e}"
        )


@of_run.check(
    Code(
        "tokens-differ-from-reference",
        "invalid",
        what="Other tokens entered the model than the configuration's samples have: text was cut, repeated or "
        "left out.",
        detected="A checksum of all tokens that entered the model on all ranks, in a probed step before the "
        "window, one "
        "after it, and in the validation, against the token file read by other code.",
        seen="Micro-batches that are read but not trained on; validation on the training text.",
        repair="Look at what is between the reader and the model; run the cell again.",
    )
)
def tokens_are_the_references(run: MeasuredRun) -> Iterator[Flag]:
    """What entered the model is what the token file has for these steps."""
    reference = reference_for(run)
    if reference is None:
        return
    for when in ("before", "after"):
        steps = [getattr(census, when) for census in run.metrics.census or []]
        if not steps or any(step is None or step.tokens_checksum is None for step in steps):
            continue
        total = sum(int(step.tokens_checksum, 16) for step in steps) % MODULUS
        expected = reference.step_checksums.get(steps[0].step)
        if expected is not None and f"{total:016x}" != expected:
            yield Flag(f"in step {steps[0].step}, {when} the window, the ranks trained on other tokens than planned")
    validation = run.metrics.validation
    scored = validation.tokens_checksum if validation else None
    if scored and reference.validation_checksum and scored != reference.validation_checksum:
        yield Flag("the validation scored other tokens than those of its samples")


@of_run.check(
    Code(
        "validation-differs-from-reference",
        "invalid",
        what="The validation loss is not that of this training on these samples.",
        detected="The validation loss after the last step against that of the replay, where it made all "
        "steps: 1e-5 in fp32.",
        seen="Validation on the training split.",
        repair="Do not quote the validation loss of this run.",
    )
)
def validation_is_the_references(run: MeasuredRun) -> Iterator[Flag]:
    """The validation loss is that of the replay."""
    reference, validation = reference_for(run), run.metrics.validation
    if reference is None or validation is None or reference.validation_loss is None:
        return
    if _overflowed(run):
        return
    expected = reference.validation_loss
    difference = abs(validation.loss - expected) / max(expected, SMALL_LOSS)
    tolerance = OF_VALIDATION[run.metrics.training_config.precision]
    if not difference <= tolerance:
        yield Flag(
            f"the validation loss is {validation.loss:.8g}, that of the replay {expected:.8g}, {difference:.1e} apart; "
            f"{tolerance:.0e} is allowed"
        )
