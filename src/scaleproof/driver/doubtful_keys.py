"""Keys of a campaign that are allowed, and cannot be meant as far as is known."""

import math
from collections.abc import Sequence

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.measure.machine.gpus import Gpu

MOST_LEARNING_RATE = 0.1  # of AdamW; those of published language models are below 0.01


def doubts_text(loaded: LoadedCampaign, gpus: Sequence[Gpu]) -> str:
    """Return a paragraph with a line for each doubt, and the cells that it is about; "" where there are none."""
    trained = [cell for cell in loaded.cells if cell.command is None]
    target = loaded.campaign.target_loss
    cells_by_doubt = {
        "execution.strategy hsdp shards inside of a node; on one node it is fsdp": [
            cell for cell in trained if cell.execution.strategy == "hsdp" and cell.execution.geometry.nodes == 1
        ],
        f"work.optimizer.learning_rate is above {MOST_LEARNING_RATE}: AdamW moves each weight by that at a step": [
            cell for cell in trained if cell.work.optimizer.learning_rate > MOST_LEARNING_RATE
        ],
        f"target_loss {target} is reached without training: guessing has the logarithm of the vocabulary's size": [
            cell for cell in trained if target != "derive" and target > _guessing_loss(cell)
        ],
        "forecast.hold_out leaves no strategy two sizes, from which a forecast on CPUs has its interval": [
            cell for cell in trained if loaded.held_out(cell) and not gpus and _largest_series(loaded, trained) < 2
        ],
    }
    lines = [f"  {doubt}: {', '.join(cell.slug for cell in cells)}" for doubt, cells in cells_by_doubt.items() if cells]
    return "\n\nAllowed, but is it meant?\n" + "\n".join(lines) if lines else ""


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
