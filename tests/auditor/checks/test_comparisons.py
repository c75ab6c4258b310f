"""What sentences say of several rows of a table: comparisons, bounds of efficiencies."""

import pytest
from markdown_tables import audited, rows

STRATEGIES = rows(
    "Strategy | GPUs | Tokens/s | Peak memory (GB) | Energy (Wh)",
    *("DDP | 2 | 1,940 | 41.0 | 18.1", "DDP | 4 | 3,700 | 40.6 | 19.0"),
    *("FSDP | 2 | 1,610 | 24.2 | 21.7", "FSDP | 4 | 3,100 | 14.1 | 22.9"),
)
SCALING = rows("GPUs | Tokens/s", "1 | 1,000", "8 | 7,000", "16 | 12,000")
SIZES = rows(
    "Tensor size | Triton (ms) | C++ (ms) | Speedup",
    *("4,096 | 0.210 | 0.300 | 1.43x", "16,384 | 0.180 | 0.300 | 1.67x", "65,536 | 0.170 | 0.290 | 1.71x"),
)
MEASURED = rows(
    "Strategy | GPUs | Tokens/s | Step time (ms) | MFU",
    *("DP | 4 | 11,700 | 35.0 | 21.3 %", "DDP | 4 | 20,000 | 20.5 | 36.4 %", "DDP | 1 | 6,300 | 16.3 | 45.9 %"),
)
COMPARED = {  # a sentence -> figures that follow from the table by any reading, and one that follows by none
    "FSDP on 4 GPUs is {}% slower than DDP on 4 GPUs.": (("16", "19"), "31"),
    "On 4 GPUs FSDP uses {}% less memory than DDP on 4 GPUs.": (("65", "188"), "45"),
    "FSDP uses {}% less memory than DDP on 4 GPUs.": (("65", "65.3"), "45"),
    "DDP needs {}% less energy than FSDP on 4 GPUs.": (("17", "20.5"), "30"),
    "Peak memory: FSDP on 2 GPUs reduces it by {}% compared to DDP on 2 GPUs.": (("41", "69"), "52"),
    "DDP is {}% faster than FSDP.": (("20", "90", "130"), "900"),  # at any sizes of both
    "DDP is {}x faster than FSDP on 2 GPUs.": (("1.2", "1.25"), "2.6"),
}
SOUND = (
    "FSDP on 4 GPUs is 31% slower than eager on 4 GPUs.",  # no row
    "FSDP on 4 GPUs compiles 31% slower than DDP on 4 GPUs.",  # no column
    "FSDP on 4 GPUs should be 31% slower than DDP on 4 GPUs.",
    "FSDP on 4 GPUs is up to 31% slower than DDP on 4 GPUs.",
    "Before the fix FSDP on 4 GPUs was 31% slower than DDP on 4 GPUs.",
    "The loss of FSDP on 4 GPUs is 31% lower than that of DDP on 4 GPUs.",
    "FSDP on 4 GPUs is 31% slower.",
    "FSDP on 8 GPUs is 31% slower than DDP on 8 GPUs.",
    "Efficiency stays above 85% efficiency.",
    # Of a quantity, or under a condition, that the table does not have.
    "FSDP on 4 GPUs is 31% worse than DDP on 4 GPUs on GLUE.",
    "FSDP on 4 GPUs has a 31% lower perplexity than DDP on 4 GPUs.",
    "FSDP on 4 GPUs needs 31% less code than DDP on 4 GPUs.",
    "FSDP on 4 GPUs is 31% slower to deploy than DDP on 4 GPUs.",
    "With TensorRT FSDP on 4 GPUs is 31% slower than DDP on 4 GPUs.",
    "FSDP on 4 GPUs is 31% slower than DDP on 4 GPUs in our other benchmark.",
    "FSDP on 4 GPUs is 31% lower than DDP on 4 GPUs.",
    "FSDP on 4 GPUs is 16% slower than DDP on 4 GPUs but uses 65% less memory.",
    "FSDP on 4 GPUs is 16% slower than DDP on 4 GPUs (memory: 65% less).",
)


def accused(folder, sentence: str) -> bool:
    document = f"# Results\n\n{STRATEGIES}\n\n## Scaling\n\n{SCALING}\n\n## Kernels\n\n{SIZES}\n\n{sentence}\n"
    return "claim-not-in-data" in audited(folder, document)


@pytest.mark.parametrize("sentence", COMPARED)
def test_a_comparison_that_follows_by_no_reading_is_named(tmp_path, sentence):
    right, wrong = COMPARED[sentence]
    assert accused(tmp_path, sentence.format(wrong))
    for figure in right:
        assert not accused(tmp_path, sentence.format(figure)), figure


@pytest.mark.parametrize("sentence", SOUND)
def test_a_comparison_that_may_be_of_something_else_is_not(tmp_path, sentence):
    assert not accused(tmp_path, sentence)


@pytest.mark.parametrize(
    ("sentence", "is_wrong"),
    [
        ("Linear scaling up to 16 GPUs (>85% efficiency)", True),  # 75 %
        ("More than 92% scaling efficiency on 8 GPUs.", False),  # 87.5 %, within 5 %
        ("At least 95% scaling efficiency on 8 GPUs.", True),
        ("Linear scaling up to 16 GPUs (>70% efficiency)", False),
        ("Linear scaling up to 32 GPUs (>85% efficiency)", False),  # no such row
        ("Less than 85% scaling efficiency on 16 GPUs.", False),
        ("The target is more than 85% efficiency on 16 GPUs.", False),
    ],
)
def test_a_lower_bound_of_an_efficiency_is_held_against_its_size(tmp_path, sentence, is_wrong):
    assert accused(tmp_path, sentence) == is_wrong


@pytest.mark.parametrize(("percent", "is_wrong"), [(71, False), (41, False), (95, True)])
def test_devices_that_one_side_states_hold_for_the_other(tmp_path, percent, is_wrong):
    document = f"# Results\n\n{MEASURED}\n\nDDP is {percent} % faster than DP on 4 GPUs.\n"
    assert ("claim-not-in-data" in audited(tmp_path, document)) == is_wrong
