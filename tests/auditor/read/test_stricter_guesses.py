"""What a table does not say is left blank, and tables of a form that is not read are named."""

import pytest
from markdown_tables import rows

from scaleproof.auditor.audit import NoResult, audit_paths

TABLE = rows("GPUs | tokens/s", "1 | 21300", "8 | 158000")
FORMS = {
    "AsciiDoc": "|===\n|GPUs |tokens/s\n\n|1 |21300\n|8 |158000\n|===\n",
    "MediaWiki": '{| class="wikitable"\n! GPUs !! tokens/s\n|-\n| 1 || 21300\n|}\n',
    "list-table": ".. list-table::\n\n   * - GPUs\n     - tokens/s\n   * - 8\n     - 158000\n",
    "several figures": rows("GPUs | result", "8 | rate: 158000 tok/s<br>time: 41 ms"),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_form_that_is_not_read_is_named(tmp_path, form):
    (tmp_path / "README.md").write_text(FORMS[form])
    with pytest.raises(NoResult, match=rf"README\.md:\d: .*{form}.*give a row a line, as Markdown or CSV"):
        audit_paths([tmp_path / "README.md"])


def test_a_table_that_is_read_is_of_no_other_form(tmp_path):
    (tmp_path / "README.md").write_text(f"- a\n+ b | c\n\n{TABLE}\n" + rows("GPUs | note", "8 | a<br>b 2"))
    assert audit_paths([tmp_path / "README.md"]).not_read == {}


def test_a_device_before_a_heading_is_that_of_its_rows(tmp_path):
    (tmp_path / "README.md").write_text(rows("GPUs | A100 img/s | H100 img/s", "1 | 390 | 800", "8 | 3000 | 6200"))
    audit = audit_paths([tmp_path / "README.md"])
    assert [line.speedup for line in audit.scaling if line.devices == 8] == ["7.69x", "7.75x"]
    assert audit.findings == []


def test_the_ratio_of_two_devices_is_no_speed_up_of_a_row(tmp_path):
    text = rows("Batch | A100 (ms) | H100 (ms) | H100 speedup", "1 | 39 | 20 | 1.95", "8 | 300 | 120 | 2.5")
    (tmp_path / "README.md").write_text(text)
    assert audit_paths([tmp_path / "README.md"]).findings == []


def test_a_spread_is_no_configuration_and_a_percentage_no_time(tmp_path):
    text = rows("Metric | Avg | Stdev | Max | Wall (%)", "Step time (ms) | 41.2 | 1.1 | 55 | 97")
    (tmp_path / "README.md").write_text(text)
    assert [line.name for line in audit_paths([tmp_path / "README.md"]).readings] == ["Avg"]


def test_columns_called_after_the_largest_are_configurations(tmp_path):
    (tmp_path / "README.md").write_text(rows("Metric | GPT Max | GPT Min", "Step time (ms) | 41.2 | 11.1"))
    assert len(audit_paths([tmp_path / "README.md"]).readings) == 2


def test_headings_that_are_not_understood_are_named_without_markup(tmp_path):
    rows_of_tex = r"\textbf{Ctx} & \textbf{Foo (bar)} \\" + "\n" + r"4 & 27.3 \\" + "\n" + r"8 & 26.0 \\"
    (tmp_path / "a.tex").write_text("\\begin{tabular}{rr}\n" + rows_of_tex + "\n\\end{tabular}\n")
    with pytest.raises(NoResult, match=r"not understood: Ctx, Foo \(bar\);"):
        audit_paths([tmp_path / "a.tex"])


def test_a_rule_below_a_line_with_bars_makes_no_table_of_other_lines(tmp_path):
    lines = ["loss 3.2 | 100 tokens/s | 8 GPUs", "-" * 30, "done | in 9 s", "saved | to a | disk | 7"]
    (tmp_path / "README.md").write_text("\n".join(lines))
    with pytest.raises(NoResult):
        audit_paths([tmp_path / "README.md"])
