"""Tables that other people published: sound ones are not accused, and faults once named stay named."""

import pytest
from published_tables import DEVELOP, Fault, PublishedTable, numbers, published_tables

from scaleproof.ground.findings.finding import Correction, Finding

TABLES = list(published_tables())
FEWEST_TABLES = 170
FEWEST_REPOSITORIES = 115


@pytest.fixture(scope="module")
def accusations(tmp_path_factory) -> dict[str, list[Finding]]:
    folder = tmp_path_factory.mktemp("published")
    return {table.name: table.accusations(folder) for table in TABLES}


def ids(table: PublishedTable) -> str:
    return table.name


@pytest.mark.parametrize("table", [t for t in TABLES if not t.provable], ids=ids)
def test_a_sound_table_is_not_accused(accusations, table):
    assert [f"{f.code}: {f.evidence}" for f in table.unfounded(accusations[table.name])] == []


@pytest.mark.parametrize("table", [t for t in TABLES if t.provable and t.split == DEVELOP], ids=ids)
def test_exactly_these_faults_are_named(accusations, table):
    findings = accusations[table.name]
    named = [any(fault.is_in(finding) for finding in findings) for fault in table.provable]
    assert named == [fault.named for fault in table.provable], "write what is named now into the file"
    assert [f"{f.code}: {f.evidence}" for f in table.unfounded(findings)] == []


def test_the_corpus_is_wide_and_its_halves_follow_from_the_names():
    assert len(TABLES) >= FEWEST_TABLES
    assert len({table.source["where"] for table in TABLES}) >= FEWEST_REPOSITORIES
    assert [table.name for table in TABLES if table.split != table.half] == []
    for table in TABLES:
        cells = [cell for fault in table.provable + table.slight for cell in fault.cells]
        assert [cell for cell in cells if cell not in table.table] == [], table.name


def test_a_fault_is_named_where_one_of_its_cells_is_printed():
    fault = Fault("sum", ["3,311,616"], right=[2273280])
    assert numbers("1 234.5 s, 3,311,616, 1:02:03 and 96.56%") == {1234.5, 3311616, 3723, 96.56}
    right, wrong, other = (
        Finding(
            code="parts",
            severity="suspect",
            cells=[],
            runs=["README.md:9"],
            evidence=f"the total is {total}",
            advice="",
            corrected=Correction(value=value, unit="h", derivation=""),
        )
        for total, value in ((3311616, 2.27e6), (3311616, 3.0e6), (33, 2.27e6))
    )
    assert [fault.is_in(finding) for finding in (right, wrong, other)] == [True, True, False]
    assert [fault.contradicts(finding) for finding in (right, wrong, other)] == [False, True, False]
