"""A trainer that updates the weights after every micro-batch."""

import sys
from pathlib import Path

from scaleproof.measure.strategy.native import DDP
from scaleproof.measure.trainer.__main__ import main

right = DDP.micro_step


def micro_step(self, tokens, boundary):
    loss = right(self, tokens, boundary=True)
    if not boundary:
        self.optimizer.step()
        self.optimizer.zero_grad()
    return loss


DDP.micro_step = micro_step

if __name__ == "__main__":
    main(Path(sys.argv[1]))
