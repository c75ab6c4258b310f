"""Random sound campaigns, none of which may be accused: `python benchmarks/sound_records.py [SETS]` (2,000).

Complete records of runs, made without training, with the noise of quiet machines, half of the sets on GPUs: every
finding above `note` is a false accusation. Prints them by code, and ends with exit code 1 where there is one.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from sound_records import random_set

from scaleproof.conclude.checks.all_checks import audit


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", type=int, nargs="?", default=2000, help="campaigns to make")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="of the first campaign; others follow it")
    args = parser.parse_args()
    began = time.perf_counter()
    runs = 0
    accused: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for seed in range(args.first, args.first + args.sets):
        with tempfile.TemporaryDirectory() as folder:
            records = random_set(Path(folder) / "results/x", seed, gpus=seed % 2 == 1)
            runs += len(records)
            for finding in audit("x", records).findings:
                if finding.severity != "note":
                    accused[finding.code] += 1
                    examples.setdefault(finding.code, f"seed {seed}, {finding.runs}: {finding.evidence}")
    seconds = time.perf_counter() - began
    print(f"{args.sets:,} sets of {runs:,} sound runs in {seconds:.0f} s: {accused.total()} accusations")
    for code, count in accused.most_common():
        print(f"  {code}: {count}, for example {examples[code]}")
    return 1 if accused else 0


if __name__ == "__main__":
    sys.exit(main())
