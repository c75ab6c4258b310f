"""Traces with known truth: as the neutral form, as an export of Nsight Systems, as a text of nsys stats."""

import sqlite3
from pathlib import Path

import pandas as pd

from scaleproof.measure.trace.events import HOST, RANGES, WORK, Trace, TraceSource, make_table

GEMM, ADD, ADAM = (
    "ampere_fp16_s16816gemm_fp16_128x128",
    "vectorized_elementwise_kernel<4>",
    "FusedAdamMathFunctor<float>",
)
REDUCE = "ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"
US = 1_000  # nanoseconds
STEP = 200  # microseconds of a step; see `step`


def step(reduce: str = REDUCE, late: int = 0) -> list[tuple]:
    """Kernels of one step: stream, name, start, end in microseconds.

    Compute: 0-100 without a hole, 150-170. Communication: 40-80 under compute, 90-140 of which 100-140 is exposed.
    So: compute 120, communication 90, overlapped 50, exposed 40, idle 40. `late`: the second collective begins later.
    """
    return [
        (7, GEMM, 0, 60),
        (7, ADD, 60, 100),
        (9, reduce, 40, 80),
        (9, reduce, 90 + late, 140),
        (7, ADAM, 150, 170),
    ]


def trace(
    ranks: int = 2, steps: int = 4, reduce: str = REDUCE, late: dict[int, int] | None = None, lag: int = 0, **source
) -> Trace:
    """Every rank makes the same steps; `late`: rank -> microseconds by which it is late at the second collective.

    `lag`: microseconds by which the device is behind the host.
    """
    work, ranges = [], []
    for rank in range(ranks):
        for i in range(steps):
            zero = (1000 + i * STEP) * US
            for stream, name, start, end in step(reduce, (late or {}).get(rank, 0)):
                work.append((rank, stream, name, zero + start * US, zero + (start + lag) * US, zero + (end + lag) * US))
            for name, start, end in (
                ("step", 0, STEP),
                ("data", 0, 5),
                ("forward", 5, 50),
                ("backward", 50, 150),
                ("optimizer", 150, 200),
            ):
                ranges.append((rank, rank, name, zero + start * US, zero + end * US))
    return Trace(
        make_table(WORK, pd.DataFrame(work, columns=list(WORK))),
        make_table(RANGES, pd.DataFrame(ranges, columns=list(RANGES))),
        make_table(HOST, pd.DataFrame([("osrt", "poll", 3, 900), ("osrt", "read", 1, 100)], columns=list(HOST))),
        TraceSource(**{"tool": "made up", "files": ["x"], "device": "gpu"} | source),
    )


def without_rows(made: Trace, keep) -> Trace:
    """The trace with only the work for which `keep(frame)` is true."""
    return Trace(made.work[keep(made.work)], made.ranges, made.host, made.source)


def write_sqlite(
    path: Path, made: Trace, version: str = "2025.1.3", say_ranks: bool = True, lost: str | None = None
) -> Path:
    """An export as nsys makes it: one process a rank, without indexes, with the columns of `version`."""
    old = version.startswith("2022")
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        base.execute("CREATE TABLE EXPORT_META_DATA (name TEXT, value TEXT)")
        base.execute("INSERT INTO EXPORT_META_DATA VALUES ('EXPORT_PRODUCT_VERSION', ?)", [version])
        ids: dict[str, int] = {}

        def text(value: str) -> int:
            if value not in ids:
                ids[value] = len(ids) + 1
                base.execute("INSERT INTO StringIds VALUES (?, ?)", [ids[value], value])
            return ids[value]

        graph = "" if old else "graphNodeId INTEGER, graphId INTEGER, "  # came later
        base.execute(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL "
            f"(start INTEGER, end INTEGER, deviceId INTEGER, {graph}streamId INTEGER, "
            "correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER)"
        )
        base.execute(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME "
            "(start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER)"
        )
        columns = "(start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER, textId INTEGER)"
        base.execute(f"CREATE TABLE NVTX_EVENTS {columns}")
        base.execute("CREATE TABLE OSRT_API (start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER)")
        process = {rank: (1 << 48) + ((100 + rank) << 24) for rank in made.ranks}
        launch = text("cudaLaunchKernel_v7000")
        last = dict.fromkeys(made.ranks, 0)
        for row in made.work.itertuples(index=False):
            last[row.rank] += 1  # these numbers are of one process each
            owner, correlation = process[row.rank], last[row.rank]
            named = {
                "start": row.start,
                "end": row.end,
                "deviceId": row.rank,
                "streamId": row.stream,
                "correlationId": correlation,
                "globalPid": owner,
                "demangledName": text(row.name),
                "shortName": text(row.name[:8]),
            }
            base.execute(
                f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL ({', '.join(named)}) VALUES ({', '.join('?' * len(named))})",
                list(named.values()),
            )
            base.execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?)",
                [row.launched, row.launched + 1, owner + row.rank + 1, correlation, launch],
            )
        for rank in made.ranks if say_ranks else ():
            base.execute("INSERT INTO NVTX_EVENTS VALUES (1, 2, 59, ?, ?, NULL)", [f"rank {rank}", process[rank] + 1])
        for row in made.ranges.itertuples(index=False):
            inline = (row.name, None) if old else (None, text(f":{row.name}"))
            base.execute(
                "INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, ?, ?)",
                [row.start, row.end, inline[0], process[row.rank] + 1, inline[1]],
            )
        middle = int(made.ranges["start"].median()) if len(made.ranges) else 0
        base.execute(
            "INSERT INTO OSRT_API VALUES (?, ?, ?, ?)", [middle, middle + 900, process[made.ranks[0]] + 1, text("poll")]
        )
        if lost:
            base.execute("CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER, severity INTEGER, text TEXT)")
            base.execute("INSERT INTO DIAGNOSTIC_EVENT VALUES (0, 2, ?)", [lost])
    return path


def grouped(value: int) -> str:
    """Digits in groups of two above the last three, as a text of 2025 had them: 27,65,96,75,62,725."""
    text = str(value)
    head, tail = text[:-3], text[-3:]
    pairs = [head[max(0, i - 2) : i] for i in range(len(head), 0, -2)][::-1]
    return ",".join([*pairs, tail])


HEADS = {
    "nvtx_sum": ("NVTX Range Summary", "Instances", "Range"),
    "osrt_sum": ("OS Runtime Summary", "Num Calls", "Name"),
    "cuda_gpu_kern_sum": ("CUDA GPU Kernel Summary", "Instances", "Name"),
}
OLDER = {"nvtx_sum": "nvtxsum", "osrt_sum": "osrtsum", "cuda_gpu_kern_sum": "gpukernsum"}


def stats_text(
    reports: dict[str, list[tuple[str, int, int]]], old: bool = False, digits=grouped, preamble: str = ""
) -> str:
    """The text of nsys stats. `reports`: report -> rows of name, total ns, count."""
    out = [preamble or "Generating SQLite file a.sqlite from a.nsys-rep"]
    for report, rows in reports.items():
        title, count, name = HEADS[report]
        called = OLDER[report] if old else report
        style = {"nvtx_sum": {"Style": "PushPop"}}.get(report, {})
        if old and report == "cuda_gpu_kern_sum":
            style = {"GridXYZ": "   1  128    1", "BlockXYZ": " 256    1    1"}  # columns of 2022.4
        heads = [
            "Time (%)",
            "Total Time (ns)",
            count,
            "Avg (ns)",
            "Med (ns)",
            "Min (ns)",
            "Max (ns)",
            "StdDev (ns)",
            *style,
            name,
        ]
        total = sum(ns for _, ns, _ in rows) or 1
        lines = [heads]
        for label, ns, calls in sorted(rows, key=lambda r: -r[1]):
            numbers = [
                f"{100 * ns / total:.1f}",
                digits(ns),
                digits(calls) if calls > 999 else str(calls),
                "1.0",
                "1.0",
                "1",
                "1",
                "0.0",
            ]
            lines.append([*numbers, *style.values(), label])
        widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
        out += [f"Processing [a.sqlite] with [reports/{called}.py]... ", "", f" ** {title} ({called}):", ""]
        lines.insert(1, ["-" * w for w in widths])
        aligned = [
            [
                c.ljust(w) if i == len(heads) - 1 else c.rjust(w)
                for i, (c, w) in enumerate(zip(line, widths, strict=True))
            ]
            for line in lines
        ]
        out += [" " + "  ".join(line) for line in aligned]
        out += [""]
    return "\n".join(out) + "\n"
