"""Logs and tables of many lines."""

import numpy as np
import pytest

from scaleproof.auditor.checks.rows import MOST_ROWS, series_of
from scaleproof.auditor.read import csv_runs, text_files
from scaleproof.auditor.read.discover import gather
from scaleproof.auditor.read.documents import tables_not_read
from scaleproof.auditor.read.logged_steps import LoggedStep, StepSeries
from scaleproof.auditor.read.logs import read_log
from scaleproof.auditor.read.logs.key_values import DIGITS, PAIR, _sequences_of_epochs, form_of
from scaleproof.auditor.read.logs.step_lines import NanoGPT
from scaleproof.auditor.read.reported import TimedSpan


@pytest.mark.parametrize("wrong", ["", "7,7,nan,3.0,1,1", "7,7,0.1,nan,1,1", "7,7,-0.1,3.0,1,1", "7,7,0.1,3.0,1"])
def test_rows_of_a_csv_log_are_read_alike_with_a_row_of_another_kind(tmp_path, monkeypatch, wrong):
    monkeypatch.setattr(csv_runs, "ROWS_AT_ONCE", 7)
    header = "timestamp,global_step,step_time_s,loss,tokens_per_sec,gpu_max_mem_mb\n"
    rows = [f"{k},{k},{0.1 + k / 1000},{3 - k / 100},{1000 + k},{100 + k}" for k in range(20)]
    (tmp_path / "step_log.csv").write_text(header + "\n".join([*rows, wrong]))
    (run,) = gather([tmp_path]).runs
    steps = run.logged_steps[:20]
    assert steps == [LoggedStep(k, 0.1 + k / 1000, 3 - k / 100, 1000 + k, line=k + 2) for k in range(20)]
    assert run.memory_reported_bytes == 119 * 2**20
    assert bool(run.problems) == bool(wrong) or wrong.endswith(",1")


def test_lines_are_those_of_the_file_whatever_is_read_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "BLOCK", 5)
    monkeypatch.setattr(text_files, "LONGEST_LINE", 30)
    log = tmp_path / "train.log"
    log.write_bytes("step 1\r\n\x1b[1mstep 2\x1b[0m\n\nloss 3 \u2011 4\n{ 5\nlast".encode())
    assert list(text_files.lines(log, "utf-8")) == ["step 1", "step 2", "", "loss 3 - 4", "{ 5", "last"]
    log.write_text("a" * 65)
    assert [len(line) for line in text_files.lines(log, "utf-8")] == [30, 30, 5]


LINES = (
    "2024-01-01 INFO epoch: 1 step: 12 loss: 3.25 step_time: 0.125s lr: 1e-4",
    "Epoch [3/10] Batch [12/500] Loss: nan Time: 0.125s Throughput: 1,234.5 samples/s",
    "step 12 | loss=+3.5e-1, tokens/sec: 40,960, mfu 31.5%",
    "[rank 3] iter: 7 loss: -0.5 time/iter: 15 ms",
)


@pytest.mark.parametrize("line", LINES)
def test_the_form_of_a_line_does_not_depend_on_its_digits(line):
    parts = DIGITS.split(line)
    texts = [number.prefix + "".join(parts[number.first : number.last + 1]) for number in form_of(parts).numbers]
    printed = [m["number"].rstrip(",") for m in PAIR.finditer(line)]
    assert texts
    assert set(texts) <= set(printed)
    longer = ["0" + part * 2 if k % 2 else part for k, part in enumerate(parts)]
    assert form_of(longer) == form_of(parts)


def test_a_series_gives_back_what_it_was_given():
    steps = [
        LoggedStep(1, 0.5, None, 7.0, line=3),
        LoggedStep(2, None, 2.5, None, 4),
        LoggedStep(3, 0.25, 2.0, 8.0, 5, 0.5, 1e12, 9.0, 9),
    ]
    series = StepSeries(steps)
    assert list(series) == steps
    assert series[-1] == steps[-1]
    assert series[:2] == steps[:2]
    assert list(series.having("seconds", "tokens_per_s")) == [steps[0], steps[2]]
    assert series.values("loss").tolist() == [2.5, 2.0]
    assert np.isnan(series.figures("mfu")[:2]).all()
    assert series.values("mfu").size != 0


def test_of_a_long_text_for_people_the_beginning_is_read_and_the_rest_is_said_not_to_be(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "LARGEST_TEXT", 200)
    table = "| GPUs | tokens/s |\n|---|---|\n| 1 | 100 |\n| 2 | 190 |\n\n"
    (tmp_path / "long.md").write_text(table + "Nothing else is said here.\n" * 20)
    (tmp_path / "short.md").write_text(table)
    evidence = gather([tmp_path])
    assert [len(table.rows) for table in evidence.tables] == [2, 2]
    assert [(unread.name, unread.kind) for unread in evidence.unread] == [("long.md", "limit")]


def test_of_a_long_table_the_first_rows_are_held_against_each_other(tmp_path):
    rows = "".join(f"{k % 64 + 1},{300 + k % 999},{k % 17}\n" for k in range(900))
    (tmp_path / "results.csv").write_text("gpus,throughput,batch\n" + rows)
    (table,) = gather([tmp_path]).tables
    assert len(table.rows) == 900
    assert sum(len(series.rows) for series in series_of(table)) == MOST_ROWS


def test_texts_of_many_bars_or_epochs_take_seconds_not_hours(tmp_path):
    """Each took minutes once: a search across lines for cells of tables, and epochs in thousands of sequences."""
    words = "".join(f'"{k}: 12 of {k}",\n' for k in range(20_000))
    assert tables_not_read(f"| a |\n{words}| b |\n{'| 12 ' * 30_000}", "notebook.ipynb") == []
    (named,) = tables_not_read("| GPUs | rate |\n|---|---|\n| 2 | 97 ms<br>190 tok/s |\n", "README.md")
    assert (named.name, named.reason.partition(",")[0]) == ("README.md:3", "a table with several figures in a cell")

    spans = [TimedSpan(index=k, seconds=1.0) for k in range(20_000, 0, -1)]
    assert len(_sequences_of_epochs(spans)) == 20_000
    assert [len(s) for s in _sequences_of_epochs([TimedSpan(index=k, seconds=1.0) for k in (1, 2, 3, 1, 2)])] == [3, 2]


def step_lines(numbers, loss="2.0"):
    return [f"iter {number}: loss {loss}, time {100 + number}.5ms, mfu 21.0%" for number in numbers]


@pytest.mark.parametrize(
    "lines",
    [
        step_lines(range(50)),
        [*step_lines(range(20)), *step_lines(range(30))],  # two runs
        [*step_lines(range(9)), *step_lines([9], "nan"), *step_lines(range(10, 20))],
        [*step_lines(range(9)), "iter 9: loss 2.0, time 0.0ms", *step_lines(range(10, 20))],
        [*step_lines([0, 0, 1, 1]), "tokens per iteration will be: 8,192", *step_lines([2, 2, 3])],  # of two ranks
    ],
)
def test_steps_added_at_once_are_those_added_one_by_one(monkeypatch, lines):
    runs = {}
    for at_once in (1, 7, 10_000):
        monkeypatch.setattr(NanoGPT, "at_once", at_once)
        read = read_log("a.log", NanoGPT, enumerate(lines, start=1))
        runs[at_once] = [(list(run.logged_steps), run.nan_steps, run.details) for run in read]
    assert runs[1] == runs[7] == runs[10_000]
