"""The five published benchmarks: every known fault is found, with its figures; what is sound is not accused."""

import re

import pytest
from case_study_files import FIGURES, write_case_study

from scaleproof.auditor.audit import Audit, audit_paths

NAMES = ("agnews", "h100", "l4", "nodes", "v100")


@pytest.fixture(scope="module")
def audits(tmp_path_factory) -> dict[str, Audit]:
    root = tmp_path_factory.mktemp("case_studies")
    for name in NAMES:
        write_case_study(FIGURES / f"{name}.yaml", root / name)
    return {name: audit_paths([root / name]) for name in NAMES}


# (benchmark, code, run, what must stand in evidence or correction)
KNOWN = [
    ("v100", "baseline-other-program", "v100/2gpu", "precision: fp16_torch_amp | fp16_deepspeed"),
    ("v100", "baseline-other-program", "v100/4gpu", "engine: torch | DeepSpeed"),
    ("v100", "baseline-other-surroundings", "v100/4gpu", "commit: efa04485"),
    ("v100", "single-run", "v100/4gpu", "n=1"),
    (
        "v100",
        "sampled-steps-miss-update",
        "v100/1gpu",
        "63.0 ms on average, where 985.53 s / 14,244 = 69.2 ms (1.1 times)",
    ),
    ("v100", "sampled-steps-miss-update", "v100/2gpu", "= 71.5 ms (1.5 times)"),
    ("v100", "field-missing", "v100/2gpu", "deepspeed_enabled"),
    ("v100", "hash-of-the-file", "v100/2gpu", "accumulation 1"),
    ("v100", "spread-of-one-run", "v100/scaling_report.json", "0.0 from one run"),
    (
        "v100",
        "rate-of-one-rank",
        "t4/optimized_4gpu",
        "44,854 tokens/s: the rate x 4; 3.473 times the baseline, 71.2% less time",
    ),
    ("v100", "warmup-in-window", "early/1gpu_30epochs.json", "the first epoch took 22.11 s, the others 16.4"),
    ("v100", "profiled-run", "v100/4gpu", "wall_clock_breakdown"),
    ("v100", "parameter-count", '"GPT-2 124M"', "163,037,184"),
    ("nodes", "arms-differ", "bucket200_300", "commit: d8ca451 | ba03420"),
    ("nodes", "difference-of-single-runs", "accum2_300", "+19.5% from n=1 and n=1"),
    ("nodes", "sampled-steps-miss-update", "accum2_300", "273.3 ms (5.3 times)"),
    ("nodes", "sampled-steps-miss-update", "bucket200_300", "228.8 ms (5.2 times)"),
    ("nodes", "percentile-of-few", "accum2_300", "77.41 ms, is of 5 sampled"),
    (
        "nodes",
        "percentile-of-few",
        "bucket200_nsys80",
        "is of 1 sampled micro-step: mean, median and 95th percentile are one number",
    ),
    ("nodes", "validation-zero", "bucket200_nsys80", "0.0"),
    ("nodes", "profiled-run", "baseline_2026-01-26", "NCCL_DEBUG=INFO"),
    ("nodes", "profiled-run", "bucket200_nsys80", "nsys"),
    ("nodes", "shares-of-different-totals", "bucket200_nsys80", "85.6 % and 87.9 %"),
    ("nodes", "shares-contradict", "bucket200_nsys80", "87.9 %"),
    ("agnews", "runs-interleaved", "exp042_agnews_ddp_4gpu", "35 rows, epochs in the order 6, 1, 7, 2"),
    ("agnews", "each-rank-trained-on-everything", "exp042_agnews_ddp_4gpu", "1.845x: not 0.46x"),
    ("agnews", "each-rank-trained-on-everything", "exp044_agnews_ddp_4gpu_large", "3.199x: not 0.80x"),
    ("agnews", "slower-with-more", "exp042_agnews_ddp_4gpu", "0.461"),
    ("agnews", "amdahl-below-one", "the report", "-1.57"),
    ("agnews", "parts-exceed-step", "exp042_agnews_ddp_4gpu", "11.3 ms"),
    ("l4", "batch-multiplied", "logs/25541-dp4.out", "0.9703x: not 3.88x"),
    ("l4", "super-linear", "logs/25536-dp2.out", "2.246 times"),
    ("l4", "interval-over-cumulative", "logs/25510-1gpu.out", "1.71 s: an iteration takes 0.8552 x 30 / 15"),
    ("l4", "interval-over-cumulative", "logs/25830-zero3-4.out", "3.493 s"),
    ("l4", "identical-losses", "logs/25542-ddp4.out", "a run with one device has the same loss"),
    ("l4", "identical-losses", "logs/25790-zero2-4.out", "4 ranks print the loss"),
    ("l4", "engine-batch-differs", "logs/25790-zero2-4.out", "configured for 2 samples"),
    ("l4", "offload-undisclosed", "logs/25809-zero2-2.out", "cpu"),
    ("l4", "memory-after-step", "logs/25572-zero2-1.out", "651.7 MB reported, 21,555 MB in use"),
    ("l4", "inclusive-times-summed", "profiles/ddp4.csv", "125.3 s, the operators' own to 21.8 s"),
    ("l4", "profiles-of-different-length", "profiles/dp4.csv", "15 steps"),
    ("l4", "communication-negative", "25536-dp2", "-0.115"),
    ("l4", "claim-not-in-data", "28246-dp4-again", "4.755"),
    ("l4", "sharding-one-device", "logs/25856-zero3-1.out", ""),
    ("h100", "fp32-without-tf32", "zs0_fp32_gpus1_bs32_sl128/run1", "TF32"),
    ("h100", "sharding-one-device", "zs3_fp16_gpus1_bs32_sl128/run1", ""),
]


@pytest.mark.parametrize(("name", "code", "run", "text"), KNOWN, ids=lambda v: str(v)[:30])
def test_a_known_fault_is_found(audits, name, code, run, text):
    found = [f for f in audits[name].findings if f.code == code and run in f.runs]
    assert found, [f.code for f in audits[name].findings]
    assert any(text in f"{f.evidence} {f.corrected}" for f in found), [f"{f.evidence} {f.corrected}" for f in found]


TRUE = {
    "zs0_fp16": (23173.730, 0.185223, 115_869),
    "zs0_fp32": (7445.155, 0.575916, 37_226),
    "zs1_fp16": (21506.465, 0.199738, 107_532),
    "zs1_fp32": (7194.530, 0.595777, 35_973),
    "zs2_fp16": (21566.020, 0.199376, 107_830),
    "zs2_fp32": (7186.690, 0.596442, 35_933),
    "zs3_fp16": (11922.985, 0.361432, 59_615),
    "zs3_fp32": (6968.430, 0.616783, 34_842),
}


@pytest.mark.parametrize("row", TRUE)
def test_the_sawtooth_is_undone(audits, row):
    """Five times the published rate, and within 0.5 % what the published mean step says.

    A mean interval has 5.2558 steps.
    """
    (finding,) = [
        f for f in audits["h100"].findings if f.code == "sawtooth-timer" and f.runs == [f"{row}_gpus1_bs32_sl128/run2"]
    ]
    milliseconds = re.search(r"true step ([\d.]+) ms", finding.corrected.derivation)[1]
    published, mean, true = TRUE[row]
    assert finding.corrected.unit == "tokens/s"
    assert finding.corrected.value == pytest.approx(true, rel=1e-3)
    assert finding.corrected.value == pytest.approx(5 * published, rel=1e-3)
    assert float(milliseconds) / 1e3 == pytest.approx(mean / 5.2558, rel=0.0055)
    assert finding.severity == "invalid"


# What is sound in them: (benchmark, run, codes above `note` that it may carry).
SOUND = [
    ("agnews", "exp020_imdb_1gpu", set()),
    ("agnews", "exp021_imdb_ddp_4gpu", set()),
    ("agnews", "exp043_agnews_1gpu_large", {"each-rank-trained-on-everything", "slower-with-more"}),  # as a baseline
    ("v100", "t4/baseline_1gpu", set()),
    ("v100", "early/1gpu_30epochs.json", set()),
    ("v100", "v100/4gpu", {"baseline-other-program", "baseline-other-surroundings", "profiled-run"}),
    ("l4", "logs/25516-ddp1.out", {"interval-over-cumulative", "memory-after-step"}),
]


@pytest.mark.parametrize(("name", "run", "allowed"), SOUND)
def test_the_sound_ones_are_not_accused(audits, name, run, allowed):
    assert run in audits[name].runs
    assert {f.code for f in audits[name].findings if run in f.runs and f.severity != "note"} <= allowed


def test_published_figures_that_follow_from_their_files_are_not_doubted(audits):
    doubted = {name: [f.runs for f in a.findings if f.code == "claim-not-in-data"] for name, a in audits.items()}
    assert doubted == {"agnews": [], "h100": [], "l4": [["28246-dp4-again"]], "nodes": [], "v100": []}
