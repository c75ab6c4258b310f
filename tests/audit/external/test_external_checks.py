"""Each check finds its fault in files that are otherwise sound, gives the right figure where there is one, and every page has a test."""

import json
import random
import re
from pathlib import Path

import pytest
from external_files import metrics, write_blocks, write_llmc, write_megatron, write_nanogpt, write_torchtitan

from scalebench.audit.audit_paths import audit_paths
from scalebench.audit.external.all_checks import CODES
from scalebench.audit.finding import Finding


def put(folder: Path, data: dict) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "training_metrics.json").write_text(json.dumps(data))


def run(world: int, family: float = 0.0) -> dict:
    return metrics(world, random.Random(1), family=family)


def findings(root: Path) -> dict[str, Finding]:
    return {f.code: f for f in audit_paths([root]).findings}


def one(change, world: int = 2):
    """A fault of one run: `change` edits its JSON in place."""

    def make(root: Path) -> None:
        data = run(world)
        change(data, data["epochs"][0], data["training_config"])
        put(root / "a", data)

    return make


def pair(change, worlds: tuple[int, int] = (1, 4)):
    """A fault of two runs: `change` edits the second one's JSON in place, having seen the first one's."""

    def make(root: Path) -> None:
        first, second = run(worlds[0]), run(worlds[1])
        change(first, second)
        put(root / "first", first)
        put(root / "second", second)

    return make


def log(writer, *replacements: tuple[str, str]):
    """A fault of a text: `writer` writes a sound one, regular expressions change it."""

    def make(root: Path) -> None:
        writer(root, random.Random(3))
        (path,) = (p for p in root.rglob("*") if p.is_file())
        text = path.read_text()
        for pattern, new in replacements:
            text, n = re.subn(pattern, new, text)
            assert n, pattern
        path.write_text(text)

    return make


def file(name: str, text: str):
    def make(root: Path) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)

    return make


def beside(name: str, text: str):
    """A sound run, and a file in its folder."""

    def make(root: Path) -> None:
        put(root / "a", run(2))
        (root / "a" / name).write_text(text)

    return make


def claimed(*claims: str):
    return beside("claims.yaml", 'scalebench_claims: "1.0"\nclaims:\n' + "".join(f"  - {c}\n" for c in claims))


def published(make):
    """The same, and a claim that compares the two runs."""

    def make_with_claim(root: Path) -> None:
        make(root)
        claim = "{kind: speedup, value: 3.0, of: second, over: first}"
        file("claims.yaml", f'scalebench_claims: "1.0"\nclaims:\n  - {claim}\n')(root)

    return make_with_claim


def two_baselines(root: Path) -> None:
    """Two precisions on one device, and a run on four that does not state its own."""
    for name, world, kind in (("a/1gpu", 1, "fp32"), ("b/1gpu", 1, "bf16"), ("4gpu", 4, None)):
        data = run(world)
        data["training_config"]["precision"] = kind
        put(root / name, data)


def times(**factors: float):
    def change(data, epoch, config) -> None:
        for key, factor in factors.items():
            epoch[key] = type(epoch[key])(epoch[key] * factor)

    return change


def same_steps(first, second) -> None:
    """The second run's ranks go through all of the data, and the file does not know how large that is."""
    for data in (first, second):
        data["training_config"].update(micro_batch_size_per_gpu=4, grad_accum_steps=1, dataset_subset_sizes=None)
    for data, world, seconds in ((first, 1, 100.0), (second, 4, 120.0)):
        tokens = 4 * world * data["training_config"]["seq_len"] * 937
        data["training_config"]["global_batch_size"] = 4 * world
        data["epochs"][0].update(
            micro_steps=937, optimizer_steps=937, tokens_processed_global=tokens, epoch_wall_time_sec=seconds,
            tokens_per_sec_global=tokens / seconds, step_time_mean_sec=seconds / 937,
        )  # fmt: skip


def everything_each(data, epoch, config) -> None:
    config["dataset_subset_sizes"]["train"] //= 2


def two_epochs(data, epoch, config) -> None:
    second = epoch | {
        "epoch_idx": 2,
        "epoch_wall_time_sec": epoch["epoch_wall_time_sec"] * 3,
        "tokens_per_sec_global": epoch["tokens_per_sec_global"] / 3,
    }
    data["epochs"].append(second)
    data["summary"]["mean_tokens_per_sec_global"] = epoch["tokens_per_sec_global"] * 2 / 3


def precision(first, second) -> None:
    second["training_config"]["precision"] = "fp32"


def repeated(root: Path) -> None:
    rows = "".join(f"{e},0.5,{10 + e / 10}\n" for e in [1, 2, 3, 1, 2, 3])
    file("metrics.csv", "epoch,train_loss,train_time\n" + rows)(root)


def sawtooth(root: Path) -> None:
    rows = "".join(f"{i},{0.1 * (i % 8 + 1):.4f},{1000 / (0.1 * (i % 8 + 1)):.2f}\n" for i in range(80))
    file("step_log.csv", "global_step,step_time_s,tokens_per_sec\n" + rows)(root)


def cumulative(root: Path) -> None:
    """A log of many intervals without a bar, each one divided by all steps so far."""
    text = ["micro_batch_size: 8", "num_gpus: 1"]
    for i in range(1, 8):
        text += [f"Step {10 * i}: loss {4 - i / 10}", f"elapsed_time_per_iteration: {2.0 / i:.4f} s"]
    file("train.out", "\n".join(text))(root)


def alike(root: Path) -> None:
    text = ["num_gpus: 2", *["Step 10: loss 3.25", "elapsed_time_per_iteration: 1.5 s"] * 2]
    file("train.out", "\n".join(text))(root)


def two_pollers(root: Path) -> None:
    """Two clocks in turn, a minute apart."""
    rows = [f"2026/01/01 10:{i % 2 * 3:02d}:{i // 2:02d}.000, 0, 50 %, 1 MiB" for i in range(101)]
    file("gpu_log.csv", "timestamp, index, utilization.gpu [%], memory.used [MiB]\n" + "\n".join(rows))(root)


def dp_twice(root: Path) -> None:
    for n, seconds, used in ((1, 1.0, 20000), (2, 0.9, 12000)):
        text = ["framework: dp", f"num_gpus: {n}", "Step 10: loss 3", f"elapsed_time_per_iteration: {seconds} s",
                f"Throughput (TFLOPS) at step 10: {7 / seconds}", "| ID | Name | Memory used |", f"| 0 | NVIDIA L4 | {used}MB |"]  # fmt: skip
        file(f"{n}.out", "\n".join(text))(root)


REPORT = {"status": "invalid_comparison", "mismatches": [{"field": "precision"}], "runs": {
    "1": {"metrics_paths": ["a", "b"], "mean_tokens_per_sec_global": 100.0, "stdev_tokens_per_sec_global": 1.0, "speedup_vs_1gpu": 1.0, "scaling_efficiency": 1.0},
    "4": {"metrics_paths": ["a"], "mean_tokens_per_sec_global": 200.0, "stdev_tokens_per_sec_global": 0.0, "speedup_vs_1gpu": 3.0, "scaling_efficiency": 0.75},
}}  # fmt: skip
PROFILE = '"Name","Device Time Total (ms)","Self Device Time Total (ms)","Calls"\nProfilerStep*,5000,0,{steps}\nmm,4000,1000,5\n'

# code -> (writer of the faulty files, severity, text in evidence or correction)
FAULTS = {
    "rate-times-time": (one(times(tokens_per_sec_global=1.3)), "suspect", "were processed"),
    "rate-of-one-rank": (one(times(tokens_per_sec_global=0.5)), "invalid", "the rate x 2 ranks"),
    "rate-multiplied": (one(times(tokens_per_sec_global=2.0)), "invalid", "tokens over time"),
    "tokens-differ-from-batches": (one(times(tokens_processed_global=0.5, tokens_per_sec_global=0.5)), "invalid", "stated"),
    "batch-arithmetic": (one(lambda d, e, c: c.update(global_batch_size=16)), "invalid", "which is that of one rank"),
    "steps-differ-from-batches": (one(times(optimizer_steps=0.5)), "suspect", "stated"),
    "each-rank-trained-on-everything": (one(everything_each), "invalid", "2.00 times all of it"),
    "mean-of-rates": (one(two_epochs), "note", "all tokens over all time"),
    "files-disagree": (beside("RUN_COMPLETE.txt", "[Rank 0] RUN_COMPLETE world_size=8 tokens_per_sec=1 total_wall_time_sec=1"), "suspect", "world is 2 in the metrics and 8"),
    "sawtooth-timer": (sawtooth, "invalid", "10,000 tokens/s: true step 100.00 ms"),
    "interval-over-cumulative": (cumulative, "invalid", "2 s: an iteration takes 0.2857 x 70 / 10"),
    "sampled-steps-miss-update": (one(lambda d, e, c: (c.update(grad_accum_steps=2, micro_batch_size_per_gpu=c["micro_batch_size_per_gpu"] // 2), times(micro_steps=2, step_time_mean_sec=0.3)(d, e, c))), "invalid", "never the same one"),
    "percentile-of-few": (one(lambda d, e, c: (times(micro_steps=0.02, optimizer_steps=0.02, tokens_processed_global=0.02, epoch_wall_time_sec=0.02)(d, e, c))), "suspect", "sampled micro-step"),
    "warmup-in-window": (file("metrics.csv", "epoch,train_time\n1,20\n2,10\n3,10\n4,10\n"), "note", "10 s: an epoch, without the first"),
    "identical-losses": (alike, "suspect", "2 ranks print the loss 3.25"),
    "batch-multiplied": (dp_twice, "invalid", "1.111x: not 2.22x"),
    "super-linear": (pair(lambda a, b: times(tokens_per_sec_global=2, epoch_wall_time_sec=0.5, step_time_mean_sec=0.5)(b, b["epochs"][0], 0)), "suspect", "with 4 times the devices"),
    "slower-with-more": (pair(lambda a, b: times(tokens_per_sec_global=0.1, epoch_wall_time_sec=10)(b, b["epochs"][0], 0)), "note", "times as fast"),
    "runs-interleaved": (repeated, "invalid", "2 runs: 3 epochs (1 to 3)"),
    "baseline-other-program": (published(pair(precision)), "invalid", "precision: bf16 | fp32"),
    "baseline-other-surroundings": (published(pair(lambda a, b: b["env"].update(torch_version="2.10"))), "suspect", "torch_version: 2.9.1 | 2.10"),
    "arms-differ": (published(pair(lambda a, b: (precision(a, b), b.update(git_commit="b" * 40)), (2, 2))), "suspect", "differ in precision: bf16 | fp32; commit"),
    "single-run": (one(lambda d, e, c: None), "note", "n=1"),
    "run-counted-twice": (pair(lambda a, b: None, (2, 2)), "note", "is in first, second"),
    "spread-of-one-run": (file("r.json", json.dumps(REPORT)), "suspect", "from one run at 4 devices"),
    "report-differs-from-runs": (file("r.json", json.dumps(REPORT)), "invalid", "200.00 / 100.00 = 2.000"),
    "comparison-refused": (file("r.json", json.dumps(REPORT)), "suspect", "precision"),
    "sharding-one-device": (one(lambda d, e, c: c.update(zero_stage=2), 1), "note", "one device"),
    "fp32-without-tf32": (pair(lambda a, b: (precision(a, b), b["hardware"].update(gpu_name="NVIDIA H100 PCIe"), a["hardware"].update(gpu_name="NVIDIA H100 PCIe")), (1, 1)), "note", "TF32"),
    "offload-undisclosed": (log(write_blocks, ("micro_batch_size: 8", "zero_config: {'stage': 2, 'offload_optimizer': {'device': 'cpu'}}")), "suspect", "on cpu"),
    "engine-batch-differs": (log(write_blocks, ("micro_batch_size: 8", "micro_batch_size: 8\ntrain_micro_batch_size_per_gpu: 4")), "suspect", "configured for 4 samples"),
    "hash-of-the-file": (pair(lambda a, b: (a["deepspeed_config"].update(sha256="x" * 64), b["deepspeed_config"].update(sha256="x" * 64))), "note", "stands for"),
    "profiled-run": (one(lambda d, e, c: d.update(command_line="nsys profile train.py")), "suspect", "nsys"),
    "validation-zero": (one(lambda d, e, c: e.update(val_loss_avg_global=0.0)), "invalid", "0.0"),
    "updates-skipped": (log(write_megatron, (r"skipped iterations:   0", "skipped iterations:   2")), "suspect", "steps were skipped"),
    "not-finite": (log(write_megatron, (r"nan iterations:   0", "nan iterations:   1")), "invalid", "not a number"),
    "field-unusable": (one(lambda d, e, c: e.update(epoch_wall_time_sec=-4)), "suspect", "epochs[0].epoch_wall_time_sec is '-4', not above zero"),
    "field-missing": (one(lambda d, e, c: c.pop("deepspeed_enabled")), "note", "deepspeed_enabled"),
    "mfu-impossible": (log(write_llmc, (r"[\d.]+% bf16 MFU", "133.0% bf16 MFU")), "invalid", "133.0%"),
    "peak-of-another-device": (log(write_torchtitan, (r"(?<=MFU: )[\d.e+]+", "9.89e+14"), (r"capacity: .+? with", "capacity: NVIDIA A100-SXM4-80GB with")), "invalid", "of 312 TFLOP/s"),
    "peak-assumed": (log(write_nanogpt), "note", "an A100's peak"),
    "parameter-count": (claimed("{kind: parameters, value: 124000000, layers: 12, width: 768, vocab: 50257, context: 1024, tied: false}"), "suspect", "163,037,184"),
    "memory-after-step": (log(write_blocks, ("micro_batch_size: 8", "Torch reports memory usage: 651.7 MB\n| ID | Memory total | Memory used |\n| 0 | 24000MB | 21555MB |")), "suspect", "21,555 MB in use"),
    "inclusive-times-summed": (file("p.csv", PROFILE.format(steps=10)), "note", "9.0 times"),
    "profiles-of-different-length": (lambda root: [file(f"{n}.csv", PROFILE.format(steps=n))(root) for n in (10, 15)], "suspect", "15 steps"),
    "pollers-overlap": (two_pollers, "suspect", "time goes backwards 50 times"),
    "claim-not-in-data": (claimed("{kind: throughput, value: 1000000, of: a}"), "suspect", "its files give"),
    "claim-without-files": (claimed("{kind: throughput, value: 1000000, of: nowhere}"), "note", "nowhere"),
    "difference-of-single-runs": (claimed("{kind: change, value: 0.195, of: a, over: a}"), "suspect", "+19.5% from n=1 and n=1"),
    "communication-negative": (claimed("{kind: communication_time, value: -0.115, of: a}"), "invalid", "-0.115"),
    "amdahl-below-one": (claimed("{kind: amdahl, parallel_fraction: 0.43, speedup: 0.46, devices: 4}"), "invalid", "-1.57"),
    "shares-of-different-totals": (claimed("{kind: share, what: x, percent: 40, of_total: p, run: a}", "{kind: share, what: x, percent: 16, of_total: q, run: b}"), "invalid", "40 % of p (a) and 16 % of q (b)"),
    "shares-contradict": (claimed("{kind: share, what: x, percent: 40, of_total: p, run: a}", "{kind: share, what: x, percent: 16, of_total: q, run: a}"), "invalid", "40 % of p"),
    "parts-exceed-step": (lambda root: (file("a/metrics.csv", "epoch,train_time\n1,10\n2,10\n")(root), file("c.yml", 'scalebench_claims: "1.0"\nclaims:\n  - {kind: step_parts, compute: 0.1, communication: 0.1, of: a, steps_per_epoch: 100}\n')(root)), "invalid", "100.0 ms"),
    "file-unreadable": (beside("scaling_report.json", '{"status": '), "note", "cut off or no JSON"),
    "baseline-ambiguous": (two_baselines, "note", "a/1gpu, b/1gpu would do as its baseline; precision would settle it"),
    "devices-unknown": (lambda root: [file(f"{n}/metrics.csv", "epoch,train_time\n1,10\n2,10\n")(root) for n in "ab"], "note", "--world-size NAME=N"),
    "run-failed": (one(lambda d, e, c: d.update(status="failed", epochs=[])), "note", "failed: a"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("row", "code", "text"),
    [
        ("31,-5,3.1", "field-unusable", "1 step times are 0 or less"),
        ("31,0.1,nan", "not-finite", "1 losses are not finite"),
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


def test_steps_that_do_not_fall_with_the_ranks(tmp_path):
    """The data set's size is unknown; that each rank made as many steps as one alone tells it."""
    pair(same_steps)(tmp_path)
    finding = findings(tmp_path)["each-rank-trained-on-everything"]
    assert finding.severity == "suspect"
    assert str(finding.corrected).startswith("3.333x: not 0.83x, if each rank trained on all of the data")


def test_as_many_steps_as_somebody_wanted_are_no_epoch(tmp_path):
    """Weak scaling over a round number of steps."""

    def rounded(first, second) -> None:
        same_steps(first, second)
        for data in (first, second):
            epoch = data["epochs"][0]
            epoch["tokens_processed_global"] = epoch["tokens_processed_global"] // 937 * 900
            epoch["tokens_per_sec_global"] = epoch["tokens_processed_global"] / epoch["epoch_wall_time_sec"]
            epoch.update(micro_steps=900, optimizer_steps=900)

    pair(rounded)(tmp_path)
    assert "each-rank-trained-on-everything" not in findings(tmp_path)


def test_the_batch_of_dataparallel_may_be_the_total(tmp_path):
    data = run(2)
    data["training_config"].update(
        strategy="dp", micro_batch_size_per_gpu=data["training_config"]["micro_batch_size_per_gpu"] * 2
    )
    put(tmp_path / "a", data)
    assert {f.severity for f in findings(tmp_path).values()} == {"note"}


def test_ranks_that_share_a_model_share_a_batch(tmp_path):
    data = run(4)
    data["training_config"]["global_batch_size"] //= 2
    put(tmp_path / "a", data)
    finding = findings(tmp_path)["batch-arithmetic"]
    assert (finding.severity, "2 ranks share each copy" in finding.evidence) == ("suspect", True)


def test_a_row_for_each_rank_is_no_second_run(tmp_path):
    rows = "".join(f"{e},{r},0.5,{10 + e / 10}\n" for e in range(1, 6) for r in range(4))
    file("metrics.csv", "epoch,rank,train_loss,train_time\n" + rows)(tmp_path)
    assert "runs-interleaved" not in findings(tmp_path)


def test_a_run_that_was_resumed_is_not_two_runs_at_once(tmp_path):
    rows = "".join(f"{e},0.5,10\n" for e in (1, 2, 3, 3, 4, 5))
    file("metrics.csv", "epoch,train_loss,train_time\n" + rows)(tmp_path)
    assert findings(tmp_path)["runs-interleaved"].severity == "suspect"


def test_a_published_mfu_over_the_peak_of_another_device(tmp_path):
    claimed("{kind: mfu, flops: 4.0e14, peak: 3.12e14, device: NVIDIA H100 PCIe, precision: bf16}")(tmp_path)
    found = findings(tmp_path)
    assert "128%" in found["mfu-impossible"].evidence
    assert "the peak of A100" in found["peak-of-another-device"].evidence
    assert found["peak-of-another-device"].corrected.figure == "52.9 %"


@pytest.mark.parametrize("code", ["baseline-other-program", "baseline-other-surroundings", "arms-differ"])
def test_a_comparison_that_nobody_published_is_no_fault(tmp_path, code):
    """Runs lie beside each other that differ in more than one thing; nobody says that they are compared."""
    make, _, _ = FAULTS[code]
    make(tmp_path)
    (tmp_path / "claims.yaml").unlink()
    assert findings(tmp_path)[code].severity == "note"


def test_what_a_file_does_not_say_can_be_given(tmp_path):
    for name, seconds, rate in (("one", 100.0, 1000.0), ("four", 40.0, 625.0)):
        file(f"{name}.json", json.dumps({"train_time_per_epoch": [seconds], "train_throughput": [rate]}))(tmp_path)
    assert "rate-of-one-rank" not in findings(tmp_path)
    found = audit_paths([tmp_path], {"one": {"world_size": 1}, "four": {"world_size": 4}}).findings
    assert [str(f.corrected)[:50] for f in found if f.code == "rate-of-one-rank"] == [
        "2,500 tokens/s: the rate x 4; 2.500 times the base"
    ]


def test_the_same_file_named_twice_is_two_runs_with_two_names(tmp_path):
    put(tmp_path / "a", run(2))
    path = tmp_path / "a/training_metrics.json"
    assert len(set(audit_paths([path, path]).runs)) == 2


def test_a_factorial_sweep_is_no_comparison_of_arms(tmp_path):
    for stage in (0, 1, 2):
        for kind in ("bf16", "tf32"):
            data = run(2)
            data["training_config"].update(zero_stage=stage, precision=kind)
            put(tmp_path / f"{stage}{kind}", data)
    assert "arms-differ" not in findings(tmp_path)


def test_arms_on_other_nodes_of_a_cluster_differ_in_one_thing(tmp_path):
    for kind in ("bf16", "tf32"):
        data = run(2)
        data["training_config"]["precision"] = kind
        data["scheduler"] = {"type": "slurm", "nodelist": f"node-{kind}"}
        put(tmp_path / kind, data)
    assert "arms-differ" not in findings(tmp_path)


def test_a_loss_scaler_may_look_for_its_scale(tmp_path):
    """Steps skipped in the first lines of a log are its start, not its result."""
    log(write_megatron, (r"(?s)(?<=skipped iterations:   )0(?=.*iteration      200/)", "3"))(tmp_path)
    assert "updates-skipped" not in findings(tmp_path)


def test_folders_that_are_no_repeats_are_configurations(tmp_path):
    for name in ("report/run1", "runtime/run1", "runtime/run2"):
        put(tmp_path / name, run(2))
    assert findings(tmp_path)["single-run"].runs == ["report/run1"]


def test_a_baseline_of_the_same_program_is_preferred(tmp_path):
    """One device with another precision stands beside the right baseline: nothing is wrong."""
    for name, world, kind in (("a", 1, "tf32"), ("b", 1, "bf16"), ("c", 4, "bf16")):
        data = run(world)
        data["training_config"]["precision"] = kind
        put(tmp_path / name, data)
    assert "baseline-other-program" not in findings(tmp_path)
