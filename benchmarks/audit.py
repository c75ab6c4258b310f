"""The audit of 10,000 metrics files against Python's json reading the same files.

Reading them is the floor of any program that audits them.
"""

import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from external_files import metrics
from side_by_side import in_turn, ratios, show

from scaleproof.auditor.audit import audit_paths

FILES = 10_000
ROUNDS = 3
WANTED = 12.0
LIMIT = 30.0


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for i in range(FILES):  # 25 families of 1, 2, 4 and 8 devices
            chance = random.Random(i)
            place = root / f"{i // 100}" / f"{i}"
            place.mkdir(parents=True)
            place.joinpath("training_metrics.json").write_text(
                json.dumps(metrics([1, 2, 4, 8][i % 4], chance, family=i // 400))
            )
        seconds = in_turn({"audit": lambda: audited(root), "json": lambda: parsed(root)}, ROUNDS)
        longest = max(seconds["audit"])
        print(f"audit of {FILES:,} files: {longest:.1f} s at most (wanted: {LIMIT:g} s)")
        return 0 if show("audit / json", ratios(seconds["audit"], seconds["json"])) <= WANTED and longest < LIMIT else 1


def audited(root: Path) -> float:
    began = time.perf_counter()
    audit = audit_paths([root])
    assert len(audit.runs) == FILES
    return time.perf_counter() - began


def parsed(root: Path) -> float:
    began = time.perf_counter()
    for folder, _, names in os.walk(root):
        for name in names:
            json.loads(Path(folder, name).read_text())
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
