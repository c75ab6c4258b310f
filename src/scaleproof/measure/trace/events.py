"""The one form that every trace is read into: columns of whole nanoseconds."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

# What a device did, on any of its streams; on the CPU: what the threads of a rank computed, and its collectives.
# `launched`: when the host asked for it (on the CPU its start).
WORK = {"rank": "int32", "stream": "int64", "name": "category", "launched": "int64", "start": "int64", "end": "int64"}
# Named ranges of the program: NVTX, or torch's record_function.
RANGES = {"rank": "int32", "thread": "int64", "name": "category", "start": "int64", "end": "int64"}
# Calls into the operating system, summed by name.
HOST = {"kind": "str", "name": "str", "calls": "int64", "total_ns": "int64"}


@dataclass(frozen=True)
class TraceSource:
    """Where a trace comes from, and what it is known to lack."""

    tool: str  # "nsys 2022.4", "torch.profiler"
    files: list[str]
    device: str  # "gpu", "cpu", or "none" where nothing that computes was recorded
    pause_ns: int = 0  # on a CPU: pauses between operations up to this long are the host's, not waiting
    dropped: int = 0  # events that the tool says it has lost
    diagnostics: list[str] = field(default_factory=list)  # the tool's own warnings
    ranks_from: str = "the trace"  # how the processes were given their ranks
    world: int = 0  # how many ranks the run had, if the files say it


@dataclass(frozen=True)
class Trace:
    """One capture of some ranks, as tables with the columns above."""

    work: pd.DataFrame
    ranges: pd.DataFrame
    host: pd.DataFrame
    source: TraceSource

    @property
    def ranks(self) -> list[int]:
        """The ranks that have work or ranges in the trace, ascending."""
        return sorted({*self.work["rank"].unique().tolist(), *self.ranges["rank"].unique().tolist()})


def make_table(columns: dict[str, str], data: dict[str, Any] | pd.DataFrame | None = None) -> pd.DataFrame:
    """Return `data` as a table with these `columns` (name -> dtype), in their order, without rows if it is None."""
    if data is None:
        data = {name: np.empty(0, object if kind in ("str", "category") else kind) for name, kind in columns.items()}
    return pd.DataFrame(data)[list(columns)].astype(columns)


def join_traces(traces: list[Trace]) -> Trace:
    """Return one trace with the ranks of all `traces`."""
    sources = [trace.source for trace in traces]
    devices = [source.device for source in sources if source.device != "none"]
    source = TraceSource(
        tool=sources[0].tool,  # one tool took all files of a capture
        files=[file for source in sources for file in source.files],
        device=devices[0] if devices else "none",
        pause_ns=max(source.pause_ns for source in sources),
        dropped=sum(source.dropped for source in sources),
        diagnostics=list(dict.fromkeys(text for source in sources for text in source.diagnostics)),
        ranks_from=sources[0].ranks_from,
        world=max(source.world for source in sources),
    )
    host = pd.concat([trace.host for trace in traces]).groupby(["kind", "name"], as_index=False).sum()
    return Trace(
        work=_stack_tables([trace.work for trace in traces], WORK),
        ranges=_stack_tables([trace.ranges for trace in traces], RANGES),
        host=host.astype(HOST),
        source=source,
    )


def _stack_tables(frames: list[pd.DataFrame], columns: dict[str, str]) -> pd.DataFrame:
    """Concatenate tables. Their categories are united first, or pandas would turn them into strings."""
    from pandas.api.types import union_categoricals

    names = union_categoricals([table["name"] for table in frames])
    others = pd.concat([table.drop(columns="name") for table in frames], ignore_index=True)
    return others.assign(name=names)[list(columns)]
