"""Work is counted, not assumed: what the ranks consumed, held against the plan."""

from collections import Counter

import numpy as np

from scaleproof.ground.records.run_sections import TokenLedger
from scaleproof.measure.corpus.plan import SamplePlan, digest
from scaleproof.measure.corpus.reader import TokenFile


def make_ledger(
    plan: SamplePlan, first: int, count: int, file: TokenFile, taken: list[dict], tokens: list[dict]
) -> TokenLedger:
    """The ledger of steps `first` to `first + count`.

    `taken` holds, for each rank, the sample ids of each step's micro-batches; `tokens`, for each rank, the counted
    tokens of each step. A sample that two micro-batches of one step consumed is `shared`.
    """
    steps = range(first, first + count)
    consumed = [np.concatenate([ids for rank in taken for ids in rank[step]]) for step in steps]
    planned = [plan.step(step) for step in steps]
    shared = sum(_excess(ids, plan_ids) for ids, plan_ids in zip(consumed, planned, strict=True))
    return TokenLedger(
        samples_consumed=sum(len(ids) for ids in consumed),
        samples_planned=sum(len(ids) for ids in planned),
        tokens_consumed=sum(rank[step] for rank in tokens for step in steps),
        tokens_planned=sum(file.count(ids) for ids in planned),
        consumed_sha256=digest(consumed),
        planned_sha256=digest(planned),
        samples_shared=shared,
        samples_by_rank=[sum(len(ids) for step in steps for ids in rank[step]) for rank in taken],
    )


def _excess(consumed: np.ndarray, planned: np.ndarray) -> int:
    """How many samples of a step were consumed beyond their times in its plan; both arrays are of sample ids.

    A tiny corpus repeats within a step. A sample that is not in the plan at all may be there once.
    """
    times_planned = Counter(planned.tolist())
    times_consumed = Counter(consumed.tolist())
    return sum(max(0, times - times_planned.get(sample, 1)) for sample, times in times_consumed.items())
