"""A trainer in which low precision is asked for and never switched on."""

import sys
from contextlib import nullcontext
from pathlib import Path

from scaleproof.measure.strategy.base import Precision
from scaleproof.measure.trainer.__main__ import main

Precision.autocast = lambda self: nullcontext()

if __name__ == "__main__":
    main(Path(sys.argv[1]))
