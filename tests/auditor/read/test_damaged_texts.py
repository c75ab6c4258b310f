"""Texts that are nearly right: a merge conflict, another encoding, a page that is cut off, a step beyond limits."""

import contextlib
import json
import sqlite3
import zipfile

import openpyxl
import pytest
from command_line import scaleproof
from workbooks import changed_workbook

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
        ("cut in a cell.html", f"{PAGE}</td></tr>\n<tr><td>4</td> <td>3".encode()),
        ("title.csv", f"Scaling of ours\n\n{TABLE}".encode()),
        ("about git.csv", f"# <<<<<<< is a mark of git\n{TABLE}".encode()),
    ],
)
def test_a_table_is_read_however_it_was_saved(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    evidence = gather([tmp_path / name])
    rows = [(row.devices, row.value("tokens_per_s")) for row in evidence.tables[0].rows]
    assert [row for row in rows if row[1]] == [(1, 100.0), (2, 190.0)]
    assert len(rows) == 2 + name.startswith("cut in"), "a figure that is cut off is none"
    assert not evidence.unread


@pytest.mark.parametrize(
    ("name", "text", "ending"),
    [
        ("t.md", "| GPUs | tokens/s |\n|---|---|\n| 1 | 100 |\n| 2 | 190 |\n| 4 | 38", "0 |\n"),
        ("t.md", "GPUs | tokens/s\n--- | ---\n1 | 100\n2 | 190\n4 | 38", None),  # no row has a bar at its end
        ("t.tex", "\\begin{tabular}{lr}\nGPUs & tokens/s \\\\\n1 & 100 \\\\\n2 & 190 \\\\\n4 & 38", "0\\end{tabular}"),
    ],
)
def test_a_figure_at_which_a_table_is_cut_off_is_none(tmp_path, name, text, ending):
    for whole, figure in ((text, None if ending else 38), (text + (ending or "0"), 380)):
        (tmp_path / name).write_text(whole)
        rows = [(row.devices, row.value("tokens_per_s")) for row in gather([tmp_path]).tables[0].rows]
        assert rows[:2] == [(1, 100), (2, 190)]
        assert {rate for _, rate in rows[2:]} <= {figure}, rows


def test_rows_that_pandas_leaves_out_do_not_end_a_table(tmp_path):
    rows = "0        1      1000\n1        2      1980\n..     ...       ...\n7      128    120000\n"
    (tmp_path / "t.txt").write_text(f"   devices  tokens/s\n{rows}")
    (table,) = gather([tmp_path]).tables
    assert [(row.devices, row.value("tokens_per_s")) for row in table.rows] == [(1, 1000), (2, 1980), (128, 120000)]


@pytest.mark.parametrize(("heading", "what"), [("tokens/s", "figures"), ("zorks", "headings")])
def test_what_of_a_table_is_not_understood(tmp_path, heading, what):
    (tmp_path / "t.md").write_text(f"| GPUs | {heading} |\n|---|---|\n| 1 | 950-1050 |\n| 2 | 1900-2060 |\n")
    (unread,) = gather([tmp_path / "t.md"]).unread
    assert unread.reason == f"a table whose {what} are not understood: GPUs, {heading}"


@pytest.mark.parametrize(("formula", "is_said"), [("=B2/B$2", True), (1.0, False)])
def test_formulas_without_their_values_are_said(tmp_path, formula, is_said):
    book = openpyxl.Workbook()
    for row in (("gpus", "tokens/s", "speedup"), (1, 1000, formula), (2, 1900, 1.9)):
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    with zipfile.ZipFile(tmp_path / "t.xlsx", "a") as parts:  # of no sheet: a text that is "" by its formula
        parts.writestr("xl/worksheets/sheet9.xml", '<c r="A1" t="str"><f>B1</f><v></v></c>')
    evidence = gather([tmp_path / "t.xlsx"])
    assert {row.devices: row.value("tokens_per_s") for row in evidence.tables[0].rows} == {1: 1000.0, 2: 1900.0}
    reasons = [unread.reason for unread in evidence.unread]
    assert reasons == ["formulas without their values were not read; open the workbook, and save it again"] * is_said


def test_a_figure_whose_digits_are_lost_is_none(tmp_path):
    (tmp_path / "zeros.csv").write_bytes(TABLE.encode() + b"4,38\0\0\n\0\0\x008,700\n")
    rows = gather([tmp_path]).tables[0].rows
    assert [(row.devices, row.value("tokens_per_s")) for row in rows] == [(1, 100), (2, 190), (4, None), (8, 700)]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("conflict.csv", CONFLICT.encode(), "a merge conflict of git begins in line 2"),
        (
            "zeros.csv",
            TABLE.encode() + b"4,\0\0\0",
            "bytes of value 0 in line 4: a part of it was lost; the rest was read",
        ),
        ("zeros.bin.csv", b"\1\2\0\3", "it is binary (byte 2 of it is 0)"),
        ("packed.csv", b"\x1f\x8b\x08\0", "by its first bytes it is gzip data; name it .gz"),
        (
            "book.csv",
            b"PK\x03\x04",
            "by its first bytes it is a zip archive or an Office document; name it .zip or .xlsx",
        ),
        (
            "chinese.md",
            "| GPU数量 | 吞吐量 (tokens/s) |\n|---|---|\n| 1 | 1000 |\n".encode("gbk"),
            "it is not UTF-8, and its words may be of another encoding than Latin-1; save it as UTF-8",
        ),
        (
            "shorter.csv",
            b"gpus,batch,tokens/s,speedup\n1,8,1000,1.0\n2,1900,1.9\n4,8,3700,3.7\n",
            "fewer values than the heading has names, not read; a missing one needs its delimiter",
        ),
        (
            "cut.ipynb",
            b'{"cells": [{"cell_type": "code"',
            "it is no notebook: no JSON, or cut off (line 1, column 32: it ends there)",
        ),
        ("commented.json", b'// Monday\n{"gpus": 4, "tokens_per_sec": 4000}\n', "column 1: JSON has no comments)"),
        (
            "cut.json",
            b'[{"gpus": 1, "tokens_per_sec": 1000},\n{"gpus": 2, "tok',
            "in line 2; what stands before was read",
        ),
        ("packed.7z", b"7z", "a .7z file; unpack it"),
        ("table.parquet", b"PAR1", "a .parquet file; export its table as CSV"),
        ("weights.pt", b"PK", "a .pt file"),
        (
            "claims.yaml",
            b"scaleproof_claims: '1.0'\nruns:\n  a: {world_size: 4\n",
            'the bracket of line 3 is not closed, a comma is missing, or a text with {, [ or ": " in it needs quotes)',
        ),
        ("events.out.tfevents.1.gpu7.cs", b"\n", "it is empty"),
        (
            "events.out.tfevents.1.h.2",
            b"\x0f\0\0\0\0\0\0\0cccc\x1a\x0dbrain.Event:2cccc",
            "it has no scalar of a loss, a rate or a time in three steps or more",
        ),
        ("chart.wandb", b":W&B", "a .wandb file; export its table as CSV"),
        ("long.csv", TABLE.encode() + b"4," + b"1" * 200_000, "field larger than field limit (131072)"),
        (
            "wide.csv",
            b"gpus," + b"c," * 2000 + b"tokens/s\n1," + b"1," * 2000 + b"950\n",
            "it has 2,002 columns, of which the first 200 hold no result",
        ),
        ("of 2014.ipynb", b'{"nbformat": 3, "worksheets": [{"cells": []}]}', "cells: save it with a newer Jupyter"),
        ("cleared.ipynb", b'{"nbformat": 4, "cells": [{"cell_type": "code", "outputs": []}]}', "save it with them"),
        ("run.json", b'{"devices": 1, "runs": [{"tokens_per_s": 100}, {"tokens', "it is cut off in line 1"),
        ("nothing.log", b"\0" * 99, "it holds nothing but bytes of value 0"),
        ("comment.json", b'{\n // of us\n "devices": 1}', "(line 2, column 2: JSON has no comments)"),
    ],
)
def test_why_a_file_is_not_read(tmp_path, name, content, reason):
    (tmp_path / name).write_bytes(content)
    (unread,) = gather([tmp_path / name]).unread
    assert unread.reason.endswith(reason)


def test_broken_json_of_a_folder_is_named_with_its_line(tmp_path):
    (tmp_path / "sound.json").write_text('{"devices": 1, "tokens_per_s": 100}')
    (tmp_path / "broken.json").write_text('{"devices": 1,\n "tokens_per_s" 100}')
    (tmp_path / "broken.txt").write_text('{"devices": 1,\n "tokens_per_s" 100}')
    (unread,) = gather([tmp_path]).unread
    assert (unread.name, unread.kind) == ("broken.json", "unknown form")
    assert "(line 2, column 17: a colon is missing" in unread.reason


@pytest.mark.parametrize("step", [10**19, 10**400])
def test_a_step_beyond_all_limits_is_named(tmp_path, step):
    lines = [json.dumps(entry | {"step": number}) for number, entry in ((1, STEPS[0]), (2, STEPS[1]), (step, STEPS[1]))]
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    (unread,) = gather([tmp_path]).unread
    assert unread.reason == f"a value in it is too large: a step of {len(str(step))} digits, line 3"


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
    books = changed_workbook(tmp_path, (("devices", "tokens_per_s"), (1, 97), (2, 190)), *damage)
    assert len(gather([books.sound]).tables) == 1
    (unread,) = gather([books.changed]).unread
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
    """Of figures of one digit: 1 may have been rounded from 0.5, so that the ratio has hardly a bound."""
    (tmp_path / "t.csv").write_text("devices,tokens_per_s\n1,1\n2,2\n")
    assert not audit_paths([tmp_path]).scaling
    (tmp_path / "t.csv").write_text("devices,tokens_per_s\n1,100\n2,200\n")
    assert any(line.speedup for line in audit_paths([tmp_path]).scaling)


def test_what_this_user_may_not_open_ends_with_exit_code_2(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text(TABLE)
    assert scaleproof("audit", "t.csv", cwd=tmp_path).returncode == 0

    def closed(folder, unread, own_run, name_of):
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


def test_a_quote_that_is_not_closed_is_named(tmp_path):
    (tmp_path / "t.csv").write_text(f'{TABLE}"4,350\n8,600\n')
    (unread,) = gather([tmp_path]).unread
    assert unread.name == "t.csv:4"
    assert unread.reason == "1 line with a quote that opens or closes alone; each was read by itself"
    (tmp_path / "t.csv").write_text(f'{TABLE}"4",350\n')
    assert gather([tmp_path]).unread == []


def test_columns_without_a_heading_are_not_named(tmp_path):
    book = openpyxl.Workbook()
    for row in (("GPUs", "tokens/s", "colour"), (1, 100, "red"), (2, 190, "blue")):
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    (table,) = gather([tmp_path]).tables
    assert table.not_understood == ["colour"]


@pytest.mark.parametrize(("width", "is_cut"), [(200, False), (201, True)])
def test_of_a_very_wide_table_the_first_columns_are_read(tmp_path, width, is_cut):
    rows = [["devices", "tokens_per_s", *map(str, range(width - 2))], ["1", "100"], ["2", "190"]]
    (tmp_path / "t.csv").write_text("\n".join(map(",".join, rows)))
    evidence = gather([tmp_path])
    assert [row.value("tokens_per_s") for row in evidence.tables[0].rows] == [100, 190]
    assert [unread.reason for unread in evidence.unread] == ["only its first 200 columns were read"] * is_cut


def test_a_line_that_is_no_object_is_named_and_the_others_are_read(tmp_path):
    lines = [f'{{"step": {n}, "loss": 2.{n}, "tokens_per_s": 100}}\n' for n in range(6)]
    (tmp_path / "log.jsonl").write_text("".join([*lines, "[1, 2]\n"]))
    evidence = gather([tmp_path])
    assert len(evidence.runs[0].logged_steps) == 6
    assert [unread.name for unread in evidence.unread] == ["log.jsonl:7"]
    (tmp_path / "log.jsonl").write_text("".join(lines))
    assert gather([tmp_path]).unread == []


@pytest.mark.parametrize(("rate", "rates"), [("1.024,5", set()), ("1,024.5", {1024.5}), ("1024.5, 3", {1024.5})])
def test_a_number_with_a_point_and_a_decimal_comma_is_not_read_as_a_thousandth(tmp_path, rate, rates):
    (tmp_path / "a.log").write_text("".join(f"step {n} loss 4.{n} tokens/s {rate}\n" for n in range(9)))
    assert {step.tokens_per_s for step in gather([tmp_path]).runs[0].logged_steps} - {None} == rates


@pytest.mark.parametrize(("fact", "is_refused"), [("world_size: 0", True), ("zero_stage: 0", False)])
def test_a_claim_of_no_devices_is_refused(tmp_path, fact, is_refused):
    (tmp_path / "claims.yaml").write_text(f'scaleproof_claims: "1.0"\nruns:\n  a: {{{fact}}}\n')
    reasons = [unread.reason for unread in gather([tmp_path]).unread]
    assert reasons == ["runs.a.world_size is '0', not a whole number from 1 on"] * is_refused


@pytest.mark.parametrize(("limit", "is_shown"), [(100, True), (1 << 20, False)])
def test_reading_a_long_file_is_shown(tmp_path, monkeypatch, capsys, limit, is_shown):
    monkeypatch.setattr("scaleproof.auditor.read.text_files.SLOW", limit)
    monkeypatch.setattr("scaleproof.auditor.read.text_files.BLOCK", 50)
    (tmp_path / "a.log").write_text("".join(f"step {n} loss 4.{n} tokens/s 100\n" for n in range(99)))
    gather([tmp_path])
    assert ("a.log: 2,7" in capsys.readouterr().err) == is_shown


SQLITE = "by its first bytes it is an SQLite database; export its tables as CSV"


@pytest.mark.parametrize(("table", "traces"), [("StringIds", ["a.sqlite"]), ("runs", [])])
def test_of_databases_only_an_export_of_nsys_is_a_trace(tmp_path, table, traces):
    with contextlib.closing(sqlite3.connect(tmp_path / "a.sqlite")) as database:
        database.execute(f"CREATE TABLE {table} (id INTEGER, value TEXT)")
    evidence = gather([tmp_path / "a.sqlite"])
    assert evidence.traces == traces
    assert [unread.reason for unread in evidence.unread] == [SQLITE] * (not traces)


def test_losses_of_a_csv_file_are_accused_once(tmp_path):
    (tmp_path / "log.csv").write_text("step,loss,tokens_per_s\n" + "".join(f"{n},nan,100\n" for n in range(9)))
    codes = [finding.code for finding in audit_paths([tmp_path]).findings]
    assert codes.count("did-not-train") == 1
    assert "not-finite" not in codes


def findings_of(folder, name, text):
    (folder / name).write_text(text)
    return {finding.code: finding.evidence for finding in audit_paths([folder]).findings}


def test_a_heading_that_comes_again_is_no_broken_row(tmp_path):
    """As of a run that went on; another line of words is one."""
    part = "".join(f"{n},{5 - n / 9:.2f},100\n" for n in range(6))
    later = "".join(f"{n},{5 - n / 9:.2f},100\n" for n in range(6, 12))
    head = "step,loss,tokens_per_s\n"
    assert "field-unusable" not in findings_of(tmp_path, "log.csv", f"{head}{part}Step, loss,tokens_per_s\n{later}")
    evidence = findings_of(tmp_path, "log.csv", f"{head}{part}Traceback (most recent)\n{later}")["field-unusable"]
    assert evidence == "1 line without the numbers of a row (first: line 8)"
    longer = "".join(f"{n},{5 - n / 9:.2f},1,024\n" for n in range(6, 9))
    evidence = findings_of(tmp_path, "log.csv", f"{head}{part}{longer}")["field-unusable"]
    assert "3 lines with more values than the heading has names (first: line 8), not read" in evidence


@pytest.mark.parametrize(("end", "is_read"), [("\n", True), ("", False)])
def test_lines_that_two_ranks_wrote_into_each_other_are_no_log(tmp_path, end, is_read):
    """A figure may be cut between them: 10, and in the next line 3."""
    lines = [f"step {n} loss 4.{n} tokens/s 10{end}step {n} loss 4.{n} tokens/s 103\n" for n in range(9)]
    (tmp_path / "train.log").write_text("".join(lines))
    assert bool(gather([tmp_path]).runs) == is_read
