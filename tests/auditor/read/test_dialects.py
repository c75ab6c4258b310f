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


def _runs(folder, text):
    (folder / "train.log").write_text(text)
    return gather([folder]).runs


def _training(samples, batch, steps, seconds):
    """What transformers.Trainer prints of a training with an evaluation in its middle."""
    loss = "{'loss': 2.3, 'epoch': 0.1}\n"
    return (
        f"***** Running training *****\n  Num examples = {samples:,}\n  Total train batch size = {batch}\n"
        f"  Total optimization steps = {steps}\n" + loss * (steps // 2) + "***** Running Evaluation *****\n"
        "  Num examples = 100\n{'eval_loss': 2.2, 'epoch': 0.5}\n"
        + loss * (steps // 2)
        + f"{{'train_runtime': {seconds}}}\n"
    )


def test_two_trainings_on_one_console_are_two_runs(tmp_path):
    evaluation = "***** Running Evaluation *****\n  Num examples = 100\n{'eval_loss': 2.1, 'epoch': 1.0}\n"
    first, second = _runs(tmp_path, _training(1000, 8, 10, 30) + evaluation + _training(2000, 16, 20, 60))
    assert [(run.global_batch, run.dataset_samples, len(run.logged_steps)) for run in (first, second)] == [
        (8, 1000, 10),
        (16, 2000, 20),
    ]
    spans = [span for run in (first, second) for span in run.timed_spans]
    assert [(span.seconds, span.optimizer_steps) for span in spans] == [(30, 10), (60, 20)]
    assert first.best_val_loss == 2.1


def test_an_evaluation_behind_a_training_begins_no_other_run(tmp_path):
    text = _training(1000, 8, 10, 30) + "***** Running Evaluation *****\n  Num examples = 100\n{'eval_loss': 2.1}\n"
    (run,) = _runs(tmp_path, text)
    assert (run.dataset_samples, len(run.logged_steps), run.best_val_loss) == (1000, 10, 2.1)
