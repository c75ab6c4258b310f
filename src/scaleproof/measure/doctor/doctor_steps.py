"""Does scaleproof measure right here? Steps of each strategy on real ranks, and what they should have done."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scaleproof.ground.campaign.cells import Cell, expand_cells
from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.campaign.strategies import LOW, is_deepspeed
from scaleproof.ground.facts.traffic import fits_formula, moved_bytes, step_traffic
from scaleproof.ground.verdict import Verdict, judged
from scaleproof.measure.doctor.doctor_links import least_rate
from scaleproof.measure.doctor.doctor_ranks import CELLS, REDUCED, RESULT
from scaleproof.measure.doctor.random_tokens import write_random_tokens
from scaleproof.measure.launch.attempt import REQUEST, run_ranks
from scaleproof.measure.launch.supervise import Interrupted
from scaleproof.measure.machine.gpus import cuda_devices
from scaleproof.measure.machine.provenance import links_between
from scaleproof.measure.model.inventory import inventory_of
from scaleproof.measure.trainer.request import Request

STRATEGIES = ("ddp", "fsdp", "zero0", "zero1", "zero2", "zero3")
MOST_CLOCKS_APART = 0.02  # part by which steps and wall-clock time may differ
LEAST_CLOCKS_APART_S = 0.03  # by which they may, however few the steps are: a rank that waited for its core
LIMIT_S = 150.0
PROGRAM = "scaleproof.measure.doctor.doctor_ranks"


def cells_of_strategies(devices: int, on_gpu: bool) -> list[Cell]:
    """Return a small cell of each strategy on `devices` devices of this node; on one device `single` too."""
    strategies = STRATEGIES if devices > 1 else ("single", *STRATEGIES)
    data = {
        "title": "doctor",
        "workload": {
            "model": {"layers": 2, "width": 64, "heads": 2, "context": 64},
            "seq_len": 64,
            "tokenizer": "bpe-512",
        },
        "work": {"micro_batch": 4, "global_batch": "derive", "steps": 10},
        "execution": {
            "geometry": f"1x{devices}",
            "device": "cuda" if on_gpu else "cpu",
            "precision": "bf16" if on_gpu else "fp32",
        },
        "vary": {"strategy": list(strategies)},
    }
    return expand_cells(Campaign.model_validate(data))


def judge_strategies(devices: int, gpus: int) -> Iterator[tuple[str, Verdict]]:
    """Yield name and verdict of each strategy's steps on `devices` ranks. `gpus`: the number of GPUs, 0 on a CPU."""
    cells = cells_of_strategies(devices, gpus > 0)
    with tempfile.TemporaryDirectory(prefix="scaleproof-doctor-") as root:
        results, log = look_on_ranks(cells, Path(root), gpus)
    end_of_log = " | ".join(log[-3:])
    if not results:
        advice = "no rank could work: the last lines of its output stand in the evidence"
        yield "ranks", Verdict("FAIL", end_of_log or "no output", advice)
        return

    yield "ranks", judged(True, f"{results['world_size']} ranks on {results['device']}", "")
    for cell in cells:
        strategy = cell.execution.strategy
        observed = results["cells"].get(strategy)
        if observed is None:
            advice = "the strategy before it took too long, or ended the ranks"
            yield strategy, Verdict("FAIL", f"not reached (all have {LIMIT_S:.0f} s): {end_of_log}", advice)
        else:
            yield strategy, judge_step(cell, observed)
    if results.get("all_reduce_s"):
        links = links_between([gpu.uuid for gpu in cuda_devices()])
        yield "all-reduce", judge_all_reduce(results["all_reduce_s"], results["world_size"], list(links.values()))


def judge_all_reduce(seconds: float, world_size: int, links: list[str]) -> Verdict:
    """Judge whether an all-reduce of REDUCED bytes in `seconds` is as fast as its `links`, named as by nvidia-smi.

    The bus bandwidth of an all-reduce is the speed of the slowest link, whatever the number of ranks (nccl-tests,
    doc/PERFORMANCE.md).
    """
    bus_gb_s = 2 * (world_size - 1) / world_size * REDUCED / seconds / 1e9
    least = min(map(least_rate, links or [""]))  # "": an unknown link
    link_names = ", ".join(sorted(set(links))) or "unknown links"
    evidence = (
        f"{bus_gb_s:.1f} GB/s of bus bandwidth at {REDUCED >> 20} MB over {link_names}, which give {least:g} or more"
    )
    advice = "NCCL_DEBUG=INFO names the way that it takes: SHM or NET in place of P2P is slow"
    return judged(bus_gb_s >= least, evidence, advice, bus_gb_s=bus_gb_s)


def look_on_ranks(cells: list[Cell], root: Path, gpus: int) -> tuple[dict[str, Any], list[str]]:
    """Have ranks make steps of the `cells`, with files in the folder `root`.

    Returns their results, as `doctor_ranks.look_at_cells` writes them ({} without any), and the lines that they
    printed. `gpus`: the number of GPUs. Raises KeyboardInterrupt where somebody stopped them.
    """
    tokens = write_random_tokens(root / "tokens", vocab_size=512, train=200_000, val=10_000)
    names = {"campaign": "doctor", "run_id": "doctor", "time_limit": LIMIT_S, "gpus": gpus}

    paths = []
    for cell in cells:
        request = Request.for_cell(cell, tokens, root, provenance={}, **names)
        paths.append(root / f"{cell.slug}.json")
        request.write(paths[-1])

    (root / CELLS).write_text(json.dumps([str(path) for path in paths]))
    request.write(root / REQUEST)  # the request of any cell starts the ranks of all: they have one geometry
    try:
        outcome = run_ranks(request, root / "doctor.log", PROGRAM, nodes=None, steps=0)
    except Interrupted as stopped:
        raise KeyboardInterrupt from stopped  # no verdict about this machine

    log = [text for text in outcome.tail if text.strip()]
    if outcome.timed_out:
        log.append("the ranks were ended: their time was over")
    result = root / RESULT
    return json.loads(result.read_text()) if result.exists() else {}, log


def judge_step(cell: Cell, observed: dict[str, Any]) -> Verdict:
    """Judge a strategy's `observed` steps: bytes exchanged, precision, agreement of clocks, no waits of the host."""
    if errors := [error for error in observed["errors"] if error]:
        return Verdict("FAIL", errors[0], "this strategy cannot be measured here until that is fixed")
    problems = list(_step_problems(cell, observed))
    clock = f"steps are {observed['steps_s'] / observed['wall_s']:.2%} of wall-clock time"
    evidence = "; ".join(problems) or f"traffic, precision and clocks agree ({clock})"
    advice = "scaleproof would measure this strategy wrongly here; please report it with doctor.json"
    values = {key: observed[key] for key in ("collectives", "dtypes", "waits", "steps_s", "wall_s")}
    return judged(not problems, evidence, advice, **values)


def _step_problems(cell: Cell, observed: dict[str, Any]) -> Iterator[str]:
    """Yield a sentence for each fault of a strategy's steps: see `judge_step`."""
    execution = cell.execution
    if execution.geometry.n_devices > 1:
        blocks = sum(inventory_of(cell).blocks)  # parameters in all blocks
        # 1: one micro-batch a step.
        expected = step_traffic(execution.strategy, execution.precision, 1, observed["parameters"], blocks)
        moved = moved_bytes(observed["collectives"])
        for kind, (low, high) in expected.items():
            if not fits_formula(moved[kind], (low, high)):
                yield f"{moved[kind]:,} bytes are {kind}, the formula says {low:,.0f} to {high:,.0f}"

    products = observed["dtypes"]["products"]  # "bfloat16+float32"
    if LOW.get(execution.precision, "float32") not in products.split("+"):
        yield f"matrix products ran in {products}, not {execution.precision}"
    steps_s, wall_s = observed["steps_s"], observed["wall_s"]
    if abs(steps_s - wall_s) > max(MOST_CLOCKS_APART * wall_s, LEAST_CLOCKS_APART_S):
        yield f"steps add up to {steps_s:.4f} s, the wall clock says {wall_s:.4f} s"

    waits = observed["waits"]
    if is_deepspeed(execution.strategy):  # its host waits in each update that clips, to read the gradients' norm
        waits = {line: times for line, times in waits.items() if not line.startswith("deepspeed/")}
    if waits:
        yield "the host waits at " + ", ".join(f"{line} ({times:g}x)" for line, times in waits.items())
