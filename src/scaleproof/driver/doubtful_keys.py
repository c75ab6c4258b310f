"""Keys of a campaign that are allowed, and cannot be meant as far as is known."""

import math
import re
from collections.abc import Sequence

from scaleproof.ground.campaign.cell_checks import is_used_of_section
from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.config import AXES
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.campaign.question_cells import cells_of_question
from scaleproof.measure.machine.applicable import reason_anywhere
from scaleproof.measure.machine.gpus import Gpu

TORCHRUN = re.compile(r"\btorchrun\b|torch\.distributed\.run\b")
PROCESSES = re.compile(r"--nproc[-_]per[-_]node[= ](\d+)\b")
MOST_TRACED = 50  # steps: a few show what a step is made of
LEARNING_RATES = (1e-8, 0.1)  # of AdamW; those of published language models are from 1e-6 to 0.01


def doubts_text(loaded: LoadedCampaign, gpus: Sequence[Gpu]) -> str:
    """Return a paragraph with a line for each doubt, and the cells that it is about; "" where there are none."""
    trained = [cell for cell in loaded.cells if cell.command is None]
    commanded = [cell for cell in loaded.cells if cell.command is not None]
    campaign, target = loaded.campaign, loaded.campaign.target_loss
    least, most = LEARNING_RATES
    cells_by_doubt = {
        "execution.strategy hsdp shards inside of a node; on one node it is fsdp": [
            cell for cell in trained if cell.execution.strategy == "hsdp" and cell.execution.geometry.nodes == 1
        ],
        f"work.optimizer.learning_rate is above {most}: AdamW moves each weight by that at a step": [
            cell for cell in trained if cell.work.optimizer.learning_rate > most
        ],
        f"work.optimizer.learning_rate is below {least}: weights stay as they are": [
            cell for cell in trained if cell.work.optimizer.learning_rate < least
        ],
        f"target_loss {target} is reached without training: guessing has the logarithm of the vocabulary's size": [
            cell for cell in trained if target != "derive" and target > _guessing_loss(cell)
        ],
        "question is about what can run on no machine": [
            cell for cell in _questioned(loaded) if cell.command is None and reason_anywhere(cell)
        ],
        "compare is about what can run on no machine": [
            arm for _, *arms in loaded.comparisons.values() for arm in arms if reason_anywhere(arm)
        ],
        "execution.compile reduce-overhead is for CUDA graphs, and these cells run on a CPU": [
            cell for cell in trained if cell.execution.compile == "reduce-overhead" and cell.execution.device == "cpu"
        ],
        "forecast.hold_out leaves no strategy two sizes, from which a forecast on CPUs has its interval": [
            cell for cell in trained if loaded.held_out(cell) and not gpus and _largest_series(loaded, trained) < 2
        ],
        "workload.command states another number of processes than the cell has devices; {devices_per_node} is it": [
            cell
            for cell in commanded
            if _stated_processes(cell) not in (None, cell.execution.geometry.devices_per_node)
        ],
        "workload.command has torchrun without --nnodes={nodes}, which trains on each node by itself": [
            cell
            for cell in commanded
            if cell.execution.geometry.nodes > 1
            and TORCHRUN.search(cell.command or "")
            and "nnodes" not in (cell.command or "")
        ],
        "workload.command has a long dash where an option begins, which needs hyphens: --": [
            cell for cell in commanded if any(word.startswith(("\u2013", "\u2014")) for word in cell.words)
        ],
        "trace.interconnect looks at the links of GPUs, and these cells run on a CPU": [
            cell for cell in loaded.traced if campaign.trace.interconnect and cell.execution.device == "cpu"
        ],
        "trace.tool nsys sees neither operators nor gloo's collectives on a CPU; torch.profiler sees both": [
            cell for cell in loaded.traced if campaign.trace.tool == "nsys" and cell.execution.device == "cpu"
        ],
        "work.steps changes nothing: workload.command has no {steps}": [
            cell
            for cell in commanded
            if "{steps}" not in (cell.command or "") and "steps" in cell.work.model_fields_set
        ],
    }
    n_traced = campaign.trace.steps
    if n_traced > MOST_TRACED:
        doubt = f"trace.steps is {n_traced}: a few show what a step is made of, and each adds to the files and the time"
        cells_by_doubt[doubt] = loaded.traced
    lines = [f"  {doubt}: {', '.join(cell.slug for cell in cells)}" for doubt, cells in cells_by_doubt.items() if cells]
    for axis, (section, _) in AXES.items():
        if axis in getattr(campaign, section).model_fields_set and not is_used_of_section(campaign, axis):
            replacing = "cells" if getattr(campaign.vary, axis) is None else f"vary.{axis}"
            lines.append(f"  {section}.{axis} has no effect: {replacing} replaces it")
    if campaign.trace.model_fields_set - {"cells"} and not loaded.traced:
        lines.append("  trace names no cells, and nothing is traced: add cells: all, or names of cells")
    return "\n\nAllowed, but is it meant?\n" + "\n".join(lines) if lines else ""


def _questioned(loaded: LoadedCampaign) -> Sequence[Cell]:
    """Return the cells that the campaign's question is about."""
    names = (cells_of_question(loaded.campaign.question, loaded.cells) or {}).values()
    return [cell for cell in loaded.cells if cell.slug in names]


def _stated_processes(cell: Cell) -> int | None:
    """Return how many processes on each node a command says that its launcher is to start; None where it does not."""
    stated = PROCESSES.search(" ".join(cell.words))
    return int(stated[1]) if stated else None


def _guessing_loss(cell: Cell) -> float:
    """Return the loss of a model that takes all tokens for equally likely; infinite where it is not known."""
    return math.log(cell.vocab_size) if cell.workload.task == "language-modelling" else math.inf


def _largest_series(loaded: LoadedCampaign, trained: Sequence[Cell]) -> int:
    """Return the largest number of sizes of one strategy that the forecast is made from."""
    measured = {
        (cell.execution.strategy, cell.execution.geometry.n_devices) for cell in trained if not loaded.held_out(cell)
    }
    strategies = [strategy for strategy, _ in measured]
    return max(map(strategies.count, strategies), default=0)
