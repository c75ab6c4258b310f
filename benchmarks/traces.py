"""A trace of 3 million kernels: our whole summary against the kernel and NVTX reports of `nsys stats` on the same file.

Ours reads kernels, launches, ranges and calls, joins them and measures unions; theirs sums by name. Both are processes
of their own, with their start-up, and wanted is at most half of its CPU time. Peak memory of both is printed. Needs
nsys on PATH (tests/install-system-packages).
"""

import argparse
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

WANTED = 0.5
NAMES = [f"sm90_xmma_gemm_bf16_tile{i}" for i in range(80)] + [
    f"vectorized_elementwise_kernel<{i}>" for i in range(200)
]
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
RANKS, PIECE = 8, 200_000
TABLES = """
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
CREATE TABLE EXPORT_META_DATA (name TEXT, value TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,
    streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER,
    mangledName INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER,
    correlationId INTEGER, nameId INTEGER, returnValue INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, rangeId INTEGER, category INTEGER,
    color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER);
"""


def export(path: Path, kernels: int) -> None:
    """An export of 8 ranks with `kernels` kernels: 1,000 in a step, 20 of them collectives, and 5 ranges a step."""
    each = kernels // RANKS
    random = np.random.default_rng(1)
    with sqlite3.connect(path) as base:
        base.executescript(TABLES)
        base.execute("PRAGMA synchronous=OFF")
        base.executemany("INSERT INTO StringIds VALUES (?, ?)", list(enumerate([*NAMES, NCCL, "cudaLaunchKernel"])))
        base.executemany(
            "INSERT INTO EXPORT_META_DATA VALUES (?, ?)",
            [("EXPORT_PRODUCT_VERSION", "2022.4.2"), ("EXPORT_SCHEMA_VERSION", "3.0.0")],
        )
        for rank in range(RANKS):
            process = (1 << 48) + ((100 + rank) << 24)
            start = np.arange(each) * 10_000 + random.integers(0, 500, each)
            end = start + random.integers(2_000, 9_000, each)
            name = np.where(np.arange(each) % 50 == 49, len(NAMES), random.integers(0, len(NAMES), each))
            number = np.arange(each)
            stream = np.where(name == len(NAMES), 20, 7)
            same = np.ones(each, np.int64)
            rows = np.stack(
                [
                    start + 50_000,
                    end + 50_000,
                    same * rank,
                    same,
                    stream,
                    number,
                    same * process,
                    name,
                    name,
                    name,
                    *[same * 128] * 6,
                ],
                1,
            )
            calls = np.stack(
                [start, start + 3_000, same * 0, same * (process + 1), number, same * (len(NAMES) + 1), same * 0], 1
            )
            for table, data in (("CUPTI_ACTIVITY_KIND_KERNEL", rows), ("CUPTI_ACTIVITY_KIND_RUNTIME", calls)):
                for i in range(0, each, PIECE):
                    base.executemany(
                        f"INSERT INTO {table} VALUES ({', '.join('?' * data.shape[1])})", data[i : i + PIECE].tolist()
                    )
            ranges = [(1, 2, 59, None, None, None, f"rank {rank}", process + 1, None, None, 0)]
            for s in range(each // 1_000):
                zero = s * 10_000_000
                for text, a, b in (
                    ("step", 0, 9_990_000),
                    ("data", 0, 9_000),
                    ("forward", 9_000, 3e6),
                    ("backward", 3e6, 8e6),
                    ("optimizer", 8e6, 9_990_000),
                ):
                    ranges.append(
                        (zero + int(a), zero + int(b), 59, None, None, None, text, process + 1, None, None, 0)
                    )
            base.executemany(f"INSERT INTO NVTX_EVENTS VALUES ({', '.join('?' * 11)})", ranges)


def timed(command: list[str]) -> tuple[float, float]:
    """Seconds of CPU and peak resident MB of a command and the processes that it waits for.

    CPU seconds, since both work on one core: what else the machine does is not in them.
    """
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{command[0]} failed: {errors.decode()[-500:]}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=int, default=3_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    if not shutil.which("nsys"):
        sys.exit("nsys is not on PATH")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.sqlite"
        export(path, args.kernels)
        print(f"{args.kernels:,} kernels, {path.stat().st_size / 1e6:,.0f} MB")
        ours = [sys.executable, "-m", "scaleproof", "trace", "summary", str(path), "--out", folder]
        nsys_command = ["nsys", "stats", "--report", "gpukernsum,nvtxsum", str(path)]
        times: dict[str, list[float]] = {"scaleproof trace summary": [], "nsys stats": []}
        for _ in range(args.repeats):
            for name, command in zip(times, (ours, nsys_command), strict=True):
                seconds, memory = timed(command)
                times[name].append(seconds)
                print(f"  {name}: {seconds:.2f} s CPU, {memory:,.0f} MB", flush=True)
    own, nsys = (statistics.median(t) for t in times.values())
    print(f"ratio of medians: {own / nsys:.2f} (wanted: at most {WANTED})")
    sys.exit(own > WANTED * nsys)


if __name__ == "__main__":
    main()
