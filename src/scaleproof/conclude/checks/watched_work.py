"""Whether the runs of two watched cells do the same work: else what is faster need not train faster."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from scaleproof.conclude.checks.watched import FEW_BATCHES, WatchedRun, dtypes_of_products
from scaleproof.ground.findings.registry import Flag, of_timed
from scaleproof.ground.records.metrics import Printed
from scaleproof.ground.records.run import TimedRun

AGAIN = 0.4  # the share of the steps that is "many"


@of_timed.finds("watched-work-differs", "suspect")
def cells_do_the_same_work(runs: list[TimedRun]) -> Iterator[Flag]:
    """Two cells whose rates are compared do different work: another model, fewer steps, another precision.

    What is faster need not train faster.

    Detected: Parameters, optimizer steps and dtypes, as `scaleproof.watch` counted them in the first run of each cell.
    Seen: A faster variant that ran its products in bfloat16.
    Repair: Make the work equal, or say beside the figure what differs (of ab: --accept-differences).
    """
    first_runs: dict[str, WatchedRun] = {}  # cell -> its first run
    ignored_names = ["samples in a step", "tokens in a step"]  # they grow with the devices, and are in the rates
    for run in runs:
        if isinstance(run.metrics, Printed) and run.metrics.watched:
            first_runs.setdefault(run.metrics.cell, WatchedRun(run.metrics.cell, run.metrics.watched))
            if run.metrics.reading.ended_after_s:  # the launcher ended it after whatever step it was
                ignored_names.append("optimizer steps")
    if not first_runs:
        return
    base, *others = first_runs.values()
    for other in others:
        reasons = [text for text in reasons_not_comparable(base, other) if not text.startswith(tuple(ignored_names))]
        if reasons:
            about = [run for run in runs if run.metrics.cell in (base.name, other.name)]
            yield Flag("; ".join(reasons), cells=[base.name, other.name], about=about)


def reasons_not_comparable(a: WatchedRun, b: WatchedRun) -> list[str]:
    """Return reasons why the rates of two watched runs do not compare: "samples: 512 in a, 256 in b"; [] if they do."""
    work_a, work_b = _work_of_run(a), _work_of_run(b)
    differing = [name for name in work_a if work_a[name] != work_b[name]]
    known = [name for name in differing if None not in (work_a[name], work_b[name])]  # None: nobody could look
    return [f"{name}: {work_a[name]} in {a.name}, {work_b[name]} in {b.name}" for name in known]


def _work_of_run(run: WatchedRun) -> dict[str, Any]:
    """Return name -> value (None: unknown) that two runs must share: rank 0's model and steps, all ranks' work."""
    rank_0 = run.ranks[0]
    return {
        "parameters": rank_0.parameters,
        "trained parameters": rank_0.trainable,
        "samples in a step": _amount_of_most_steps([rank.samples for rank in run.ranks]),
        "tokens in a step": _amount_of_most_steps([rank.tokens for rank in run.ranks]),
        "optimizer steps": len(rank_0.step_s),
        "dtypes of weights": rank_0.parameter_dtypes,
        "dtypes of matrix products": dtypes_of_products(rank_0),
        "precision of fp32 products": rank_0.float32_products,
        "steps that have a batch in common": _how_many_repeat_a_batch(rank_0.batches),
    }


def _how_many_repeat_a_batch(batches: Sequence[list[int]]) -> str:
    """Return "many" where 40 % of the steps (AGAIN) take the batch of the step before, or one and the same batch.

    Else "few"; also where no more than FEW_BATCHES differ, which `few-batches` reports. `batches`: checksums of steps.
    """
    steps_with_batch = Counter(tuple(checksums) for checksums in batches if checksums)
    steps_as_before = sum(bool(after) and after == before for before, after in pairwise(batches))
    most_steps = max([steps_as_before, *steps_with_batch.values()])
    return "many" if len(steps_with_batch) > FEW_BATCHES and most_steps >= AGAIN * len(batches) else "few"


def _amount_of_most_steps(counts: Sequence[Sequence[int]]) -> int | None:
    """Return the amount of work that more than half of the steps have, summed over ranks; None without such an amount.

    `counts`: for each rank, the samples or tokens of each step. Where texts differ in length, nearly all steps differ.
    """
    amounts = Counter(map(sum, zip(*counts, strict=False)))  # ranks that were ended need not end at the same step
    return next((amount for amount, steps in amounts.items() if 2 * steps > amounts.total()), None)
