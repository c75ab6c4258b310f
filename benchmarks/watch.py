"""What two lines cost: a plain loop with `scaleproof.watch`, the same loop without, and without once more (A/A).

One process, the sides in turn. The first steps, in which the watch looks at norms and counts operations, are left out
on all sides: they are in no rate.
"""

import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported

import torch
from side_by_side import in_turn, ratios, show
from torch import Tensor

import scaleproof
from scaleproof.ground.campaign.loaded import load_named
from scaleproof.measure.model.build import build_model

STEPS, FIRST = 13, 3
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
WANTED = 1.01


def main() -> int:
    cell = load_named("demo").cell("ddp-n1x1")
    model = build_model(cell)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    batches = list(torch.randint(0, 2048, (STEPS, 8, 129)))

    def seconds(loader: Iterable[Tensor]) -> float:
        """Seconds of the steps after the first ones; what is written after the last step is in no rate either."""
        ends = []
        for batch in loader:
            model(batch).backward()
            optimizer.step()
            optimizer.zero_grad()
            ends.append(perf_counter())
        return ends[-1] - ends[FIRST - 1]

    with tempfile.TemporaryDirectory() as folder:
        watched = in_turn(
            {
                "bare": lambda: seconds(batches),
                "watched": lambda: seconds(scaleproof.watch(batches, model, optimizer, Path(folder))),
                "bare again": lambda: seconds(batches),
            },
            ROUNDS,
        )
    show("A/A: bare over bare", ratios(watched["bare again"], watched["bare"]))
    cost = show("watched over bare", ratios(watched["watched"], watched["bare"]))
    return int(cost > WANTED)


if __name__ == "__main__":
    sys.exit(main())
