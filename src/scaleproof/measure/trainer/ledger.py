"""Work is counted, not assumed: what the ranks consumed, held against the plan."""

from collections import Counter

import numpy as np

from scaleproof.ground.records.run_sections import Ledger
from scaleproof.measure.corpus.plan import SamplePlan, digest
from scaleproof.measure.corpus.reader import TokenFile


def make_ledger(
    plan: SamplePlan, first: int, count: int, file: TokenFile, taken: list[dict], tokens: list[dict]
) -> Ledger:
    """The ledger of steps `first` to `first + count`.

    `taken` holds, for each rank, the sample ids of each step's micro-batches; `tokens`, for each rank, the counted
    tokens of each step. A sample that two micro-batches of one step consumed is `shared`.
    """
    steps = range(first, first + count)
    consumed = [np.concatenate([ids for rank in taken for ids in rank[step]]) for step in steps]
    planned = [plan.step(step) for step in steps]
    shared = sum(n - 1 for ids, plan_ids in zip(consumed, planned, strict=True) for n in _excess(ids, plan_ids))
    return Ledger(
        samples_consumed=sum(len(ids) for ids in consumed),
        samples_planned=sum(len(ids) for ids in planned),
        tokens_consumed=sum(rank[step] for rank in tokens for step in steps),
        tokens_planned=sum(file.count(ids) for ids in planned),
        consumed_sha256=digest(consumed),
        planned_sha256=digest(planned),
        samples_shared=shared,
        samples_by_rank=[sum(len(ids) for step in steps for ids in rank[step]) for rank in taken],
    )


def _excess(consumed: np.ndarray, planned: np.ndarray) -> list[int]:
    """How often each sample was consumed beyond its times in the plan (a tiny corpus repeats within a step), plus 1."""
    plan = Counter(planned.tolist())
    return [n - plan.get(i, 1) + 1 for i, n in Counter(consumed.tolist()).items() if n > plan.get(i, 1)]
