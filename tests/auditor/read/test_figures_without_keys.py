"""Lines whose figures have a unit and no key, and progress bars: read, and compared where nothing says more."""

import json

import pytest

import scaleproof
from scaleproof.auditor.checks.baselines import steps_rate
from scaleproof.auditor.compare_external import compare_external
from scaleproof.auditor.read.discover import gather
from scaleproof.auditor.read.printed_log import printed_log
from scaleproof.conclude.report.sentences.ratios import compared_sentence
from scaleproof.ground.errors import UserError

BAR = "  1%|▏         | {k}0/1000 [00:0{k}<08:15,  2.0{k}it/s]"
SLOW = "  1%|▏         | {k}0/1000 [00:0{k}<08:15,  1.2{k}s/it]"
EPOCH = "Epoch 1:  1%|▏   | {k}0/1000 [00:0{k}<08:15,  2.0{k}it/s, loss=2.31]"
WORDS = "step: {k} loss: 2.{k} it/s: 2.0{k}"
PER = "step {k} loss 2.{k} 2.0{k} steps per sec"
IT = "it {k} | loss 2.{k} | 2.0{k} it/s"
BATCHES = "| epoch   1 |   {k}00/ 2983 batches | lr 20.00 | ms/batch 492.6{k} | loss  5.61 | ppl   273.9{k}"
TRAINER = "{{'loss': 2.{k}, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 0.{k}}}\n" + BAR


def log_of(folder, form, name="train.log"):
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("".join(form.format(k=k) + "\n" for k in range(1, 6)))
    return path


@pytest.mark.parametrize("form", [BAR, SLOW, EPOCH, WORDS, PER, IT, BATCHES, TRAINER])
def test_steps_per_second_alone(tmp_path, form):
    path = log_of(tmp_path, form)
    (run,) = gather([path]).runs
    assert steps_rate(run) == pytest.approx(1 / 1.23 if form is SLOW else 2.03, abs=0.001)
    assert {finding.severity for finding in scaleproof.audit(path).findings} <= {"note"}
    log = printed_log(path)  # the launcher's clock times what lines count
    assert log is None or not any(step.seconds for step in log.steps)


def test_lines_that_begin_as_those_of_llm_c_are_read_as_they_stand(tmp_path):
    log = printed_log(log_of(tmp_path, "step {k}/60 | loss 3.{k} | 24.3{k} ms/step | 21,08{k} tok/s"))
    assert [(step.step, step.loss, step.tokens_per_s) for step in log.steps[:2]] == [(1, 3.1, 21081), (2, 3.2, 21082)]


def test_bars_of_evaluation_without_a_word_are_left_out(tmp_path):
    path = log_of(tmp_path, BAR + "\r" + "\r".join(f" {k}0%|#  | {k}/9 [00:00<00:00, 44.5it/s]" for k in range(9)))
    (run,) = gather([path]).runs
    assert steps_rate(run) == pytest.approx(2.03)


@pytest.mark.parametrize("name", ["Loading checkpoint shards", "Evaluating", "Map", "test"])
def test_bars_of_something_else_are_no_training(tmp_path, name):
    path = log_of(tmp_path, f"{name}: {BAR}")
    with pytest.raises(UserError, match="no run below whose rate can be compared"):
        compare_external(path, path, [])


def test_steps_are_compared_with_a_word_on_their_work(tmp_path):
    for k, rate in enumerate(("2.01", "2.02", "2.00", "1.51", "1.49", "1.50")):
        log_of(tmp_path / "ab"[k // 3], BAR.replace("2.0{k}", rate), f"run{k % 3 + 1}.log")
    compared = compare_external(tmp_path / "a", tmp_path / "b", [])
    assert compared.unit == "steps/s"
    assert compared.ratio == pytest.approx(0.746, abs=0.001)
    assert "nobody checked that" in compared_sentence(compared)


@pytest.mark.parametrize(
    ("line", "tokens_per_s", "steps_per_s"),
    [
        ("[rank0]: epoch 1 step {k}0/600 loss 3.2{k} lr 3e-4 412 ms/step 19,88{k} tok/s", 19883, 1 / 0.412),
        ("it {k} loss 3.2{k} 0.5 s/it 12.{k}k tok/s", 12300, 2),
        ("step {k} loss 3.2{k} tokens/s 12800{k}", 128003, None),
        ("Finished training it {k}/500 of epoch 0, 8.3{k} ms/it, loss 0.2", None, 1 / 0.00833),
        ("step {k} loss 3.2{k} (19.{k} MB/s, 3.1 ms/img)", None, None),
    ],
)
def test_figures_with_a_unit_and_no_key(tmp_path, line, tokens_per_s, steps_per_s):
    path = log_of(tmp_path, line)
    (run,) = gather([path]).runs
    step = run.logged_steps[2]
    assert (step.tokens_per_s, step.seconds) == (tokens_per_s, None)
    assert run.steps_per_s[2:3] == ([pytest.approx(steps_per_s)] if steps_per_s else [])
    log = printed_log(path)  # of how many steps such a time is, the launcher's clock says
    assert log is None or not any(step.seconds for step in log.steps)


def test_an_array_of_results_is_a_table(tmp_path):
    results = [{"gpus": n, "step": 100, "loss": 2.0, "tokens_per_sec": 9000 * n} for n in (1, 2, 4, 8)]
    (tmp_path / "m.json").write_text(json.dumps(results))
    evidence = gather([tmp_path / "m.json"])
    assert not evidence.runs
    assert [row.devices for row in evidence.tables[0].rows] == [1, 2, 4, 8]


@pytest.mark.parametrize(("rate", "is_infinite"), [("Infinity", True), ("4567", False), ("NaN", False)])
def test_an_infinite_figure_is_said(tmp_path, rate, is_infinite):
    (tmp_path / "m.json").write_text(f'{{"gpus": 8, "tokens_per_sec": {rate}, "step_time_ms": 414.8}}')
    reasons = [file.reason for file in gather([tmp_path / "m.json"]).unread]
    assert reasons == ["tokens_per_sec is Infinity, which was left out"] * is_infinite
