"""The auditor on tables that other people published: precision and recall by identity, for docs/evidence.md.

Tables, faults and what counts as named: tests/published_tables.py. `--update` writes into the tables of the half for
development which of their faults are named now, as the tests hold them.
"""

import argparse
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from published_tables import DEVELOP, HELD_OUT, PUBLISHED, PublishedTable, published_tables

from scaleproof.ground.findings.finding import Finding


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true")
    update = parser.parse_args().update
    tables = list(published_tables())
    with tempfile.TemporaryDirectory() as folder:
        findings = {table.name: table.accusations(Path(folder)) for table in tables}
    for half in (DEVELOP, HELD_OUT):
        show(half, [table for table in tables if table.split == half], findings)
    if update:
        for table in tables:
            if table.split == DEVELOP and table.provable:
                write_named(table, findings[table.name])
    return 0


def show(half: str, tables: list[PublishedTable], findings: dict[str, list[Finding]]) -> None:
    """Print the counts of one half, and its recall by identity."""
    sound = [table for table in tables if not table.provable]
    accused = [table for table in sound if table.unfounded(findings[table.name])]
    unfounded = sum(len(table.unfounded(findings[table.name])) for table in tables)
    total = sum(len(findings[table.name]) for table in tables)
    print(f"\n{half}: {len(sound)} sound tables, {len(accused)} accused; {total} findings, {unfounded} unfounded\n")
    faults: Counter[str] = Counter()
    named: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for table in tables:
        for fault in table.provable:
            naming = [finding for finding in findings[table.name] if fault.is_in(finding)]
            faults[fault.identity] += 1
            named[fault.identity] += bool(naming)
            wrong[fault.identity] += any(fault.contradicts(finding) for finding in naming)
    print("| identity | provable faults | named | wrong corrected figure |\n|---|---|---|---|")
    for identity, number in sorted(faults.items()):
        print(f"| {identity} | {number} | {named[identity]} | {wrong[identity]} |")
    print(f"| all | {faults.total()} | {named.total()} | {wrong.total()} |")


def write_named(table: PublishedTable, findings: list[Finding]) -> None:
    """Write which faults of a table are named now into its file; the faults stand there in the same order."""
    path = PUBLISHED / f"{table.name}.yaml"
    now = iter([str(any(fault.is_in(finding) for finding in findings)).lower() for fault in table.provable])
    path.write_text(re.sub(r"(?<=^  named: )\w+", lambda _: next(now), path.read_text(), flags=re.MULTILINE))


if __name__ == "__main__":
    sys.exit(main())
