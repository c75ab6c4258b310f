"""Sound campaigns of any shape, analysed and written: does `verify` find a difference in one of them?

`python benchmarks/sound_reports.py [COUNT] [FIRST]`; about a second for each. Their shapes and times are drawn; some
cells lack a run. A test makes nine of them (`tests/verify/test_any_answer.py`).
"""

import sys
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:1] = [str(TESTS), str(TESTS / "verify")]  # not of this folder, whose conclude.py is another

from test_any_answer import any_campaign, finished  # noqa: E402

from scaleproof.verify.campaign import verify  # noqa: E402


def main(count: int = 100, first: int = 0) -> None:
    """Print which of `count` campaigns, from the seed `first` on, are accused, and how many."""
    accused = 0
    for seed in range(first, first + count):
        with TemporaryDirectory() as folder:
            finished(Path(folder), **any_campaign(seed))
            differences = verify(Path(folder), with_manifest=False)[0]
        accused += bool(differences)
        for difference in differences:
            print(f"seed {seed}: {difference}", flush=True)
    print(f"{accused} of {count} sound campaigns accused")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*map(int, sys.argv[1:]))
