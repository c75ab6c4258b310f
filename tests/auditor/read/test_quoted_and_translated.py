"""Logs quoted between the fences of a document, and headings and remarks in other languages."""

import pytest

from scaleproof.auditor.audit import audit_paths
from scaleproof.auditor.read.discover import gather
from scaleproof.auditor.read.headings import column_of
from scaleproof.auditor.read.reported_tables import remarks_of
from scaleproof.auditor.read.words import describe, in_english

STEPS = "\n".join(f"iter {n}: loss {4 - n / 10:.4f}, time {100 + n}.50ms, mfu 31.00%" for n in range(5))


def runs(folder, text, name="README.md"):
    (folder / name).write_text(text)
    return gather([folder]).runs


@pytest.mark.parametrize("language", ["", "text", "bash"])
def test_a_log_between_fences_is_a_run(tmp_path, language):
    (run,) = runs(tmp_path, f"# Results\n\n```{language}\n$ torchrun train.py\n{STEPS}\n```\n")
    assert (run.name, run.format, len(run.logged_steps)) == ("README.md#line 4", "nanoGPT log", 5)


def test_lines_of_an_unknown_program_between_fences_are_a_run(tmp_path):
    lines = "\n".join(f"step {n}: train loss {5 - n}.25 (took {1400 + n}.5 ms)" for n in range(4))
    (run,) = runs(tmp_path, f"It prints\n```\n{lines}\n```\n")
    assert run.logged_steps[1].seconds == pytest.approx(1.4015)


@pytest.mark.parametrize(
    "text", [f"```python\n{STEPS}\n```", f"```\n{STEPS}", "```\niter 0: loss 4.1, time 99.5ms\n```"]
)
def test_program_text_an_open_fence_and_a_single_line_are_no_run(tmp_path, text):
    (tmp_path / "table.csv").write_text("gpus,tokens_per_s\n1,100\n2,190\n")
    assert runs(tmp_path, text) == []


def test_a_quoted_log_is_shown_and_not_checked(tmp_path):
    """What was left out of it is not known: in a file of its own the same lines are two runs and a loss of NaN."""
    lines = f"{STEPS}\n{STEPS.replace('3.9000', 'nan')}"
    (tmp_path / "README.md").write_text(f"```\n{lines}\n```\n")
    audit = audit_paths([tmp_path])
    assert audit.findings == []
    assert [reading.name for reading in audit.readings] == ["README.md#line 2#1", "README.md#line 2#2"]
    (tmp_path / "README.md").unlink()
    (tmp_path / "train.log").write_text(lines)
    assert any(f.severity != "note" for f in audit_paths([tmp_path]).findings)


@pytest.mark.parametrize(
    ("heading", "kind", "scale"),
    [
        ("吞吐量 (tokens/s)", "tokens_per_s", 1.0),
        ("吞吐（tokens/秒）", "tokens_per_s", 1.0),
        ("单步耗时(ms)", "step_time_s", 1e-3),
        ("训练时间（小时）", "total_time_s", 3600.0),
        ("加速比", "speedup", 1.0),
        ("峰值显存 (GB)", "memory_bytes", 2.0**30),
        ("卡数", "devices", 1.0),
        ("처리량 (samples/s)", "samples_per_s", 1.0),
        ("학습 시간 (분)", "total_time_s", 60.0),
        ("学習時間 (s)", "total_time_s", 1.0),
        ("Tiempo de entrenamiento (s)", "total_time_s", 1.0),
        ("精度", None, 1.0),  # of numbers, or how often a model is right
        ("Temporal", None, 1.0),
    ],
)
def test_headings_of_other_languages(heading, kind, scale):
    column = column_of(heading)
    assert (column.heading, column.kind, column.scale) == (heading, kind, scale)


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("시간(분)", "time (min)"),
        ("10초", "10 s"),
        ("분산 학습 시간", "분산 training time"),
        ("초기화 시간", "초기화 time"),
    ],
)
def test_a_syllable_is_a_unit_where_it_stands_alone(text, english):
    assert in_english(text) == english


@pytest.mark.parametrize(
    ("label", "devices"),
    [("单卡", 1), ("双卡", 2), ("DDP 8 张卡", 8), ("单机8卡", 8), ("2机8卡", None), ("显存", None)],
)
def test_cards_are_counted_where_their_number_is_certain(label, devices):
    assert describe(label).numbers.get("devices") == devices


def test_remarks_of_other_languages():
    remarks = [remarks_of(text) for text in ("理论加速比", "预计 8 卡", "实测")]
    assert remarks == [{"theoretical"}, {"estimated"}, set()]


def test_a_label_that_names_its_baseline_is_of_other_devices(tmp_path):
    (tmp_path / "README.md").write_text(
        "| Metric | 2 GPUs | 4 GPUs |\n|---|---|---|\n| Speedup vs 1 GPU | 1.9x | 3.7x |\n"
    )
    (table,) = gather([tmp_path]).tables
    assert [(row.devices, row.value("speedup")) for row in table.rows] == [(2, 1.9), (4, 3.7)]


@pytest.mark.parametrize("label", ["worker2", "worker 2", "rank 3", "GPU 3", "device 1"])
def test_the_name_of_a_device_is_no_number_of_devices(label):
    assert "devices" not in describe(label).numbers


@pytest.mark.parametrize("label", ["2 workers", "workers=2", "gpu2", "gpus 2", "GPUs: 2", "workers_2", "2x gpu"])
def test_a_number_of_devices_in_a_label(label):
    assert describe(label).numbers["devices"] == 2


@pytest.mark.parametrize(
    ("heading", "kind"),
    [
        ("Durchsatz (Token/s)", "tokens_per_s"),
        ("Débit (images/s)", "samples_per_s"),
        ("Schrittzeit (µs)", "step_time_s"),
        ("Satz", None),
    ],
)
def test_headings_in_another_language(heading, kind):
    assert column_of(heading).kind == kind


@pytest.mark.parametrize(("heading", "is_read"), [("Schrittzeit (s)", True), ("Jahreszeit", False)])
def test_a_table_without_an_english_word(tmp_path, heading, is_read):
    (tmp_path / "t.csv").write_text(f"Karten;{heading};Satz\n1;41,5;1,00\n2;21,0;1,97\n")
    assert bool(gather([tmp_path]).tables) == is_read


@pytest.mark.parametrize(
    "heading", ["Throughput (tokens/s) DDP", "Throughput [tokens/s] DDP", "DDP Throughput (tokens/s)"]
)
def test_what_stands_beside_a_unit_names_a_column(heading):
    assert (column_of(heading).kind, column_of(heading).note) in [
        ("tokens_per_s", "Throughput DDP"),
        ("tokens_per_s", "DDP"),
    ]


def test_a_program_that_prints_times_of_its_parts_prints_no_table_of_results(tmp_path):
    rule = "------------  ----------  -----"
    lines = ["Name          Self CPU    Calls", rule, "aten::linear  188.390ms   12", "aten::conv2d  4.497ms     30"]
    text = "\n".join(lines) + "\n"
    (tmp_path / "profile.txt").write_text(text)
    assert gather([tmp_path]).tables == []


def test_a_frame_without_its_index_has_single_spaces_between_its_columns(tmp_path):
    lines = [
        " gpus           mode  throughput  step_time_ms",
        "    1         simple 3154.750000     64.920000",
        "    2 overlapping_it 6038.240000     33.910000",
    ]
    (tmp_path / "out.txt").write_text("RESULTS\n" + "\n".join(lines) + "\n")
    (table,) = gather([tmp_path]).tables
    assert [(row.devices, row.words["run"], row.value("rate"), row.value("step_time_s")) for row in table.rows] == [
        (1, "simple", 3154.75, pytest.approx(0.06492)),
        (2, "overlapping_it", 6038.24, pytest.approx(0.03391)),
    ]


@pytest.mark.parametrize("moved", ["   64.920000 ", "   64.920000  x"])
def test_words_out_of_line_are_no_such_frame(tmp_path, moved):
    (tmp_path / "out.txt").write_text(f"gpus throughput step_time\n   1    3154.75{moved}\n   2    6038.24 33.91\n")
    assert gather([tmp_path]).tables == []


def test_a_sentence_that_says_around(tmp_path):
    (tmp_path / "README.md").write_text(
        "Each iteration takes around 32 seconds, which is 44% of the theoretical peak.\n"
    )
    stated = {(figure.kind, figure.value) for figure in gather([tmp_path]).stated_figures}
    assert stated == {("time", 32.0), ("mfu", 0.44)}


def test_a_share_of_a_bandwidth_is_no_utilization_of_the_flops(tmp_path):
    (tmp_path / "README.md").write_text("All-reduce on 8 GPUs reaches 91% of the theoretical peak memory bandwidth.\n")
    assert [figure for figure in gather([tmp_path]).stated_figures if figure.kind == "mfu"] == []
