"""Did the runs learn the same, and was it looked at on the same samples?"""

from scalebench.audit.campaign.comparability import SMALL, train_alike
from scalebench.audit.finding import Finding, about
from scalebench.corpus.plan import digest, held_out
from scalebench.record.run import MeasuredRun

# Relative difference of validation losses that rounding can explain, though every step of the training has amplified it.
# Seen after 600 steps of a small GPT-2 between one and two CPU ranks: 2e-8 in fp32, 1e-4 in bf16, 2e-4 from one to the other.
TOLERANCE = {"fp32": 2e-3, "tf32": 5e-3, "bf16": 1e-2, "fp16": 1e-2}


def validation_is_the_plans(runs: list[MeasuredRun]) -> list[Finding]:
    """The held-out samples that the ranks scored are those of the configuration, each of them once."""
    found = []
    for run in runs:
        validation = run.metrics.validation
        if validation is None:
            continue
        there = run.metrics.training_config.dataset_subset_sizes["val"]
        planned = held_out(there, run.metrics.config["work"]["validation_samples"])
        if validation.samples_sha256 != digest([planned]):
            found.append(
                about(
                    run,
                    "validation-differs-from-plan",
                    "invalid",
                    f"{validation.samples:,} held-out samples were scored and {len(planned):,} planned, but not the same ones",
                    "Validation losses of different samples cannot be compared; run the cell again.",
                )
            )
    return found


def runs_learn_alike(runs: list[MeasuredRun]) -> list[Finding]:
    """Runs of the same training end with the same validation loss, whatever their strategy, precision and world size."""
    found = []
    for alike in train_alike([run for run in runs if run.metrics.validation]):
        first = alike[0]
        for run in alike[1:]:
            losses = [r.metrics.validation.loss for r in (run, first)]
            tolerance = max(TOLERANCE[r.metrics.training_config.precision] for r in (run, first))
            difference = abs(losses[0] - losses[1]) / max(losses[1], SMALL)
            if difference > tolerance:
                found.append(
                    Finding(
                        code="learns-differently",
                        severity="suspect",
                        cells=sorted({first.metrics.cell, run.metrics.cell}),
                        runs=[first.name, run.name],
                        evidence=f"after the last step the validation loss is {losses[0]:.6g} in {run.name} and {losses[1]:.6g} in "
                        f"{first.name}, {difference:.1e} apart; {tolerance:.0e} is allowed",
                        advice="A token is not worth the same in these runs: compare their time to loss, not their tokens/s.",
                    )
                )
    return found
