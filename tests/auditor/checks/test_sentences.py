"""Comparisons of rows and speed-ups of devices in sentences are held against the tables of their file."""

import pytest
from markdown_tables import audited, rows

COSTS = rows("Strategy | Speedup | Relative cost", "DDP | 1.31x | 1.00x", "FSDP | 1.17x | 1.93x")
TABLE = rows(
    "Strategy | GPUs | samples/s | Step time (s) | Peak memory (GB) | MFU (%)",
    *("DDP | 1 | 9.16 | 0.437 | 64.8 | 41.3", "DDP | 4 | 31.27 | 0.512 | 77.1 | 37.9"),
    *("FSDP | 4 | 25.76 | 0.621 | 15.8 | 32.4", "FSDP | 8 | 48.35 | 0.662 | 11.2 | 30.6"),
)
ENGINES = rows("Engine | c=1 tok/s | c=64 tok/s", "vLLM | 1,043 | 4,762", "SGLang | 1,195 | 2,231")
METRICS = rows("Metric | Value", "Decode latency | 34.812 ms", "Prefill latency | 215.907 ms")
OF_ROWS = {
    "FSDP on 8 GPUs is {}x faster than FSDP on 4 GPUs.": ("1.9", "3.9"),  # by samples/s
    "vLLM delivers {}x higher throughput than SGLang at c=64.": ("2.1", "5.3"),
}
OF_OTHERS = (
    "FSDP reaches 28.76 samples/s on 4 GPUs.",  # a slip, or another run
    "FSDP reaches 28.41 samples/s on 4 GPUs.",
    "FSDP reached 28.76 samples/s on 4 GPUs before the change.",
    "FSDP should reach 28.76 samples/s on 4 GPUs.",
    "It reaches up to 28.76 samples/s on 4 GPUs.",
    "We saw 28.76 samples/s.",  # names nothing
    "FSDP reaches 28.76 tokens/s on 4 GPUs.",
    "FSDP reaches 28.76 samples/s on 16 GPUs.",
    "FSDP on 4 GPUs takes 31.27 ms for a batch.",
    "FSDP on 4 GPUs is 35.76% faster.",
    "It reaches 28.76 samples/s; what FSDP on 4 GPUs needs is memory.",
    "FSDP takes 0.221 ms a step on 4 GPUs.",  # another unit
    "DDP has a peak memory of 67.8 GB.",  # in one of two rows
    "The peak memory drops to 61.8 GB.",  # names a column alone
    "FSDP has a 1.39x speedup.",  # its cost is 1.93x
    "FSDP is 5.3x faster than DDP.",  # several rows of both
    "FSDP on 8 GPUs is 5.3x faster than eager on 4 GPUs.",
    "FSDP on 8 GPUs could be 5.3x faster than FSDP on 4 GPUs.",
    "The forward pass of vLLM is 5.3x faster than SGLang.",
    "vLLM is 5.3x faster than SGLang before the change.",
    "vLLM is more than 5.3x faster than SGLang.",
    "Training is 5.3x faster on 4 GPUs than on one of our laptops.",
    "FSDP on 4 GPUs has 32.6% MFU.",  # within 5 %
)


def accused(folder, sentence: str) -> bool:
    document = f"# Results\n\n{TABLE}\n\n{COSTS}\n\n{ENGINES}\n\n{METRICS}\n\n{sentence.lstrip('| ')}\n"
    return "claim-not-in-data" in audited(folder, document)


@pytest.mark.parametrize("sentence", OF_ROWS)
def test_a_wrong_comparison_of_rows_is_accused_and_the_right_one_is_not(tmp_path, sentence):
    right, wrong = OF_ROWS[sentence]
    assert accused(tmp_path, sentence.format(wrong))
    assert not accused(tmp_path, sentence.format(right))


@pytest.mark.parametrize("sentence", OF_OTHERS)
def test_a_figure_that_may_be_of_something_else_is_not_accused(tmp_path, sentence):
    assert not accused(tmp_path, sentence)


RATES = "| GPUs | tokens/s |\n|---|---|\n| 1 | 11,200 |\n| 2 | 21,300 |\n| 4 | 41,800 |"
# A right and a wrong figure. The devices are those of the figure's own clause.
OF_SIZES = {
    "Training on 4 GPUs is {}x faster than on one GPU. The efficiency on 2 GPUs is 95 %.": ("3.73", "4.3"),
    "Training on 4 GPUs is {}x faster than on one GPU. We also have a run on 2 GPUs.": ("3.73", "4.3"),
    "Training is **{}x faster on 4 GPUs** than on one.": ("3.73", "4.3"),
    "With 4 GPUs we get a {}x speedup over one GPU. On 2 GPUs it is less.": ("3.73", "4.3"),
    "Using 4 GPUs gave us a speedup of {}x over a single GPU.": ("3.73", "2.9"),
    "4 GPUs are {}x faster than 1 GPU.": ("3.7", "2.9"),
    "4 GPUs give a speed-up of {}x.": ("3.7", "4.3"),
    "The speed-up on 4 GPUs is {}.": ("3.7", "2.9"),
    "The efficiency on 2 GPUs is {} %.": ("95", "75"),
}


@pytest.mark.parametrize("sentence", OF_SIZES)
def test_the_devices_of_a_speedup_are_those_of_its_clause(tmp_path, sentence):
    right, wrong = OF_SIZES[sentence]
    assert "claim-not-in-data" not in audited(tmp_path, f"{RATES}\n\n{sentence.format(right)}\n")
    assert "claim-not-in-data" in audited(tmp_path, f"{RATES}\n\n{sentence.format(wrong)}\n")


@pytest.mark.parametrize(("printed", "codes"), [("4.30", 2), ("3.73", 1)])
def test_a_sentence_and_a_cell_with_one_wrong_speedup_are_both_named(tmp_path, printed, codes):
    table = rows("GPUs | tokens/s | Speedup", "1 | 11,200 | 1.00", "2 | 21,300 | 1.90", f"4 | 41,800 | {printed}")
    found = audited(tmp_path, f"{table}\nWe see a 4.3x speed-up on 4 GPUs.\n\n")
    assert len({"claim-not-in-data", "speedup-not-in-table"} & found.keys()) == codes
    right = audited(tmp_path, f"{table}\nWe see a 3.73x speed-up on 4 GPUs.\n\n")
    assert "claim-not-in-data" not in right


def test_devices_on_both_sides_of_a_figure_are_ambiguous(tmp_path):
    sentence = "Training on 4 GPUs is 3.73x faster than on one GPU, on 2 GPUs it is 1.9x faster."
    assert "claim-not-in-data" not in audited(tmp_path, f"{RATES}\n\n{sentence}\n")


@pytest.mark.parametrize(
    "sentence",
    ["The speed-up on 4 GPUs is 93 % of the ideal one.", "The plot shows the speed-up with 4 GPUs: 5 seeds each."],
)
def test_a_figure_behind_a_speedup_that_counts_something_else(tmp_path, sentence):
    assert "claim-not-in-data" not in audited(tmp_path, f"{RATES}\n\n{sentence}\n")
