"""Identities over published tables: each fires on its fault, with the right figure, not on what rounding explains."""

import importlib.util
import random
import sys
from pathlib import Path

import pytest

from scaleproof.auditor.audit import audit_paths
from scaleproof.auditor.read.reported_tables import PrintedInterval
from scaleproof.ground.errors import UserError
from scaleproof.ground.findings.finding import Finding


def rows(head: str, *lines: str) -> str:
    """A Markdown table of lines whose cells are separated by bars."""
    rule = "|".join(["---"] * len(head.split("|")))
    return "\n".join(f"| {line} |" for line in (head, rule, *lines)) + "\n"


SOUND = rows(
    "GPUs | Total tokens/s | Step time (ms) | Global batch | Seq len | Speedup | Efficiency",
    "1 | 10240 | 800.0 | 16 | 512 | 1.00 | 100%",
    "2 | 19692 | 416.0 | 16 | 512 | 1.92 | 96%",
    "4 | 36571 | 224.0 | 16 | 512 | 3.57 | 89%",
)


def audited(folder: Path, text: str, name: str = "README.md") -> list[Finding]:
    (folder / name).write_text(text)
    return audit_paths([folder]).findings


def table(folder: Path, *changes: tuple[str, str]) -> list[Finding]:
    text = SOUND
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return audited(folder, "# Results\n\n" + text)


def accusations(findings: list[Finding]) -> dict[str, Finding]:
    return {f.code: f for f in findings if f.severity != "note"}


def test_a_sound_table_is_not_accused(tmp_path):
    assert accusations(table(tmp_path)) == {}


# code -> (what is changed, severity, part of the evidence, right figure or None)
FAULTS = {
    "speedup-not-in-table": ([("3.57 | 89%", "2.80 | 70%")], "suspect", "speed-up 2.80", 3.571),
    "efficiency-not-in-table": ([("3.57 | 89%", "3.57 | 71%")], "suspect", "efficiency 71%", 89.3),
    "rate-of-one-rank": ([("36571", "9143")], "invalid", "1/4 of it", 36572),
    "rate-multiplied": ([("36571", "146284")], "invalid", "4 times of it", 36571),
    "rate-times-time": ([("19692", "23000"), ("1.92", "2.00")], "suspect", "is 8,192", 19692),
    "super-linear": (
        [("36571", "45511"), ("224.0", "180.0"), ("3.57 | 89%", "4.44 | 111%")],
        "suspect",
        "4 times the devices",
        None,
    ),
}


@pytest.mark.parametrize("code", FAULTS)
def test_a_fault_of_a_table_is_named(tmp_path, code):
    changes, severity, text, figure = FAULTS[code]
    finding = accusations(table(tmp_path, *changes))[code]
    assert finding.severity == severity
    assert text in finding.evidence
    if figure is not None:
        assert finding.corrected.value == pytest.approx(figure, rel=2e-3)


# code -> (text of a table, severity, part of the evidence, right figure or None)
TEXTS = {
    "baseline-below-one": (
        rows(
            "GPUs | Speedup | Efficiency",
            "2 | 1.00 | 50%",
            "4 | 1.90 | 47.5%",
            "8 | 3.60 | 45%",
        ),
        "invalid",
        "the baseline has 2",
        90.0,
    ),
    "unequal-work": (
        rows(
            "GPUs | Epochs | Total time (s) | Speedup",
            "1 | 20 | 2000 | 1.00",
            "4 | 5 | 106.7 | 18.75",
        ),
        "invalid",
        "20 epochs",
        4.69,
    ),
    "totals-disagree": (
        rows(
            "GPUs | Tokens/s/GPU | Total tokens/s",
            "1 | 1000 | 1000",
            "4 | 900 | 3200",
        ),
        "suspect",
        "x 4 = 3,600",
        None,
    ),
    "row-stands-out": (
        rows(
            "GPUs | Images/s | Epoch time (s)",
            "1 | 100 | 56.0",
            "2 | 190 | 29.5",
            "4 | 402 | 15.53",
            "8 | 700 | 8.00",
            "16 | 1300 | 4.31",
        ),
        "suspect",
        "6,24",
        None,
    ),
    "mfu-impossible": (
        rows(
            "GPUs | Tokens/s | MFU (%)",
            "1 | 1000 | 45.1",
            "4 | 3900 | 133.0",
        ),
        "invalid",
        "133.0",
        None,
    ),
    "figure-impossible": (
        rows(
            "GPUs | Tokens/s | GPU utilization (%)",
            "1 | 1000 | 95",
            "4 | 3900 | 130",
        ),
        "invalid",
        "130",
        None,
    ),
    "figures-copied": (
        rows(
            "GPUs | Total time (s) | Tokens/s",
            "1 | 23295.6115 | 1406.5",
            "4 | 23295.6115 | 1406.5",
        ),
        "suspect",
        "the same",
        None,
    ),
    "projected-beside-measured": (
        rows(
            "GPUs | Tokens/s",
            "1 | 1000",
            "4 | 3900",
            "8 (projected) | 7800",
        ),
        "note",
        "projected",
        None,
    ),
    "slower-with-more": (
        rows(
            "GPUs | Tokens/s | Speedup",
            "1 | 1000 | 1.00",
            "4 | 460 | 0.46",
        ),
        "note",
        "0.46x",
        None,
    ),
}


@pytest.mark.parametrize("code", TEXTS)
def test_another_table_is_named(tmp_path, code):
    text, severity, evidence, figure = TEXTS[code]
    finding = {f.code: f for f in audited(tmp_path, "# Results\n\n" + text)}[code]
    assert finding.severity == severity
    assert evidence in finding.evidence
    if figure is not None:
        assert finding.corrected.value == pytest.approx(figure, rel=5e-3)


# Tables that look faulty and are not.
INNOCENT = {
    "a step is a micro-step": rows(
        "GPUs | Samples/s | Step time (ms) | Micro batch | Grad accum | Global batch",
        "2 | 294.46 | 217.35 | 32 | 4 | 256",
    ),
    "no baseline of its own": rows(
        "Server | GPUs | Images/s | Speedup | Efficiency",
        "CPU | 2 | 55.09 | 1.01x | 50.5%",
        "CPU | 4 | 66.55 | 1.22x | 30.5%",
    ),
    "rounded to one digit": rows(
        "GPUs | Time per epoch (s) | Speedup",
        "1 | 9 | 1",
        "4 | 3 | 3.4",
    ),
    "weak scaling": rows(
        "GPUs | Epoch time (s) | Speedup | Efficiency",
        "1 | 100 | 1.0 | 100%",
        "4 | 110 | 3.64 | 91%",
    ),
    "rate of one device": rows(
        "GPUs | Tokens/s | Step time (s) | Global batch | Seq len",
        "1 | 8192 | 1.0 | 16 | 512",
        "4 | 7450 | 0.275 | 16 | 512",
    ),
    "steps fall with the devices": rows(
        "GPUs | Batch size | Steps | Runtime (s) | Speedup",
        "1 | 64 | 938 | 100.0 | 1.00",
        "2 | 64 | 469 | 52.0 | 1.92",
        "4 | 64 | 235 | 27.0 | 3.70",
    ),
    "steps of an unknown batch": rows(
        "GPUs | Batch size | Steps | Runtime (s) | Speedup",
        "1 | 64 | 938 | 100.0 | 1.00",
        "2 | 64 | 625 | 52.0 | 1.92",
    ),
    "evaluation in the total": rows(
        "GPUs | Epochs | Epoch time (s) | Total time (s)",
        "1 | 3 | 100 | 390",
        "4 | 3 | 30 | 130",
    ),
    "another configuration": rows(
        "Setup | GPUs | Tokens/s | Speedup",
        "fp32 | 1 | 1000 | 1.0",
        "bf16 + compile | 4 | 9000 | 9.0",
    ),
    "relative to something else": rows(
        "GPUs | Tokens/s | Speedup vs CPU",
        "1 | 1000 | 35.1",
        "4 | 3700 | 129.9",
    ),
    "accumulated steps": rows(
        "GPUs | Tokens/s | Step time (s) | Batch size | Seq len",
        "1 | 8192 | 4.0 | 16 | 512",
    ),
    "energy efficiency": rows(
        "GPUs | Speedup | Efficiency",
        "1 | 1.0 | 2.1",
        "4 | 3.6 | 1.7",
    ),
    "decimal commas": rows(
        "GPUs | Tokens/s | Speedup | Efficiency",
        "1 | 10.240,5 | 1,00 | 1,000",
        "4 | 36.571,2 | 3,57 | 0,893",
    ),
}


@pytest.mark.parametrize("what", INNOCENT)
def test_an_innocent_table_is_not_accused(tmp_path, what):
    assert accusations(audited(tmp_path, "# Results\n\n" + INNOCENT[what])) == {}


def test_a_guessed_log_accuses_nobody(tmp_path):
    """Training and test lines of each epoch, in a log of an unknown program: its form was guessed."""
    phases = (("Train", 11.8), ("Test", 1.0))
    lines = [f"Epoch [{e}] | {p} Loss: {2 / e:.4f} | Time: {t}s" for e in range(1, 11) for p, t in phases]
    (tmp_path / "train.out").write_text("\n".join(lines))
    audit = audit_paths([tmp_path])
    assert audit.runs
    assert accusations(audit.findings) == {}


def test_arithmetic_of_printed_figures():
    two, three = PrintedInterval(1.9, 2.1), PrintedInterval(2.9, 3.1)
    assert (two * three).contains(6.0, 0)
    assert not (two * three).contains(7.0, 0)
    assert (three / two).meets(PrintedInterval(1.5, 1.5), 0)
    assert PrintedInterval(1000, 1001).meets_but_for_thousands(PrintedInterval(1.0, 1.001))


@pytest.mark.parametrize(
    ("interval", "value"),
    [
        (PrintedInterval(5, 30, 15), 15),  # of 30 / 2
        (PrintedInterval(3.27, 4.22), 3.7),
        (PrintedInterval(3.158, 3.242), 3.2),
        (PrintedInterval(2, 2, 2), 2),
    ],
)
def test_a_figure_has_the_digits_that_are_known_and_two_at_least(interval, value):
    assert interval.in_known_digits == value


def test_a_table_and_the_runs_beside_it_are_matched(tmp_path):
    """A speed-up in a README is about the runs whose epoch times stand in its row, and so are its devices."""
    for name, seconds in (("small", 19.53), ("large", 42.34)):
        (tmp_path / name).mkdir()
        rows = "".join(f"{e},{0.5 / e},{seconds}\n" for e in range(1, 6))
        (tmp_path / name / "metrics.csv").write_text("epoch,train_loss,train_time\n" + rows)
    text = "| GPUs | Epoch time (s) | Speedup |\n|---|---|---|\n| 1 | 19.53 | 1.00x |\n| 4 | 42.34 | 0.46x |\n"
    (tmp_path / "README.md").write_text("# Results\n\n" + text)
    audit = audit_paths([tmp_path])
    rows = {reading.name: reading for reading in audit.readings}
    assert (rows["large"].devices, rows["large"].published) == (4, "0.46x")
    assert "claim-not-in-data" not in {f.code for f in audit.findings}


MEASURED = rows(
    "Strategy | GPUs | Tokens/s | Step time (ms) | MFU",
    "DP | 4 | 11,700 | 35.0 | 21.3 %",
    "DDP | 4 | 20,000 | 20.5 | 36.4 %",
    "DDP | 1 | 6,300 | 16.3 | 45.9 %",
)


@pytest.mark.parametrize(
    "sentence",
    [
        "DDP is 71 % faster than DP on 4 GPUs.",
        "DDP is 95 % faster on 4 GPUs.",
        "DDP gives a 1.7x speedup over DP.",
        "DDP gives a 2.6x speedup over DP.",
        "A step of DDP takes 19–21 ms per step on 4 GPUs.",
        "A step of DDP takes 23–25 ms per step on 4 GPUs.",
        "We reach an MFU of 36.4 % on 4 GPUs.",
        "We reach an MFU of 52.3 % on 4 GPUs.",
        "DDP trains 20,000 tokens/s with 4 GPUs.",
        "DDP trains 26,000 tokens/s with 4 GPUs.",
    ],
)
def test_a_sentence_whose_rows_are_unknown_accuses_nobody(tmp_path, sentence):
    (tmp_path / "README.md").write_text(f"# Results\n\n{MEASURED}\n\n{sentence}\n")
    findings = audit_paths([tmp_path]).findings
    assert {f.severity for f in findings} <= {"note"}


def test_results_in_sentences_alone_are_read(tmp_path):
    (tmp_path / "README.md").write_text("# Results\n\nDDP reaches 43,469 tokens/s on 4 GPUs, a 3.5x speedup.\n")
    audit = audit_paths([tmp_path])
    assert [(r.devices, r.rate, r.published, r.mark) for r in audit.readings] == [
        (4, "", "3.5x speedup", ""),
        (4, "43,469 tokens/s", "", ""),
    ]
    assert audit.clean
    (tmp_path / "README.md").write_text("# Expected results\n\nDDP should reach 43,469 tokens/s.\n")
    with pytest.raises(UserError, match="no benchmark result"):
        audit_paths([tmp_path])


@pytest.fixture(scope="module")
def auditor(request):
    folder = request.config.rootpath / "benchmarks"
    sys.path.insert(0, str(folder))  # of what it imports
    spec = importlib.util.spec_from_file_location("benchmarks_auditor", folder / "auditor.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for their module
    spec.loader.exec_module(module)
    return module


def test_generated_sound_sets_are_not_accused(tmp_path, auditor):
    scores = auditor.score_sound(120, 7, tmp_path)
    assert [example for score in scores.values() for example in score.examples] == []
    assert all(score.read == score.sets for score in scores.values())


def test_generated_faults_are_named(tmp_path, auditor):
    scores = auditor.score_faults(60, 7, tmp_path)
    assert [example for score in scores.values() for example in score.examples] == []


def test_a_generated_fault_is_in_the_table(auditor):
    """What plants a fault changes a figure: without that the measure would measure nothing."""
    for name in auditor.FAULTS:
        faulty, planted = auditor.faulty_table(name, random.Random(3))
        assert planted.code
        assert faulty.rows


def test_nothing_to_read_is_a_message(tmp_path):
    (tmp_path / "README.md").write_text(
        rows(
            "Name | Author",
            "a | b",
        )
    )
    with pytest.raises(UserError, match="no benchmark result"):
        audit_paths([tmp_path])
