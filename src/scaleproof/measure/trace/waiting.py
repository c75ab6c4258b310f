"""Collectives matched over ranks: who came last, how long the others waited, how long the transfer took.

A collective ends on all ranks at about the same time and begins when each arrives. Its shortest participant came last
and waited for nobody, so its duration is the transfer; what another rank took longer is waiting. Only durations are
compared, so the clocks of nodes need not agree.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from scaleproof.ground.records.profile_schema import Slowest
from scaleproof.measure.trace.time_spans import Spans, union, within

Steps = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Waiting:
    by_rank: dict[int, Spans]  # when each rank waited
    by_collective: dict[str, dict[int, Spans]]
    slowest: Slowest | None


def waiting(calls: pd.DataFrame, windows: dict[int, Steps], steps: int) -> Waiting | str:
    """Split the collectives of some steps. `calls` has the columns rank, collective, start and end.

    Returns why it cannot be done where ranks differ in the number of their calls.
    """
    if not steps:
        return "the trace has no `step` ranges to match collectives in"
    ranks = sorted(windows)
    numbered = _numbered(calls, windows)
    counts = numbered.groupby(["step", "collective", "rank"]).size().unstack("rank", fill_value=0)
    if counts.empty:
        return "no collective begins inside of a traced step"
    counts = counts.reindex(columns=ranks, fill_value=0)
    differing = counts[counts.nunique(axis=1) > 1]
    if len(differing):
        (step, name), row = differing.index[0], differing.iloc[0]
        seen = ", ".join(f"rank {r}: {row[r]}" for r in ranks)
        return f"the ranks differ in their calls of {name} in step {step} ({seen})"
    numbered["ns"] = numbered["end"] - numbered["start"]
    transfer = numbered.groupby(["step", "collective", "call"])["ns"].transform("min")
    numbered["arrived"] = numbered["end"] - transfer  # of the last rank

    def spans(chosen: pd.DataFrame) -> dict[int, Spans]:
        own = {r: chosen[chosen["rank"] == r] for r in ranks}
        return {r: union(o["start"].to_numpy(), o["arrived"].to_numpy()) for r, o in own.items()}

    by_rank = spans(numbered)
    waits = np.stack([within(by_rank[r], *windows[r])[:steps] / 1e6 for r in ranks], axis=1)
    by_collective = {name: spans(chosen) for name, chosen in numbered.groupby("collective")}
    return Waiting(by_rank, by_collective, _slowest(waits, ranks))


def _numbered(calls: pd.DataFrame, windows: dict[int, Steps]) -> pd.DataFrame:
    """The calls inside of traced steps: step, collective, how many-th of its kind in the step, duration."""
    parts = []
    for rank, (starts, ends) in windows.items():
        own = calls[calls["rank"] == rank].sort_values("start")
        begun = own["start"].to_numpy()
        at = np.searchsorted(starts, begun, side="right") - 1
        inside = (at >= 0) & (begun < ends[np.maximum(at, 0)]) if len(starts) else np.zeros(len(begun), bool)
        chosen = own[inside]
        parts.append(
            pd.DataFrame(
                {
                    "rank": rank,
                    "step": at[inside],
                    "collective": chosen["collective"].astype(str),
                    "start": chosen["start"],
                    "end": chosen["end"],
                }
            )
        )
    numbered = pd.concat(parts, ignore_index=True)
    numbered["call"] = numbered.groupby(["rank", "step", "collective"]).cumcount()
    return numbered


def _slowest(waits: np.ndarray, ranks: list[int]) -> Slowest | None:
    """The rank that waits least, in the most steps; None where nobody waits. `waits`: ms, steps by ranks."""
    if not waits.max() > 0:
        return None
    last = waits.argmin(axis=1)
    place = int(np.bincount(last, minlength=len(ranks)).argmax())
    last_here = last == place
    others = np.delete(waits[last_here], place, axis=1) - waits[last_here][:, [place]]
    return Slowest(
        rank=ranks[place],
        steps_last=int(last_here.sum()),
        of_steps=len(waits),
        caused_ms=float(others.mean()),
    )
