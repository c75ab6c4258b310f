"""One configuration in several files: what is printed twice is held against each other, and nothing else."""

import json

import pytest
from markdown_tables import audited, rows

RATES = {1: 12340.5, 2: 24011.2, 4: 47120.7, 8: 91213.9}
README = rows("GPUs | Tokens/s", *(f"{n} | {rate:.1f}" for n, rate in RATES.items()))
DOCUMENTED = rows("GPUs | Tokens/s", *(f"{n} | {rate / 1e3:.1f}k" for n, rate in RATES.items()))


def table(heading: str, rates: dict[int, float], seeds: tuple[float, ...] = (1.0,)) -> str:
    """A CSV table of rates; with several seeds the rate of each is as many times as high."""
    return f"{heading}\n" + "".join(f"{n},{rate * seed:.2f}\n" for n, rate in rates.items() for seed in seeds)


OFF = RATES | {4: 38120.7}
REPEATS = (0.996, 1.0, 1.004)
DIFFER = {
    "a CSV file": ("results.csv", table("gpus,tokens_per_s", OFF)),
    "JSON": ("results.json", json.dumps([{"gpus": n, "tokens_per_sec": rate} for n, rate in OFF.items()])),
    "a column without a unit": ("results.csv", table("gpus,throughput", OFF)),
    "the mean of repeats": ("results.csv", table("gpus,tokens_per_s", OFF, REPEATS)),
    "another document": ("docs/report.md", README.replace("47120.7", "38120.7")),
}
AGREE = {
    "the same figures": ("results.csv", table("gpus,tokens_per_s", RATES)),
    "the same mean": ("results.csv", table("gpus,tokens_per_s", RATES, REPEATS)),
    "figures within the repeats": ("results.csv", table("gpus,tokens_per_s", OFF, (0.7, 1.0, 1.3))),
    "another machine": ("results.csv", table("gpus,tokens_per_s", {n: 1.37 * rate for n, rate in RATES.items()})),
    "two sizes of another version": ("results.csv", table("gpus,tokens_per_s", OFF | {2: 21011.2})),
    "a rate of something else": ("results.csv", table("gpus,throughput", {n: 0.37 * rate for n, rate in OFF.items()})),
}


def disagreements(folder, name: str, text: str, readme: str) -> list[str]:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    findings = audited(folder, readme)
    return findings["files-disagree"].runs if "files-disagree" in findings else []


@pytest.mark.parametrize("kind", DIFFER)
@pytest.mark.parametrize("readme", [README, DOCUMENTED], ids=["digits", "rounded"])
def test_the_figure_that_differs_is_named(tmp_path, kind, readme):
    assert "README.md:7" in disagreements(tmp_path, *DIFFER[kind], readme)


@pytest.mark.parametrize("kind", AGREE)
def test_without_a_match_there_is_silence(tmp_path, kind):
    assert disagreements(tmp_path, *AGREE[kind], README) == []


SPEEDUPS = rows("GPUs | Speedup", "1 | 1.00", "2 | 1.94", "4 | {}", "8 | 7.39")


@pytest.mark.parametrize(("speedup", "differs"), [("3.82", False), ("3.12", True)])
def test_speed_ups_are_compared_too(tmp_path, speedup, differs):
    text = "gpus,speedup\n1,1.0\n2,1.943\n4,3.818\n8,7.391\n"
    assert bool(disagreements(tmp_path, "r.csv", text, SPEEDUPS.format(speedup))) is differs


CHANGES = {
    "at four workers it was ~{} faster (6.07 s vs 8.78 s)": ("26%", "31%"),
    "API throughput improved {} (from 4.8 to 132.5 tokens/s)": ("12x", "27x"),
    "step time: 120ms → 35 ms ({} reduction)": ("61%", "71%"),
    "we reduced the time by {} from 850.0 ms to 509.0 ms": ("50.1%", "40.1%"),
    "it went from 11.24 GB to 4.02 GB, a {} reduction": ("46.2%", "64.2%"),
    "| Part | Change |\n|---|---|\n| step | 1.2 s → 400 ms ({}) |": ("5x", "3x"),
}
OTHER_REASONS = (
    "it scales from 1 to 8 GPUs (7.3x speedup)",
    "the accuracy rose from 85% to 93% (8% improvement)",
    "the batch grew from 4 to 93 (2x faster)",
    "latency fell from 40 ms to 10 ms (2x batch size)",
    "it is 60-75% faster (6s → 2s), at least 2x (9s → 3s)",
)


@pytest.mark.parametrize("text", CHANGES)
def test_a_change_follows_from_its_two_ends(tmp_path, text):
    wrong, right = CHANGES[text]
    assert "claim-not-in-data" in audited(tmp_path, f"{README}\n\n{text.format(wrong)}\n")
    assert "claim-not-in-data" not in audited(tmp_path, f"{README}\n\n{text.format(right)}\n")


@pytest.mark.parametrize("text", OTHER_REASONS)
def test_what_are_no_two_ends_is_not_accused(tmp_path, text):
    assert "claim-not-in-data" not in audited(tmp_path, f"{README}\n\n{text}\n")


FIGURES = rows("GPUs | tokens/s | MFU | Memory (GB)", "1 | 652 | 54.2% | 61.3", "4 | 2,410 | 51.8% | 48.7")
FIGURES += "\n\n" + rows("Params (M) | tokens/s", "134.5 | 1,530", "361.8 | 571")
OF_OTHERS = (
    "Before the change it ran at 1,900 tokens/s with the same 48.7 GB of memory.",
    "One GPU gives 652 tokens/s, the old code gave 510 tokens/s.",
    "We reach about 2,400 tokens/s at about 50% MFU.",
    "With 2,410 tokens/s at 4 GPUs it is a 2.9x speedup over the CPU.",
    "We expect 2,410 tokens/s at 60% MFU.",
    "Of 134.5M and 361.8M parameters the smaller one may be trained further, at 980 tokens/s each.",
    "With batches of 1024 and 2048 it reaches 980 tokens/s.",
    "On 8 GPUs we reach 4,100 tokens/s at 41.0% MFU.",
    "From 652 to 2,410 tokens/s, at 44% MFU.",
    "With NVLink the turning point is at 4 GPUs because all-reduce is 11x faster there.",
)


@pytest.mark.parametrize("sentence", OF_OTHERS)
def test_a_figure_of_another_row_or_program_is_not_accused(tmp_path, sentence):
    assert "claim-not-in-data" not in audited(tmp_path, f"{FIGURES}\n\n{sentence}\n")


OF_DEVICES = (
    "On 4 GPUs training is {} faster than on one GPU.",
    "4 GPUs give a {} speed-up over a single GPU.",
    "Four GPUs yield a {} speedup.",
    "It scales to 4 GPUs with a {} speedup.",
    "On one GPU it is slow; with 4 GPUs it is {} faster than on 1 GPU.",
)


@pytest.mark.parametrize("sentence", OF_DEVICES)
def test_a_speed_up_of_so_many_devices_is_held_against_their_row(tmp_path, sentence):
    assert "claim-not-in-data" in audited(tmp_path, f"{FIGURES}\n\n{sentence.format('2.9x')}\n")
    assert "claim-not-in-data" not in audited(tmp_path, f"{FIGURES}\n\n{sentence.format('3.7x')}\n")


@pytest.mark.parametrize(
    "sentence",
    [
        "On 4 GPUs FSDP is 2.9x faster than DDP on 4 GPUs.",
        "4 GPUs give a 2.9x speedup over the naive code.",
        "It scales to 4 GPUs with a 2.9x larger batch.",
        "On 4 GPUs it is 2.9x faster than on two older GPUs.",
        "It scales to 4 nodes with a 2.9x speedup.",
    ],
)
def test_a_speed_up_over_something_else_is_not_accused(tmp_path, sentence):
    assert "claim-not-in-data" not in audited(tmp_path, f"{FIGURES}\n\n{sentence}\n")


@pytest.mark.parametrize(("programs", "is_accused"), [("ours,theirs", False), ("ours,ours", True)])
def test_rows_of_two_programs_are_no_repeats(tmp_path, programs, is_accused):
    first, second = programs.split(",")
    same = ("1 | x | 652.1", "2 | x | 1,241", "8 | x | 4,511")
    tables = [
        rows("GPUs | Program | tokens/s", *same, f"4 | {first} | {rate}0", f"4 | {second} | {rate}1")
        for rate in (241, 152)
    ]
    assert bool(disagreements(tmp_path, "docs/a.md", *tables)) is is_accused
