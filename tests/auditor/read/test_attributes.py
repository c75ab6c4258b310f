"""What a row is said to be of: a word on weak ground is left out, one that stands in the row counts."""

import json

import pytest
from markdown_tables import accusations, audited, rows

from scaleproof.auditor.audit import NoResult, audit_paths
from scaleproof.auditor.read.discover import gather
from scaleproof.auditor.read.headings import column_of
from scaleproof.auditor.read.words import describe, is_inference


def readings(folder, text, name="README.md"):
    (folder / name).write_text(text)
    try:
        return audit_paths([folder]).readings
    except NoResult:
        return []


def works(folder, text, name="README.md"):
    return [reading.work for reading in readings(folder, text, name)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gpt-4.1-mini", {}),
        ("GPT-4 served", {"model": "gpt-4"}),
        ("Gemma 2 9B", {"model": "gemma 2 9b"}),
        ("Data pipeline, prefetched", {}),
        ("Pipelined", {"strategy": "pipeline parallel"}),
        ("nvidia/megatron-bert", {"model": "bert"}),
        ("Megatron", {"strategy": "megatron"}),
        ("vgg19_bn", {"model": "vgg19 bn"}),
        ("vgg19_ddp", {"model": "vgg19", "strategy": "ddp"}),
        ("llama_server_gpt-oss", {}),
        ("llama 7B Q4_0", {"model": "llama 7b"}),
    ],
)
def test_a_part_of_a_longer_name_says_nothing(text, words):
    assert {kind: word for kind, word in describe(text).words.items() if kind in ("model", "strategy")} == words


def test_the_model_of_a_caption_is_none_of_rows_beside_another(tmp_path):
    table = rows("Setup | tokens/s", "{} | 100", "plain | 90")
    assert works(tmp_path, "# Results of Qwen3 4B\n\n" + table.format("Gemma 2 9B")) == ["gemma 2 9b", ""]
    assert works(tmp_path, "# Results of Qwen3 4B\n\n" + table.format("tuned")) == ["qwen3 4b", "qwen3 4b"]


@pytest.mark.parametrize(("beside", "published"), [("clarity", []), ("gpus", ["3", "4"])])
def test_an_efficiency_beside_nothing_that_scales_is_a_score(tmp_path, beside, published):
    scores = [{"efficiency": 3, "time_s": 2.0, beside: 2}, {"efficiency": 4, "time_s": 2.1, beside: 4}]
    if beside == "clarity":
        scores = [{key: value for key, value in score.items() if key != "time_s"} for score in scores]
    lines = readings(tmp_path, json.dumps({"judge": scores}, indent=1), "scores.json")
    assert [line.published for line in lines] == published


@pytest.mark.parametrize(
    ("heading", "kind"),
    [
        *(("approx_flops", None), ("flops total", None), ("FLOPS", "flops_per_s"), ("TFLOPs", "flops_per_s")),
        *(("GPU Efficiency (%)", "utilization"), ("Scaling Efficiency (%)", "efficiency")),
    ],
)
def test_operations_are_no_rate_and_rates_are(heading, kind):
    assert column_of(heading).kind == kind


@pytest.mark.parametrize("heading", ["step_ms_p95", "step_p95_ms", "p95_step_ms", "p95 step (ms)", "step_time_ms p95"])
def test_a_statistic_may_stand_before_or_behind_the_unit(heading):
    column = column_of(heading)
    assert (column.kind, column.statistic, column.scale) == ("step_time_s", "p95", 1e-3)


@pytest.mark.parametrize(("heading", "count"), [("Attack", 0), ("Inference", 2)])
def test_a_time_below_an_unknown_heading_needs_a_word_of_time(tmp_path, heading, count):
    table = rows(f"Quality | {heading} | Boost", "Small | 20 ms | +24 dB", "High | 10 ms | +18 dB")
    assert len(readings(tmp_path, "# Presets\n\n" + table)) == count


@pytest.mark.parametrize(("name", "work"), [("projections + MLP", ""), ("Projection, 64 GPUs", "projected")])
def test_projections_of_a_model_are_no_projection(tmp_path, name, work):
    assert works(tmp_path, rows("Part | images/s", f"{name} | 100"))[0] == work


def test_a_failure_is_of_its_own_column(tmp_path):
    table = rows("Length | Old system | New system (TFLOPS)", "4k | 28 | 80", "8k | OoM | 86")
    assert works(tmp_path, table) == ["", ""]
    assert "out of memory" in works(tmp_path, rows("Length | Status | TFLOPS", "4k | ok | 80", "8k | OOM | 86"))[1]


@pytest.mark.parametrize(("name", "work"), [("2.3 GB", ""), ("Average", ""), ("13B", "13B")])
def test_a_size_and_a_mean_are_no_model(tmp_path, name, work):
    assert works(tmp_path, rows("Model size | images/s", f"{name} | 100"))[0] == work


@pytest.mark.parametrize(
    ("sentence", "rate"),
    [
        ("All ran on an RTX 4070, 12 GB VRAM.", []),
        ("We had 2 NVIDIA T4 GPUs with a 16GB memory cap.", []),
        ("The run on an RTX 4070 takes 9 GB VRAM.", ["9 GB VRAM"]),
    ],
)
def test_the_memory_of_a_device_is_no_result(tmp_path, sentence, rate):
    assert [reading.rate for reading in readings(tmp_path, f"# Results\n\n{sentence}\n")] == rate


@pytest.mark.parametrize(
    ("sentence", "work"),
    [("Ours runs 153 tok/s, theirs 83, FP8 Turbo 48.", ""), ("With FP8 ours runs 153 tok/s, theirs 83.", "fp8")],
)
def test_a_word_behind_the_figure_is_of_the_next_one(tmp_path, sentence, work):
    assert works(tmp_path, f"# Results\n\n{sentence}\n")[0] == work


RECORD = {"model": "gpt2", "gpus": [{"index": 0, "memory_used_mb": 70, "power_w": 90}], "config": {"duration_s": 90}}


def test_devices_and_settings_of_a_record_are_no_results(tmp_path):
    lines = readings(tmp_path, json.dumps({**RECORD, "metrics": {"tokens_per_s": 301, "memory_gb": 3}}), "r.json")
    assert [(line.rate, line.work) for line in lines] == [("301 (tokens_per_s)", "gpt2")]
    assert readings(tmp_path, json.dumps([{"gpus": 2, "tokens_per_s": 5}]), "r.json")[0].devices == 2


def test_a_second_line_of_headings_is_no_row(tmp_path):
    table = "| GPUs | Batch-size 64 | | Batch-size 128 | |\n|---|---|---|---|---|\n"
    table += "| | Time (s) | Comm (s) | Time (s) | Comm (s) |\n| 2 | 1047.59 | 40.02 | 907.32 | 25.67 |\n"
    measured = rows("GPUs | tokens/s", "2 | 90")
    assert {reading.devices for reading in readings(tmp_path, table + "\n" + measured)} == {2}


@pytest.mark.parametrize(
    ("head", "is_read"),
    [("time,value", False), ("station,avg_duration", False), ("setup,avg_time", True), ("gpus,time", True)],
)
def test_a_time_or_duration_alone_may_be_of_anything(tmp_path, head, is_read):
    (tmp_path / "series.csv").write_text(f"{head}\n1,10\n2,20\n4,35\n")
    assert bool(gather([tmp_path]).tables) is is_read


def test_a_text_of_several_lines_in_a_csv_file_is_one_cell(tmp_path):
    text = 'model,tokens_per_sec,answer\ngpt2,50.9,"First.\n\n2, then, more"\nopt,42.1,"no"\n'
    (tmp_path / "answers.csv").write_text(text)
    evidence = gather([tmp_path])
    assert [row.line for row in evidence.tables[0].rows] == [2, 5]
    assert not evidence.unread
    (tmp_path / "answers.csv").write_text(text.replace('"First.\n\n2, then, more"', '12"').replace('"no"', '14"'))
    evidence = gather([tmp_path])
    assert [row.line for row in evidence.tables[0].rows] == [2, 3]
    assert "quote that opens or closes alone" in evidence.unread[0].reason


@pytest.mark.parametrize("texts", [["Latency (us)", "NCCL all-reduce"], ["Latency (ms)", "Disk"]])
def test_the_latency_of_a_collective_is_no_inference(texts):
    assert not is_inference(texts)
    assert is_inference([*texts[:1], "Serving"])


def test_only_the_sentence_right_above_says_what_a_table_is_of(tmp_path):
    table = "\n\n" + rows("Profile | FPS", "640x360 | 30.02", "848x480 | 60.3")
    assert works(tmp_path, "# Camera\n\nSwitching keeps the TensorRT cache. It is the capture loop." + table)[0] == ""
    assert works(tmp_path, "# Camera\n\nSwitching keeps the cache. Speed with TensorRT." + table)[0] == "inference"


TWO_ARMS = rows(" | uncached | cached | cached/unc", "TTFT (ms) | 9.8 | 11.2 | 1.14x", "{} | 15.78 | 10.94 | 0.69x")


def test_figures_of_other_units_are_no_parts_of_a_total(tmp_path):
    table = TWO_ARMS.format("TPOT (ms/token)") + "| total (ms) | 7883.7 | 5469.9 | 0.69x |\n"
    assert accusations(audited(tmp_path, table)) == {}


SERVED = ("1 | 9.4 | 1048 | 122.1", "8 | 10.2 | 1044 | 982.9", "16 | 14.2 | 1060 | 1943.2", "32 | 25.6 | 1062 | 3922.1")


@pytest.mark.parametrize("heading", ["prefill(ms)", "prefill"])
def test_a_part_of_the_time_that_stands_beside_explains_a_product(tmp_path, heading):
    lines = (*SERVED, "64 | 49.9 | 1093 | 7790.0", "256 | 204 | 1235 | 31755.3")
    table = rows(f"B | {heading} | total(ms) | tokens/s", *lines)
    assert not accusations(audited(tmp_path, table))


@pytest.mark.parametrize(("heading", "is_accused"), [("cached(ms)", False), ("", True)])
def test_a_ratio_to_a_column_that_hardly_varies_is_no_inverse(tmp_path, heading, is_accused):
    lines = ("1 | 4961 | {} | 0.91x", "4 | 9040 | {} | 1.70x", "8 | 15306 | {} | 2.91x", "16 | 31002 | {} | 5.90x")
    others = ("5439", "5325", "5252", "5255") if heading else ("a", "b", "c", "d")
    table = rows(f"B | uncached(ms) | {heading or 'name'} | speedup", *map(str.format, lines, others))
    assert ("row-stands-out" in accusations(audited(tmp_path, table))) is is_accused


FRAMES_PER_S = (8.2281104770, 8.3850422607, 8.3830877367, 5.5686698063, 6.1020304050, 4.2966309515)


@pytest.mark.parametrize("heading", ["mean_latency_ms", "step_time_ms"])
def test_a_latency_beside_a_total_time_need_not_be_that_of_the_rate(tmp_path, heading):
    lines = [f"{k},8,{8 / f},{f},{(690 + 4 * (k % 3)) / f}" for k, f in enumerate(FRAMES_PER_S)]
    lines.append("9,8,19.022820234,0.4205475449,1210.0463932")
    (tmp_path / "trials.csv").write_text("\n".join([f"trial,num_frames,total_time_s,fps,{heading}", *lines]))
    assert not any(f.severity != "note" for f in audit_paths([tmp_path]).findings)


@pytest.mark.parametrize(("seconds", "is_duration"), [(1776852139.2, False), (17.5, True)])
def test_a_time_of_day_is_no_duration(tmp_path, seconds, is_duration):
    (tmp_path / "rows.json").write_text(json.dumps([{"wall_time_s": seconds, "tokens_per_s": 9}]))
    (row,) = gather([tmp_path]).tables[0].rows
    assert (row.value("total_time_s") is not None) is is_duration


def test_several_devices_are_not_those_of_a_caption_on_one(tmp_path):
    table = "# Single GPU vs multi-GPU\n\n" + rows("Setup | images/s", "1x A10 | 11", "{} | 83")
    assert works(tmp_path, table.format("8x A10")) == ["", ""]
    assert works(tmp_path, table.format("1x A10, compiled")) == ["single", "single"]


@pytest.mark.parametrize(
    ("text", "is_accused"),
    [
        ("1.5B / 7B / 8B × 3 tasks × 4 policies = 36", False),
        ("uniform_int8=8.0 / 3 non-uniform = 4.429", False),
        ("batch = 4 × 8 × 2 = 68", True),
    ],
)
def test_a_list_and_the_value_of_a_name_are_no_product(tmp_path, text, is_accused):
    text = f"{rows('GPUs | tokens/s', '1 | 911', '2 | 1,702')}\n{text}\n"
    assert ("claim-not-in-data" in accusations(audited(tmp_path, text))) is is_accused


def test_what_runs_out_of_memory_in_one_column_is_measured_in_another(tmp_path):
    table = rows("Batch | Forward (ms) | Backward (ms)", "1 | 12.1 | OOM", "2 | OOM | OOM")
    assert works(tmp_path, table) == ["batch 1", "batch 2, out of memory"]


def test_multiples_of_a_peak_are_no_speedups(tmp_path):
    table = rows("mode | batch=1 {0} | batch=16 {0}", "int8 | 0.75× | 0.5×", "int4 | 0.73× | 0.27×")
    assert [line.published for line in readings(tmp_path, table.format("peak"))] == []
    assert "0.27×" in [line.published for line in readings(tmp_path, table.format("speed"))]


@pytest.mark.parametrize(
    ("row", "reason"), [("2 | 8 | 9 | 190", "more"), ("2 | 190", "fewer"), ("2 | OOM", ""), ("2 | 8 | 190", "")]
)
def test_a_row_that_does_not_fit_is_not_read_below_wrong_headings(tmp_path, row, reason):
    (tmp_path / "README.md").write_text(rows("GPUs | batch | tokens/s", "1 | 8 | 100", row))
    evidence = gather([tmp_path])
    assert {row.line for table in evidence.tables for row in table.rows} == ({3} if reason else {3, 4})
    assert [f"1 line with {reason} values" in unread.reason for unread in evidence.unread] == [True] * bool(reason)


def test_a_remark_behind_a_row_does_not_make_rows_headings(tmp_path):
    cells = [("Concurrency", "RPS", "tok/s"), (1, 0.098, 49.1), (2, 0.183, "91.5  <- knee"), (4, 0.201, 99.8)]
    text = "\n".join(f"{size:>12}{requests:>10}{' ' * 5}{rate}" for size, requests, rate in cells)
    assert [line.rate for line in readings(tmp_path, text)] == ["49.1 (tok/s)", "91.5 (tok/s)", "99.8 (tok/s)"]


def test_a_heading_and_a_printed_pair_are_no_part_of_a_sentence(tmp_path):
    (tmp_path / "README.md").write_text("### Sync vs. Async\nThe loading took 136.6 seconds.\n")
    assert [stated.sentence for stated in gather([tmp_path]).stated_figures] == ["The loading took 136.6 seconds."]
    pairs = "Reserved [FWD]: 2.323 GB\nMemory allocated: {}\n"
    (tmp_path / "README.md").write_text(pairs.format("3.1 GB"))
    assert "2.323 GB Memory" not in [stated.printed for stated in gather([tmp_path]).stated_figures]


@pytest.mark.parametrize(
    ("time", "seconds"), [("39min 24s", 2364.0), ("39 min", 2340.0), ("13.254s", 13.254), ("2 h 4 machines", 7200.0)]
)
def test_a_time_of_several_parts_is_read_whole(tmp_path, time, seconds):
    (tmp_path / "README.md").write_text(f"The training took {time} in all.\n")
    assert [stated.value for stated in gather([tmp_path]).stated_figures] == pytest.approx([seconds])


def test_a_log_with_losses_is_of_training(tmp_path):
    log = "epoch,elapsed,{}\n" + "".join(f"{epoch},{79.1 + epoch},2.0\n" for epoch in range(4))
    assert works(tmp_path, log.format("loss"), "text_generation_lstm.csv") == [""]


@pytest.mark.parametrize("heading", ["threads", "stars"])
def test_times_of_threads_are_results_and_those_of_anything_are_not(tmp_path, heading):
    lines = readings(tmp_path, f"{heading},time\n1,10.2\n2,5.3\n4,2.9\n", "a.csv")
    assert bool(lines) == (heading == "threads")


def test_a_bar_of_one_step_is_no_rate_of_steps(tmp_path):
    bar = "Epoch {0}: 100%|####| {1}/{1} [00:13<00:00, 13.84s/it]\n"
    assert not readings(tmp_path, "".join(bar.format(k, 1) for k in range(4)), "a.log")
    assert readings(tmp_path, "".join(bar.format(k, 9) for k in range(4)), "a.log")


@pytest.mark.parametrize("printed", ["Memory [FWD]: 3.532 GB", "The peak memory was 3.532 GB here."])
def test_a_pair_that_a_program_printed_is_no_sentence(tmp_path, printed):
    output = {"output_type": "stream", "text": [f"Max time: 9.1 s\n{printed}\n"]}
    cells = [{"cell_type": "code", "outputs": [output]}]
    (tmp_path / "a.ipynb").write_text(json.dumps({"nbformat": 4, "cells": cells}))
    assert len(gather([tmp_path]).stated_figures) == (": " not in printed)


def test_figures_of_one_sentence_are_named_by_what_stands_before_them(tmp_path):
    text = (
        "With shards of 4 GB on both GPUs, synchronous loading took 136.6 s, and asynchronous loading took 147.2 s.\n"
    )
    names = [line.name for line in readings(tmp_path, text)]
    assert ["asynchronous" in name for name in names] == [False, True]


@pytest.mark.parametrize(
    ("second", "speedups"), [("Large", ["", "7.71x to 41.1x", "", "1.48x to 7.95x"]), ("", ["", "7.8x"])]
)
def test_a_ratio_to_the_baselines_of_two_sections_is_a_range(tmp_path, second, speedups):
    lines = "| GPUs | images/s |\n|---|---|\n| **Small** | |\n| 1 | 100 |\n| 8 | 780 |\n"
    more = "| **Large** | |\n| 1 | 20 |\n| 8 | 150 |\n" if second else ""
    assert [line.recomputed for line in readings(tmp_path, lines + more)] == speedups


@pytest.mark.parametrize(
    ("value", "reasons"),
    [
        ("fast", ['metrics.json: tokens_per_sec is "fast", which is no number']),
        *((sound, []) for sound in (4567, "4567", "n/a", "-", "~4567")),
    ],
)
def test_a_word_in_place_of_a_number_is_named(tmp_path, value, reasons):
    record = {"model": "gpt2", "gpus": 4, "tokens_per_sec": value, "step_time_ms": 120}
    (tmp_path / "metrics.json").write_text(json.dumps(record))
    audit = audit_paths([tmp_path])
    assert (audit.not_read.get("unknown form", []), audit.findings) == (reasons, [])
