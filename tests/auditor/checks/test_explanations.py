"""Ratios that few rows explain, or coarse figures: what contradicts its table is named, what has a reason is not."""

import pytest
from markdown_tables import accusations, audited, rows

from scaleproof.auditor.audit import audit_paths

# name -> (heading, lines, (the wrong cell, the right one, code, what the finding says))
FORMS = {
    "coarse ratios": (
        "Tokens | Ring (ms) | Regular (ms) | Speedup",
        (
            "298 | 679.65 | 24.08 | .03x",
            "998 | {} | 26.41 | .03x",
            "1998 | 676.99 | 29.51 | .04x",
            "6998 | 663.53 | 35.01 | .05x",
        ),
        ("82.06", "682.06", "speedup-not-in-table", "26.41 / 82.06"),
    ),
    "a speed-up that is the other way round": (
        "Tokens | Ring (ms) | Regular (ms) | Speedup",
        ("298 | 97.65 | 24.08 | 0.25x", "998 | 82.06 | 26.41 | 0.32x", "1998 | 76.99 | 29.51 | {}"),
        ("2.61x", "0.38x", "speedup-not-in-table", "29.51 / 76.99"),
    ),
    "ratios of means": (
        "Concurrency | HF req/s (mean) | Ours req/s (mean) | Speedup (mean)",
        ("2 | 0.38 | 1.57 | 4.1x", "4 | 0.50 | 3.03 | {}", "8 | 0.42 | 3.91 | 9.2x"),
        ("4.1x", "6.1x", "speedup-not-in-table", "3.03 / 0.50 = 6.06"),
    ),
    "one of several columns that the heading names": (
        "Batch | vLLM (tok/s) | HF (tok/s) | TGI (tok/s) | vs HF | vs TGI",
        (
            "1 | 92 | 31 | 78 | 2.97x | 1.18x",
            "8 | 610 | 180 | 515 | {} | 1.18x",
            "32 | 1910 | 420 | 1400 | 4.55x | 1.36x",
        ),
        ("3.93x", "3.39x", "speedup-not-in-table", "610 / 180"),
    ),
    "an improvement that is a saving of time": (
        "Variant | Step time (ms) | Improvement",
        ("eager | 80 | 0.0%", "compile | 60 | 25.0%", "flash | 50 | 37.5%", "fused | 38 | {}"),
        ("62.5%", "52.5%", "speedup-not-in-table", "38 / 80"),
    ),
    "an improvement that is a gain of speed": (
        "Variant | Step time (ms) | Improvement (%)",
        ("eager | 80 | -", "compile | 60 | 33.3", "flash | 50 | 60.0", "fused | 38 | {}"),
        ("62.5", "110.5", "speedup-not-in-table", "80 / 38"),
    ),
    "a unit that nobody knows": (
        "GPUs | Throughput | Speedup",
        ("1 | 12 req/s | 1×", "2 | {} | 1.8×", "4 | 44 req/s | 3.7×", "8 | 86 req/s | 7.2×"),
        ("32 req/s", "22 req/s", "speedup-not-in-table", "32 req/s / 12 req/s"),
    ),
}


def evidence(folder, head, *lines):
    return accusations(audited(folder, rows(head, *lines)))


@pytest.mark.parametrize("form", FORMS)
def test_a_figure_that_contradicts_its_table_is_named(tmp_path, form):
    head, lines, (wrong, _, code, text) = FORMS[form]
    assert text in evidence(tmp_path, head, *(line.format(wrong) for line in lines))[code]


@pytest.mark.parametrize("form", FORMS)
def test_the_right_figure_is_not_accused(tmp_path, form):
    head, lines, (_, right, _, _) = FORMS[form]
    assert evidence(tmp_path, head, *(line.format(right) for line in lines)) == {}


SOUND = {
    "a change of what no column has": (
        "Config | tok/s | Impact",
        ("HSDP | 1,871 | Baseline", "TP+HSDP | 3,224 | 58% less memory"),
    ),
    "a ratio over a baseline of another size": (
        "Grid | GPUs | Time (s) | Speedup",
        ("257x257 | 1 | 0.124 | 1.0x", "257x257 | 2 | 0.071 | 1.75x", "513x513 | 4 | 0.189 | 3.1x"),
    ),
    "one speed-up beside two times of one program": (
        "Model | TTFT (ms) | TPOT (ms) | Speedup",
        ("Qwen | 121.0 | 15.1 | 2.6x",),
    ),
    "differences in a table on its side": (
        "Metric | Before | After | Improvement",
        ("Throughput | 50,164 tok/s | 95,337 tok/s | +45,173 tok/s", "Speedup | 1.00x | 1.90x | +90%"),
    ),
    "notes about several things": (
        "Version | Time | Notes",
        ("v1 | 18.2 s | naive loop", "v2 | 4.1 s | 90% GPU utilization", "v3 | 1.3 s | 14x faster"),
    ),
    "shares of another whole": (
        "Component | Time (ms) | Busy",
        ("forward | 42.1 | 30.0%", "backward | 71.3 | 92.3%", "optimizer | 14.6 | 10.7%", "data | 8.3 | 66.1%"),
    ),
    "longer answers in one row": (
        "Concurrency | Output | Req/s | Tok/s",
        ("1 | 128 | 1.90 | 243", "2 | 128 | 1.42 | 182", "4 | 128 | 0.89 | 114", "8 | 176 | 1.87 | 329"),
    ),
    "several batches in a cell": (
        "GPUs | Batch: AMP, FP32 | Throughput - AMP | Throughput - FP32",
        (
            "1 | 16,4 | 571.9 | 109.4",
            "4 | 16,4 | 2028.9 | 386.2",
            "8 | 2,1 | 352.0 | 177.1",
            "16 | 2,1 | 705.0 | 352.3",
        ),
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_what_has_another_reason_is_not_accused(tmp_path, name):
    head, lines = SOUND[name]
    assert evidence(tmp_path, head, *lines) == {}


@pytest.mark.parametrize(("printed", "is_wrong"), [("7.95", True), ("7.25", False)])
def test_the_place_of_a_figure_in_a_table_on_its_side_is_its_line(tmp_path, printed, is_wrong):
    lines = ("samples/s | 400 | 1520 | 2900", f"speed-up | 1.00 | 3.80 | {printed}")
    found = audited(tmp_path, rows(" | 1 GPU | 4 GPUs | 8 GPUs", *lines)).get("speedup-not-in-table")
    assert (found.runs if found else []) == ["README.md:6"] * is_wrong


@pytest.mark.parametrize("printed", ["1.52", "1.20"])
def test_the_column_of_a_wrong_figure_is_marked(tmp_path, printed):
    lines = ("GPUs | 4 | 4 | 4", "tokens/s | 1000 | 1310 | 1200", f"speed-up | 1.00 | 1.31 | {printed}")
    (tmp_path / "README.md").write_text(rows("Metric | DDP | FSDP | ZeRO-3", *lines))
    marked = [row.name for row in audit_paths([tmp_path]).readings if row.mark]
    assert marked == ["ZeRO-3"] * (printed == "1.52")
