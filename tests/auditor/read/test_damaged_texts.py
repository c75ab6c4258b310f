"""Texts that are nearly right: a merge conflict, another encoding, a page that is cut off, a step beyond limits."""

import json
import zipfile

import openpyxl
import pytest
from command_line import scaleproof

from scaleproof.auditor.audit import NoResult, audit_paths
from scaleproof.auditor.compare_external import compare_external
from scaleproof.auditor.read.discover import gather
from scaleproof.auditor.read.grids import MOST_ROWS
from scaleproof.ground.errors import UserError

TABLE = "devices,tokens_per_s\n1,100\n2,190\n"
CONFLICT = "devices,tokens_per_s\n<<<<<<< HEAD\n1,100\n=======\n1,120\n>>>>>>> theirs\n2,190\n"
PAGE = "<table><tr><th>devices<th>tokens_per_s<tr><td>1<td>100<tr><td>2<td>190"
STEPS = [{"step": 1, "loss": 5.0, "tokens_per_s": 100}, {"step": 2, "loss": 4.9, "tokens_per_s": 101}]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("of Excel.csv", f"sep=;\n{TABLE.replace(',', ';')}".encode()),
        ("utf-32.csv", TABLE.encode("utf-32")),
        ("cut off.html", PAGE.encode()),
        ("about git.csv", f"# <<<<<<< is a mark of git\n{TABLE}".encode()),
    ],
)
def test_a_table_is_read_however_it_was_saved(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    evidence = gather([tmp_path / name])
    assert [(row.devices, row.value("tokens_per_s")) for row in evidence.tables[0].rows] == [(1, 100.0), (2, 190.0)]
    assert not evidence.unread


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("conflict.csv", CONFLICT.encode(), "a merge conflict of git begins in line 2"),
        ("zeros.csv", TABLE.encode() + b"4,\0\0\0", "it is binary (byte 35 of it is 0)"),
        ("packed.7z", b"7z", "a .7z file; unpack it"),
        ("table.parquet", b"PAR1", "a .parquet file; export its table as CSV"),
        ("weights.pt", b"PK", "a .pt file"),
        (
            "claims.yaml",
            b"scaleproof_claims: '1.0'\nruns:\n  a: {world_size: 4\n",
            "line 4: expected ',' or '}', but got '<stream end>'",
        ),
        ("nothing.log", b"\0" * 99, "it holds nothing but bytes of value 0"),
        ("comment.json", b'{\n // of us\n "devices": 1}', "(char 3): JSON has no comments)"),
    ],
)
def test_why_a_file_is_not_read(tmp_path, name, content, reason):
    (tmp_path / name).write_bytes(content)
    (unread,) = gather([tmp_path / name]).unread
    assert unread.reason.endswith(reason)


@pytest.mark.parametrize("step", [10**19, 10**400])
def test_a_step_beyond_all_limits_is_named(tmp_path, step):
    lines = [json.dumps(entry | {"step": number}) for number, entry in ((1, STEPS[0]), (2, STEPS[1]), (step, STEPS[1]))]
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    (unread,) = gather([tmp_path]).unread
    assert unread.reason == f"a number in it is too large: a step of {len(str(step))} digits, line 3"


def test_a_loss_that_is_no_number_is_seen_without_colons(tmp_path):
    (tmp_path / "train.log").write_text("".join(f"step {n} loss nan tokens/s 100\n" for n in range(9)))
    assert "did-not-train" in {finding.code for finding in audit_paths([tmp_path]).findings}
    (tmp_path / "train.log").write_text("".join(f"step {n} loss {4 - n / 9:.2f} tokens/s 100\n" for n in range(9)))
    assert "did-not-train" not in {finding.code for finding in audit_paths([tmp_path]).findings}


@pytest.mark.parametrize(("rates", "is_named"), [(("-100",), True), (("nan", "inf"), True), (("0", "0", "128"), False)])
def test_rates_that_are_no_rates_are_named(tmp_path, rates, is_named):
    lines = [f"step {n} loss {4 - n / 9:.2f} tokens/s {rates[n % len(rates)]}\n" for n in range(9)]
    (tmp_path / "train.log").write_text("".join(lines))
    findings = audit_paths([tmp_path]).findings
    assert ("field-unusable" in {finding.code for finding in findings}) is is_named
    assert any("no tokens/s above 0 in 9 lines" in finding.evidence for finding in findings) is is_named


def test_rows_that_are_not_read_are_said(tmp_path):
    for rows in (MOST_ROWS, MOST_ROWS + 9):
        text = "".join(f"{n},{n * 90}\n" for n in range(1, rows + 1))
        (tmp_path / "sweep.csv").write_text(f"devices,tokens_per_s\n{text}")
        reasons = [unread.reason for unread in gather([tmp_path]).unread]
        assert reasons == ([f"only its first {MOST_ROWS:,} rows were read"] if rows > MOST_ROWS else [])


@pytest.mark.parametrize(
    "damage", [(b"</sheetData>", b"<"), (b"<v>97</v>", b"<v>9x7</v>"), (b'r="A2"', b'r="AAAAAA2"')]
)
def test_a_sheet_that_is_damaged_inside_its_workbook_is_named(tmp_path, damage):
    book = openpyxl.Workbook()
    for row in (("devices", "tokens_per_s"), (1, 97), (2, 190)):
        book.active.append(row)
    book.save(tmp_path / "sound.xlsx")
    with zipfile.ZipFile(tmp_path / "sound.xlsx") as sound, zipfile.ZipFile(tmp_path / "t.xlsx", "w") as damaged:
        for name in sound.namelist():
            damaged.writestr(name, sound.read(name).replace(*damage))
    assert len(gather([tmp_path / "sound.xlsx"]).tables) == 1
    (unread,) = gather([tmp_path / "t.xlsx"]).unread
    assert unread.reason.startswith("the workbook cannot be opened: it is damaged")


def test_compare_says_why_a_side_has_no_rate(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.log").write_text("".join(f"step {n} loss 3.{n} tokens/s nan\n" for n in range(9)))
    for side, why in (("empty", r"\(it is empty\)"), ("a.log", r"\(a.log: no tokens/s above 0 in 9 lines\)")):
        with pytest.raises(UserError, match=why):
            compare_external(tmp_path / side, tmp_path / side, [])


def test_many_names_make_a_short_message(tmp_path):
    paths = [tmp_path / f"notes{n}.txt" for n in range(99)]
    for path in paths:
        path.write_text("x")
    with pytest.raises(NoResult) as fault:
        audit_paths(paths)
    assert len(str(fault.value)) < 400


def test_a_claims_file_alone_is_no_result(tmp_path):
    (tmp_path / "claims.yaml").write_text("scaleproof_claims: '1.0'\nruns:\n  a: {world_size: 4}\n")
    with pytest.raises(NoResult, match="no benchmark result among 1 file"):
        audit_paths([tmp_path / "claims.yaml"])


def test_a_ratio_that_has_no_upper_end_is_not_printed(tmp_path):
    (tmp_path / "t.csv").write_text("devices,tokens_per_s\n1,1\n2,2\n")
    assert [line.speedup for line in audit_paths([tmp_path]).scaling] == ["", ""]


def test_what_this_user_may_not_open_ends_with_exit_code_2(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text(TABLE)
    assert scaleproof("audit", "t.csv", cwd=tmp_path).returncode == 0

    def closed(folder, unread, own_run):
        from scaleproof.auditor.read.reported import Unread

        unread.append(Unread("runs", "Permission denied", "permission"))
        yield folder

    monkeypatch.setattr("scaleproof.auditor.read.text_files.files_below", closed)
    assert scaleproof("audit", "t.csv", cwd=tmp_path).returncode == 2


@pytest.mark.parametrize(("rows", "devices"), [("1,1,024\n2,2,010\n", []), ("1,100\n2,2,010\n4,390\n", [1, 4])])
def test_a_row_with_more_values_than_the_heading_has_no_figures(tmp_path, rows, devices):
    (tmp_path / "t.csv").write_text(f"devices,tokens_per_s\n{rows}")
    evidence = gather([tmp_path])
    assert [row.devices for table in evidence.tables for row in table.rows] == devices
    assert "more values than the heading has names" in evidence.unread[0].reason
