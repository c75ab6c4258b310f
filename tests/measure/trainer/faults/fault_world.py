"""A trainer whose ranks know nothing of each other, as where a launcher is started per task: each is its own world."""

import os
import sys
from pathlib import Path

from scaleproof.measure.trainer.__main__ import main

os.environ |= {"WORLD_SIZE": "1", "RANK": "0"}

if __name__ == "__main__":
    main(Path(sys.argv[1]))
