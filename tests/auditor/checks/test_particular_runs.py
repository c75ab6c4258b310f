"""Checks on runs of particular kinds: what proves a fault in them, and what does not."""

import json
import random
from dataclasses import replace

import pytest
from external_faults import claimed, file, findings, log, pair, put, run, same_steps
from external_files import write_megatron

from scaleproof.auditor.audit import audit_paths
from scaleproof.auditor.checks.baselines import same_work, total_rate
from scaleproof.auditor.read.discover import gather
from scaleproof.auditor.read.reported import ReportedRun


def test_steps_that_do_not_fall_with_the_ranks(tmp_path):
    """The data set's size is unknown; that each rank made as many steps as one alone tells it."""
    pair(same_steps)(tmp_path)
    finding = findings(tmp_path)["each-rank-trained-on-everything"]
    assert finding.severity == "suspect"
    assert str(finding.corrected).startswith("3.333x: not 0.83x, if each rank trained on all of the data")


def test_as_many_steps_as_somebody_wanted_are_no_epoch(tmp_path):
    """Weak scaling over a round number of steps."""

    def rounded(first, second) -> None:
        same_steps(first, second)
        for data in (first, second):
            epoch = data["epochs"][0]
            epoch["tokens_processed_global"] = epoch["tokens_processed_global"] // 937 * 900
            epoch["tokens_per_sec_global"] = epoch["tokens_processed_global"] / epoch["epoch_wall_time_sec"]
            epoch.update(micro_steps=900, optimizer_steps=900)

    pair(rounded)(tmp_path)
    assert "each-rank-trained-on-everything" not in findings(tmp_path)


def test_the_batch_of_dataparallel_may_be_the_total(tmp_path):
    data = run(2)
    data["training_config"].update(
        strategy="dp", micro_batch_size_per_gpu=data["training_config"]["micro_batch_size_per_gpu"] * 2
    )
    put(tmp_path / "a", data)
    assert {f.severity for f in findings(tmp_path).values()} == {"note"}


def test_ranks_that_share_a_model_share_a_batch(tmp_path):
    data = run(4)
    data["training_config"]["global_batch_size"] //= 2
    put(tmp_path / "a", data)
    finding = findings(tmp_path)["batch-arithmetic"]
    assert (finding.severity, "2 ranks share each copy" in finding.evidence) == ("suspect", True)


def test_a_row_for_each_rank_is_no_second_run(tmp_path):
    rows = "".join(f"{e},{r},0.5,{10 + e / 10}\n" for e in range(1, 6) for r in range(4))
    file("metrics.csv", "epoch,rank,train_loss,train_time\n" + rows)(tmp_path)
    assert "runs-interleaved" not in findings(tmp_path)


def test_a_run_that_was_resumed_is_not_two_runs_at_once(tmp_path):
    rows = "".join(f"{e},0.5,10\n" for e in (1, 2, 3, 3, 4, 5))
    file("metrics.csv", "epoch,train_loss,train_time\n" + rows)(tmp_path)
    assert findings(tmp_path)["runs-interleaved"].severity == "note"


@pytest.mark.parametrize(("value", "codes"), [("0.5", {"claim-not-in-data"}), ("0.404", set())])
def test_a_published_mfu_is_its_flops_over_its_peak(tmp_path, value, codes):
    write_megatron(tmp_path / "a", random.Random(0))
    claim = "{kind: mfu, flops: 4.0e14, peak: 9.89e14, device: NVIDIA H100 80GB HBM3, precision: bf16, value: %s}"
    claimed(claim % value)(tmp_path)
    found = findings(tmp_path)
    assert found.keys() & {"claim-not-in-data", "mfu-impossible", "peak-of-another-device"} == codes
    assert all("its flops / peak give 0.4044" in found[code].evidence for code in codes)


def test_a_published_mfu_over_the_peak_of_another_device(tmp_path):
    claimed("{kind: mfu, flops: 4.0e14, peak: 3.12e14, device: NVIDIA H100 PCIe, precision: bf16}")(tmp_path)
    found = findings(tmp_path)
    assert "128%" in found["mfu-impossible"].evidence
    assert "the peak of A100" in found["peak-of-another-device"].evidence
    assert found["peak-of-another-device"].corrected.figure == "52.9 %"


@pytest.mark.parametrize(
    ("tflops", "mfu", "is_wrong"),
    [("339.12", "74.01", True), ("339.12", "34.29", False), ("339.12", "34", False), ("0.41", "0.06", False)],
)
def test_a_logged_mfu_follows_from_the_flops_beside_it(tmp_path, tflops, mfu, is_wrong):
    """Small figures have too few digits to tell."""
    head = "CUDA capacity: NVIDIA H100 with 95.00GiB memory\nPeak FLOPS used for computing MFU: 9.890e+14\n"
    step = f"step: {{}}  loss: 6.1  memory: 9.66GiB(9.2%)  tps: 5,861  tflops: {tflops}  mfu: {mfu}%\n"
    file("titan.log", head + "".join(step.format(k) for k in range(1, 9)))(tmp_path)
    assert ("MFU 74.0% is of 458 TFLOP/s" in str(findings(tmp_path).get("peak-of-another-device"))) == is_wrong


def test_what_a_file_does_not_say_can_be_given(tmp_path):
    for name, seconds, rate in (("one", 100.0, 1000.0), ("four", 40.0, 625.0)):
        file(f"{name}.json", json.dumps({"train_time_per_epoch": [seconds], "train_throughput": [rate]}))(tmp_path)
    assert "rate-of-one-rank" not in findings(tmp_path)
    found = audit_paths([tmp_path], {"one": {"world_size": 1}, "four": {"world_size": 4}}).findings
    assert [str(f.corrected)[:50] for f in found if f.code == "rate-of-one-rank"] == [
        "2,500 tokens/s: the rate x 4; 2.500 times the base"
    ]


def test_a_file_named_twice_is_one_run_and_its_copy_another_with_a_name_of_its_own(tmp_path):
    put(tmp_path / "a", run(2))
    put(tmp_path / "b/a", run(2))
    path, copy = tmp_path / "a/training_metrics.json", tmp_path / "b/a/training_metrics.json"
    assert len(audit_paths([path, path]).runs) == 1
    assert len(set(audit_paths([path, copy]).runs)) == 2


def test_a_factorial_sweep_is_no_comparison_of_arms(tmp_path):
    for stage in (0, 1, 2):
        for kind in ("bf16", "tf32"):
            data = run(2)
            data["training_config"].update(zero_stage=stage, precision=kind)
            put(tmp_path / f"{stage}{kind}", data)
    assert "arms-differ" not in findings(tmp_path)


def test_arms_on_other_nodes_of_a_cluster_differ_in_one_thing(tmp_path):
    for kind in ("bf16", "tf32"):
        data = run(2)
        data["training_config"]["precision"] = kind
        data["scheduler"] = {"type": "slurm", "nodelist": f"node-{kind}"}
        put(tmp_path / kind, data)
    assert "arms-differ" not in findings(tmp_path)


def test_a_loss_scaler_may_look_for_its_scale(tmp_path):
    """Steps skipped in the first lines of a log are its start, not its result."""
    log(write_megatron, (r"(?s)(?<=skipped iterations:   )0(?=.*iteration      200/)", "3"))(tmp_path)
    assert "updates-skipped" not in findings(tmp_path)


def test_folders_that_are_no_repeats_are_configurations(tmp_path):
    for name in ("report/run1", "runtime/run1", "runtime/run2"):
        put(tmp_path / name, run(2))
    assert findings(tmp_path)["single-run"].runs == ["report/run1"]


def test_a_baseline_of_the_same_program_is_preferred(tmp_path):
    """One device with another precision stands beside the right baseline: nothing is wrong."""
    for name, world, kind in (("a", 1, "tf32"), ("b", 1, "bf16"), ("c", 4, "bf16")):
        data = run(world)
        data["training_config"]["precision"] = kind
        put(tmp_path / name, data)
    assert "baseline-other-program" not in findings(tmp_path)


def test_folders_beside_each_other_publish_no_speedup(tmp_path):
    """`1gpu` and `2gpu` in one folder: nobody said that the one is faster than the other."""
    for devices, precision in ((1, "fp16_torch_amp"), (2, "fp16_deepspeed")):
        data = run(devices)
        data["training_config"]["precision"] = precision
        put(tmp_path / f"v100/{devices}gpu", data)
    assert findings(tmp_path)["baseline-other-program"].severity == "note"


@pytest.mark.parametrize(("edited", "is_copy"), [(3, True), (12, False)])
def test_a_log_of_an_unknown_program_that_was_copied_to_another_size(tmp_path, edited, is_copy):
    generator = random.Random(3)
    times = [round(0.41 + 0.02 * generator.random(), 4) for _ in range(24)]
    others = [time + 0.0137 if k < edited else time for k, time in enumerate(times)]
    for devices, of_steps in ((4, times), (8, others)):
        lines = (f"step: {k} loss: {3 - k / 50:.4f} step_time: {time:.4f}\n" for k, time in enumerate(of_steps, 1))
        (tmp_path / f"ddp_{devices}gpus.log").write_text("".join(lines))
    assert ("run-copied" in findings(tmp_path)) is is_copy


@pytest.mark.parametrize(("name", "is_fault"), [("fsdp_2gpus.log", True), ("ddp_4gpus.log", True), ("best.log", False)])
def test_a_copy_under_the_name_of_another_configuration(tmp_path, name, is_fault):
    lines = "".join(f"iter {k}: loss 4.0, time 500.0ms\n" for k in range(5))
    for copied in ("ddp_2gpus.log", name):
        (tmp_path / copied).write_text(lines)
    found = findings(tmp_path)
    assert ("run-copied" in found) is is_fault
    assert "n=1 in 1 configuration" in found["single-run"].evidence


@pytest.mark.parametrize("larger_states", [True, False])
def test_runs_of_other_names_did_the_same_work_only_where_both_say_so(larger_states):
    """A speed-up over a run of unknown work is none."""
    statements = {"model": "gpt2", "dataset": "openwebtext"}
    one = ReportedRun("imagenet_resnet.json", "f", world_size=1, **({} if larger_states else statements))
    four = ReportedRun("wikitext_bert.json", "f", world_size=4, **(statements if larger_states else {}))
    assert not same_work(one, four)
    assert same_work(replace(one, **statements), replace(four, **statements))


@pytest.mark.parametrize("fraction", [0.95, 0.99])
def test_a_parallel_fraction_is_held_against_its_own_speedup(tmp_path, fraction):
    claimed(f"{{kind: amdahl, parallel_fraction: {fraction}, speedup: 51.2, devices: 64}}")(tmp_path)
    flag = findings(tmp_path).get("amdahl-below-one")
    assert (flag is None) == (fraction == 0.99), "which is near to the 0.996 of the formula"
    assert flag is None or flag.evidence == "P = 0.95 for 51.2 times with 64 devices; the formula gives 0.996"


@pytest.mark.parametrize(("batches", "is_wrong"), [((512, 512), True), ((256, 256), False), ((256, 512), False)])
def test_consumed_samples_grow_by_the_batch(tmp_path, batches, is_wrong):
    """Where the batch itself changes, nothing is said."""
    line = " iteration {k:4}/ 900 | consumed samples: {samples} | elapsed time per iteration (ms): 512.{k} | "
    line += "global batch size: {batch} | lm loss: 2.{k} | number of skipped iterations: 0 |\n"
    lines = [line.format(k=k, samples=256 * k, batch=batches[k > 14]) for k in range(10, 20)]
    file("m.log", "".join(lines))(tmp_path)
    found = findings(tmp_path).get("batch-arithmetic")
    assert (found is not None) == is_wrong
    if found:
        assert "grow by 256 a step in all of 9 lines, but the global batch is 512" in found.evidence


@pytest.mark.parametrize(
    ("step", "batch", "right"),
    [(None, 1008, ""), (200, 1008, "201,600"), (350, 1008, ""), (200, 504, ""), (200, None, "")],
)
def test_the_samples_of_a_line_are_between_those_around_it(tmp_path, step, batch, right):
    """Nothing is said of the last line, nor where the batch changes or is unknown."""
    line = " iteration {k:4}/ 900 | consumed samples: {samples} | elapsed time per iteration (ms): 512.{k} | "
    line += "{batch}lm loss: 2.{k} |\n"
    batches = {k: 1008 if k != step or batch is None else batch for k in range(50, 400, 50)}
    samples = {k: 1008 * k + 14_400 * (k == step) for k in batches}
    stated = {k: f"global batch size: {of_line} | " * (batch is not None) for k, of_line in batches.items()}
    file("m.log", "".join(line.format(k=k, samples=samples[k], batch=stated[k]) for k in batches))(tmp_path)
    found = findings(tmp_path).get("batch-arithmetic")
    assert (found is not None) == bool(right)
    if found:
        what = f"step 200: 216,000 consumed samples, but {right} by the lines around it and the batch of 1,008"
        assert what in found.evidence


@pytest.mark.parametrize(
    ("line", "rate", "is_wrong"), [(1, 361.42, True), (1, 261.58, False), (1, 61.42, True), (3, 61.42, False)]
)
def test_a_rate_follows_from_the_time_beside_it(tmp_path, line, rate, is_wrong):
    """The last batch of an epoch may be smaller than the others, not larger."""
    text = "Train: 0 [{k:>4}/6672 (  1%)]  Loss: 6.96 (6.96)  Time: {s:.3f}s, {r:>7.2f}/s  (0.742s,  258.85/s)\n"
    times = [1.839, 0.734, 0.704, 0.711]
    lines = [text.format(k=50 * k, s=s, r=rate if k == line else 192 / s) for k, s in enumerate(times)]
    file("timm.log", "".join(lines))(tmp_path)
    found = findings(tmp_path).get("rate-times-time")
    assert (found is not None) == is_wrong
    if found:
        assert f"line 2: {rate}/s x 0.734 s = {rate * 0.734:,.3g} samples, 192 in 3 other lines" in found.evidence


@pytest.mark.parametrize(
    ("batches", "rates", "is_wrong"),
    [
        ([128] * 6, {3: 171.6}, True),
        ([128] * 6, {}, False),
        ([64, 64, 128, 128, 128, 128, 128], {}, False),  # the batch grows
    ],
)
def test_samples_per_second_of_megatron_follow_from_the_time(tmp_path, batches, rates, is_wrong):
    line = " iteration {k:4}/ 900 | consumed samples: {n} | elapsed time per iteration (ms): 512.{k} | "
    line += "global batch size: {batch} | lm loss: 2.{k} | samples per second: {rate:.3f} |\n"
    text, consumed = "", 0
    for k, batch in enumerate(batches):
        consumed += batch
        text += line.format(k=k + 1, n=consumed, batch=batch, rate=rates.get(k, batch / 0.5125))
    file("m.log", text)(tmp_path)
    assert ("rate-times-time" in findings(tmp_path)) == is_wrong


TRAINED = "{{'loss': 2.3, 'epoch': 0.1, 'step': 5}}\n{{'train_runtime': 100.0, 'train_samples_per_second': {}, "
TRAINED += "'train_steps_per_second': 1.5, 'epoch': 1.0}}\n"


@pytest.mark.parametrize(
    ("batch", "samples_per_s", "severity"),
    [
        ("Total train batch size = 64", 96.0, None),
        ("Total train batch size = 64", 95.5, None),  # the last batch of an epoch is smaller
        ("Total train batch size = 64", 140.0, "suspect"),
        ("Total train batch size = 64", 12.0, "note"),  # of prompts that have eight answers each
        ("Instantaneous batch size per device = 8", 96.0, None),
        ("Instantaneous batch size per device = 8", 90.0, "note"),
        ("", 90.0, None),
    ],
)
def test_samples_and_steps_per_second_give_a_batch(tmp_path, batch, samples_per_s, severity):
    file("t.log", f"  {batch}\n  Total optimization steps = 150\n" + TRAINED.format(samples_per_s))(tmp_path)
    found = findings(tmp_path).get("rate-times-time")
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize(
    ("samples_per_s", "batch", "severity"),
    [
        (80, 32, "suspect"),
        (64, 32, None),
        (63.41, 32, None),  # ten epochs, each of which ends with a smaller batch
        (64, 8, "note"),  # of one micro-step of four
        (60, 32, "note"),
    ],
)
@pytest.mark.parametrize("is_in_claims", [False, True])
def test_a_batch_that_a_person_states_is_held_against_samples_and_steps_per_second(
    tmp_path, samples_per_s, batch, severity, is_in_claims
):
    summary = f"'train_runtime': 500.0, 'train_samples_per_second': {samples_per_s}, 'train_steps_per_second': 2.0"
    (tmp_path / "t.log").write_text(f"{{'loss': 2.3, 'epoch': 0.1}}\n{{{summary}, 'epoch': 9.97}}\n")
    if is_in_claims:
        claims = f"scaleproof_claims: '1.0'\nruns: {{t.log: {{global_batch: {batch}}}}}\n"
        (tmp_path / "c.yaml").write_text(claims)
    audit = audit_paths([tmp_path], given=None if is_in_claims else {"": {"global_batch": batch}})
    flags = {finding.code: finding for finding in audit.findings}
    flag = flags.get("rate-times-time")
    assert (flag.severity if flag else None) == severity
    assert not flag or ("right only if that leaves out an accumulation of 4" in flag.evidence) == (batch == 8)


@pytest.mark.parametrize(
    ("factor", "window", "is_wrong"),
    [
        (1.0, 1, False),
        (1.3, 1, True),
        (0.6, 1, True),
        (1 / 8, 1, False),  # the rate of one of eight ranks, which nanoGPT does not print
        (1.3, 5, False),  # of several iterations, without the evaluations in the times of some
    ],
)
@pytest.mark.parametrize("form", ["tok/s {:,.0f}", "tokens/sec: {:.1f}", "{:,.0f} tok/s"])
def test_tokens_per_second_of_a_fork_of_nanogpt_follow_from_the_time(tmp_path, factor, window, is_wrong, form):
    times = [0.21 + 0.002 * (k * 7 % 5) for k in range(40)]
    lines = []
    for k in range(window, 40):
        rate = form.format(factor * 16_384 * window / sum(times[k - window : k]))
        lines.append(f"iter {k}: loss {4 - k / 50:.4f}, time {times[k - 1] * 1e3:.2f}ms, mfu 30.10%, {rate}\n")
    file("nano.log", "tokens per iteration will be: 16,384\n" + "".join(lines))(tmp_path)
    found = findings(tmp_path).get("rate-times-time")
    assert (found.severity if found else None) == ("suspect" if is_wrong else None)
    (run,) = gather([tmp_path]).runs
    assert total_rate(run).value == pytest.approx(
        16_384 / 0.214, rel=1e-3
    )  # by the times: that of forks may be a rank's


@pytest.mark.parametrize("rate", ["tok/s 100.9k", "101 tok/s/gpu", "tok/s/gpu 101", "tok/step 512"])
def test_what_is_no_rate_of_a_fork_of_nanogpt_is_left_out(tmp_path, rate):
    line = "iter {k}: loss 3.1, time 212.{k}ms, mfu 30.10%, {rate}\n"
    (tmp_path / "nano.log").write_text("".join(line.format(k=k, rate=rate) for k in range(10, 20)))
    (run,) = gather([tmp_path]).runs
    assert len(run.logged_steps) == len(run.logged_steps.nonzero("mfu")) == 10
    assert not run.logged_steps.nonzero("tokens_per_s").size


@pytest.mark.parametrize(
    ("devices", "total", "is_wrong"),
    [("'/gpu:0', '/gpu:1'", 1802.6, True), ("'/gpu:0', '/gpu:1'", 180.26, False), ("'/gpu:0', '/gpu:1'", 360.2, False)],
)
def test_no_run_is_faster_than_all_of_its_lines(tmp_path, devices, total, is_wrong):
    """A total may be of all devices where the lines are of each."""
    lines = "".join(f"{k}\timages/sec: 180.{k} +/- 0.5 (jitter = 1.5)\t7.88{k}\n" for k in range(1, 6))
    head = f"Model:       resnet50\nBatch size:  128 global\n             64 per device\nDevices:     [{devices}]\n"
    file("tf.log", f"{head}Step\tImg/sec\ttotal_loss\n{lines}----\ntotal images/sec: {total}\n")(tmp_path)
    assert ("rate-times-time" in findings(tmp_path)) == is_wrong


@pytest.mark.parametrize(
    ("smoothing", "factor", "severity"),
    [(1.0, 1.5, "note"), (1.0, 1.0, None), (0.05, 1.0, None)],  # 0.05: a moving average, which times do not follow
)
def test_lines_show_that_a_rate_follows_from_the_time(tmp_path, smoothing, factor, severity):
    rows, average = "", 65_000.0
    for k in range(1, 25):
        seconds = 5.0 if k == 12 and smoothing < 1 else 0.5 + 0.01 * (k % 3)
        average += smoothing * (32_768 / seconds - average)
        rows += f"{k},{3 - k / 50},{average * (factor if k == 12 else 1):.1f},{seconds}\n"
    file("history.csv", f"_step,loss,tokens_per_sec,step_time_s\n{rows}")(tmp_path)
    found = findings(tmp_path).get("rate-times-time")
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize(("varied_s", "is_noted"), [(0.01, True), (0.0005, False)])
def test_one_bad_line_of_a_fork_is_noted_where_times_show_what_its_rates_follow_from(tmp_path, varied_s, is_noted):
    times = [0.25 + varied_s * (k % 3 - 1) for k in range(20)]
    line = "iter {}: loss {:.4f}, time {:.2f}ms, mfu 35.10%, tok/sec {:.0f}\n"
    rates = [491_520 / s * (1.9 if k == 12 else 1) for k, s in enumerate(times)]
    lines = (line.format(10 * k, 4 - k / 20, 1000 * times[k], rate) for k, rate in enumerate(rates))
    file("train.log", "".join(lines))(tmp_path)
    found = findings(tmp_path).get("rate-times-time")
    assert ((found.severity, found.evidence[:8]) if found else None) == (("note", "line 13:") if is_noted else None)


@pytest.mark.parametrize(("rate", "is_noted"), [(35.5, True), (4.1, False)])
def test_a_rate_far_above_all_other_lines_is_noted(tmp_path, rate, is_noted):
    entry = ':::MLLOG {{"time_ms": {ms}, "key": "{key}", "value": {value}}}\n'
    lines = [entry.format(ms=0, key="run_start", value="null"), entry.format(ms=99, key="run_stop", value="null")]
    rates = (3.55 if k != 5 else rate for k in range(1, 10))
    lines[1:1] = [entry.format(ms=9, key="tracked_stats", value=f'{{"throughput": {r}}}') for r in rates]
    file("result_0.txt", "".join(lines))(tmp_path)
    assert ("rate-times-time" in findings(tmp_path)) == is_noted
