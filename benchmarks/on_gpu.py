"""The first ten minutes on a GPU: `python3 benchmarks/on_gpu.py OUT [--wheels DIR]`, without a network and snakemake.

Stages in the order of what they settle, each a process with a time limit of its own. Log and result of each stage are
written as they come, so that a machine that is taken away leaves what was finished. OUT/results is the folder of a
campaign, OUT/gpu_check.yaml: tables and report are made from them elsewhere (docs/gpu.md).

`--stand-in` runs the same on a CPU with a tiny model, which shows that the stages work and nothing else.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BUDGET_S = 580.0  # for all stages together
LEAST_S = 8.0  # a stage with less time than this is not begun
NAME = "gpu_check"
SCALEBENCH = [sys.executable, "-m", "scalebench"]


@dataclass(frozen=True)
class Stage:
    """One command. `limit` in seconds; `settles`: what its result decides."""

    name: str
    command: list[str]
    limit: float
    settles: str


def campaign(stand_in: bool) -> dict[str, Any]:
    """The cells, as a campaign file: one of each kind that had never run on a GPU, then the speed of GPT-2 small."""
    if stand_in:
        return {
            "title": "gpu-check on a CPU: do its stages work?",
            "workload": {
                "model": {"layers": 1, "width": 32, "heads": 2, "context": 64},
                "seq_len": 32,
                "tokenizer": "bpe-512",
            },
            "work": {
                "micro_batch": 2,
                "global_batch": "derive",
                "steps": 4,
                "warmup_steps": 3,
                "validation_samples": 4,
            },
            "execution": {"device": "cpu", "loss": "fused"},
            "vary": {"strategy": ["ddp"]},
            "trace": {"steps": 2},
            "repeats": 1,
        }
    long = {"strategy": "single", "seq_len": 1024, "micro_batch": 32, "global_batch": 32}
    return {
        "title": "gpu-check: does scalebench measure right on this GPU, and how fast is it?",
        "workload": {"model": "gpt2-small", "seq_len": 512, "tokenizer": "bpe-2048", "vocab_size": 50304},
        "work": {"micro_batch": 8, "global_batch": "derive", "steps": 30, "warmup_steps": 8},
        "execution": {"device": "cuda", "precision": "bf16"},
        "vary": {"strategy": ["single", "ddp", "zero3", "zero2-offload"]},
        "cells": [
            {"strategy": "zero1", "precision": "fp16"},
            {"strategy": "fsdp", "precision": "fp16"},
            long | {"compile": True, "loss": "fused"},
            long | {"compile": False, "loss": "fused"},
            long | {"compile": True, "loss": "plain"},
            long | {"compile": True, "loss": "fused", "micro_batch": 64, "global_batch": 64},
            {"strategy": "single", "seq_len": 128, "micro_batch": 32, "global_batch": 32, "compile": True},
        ],
        "trace": {"steps": 3},
        "repeats": 1,
    }


def slugs(path: Path) -> list[str]:
    """The cells of a campaign file, in its order. In a process of its own: packages may just have been installed."""
    code = (
        "import sys; from pathlib import Path; from scalebench.campaign.loaded import LoadedCampaign;"
        "print(*(c.slug for c in LoadedCampaign(Path(sys.argv[1])).cells))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, cwd=ROOT, check=True)
    return done.stdout.split()


def stages(out: Path, names: list[str], stand_in: bool) -> list[Stage]:
    """All that is done, in order. `names`: slugs of the cells."""
    file, tokens = str(out / f"{NAME}.yaml"), str(out / "tokens")
    results = out / "results"
    vocabulary = "512" if stand_in else "2048"
    make_tokens = (
        "import sys; from pathlib import Path; from scalebench.preflight.random_tokens import write_random_tokens;"
        "write_random_tokens(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[3]) // 20)"
    )
    count = "20000" if stand_in else "20000000"
    doctor = [*SCALEBENCH, "doctor", "--results", str(results), *(["--no-ranks"] if stand_in else [])]
    listed = [
        Stage(
            "tokens", [sys.executable, "-c", make_tokens, tokens, vocabulary, count], 30, "a corpus of random tokens"
        ),
        Stage("doctor", doctor, 200, "attention, host waits, clocks, energy, traffic, rates"),
    ]
    short = [name for name in names if "-sl" not in name]  # the others name the length of their samples: speed
    for name in [*short, *(n for n in names if n not in short)]:
        run = str(results / NAME / "runs" / name / "rep1")
        command = [*SCALEBENCH, "stage", "train", file, name, "--tokens", tokens, "--out", run]
        limit = 120 if "-compile" in name else 45
        listed.append(Stage(f"run {name}", command, limit, "launcher, NCCL, monitor, metrics; speed"))
    traced = next(n for n in names if n.startswith("ddp"))
    folder = str(results / NAME / "traces" / traced)
    capture = [*SCALEBENCH, "stage", "trace_capture", file, traced, "--tokens", tokens, "--out", folder]
    trace = [
        Stage("trace", capture, 60, "kernel names, collectives of one device"),
        Stage("trace summary", [*SCALEBENCH, "trace", "summary", folder], 30, "classes of kernels"),
    ]
    place = 2 + len(short)
    audit = Stage("audit", [*SCALEBENCH, "audit", str(results / NAME)], 30, "do the checks hold on a GPU")
    others = [sys.executable, "benchmarks/trainers.py", "--budget", "120"]
    compared = [] if stand_in else [Stage("trainers", others, 170, "as fast as what people write by hand?")]
    return [*listed[:place], *trace, *listed[place:], audit, *compared]


def run_stage(stage: Stage, log: Path, limit: float, environment: dict[str, str]) -> dict[str, Any]:
    """Run one stage for at most `limit` seconds; its processes are ended with it."""
    began = time.monotonic()
    with log.open("w") as file:
        process = subprocess.Popen(
            stage.command, stdout=file, stderr=subprocess.STDOUT, cwd=ROOT, env=environment, start_new_session=True
        )
        try:
            code: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    status = "time limit" if code is None else "done" if code == 0 else f"exit code {code}"
    tail = log.read_text(errors="replace").splitlines()[-5:]
    return {
        "name": stage.name,
        "settles": stage.settles,
        "status": status,
        "seconds": round(time.monotonic() - began, 1),
        "log": log.name,
        "tail": tail,
    }


def install(wheels: Path, site: Path) -> Stage:
    """The carried wheels, into a folder of their own: what the machine has is not touched."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(site)]
    return Stage("install", [*command, *(str(p) for p in sorted(wheels.glob("*.whl")))], 60, "the wheels fit")


def main() -> int:
    """Run all stages; returns 1 where one of them failed or was not reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder for logs and results; must not exist")
    parser.add_argument("--wheels", type=Path, help="folder of wheels to install first (benchmarks/gpu_wheels)")
    parser.add_argument("--budget", type=float, default=BUDGET_S, help="seconds for everything (default: %(default)s)")
    parser.add_argument("--stand-in", action="store_true", help="on a CPU, with a tiny model: do the stages work?")
    args = parser.parse_args()
    deadline = time.monotonic() + args.budget
    out = args.out.resolve()
    out.mkdir(parents=True)
    site = out / "site"
    path = os.pathsep.join([str(site), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    os.environ["PYTHONPATH"] = path  # of the look at the cells
    done: list[dict[str, Any]] = []

    def attempt(stage: Stage) -> None:
        left = deadline - time.monotonic()
        if left < LEAST_S:
            result = {"name": stage.name, "settles": stage.settles, "status": "not reached", "seconds": 0.0}
        else:
            log = out / f"{len(done):02d}-{stage.name.replace(' ', '-')}.log"
            result = run_stage(stage, log, min(stage.limit, left), environment)
        done.append(result)
        (out / "stages.json").write_text(json.dumps(done, indent=2) + "\n")
        print(f"{result['status']:>12}  {result['seconds']:6.1f} s  {stage.name}", flush=True)

    if args.wheels:
        attempt(install(args.wheels, site))
    (out / f"{NAME}.yaml").write_text(json.dumps(campaign(args.stand_in), indent=2) + "\n")
    for stage in stages(out, slugs(out / f"{NAME}.yaml"), args.stand_in):
        attempt(stage)
    # The doctor and the audit end with 1 where they have something to say: their reports say it.
    reporting = ("doctor", "audit")
    bad = [r for r in done if r["status"] != "done" and not (r["name"] in reporting and r["status"] == "exit code 1")]
    print(f"{len(done) - len(bad)} of {len(done)} stages worked; {out}/stages.json has all of them")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
