"""Dialects of logs, and the one table of the fields of a run."""

from dataclasses import fields

import pytest

from scaleproof.auditor.read.discover import gather
from scaleproof.auditor.read.headings import column_of
from scaleproof.auditor.read.logs.dialect import ARGUMENTS, OF_RUNS, Dialect, Line
from scaleproof.auditor.read.reported import ReportedRun
from scaleproof.auditor.read.run_fields import FIELDS, OF_KIND


class Example(Dialect):
    mark = looked_at = r"it \d"
    format = "example log"
    of_step = Line(r"it {step} took {ms} ms(?:, loss {loss})?(?: at {tflops} TFLOP/s)?(?:, {mfu} % of peak)?")
    others = (Line(r"batch {micro_batch} of {seq_len}$"),)


def test_a_dialect_reads_its_lines():
    reader = Example("a.log")
    lines = (
        "batch 8 of 512",
        "it 1 took 200 ms, loss 9.5",
        "validating ...",
        "it 2 took 0 ms, loss nan",
        "it 3 took x ms",
    )
    for number, line in enumerate(lines, start=1):
        reader.feed(number, line)
    (run,) = reader.finish()
    first, second = run.logged_steps
    assert (run.micro_batch, run.seq_len) == (8, 512)
    assert (first.step, first.seconds, first.loss, first.line) == (1, 0.2, 9.5, 2)
    assert (second.seconds, second.loss) == (None, None)
    assert run.nan_steps == [2]


def test_settings_after_steps_are_of_the_next_run():
    reader = Example("a.log")
    lines = ("batch 8 of 512", "it 1 took 9 ms", "it 2 took 9 ms", "batch 4 of 256", "it 1 took 8 ms")
    for number, line in enumerate(lines, start=1):
        reader.feed(number, line)
    assert [(run.micro_batch, run.seq_len, len(run.logged_steps)) for run in reader.finish()] == [
        (8, 512, 2),
        (4, 256, 1),
    ]


def test_every_group_of_a_line_has_a_name():
    with pytest.raises(ValueError, match="zip"):
        Line(r"it {step} (\d+)").read("it 1 2")


def test_a_name_that_stands_for_nothing_is_no_text():
    with pytest.raises(KeyError, match="p95_ms"):
        Line(r"it {step} took {p95_ms} ms")


def test_the_fields_of_the_tables_are_fields_of_a_run():
    known = {entry.name for entry in fields(ReportedRun)}
    assert set(FIELDS) <= known
    assert {name.field for name in OF_RUNS.values()} - {"tokens_per_step", "total_steps"} <= known


def test_each_word_stands_for_one_field():
    kinds = [kind for entry in FIELDS.values() for kind in entry.kinds]
    assert len(kinds) == len(OF_KIND)
    words = [word for entry in FIELDS.values() for word in entry.words]
    assert len(words) == len(ARGUMENTS) > 0


@pytest.mark.parametrize(
    ("heading", "field"), [("GPUs", "world_size"), ("seq len", "seq_len"), ("ZeRO stage", "zero_stage")]
)
def test_headings_lead_to_fields(heading, field):
    assert OF_KIND[column_of(heading).kind] == field


PADDLE = (
    "[2022-07-27 12:40:0{0},967] [    INFO] - global step {1}, epoch: 0, batch: {0}, loss: 11.0833, avg_reader_cost: "
    "0.00014 sec, avg_batch_cost: 0.13314 sec, speed: 7.51 step/s, {2}ips: 7691 tokens/s, learning rate: 8.33333e-09\n"
)


@pytest.mark.parametrize(("total", "rate"), [("ips_total: 61529 tokens/s, ", 61529.0), ("", None)])
def test_paddle(tmp_path, total, rate):
    (tmp_path / "train.log").write_text("".join(PADDLE.format(n, n + 1, total) for n in range(4)))
    run = gather([tmp_path]).runs[0]
    assert (run.format, run.rate_scope) == ("Paddle log", "global")
    assert [(s.step, s.seconds, s.tokens_per_s) for s in run.logged_steps[:2]] == [
        (1, 0.13314, rate),
        (2, 0.13314, rate),
    ]


STEP = "completed step: 14, seconds: 3.443, TFLOP/s/device: 413.433, Tokens/s/device: 7138.890, total_weights: 196608"
QUOTED = f"# Training\n\n```\n{STEP}, loss: 2.136\n```\n"


def test_one_quoted_line_of_a_known_program_is_read(tmp_path):
    (tmp_path / "README.md").write_text(QUOTED)
    step = gather([tmp_path]).runs[0].logged_steps[0]
    assert (step.seconds, step.tokens_per_s, step.loss) == (3.443, 7138.89, 2.136)
