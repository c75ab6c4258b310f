"""What several checks need of a table or a text is formed once, and stays as it was formed."""

from markdown_tables import rows

from scaleproof.auditor.checks.context import AuditContext
from scaleproof.auditor.read.discover import gather
from scaleproof.auditor.read.words import describe


def test_all_checks_get_the_columns_that_one_of_them_formed(tmp_path):
    (tmp_path / "a.md").write_text(rows("GPUs | images/s | Loss", "1 | 390 | 2.1", "4 | 1520 | 2.0"))
    (tmp_path / "b.md").write_text(rows("GPUs | images/s | Loss", "2 | 770 | 2.1", "8 | 2950 | 2.0"))
    context = AuditContext(gather([tmp_path]))
    one, other = context.tables

    assert context.figures_of(one) is context.figures_of(one)
    assert [column.texts[0] for column in context.figures_of(other)[0].columns] == ["2", "770", "2.1"]


def test_a_table_does_not_change_what_a_text_of_its_headings_says(tmp_path):
    (tmp_path / "a.md").write_text(rows("Nodes x GPUs | 2x8 | 4x8", "alpha | 390 | 770", "beta | 2.1 | 1.1"))
    before = dict(describe("2x8").numbers)
    gather([tmp_path])

    assert describe("2x8").numbers == before
