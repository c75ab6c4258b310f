"""Sound campaigns of any shape, analysed and written: does `verify` find a difference in one of them?

`python benchmarks/sound_reports.py [COUNT] [FIRST]`; about five seconds for two of them: one whose shape and times are
drawn, some cells of which lack a run, and the published demo, with its traces and A/B pairs, with other times, failed
runs and questions, most of them with few repeats or pairs. Tests make some of them (`tests/verify/test_any_answer.py`,
`tests/verify/test_any_demo.py`).
"""

import sys
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:1] = [str(TESTS)]  # not of this folder, whose conclude.py is another

from verify.any_demo import differences_in  # noqa: E402
from verify.test_any_answer import any_campaign, finished  # noqa: E402

from scaleproof.conclude.publication.made_again import compare_with_rewritten  # noqa: E402
from scaleproof.verify.campaign import verify  # noqa: E402


def main(count: int = 100, first: int = 0) -> None:
    """Print which of `count` seeds, from `first` on, have an accused campaign, and how many."""
    accused = 0
    for seed in range(first, first + count):
        with TemporaryDirectory() as folder:
            drawn, demo = Path(folder, "drawn"), Path(folder, "demo")
            finished(drawn, **any_campaign(seed))
            of_drawn = [*verify(drawn, with_manifest=False)[0], *compare_with_rewritten(drawn).differences]
            repeats, pairs = [(6, 4), (2, 2), (3, 4), (3, 2), (2, 4), (6, 2)][seed % 6]
            differences = [*map(str, of_drawn), *differences_in(demo, seed, repeats, pairs)]
        accused += bool(differences)
        for difference in differences:
            print(f"seed {seed}: {difference}", flush=True)
    print(f"{accused} of {count} seeds have an accused campaign, of two sound ones each")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*map(int, sys.argv[1:]))
