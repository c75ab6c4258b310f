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
from scaleproof.ground.records.grouping import all_known, group_by
from scaleproof.ground.records.run import MeasuredRun

OF_MEDIAN = 0.2  # norms of first moments below this share of their median are compared as if they were as large


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
    for repeats in group_by(runs, lambda run: run.metrics.fingerprint).values():
        witnessed = next((run for run in repeats if witnesses_of(run)), None)
        if witnessed is None:  # no repeat of this cell has a witness
            continue
        for run in repeats:
            problem = _describe_other_moments(run, witnessed) or _describe_other_losses(run, witnessed)
            if problem:
                yield Flag(problem, about=[run])


def witnesses_of(run: MeasuredRun) -> list[WitnessedSteps]:
    """Return the witness of each rank of a run; empty unless every rank has a witness."""
    return all_known(census.witness for census in run.metrics.census or [])


def _describe_other_moments(run: MeasuredRun, witnessed: MeasuredRun) -> str | None:
    """Return in words the first rank and step where AdamW's first moments differ from the witness; None if they agree.

    The norms of a part of the first moment after each update are compared, in the steps of the window that the witness
    made too. None, too, where updates were skipped, and between machines or versions of the trainer, which may look at
    different parts.
    """
    if run.metrics.window.skipped_optimizer_steps or _code_and_devices(run) != _code_and_devices(witnessed):
        return None
    for rank, (census, witness) in enumerate(zip(run.metrics.census or [], witnesses_of(witnessed), strict=False)):
        updates = census.updates_in_window
        # Older records have no conditions.
        if updates and updates.conditions and (problem := _moments_problem(run, rank, updates, witness)):
            return problem
    return None


def _moments_problem(run: MeasuredRun, rank: int, updates: UpdatesInWindow, witness: WitnessedSteps) -> str | None:
    """Return in words the first step where a rank's first moments are not its witness's; None if none, or not known."""
    work = run.metrics.config["work"]
    warmup_steps, witnessed_steps = work["warmup_steps"], len(witness.losses)
    calls_per_step = updates.calls // work["steps"]  # calls of the optimizer
    ends_before_window = witnessed_steps <= warmup_steps
    if len(witness.moments) != calls_per_step * witnessed_steps or ends_before_window:
        return None
    # A witness begins at step 0, the window after the warm-up; both have a moment for each call of the optimizer.
    expected = np.array(witness.moments[calls_per_step * warmup_steps :])
    moments = np.array(updates.moments[: len(expected)])
    if len(moments) < len(expected):
        return f"on rank {rank} only {len(moments)} of the {updates.calls} updates of the window kept a first moment"

    tolerance_of_rounding = replayed.NORM[run.metrics.training_config.precision]
    amplification = replayed.rounding_amplification(replayed.reference_for(run)).of(witnessed_steps)
    tolerances_of_steps = tolerance_of_rounding * rounding_growth(witnessed_steps) * amplification
    tolerances = tolerances_of_steps[warmup_steps:].repeat(calls_per_step)
    tolerances[tolerances > replayed.MEANINGLESS_NORM] = np.inf  # rounding is amplified too far to compare

    # Moments of gradients that are nothing but rounding, as of the biases of keys, are small and differ: they are
    # compared as if they were of OF_MEDIAN times the median size.
    scale = np.maximum(np.maximum(np.abs(moments), np.abs(expected)), OF_MEDIAN * np.median(np.abs(expected)))
    differences = np.abs(moments - expected) / np.maximum(scale, 1e-30)
    wrong_calls = np.flatnonzero(~(differences <= tolerances))  # also where a moment is NaN
    if not len(wrong_calls):
        return None
    first = int(wrong_calls[0])
    return (
        f"rank {rank}, from step {warmup_steps + first // calls_per_step} on: the gradients that AdamW took are "
        f"others than those of the witness; its first moment has a norm of {significant(moments[first], 5)}, there "
        f"{significant(expected[first], 5)}; they are {percent(float(np.nanmax(differences)), 1)} apart at most"
    )


def _describe_other_losses(run: MeasuredRun, witnessed: MeasuredRun) -> str | None:
    """Return in words the first step whose loss differs from that of the witness; None if all agree."""
    expected_losses = np.mean([witness.losses for witness in witnesses_of(witnessed)], axis=0)  # means over ranks
    steps = min(len(run.losses), len(expected_losses))
    # The replay's tolerances, growing with the steps, up to the tolerance between two runs of a campaign.
    unamplified = np.minimum(replayed.tolerances_unamplified(run, steps) * rounding_growth(steps), loss_tolerance(run))
    tolerances = unamplified * replayed.rounding_amplification(replayed.reference_for(run)).of(steps)

    compared_steps = replayed.comparable_steps(tolerances)
    losses, expected_losses = run.losses[:compared_steps], expected_losses[:compared_steps]
    differences = np.abs(losses - expected_losses) / np.maximum(np.abs(expected_losses), replayed.SMALL_LOSS)
    wrong_steps = np.flatnonzero(~(differences <= tolerances[:compared_steps]))  # also where a loss is NaN
    if not len(wrong_steps):
        return None
    first = int(wrong_steps[0])
    return (
        f"from step {first} on: the loss is {significant(losses[first], 8)}, that of the witness "
        f"{significant(expected_losses[first], 8)}, {scientific(differences[first])} apart; "
        f"{scientific(tolerances[first])} allowed"
    )


def _code_and_devices(run: MeasuredRun) -> tuple[str, ...]:
    """Return code, launcher's CPU and devices of a run: they decide how it rounds, and which moments it records."""
    devices = [rank["device_name"] for rank in run.metrics.ranks]
    return (run.metrics.code_sha256, run.metrics.hardware["cpu_model"], *devices)


@of_run.check(*replayed.losses_are_the_references.codes, only_first=True)
def the_witness_is_the_references(run: MeasuredRun) -> Iterator[Flag]:
    """Flag a run whose witness has another norm of all gradients than the replay in some step that both made.

    Left out are fp16, which records no norms, and classifiers, whose few samples make norms too noisy for it.
    """
    reference, witnesses = replayed.reference_for(run), witnesses_of(run)
    precision = run.metrics.training_config.precision
    if reference is None or not witnesses or precision == "fp16" or run.is_classifier:
        return
    steps = min(len(reference.gradient_norms), len(witnesses[0].losses))  # all ranks witnessed as many steps
    tolerances = replayed.NORM[precision] * replayed.rounding_amplification(reference).of(steps)
    for step in range(replayed.comparable_steps(tolerances)):
        norm = norm_of_ranks(run, 0, [witness.gradient_norms[step] for witness in witnesses])
        expected_norm = reference.gradient_norms[step]
        if norm is not None and not abs(norm - expected_norm) <= tolerances[step] * expected_norm:
            yield Flag(
                f"the witness, step {step}: the gradients have a norm of {significant(norm, 5)}, in the replay "
                f"{significant(expected_norm, 5)}; {scientific(tolerances[step], 0)} is allowed"
            )
