"""How good is the auditor? Random sound tables and logs, and the same with one planted fault each.

    python benchmarks/auditor.py --sets 5000 --faults 2000

Sound sets: tables of scaling experiments in random layouts (forms, words, units, digits, missing columns) and logs in
every form of tests/external_files.py. An accusation (`suspect`, `invalid`) on one of them is false. Faulty sets: a
table or a log with one fault that its own figures can prove. A fault counts as named if a finding above `note` has its
code, and as corrected if a finding's figure is the true one within 3 %. Prints the tables of docs/evidence.md.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "tests")]

from external_files import WRITERS
from generated_logs import LOG_FAULTS
from generated_tables import FAULTS, FORMS, faulty_table, sound_table

from scaleproof.auditor.audit import audit_paths
from scaleproof.ground.errors import UserError
from scaleproof.ground.findings.finding import Correction, Finding


def audit_folder(folder: Path) -> list[Finding] | None:
    """The findings; None where nothing was read."""
    try:
        return audit_paths([folder]).findings
    except UserError:
        return None


def accusations(findings: list[Finding]) -> list[Finding]:
    return [f for f in findings if f.severity != "note"]


def sound_sets(count: int, seed: int, root: Path) -> Iterator[tuple[str, Path]]:
    """(form, folder) of sound sets: three tables for each log."""
    for i in range(count):
        chance = random.Random(f"{seed} sound {i}")
        folder = root / f"sound{i}"
        if i % 4 == 3:
            writer = WRITERS[i // 4 % len(WRITERS)]
            writer(folder, chance)
            yield f"log: {writer.__name__.removeprefix('write_')}", folder
        else:
            table = sound_table(chance, form=FORMS[i % len(FORMS)])
            table.write(folder)
            yield table.form, folder


@dataclass
class Score:
    sets: int = 0
    read: int = 0
    accused: int = 0  # falsely
    named: int = 0
    corrected: int = 0
    correctable: int = 0
    examples: list[str] = field(default_factory=list)


def score_sound(count: int, seed: int, root: Path) -> dict[str, Score]:
    scores: dict[str, Score] = {}
    for form, folder in sound_sets(count, seed, root):
        score = scores.setdefault(form, Score())
        findings = audit_folder(folder)
        score.sets += 1
        score.read += findings is not None
        wrong = accusations(findings or [])
        score.accused += bool(wrong)
        score.examples += [f"{folder}: {f.code}: {f.evidence}" for f in wrong]
    return scores


def score_faults(count: int, seed: int, root: Path) -> dict[str, Score]:
    scores: dict[str, Score] = {}
    for i in range(count):
        names = [*FAULTS, *LOG_FAULTS]
        name = names[i % len(names)]
        chance = random.Random(f"{seed} {name} {i}")
        folder = root / f"fault{i}"
        if name in LOG_FAULTS:
            folder.mkdir(parents=True)
            planted, form = LOG_FAULTS[name](folder, chance), "log"
        else:
            table, planted = faulty_table(name, chance)
            table.write(folder)
            form = table.form
        score = scores.setdefault(name, Score())
        findings = audit_folder(folder)
        score.sets += 1
        score.read += findings is not None
        hits = [f for f in findings or [] if f.code == planted.code and f.severity != "note"]
        score.named += bool(hits)
        if not hits:
            score.examples.append(f"{folder}: {form}: not {planted.code}: {Counter(f.code for f in findings or [])}")
        if planted.figure is not None:
            score.correctable += 1
            right = any(_is(f.corrected, planted.figure) for f in hits)
            score.corrected += right
            if hits and not right:
                score.examples.append(f"{folder}: {planted.figure:.5g} is right: {[str(f.corrected) for f in hits]}")
    return scores


def _is(correction: Correction | str | None, figure: float) -> bool:
    """Within 3 %: what the printed digits of several figures allow."""
    return isinstance(correction, Correction) and abs(correction.value - figure) <= 0.03 * abs(figure)


def report(sound: dict[str, Score], faults: dict[str, Score]) -> str:
    """Two Markdown tables."""
    lines = ["| sound sets | sets | read | accused falsely |", "|---|---|---|---|"]
    for form in sorted(sound):
        score = sound[form]
        lines.append(f"| {form} | {score.sets:,} | {score.read / score.sets:.1%} | {score.accused} |")
    total, read = sum(s.sets for s in sound.values()), sum(s.read for s in sound.values())
    lines += [f"| all | {total:,} | {read / total:.1%} | {sum(s.accused for s in sound.values())} |", ""]
    lines += ["| planted fault | sets | named | right corrected figure |", "|---|---|---|---|"]
    for name, score in faults.items():
        figure = f"{score.corrected / score.correctable:.1%}" if score.correctable else "none is provable"
        lines.append(f"| {name} | {score.sets:,} | {score.named / score.sets:.1%} | {figure} |")
    sets, named = sum(s.sets for s in faults.values()), sum(s.named for s in faults.values())
    corrected, correctable = sum(s.corrected for s in faults.values()), sum(s.correctable for s in faults.values())
    return "\n".join([*lines, f"| all | {sets:,} | {named / (sets or 1):.1%} | {corrected / (correctable or 1):.1%} |"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=5000, help="sound sets")
    parser.add_argument("--faults", type=int, default=2000, help="sets with a planted fault")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--examples", type=int, default=0, help="false accusations and misses to print, of each kind")
    parser.add_argument("--folder", type=Path, help="where to write the sets; a temporary folder without it")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root, start = args.folder or Path(temporary), time.monotonic()
        sound, faults = score_sound(args.sets, args.seed, root), score_faults(args.faults, args.seed, root)
        print(report(sound, faults))
        print(f"\n{args.sets + args.faults:,} sets in {time.monotonic() - start:.0f} s", file=sys.stderr)
        for score in (*sound.values(), *faults.values()):
            for example in score.examples[: args.examples]:
                print(example, file=sys.stderr)


if __name__ == "__main__":
    main()
