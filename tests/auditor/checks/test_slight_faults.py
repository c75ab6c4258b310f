"""What looks like a fault and is none or a slight one: whole rounds, slightly super-linear, coarse ratios."""

import pytest
from markdown_tables import accusations, audited, rows

RATES = rows("Strategy | tokens/s", "DDP | 3800", "FSDP | 3500")
ROUNDS = rows(
    "GPUs | Rate (samples/s) | Time per sample (s)",
    *("1 | 0.117 | 8.54", "2 | 0.234 | 8.53", "4 | {} | 8.55", "7 | 0.817 | 8.57"),
)


def test_samples_that_are_given_out_in_whole_rounds(tmp_path):
    assert not accusations(audited(tmp_path, ROUNDS.format("0.409")))  # 14 samples: 4 rounds on 4 devices


def test_a_rate_that_no_rounds_explain(tmp_path):
    assert "0.609" in accusations(audited(tmp_path, ROUNDS.format("0.609")))["row-stands-out"]


@pytest.mark.parametrize(("rate", "severity"), [("727", "note"), ("790", "suspect")])
def test_a_speedup_slightly_above_the_devices_is_a_note(tmp_path, rate, severity):
    findings = audited(tmp_path, rows("GPUs | images/s", "1 | 100.0", f"7 | {rate}.0"))
    assert findings["super-linear"].severity == severity


@pytest.mark.parametrize(
    ("heading", "batches", "rate", "severity"),
    [
        ("batch per GPU", ("2", "8"), "2,900", "note"),
        ("batch", ("2", "32"), "2,900", "note"),
        ("batch per GPU", ("8", "8"), "5,900", "suspect"),
        ("batch per GPU", ("8", "4"), "5,900", ""),  # a smaller one explains nothing, and may be of another program
        ("batch per GPU", ("2", "8"), "1,800", ""),
    ],
)
def test_a_larger_batch_of_a_device_is_said_of_a_superlinear_speedup(tmp_path, heading, batches, rate, severity):
    table = rows(f"GPUs | {heading} | tokens/s", f"1 | {batches[0]} | 600", f"4 | {batches[1]} | {rate}")
    found = audited(tmp_path, table).get("super-linear")
    assert (found.severity if found else "") == severity
    assert found is None or (f"is {batches[1]}, there {batches[0]}" in found.evidence) == (severity == "note")


@pytest.mark.parametrize(("batch", "severity"), [("8", "note"), ("2", "suspect")])
def test_a_larger_batch_is_said_of_a_printed_superlinear_speedup(tmp_path, batch, severity):
    lines = ("1 | 2 | 600 | 1.0x", f"4 | {batch} | 2,900 | 4.8x", "8 | 2 | 4,700 | 7.8x")
    found = audited(tmp_path, rows("GPUs | batch per GPU | tokens/s | Speedup", *lines))["super-linear"]
    assert (found.severity, len(found.runs)) == (severity, 1)


@pytest.mark.parametrize(
    ("base", "rate", "right"), [("1.0e3", "3.7e+3", 3.7), ("1.2k", "2.3K", 1.9), ("1000", "3712", 3.712)]
)
def test_a_corrected_figure_has_the_digits_of_its_sources(tmp_path, base, rate, right):
    text = rows("GPUs | tokens/s | Speedup", f"1 | {base} | 1", f"4 | {rate} | 4.9")
    assert audited(tmp_path, text)["speedup-not-in-table"].corrected.value == right


def test_no_difference_beside_equal_figures(tmp_path):
    lines = ["a | 8.5416 | 8.5416 | {}", "b | 8.6012 | 8.5511 | 0.05", "c | 9.1203 | 9.0102 | 0.11"]
    text = f"{RATES}\n" + rows("Config | Clean | Noisy | Δ", *lines)
    assert not accusations(audited(tmp_path, text.format("0.00")))
    assert "8.5416 - 8.5416" in accusations(audited(tmp_path, text.format("0.50")))["speedup-not-in-table"]


def test_a_share_is_no_quotient_of_ranks(tmp_path):
    lines = ["7B | 27 | 25 | 1.08%", "8B | 31 | 10 | 3.1%", "14B | 30 | 9 | 3.88%", "3B | 24 | 10 | 2.4%"]
    text = f"{RATES}\n" + rows("Model | Top-1 layer | First-layer rank | Top-1 share", *lines)
    assert not accusations(audited(tmp_path, text))


@pytest.mark.parametrize(("sentence", "is_named"), [("In [1], ", False), ("Smith et al. say that ", False), ("", True)])
def test_what_others_found_is_not_held_against_the_own_table(tmp_path, sentence, is_named):
    findings = accusations(audited(tmp_path, f"{RATES}\n{sentence}FSDP is 45% slower than DDP.\n"))
    assert ("claim-not-in-data" in findings) == is_named


@pytest.mark.parametrize(("name", "is_projected"), [("Goal (prefill + decode)", False), ("Goal of 2027", True)])
def test_the_goal_that_was_optimised_is_measured(tmp_path, name, is_projected):
    findings = audited(tmp_path, rows("Metric | tokens/s", f"{name} | 4096.2", "Decode | 796.4"))
    assert ("projected-beside-measured" in findings) == is_projected
