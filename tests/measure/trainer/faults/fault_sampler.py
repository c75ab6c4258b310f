"""A trainer in which every rank takes the samples of rank 0."""

import sys
from pathlib import Path

from scaleproof.measure.corpus.reader import SamplePlan
from scaleproof.measure.trainer.__main__ import main

right = SamplePlan.ids_of_rank
SamplePlan.ids_of_rank = lambda self, step, batch, rank: right(self, step, batch, 0)

if __name__ == "__main__":
    main(Path(sys.argv[1]))
