"""Did the timed steps do what their witness did?

After the first repeat of a cell each of its ranks makes the first steps once more, all of them under a probe: these are
the rank's witness, and are kept in its census, the record of what it did and was set to.
"""

from collections.abc import Iterator

import numpy as np

from scaleproof.conclude.checks import replayed
from scaleproof.conclude.checks.comparability import loss_tolerance, rounding_growth
from scaleproof.conclude.checks.updates import norm_of_ranks
from scaleproof.ground.findings.registry import Flag, of_run, of_runs
from scaleproof.ground.number_format import percent, scientific, significant
from scaleproof.ground.records.census import UpdatesInWindow, WitnessedSteps
from scaleproof.ground.records.grouping import group_by
from scaleproof.ground.records.run import MeasuredRun

OF_MEDIAN = 0.2  # of the median norm of a first moment: smaller ones are compared as if they were as large


@of_runs.finds("window-differs-from-witness", "invalid")
def windows_are_their_witness(runs: list[MeasuredRun]) -> Iterator[Flag]:
    """The timed steps did not do what the same steps did when every one of them was looked at: what is not exchanged,
    computed, clipped or updated in the window alone makes it fast.

    Detected: After the first repeat of a cell its ranks set it up anew and make the same steps from the same state,
    each under a probe (docs/audit.md). Compared, step by step: the loss, and the norm of a part of AdamW's first moment
    on each rank, another part in each step. Tolerances are those of the replay, and grow after 30 steps.
    Seen: Gradients that are exchanged while somebody looks, and not in the window.
    Repair: Do not quote this run. Look at what begins with the window, or stops for a probe.
    """
    for repeats in group_by(runs, lambda run: run.metrics.fingerprint).values():  # of a cell
        witnessed = next((run for run in repeats if witnesses_of(run)), None)
        if witnessed is None:
            continue
        for run in repeats:
            problem = _describe_other_moments(run, witnessed) or _describe_other_losses(run, witnessed)
            if problem:
                yield Flag(problem, about=[run])


def witnesses_of(run: MeasuredRun) -> list[WitnessedSteps]:
    """Return the witness of each rank of a run; empty unless every rank has one."""
    witnesses = [census.witness for census in run.metrics.census or []]
    known = [witness for witness in witnesses if witness]
    return known if len(known) == len(witnesses) else []


def _describe_other_moments(run: MeasuredRun, witnessed: MeasuredRun) -> str | None:
    """Return in words the first rank and step where AdamW's first moments differ from the witness; None if they agree.

    Compared is the norm of a part of the first moment after each update, in the steps of the window that the witness
    made too. None, too, where updates were skipped, and between machines or versions of the trainer, which may look at
    different parts.
    """
    if run.metrics.window.skipped_optimizer_steps or _code_and_devices(run) != _code_and_devices(witnessed):
        return None
    for rank, (census, witness) in enumerate(zip(run.metrics.census or [], witnesses_of(witnessed), strict=False)):
        updates = census.updates_in_window
        if updates and updates.conditions:  # else an older record
            problem = _moments_problem(run, rank, updates, witness)
            if problem:
                return problem
    return None


def _moments_problem(run: MeasuredRun, rank: int, updates: UpdatesInWindow, witness: WitnessedSteps) -> str | None:
    """Return in words the first step where a rank's first moments are not its witness's; None if none, or not known."""
    work, precision = run.metrics.config["work"], run.metrics.training_config.precision
    warmup, steps = work["warmup_steps"], len(witness.losses)
    calls = updates.calls // work["steps"]  # of the optimizer in a step
    if len(witness.moments) != calls * steps or steps <= warmup:  # it may end before the window begins
        return None
    expected = np.array(witness.moments[calls * warmup :])  # the witness begins at step 0, the window later
    moments = np.array(updates.moments[: len(expected)])
    if len(moments) < len(expected):
        return f"on rank {rank} only {len(moments)} of the {updates.calls} updates of the window kept a first moment"
    amplified = replayed.rounding_amplification(replayed.reference_for(run)).of(steps)
    tolerance = (replayed.NORM[precision] * rounding_growth(steps) * amplified)[warmup:].repeat(calls)  # of each call
    tolerance[tolerance > replayed.MEANINGLESS_NORM] = np.inf  # rounding is amplified too far to compare
    # Moments of gradients that are nothing but rounding, as of the biases of keys, are small and differ: they are
    # compared as if they were of OF_MEDIAN times the median size.
    scale = np.maximum(np.maximum(np.abs(moments), np.abs(expected)), OF_MEDIAN * np.median(np.abs(expected)))
    apart = np.abs(moments - expected) / np.maximum(scale, 1e-30)
    wrong = np.flatnonzero(~(apart <= tolerance))  # where one is NaN as well
    if not len(wrong):
        return None
    first = int(wrong[0])
    return (
        f"rank {rank}, from step {warmup + first // calls} on: the gradients that AdamW took are others than "
        f"those of the witness; its first moment has a norm of {significant(moments[first], 5)}, there "
        f"{significant(expected[first], 5)}; they are {percent(float(np.nanmax(apart)), 1)} apart at most"
    )


def _describe_other_losses(run: MeasuredRun, witnessed: MeasuredRun) -> str | None:
    """Return in words the first step whose loss differs from that of the witness; None if all agree."""
    expected = np.mean([witness.losses for witness in witnesses_of(witnessed)], axis=0)  # over ranks, by step
    steps = min(len(run.losses), len(expected))
    # As from the replay, and growing with the steps, but no looser than between two runs of a campaign.
    unamplified = np.minimum(replayed.tolerances_unamplified(run, steps) * rounding_growth(steps), loss_tolerance(run))
    tolerance = unamplified * replayed.rounding_amplification(replayed.reference_for(run)).of(steps)
    compared = replayed.comparable_steps(tolerance)
    expected = expected[:compared]
    apart = np.abs(run.losses[:compared] - expected) / np.maximum(np.abs(expected), replayed.SMALL_LOSS)
    wrong = np.flatnonzero(~(apart <= tolerance[:compared]))  # where a loss is NaN as well
    if not len(wrong):
        return None
    first = int(wrong[0])
    return (
        f"from step {first} on: the loss is {significant(run.losses[first], 8)}, that of the witness "
        f"{significant(expected[first], 8)}, {scientific(apart[first])} apart; {scientific(tolerance[first])} allowed"
    )


def _code_and_devices(run: MeasuredRun) -> tuple[str, ...]:
    """Return code, launcher's CPU and devices of a run: they decide how it rounds, and which moments it records."""
    devices = [rank["device_name"] for rank in run.metrics.ranks]
    return (run.metrics.code_sha256, run.metrics.hardware["cpu_model"], *devices)


@of_run.check(replayed.DIFFER, only_first=True)
def the_witness_is_the_references(run: MeasuredRun) -> Iterator[Flag]:
    """Flag a run whose witness has another norm of all gradients than the replay in some step that both made.

    Left out are fp16, which records no norms, and classifiers, whose few samples make norms too noisy for it.
    """
    reference, witnesses = replayed.reference_for(run), witnesses_of(run)
    precision = run.metrics.training_config.precision
    if reference is None or not witnesses or precision == "fp16" or run.is_classifier:
        return
    steps = min(len(reference.gradient_norms), len(witnesses[0].losses))  # all ranks made as many
    tolerances = replayed.NORM[precision] * replayed.rounding_amplification(reference).of(steps)  # by step
    for step in range(replayed.comparable_steps(tolerances)):
        norm = norm_of_ranks(run, 0, [witness.gradient_norms[step] for witness in witnesses])
        expected = reference.gradient_norms[step]
        if norm is not None and not abs(norm - expected) <= tolerances[step] * expected:
            yield Flag(
                f"the witness, step {step}: the gradients have a norm of {significant(norm, 5)}, in the replay "
                f"{significant(expected, 5)}; {scientific(tolerances[step], 0)} is allowed"
            )
