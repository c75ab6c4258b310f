"""What a cell says of its row: the wrong one is named, the right one and what may be of other cells are not."""

import pytest
from markdown_tables import accusations, audited, rows

RESULTS = rows("GPUs | tokens/s", "1 | 911", "2 | 1,702")
KERNELS = "Kernel | CUDA (ms) | Triton (ms) | Winner"
METRICS = "Metric | Base | + MTP"

# a table with a place for the cell -> (wrong, right, words of the finding)
CASES = {
    rows(KERNELS, "gelu | 0.501 | 0.512 | {}", "swish | 0.522 | 0.499 | Triton"): (
        *("Triton", "CUDA ✅", "Winner Triton, but Triton (ms) 0.512, CUDA (ms) 0.501"),
    ),
    rows("Metric | DDP | FSDP | Winner", "Throughput | 911 tok/s | 702 tok/s | {}", "Loss | 2.1 | 2.1 | Tie"): (
        *("FSDP", "DDP (1.3x)", "FSDP 702 tok/s, DDP 911 tok/s"),
    ),
    rows(METRICS + " | Change", "Acceptance | 77.8% (mean 2.56) | 60.8% (mean 2.20) | {} pp"): (
        *("-22", "-17.0", "between the two it is 17"),
    ),
    rows(METRICS, "Decode | 44.1 tok/s | 50.0 tok/s (+{}%)", "Prefill | 22.8 s | 21.5 s"): (
        *("15.6", "13.4", "between the two it is 13.4"),
    ),
}


@pytest.mark.parametrize("text", CASES)
def test_a_wrong_cell_is_named(tmp_path, text):
    wrong, _, words = CASES[text]
    assert words in accusations(audited(tmp_path, f"{RESULTS}\n{text.format(wrong)}"))["claim-not-in-data"]


@pytest.mark.parametrize("text", CASES)
def test_a_right_cell_is_not(tmp_path, text):
    _, right, _ = CASES[text]
    assert not accusations(audited(tmp_path, f"{RESULTS}\n{text.format(right)}"))


@pytest.mark.parametrize(
    "text",
    [
        rows(KERNELS, "saved time | 0.501 | 0.512 | Triton", "gelu | 0.501 | 0.512 | Tie"),
        rows("Kernel | CUDA score | Triton score | Winner", "gelu | 0.501 | 0.512 | CUDA"),
        rows("Kernel | Batch | CUDA (ms) | Triton (ms) | Fastest", "gelu | 8 | 0.501 | 0.512 | cuDNN"),
        rows("Metric | A | B | Difference | Winner", "Step | 0.974 s | 0.997 s | -0.023s (-2.3%) | A"),
        rows(METRICS + " | Change", "a | 80.1% | 77.0% | +9.5 pp", "base | 70.6% | 70.0% | -"),  # over another row
        rows(METRICS, "Decode | 44.1 tok/s | 50.0 tok/s (+61.0%)"),  # over something else
        rows(METRICS, "Decode | 44.1 tok/s | 50.0 tok/s (+15.6%)", "Old | 40.0 tok/s | 43.25 tok/s"),  # over Old
    ],
)
def test_what_may_be_right_is_not_named(tmp_path, text):
    assert not accusations(audited(tmp_path, f"{RESULTS}\n{text}"))
