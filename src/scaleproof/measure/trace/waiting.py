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
    """When ranks waited for others in their collectives, and for which rank."""

    by_rank: dict[int, Spans]
    by_collective: dict[str, dict[int, Spans]]  # collective -> rank -> when it waited
    slowest: Slowest | None  # None where nobody waits


def find_waiting(calls: pd.DataFrame, windows: dict[int, Steps], steps: int) -> Waiting | str:
    """Return when ranks waited for others in collectives, which is before the transfer; a text: why it is unknown.

    `calls`: one row a call, columns rank, collective, start and end (ns). `windows`: rank -> when its steps began and
    ended, of which all ranks have the first `steps`. All ranks must make the same calls in each step.
    """
    if not steps:
        return "the trace has no `step` ranges to match collectives in"
    ranks = sorted(windows)
    numbered = _number_calls(calls, windows)
    counts = numbered.groupby(["step", "collective", "rank"]).size().unstack("rank", fill_value=0)
    if counts.empty:
        return "no collective begins inside of a traced step"
    counts = counts.reindex(columns=ranks, fill_value=0)
    differing = counts[counts.nunique(axis=1) > 1]
    if len(differing):
        (step, name), row = differing.index[0], differing.iloc[0]
        calls_by_rank = ", ".join(f"rank {rank}: {row[rank]}" for rank in ranks)
        return f"the ranks differ in their calls of {name} in step {step} ({calls_by_rank})"
    numbered["ns"] = numbered["end"] - numbered["start"]
    transfer = numbered.groupby(["step", "collective", "call"])["ns"].transform("min")
    numbered["last_arrival"] = numbered["end"] - transfer  # until then a rank waited for the last one

    def waiting_spans(chosen: pd.DataFrame) -> dict[int, Spans]:
        """Return when each rank waited in some of the numbered calls: from its own arrival to the last rank's."""
        spans = {}
        for rank in ranks:
            own = chosen[chosen["rank"] == rank]
            spans[rank] = merge_spans(own["start"].to_numpy(), own["last_arrival"].to_numpy())
        return spans

    by_rank = waiting_spans(numbered)
    waits = np.stack([ns_in_windows(by_rank[rank], *windows[rank])[:steps] / 1e6 for rank in ranks], axis=1)
    by_collective = {name: waiting_spans(chosen) for name, chosen in numbered.groupby("collective")}
    return Waiting(by_rank, by_collective, _slowest_rank(waits, ranks))


def _number_calls(calls: pd.DataFrame, windows: dict[int, Steps]) -> pd.DataFrame:
    """Return the calls that begin inside of a step of their rank, with two more columns, both counted from 0.

    `step`: place in the rank's `windows`. `call`: place among its calls of that collective in the step; equal places
    are one call over ranks. Times in ns.
    """
    parts = []
    for rank, (starts, ends) in windows.items():
        own = calls[calls["rank"] == rank].sort_values("start")
        begun = own["start"].to_numpy()
        step = np.searchsorted(starts, begun, side="right") - 1  # -1: before the first
        inside = np.zeros(len(begun), bool)
        if len(starts):
            inside = (step >= 0) & (begun < ends[np.maximum(step, 0)])
        parts.append(own.assign(step=step, collective=own["collective"].astype(str))[inside])
    numbered = pd.concat(parts, ignore_index=True)
    numbered["call"] = numbered.groupby(["rank", "step", "collective"]).cumcount()
    return numbered


def _slowest_rank(waits: np.ndarray, ranks: list[int]) -> Slowest | None:
    """Return the rank that waits least in most steps, as the others wait for it; None where nobody waits.

    `waits`: milliseconds of shape (steps, ranks), the ranks in the order of `ranks`.
    """
    if not waits.max() > 0:
        return None
    last_of_step = waits.argmin(axis=1)
    place = int(np.bincount(last_of_step, minlength=len(ranks)).argmax())  # of the slowest rank
    waits_for_it = waits[last_of_step == place]  # the steps in which it was the last
    caused = np.delete(waits_for_it, place, axis=1) - waits_for_it[:, [place]]  # by how much longer the others wait
    return Slowest(rank=ranks[place], steps_last=len(waits_for_it), of_steps=len(waits), caused_ms=float(caused.mean()))
