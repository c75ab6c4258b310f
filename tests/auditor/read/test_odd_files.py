"""Files of other people that are odd and sound: they are read, and nothing is said against them."""

import pytest
from workbooks import changed_workbook

from scaleproof.auditor.audit import audit_paths
from scaleproof.auditor.read.discover import gather
from scaleproof.auditor.read.run_fields import figure

LOG = "".join(f"iter {n}: loss {4 - n / 100:.4f}, time 893.{n:02d}ms, mfu 16.60%\n" for n in range(60))
TABLE = "gpus,tokens/s,speedup\n1,1000,1.00\n2,1900,1.90\n4,3700,3.70\n"
RATES = {1: 1000, 2: 1900, 4: 3700}


def rates_of(evidence):
    (table,) = evidence.tables
    return {row.devices: row.value("tokens_per_s") for row in table.rows}


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16", "utf-8-sig"])
def test_a_log_in_any_encoding_that_says_nothing_of_it(tmp_path, encoding):
    (tmp_path / "run.log").write_bytes(LOG.encode(encoding))
    evidence = gather([tmp_path / "run.log"])
    assert len(evidence.runs[0].logged_steps) == 60
    assert not evidence.unread


def test_titles_and_links_of_a_terminal_are_no_text(tmp_path):
    coloured = LOG.replace("loss", "\x1b]8;;http://x\x1b\\\x1b[1;32mloss\x1b[0m\x1b]8;;\x1b\\")
    (tmp_path / "run.log").write_text("\x1b]0;title\x07" + coloured)
    assert len(gather([tmp_path / "run.log"]).runs[0].logged_steps) == 60


def test_a_block_of_zeros_in_a_log_is_passed_over_and_said(tmp_path):
    (tmp_path / "run.log").write_bytes(LOG.encode()[:1500] + b"\0" * 4096 + LOG.encode()[1500:])
    evidence = gather([tmp_path / "run.log"])
    assert len(evidence.runs[0].logged_steps) == 60
    assert [unread.reason[:30] for unread in evidence.unread] == ["bytes of value 0 in line 32: a"]


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff\ufeff" + TABLE,
        TABLE.replace("2,1900", "2\u200b,1900").replace("speedup", "speed\u2011up"),
        "Scaling of GPT-2, 8xA100, bf16, Nov 2026\n\n" + TABLE,
        "Scaling of GPT-2, 8xA100, bf16, Nov 2026\n" + TABLE,
        'note,gpus,tokens/s,speedup\n"base\nline",1,1000,1.00\n"a ""b""\nc",2,1900,1.90\nd,4,3700,3.70\n',
        "gpus,tokens/s,note\n1,1000\n2,1900,twice\n4,3700\n",
        "gpus,tokens/s,speedup\n1,1000,1.00\n2,1900,1.90\n4,3700,3.70\n8,OOM\n",
    ],
)
def test_csv_files_as_people_write_them(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    audit = audit_paths([tmp_path / "t.csv"])
    evidence = gather([tmp_path / "t.csv"])
    assert {size: rate for size, rate in rates_of(evidence).items() if rate} == RATES
    assert not audit.findings
    assert not evidence.unread


def test_a_csv_file_that_is_called_a_workbook(tmp_path):
    (tmp_path / "t.xlsx").write_text(TABLE)
    assert rates_of(gather([tmp_path / "t.xlsx"])) == RATES


def test_a_row_with_other_delimiters_is_named(tmp_path):
    (tmp_path / "t.csv").write_text(TABLE.replace("2,1900,1.90", "2;1900;1.90"))
    evidence = gather([tmp_path / "t.csv"])
    assert [unread.name[-7:] for unread in evidence.unread] == ["t.csv:3"]
    assert 2 not in rates_of(evidence)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("5,00", 5.0), ("0,125", 0.125), ("1.234,5", 1234.5), ("5,00 s", 5.0), ("12,3456", 12.3456)),
        *(("1,024", 1024.0), ("1,234.5", 1234.5), ("12,345,678", 12345678.0), ("2.5", 2.5), ("x", None)),
    ],
)
def test_the_comma_before_other_than_three_digits_is_a_decimal_one(text, value):
    assert figure(text) == value


def test_thousands_of_latex_are_read(tmp_path):
    rows = "GPUs & tokens/s & speedup\\\\\n1 & 1{,}000 & 1.00\\\\\n2 & 1{,}900 & 1.90\\\\\n4 & 3{,}700 & 3.70\\\\\n"
    (tmp_path / "t.tex").write_text("\\begin{tabular}{lcc}\n" + rows + "\\end{tabular}\n")
    assert rates_of(gather([tmp_path / "t.tex"])) == RATES


def write_store(folder, end=""):
    for name in ("metrics", "params"):
        (folder / name / "train").mkdir(parents=True)
    (folder / "meta.yaml").write_text("run_id: 1a2b\nstatus: 3\n")
    for key, first in (("train/loss", 4), ("tokens_per_sec", 1000)):
        lines = [f"{1_700_000_000_000 + 500 * n} {first + n / 1000} {n}\n" for n in range(60)]
        (folder / "metrics" / key).write_text("".join(lines) + end)
    (folder / "params" / "world_size").write_text("4")


def test_a_run_in_a_file_store_of_mlflow(tmp_path):
    write_store(tmp_path / "mlruns/0/1a2b")
    evidence = gather([tmp_path / "mlruns"])
    (run,) = evidence.runs
    assert (run.name, run.format, run.world_size) == ("0/1a2b", "MLflow file store", 4)
    assert len(run.logged_steps.values("loss")) == len(run.logged_steps.values("tokens_per_s")) == 60
    assert not len(run.logged_steps.values("seconds"))  # its clock is that of the writing
    assert not evidence.unread


def test_a_run_in_a_store_without_its_meta_file_is_read(tmp_path):
    write_store(tmp_path / "mlruns/0/1a2b")
    (tmp_path / "mlruns/0/1a2b/meta.yaml").unlink()
    (tmp_path / "mlruns/0/1a2b/metrics/notes").write_text("1 2 3\n")
    evidence = gather([tmp_path / "mlruns"])
    assert [(run.format, run.world_size) for run in evidence.runs] == [("MLflow file store", 4)]


def test_a_line_of_a_store_that_is_cut_off_is_named(tmp_path):
    write_store(tmp_path / "mlruns/0/1a2b", end="1700000")
    evidence = gather([tmp_path / "mlruns"])
    assert len(evidence.runs[0].logged_steps) == 60
    assert sorted(unread.name for unread in evidence.unread) == [
        "0/1a2b/metrics/tokens_per_sec:61",
        "0/1a2b/metrics/train/loss:61",
    ]


def test_the_clock_of_a_summary_of_wandb_is_no_figure(tmp_path):
    text = '{"_runtime": 30, "_timestamp": 1700000000, "_step": 59, "tokens_per_sec": 1000, "gpus": 4}'
    (tmp_path / "wandb-summary.json").write_text(text)
    (table,) = gather([tmp_path / "wandb-summary.json"]).tables
    assert {column.heading for column in table.columns} == {"_step", "tokens_per_sec", "gpus"}


@pytest.mark.parametrize(("name", "is_said"), [("run", False), ("exp9", True)])
def test_a_name_in_claims_that_no_run_has_is_said(tmp_path, name, is_said):
    (tmp_path / "run.log").write_text(LOG)
    (tmp_path / "table.csv").write_text(TABLE)
    (tmp_path / "c.yaml").write_text(f"scaleproof_claims: 1.0\nruns: {{{name}: {{world_size: 4}}}}\n")
    reasons = [unread.reason for unread in gather([tmp_path]).unread]
    assert reasons == ["runs.exp9 is in no run's name. Runs: run.log"] * is_said
    (tmp_path / "run.log").unlink()  # a table has no runs
    assert [unread.reason for unread in gather([tmp_path]).unread] == [f"runs.{name} is in no run's name. Runs: none"]


@pytest.mark.parametrize(("value", "kinds"), [("NaN", ["limit"]), ("1900", [])])
def test_a_sound_workbook_that_its_reader_refuses_is_not_called_damaged(tmp_path, value, kinds):
    rows = (("gpus", "tokens/s"), (1, 1000), (2, 1900))
    books = changed_workbook(tmp_path, rows, b"<v>1900</v>", f"<v>{value}</v>".encode())
    assert [unread.kind for unread in gather([books.changed]).unread] == kinds


@pytest.mark.parametrize(
    ("name", "start", "reason"),
    [
        ("results.xlsx", b"\x03\0\x02", "it does not begin like a workbook: it is damaged, or not what its name says"),
        (
            "events.out.tfevents.1.host",
            b"\x18\0\0\0",
            "it does not begin like an event file of TensorBoard: it is damaged",
        ),
        ("results.dat", b"\x03\0\x02", "it is binary (byte 1 of it is 0)"),
        ("results.xlsx", b"\x1f\x8b\0", "by its first bytes it is gzip data"),
    ],
)
def test_what_is_damaged_is_called_by_its_name(tmp_path, name, start, reason):
    (tmp_path / name).write_bytes(start + bytes(range(40)))
    (unread,) = gather([tmp_path / name]).unread
    assert unread.reason.startswith(reason)
    assert unread.kind == ("damaged" if "does not begin" in reason else "binary")
