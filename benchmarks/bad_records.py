"""Bad files of results: those that the workflow wrote, and those of other programs."""

import json
from pathlib import Path
from random import Random

from bad_cases import DEMO, NO_JSON, OTHER, REPOSITORY, RESULTS, RUN, STRANGE, TRACE, Case, Special, leaves, put

READERS: dict[str, list[list[str]]] = {
    f"{RUN}/training_metrics.json": [
        ["verify", RESULTS],
        ["compare", RUN, OTHER, "--vary", "strategy"],
        ["audit", RUN],
    ],
    f"{RUN}/steps.csv": [["verify", RESULTS], ["compare", RUN, OTHER, "--vary", "strategy"], ["audit", RUN]],
    f"{RUN}/launcher_metadata.json": [["verify", RESULTS], ["audit", RUN]],
    f"{RESULTS}/scaling_report.json": [
        ["verify", RESULTS],
        ["why", RESULTS, "cells/ddp-n1x2/speedup"],
        ["stage", "tables", RESULTS],
    ],
    f"{RESULTS}/findings.json": [["verify", RESULTS]],
    f"{RESULTS}/comparison.json": [["verify", RESULTS]],
    f"{RESULTS}/waterfall.json": [["verify", RESULTS]],
    f"{RESULTS}/traces.json": [["verify", RESULTS], ["stage", "trace_charts", RESULTS]],
    f"{RESULTS}/manifest.json": [["verify", RESULTS]],
    f"{RESULTS}/cells.csv": [["verify", RESULTS], ["stage", "tables", RESULTS]],
    f"{RESULTS}/runs.csv": [["verify", RESULTS], ["stage", "tables", RESULTS]],
    f"{RESULTS}/report.html": [["verify", RESULTS]],
    f"{RESULTS}/tables/scaling.csv": [["verify", RESULTS]],
    f"{RESULTS}/tables/scaling.md": [["verify", RESULTS]],
    f"{TRACE}/profile_summary.json": [["trace", "diff", TRACE, f"{RESULTS}/traces/zero2-n1x2"]],
    f"{TRACE}/capture.json": [["trace", "summary", TRACE]],
}


def record(random: Random) -> Case:
    """A file that the workflow wrote, damaged: a field gone, renamed or of another kind, cut off, no file at all."""
    name = random.choice(list(READERS))
    words = random.choice(READERS[name])
    path = next((REPOSITORY / "results/published").glob("demo_*")) / name.removeprefix(f"{RESULTS}/")
    good = path.read_bytes()
    kind = random.choice(["field", "field", "field", "cut", "other", "special"])
    bad: bytes | Special = good[: random.randrange(len(good))]
    note = "cut off"
    if kind == "other":
        bad = random.choice(NO_JSON)
        note = repr(bad)[:40]
    elif kind == "special":
        bad = random.choice(list(Special))
        note = bad.name
    elif kind == "field" and name.endswith(".json"):
        data = json.loads(good)
        place = random.choice(leaves(data))
        value = random.choice(STRANGE)
        bad = json.dumps(put(data, place, value)).encode()
        note = f"{'.'.join(map(str, place))}: {value!r}"[:90]
        if random.random() < 0.4 and isinstance(place[-1], str):
            bad = json.dumps(put(data, place, 1, f"{place[-1]}x")).encode()
            note = f"{'.'.join(map(str, place))} renamed"
    elif kind == "field":
        lines = good.splitlines(keepends=True)
        at = random.randrange(len(lines))
        lines[at] = random.choice([b"", lines[at] * 2, lines[at].replace(b",", b",,", 1), b"\xff\n", b"x,y\n"])
        bad = b"".join(lines)
        note = f"line {at + 1}: {lines[at][:40]!r}"
    must = [(Path(name).name, "traces")] if words[0] != "audit" else []
    return Case(words, must, {name: bad}, (0, 1, 2), f"{Path(name).name} {note}: {' '.join(words)}")


FOREIGN = {
    "log.txt": b"step 1 | loss 3.2 | 1200 tok/s\nstep 2 | loss 3.1 | 1300 tok/s\n",
    "metrics.json": b'{"world_size": 4, "tokens_per_sec": 1000, "config": {"batch_size": 8}}',
    "table.csv": b"gpus,tokens/s\n1,1000\n2,1900\n",
    "table.md": b"| gpus | tokens/s |\n|---|---|\n| 1 | 1000 |\n| 2 | 1900 |\n",
    "trace.json": b'{"traceEvents": [{"ph": "X", "cat": "kernel", "ts": 1, "dur": 2, "name": "a"}]}',
    "all_reduce.json": b'{"version": 3, "args": ["all_reduce_perf"], "results": [{"size": 8}]}',
    "stats.txt": b" ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):\n\n Time (%)  Total\n --- ---\n",
    "nccl.log": b"node1:1:1 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via P2P/IPC\n",
    "heading.csv": b"gpus,tokens/s\n",
    "none.csv": b"gpus,tokens/s\n1,nan\n2,-300\n",
    "lines.jsonl": b'{"step": 1, "tokens_per_s": 100}\n{"step": 2, "tokens_per_s":\n',
    "notes.ipynb": b'{"cells": [',
    "x.sqlite": b"SQLite format 3\0" + bytes(200),
    "x.nsys-rep": b"abc",
}


def foreign(random: Random) -> Case:
    """A file of another program, damaged or of another kind, given to a command that reads such files."""
    name, good = random.choice(list(FOREIGN.items()))
    at = random.randrange(len(good))
    bad: bytes | Special = random.choice(
        [
            good[:at],
            good[at:],
            good[:at] + b"\xff\x00" + good[at:],
            good.replace(b":", b"", 1),
            b"\x1f\x8b" + good,
            *NO_JSON,
            Special.PIPE,
            Special.CIRCLE,
            Special.NOWHERE,
            Special.GONE,
            good.replace(b"1", b"9" * 400),
        ]
    )
    path = f"notes/{name}"
    words = random.choice(
        [
            ["audit", path],
            ["trace", "summary", path],
            ["trace", "diff", path, path],
            ["trace", "interconnect", path],
            ["compare", path, RUN],
            ["sweep", DEMO, "--group", "1x2", "--nccl-tests", path],
        ]
    )
    return Case(words, [name.partition(".")[0]], {path: bad}, (0, 1, 2), f"{name} {bad!r}: {words[0]}"[:120])
