"""Logs in the form in which programs really print them: which lines are read, and what a line's time contains."""

import pytest

from scaleproof.auditor.read.discover import gather

MEGATRON = (
    " [2024-04-06 02:59:36] iteration {step:8d}/     100 | consumed samples: {samples:12d} | "
    "elapsed time per iteration (ms):  {ms} | throughput per GPU (TFLOP/s/GPU): 239.8 | learning rate: 8.6E-06 | "
    "global batch size:   128 | lm loss: {loss} | loss scale: 1.0 | number of skipped iterations: {skipped:3d} | "
    "number of nan iterations:   0 |\n"
)


def several(folder, text, name="train.log"):
    (folder / name).write_text(text)
    return gather([folder]).runs


def one(folder, text, name="train.log"):
    (run,) = several(folder, text, name)
    return run


def megatron(skipped=(0, 0, 0), losses=("2.1E+00", "2.0E+00", "1.9E+00"), first=1):
    lines = zip(skipped, losses, strict=True)
    return "".join(
        MEGATRON.format(step=first + k, samples=128 * k, ms=5444.9, loss=loss, skipped=n)
        for k, (n, loss) in enumerate(lines)
    )


def test_each_run_of_several_logs_in_one_folder_has_a_name_of_its_own(tmp_path):
    """Files with such names go by their folder, and each has several runs, which have the same numbers."""
    (tmp_path / "exp1").mkdir()
    for name in ("log.txt", "output.log", "train.log"):
        steps = (f"iter {k}: loss {4 - k / 10 + len(name) / 100}, time 561.94ms\n" for k in range(3))
        (tmp_path / "exp1" / name).write_text("".join(steps) * 3)
    names = [run.name for run in gather([tmp_path]).runs]
    assert len(set(names)) == len(names) == 9
    assert names[3:6] == ["exp1/output.log", "exp1/output.log (2)", "exp1/output.log (3)"]


def test_lines_between_steps_are_no_steps(tmp_path):
    text = (
        "step 0: train loss 10.98, val loss 10.99\niter 0: loss 10.97, time 26086.69ms, mfu -100.00%\n"
        "iter 1: loss 10.95, time 813.91ms, mfu -100.00%\nstep 2: train loss 10.93, val loss 10.94\n"
        "saving checkpoint to out\niter 2: loss 10.94, time 20176.69ms, mfu 36.47%\n"
    )
    run = one(tmp_path, text)
    assert [s.mfu for s in run.logged_steps] == [None, None, pytest.approx(0.3647)]
    assert run.best_val_loss == 10.94


def test_the_world_size_of_a_command_line_above_the_log(tmp_path):
    run = one(tmp_path, "$ torchrun --standalone --nproc_per_node=8 train.py\niter 1: loss 4.0, time 561.94ms\n")
    assert run.world_size == 8


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("iter 1: loss 4.0, time 561.9ms\niter 2: loss nan, time 561.9ms\n", [2]),
        (
            "step   61/74 | loss nan (+nanz)| norm 1.4 (+nanz)| lr 3e-04 | 44.57 ms | -100.0% bf16 MFU | 9188 tok/s\n",
            [61],
        ),
        ("[rank0]:[titan] step: 10  loss: nan  memory: 4.0GiB(5%)  tps: 5,856  tflops: 339.16  mfu: 34.29%\n", [10]),
        (megatron(losses=("2.1E+00", "NaN", "nan")), [2, 3]),
        ("completed step: 5, seconds: 2.167, TFLOP/s: 36.722, loss: nan\n", [5]),
    ],
)
def test_a_loss_that_is_no_number_is_seen_in_every_dialect(tmp_path, text, steps):
    assert one(tmp_path, text).nan_steps == steps


def test_skipped_iterations_are_counted_once_the_scaler_has_settled(tmp_path):
    run = one(tmp_path, megatron((1, 1, 0, 3, 2), ("2.0",) * 5))
    assert run.skipped_steps == 5


def test_megatron_gives_a_rate_by_batch_and_length(tmp_path):
    run = one(tmp_path, "  seq_length ........................ 4096\n" + megatron())
    assert run.details["tokens_per_step"] == 128 * 4096
    assert run.logged_steps[0].seconds == pytest.approx(5.4449)


def test_gpt_neox_is_not_megatron(tmp_path):
    text = (
        "samples/sec: 1.702 | iteration        1/   55000 | elapsed time per iteration (ms): 18806.7 | "
        "approx flops per GPU: 5.7TFLOPS | lm_loss: 2.275809E+00 | number of skipped iterations:   0 |\n"
    )
    run = one(tmp_path, text)
    (step,) = run.logged_steps
    assert run.format == "GPT-NeoX log"
    assert (step.samples_per_s, step.flops_per_s, step.loss) == (1.702, 5.7e12, 2.275809)


def test_a_cumulative_clock_is_taken_apart(tmp_path):
    text = (
        "step:0/5610 val_loss:10.825840 train_time:0ms step_avg:0.17ms\n"
        "step:1/5610 train_time:292ms step_avg:292.13ms\n"
        "step:2/5610 train_time:458ms step_avg:228.76ms\nstep:3/5610 train_time:665ms step_avg:221.70ms\n"
    )
    run = one(tmp_path, text)
    assert [s.seconds for s in run.logged_steps] == [None, pytest.approx(0.166), pytest.approx(0.207)]


def test_a_log_of_validation_alone_gives_mean_step_times(tmp_path):
    lines = [(0, 10.8, 0.0), (125, 4.65, 23.75), (250, 4.1, 48.75), (500, 3.8, 98.75)]
    text = "".join(f"step:{s}/3225 val_loss:{v} train_time:{t:.3f}s step_avg:190.42ms\n" for s, v, t in lines)
    run = one(tmp_path, text)
    assert (run.format, run.best_val_loss) == ("modded-nanogpt log", 3.8)
    assert [(s.step, s.seconds) for s in run.logged_steps] == [
        (125, pytest.approx(0.19)),
        (250, pytest.approx(0.2)),
        (500, pytest.approx(0.2)),
    ]


def test_further_step_lines(tmp_path):
    text = (
        "step 00004/21400 (0.02%) | loss: 8.893647 | lrm: 1.00 | dt: 989.44ms | tok/sec: 529,882 | "
        "mfu: 74.13 | total time: 0m\n"
    )
    (step,) = one(tmp_path, text).logged_steps
    assert (step.seconds, step.tokens_per_s, step.mfu) == (pytest.approx(0.98944), 529882, pytest.approx(0.7413))
    (step,) = one(tmp_path, "completed step: 7, seconds: 2.167, TFLOP/s: 36.722, loss: 2.191\n").logged_steps
    assert (step.seconds, step.flops_per_s, step.loss) == (2.167, pytest.approx(36.722e12), 2.191)


def test_the_peak_that_torchtitan_divided_by(tmp_path):
    text = (
        "[rank0]:[titan] root - WARNING - Peak flops undefined for: NVIDIA L40S, fallback to A100\n"
        "[rank0]:[titan] step: 10  loss: 6.1  memory: 49.66GiB(52.28%)  wps: 5,856  mfu: 34.29%\n"
    )
    run = one(tmp_path, text)
    assert (run.peak_flops, run.logged_steps[0].tokens_per_s) == (312e12, 5856)


def test_the_settings_of_a_second_run_do_not_replace_those_of_the_first(tmp_path):
    step = "[rank0]:[titan] step: {}  loss: 6.1  memory: 49.66GiB(52.28%)  wps: 5,856  mfu: 34.29%\n"
    steps = "".join(step.format(number) for number in (1, 2, 3))
    stated = "Peak FLOPS used for computing MFU: 9.890e+14\n"
    fallback = "Peak flops undefined for: NVIDIA L40S, fallback to A100\n"
    assert [run.peak_flops for run in several(tmp_path, stated + steps + fallback + steps)] == [989e12, 312e12]

    entry = ':::MLLOG {{"time_ms": {}, "key": "{}", "value": {}}}\n'
    text = ""
    for at, batch in ((1000, 256), (5000, 512)):
        text += entry.format(at, "global_batch_size", batch) + entry.format(at, "seed", batch)
        text += entry.format(at + 1, "run_start", "null") + entry.format(at + 2001, "run_stop", "null")
    runs = several(tmp_path, text)
    assert [(run.global_batch, run.run_id) for run in runs] == [(256, "256"), (512, "512")]


def test_two_ranks_on_one_line_and_a_bar_before_them(tmp_path):
    text = (
        "num_gpus: 2\nProfiler initialized\n"
        "Training:  48%|##  | 15/31 [00:21<00:25,  1.40s/it]Step 15: loss 2.55Step 15: loss 2.55\n"
        "elapsed_time_per_iteration: 1.4782 s\nelapsed_time_per_iteration: 1.4790 sThroughput average on 15: 4.73\n"
        "Training:  97%|####| 30/31 [00:42<00:01,  1.40s/it]Step 30: loss 2.33\nStep 30: loss 2.31\n"
        "elapsed_time_per_iteration: 0.8675 selapsed_time_per_iteration: 0.8676 s\nThroughput average on 15: 8.06\n"
        "| ID | Name | Load (%) | Free Memory (MB) | Used Memory (MB) | Total Memory (MB) |\n"
        "| 0 | NVIDIA L4 | 93.0% | 14700.0 | 7895.0 | 23034.0 |\n"
        "config.py:1003:print]   train_micro_batch_size_per_gpu  4\n"
        '    "min_train_micro_batch_size_per_gpu": 1,\n'
        "Validation: 40%|# | 4/10 [00:01<00:02,  2.72it/s]\n"
    )
    run = one(tmp_path, text)
    assert run.rank_losses == {15: [2.55, 2.55], 30: [2.33, 2.31]}
    assert [(s.step, s.seconds, s.flops_per_s) for s in run.logged_steps] == [
        (15, 1.479, pytest.approx(4.73e12)),
        (30, 0.8676, pytest.approx(8.06e12)),
    ]
    assert run.progress_bar == [(15, 21.0, 1.4), (30, 42.0, 1.4)]
    assert (run.engine_batch, run.memory_used_bytes) == (4, 7895 * 2**20)
    assert "torch.profiler" in run.debug_settings


def test_mlperf(tmp_path):
    line = ':::MLLOG {{"time_ms": {at}, "key": "{key}", "value": {value}, "metadata": {{"status": "success"}}}}\n'
    entries = [(1000, "global_batch_size", 55296), (2000, "run_start", "null"), (9500, "run_stop", "null")]
    run = one(tmp_path, "".join(line.format(at=at, key=key, value=value) for at, key, value in entries))
    assert (run.global_batch, run.timed_spans[0].seconds, run.details["status"]) == (55296, 7.5, "success")


def test_mlperf_without_a_usable_time(tmp_path):
    """1e999 ms is no time: a run that it ends has none."""
    line = ':::MLLOG {{"time_ms": {at}, "key": "{key}", "value": null}}\n'
    entries = [(2000, "run_start"), ("1e999", "run_stop"), (9500, "run_stop"), (9600, "run_start"), (9900, "run_stop")]
    runs = several(tmp_path, "".join(line.format(at=at, key=key) for at, key in entries))
    assert [span.seconds for run in runs for span in run.timed_spans] == [7.5, 0.3]


def test_hugging_face_console(tmp_path):
    text = (
        "  Instantaneous batch size per device = 8\n  Total train batch size (w. parallel, distributed) = 64\n"
        "{'loss': 2.3, 'learning_rate': 5e-05, 'epoch': 0.1}\n{'loss': nan, 'learning_rate': 5e-05, 'epoch': 0.2}\n"
        "{'train_runtime': 100.0, 'train_samples_per_second': 64.0, 'train_steps_per_second': 1.0, 'epoch': 1.0}\n"
    )
    run = one(tmp_path, text)
    assert (run.micro_batch, run.global_batch, run.epochs) == (8, 64, 1)
    assert (run.nan_steps, run.timed_spans[0].samples_per_s) == ([2], 64.0)
    assert one(tmp_path, text.replace(", 'tr", ",\n 'tr").replace(", 'ep", ",\n 'ep")).timed_spans == run.timed_spans


TF_CNN = """TensorFlow:  1.15
Model:       resnet50
Dataset:     imagenet
Batch size:  256 global
             64 per device
Num batches: 100
Devices:     ['/gpu:0', '/gpu:1', '/gpu:2', '/gpu:3']
Variables:   replicated
Step	Img/sec	total_loss
1	images/sec: 1190.1 +/- 0.0 (jitter = 0.0)	8.169
10	images/sec: 1205.7 +/- 2.1 (jitter = 3.8)	7.593
100	images/sec: 1203.4 +/- 0.6 (jitter = 4.5)	nan
----------------------------------------------------------------
total images/sec: 1203.02
"""


def test_tf_cnn_benchmarks(tmp_path):
    run = one(tmp_path, TF_CNN)
    assert (run.format, run.model, run.world_size) == ("tf_cnn_benchmarks log", "resnet50", 4)
    assert (run.global_batch, run.micro_batch, run.dataset) == (256, 64, "imagenet")
    assert [(s.step, s.samples_per_s, s.loss) for s in run.logged_steps] == [
        (1, 1190.1, 8.169),
        (10, 1205.7, 7.593),
        (100, 1203.4, None),
    ]
    assert (run.nan_steps, run.timed_spans[0].samples_per_s) == ([100], 1203.02)
    assert one(tmp_path, TF_CNN[TF_CNN.index("Step") :]).format == "tf_cnn_benchmarks log"  # not CSV, of that line
    behind = TF_CNN.replace("\n", "\nINFO|2020-05-19T07:21:05|/opt/run.py|27| ")
    assert one(tmp_path, behind.rpartition("\n")[0]).timed_spans == run.timed_spans
    synthetic = one(tmp_path, TF_CNN.replace("imagenet", "imagenet (synthetic)"))
    assert (synthetic.nan_steps, {s.loss for s in synthetic.logged_steps}) == ([], {None})


@pytest.mark.parametrize(
    "line",
    [
        "78/78 [==============================] - {s}s 2s/step - loss: {loss} - accuracy: 0.88 - val_loss: 0.2838",
        "78/78 - {s}s - loss: {loss} - accuracy: 0.8853 - val_loss: 0.2838 - lr: 1.0000e-04 - {s}s/epoch - 2s/step",
        "78/78 ━━━━━━━━━━━━━━━━━━━━ {s}s 2s/step - accuracy: 0.8853 - loss: {loss} - val_loss: 0.2838",
    ],
)
def test_keras(tmp_path, line):
    bar = "12/78 [===>..........................] - ETA: 1:40 - loss: 0.9"
    epochs = [
        f"Epoch {k}/3\n{bar}\n{(ended := line.format(s=s, loss=loss))}\n{ended}"
        for k, s, loss in (
            (1, 131, "0.5"),
            (2, 122, "nan"),
            (3, 123, "0.2894"),
        )
    ]
    run = one(tmp_path, "$ horovodrun -np 2 python train.py\n" + "\n".join(epochs) + "\n")
    assert [(s.index, s.seconds, s.train_loss) for s in run.timed_spans] == [
        (1, 131, 0.5),
        (2, 122, None),
        (3, 123, 0.2894),
    ]
    assert (run.format, run.best_val_loss, run.nan_steps) == ("Keras log", 0.2838, [2])


def test_dllogger(tmp_path):
    text = "".join(
        f'DLLL {{"elapsedtime": "1", "type": "LOG", "step": [0, {k}], '
        f'"data": {{"train.loss": 6.9, "train.total_ips": 2500.5}}}}\n'
        for k in range(3)
    )
    run = one(tmp_path, text)
    assert [(s.step, s.loss, s.samples_per_s) for s in run.logged_steps] == [(k, 6.9, 2500.5) for k in range(3)]
    text = text.replace("[0, ", "").replace("], ", ", ").replace("train.total_ips", "train_step_timing in s")
    assert [(s.step, s.seconds) for s in one(tmp_path, text).logged_steps] == [(k, 2500.5) for k in range(3)]


def test_lines_of_an_unknown_program_are_read_and_said_to_be_guessed(tmp_path):
    text = "".join(
        f"Epoch [{k}] | Train Loss: {3 - k / 10:.2f} | Acc: 10% | Time: 14.35s\n"
        f"Epoch [{k}] | Test Loss: 2.9 | Time: 2.1s\n"
        for k in range(1, 5)
    )
    run = one(tmp_path, text, "logs_1.out")
    assert run.guessed
    assert [(s.index, s.seconds, s.val_loss) for s in run.timed_spans] == [(k, 14.35, 2.9) for k in range(1, 5)]
    (tmp_path / "logs_1.out").write_text("Loading 12 shards\nepoch 1 begins, loss 3\nDone in 3 s\n")
    assert gather([tmp_path]).runs == []


def _epochs(numbers, seconds):
    return "".join(f"epoch: {k} loss: {3 - k / 50:.2f} epoch_time: {seconds} s\n" for k in numbers)


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        (_epochs((10, 20, 30, 40), 60), [((10, 20, 30, 40), {60})]),
        (_epochs((10, 20, 30), 60) * 2, [((10, 20, 30), {60})] * 2),
        (_epochs((1, 2, 3), 60) + _epochs((1, 2, 3, 4, 5), 90), [((1, 2, 3), {60}), ((1, 2, 3, 4, 5), {90})]),
        ("".join(_epochs([k], 60) + _epochs([k], 90) for k in (1, 2, 3)), [((1, 2, 3), {60})]),  # of two ranks
    ],
)
def test_epochs_of_a_guessed_log(tmp_path, text, runs):
    read = several(tmp_path, text)
    spans_of_runs = [run.timed_spans for run in read]
    assert [(tuple(s.index for s in spans), {s.seconds for s in spans}) for spans in spans_of_runs] == runs


def test_two_runs_in_one_file_are_told_apart_by_the_restart(tmp_path):
    text = "world_size: 2\n" + "".join(f"iter {k}: loss 4.0, time 500.0ms\n" for k in range(5))
    (tmp_path / "train.log").write_text(text + text.replace("world_size: 2", "world_size: 4").replace("500", "300"))
    first, second = gather([tmp_path]).runs
    assert (first.world_size, second.world_size) == (2, 4)
    assert [len(r.logged_steps) for r in (first, second)] == [5, 5]
    assert (first.name, second.name) == ("train.log#1", "train.log#2")


def test_a_resumed_run_is_one_run(tmp_path):
    steps = [*range(0, 50, 10), *range(30, 80, 10)]
    run = one(tmp_path, "".join(f"iter {k}: loss 4.0, time 500.0ms\n" for k in steps))
    assert len(run.logged_steps) == len(steps)


def test_rows_of_several_configurations_in_a_log_are_several_runs(tmp_path):
    text = "method,workers,epoch,epoch_time,loss\n" + "".join(
        f"{m},{n},{k},{10 / n},{1 / k}\n" for k in (1, 2, 3) for m, n in (("ddp", 2), ("fsdp", 4))
    )
    (tmp_path / "metrics.csv").write_text(text)
    runs = gather([tmp_path]).runs
    assert [(r.strategy, r.world_size, [w.index for w in r.timed_spans]) for r in runs] == [
        ("ddp", 2, [1, 2, 3]),
        ("fsdp", 4, [1, 2, 3]),
    ]


@pytest.mark.parametrize(
    ("text", "samples", "devices", "encoding"),
    [
        (
            "timestamp, index, utilization.gpu [%], memory.used [MiB]\n2024/01/01 10:00:00.1, 0, 90 %, 500 MiB\n",
            1,
            1,
            "utf-8",
        ),
        ("2024/01/01 10:00:00.1, 0, 90 %, 500 MiB\n2024/01/01 10:00:00.2, 1, 80 %, 500 MiB\n", 2, 2, "utf-8"),
        (
            "timestamp, utilization.gpu [%]\n2024/01/01 10:00:00.1, 90 %\n2024/01/01 10:00:01.1, 91 %\n",
            0,
            0,
            "utf-16",
        ),
        (
            "# gpu   pwr  sm   mem\n# Idx   W    %    %\n  0   68   90   20\n  1   70   80   20\n",
            0,
            0,
            "utf-8",
        ),
    ],
)
def test_logs_of_nvidia_smi_in_their_usual_forms(tmp_path, text, samples, devices, encoding):
    (tmp_path / "gpu.csv").write_bytes(text.encode(encoding))
    (log,) = gather([tmp_path]).gpu_logs
    assert (log.samples, log.devices) == (samples, devices)


def test_own_device_time_is_that_of_kernels(tmp_path):
    rows = [
        "Name,Device Time Total (ms),CPU Time Total (ms),Self Device Time Total (ms),Self CPU Time Total (ms),Calls",
        "ProfilerStep*,8169.5,21749.2,0,6855.9,10",
        "ProfilerStep*,21336.8,0,21336.8,0,10",
        "ProfilerStep*,100.0,0,100.0,0,20",
        "DistributedDataParallel.forward,7494.7,0,7494.7,0,20",
        "nccl:all_reduce,5258.0,0,5258.0,0,134",
        "aten::copy_,823.6,8872.3,740.9,16.6,2088",
        "ampere_sgemm,2000.0,0,2000.0,0,494",
        "ncclDevKernel_AllReduce,5654.9,0,5654.9,0,147",
    ]
    (tmp_path / "profile.csv").write_text("\n".join(rows))
    (table,) = gather([tmp_path]).operator_tables
    assert table.self_s == pytest.approx(7.6549)
    assert table.steps == 10


def test_a_loss_of_minus_infinity_is_not_finite(tmp_path):
    run = one(tmp_path, "".join(f"{{'loss': {loss}, 'epoch': 0.1}}\n" for loss in (3.1, 2.9, "-inf", 2.7)))
    assert len(run.nan_steps) == 1


def test_an_epoch_has_the_time_of_its_training_whichever_line_comes_first(tmp_path):
    lines = [
        f"Epoch {k} | val_loss: {3 - k / 9:.3f} | time: 5 s\nEpoch {k} | time: {60 + k} s | train_loss: 2.{k}\n"
        for k in (1, 2, 3, 4)
    ]
    run = one(tmp_path, "".join(lines))
    assert [(span.index, span.seconds) for span in run.timed_spans] == [(k, 60.0 + k) for k in (1, 2, 3, 4)]
    assert all(span.val_loss and span.train_loss for span in run.timed_spans)
