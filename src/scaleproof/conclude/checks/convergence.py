"""Did the runs learn the same, and was it looked at on the same samples?"""

from collections.abc import Iterator

from scaleproof.conclude.checks.comparability import same_training
from scaleproof.conclude.checks.replayed import reference_for
from scaleproof.conclude.checks.rounding import MEANINGLESS, SMALL_LOSS, amplification
from scaleproof.ground.findings.registry import Flag, of_run, of_runs
from scaleproof.ground.number_format import integer, scientific, significant
from scaleproof.ground.records.run import MeasuredRun
from scaleproof.measure.corpus.plan import digest, held_out

# Relative difference of validation losses that rounding explains, though every training step has amplified it. Seen
# after 600 steps of a small GPT-2 between one and two CPU ranks: 2e-8 in fp32, 1e-4 in bf16, 2e-4 between the two.
TOLERANCE = {"fp32": 2e-3, "tf32": 5e-3, "bf16": 1e-2, "fp16": 1e-2}


@of_run.finds("validation-differs-from-plan", "invalid")
def validation_is_the_plans(run: MeasuredRun) -> Iterator[Flag]:
    """The validation loss is that of other samples than planned, so that it cannot be compared with others.

    Detected: Ids of the held-out samples that the ranks scored, against those of the configuration.
    Seen: Evaluation on a shard of the data by each rank, averaged as if it were all.
    Repair: Give every rank its share of the same held-out samples, and run the cell again.
    """
    validation = run.metrics.validation
    if validation is None:
        return
    available = run.metrics.training_config.dataset_subset_sizes["val"]
    planned = held_out(available, run.metrics.config["work"]["validation_samples"])
    if validation.samples_sha256 != digest([planned]):
        yield Flag(
            f"{integer(validation.samples)} held-out samples were scored and {integer(len(planned))} "
            "planned, but not the same ones"
        )


@of_runs.finds("learns-differently", "suspect")
def runs_learn_alike(runs: list[MeasuredRun]) -> Iterator[Flag]:
    """A cell ends with a different validation loss from others that did the same work: it may be fast because it learns
    less.

    Detected: Validation losses after the last step, within the tolerance of the precision; more where replays show that
    training amplifies rounding.
    Seen: Reduced precision without master weights; gradients that are summed where they should be averaged.
    Repair: Find the difference before quoting its speed; until then compare time to loss, not tokens/s.
    """
    for group in same_training([run for run in runs if run.metrics.validation]):
        reference = group[0]
        expected, amplified = _validation_loss(reference), amplification(reference_for(reference)).later
        for run in group[1:]:
            loss = _validation_loss(run)
            precisions = {run.metrics.training_config.precision, reference.metrics.training_config.precision}
            tolerance = max(TOLERANCE[precision] for precision in precisions) * amplified
            difference = abs(loss - expected) / max(expected, SMALL_LOSS)
            if tolerance <= MEANINGLESS and difference > tolerance:
                yield Flag(
                    f"after the last step the validation loss is {significant(loss, 6)} in {run.name} and "
                    f"{significant(expected, 6)} in {reference.name}, {scientific(difference)} apart; "
                    f"{scientific(tolerance, 0)} is allowed",
                    about=[reference, run],
                )


def _validation_loss(run: MeasuredRun) -> float:
    """Return the validation loss in nats of a run that was validated."""
    assert run.metrics.validation is not None
    return run.metrics.validation.loss
