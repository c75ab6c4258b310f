"""May these runs be compared: did they train and learn alike, with one code, versions and hardware, often enough?"""

from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from statistics import median
from typing import Any

import numpy as np

from scaleproof.conclude.checks.replayed import (
    MEANINGLESS,
    SMALL_LOSS,
    comparable_steps,
    reference_for,
    rounding_amplification,
)
from scaleproof.ground.findings.registry import Flag, of_run, of_runs, of_timed
from scaleproof.ground.findings.shared_codes import SINGLE_RUN
from scaleproof.ground.number_format import fixed, integer, number, scientific, significant
from scaleproof.ground.records.grouping import group_by, runs_by_cell
from scaleproof.ground.records.metrics import Measured, Printed
from scaleproof.ground.records.run import MeasuredRun, TimedRun
from scaleproof.measure.corpus.reader import digest_of_ids, held_out_ids

# Relative difference of losses, step by step, that order of summation alone can explain; seen values are far below.
TOLERANCE = {"fp32": 2e-4, "tf32": 2e-3, "bf16": 1e-2, "fp16": 1e-2}
# A classifier's loss is the mean of a few samples, not of thousands of tokens: the rounding of low precision is not
# averaged away.
CLASSIFIER_TOLERANCE = {"fp32": 2e-4, "tf32": 5e-3, "bf16": 4e-2, "fp16": 4e-2}
# What the launcher, Snakemake or a scheduler sets for itself; the census has what the ranks saw.
OF_THE_LAUNCHER = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES")
APART = 1.25  # a run is apart where its rate and the median of its cell have a larger ratio
EXACT, EXACT_STEPS = 1e-5, 30  # in fp32; sound runs of every strategy were within 1.5e-7 over 29 steps
COMPARED_STEPS = 100  # in later steps training itself has amplified rounding
GPU_SETTINGS = ("driver", "power_cap", "clock_sm_application", "ecc", "mig")  # as nvidia-smi prints them
# Keys of `work` that leave samples and updates as they are.
CHANGES_NO_SAMPLE = {"micro_batch", "accumulation", "validation_samples"}


@of_runs.finds("losses-differ", "invalid")
def losses_agree(runs: list[MeasuredRun]) -> Iterator[Flag]:
    """Runs that must do the same work have different losses, so they did not do it.

    Detected: The loss of every step of runs with one workload, global batch and seed, within the tolerance of their
    precision; more where replays show that training amplifies rounding.
    Seen: Ranks that do not exchange gradients; a sampler that differs.
    Repair: The same samples must make the same step. Do not compare the times of these runs.
    """
    for reference, *others in groups_of_same_training(runs):
        for run in others:
            yield from _flag_other_losses(run, reference)


def _flag_other_losses(run: MeasuredRun, reference: MeasuredRun) -> Iterator[Flag]:
    """Flag `run` where losses differ from those of `reference` (the worst step is named), or else their number does."""
    losses, expected_losses = run.losses[:COMPARED_STEPS], reference.losses[:COMPARED_STEPS]
    step_count = min(len(losses), len(expected_losses))
    has_other_length = len(losses) != len(expected_losses)
    losses, expected_losses = losses[:step_count], expected_losses[:step_count]

    loosest = max(loss_tolerance(reference), loss_tolerance(run))
    amplification = rounding_amplification(reference_for(reference))
    tolerances = loss_tolerances(loosest, step_count) * amplification.of(step_count)
    tolerances[comparable_steps(tolerances) :] = np.inf  # there, training amplifies rounding too far to compare
    # A loss that is not a number makes a difference of NaN, which is above no tolerance.
    differences = np.abs(losses - expected_losses) / np.maximum(np.abs(expected_losses), SMALL_LOSS)

    if not (differences > tolerances).any():
        if has_other_length:
            counts = (
                f"{integer(len(run.losses))} in {run.name} and {integer(len(reference.losses))} in {reference.name}"
            )
            yield Flag(f"the steps with a loss are {counts}", about=[reference, run])
        return
    step = int(np.nan_to_num(differences / tolerances).argmax())  # furthest beyond its tolerance; NaN counts as 0
    yield Flag(
        f"at step {step} the loss is {significant(losses[step], 6)} in {run.name} and "
        f"{significant(expected_losses[step], 6)} in {reference.name}, {scientific(differences[step])} apart; "
        f"{scientific(tolerances[step], 0)} is allowed",
        about=[reference, run],
    )


@of_timed.finds("provenance-differs", "suspect")
def provenance_agrees(runs: list[TimedRun]) -> Iterator[Flag]:
    """Code, versions, environment or hardware changed between runs that are compared.

    Detected: Fields of provenance that are not equal in all runs.
    Seen: One commit for one GPU, another for four.
    Repair: Something other than the compared keys changed; run all cells again in one environment.
    """
    fields_of_runs = [dict(equal_in_campaign(run)) for run in runs]
    values_of_fields: dict[str, set[str]] = defaultdict(set)
    for fields in fields_of_runs:
        for field, value in fields.items():
            values_of_fields[field].add(str(value))

    differences = []
    for field, values in values_of_fields.items():
        is_variable = field.split()[0].isupper()  # as NCCL_DEBUG, or "NCCL_DEBUG of rank 0": recorded only if it is set
        if is_variable and any(field not in fields for fields in fields_of_runs):
            values.add("not set")
        if len(values) > 1:
            differences.append(f"{field}: {' | '.join(sorted(values))}")
    if differences:
        yield Flag("; ".join(differences))


@of_timed.finds("run-stands-out", "suspect", apart=APART)
def runs_stay_together(runs: list[TimedRun]) -> Iterator[Flag]:
    """One run of a cell is much faster or slower than its repeats: something disturbed it, or them.

    Detected: Its rate is more than {apart} times from the median, as that of less than half of the runs.
    Seen: Shared machines.
    Repair: Run the cell again on a quiet machine (scaleproof retry FILE --cell CELL); nothing is dropped silently.
    """
    for repeats in runs_by_cell(runs).values():
        median_rate, apart = _runs_apart(repeats)
        for run in apart if 2 * len(apart) < len(repeats) else ():
            loads = [fixed(rank["cpu_load"], 2) for rank in run.metrics.ranks if "cpu_load" in rank]
            loads_text = f"; its processes used {', '.join(loads)} cores" if loads else ""
            yield Flag(
                f"{number(run.metrics.window.tokens_per_s, 4)} {run.metrics.unit}/s, where the median of "
                f"{len(repeats)} runs of this cell is {number(median_rate, 4)}{loads_text}",
                about=[run],
            )


@of_timed.finds("runs-far-apart", "suspect", apart=APART)
def runs_have_a_usual_rate(runs: list[TimedRun]) -> Iterator[Flag]:
    """Half of the runs of a cell or more are far from their median: the cell has no usual rate, and its mean is none.

    Detected: Their rates are more than {apart} times from the median.
    Seen: Shared machines, where runs fall into two groups.
    Repair: Run the cell again on a quiet machine (scaleproof retry FILE --cell CELL); nothing is dropped silently.
    """
    for repeats in runs_by_cell(runs).values():
        _, apart = _runs_apart(repeats)
        if 2 * len(apart) >= len(repeats):
            rates = [number(rate, 4) for rate in sorted(run.metrics.window.tokens_per_s for run in repeats)]
            yield Flag(f"rates of {', '.join(rates)} {repeats[0].metrics.unit}/s", about=repeats)


def _runs_apart(repeats: list[TimedRun]) -> tuple[float, list[TimedRun]]:
    """Return the median rate of a cell, and the runs that are more than APART times from it."""
    rates = [run.metrics.window.tokens_per_s for run in repeats]
    middle = median(rates)
    return middle, [run for run, rate in zip(repeats, rates, strict=True) if max(rate / middle, middle / rate) > APART]


@of_timed.check(SINGLE_RUN)
def repeated_enough(runs: list[TimedRun]) -> Iterator[Flag]:
    """Flag all cells that were run once: an interval needs two runs."""
    if single_runs := [repeats[0] for repeats in runs_by_cell(runs).values() if len(repeats) == 1]:
        advice = "Raise `repeats`; 5 or more make intervals useful."
        yield Flag("n=1: there is no interval", about=single_runs, advice=advice)


@lru_cache(maxsize=64)  # the runs of a campaign have few different arguments
def loss_tolerances(loosest: float, steps: int) -> np.ndarray:
    """Return the allowed relative difference of two losses at each of `steps` steps.

    `loosest`: the tolerance of the precision (`loss_tolerance`). In fp32 the result begins at EXACT and grows with the
    steps (`rounding_growth`) up to `loosest`; in lower precisions it is `loosest` at every step.
    """
    if loosest > TOLERANCE["fp32"]:
        return np.full(steps, loosest)
    return np.minimum(loosest, EXACT * rounding_growth(steps))


def rounding_growth(steps: int) -> np.ndarray:
    """Return how much larger a tolerance is at each of `steps` steps: 1 up to EXACT_STEPS, then as the step squared."""
    return np.maximum(1.0, np.arange(steps) / EXACT_STEPS) ** 2


def loss_tolerance(run: MeasuredRun) -> float:
    """Return the relative difference of losses that the order of summation alone explains in a run's precision."""
    return (CLASSIFIER_TOLERANCE if run.is_classifier else TOLERANCE)[run.metrics.training_config.precision]


def groups_of_same_training(runs: list[MeasuredRun]) -> Iterator[list[MeasuredRun]]:
    """Yield groups of runs that should make the same steps, whatever their world size. The smallest world comes first.

    They have the same workload, training data and `work` (global batch, seed, optimizer, ...) without the keys in
    CHANGES_NO_SAMPLE. The first run of a group is the reference of the others.
    """

    def identity(run: MeasuredRun) -> str:
        config = run.metrics.config
        work = {name: value for name, value in config["work"].items() if name not in CHANGES_NO_SAMPLE}
        return repr((config["workload"], work, run.metrics.data["train_sha256"]))

    for group in group_by(runs, identity).values():
        yield sorted(group, key=lambda run: (len(run.metrics.ranks), run.metrics.cell, run.metrics.repeat))


def equal_in_campaign(run: TimedRun) -> Iterator[tuple[str, Any]]:
    """Yield (name, value) of what must be equal in all runs of a campaign: code, versions, environment, hardware.

    Versions and variables come twice: those of the launcher's process, and those of rank 0.
    """
    metrics = run.metrics
    yield "code", metrics.code_sha256
    for name, value in metrics.env.items():  # the environment of the launcher's process
        if name not in OF_THE_LAUNCHER:
            yield name, value

    hardware = metrics.hardware
    yield "cpu_model", hardware["cpu_model"]
    yield "cpu_count", hardware["cpu_count"]
    yield "memory_gib", round(hardware["memory_bytes"] / 2**30)  # nodes of one kind differ by some pages
    yield from ((name, hardware[name]) for name in ("cuda_driver", "container", "modules") if name in hardware)
    if gpus := hardware.get("gpus", []):
        yield from ((f"gpu {name}", sorted({gpu[name] for gpu in gpus})) for name in GPU_SETTINGS)
    yield "device", sorted({rank["device_name"] for rank in metrics.ranks})
    yield "os", metrics.host["os"]
    yield "launcher", (metrics.scheduler or {}).get("type", "local")

    if isinstance(metrics, Measured) and metrics.census:  # a run of the trainer
        for name, value in metrics.census[0].env.items():
            if name not in OF_THE_LAUNCHER:
                yield f"{name} of rank 0", value
    if isinstance(metrics, Printed):  # a run of somebody else's program
        yield "commit of the program", metrics.program.git_commit
        yield from ((f"{package} of the program", version) for package, version in metrics.program.versions.items())
        yield from ((f"file {name}", sha256) for name, sha256 in metrics.program.files.items())


# The relative difference of validation losses that rounding explains, though every training step has amplified it. It
# was 2e-8 in fp32, 1e-4 in bf16 and 2e-4 between the two, after 600 steps of a small GPT-2 on one and two CPU ranks.
OF_VALIDATION = {"fp32": 2e-3, "tf32": 5e-3, "bf16": 1e-2, "fp16": 1e-2}


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
    available_samples = run.metrics.training_config.dataset_subset_sizes["val"]
    planned_ids = held_out_ids(available_samples, run.metrics.config["work"]["validation_samples"])
    if validation.samples_sha256 != digest_of_ids([planned_ids]):
        yield Flag(
            f"{integer(validation.samples)} held-out samples were scored and {integer(len(planned_ids))} "
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
    losses = {run: run.metrics.validation.loss for run in runs if run.metrics.validation}  # nats, after the last step
    for reference, *others in groups_of_same_training(list(losses)):
        expected_loss = losses[reference]
        amplification = rounding_amplification(reference_for(reference)).validation
        for run in others:
            loss = losses[run]
            precisions = {run.metrics.training_config.precision, reference.metrics.training_config.precision}
            tolerance = max(OF_VALIDATION[precision] for precision in precisions) * amplification
            difference = abs(loss - expected_loss) / max(expected_loss, SMALL_LOSS)

            is_comparable = tolerance <= MEANINGLESS  # else training amplifies rounding too far
            if is_comparable and difference > tolerance:
                yield Flag(
                    f"after the last step the validation loss is {significant(loss, 6)} in {run.name} and "
                    f"{significant(expected_loss, 6)} in {reference.name}, {scientific(difference)} apart; "
                    f"{scientific(tolerance, 0)} is allowed",
                    about=[reference, run],
                )
