"""Each check finds its fault in files that are otherwise sound, and gives the right figure if there is one.

Every page of explanation has a test.
"""

import json
from pathlib import Path

import pytest
from external_faults import (
    alike,
    beside,
    claimed,
    copied_repeat,
    cumulative,
    dp_twice,
    everything_each,
    file,
    findings,
    log,
    one,
    pair,
    precision,
    published,
    repeated,
    sawtooth,
    times,
    two_baselines,
    two_pollers,
)
from external_files import write_blocks, write_llmc, write_megatron, write_nanogpt, write_torchtitan

from scaleproof.auditor.checks.all_checks import CODES

REPORT = {
    "status": "invalid_comparison",
    "mismatches": [{"field": "precision"}],
    "runs": {
        "1": {
            "metrics_paths": ["a", "b"],
            "mean_tokens_per_sec_global": 100.0,
            "stdev_tokens_per_sec_global": 1.0,
            "speedup_vs_1gpu": 1.0,
            "scaling_efficiency": 1.0,
        },
        "4": {
            "metrics_paths": ["a"],
            "mean_tokens_per_sec_global": 200.0,
            "stdev_tokens_per_sec_global": 0.0,
            "speedup_vs_1gpu": 3.0,
            "scaling_efficiency": 0.75,
        },
    },
}
PROFILE = (
    '"Name","Device Time Total (ms)","Self Device Time Total (ms)","Calls"\n'
    "ProfilerStep*,5000,0,{steps}\nmm,4000,1000,5\n"
)

# code -> (writer of the faulty files, severity, text in evidence or correction)
FAULTS = {
    "rate-times-time": (one(times(tokens_per_sec_global=1.3)), "suspect", "were processed"),
    "rate-of-one-rank": (one(times(tokens_per_sec_global=0.5)), "invalid", "the rate x 2 ranks"),
    "rate-multiplied": (one(times(tokens_per_sec_global=2.0)), "invalid", "tokens over time"),
    "tokens-differ-from-batches": (
        one(times(tokens_processed_global=0.5, tokens_per_sec_global=0.5)),
        "invalid",
        "stated",
    ),
    "batch-arithmetic": (one(lambda d, e, c: c.update(global_batch_size=16)), "invalid", "which is that of one rank"),
    "steps-differ-from-batches": (one(times(optimizer_steps=0.5)), "suspect", "stated"),
    "each-rank-trained-on-everything": (one(everything_each), "invalid", "2.00 times all of it"),
    "files-disagree": (
        beside("RUN_COMPLETE.txt", "[Rank 0] RUN_COMPLETE world_size=8 tokens_per_sec=1 total_wall_time_sec=1"),
        "suspect",
        "world is 2 in the metrics and 8",
    ),
    "sawtooth-timer": (sawtooth, "invalid", "10,000 tokens/s: true step 100.00 ms"),
    "interval-over-cumulative": (cumulative, "invalid", "2 s: an iteration takes 0.2857 x 70 / 10"),
    "sampled-steps-miss-update": (
        one(
            lambda d, e, c: (
                c.update(grad_accum_steps=2, micro_batch_size_per_gpu=c["micro_batch_size_per_gpu"] // 2),
                times(micro_steps=2, step_time_mean_sec=0.3)(d, e, c),
            )
        ),
        "invalid",
        "never the same one",
    ),
    "percentile-of-few": (
        one(
            lambda d, e, c: times(
                micro_steps=0.02, optimizer_steps=0.02, tokens_processed_global=0.02, epoch_wall_time_sec=0.02
            )(d, e, c)
        ),
        "suspect",
        "sampled micro-step",
    ),
    "warmup-in-window": (
        file("metrics.csv", "epoch,train_time\n1,20\n2,10\n3,10\n4,10\n"),
        "note",
        "10 s: an epoch, without the first",
    ),
    "identical-losses": (alike, "suspect", "2 ranks print the loss 3.25"),
    "batch-multiplied": (dp_twice, "invalid", "1.111x: not 2.22x"),
    "super-linear": (
        pair(
            lambda a, b: times(tokens_per_sec_global=2, epoch_wall_time_sec=0.5, step_time_mean_sec=0.5)(
                b, b["epochs"][0], 0
            )
        ),
        "suspect",
        "with 4 times the devices",
    ),
    "slower-with-more": (
        pair(lambda a, b: times(tokens_per_sec_global=0.1, epoch_wall_time_sec=10)(b, b["epochs"][0], 0)),
        "note",
        "times as fast",
    ),
    "runs-interleaved": (repeated, "invalid", "2 runs: 3 epochs (1 to 3)"),
    "baseline-other-program": (published(pair(precision)), "invalid", "precision: bf16 | fp32"),
    "baseline-other-surroundings": (
        published(pair(lambda a, b: b["env"].update(torch_version="2.10"))),
        "suspect",
        "torch_version: 2.9.1 | 2.10",
    ),
    "arms-differ": (
        published(pair(lambda a, b: (precision(a, b), b.update(git_commit="b" * 40)), (2, 2))),
        "suspect",
        "differ in precision: bf16 | fp32; commit",
    ),
    "single-run": (one(lambda d, e, c: None), "note", "n=1"),
    "run-copied": (copied_repeat, "invalid", "have the same run id and rate"),
    "speedup-not-in-table": (file("r.json", json.dumps(REPORT)), "suspect", "200.0 / 100.0 = 2"),
    "spread-of-one-run": (file("r.json", json.dumps(REPORT)), "suspect", "from one run at 4 devices"),
    "comparison-refused": (file("r.json", json.dumps(REPORT)), "suspect", "precision"),
    "sharding-one-device": (one(lambda d, e, c: c.update(zero_stage=2), 1), "note", "one device"),
    "fp32-without-tf32": (
        pair(
            lambda a, b: (
                precision(a, b),
                b["hardware"].update(gpu_name="NVIDIA H100 PCIe"),
                a["hardware"].update(gpu_name="NVIDIA H100 PCIe"),
            ),
            (1, 1),
        ),
        "note",
        "TF32",
    ),
    "offload-undisclosed": (
        log(write_blocks, ("micro_batch_size: 8", "zero_config: {'stage': 2, 'offload_optimizer': {'device': 'cpu'}}")),
        "suspect",
        "on cpu",
    ),
    "engine-batch-differs": (
        log(write_blocks, ("micro_batch_size: 8", "micro_batch_size: 8\ntrain_micro_batch_size_per_gpu: 4")),
        "suspect",
        "configured for 4 samples",
    ),
    "hash-of-the-file": (
        pair(
            lambda a, b: (a["deepspeed_config"].update(sha256="x" * 64), b["deepspeed_config"].update(sha256="x" * 64))
        ),
        "note",
        "stands for",
    ),
    "profiled-run": (one(lambda d, e, c: d.update(command_line="nsys profile train.py")), "suspect", "nsys"),
    "validation-zero": (one(lambda d, e, c: e.update(val_loss_avg_global=0.0)), "invalid", "0.0"),
    "updates-skipped": (
        log(write_megatron, (r"skipped iterations:   0", "skipped iterations:   2")),
        "suspect",
        "steps were skipped",
    ),
    "not-finite": (log(write_megatron, (r"nan iterations:   0", "nan iterations:   1")), "invalid", "not a number"),
    "field-unusable": (
        one(lambda d, e, c: e.update(epoch_wall_time_sec=-4)),
        "suspect",
        "epochs[0].epoch_wall_time_sec is '-4', not above zero",
    ),
    "field-missing": (one(lambda d, e, c: c.pop("deepspeed_enabled")), "note", "deepspeed_enabled"),
    "mfu-impossible": (log(write_llmc, (r"[\d.]+% bf16 MFU", "133.0% bf16 MFU")), "invalid", "133.0%"),
    "peak-of-another-device": (
        log(
            write_torchtitan,
            (r"(?<=MFU: )[\d.e+]+", "9.89e+14"),
            (r"capacity: .+? with", "capacity: NVIDIA A100-SXM4-80GB with"),
        ),
        "invalid",
        "of 312 TFLOP/s",
    ),
    "peak-assumed": (log(write_nanogpt), "note", "an A100's peak"),
    "parameter-count": (
        claimed(
            "{kind: parameters, value: 124000000, layers: 12, width: 768, vocab: 50257, context: 1024, tied: false}"
        ),
        "suspect",
        "163,037,184",
    ),
    "memory-after-step": (
        log(
            write_blocks,
            (
                "micro_batch_size: 8",
                "Torch reports memory usage: 651.7 MB\n| ID | Memory total | Memory used |\n| 0 | 24000MB | 21555MB |",
            ),
        ),
        "suspect",
        "21,555 MB in use",
    ),
    "inclusive-times-summed": (file("p.csv", PROFILE.format(steps=10)), "note", "9.0 times"),
    "profiles-of-different-length": (
        lambda root: [file(f"{n}.csv", PROFILE.format(steps=n))(root) for n in (10, 15)],
        "suspect",
        "15 steps",
    ),
    "pollers-overlap": (two_pollers, "suspect", "time goes backwards 50 times"),
    "claim-not-in-data": (claimed("{kind: throughput, value: 1000000, of: a}"), "suspect", "its files give"),
    "claim-without-files": (claimed("{kind: throughput, value: 1000000, of: nowhere}"), "note", "nowhere"),
    "difference-of-single-runs": (
        claimed("{kind: change, value: 0.195, of: a, over: a}"),
        "suspect",
        "+19.5% from n=1 and n=1",
    ),
    "communication-negative": (claimed("{kind: communication_time, value: -0.115, of: a}"), "invalid", "-0.115"),
    "amdahl-below-one": (
        claimed("{kind: amdahl, parallel_fraction: 0.43, speedup: 0.46, devices: 4}"),
        "invalid",
        "-1.57",
    ),
    "shares-of-different-totals": (
        claimed(
            "{kind: share, what: x, percent: 40, of_total: p, run: a}",
            "{kind: share, what: x, percent: 16, of_total: q, run: b}",
        ),
        "invalid",
        "40 % of p (a) and 16 % of q (b)",
    ),
    "shares-contradict": (
        claimed(
            "{kind: share, what: x, percent: 40, of_total: p, run: a}",
            "{kind: share, what: x, percent: 16, of_total: q, run: a}",
        ),
        "invalid",
        "40 % of p",
    ),
    "parts-exceed-step": (
        lambda root: (
            file("a/metrics.csv", "epoch,train_time\n1,10\n2,10\n")(root),
            file(
                "c.yml",
                'scaleproof_claims: "1.0"\nclaims:\n'
                "  - {kind: step_parts, compute: 0.1, communication: 0.1, of: a, steps_per_epoch: 100}\n",
            )(root),
        ),
        "invalid",
        "100.0 ms",
    ),
    "file-unreadable": (beside("scaling_report.json", '{"status": '), "note", "no JSON, or cut off"),
    "baseline-ambiguous": (two_baselines, "note", "a/1gpu, b/1gpu would do as its baseline; precision would settle it"),
    "devices-unknown": (
        lambda root: [file(f"{n}/metrics.csv", "epoch,train_time\n1,10\n2,10\n")(root) for n in "ab"],
        "note",
        "--world-size NAME=N",
    ),
    "run-failed": (one(lambda d, e, c: d.update(status="failed", epochs=[])), "note", "failed: a"),
}


@pytest.mark.parametrize(
    ("row", "code", "text"),
    [
        ("31,-5,3.1", "field-unusable", "1 step times are 0 or less"),
        ("31,0.1,nan", "not-finite", "the loss of 1 iteration is not a number"),
    ],
)
def test_impossible_rows_of_a_step_log(tmp_path, row, code, text):
    rows = [f"{i},0.1,{4 - i / 100}" for i in range(31)]
    (tmp_path / "steps.csv").write_text("\n".join(["step,step_time_s,loss", *rows, row]) + "\n")
    assert text in findings(tmp_path)[code].evidence


@pytest.mark.parametrize("code", FAULTS)
def test_a_fault_is_found_and_named(tmp_path, code):
    make, severity, text = FAULTS[code]
    make(tmp_path)
    found = findings(tmp_path)
    assert code in found, {f.code: f.evidence for f in found.values()}
    assert found[code].severity == severity
    assert text in f"{found[code].evidence} {found[code].corrected}"


def test_every_code_is_of_a_finding_that_is_seen_in_a_test():
    texts = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert [code for code in CODES if f'"{code}"' not in texts] == []


@pytest.mark.parametrize("code", ["baseline-other-program", "baseline-other-surroundings", "arms-differ"])
def test_a_comparison_that_nobody_published_is_no_fault(tmp_path, code):
    """Runs lie beside each other that differ in more than one thing; nobody says that they are compared."""
    make, _, _ = FAULTS[code]
    make(tmp_path)
    (tmp_path / "claims.yaml").unlink()
    assert findings(tmp_path)[code].severity == "note"
