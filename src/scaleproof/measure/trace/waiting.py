"""Collectives matched over ranks: who came last, how long the others waited, how long the transfer took.

A collective ends on all ranks at about the same time and begins when each arrives. Its shortest participant came last
and waited for nobody, so its duration is the transfer; what another rank took longer is waiting. Only durations are
compared, so the clocks of nodes need not agree.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from scaleproof.ground.records.profile_schema import Slowest
from scaleproof.measure.trace.time_spans import Spans, merge_spans, ns_in_windows

Steps = tuple[np.ndarray, np.ndarray]  # when a rank's steps began and ended


@dataclass(frozen=True)
class Waiting:
    """When ranks waited for others in their collectives, and for which rank they waited most often."""

    by_rank: dict[int, Spans]
    by_collective: dict[str, dict[int, Spans]]  # collective -> rank -> when it waited
    slowest: Slowest | None  # None where nobody waits


def find_waiting(calls: pd.DataFrame, windows: dict[int, Steps], steps: int) -> Waiting | str:
    """Return when ranks waited for others in collectives, before the transfer, or a text why that is unknown.

    `calls`: one row a call, columns rank, collective, start and end (ns). `windows`: rank -> when its steps began and
    ended; all ranks have the first `steps` steps. All ranks must make the same calls in each step.
    """
    if not steps:
        return "the trace has no `step` ranges to match collectives in"
    ranks = sorted(windows)
    numbered = _number_calls(calls, windows)
    if difference := _difference_of_calls(numbered, ranks):
        return difference

    numbered["ns"] = numbered["end"] - numbered["start"]
    transfer = numbered.groupby(["step", "collective", "call"])["ns"].transform("min")
    numbered["last_arrival"] = numbered["end"] - transfer  # until then a rank waited for the last rank
    by_rank = _waiting_spans(numbered, ranks)
    waits_ms = np.stack([ns_in_windows(by_rank[rank], *windows[rank])[:steps] / 1e6 for rank in ranks], axis=1)
    return Waiting(
        by_rank=by_rank,
        by_collective={name: _waiting_spans(own_calls, ranks) for name, own_calls in numbered.groupby("collective")},
        slowest=_slowest_rank(waits_ms, ranks),
    )


def _difference_of_calls(numbered: pd.DataFrame, ranks: list[int]) -> str | None:
    """Return how the ranks' numbered calls differ, or that there are none, None where all made the same calls."""
    counts = numbered.groupby(["step", "collective", "rank"]).size().unstack("rank", fill_value=0)
    if counts.empty:
        return "no collective begins inside of a traced step"
    counts = counts.reindex(columns=ranks, fill_value=0)
    differing = counts[counts.nunique(axis=1) > 1]
    if not len(differing):
        return None
    step, name = differing.index[0]
    count_of_rank = differing.iloc[0]
    calls_by_rank = ", ".join(f"rank {rank}: {count_of_rank[rank]}" for rank in ranks)
    return f"the ranks differ in their calls of {name} in step {step} ({calls_by_rank})"


def _waiting_spans(numbered: pd.DataFrame, ranks: list[int]) -> dict[int, Spans]:
    """Return when each rank waited in its numbered calls: from its own arrival until the last rank arrived."""
    spans = {}
    for rank in ranks:
        own = numbered[numbered["rank"] == rank]
        spans[rank] = merge_spans(own["start"].to_numpy(), own["last_arrival"].to_numpy())
    return spans


def _number_calls(calls: pd.DataFrame, windows: dict[int, Steps]) -> pd.DataFrame:
    """Return the calls that begin within a step of their rank, with two more columns, both counted from 0.

    `step`: the step's place in the rank's `windows`. `call`: place among the rank's calls of that collective in the
    step. Calls of several ranks with equal numbers are one collective. Times are in ns.
    """
    tables = []
    for rank, (step_starts, step_ends) in windows.items():
        own = calls[calls["rank"] == rank].sort_values("start")
        call_starts = own["start"].to_numpy()
        step = np.searchsorted(step_starts, call_starts, side="right") - 1  # -1: before the first step
        is_inside = np.zeros(len(call_starts), bool)
        if len(step_starts):
            is_inside = (step >= 0) & (call_starts < step_ends[np.maximum(step, 0)])
        tables.append(own.assign(step=step, collective=own["collective"].astype(str))[is_inside])
    numbered = pd.concat(tables, ignore_index=True)
    numbered["call"] = numbered.groupby(["rank", "step", "collective"]).cumcount()
    return numbered


def _slowest_rank(waits_ms: np.ndarray, ranks: list[int]) -> Slowest | None:
    """Return the rank that waits least in most steps, None where nobody waits. `waits_ms`: (steps, ranks)."""
    if not waits_ms.max() > 0:
        return None
    last_of_step = waits_ms.argmin(axis=1)
    slowest = int(np.bincount(last_of_step, minlength=len(ranks)).argmax())  # its place in `ranks`
    waits_for_it = waits_ms[last_of_step == slowest]  # in the steps in which it was the last
    # By how much the other ranks wait longer than the slowest one.
    caused_ms = np.delete(waits_for_it, slowest, axis=1) - waits_for_it[:, [slowest]]
    return Slowest(
        rank=ranks[slowest],
        steps_last=len(waits_for_it),
        of_steps=len(waits_ms),
        caused_ms=float(caused_ms.mean()),
    )
