"""Planted faults and the findings that name them: `python benchmarks/planted_faults.py [--only TEXT ...]`.

Each fault is a small patch of one function, run on real ranks that are forked from this process. Prints fault and
finding, and ends with exit code 1 where a fault is not named, or a sound run is accused of more than a disturbed
machine.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1] / "tests"
sys.path.insert(0, str(TESTS))

from faults import (  # noqa: E402, F401
    planted,
    planted_beside,
    planted_blind_spots,
    planted_settings,
    planted_unnoticed,
    planted_window,
    planted_work,
    ranks,
)
from faults.test_faults import named  # noqa: E402


def tokens_in(root: Path) -> Path:
    """A small tokenised corpus of made-up prose."""
    from scaleproof.ground.campaign.corpora import Corpus
    from scaleproof.measure.corpus import documents, tokenise, tokenizer

    chance = random.Random(7)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))) for _ in range(600)]
    prose = [" ".join(chance.choices(words, k=chance.randint(20, 200))) + "." for _ in range(300)]
    (root / "prose.txt").write_text("\n".join(prose))
    documents.gather_documents("prose", Corpus(**in_lines(root)), root)
    folder = root / "bpe-512"
    folder.mkdir()
    tokenizer.train_tokenizer("bpe-512", iter(prose), folder / "tokenizer.json")
    tokenise.tokenise_corpus(root, folder / "tokenizer.json", folder)
    return folder


def in_lines(root: Path) -> dict[str, Any]:
    """The row of that corpus in the table of corpora."""
    return {"source": "text", "files": [str(root / "prose.txt")], "document": "line"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="those with one of these in their name")
    only = parser.parse_args().only
    began, missed = time.monotonic(), []
    faults = sum(any(text in fault.name for text in only) for fault in planted.FAULTS)
    sound = sum(any(text in f"sound {name}" for text in only) for name in planted.SOUND)
    with tempfile.TemporaryDirectory() as folder:
        tokens = tokens_in(Path(folder))
        ranks.load()
        results = Path(folder) / "results/faults"
        for name, keys in planted.SOUND.items():
            if any(text in f"sound {name}" for text in only):
                codes, allowed = named(results, tokens, f"sound {name}", keys, lambda: None)
                accused = sorted(set(codes) - allowed)
                print(f"sound   {name:50} {', '.join(accused) or '-'}", flush=True)
                missed += [f"{name}: {code}: {codes[code]}" for code in accused]
        for fault in planted.FAULTS:
            if not any(text in fault.name for text in only):
                continue
            try:
                codes, allowed = named(results, tokens, fault.name, fault.keys, fault.patch, fault.large)
            except RuntimeError as error:
                codes, allowed = {f"no metrics: {str(error).strip().splitlines()[-1]}": ""}, set()
            expected = set(codes) & set(fault.codes)
            missed += [] if expected else [fault.name]
            label = "named  " if expected else "MISSED "
            print(f"{label} {fault.name:50} {', '.join(sorted(set(codes) - allowed | expected))}", flush=True)
    seconds = time.monotonic() - began
    print(f"{faults} faults, {sound} sound runs, {seconds:.0f} s; not as expected: {missed or 'none'}")
    sys.exit(bool(missed) or not faults + sound)


if __name__ == "__main__":
    main()
