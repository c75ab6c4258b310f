"""Dialects of logs, and the one table of the fields of a run."""

from dataclasses import fields

import pytest

from scaleproof.auditor.audit import audit_paths
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


@pytest.mark.parametrize(
    ("bar", "steps"),
    [
        (" 50%|#  | {}/60 [00:15<00:15,  2.00it/s]", [20, 30, 60, 61]),
        ("Map: 50%|#  | {}/60 [00:15<00:15,  2.00it/s]", [1, 2, 3, 4]),
        ("", [1, 2, 3, 4]),
    ],
)
def test_the_step_of_a_hugging_face_line_is_that_of_its_bar(tmp_path, bar, steps):
    entry = "{'loss': nan, 'epoch': 0.5}\n"
    evaluation = " 50%|#  | 2/4 [00:15<00:15,  2.00it/s]{'eval_loss': 2.1, 'epoch': 0.5}\n"
    (run,) = _runs(tmp_path, entry.join([*map(bar.format, (20, 30)), evaluation + bar.format(60), "", ""]))
    assert run.nan_steps == steps


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


COMPOSER = """\
num_gpus_per_node: 8
num_nodes: 2
[epoch=1][batch={step}/20]:
\t Train time/batch: 19
\t Train trainer/device_train_microbatch_size: 2
\t Train loss/train/total: {loss}
\t Train throughput/samples_per_sec: 2.7330
\t Train throughput/device/samples_per_sec: 0.1708
\t Train throughput/tokens_per_sec: 2008{step}.8418
\t Train throughput/device/tokens_per_sec: 1255.1776
\t Eval metrics/eval/LanguageCrossEntropy: 5.1
"""


def test_composer(tmp_path):
    (tmp_path / "a.log").write_text("".join(COMPOSER.format(step=k, loss=9 - k if k < 4 else "nan") for k in range(5)))
    (run,) = gather([tmp_path]).runs
    assert (run.format, run.world_size, run.micro_batch, run.rate_scope) == ("Composer log", 16, 2, "global")
    assert [(s.step, s.loss, s.tokens_per_s, s.samples_per_s, s.line) for s in run.logged_steps[:2]] == [
        (0, 9, 20080.8418, 2.733, 3),
        (1, 8, 20081.8418, 2.733, 14),
    ]
    assert (len(run.logged_steps), run.nan_steps) == (5, [4])


def test_rates_of_composer_without_their_steps(tmp_path):
    (tmp_path / "a.log").write_text("".join(f"throughput/tokens_per_sec: {900 + k}\n" for k in range(4)))
    assert [s.tokens_per_s for s in gather([tmp_path]).runs[0].logged_steps] == [900, 901, 902, 903]
    (tmp_path / "a.log").write_text("".join(f"cost/tokens_per_dollar: {900 + k}\n" for k in range(4)))
    assert not gather([tmp_path]).runs


OLMO = """\
2024-05-01 10:00:01.123\thost:0\tolmo.train:966\tINFO\t[step={k}/739328,epoch=0]
    train/CrossEntropyLoss={loss}
    throughput/total_tokens=4,194,304
    throughput/device/tokens_per_second=9,23{k}
"""


@pytest.mark.parametrize("epoch", [",epoch=0", ""])
def test_olmo(tmp_path, epoch):
    text = OLMO.replace(",epoch=0", epoch)
    (tmp_path / "a.log").write_text("".join(text.format(k=k, loss=11 - k / 10) for k in range(1, 5)))
    (run,) = gather([tmp_path]).runs
    assert run.rate_scope == "rank"
    assert [(s.step, s.loss, s.tokens_per_s) for s in run.logged_steps[:2]] == [(1, 10.9, 9231), (2, 10.8, 9232)]


def test_nemo_and_nanotron_print_lines_of_megatron(tmp_path):
    nemo = (
        "Training epoch 0, iteration {k}/249 | lr: 1.961e-06 | global_batch_size: 8 | global_step: {k} | "
        "reduced_train_loss: 1.315 | train_step_timing in s: 2.505 | consumed_samples: {n}\n"
    )
    (run,) = _runs(tmp_path, "".join(nemo.format(k=k, n=8 * k + 8) for k in range(4)))
    assert (run.format, run.global_batch, len(run.logged_steps)) == ("NeMo log", 8, 4)
    assert (run.logged_steps[1].step, run.logged_steps[1].seconds, run.logged_steps[1].loss) == (1, 2.505, 1.315)
    assert dict(run.details["samples_of_steps"]) == {(8.0, 8): 3}
    nanotron = (
        "08/31/2024 14:37:31 [INFO|DP=0|PP=0|TP=0]: iteration: 2 / 15 | consumed_tokens: 1.02K | "
        "elapsed_time_per_iteration_ms: 1.21K | tokens_per_sec: 433K | tokens_per_sec_per_gpu: 54.1K | "
        "global_batch_size: 256 | lm_loss: 5.29 | lr: 0.0003 | model_tflops_per_gpu: 152 | grad_norm: 3.29\n"
    )
    (run,) = _runs(tmp_path, nanotron)
    (step,) = run.logged_steps
    assert (run.format, run.rate_scope, run.global_batch) == ("nanotron log", "global", 256)
    assert (step.seconds, step.tokens_per_s, step.flops_per_s, step.loss) == (1.21, 433e3, 152e12, 5.29)


BATCHES = {
    "ImageNet": "Epoch: [{e}][{b:>4}/5005]\tTime  0.31{k} ( 0.320)\tData  0.010 ( 0.012)\tLoss {loss} (6.9e+00)",
    "OpenCLIP": "Train Epoch: {e} [{b:>9}/10968539 (1%)] Data (t): 0.300 Batch (t): 0.31{k}, 1969/s Loss: {loss}",
    "timm": "Train: {e} [{b:>4}/1251 (  4%)]  Loss: {loss} (6.95)  Time: 0.31{k}s, 3200.10/s  (0.321s, 3190.2/s)",
    "mmengine": "Epoch(train) [{e}][{b:>3}/977]  lr: 1e-03  eta: 0:10  time: 0.31{k}  data_time: 0.01  loss: {loss}",
}


@pytest.mark.parametrize("program", BATCHES)
def test_batches_of_epochs(tmp_path, program):
    batches = [(e, b) for e in (1, 2) for b in (50, 100)]
    lines = [BATCHES[program].format(e=e, b=b, k=k, loss=6.5 if k else "nan") for k, (e, b) in enumerate(batches)]
    (tmp_path / "a.log").write_text("\n".join([*lines, lines[-1]]))  # of another rank
    (run,) = gather([tmp_path]).runs
    assert [(s.epoch, s.step, s.seconds) for s in run.logged_steps] == [
        (e, b, pytest.approx(0.31 + k / 1000)) for k, (e, b) in enumerate(batches)
    ]
    assert run.nan_steps == [50]


@pytest.mark.parametrize("batch", ["{}", "0-{}"])
def test_the_speedometer_of_mxnet(tmp_path, batch):
    line = "INFO:root:Epoch[{}] Batch [" + batch + "]\tSpeed: 520.{} samples/sec\taccuracy=0.57\n"
    lines = [line.format(e, b, e) for e in (0, 1) for b in (20, 40)]
    (tmp_path / "a.log").write_text("".join([*lines, "INFO:root:Epoch[1] Time cost=81.3\n"]))
    (run,) = gather([tmp_path]).runs
    assert [(s.epoch, s.step, s.samples_per_s) for s in run.logged_steps] == [
        *((0, 20, 520.0), (0, 40, 520.0), (1, 20, 520.1), (1, 40, 520.1))
    ]


@pytest.mark.parametrize("place", ["0/{}", "epoch=0/micro_step=1{}/global_step={}"])
def test_the_timer_of_deepspeed(tmp_path, place):
    """The memory beside its rate is no rate."""
    place = place.replace("{}", "{0}")
    line = "[INFO] [timer.py:198:stop] " + place + ", RunningAvgSamplesPerSec=230.5, CurrSamplesPerSec=227.{0}, "
    line += "MemAllocated=0.36GB, MaxMemAllocated=15.06GB\n"
    (tmp_path / "a.log").write_text("[INFO] step=20, skipped=17, lr=[5e-05]\n" + "".join(map(line.format, (20, 30))))
    (run,) = gather([tmp_path]).runs
    assert (run.rate_scope, run.memory_reported_bytes) == ("global", 15.06 * 2**30)
    assert [(s.step, s.samples_per_s) for s in run.logged_steps] == [(20, 227.2), (30, 227.3)]


@pytest.mark.parametrize("line", ["loss = {loss}, step = {k} (19.3 sec)", "step = {k}, loss = {loss} (19.3 sec)"])
def test_estimators_of_tensorflow(tmp_path, line):
    """The time of a line is that of many steps, so that no step has one."""
    losses = {1: "161.3", 101: "15.8", 201: "nan"}
    lines = [f"INFO:tensorflow:{line.format(k=k, loss=loss)}\n" for k, loss in losses.items()]
    (tmp_path / "a.log").write_text("INFO:tensorflow:global_step/sec: 5.17\n".join(lines))
    (run,) = gather([tmp_path]).runs
    assert (run.steps_per_s, run.nan_steps) == ([5.17, 5.17], [201])
    assert [(s.step, s.loss, s.seconds) for s in run.logged_steps[:2]] == [(1, 161.3, None), (101, 15.8, None)]


def test_batches_of_a_validation_are_no_steps(tmp_path):
    lines = (f"Test: [{k}0/98]\tTime  0.31{k} ( 0.320)\tLoss 6.9e+00 (6.9e+00)\n" for k in range(5))
    (tmp_path / "a.log").write_text("".join(lines))
    assert not gather([tmp_path]).runs


STEPS = {
    "NeMo": ("iteration {k}/249 | global_step: {k} | reduced_train_loss: 1.3 | train_step_timing in s: 0.25", "loss"),
    "NeMo's bar": ("Epoch 0: : 1%|#| {k}/100 [00:03<05:00, global_step={k}.00, train_step_timing in s=0.25]", ""),
    "Detectron2": ("iter: {k}  total_loss: 2.1  time: 0.25  last_time: 0.24  data_time: 0.01  lr: 0.001", "loss"),
    "verl": ("step:{k} - actor/loss:0.1 - timing_s/step:99 - perf/time_per_step:0.25 - val/loss:7", "loss"),
    "ezpz": ("iteration=  {k}/ 317892 | elapsed_time_per_iteration_ms=250.0 | lm loss=11.0", "loss"),
    "InternEvo": ("step={k} loss=9.1 tgs (tokens/gpu/second)=4021.5 lr=1e-05 step_time=0.25", "loss"),
    "a clock": ("step {k} loss 2.1 time: 0.25", "clock"),
}


@pytest.mark.parametrize("program", STEPS)
def test_the_step_time_of_a_guessed_line(tmp_path, program):
    line, kind = STEPS[program]
    (tmp_path / "a.log").write_text("".join(line.format(k=k) + "\n" for k in range(1, 6)))
    steps = gather([tmp_path]).runs[0].logged_steps
    assert [s.seconds for s in steps] == [None if kind == "clock" else 0.25] * 5
    assert bool(steps.values("loss").size) == bool(kind)
    assert steps.step_numbers.tolist() == [1, 2, 3, 4, 5]


def test_figures_of_an_interval(tmp_path):
    line = "loss: 3.2{k}, learning_rate: 3e-05, global_step: {k}0, interval_runtime: 2.25, {rates}, epoch: 0.02\n"
    rates = "interval_samples_per_second: 3.5, interval_tokens_per_second_per_device: 655.5"
    (tmp_path / "a.log").write_text("".join(line.format(k=k, rates=rates) for k in range(1, 5)))
    (run,) = gather([tmp_path]).runs
    assert [(s.samples_per_s, s.tokens_per_s, s.seconds) for s in run.logged_steps] == [(3.5, 655.5, None)] * 4
    assert run.rate_scope == "rank"


@pytest.mark.parametrize(("time", "steps_per_s"), [("19ms", [1000 / 19]), ("9ms", []), ("850us", [1e6 / 850])])
def test_the_time_of_a_step_that_keras_prints(tmp_path, time, steps_per_s):
    (tmp_path / "a.log").write_text(f"Epoch 1/2\n469/469 [====] - 9s {time}/step - loss: 0.5\n")
    (run,) = gather([tmp_path]).runs
    assert run.steps_per_s == pytest.approx(steps_per_s)
    assert run.is_timed == bool(steps_per_s)


@pytest.mark.parametrize(("given", "is_told"), [(8, True), (16, False)])
def test_a_world_size_that_a_log_contradicts(tmp_path, given, is_told):
    step = "iteration {k}/ 9 | elapsed time per iteration (ms): 1521.1 | global batch size: 256 | lm loss: 8.8E+00 |\n"
    head = "using world size: 16, data-parallel size: 16, tensor-model-parallel size: 1\n"
    (tmp_path / "a.log").write_text(head + "".join(step.format(k=k) for k in range(1, 5)))
    audit = audit_paths([tmp_path / "a.log"], given={"": {"world_size": given}})
    assert ("it says that world_size is 16" in str(audit.findings)) == is_told


@pytest.mark.parametrize("text", ["30%|###  | {k}/100 [00:10<00:23, 2.98it/s]\n", "step {k} loss 2.{k}\n"])
def test_one_run_that_says_its_speed_has_no_interval(tmp_path, text):
    (tmp_path / "a.log").write_text("".join(text.format(k=k) for k in range(1, 5)))
    codes = {finding.code for finding in audit_paths([tmp_path]).findings}
    assert ("single-run" in codes) == ("it/s" in text)
