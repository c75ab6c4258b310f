"""Programs of ranks on devices that are not there: each line of stdin is a job, whose ranks are forked from here.

A job names a program, which is a function below, its arguments, the number of ranks, and a folder for what they return.
The answer is a line: the first rank that failed, or null.
"""

import gc
import importlib
import json
import os
import signal
import socket
import sys
import time
import traceback
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fake_cuda import played
from fake_cuda.amdsmi import AmdSmi, uuid_of
from fake_cuda.lines import watch

played.play(devices=8)

import torch  # noqa: E402
from torch.nn.modules.module import register_module_forward_hook  # noqa: E402

from fake_cuda.planted import DEFECTS  # noqa: E402
from scaleproof.conclude.forecast import frontier_program, sweep_program  # noqa: E402
from scaleproof.ground.campaign.cells import Cell, expand_cells  # noqa: E402
from scaleproof.ground.campaign.config import Campaign  # noqa: E402
from scaleproof.ground.records.run import METRICS  # noqa: E402
from scaleproof.measure.doctor import doctor_gpu, doctor_links, doctor_ranks, doctor_steps, speed  # noqa: E402
from scaleproof.measure.doctor.doctor import examine  # noqa: E402
from scaleproof.measure.doctor.random_tokens import write_random_tokens  # noqa: E402
from scaleproof.measure.launch import local  # noqa: E402
from scaleproof.measure.machine import gpus  # noqa: E402
from scaleproof.measure.machine.provenance import provenance_fields  # noqa: E402
from scaleproof.measure.trace.capture import rank_program  # noqa: E402
from scaleproof.measure.trace.capture.capture_schema import RANK_RESULT, RAW  # noqa: E402
from scaleproof.measure.trainer import measure  # noqa: E402
from scaleproof.measure.trainer import run as whole_run  # noqa: E402
from scaleproof.measure.trainer.__main__ import failure_class  # noqa: E402
from scaleproof.measure.trainer.fed_tokens import FedTokens  # noqa: E402
from scaleproof.measure.trainer.monitor import Monitor  # noqa: E402
from scaleproof.measure.trainer.request import Request  # noqa: E402
from scaleproof.measure.trainer.session import Session  # noqa: E402
from scaleproof.measure.trainer.updates import UpdateLog  # noqa: E402

LIMIT_S = 100
CORPUS = {"vocab_size": 512, "train": 200_000, "val": 10_000, "tokenizer": "bpe-512"}
MODEL = {"layers": 2, "width": 64, "heads": 2, "context": 64}
SEQ_LEN = 32


def main() -> None:
    torch.set_num_threads(1)
    for name in (*local.LIBRARIES, *local.DEEPSPEED):  # once, for all ranks
        importlib.import_module(name)
    gpus.torch_cuda_version = played.always(torch.version.cuda)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print
    write_random_tokens(tokens(), **CORPUS)
    gc.collect()
    gc.freeze()  # what ranks share is not looked through in each of them
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), file=answers, flush=True)


def tokens() -> Path:
    return Path(os.environ["TMPDIR"]) / "tokens"


def run(job: dict[str, Any]) -> int | None:
    """Fork the ranks of a job and wait for them; the first that failed, by number."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks: dict[int, int] = {}
    for rank in range(job["world"]):
        process = os.fork()
        if not process:
            be_rank(job, rank, port)
        ranks[process] = rank
    while ranks:
        process, status = os.waitpid(-1, 0)
        rank = ranks.pop(process)
        if status:
            for other in ranks:
                os.kill(other, signal.SIGKILL)
                os.waitpid(other, 0)
            return rank
    return None


def be_rank(job: dict[str, Any], rank: int, port: int) -> None:
    """Run a job's program as one of its ranks, and end this process."""
    folder = Path(job["folder"])
    log = os.open(folder / f"rank{rank}.log", os.O_CREAT | os.O_WRONLY)
    os.dup2(log, 1)
    os.dup2(log, 2)
    world, failed = job["world"], True
    nodes = int(job["arguments"].get("geometry", "1x1").split("x")[0])
    node, local_rank = divmod(rank, world // nodes)
    socket.gethostname, played.elsewhere = (lambda: f"node{node}"), 8 * node
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(world)}
    os.environ |= {"LOCAL_RANK": str(local_rank), "LOCAL_WORLD_SIZE": str(world // nodes)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    signal.alarm(LIMIT_S)
    try:
        executed = watch(job["watched"]) if job["watched"] else None
        result = PROGRAMS[job["program"]](folder, **job["arguments"])
        sys.settrace(None)
        lines = {name: sorted(numbers) for name, numbers in (executed or {}).items()}
        (folder / f"rank{rank}.json").write_text(json.dumps({"result": result, "lines": lines}))
        failed = False
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(failed)


def cell_of(execution: dict[str, Any], work: dict[str, Any]) -> Cell:
    """A cell of a small model on CUDA."""
    data = {
        "title": "fake",
        "workload": {"model": MODEL, "seq_len": SEQ_LEN, "tokenizer": "bpe-512"},
        "work": {"micro_batch": 2, "accumulation": 2, "global_batch": "derive", "steps": 6} | work,
        "execution": {"device": "cuda"} | execution,
    }
    (cell,) = expand_cells(Campaign.model_validate(data))
    return cell


def request_of(cell: Cell, folder: Path, **names: Any) -> Request:
    provenance: dict[str, Any] = names.pop("provenance", {})
    ids = {"campaign": "fake", "run_id": cell.slug, "time_limit": LIMIT_S, "gpus": 8}
    return Request.for_cell(cell, tokens(), folder, provenance=provenance, **ids | names)


# ---- programs -------------------------------------------------------------------------------------------------------


def steps(folder: Path, choices: list[dict[str, Any]], planted: str | None = None, **execution: Any) -> list[Any]:
    """Some steps of each cell, and what they were. `choices`: keys of `execution`, one mapping for each cell.

    `planted`: a defect of DEFECTS that is put back before.
    """
    if planted:
        DEFECTS[planted]()
    chosen = [cell_of(execution | choice, {}) for choice in choices]
    session = Session(chosen[0], LIMIT_S, gpus=8)
    return [looked_at(session, request_of(cell, folder)) for cell in chosen]


def looked_at(session: Session, request: Request) -> dict[str, Any]:
    """Dispatch, dtypes, traffic, memory and host waits of a cell's steps on this rank."""
    gc.collect()  # cells before it
    left = torch.accelerator.memory_allocated(session.device)
    ready = measure.set_up(session, request)
    made: set[str] = set()

    def note(module: torch.nn.Module, inputs: tuple, output: Any) -> None:
        if type(module).__name__ == "Conv1D":
            made.add(str(output.dtype).removeprefix("torch."))

    hook = register_module_forward_hook(note)
    series = ready.steps(0, 2)
    hook.remove()
    _, probe, probed = measure.make_probed_step(ready, 2)
    fed = FedTokens(request.cell.batch.micro * len(session.shares), SEQ_LEN + 1, session.device)
    with fed.record(ready.entrance), measure.TokensInside(ready.inside), UpdateLog().record(ready.strategy.optimizer):
        waits = doctor_ranks.count_waits_per_step(session.device, ready.steps, 3)  # as in the window
    used_its_own(session)
    return {
        "cell": request.cell.config,
        "parameters": ready.parameters,
        "state_bytes": probe.state_bytes,
        "left_bytes": left,
        "losses": [float(loss) for loss in series.loss],
        "made": sorted(made),
        "probed": probed.model_dump(mode="json"),
        "dtypes": probe.dtypes() | ready.strategy.dtypes(),
        "names": [name for name, _ in ready.strategy.module.named_parameters()],
        "waits": waits,
    }


def used_its_own(session: Session) -> None:
    """Raises AssertionError where this rank has used the device of another: an exclusive compute mode forbids that."""
    first = session.local_rank
    own = {first + offset for offset in range(session.devices_here)}
    used = {number for number in range(8) if played.library.used_devices() >> number & 1}
    assert used <= own, f"rank {session.rank} has used devices {sorted(used)}, its own are {sorted(own)}"


def timed_run(folder: Path, memory: int | None = None, **execution: Any) -> dict[str, Any]:
    """A whole run; rank 0 returns its metrics. `memory`: bytes of the device."""
    if memory:
        played.library.set_limit(int(os.environ["LOCAL_RANK"]), memory)
    cell = cell_of(execution, {"steps": 12, "warmup_steps": 4, "validation_samples": 16})
    known = {"timestamp_utc": "2026-01-01T00:00:00Z"} | provenance_fields("the tests")
    end, os._exit = os._exit, played.always(None)
    try:
        session = whole_run.make_run(request_of(cell, folder, provenance=known, witness_steps=2), time.time())
        session.leave()
        used_its_own(session)
    except torch.OutOfMemoryError as error:
        return {"failure": failure_class(error), "reason": str(error)}
    finally:
        os._exit = end
    return json.loads((folder / METRICS).read_text()) if os.environ["RANK"] == "0" else {}


def run_on_amd(folder: Path) -> dict[str, Any]:
    """A whole run on a device of AMD's, with a torch for ROCm."""
    nvidia = played.properties
    name, version = "AMD Instinct MI300X", "7.0.0"
    sys.modules["amdsmi"] = AmdSmi()
    sys.modules["pynvml"] = SimpleNamespace()  # knows nothing
    gpus._torch_built_for = {"hip": version}.get
    gpus.torch_cuda_version = played.always(None)
    torch.version.hip, torch.version.cuda = version, None
    torch.cuda.get_arch_list = played.always(["gfx90a", "gfx942"])
    torch.cuda.get_device_capability = played.always((9, 4))
    torch.cuda.get_device_properties = lambda device: SimpleNamespace(
        **vars(nvidia(device)) | {"name": name, "uuid": uuid_of(played.number_of(device)), "minor": 4}
    )
    return timed_run(folder, strategy="ddp", geometry="1x2", precision="bf16")


def looks_at_a_compiled_cell(folder: Path) -> list[Any]:
    """Of a compiled cell, on a device with room and on one without: steps to witness, whether the host keeps one."""
    request = request_of(cell_of({"strategy": "single", "compile": True}, {}), folder, witness_steps=3)
    session = Session(request.cell, LIMIT_S, gpus=8)
    written = measure.set_up(session, request_of(cell_of({"strategy": "single"}, {}), folder))
    ready = replace(written, compiled=True)
    decided: list[Any] = []
    for memory in (played.MEMORY, 1):
        played.MEMORY = memory
        decided += [whole_run.count_steps_to_witness(session, request, 0.01), measure.must_keep_on_host(ready)]
    return decided


def speed_of_a_layer(folder: Path) -> float:
    """FLOP/s, as an estimate asks for them."""
    speed.PROBE_S = 0.01
    return speed._measure_flops_undisturbed(speed.Layer("cuda", "bf16", 64, 32))


def doctor_of_devices(folder: Path) -> list[dict[str, Any]]:
    """The doctor's checks of two devices, but for those of kernels that they do not have."""
    visible = gpus.cuda_devices()[:2]
    played.play(devices=2)
    sys.modules["pynvml"].refuse_one(visible[1].uuid, "nvmlDeviceGetClockInfo")
    doctor_gpu.PRODUCT_ROWS, doctor_links.COPIED_BYTES = 256, 1 << 20
    doctor_gpu._find_longest_kernel = lambda call: (f"flash on {call().device.type}", 1.0)
    looks = [look for look in doctor_gpu.checks_of_gpus(visible) if look.name != "torch.compile"]
    entries = examine(looks, visible[0].name, lambda entry: None).checks
    return [entry.model_dump(mode="json") for entry in entries]


def doctor_of_pairs(folder: Path) -> list[int]:
    """The device on which the doctor times a copy between each two of three."""
    played.play(devices=3)
    timed: list[int] = []

    def copy_rate(copy: Any) -> float:
        copy()
        timed.append(torch.cuda.current_device())
        return 100.0

    doctor_links._measure_copy_gb_s, doctor_links.COPIED_BYTES = copy_rate, 1 << 10
    doctor_links.check_pairs()
    return timed


def doctor_without_permission(folder: Path) -> dict[str, Any]:
    """The doctor's look at a device of which NVML tells less and less."""
    nvml = sys.modules["pynvml"]
    nvml.refuse(*(name for name in dir(type(nvml)) if name.startswith("nvmlDeviceGet") and "Handle" not in name))
    (sample,) = doctor_gpu._monitor_during(0.3, lambda: None)
    seen = {"readable": doctor_gpu.judge_readable(sample).evidence, "modes": doctor_gpu.check_uuids().evidence}
    nvml.refuse("nvmlDeviceGetHandleByUUID")
    seen |= {
        "unknown": doctor_gpu.check_uuids().status,
        "monitor": Monitor(torch.device("cuda", 0), ["GPU-0"]).result(),
    }
    return seen | {"none": [look.run().status for look in doctor_gpu.checks_of_gpus([], "a device is lost")]}


def doctor_of_steps(folder: Path) -> dict[str, Any]:
    """What each rank of the doctor's look at steps does, and what is judged of it."""
    doctor_ranks.REDUCED = 1 << 20
    world = int(os.environ["WORLD_SIZE"])
    chosen = doctor_steps.cells_of_strategies(world, on_gpu=True)
    paths = []
    for cell in chosen:
        paths.append(str(folder / f"{os.environ['RANK']}-{cell.slug}.json"))
        request_of(cell, folder).write(Path(paths[-1]))
    (folder / doctor_ranks.CELLS).write_text(json.dumps(paths))
    doctor_ranks.look_at_cells(Request.read(Path(paths[0])))
    if os.environ["RANK"] != "0":
        return {}
    results = json.loads((folder / doctor_ranks.RESULT).read_text())
    verdicts = {}
    for cell in chosen:
        strategy = cell.execution.strategy
        verdict = doctor_steps.judge_step(cell, results["cells"][strategy])
        verdicts[strategy] = [verdict.status, verdict.evidence]
    return {"verdicts": verdicts, "all_reduce_s": results["all_reduce_s"]}


def other_program(folder: Path, kind: str, settings: dict[str, Any], **execution: Any) -> dict[str, Any]:
    """A rank of a trial of memory, of a sweep, or of a trace; what rank 0 has written."""
    module, make, result = OTHERS[kind]
    cell = cell_of(execution, {})
    (folder / module.SETTINGS).write_text(json.dumps(settings))
    (folder / RAW).mkdir(exist_ok=True)
    make(request_of(cell, folder))
    return json.loads((folder / result).read_text()) if os.environ["RANK"] == "0" else {}


OTHERS = {
    "frontier": (frontier_program, frontier_program.try_cell, frontier_program.RESULT),
    "sweep": (sweep_program, sweep_program.time_collectives, sweep_program.RESULT),
    "trace": (rank_program, rank_program.trace_steps, RANK_RESULT),
}
PROGRAMS = {
    "steps": steps,
    "timed_run": timed_run,
    "run_on_amd": run_on_amd,
    "looks_at_a_compiled_cell": looks_at_a_compiled_cell,
    "speed_of_a_layer": speed_of_a_layer,
    "doctor_of_devices": doctor_of_devices,
    "doctor_of_pairs": doctor_of_pairs,
    "doctor_without_permission": doctor_without_permission,
    "doctor_of_steps": doctor_of_steps,
    "other_program": other_program,
}

if __name__ == "__main__":
    main()
