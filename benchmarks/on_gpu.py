"""First contact with a GPU: `python3 benchmarks/on_gpu.py OUT [--stages doctor,runs,...] [--wheels DIR]`.

Works without a network and without snakemake. Each stage ends within ten minutes and leaves one archive,
OUT/<stage>.tgz; OUT/summary.json has all stages of all calls. Without --stages, those that OUT does not have yet are
run, in the order of what they settle (docs/gpu.md). Unpack the archives in one folder: its results/ has the runs.

The exit code is 0 where every step worked and none has findings, 1 where not, 2 where nothing could begin.
`--stand-in` runs the same on a CPU with tiny models, which shows that the stages work and nothing else.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import gpu_cells

ROOT = Path(__file__).resolve().parents[1]
# Seconds of each stage. What is installed before comes on top: together less than ten minutes.
STAGES = {"doctor": 420.0, "runs": 530.0, "devices": 530.0, "speed": 530.0, "kernels": 270.0, "others": 530.0}
LEAST_S = 8.0  # a step with less time than this is not begun
GRACE_S = 20.0  # in which a run ends its own ranks, before it is killed
LARGEST = 8 * 2**20  # bytes of a file in an archive: a raw trace that is larger stays behind
ALL_REDUCE_BYTES = 256 * 2**20
SUMMARY = "summary.json"
NEEDED = ("torch", "transformers", "numpy", "pandas", "pyarrow", "scipy", "psutil", "yaml", "pydantic", "pynvml")
SCALEPROOF = [sys.executable, "-m", "scaleproof"]
WAITING = re.compile(r"^scaleproof: (waiting for .+, which uses .+)$", re.MULTILINE)


class Refused(Exception):
    """Nothing can begin; the message says why, and what to do."""


@dataclass(frozen=True)
class Step:
    """One command of a stage. `limit` in seconds.

    `record`: a file whose `status` says how it went, since what has failed is published too, with exit code 0.
    `finds`: what stands in the line that sums up its findings; with it, exit code 1 means that it worked and has some.
    """

    name: str
    command: list[str]
    limit: float
    record: Path | None = None
    finds: str = ""


@dataclass(frozen=True)
class Machine:
    """What decides which steps there are. `low`: the precision for speed."""

    devices: int
    low: str
    deepspeed: bool
    stand_in: bool


def machine(stand_in: bool) -> Machine:
    """This machine. Raises Refused where a package or, without `stand_in`, a GPU is missing."""
    if missing := [name for name in NEEDED if not installed(name)]:
        raise Refused(
            f"{sys.executable} has no {', '.join(missing)}: carry wheels (benchmarks/gpu_wheels DIR makes them where "
            "there is a network, --wheels DIR installs them), or give another Python (make PYTHON=...)"
        )
    from scaleproof.measure.machine.gpus import cuda_devices, usable_gpus

    gpus, lost = ([], "") if stand_in else usable_gpus(cuda_devices)
    if not gpus and not stand_in:
        why = f"because {lost}" if lost else "or the installed torch has no CUDA"
        raise Refused(f"no CUDA device is visible, {why}; --stand-in shows on a CPU that the stages work")
    low = "bf16" if all(gpu.capability >= (8, 0) for gpu in gpus) else "fp16"
    return Machine(2 if stand_in else len(gpus), low, installed("deepspeed"), stand_in)


def installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def steps_of(stage: str, here: Machine, folder: Path) -> list[Step]:
    """The commands of a stage; what they leave lies below `folder`."""
    program = ROOT / "benchmarks"
    results = folder / "results"
    if stage == "doctor":
        doctor = [*SCALEPROOF, "doctor", "--results", str(results), *(["--no-ranks"] if here.stand_in else [])]
        facts = Step("facts", [sys.executable, str(program / "gpu_facts.py")], 60)
        return [facts, Step("doctor", doctor, 350, finds="checks failed")]
    if stage == "kernels":
        return [Step("kernels", [sys.executable, str(program / "gpu_kernels.py")], 270)]
    if stage == "others":
        words = [str(program / "trainers.py"), "--rounds", "3", "--budget", "380"]
        small = (
            "import sys; sys.path.insert(0, 'benchmarks'); import trainers as t; t.STEPS, t.SHAPES = 1, t.SHAPES[:1]"
        )
        if here.stand_in:
            words = ["-c", f"{small}; sys.exit(t.main())", "--rounds", "2"]
        return [Step("trainers", [sys.executable, *words], 530, finds="the fastest other's time")]
    return campaign_steps(stage, here, folder)


def campaign_steps(stage: str, here: Machine, folder: Path) -> list[Step]:
    """The runs of a stage's campaign, what goes with them, and their audit."""
    from scaleproof.ground.campaign.loaded import LoadedCampaign

    name = {"runs": gpu_cells.RUNS, "devices": gpu_cells.DEVICES, "speed": gpu_cells.SPEED}[stage]
    made = (
        gpu_cells.stand_in(name) if here.stand_in else gpu_cells.campaign(name, here.devices, here.low, here.deepspeed)
    )
    file, tokens = folder / f"{name}.yaml", folder.with_name("tokens")  # not among what is packed
    file.write_text(json.dumps(made, indent=2) + "\n")
    tokenizer = made["workload"]["tokenizer"]
    make_tokens = (
        "import sys; from pathlib import Path; from scaleproof.measure.doctor.random_tokens import write_random_tokens;"
        "n, v = map(int, sys.argv[2:4]); write_random_tokens(Path(sys.argv[1]), v, n, n // 20, sys.argv[4])"
    )
    count, size = str(gpu_cells.TOKENS[tokenizer]), str(gpu_cells.VOCABULARY[tokenizer])
    listed = [Step("tokens", [sys.executable, "-c", make_tokens, str(tokens), count, size, tokenizer], 30)]
    if stage == "devices":
        kind, nbytes = ("cpu", 2**20) if here.stand_in else ("cuda", ALL_REDUCE_BYTES)
        program = str(ROOT / "benchmarks/gpu_all_reduce.py")
        listed.append(Step("all-reduce", [sys.executable, program, str(here.devices), kind, str(nbytes)], 60))
    cells = [cell.slug for cell in LoadedCampaign(file).cells]
    results = folder / "results" / name
    for cell in cells:
        run = results / "runs" / cell / "rep1"
        words = [*SCALEPROOF, "stage", "train", str(file), cell, "--tokens", str(tokens), "--out", str(run)]
        limit = 130 if "-compile" in cell else 60
        listed.append(Step(f"run {cell}", words, limit, run / "training_metrics.json"))
    if stage == "runs":
        traced = next(cell for cell in cells if cell.startswith("ddp"))
        out = results / "traces" / traced
        words = [*SCALEPROOF, "stage", "trace_capture", str(file), traced, "--tokens", str(tokens), "--out", str(out)]
        listed.append(Step("trace", words, 80, out / "capture.json"))
        listed.append(
            Step("trace summary", [*SCALEPROOF, "trace", "summary", str(out)], 30, out / "profile_summary.json")
        )
    return [*listed, Step("audit", [*SCALEPROOF, "audit", str(results / "runs")], 45, finds="found: ")]


def run_step(step: Step, log: Path, limit: float, environment: dict[str, str]) -> dict[str, Any]:
    """Run one step for at most `limit` seconds; its processes are ended with it."""
    began = time.monotonic()
    with log.open("w") as file:
        process = subprocess.Popen(
            step.command, stdout=file, stderr=subprocess.STDOUT, cwd=ROOT, env=environment, start_new_session=True
        )
        try:
            code: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            end(process)
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    status, reason = judged(step, code, lines)
    seconds = round(time.monotonic() - began, 1)
    return {
        "name": step.name,
        "status": status,
        "reason": reason,
        "seconds": seconds,
        "log": log.name,
        "tail": lines[-5:],
    }


def end(process: subprocess.Popen) -> None:
    """End what is left of a process group: first by asking. What its leader leaves behind would keep the devices."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody is left; macOS: but zombies
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)


def stop(*_: object) -> NoReturn:
    """SIGTERM ends a call as Ctrl-C does: its step does not go on without it, on the devices. A second is not heard."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(128 + signal.SIGTERM)


def judged(step: Step, code: int | None, lines: list[str]) -> tuple[str, str]:
    """How a step went, and why. `code`: None where its time was over; `lines`: its output."""
    last = lines[-1] if lines else ""
    if code is None:
        waits = WAITING.findall("\n".join(lines))
        begun = step.record is not None and any(step.record.parent.glob("*.log"))  # of ranks, which hold the lock
        return ("waiting", waits[-1]) if waits and not begun else ("time limit", last)
    sums = [line for line in lines if step.finds and step.finds in line]
    if code == 1 and sums:
        return "findings", sums[-1]
    if code:
        return "failed", f"exit code {code}: {last or 'it said nothing'}"
    status, reason = recorded(step.record) if step.record else ("done", "")
    return status, reason or (sums[-1] if sums else last)


def recorded(path: Path) -> tuple[str, str]:
    """The status that a run or a trace has published, and its reason."""
    try:
        data = json.loads(path.read_text())
        status, failure = data["status"], data.get("failure") or {}
        reason = f"{failure['class']}: {failure['reason']}" if failure else data.get("reason")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return "failed", f"no result was published ({type(error).__name__})"
    return ("done", "") if status == "ok" else ("failed", str(reason) if status == "failed" else f"{status}: {reason}")


def pack(folder: Path, archive: Path) -> None:
    """All files of a stage in one archive, as a whole or not at all; large ones stay behind."""
    new = archive.with_name(f".{archive.name}.new")
    with tarfile.open(new, "w:gz") as file:
        for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size <= LARGEST):
            file.add(path, path.relative_to(folder))
    new.replace(archive)


def run_stage(stage: str, here: Machine, out: Path, seconds: float, environment: dict[str, str]) -> Iterator[dict]:
    """Run the steps of a stage; archive and result of each step are there before the next begins."""
    if stage == "devices" and here.devices < 2:
        yield {"name": stage, "status": "not here", "reason": "one device is visible", "seconds": 0.0}
        return
    if stage in ("runs", "devices") and not here.deepspeed:
        yield {"name": "zero*", "status": "not here", "reason": "deepspeed is not installed", "seconds": 0.0}
    deadline = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as scratch:
        folder = Path(scratch) / stage
        folder.mkdir()
        for number, step in enumerate(steps_of(stage, here, folder)):
            left = deadline - time.monotonic()
            if left < LEAST_S:
                yield {"name": step.name, "status": "not reached", "reason": "no time was left", "seconds": 0.0}
                continue
            log = folder / f"{stage}-{number:02d}-{step.name.replace(' ', '-')}.log"
            result = run_step(step, log, min(step.limit, left), environment)
            pack(folder, out / f"{stage}.tgz")
            yield result


def show(result: dict[str, Any]) -> None:
    reason = f": {result['reason'][:200]}" if result["reason"] else ""
    print(f"{result['status']:>12}  {result['seconds']:6.1f} s  {result['name']}{reason}", flush=True)


def stage_names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if unknown := [name for name in names if name not in STAGES]:
        raise argparse.ArgumentTypeError(f'there is no stage "{unknown[0]}"; stages: {", ".join(STAGES)}')
    return names


def read_summary(out: Path) -> dict[str, Any]:
    """What earlier calls left in OUT."""
    path = out / SUMMARY
    try:
        earlier = json.loads(path.read_text()).items() if path.exists() else ()
        return {name: {key: stage[key] for key in ("finished", "steps")} for name, stage in earlier}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(f"{path} is damaged ({error!r}): give another folder, or remove it") from None


def write_summary(out: Path, summary: dict[str, Any]) -> None:
    """As a whole or not at all: a call may be killed at any moment."""
    new = out / f".{SUMMARY}.new"
    new.write_text(json.dumps(summary, indent=2) + "\n")
    new.replace(out / SUMMARY)


def install(wheels: Path, site: Path) -> None:
    """The carried wheels, into a folder of their own: what the machine has is not touched."""
    files = sorted(str(path) for path in wheels.glob("*.whl"))
    if not files:
        raise Refused(f"{wheels} has no wheels; benchmarks/gpu_wheels {wheels} makes them where there is a network")
    options = ["--quiet", "--no-index", "--no-deps", "--no-compile", "--target", str(site)]
    done = subprocess.run([sys.executable, "-m", "pip", "install", *options, *files], capture_output=True, text=True)
    if done.returncode:
        raise Refused(f"the wheels of {wheels} do not fit {sys.executable}:\n{done.stderr.strip()}")


def main() -> int:
    """Run the stages that were asked for, or that are left."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder for archives and summary; an earlier call's is added to")
    parser.add_argument("--stages", type=stage_names, default=[], help=f"default: what OUT lacks of {','.join(STAGES)}")
    parser.add_argument("--wheels", type=Path, help="folder of wheels to install first (benchmarks/gpu_wheels)")
    parser.add_argument("--budget", type=float, help="seconds for each stage (default: up to 530)")
    parser.add_argument("--stand-in", action="store_true", help="on a CPU, with tiny models: do the stages work?")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, stop)
    out = args.out.resolve()
    with tempfile.TemporaryDirectory(prefix="gpu-check-site-") as site:
        path = [site, str(ROOT / "src")]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([*path, *filter(None, [os.environ.get("PYTHONPATH")])]),
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        try:
            summary = read_summary(out)
            if args.wheels:
                install(args.wheels, Path(site))
            sys.path[:0] = path
            here = machine(args.stand_in)
            out.mkdir(parents=True, exist_ok=True)
            write_summary(out, summary)  # before anything is measured: OUT may be read-only
        except (Refused, OSError) as problem:
            print(f"gpu-check: {problem}", file=sys.stderr)
            return 2
        left = [name for name in STAGES if not summary.get(name, {}).get("finished")]
        chosen = [name for name in STAGES if name in args.stages] or left
        for stage in chosen:
            print(f"-- {stage}", flush=True)
            summary[stage] = {"finished": False, "steps": []}
            for result in run_stage(stage, here, out, args.budget or STAGES[stage], environment):
                show(result)
                summary[stage]["steps"].append(result)
                write_summary(out, summary)
            summary[stage]["finished"] = all(step["status"] != "not reached" for step in summary[stage]["steps"])
            write_summary(out, summary)
    return conclude(summary, chosen or list(summary), out)


def conclude(summary: dict[str, Any], stages: list[str], out: Path) -> int:
    """Say how the steps of `stages` went; the exit code."""
    steps = [step for name in stages for step in summary[name]["steps"] if step["status"] != "not here"]
    telling = [step["name"] for step in steps if step["status"] == "findings"]
    bad = [step["name"] for step in steps if step["status"] not in ("done", "findings")]
    parts = [f"{len(steps) - len(bad)} of {len(steps)} steps worked"]
    parts += [f"with findings: {', '.join(telling)}"] if telling else []
    parts += [f"did not work: {', '.join(bad)}"] if bad else []
    remaining = [name for name in STAGES if not summary.get(name, {}).get("finished")]
    parts += [f"stages that are left: {', '.join(remaining)}"] if remaining else []
    print("; ".join([*parts, f"{out}/{SUMMARY} has all of it"]))
    return 1 if bad or telling else 0


if __name__ == "__main__":
    code = 128 + signal.SIGINT
    try:
        code = main()
    except KeyboardInterrupt:
        pass
    except SystemExit as ended:
        code = int(ended.code or 0)
    except OSError as problem:  # a disk that is full by now
        print(f"gpu-check: {problem}", file=sys.stderr)
        code = 2
    if code > 128:
        print("gpu-check: stopped; the steps that were finished are in OUT, another call goes on", file=sys.stderr)
    sys.exit(code)
