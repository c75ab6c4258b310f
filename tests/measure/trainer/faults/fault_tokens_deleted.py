"""A trainer under which somebody deletes the training tokens, in its tenth step."""

import sys
from pathlib import Path

from scaleproof.measure.trainer.__main__ import Request, main
from scaleproof.measure.trainer.batches import Batches

right = Batches.take
TOKENS: list[Path] = []


def take(self, step, micro):
    if step == 10 and TOKENS:
        TOKENS.pop().unlink()
    return right(self, step, micro)


Batches.take = take

if __name__ == "__main__":
    TOKENS.append(Path(Request.read(Path(sys.argv[1])).tokens) / "train.bin")
    main(Path(sys.argv[1]))
