"""Traces of torch's profiler (Kineto): one Chrome JSON file a rank, plain or gzipped."""

import gzip
import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from scaleproof.ground.errors import UserError, describe_first_fault
from scaleproof.ground.facts.kernel_classes import collective_of
from scaleproof.ground.file_kinds import damage_of_packed
from scaleproof.measure.trace.events import HOST, RANGES, WORK, Trace, TraceSource, make_table

DEVICE_EVENTS = ("kernel", "gpu_memcpy", "gpu_memset")
CALL_EVENTS = ("cuda_runtime", "cuda_driver")
OF_PROFILER = r"^ProfilerStep#\d+$"  # from one call of the profiler's step() to the next
PAUSE_NS = 100_000  # between two operators of a CPU rank: the interpreter at work, not waiting


def read_kineto(path: Path, fallback_rank: int = 0) -> Trace:
    """Return the trace in one rank's file. `fallback_rank`: its rank if the file names none. Raises UserError."""
    data = _load_events(path)
    events = pd.DataFrame.from_records(
        # X: what has a duration; "Trace" is the range of the whole recording.
        [event for event in data["traceEvents"] if event.get("ph") == "X" and event.get("cat") != "Trace"],
        columns=["cat", "name", "pid", "tid", "ts", "dur", "args"],
    )
    if events.empty:
        raise UserError(f"{path}: the trace holds no events; was the profiler running while the steps were made?")
    info = data.get("distributedInfo") or {}
    rank = int(info.get("rank", fallback_rank))
    events["start"] = int(data.get("baseTimeNanoseconds", 0)) + _whole_ns(events["ts"])
    events["end"] = events["start"] + _whole_ns(events["dur"].fillna(0))

    on_device = events["cat"].isin(DEVICE_EVENTS)
    if on_device.any():
        device = "gpu"
        work = _device_work(events, on_device)
    else:
        work = _cpu_work(events)
        device = "cpu" if len(work["start"]) else "none"
    ranges = _named_ranges(events)
    return Trace(
        work=make_table(WORK, {"rank": rank} | work) if len(work["start"]) else make_table(WORK),
        ranges=make_table(RANGES, {"rank": rank} | ranges) if len(ranges["name"]) else make_table(RANGES),
        host=make_table(HOST),  # the profiler records no calls of the operating system
        source=TraceSource(
            tool="torch.profiler",
            files=[path.name],
            device=device,
            pause_ns=PAUSE_NS if device == "cpu" else 0,
            ranks_from="the trace" if "rank" in info else "the order of the files",
            world=int(info.get("world_size", 0)),
        ),
    )


def _named_ranges(events: pd.DataFrame) -> dict[str, Any]:
    """Return the ranges that the program has named: the columns of RANGES but `rank`."""
    named = events[(events["cat"] == "user_annotation") & ~_are_collectives(events)]
    names = named["name"]
    if not names.eq("step").any():  # the program marks no steps: the profiler's steps are taken
        names = names.str.replace(OF_PROFILER, "step", regex=True)
    return {"thread": _thread_numbers(named["tid"]), "name": names, "start": named["start"], "end": named["end"]}


def _whole_ns(microseconds: pd.Series) -> np.ndarray:
    """Convert microseconds, floats with three decimals, to nanoseconds (int64)."""
    times = microseconds.to_numpy(float)
    # Whole microseconds and the rest are converted apart: a float of nanoseconds would lose its last digits.
    whole = np.floor(times)
    return whole.astype(np.int64) * 1000 + np.rint((times - whole) * 1000).astype(np.int64)


def _load_events(path: Path) -> dict[str, Any]:
    """Return the JSON of a trace, which has a list `traceEvents`. Raises UserError for any other file."""
    try:
        raw = path.read_bytes()
        text = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
        data = json.loads(text, strict=False)  # names of events may hold control characters
    except (ValueError, EOFError, OSError, RecursionError, zlib.error) as error:
        is_packed = not isinstance(error, ValueError | RecursionError) and path.is_file()
        cause = f"it {damage_of_packed(str(error))}" if is_packed else describe_first_fault(error)
        raise UserError(f"{path}: not a trace of torch's profiler: {cause}; capture it again") from None
    if not isinstance(data, dict) or not isinstance(data.get("traceEvents"), list):
        fault = "its traceEvents are no list" if "traceEvents" in data else "it has no traceEvents"
        raise UserError(f"{path}: not a trace of torch's profiler: {fault}")
    return data


def _device_work(events: pd.DataFrame, on_device: pd.Series) -> dict[str, Any]:
    """Return a GPU's kernels and copies: the columns of WORK but `rank`.

    `on_device`: a mask of the GPU's events. `launched` is when the call with the same correlation number began, or,
    without such a call, when the kernel started.
    """
    kernels, calls = events[on_device], events[events["cat"].isin(CALL_EVENTS)]
    kernel_arguments = [arguments or {} for arguments in kernels["args"]]
    call_arguments = [arguments or {} for arguments in calls["args"]]
    # Correlation number -> when the call began.
    called_at = dict(zip((arguments.get("correlation") for arguments in call_arguments), calls["start"], strict=True))
    kernel_starts = zip(kernel_arguments, kernels["start"], strict=True)
    launched = [called_at.get(arguments.get("correlation"), start) for arguments, start in kernel_starts]

    return {
        "stream": [int(arguments.get("stream", 0)) for arguments in kernel_arguments],
        "name": kernels["name"],
        "launched": launched,
        "start": kernels["start"],
        "end": kernels["end"],
    }


def _cpu_work(events: pd.DataFrame) -> dict[str, Any]:
    """Return each thread's outermost operators, and gloo's collectives: the columns of WORK but `rank`.

    Events of autograd and the process group around operators are left out, since they also wait.
    """
    is_operator = events["name"].str.match(r"(?!c10d|_c10d|autograd::|torch::)\w+::")
    operators = events[(events["cat"] == "cpu_op") & is_operator]
    # In order of thread and start; where several start together, the longest, which contains the others, comes first.
    operators = operators.assign(longest=-operators["end"]).sort_values(["tid", "start", "longest"])
    # An operator that starts before an earlier one of its thread has ended is inside of that one.
    latest_end = operators.groupby("tid")["end"].cummax().groupby(operators["tid"]).shift(1, fill_value=0)
    outermost = operators[operators["start"] >= latest_end]
    collectives = events[(events["cat"] == "user_annotation") & _are_collectives(events)]
    work = pd.concat([outermost, collectives])

    return {
        "stream": _thread_numbers(work["tid"]),
        "name": work["name"],
        "launched": work["start"],
        "start": work["start"],
        "end": work["end"],
    }


def _are_collectives(events: pd.DataFrame) -> pd.Series:
    """Return which events have the name of a collective, as a boolean mask."""
    return events["name"].map(lambda name: collective_of(name) is not None)


def _thread_numbers(ids: pd.Series) -> list[int]:
    """Return thread ids, some of which the profiler writes as text, as numbers: 0 for a missing id."""
    numbers = [re.search(r"-?\d+", str(thread)) for thread in ids]
    return [int(number[0]) if number else 0 for number in numbers]
