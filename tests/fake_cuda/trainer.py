"""The program of one rank on devices that are not there: as scaleproof.measure.trainer, which it calls."""

import sys
from pathlib import Path

from fake_cuda import played

if __name__ == "__main__":
    played.play(devices=8)
    from scaleproof.measure.trainer.__main__ import main

    main(Path(sys.argv[1]))
