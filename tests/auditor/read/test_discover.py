"""What the readers take from each program's log: the figures that the log has, and None for those that it has not."""

import json
import random
from pathlib import Path

import pytest
from external_files import (
    metrics,
    write_blocks,
    write_llmc,
    write_megatron,
    write_nanogpt,
    write_torchtitan,
    write_trainer_state,
)

from scaleproof.auditor.checks.baselines import total_rate
from scaleproof.auditor.read.discover import gather


def test_a_file_is_read_once(tmp_path):
    (tmp_path / "a").mkdir()
    write_nanogpt(tmp_path / "a", random.Random(1))
    (tmp_path / "a/latest.txt").symlink_to("nanogpt.txt")
    for paths in ([tmp_path], [tmp_path, tmp_path / "a"], [tmp_path / "a/nanogpt.txt"] * 2):
        assert len(gather(paths).runs) == 1


@pytest.mark.parametrize(("numbers", "expected"), [((0, 1), [0, 1]), ((1, 2), [1, 2]), ((None, None), [1, 2])])
def test_epochs_keep_the_numbers_of_their_file(tmp_path, numbers, expected):
    record = metrics(2, random.Random(1))
    (epoch,) = record["epochs"]
    record["epochs"] = [epoch | {"epoch_idx": number} for number in numbers]
    (tmp_path / "training_metrics.json").write_text(json.dumps(record))
    (run,) = gather([tmp_path]).runs
    assert [span.index for span in run.timed_spans] == expected


READ = [
    (
        write_nanogpt,
        {"world_size": None, "parameters": 123.59e6, "peak_flops": 312e12, "best_val_loss": 10.9861, "device": None},
        60,
    ),
    (
        write_llmc,
        {
            "world_size": 8,
            "micro_batch": 64,
            "seq_len": 1024,
            "parameters": 124475904.0,
            "device": "NVIDIA H100 PCIe",
            "precision": "bf16",
            "best_val_loss": 11.009138,
        },
        59,
    ),
    (
        write_torchtitan,
        {
            "world_size": 8,
            "micro_batch": 8,
            "global_batch": 64,
            "seq_len": 8192,
            "device": "NVIDIA H100 PCIe",
            "peak_flops": 756e12,
            "rate_scope": "rank",
        },
        19,
    ),
    (
        write_megatron,
        {"world_size": 16, "micro_batch": 4, "global_batch": 256, "seq_len": 1024, "skipped_steps": 0},
        19,
    ),
    (write_trainer_state, {"world_size": None, "micro_batch": 32, "epochs": 1}, 320),
    (write_blocks, {"world_size": 2, "micro_batch": 8, "offload": None, "zero_stage": None}, 6),
]


def read(folder, writer):
    writer(folder, random.Random(0))
    (claim,) = gather([folder]).runs
    return claim


@pytest.mark.parametrize(("writer", "wanted", "rows"), READ, ids=lambda v: getattr(v, "__name__", ""))
def test_a_log_is_read(tmp_path, writer, wanted, rows):
    claim = read(tmp_path, writer)
    assert {key: getattr(claim, key) for key in wanted} == wanted
    assert len(claim.logged_steps) == rows
    assert claim.problems == []


def test_speed_is_of_all_devices_together(tmp_path):
    """torchtitan prints the rate of one; nanoGPT prints no rate, but the tokens and the time of a step."""
    titan, nano = read(tmp_path / "a", write_torchtitan), read(tmp_path / "b", write_nanogpt)
    rates = sorted(row.tokens_per_s for row in titan.logged_steps)
    assert total_rate(titan).value == rates[len(rates) // 2] * 8
    seconds = sorted(row.seconds for row in nano.logged_steps)
    assert total_rate(nano).value == pytest.approx(491_520 / seconds[len(seconds) // 2])


def test_a_name_tells_what_a_step_log_does_not(tmp_path):
    folder = tmp_path / "zs2_fp16_gpus4_bs32_sl128"
    folder.mkdir()
    (folder / "step_log.csv").write_text("global_step,step_time_s\n1,0.5\n2,0.5\n")
    (claim,) = gather([tmp_path]).runs
    assert (claim.world_size, claim.micro_batch, claim.seq_len, claim.zero_stage, claim.precision) == (
        4,
        32,
        128,
        2,
        "fp16",
    )


def test_what_a_file_says_counts_more_than_what_is_said_about_it(tmp_path):
    folder = tmp_path / "a"
    write_llmc(folder, random.Random(0))
    (folder / "claims.yaml").write_text('scaleproof_claims: "1.0"\nruns: {main: {world_size: 3, dataset: web}}\n')
    (claim,) = gather([tmp_path], {"": {"world_size": 5}}).runs
    assert (claim.world_size, claim.dataset) == (8, "web")


@pytest.mark.parametrize(
    ("paths", "devices"),
    [
        (["."], 3),
        (["../c"], 3),
        (["nanogpt.txt", "claims.yaml"], 3),
        (["nanogpt.txt", "{}/c/claims.yaml"], 3),
        (["nanogpt.txt", "../d/claims.yaml"], None),  # of other runs
    ],
)
def test_claims_are_of_the_runs_beside_them_however_these_are_named(tmp_path, monkeypatch, paths, devices):
    write_nanogpt(tmp_path / "c", random.Random(0))
    for folder in (tmp_path / "c", tmp_path / "d"):
        folder.mkdir(exist_ok=True)
        (folder / "claims.yaml").write_text('scaleproof_claims: "1.0"\nruns: {nanogpt: {world_size: 3}}\n')
    monkeypatch.chdir(tmp_path / "c")
    (run,) = gather([Path(path.format(tmp_path)) for path in paths]).runs
    assert run.world_size == devices


@pytest.mark.parametrize(
    ("name", "paths", "devices"),
    [
        ("folder", ["."], 4),  # whose name is only known by resolving it
        ("folder", ["../folder"], 4),
        ("link", ["../link"], 4),
        ("folder", ["inner"], None),  # its claims are not read
        ("folder", ["../folder", "inner"], 4),
        ("inner", ["."], 4),
        ("fold", ["."], None),  # a folder's name counts as a whole
    ],
)
def test_claims_may_name_the_folder_of_the_runs(tmp_path, monkeypatch, name, paths, devices):
    write_nanogpt(tmp_path / "folder/inner", random.Random(0))
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "folder/c.yaml").write_text(f'scaleproof_claims: "1.0"\nruns: {{{name}: {{world_size: 4}}}}\n')
    monkeypatch.chdir(tmp_path / "folder")
    evidence = gather([Path(path) for path in paths])
    assert [run.world_size for run in evidence.runs] == [devices]
    assert [unread.reason for unread in evidence.unread] == (
        ['runs.fold is in no run\'s name. Did you mean "folder"? Runs: inner/nanogpt.txt'] if name == "fold" else []
    )


def test_a_part_of_one_runs_name_means_no_other_by_the_folder(tmp_path):
    folder = tmp_path / "run"
    write_nanogpt(folder, random.Random(0))
    (folder / "run1.txt").write_text((folder / "nanogpt.txt").read_text() + "\n")
    (folder / "claims.yaml").write_text('scaleproof_claims: "1.0"\nruns: {run: {world_size: 4}}\n')
    assert {run.name: run.world_size for run in gather([folder]).runs} == {"nanogpt.txt": None, "run1.txt": 4}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("claims: [{kind: speedups}]", 'Did you mean "speedup"?'),
        ("claims: [{kind: speedup, value: 2, of: a}]", "lacks `over`"),
        ("claims: [{kind: throughput, value: fast, of: a}]", "not a number"),
        ("claims: [{kind: throughput, value: 5, of: true}]", "claims[0].of is 'True', not a text"),
        ("claim: [{kind: throughput, value: 5, of: a}]", 'claim is unknown. Did you mean "claims"?'),
        ("runs: {a: {world_size: 2, world_size: 4}}", "line 2: world_size is given twice"),
        ("claims: [{kind: throughput, value: 1, of: a, unit: s}]", "no key of throughput"),
        ("claims: {kind: speedup}", "claims is no list; each claim begins with a hyphen"),
        ("runs: [a]", "runs is no mapping of names to facts"),
        ("runs: {a: {worldsize: 2}}", 'Did you mean "world_size"?'),
        ("runs: {a: {world_size: two}}", "not a whole number"),
    ],
)
def test_a_mistake_in_a_claims_file_is_told(tmp_path, text, message):
    (tmp_path / "claims.yaml").write_text(f'scaleproof_claims: "1.0"\n{text}\n')
    (unread,) = gather([tmp_path]).unread
    assert message in unread.reason


@pytest.mark.parametrize("rate", ["samples_per_s", "sps", "fps"])
def test_a_table_of_devices_and_rates_is_read(tmp_path, rate):
    (tmp_path / "scaling.csv").write_text(f"devices,{rate}\n1,100\n2,190\n")
    (table,) = gather([tmp_path]).tables
    assert [row.devices for row in table.rows] == [1, 2]
