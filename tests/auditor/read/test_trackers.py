"""Files of experiment trackers: TensorBoard, Weights & Biases, Lightning's CSVLogger, transformers.Trainer."""

import base64
import json
import math
import re

import pytest

from scaleproof.auditor.audit import audit_paths
from scaleproof.auditor.read.discover import gather

# Written by torch.utils.tensorboard.SummaryWriter, without and with `new_style`: train/loss is 9, NaN, 7 at steps 0,
# 10, 20; perf/tokens_per_sec 65536, 65537, 65538; eval/loss 7.5 at step 20.
EVENTS = {
    "simple values": """
SAAAAAAAAAD+kkidCajwfEOWwNpBGg1icmFpbi5FdmVudDoyUi4KLHRlbnNvcmJvYXJkLnN1bW1hcnkud3JpdGVyLmV2ZW50X2ZpbGVfd3Jp
dGVylTPeDR4AAAAAAAAA2dwSMgk1+3xDlsDaQSoTChEKCnRyYWluL2xvc3MVAAAQQRJCzPonAAAAAAAAALvhsUYJsPt8Q5bA2kEqHAoaChNw
ZXJmL3Rva2Vuc19wZXJfc2VjFQAAgEdySKxrIAAAAAAAAAAp7alQCfD7fEOWwNpBEAoqEwoRCgp0cmFpbi9sb3NzFQAAwH9/Dps1KQAAAAAA
AAA3/18ACSb8fEOWwNpBEAoqHAoaChNwZXJmL3Rva2Vuc19wZXJfc2VjFYAAgEciNflOIAAAAAAAAAAp7alQCUv8fEOWwNpBEBQqEwoRCgp0
cmFpbi9sb3NzFQAA4ECIt+hbKQAAAAAAAAA3/18ACW78fEOWwNpBEBQqHAoaChNwZXJmL3Rva2Vuc19wZXJfc2VjFQABgEcntIQ5HwAAAAAA
AABRS0QYCZb8fEOWwNpBEBQqEgoQCglldmFsL2xvc3MVAADwQEuU8vI=""",
    "tensors": """
SAAAAAAAAAD+kkidCU8TfUOWwNpBGg1icmFpbi5FdmVudDoyUi4KLHRlbnNvcmJvYXJkLnN1bW1hcnkud3JpdGVyLmV2ZW50X2ZpbGVfd3Jp
dGVydVZiBDAAAAAAAAAAlfXQXwmqHH1DlsDaQSolCiMKCnRyYWluL2xvc3NCCAgBKgQAABBBSgsKCQoHc2NhbGFyc444RRI5AAAAAAAAAIsH
N/EJGB19Q5bA2kEqLgosChNwZXJmL3Rva2Vuc19wZXJfc2VjQggIASoEAACAR0oLCgkKB3NjYWxhcnOR4WS3MgAAAAAAAAAkGVbsCV8dfUOW
wNpBEAoqJQojCgp0cmFpbi9sb3NzQggIASoEAADAf0oLCgkKB3NjYWxhcnOM1vfeOwAAAAAAAAAaI6xcCZIdfUOWwNpBEAoqLgosChNwZXJm
L3Rva2Vuc19wZXJfc2VjQggIASoEgACAR0oLCgkKB3NjYWxhcnMDQg2EMgAAAAAAAAAkGVbsCcQdfUOWwNpBEBQqJQojCgp0cmFpbi9sb3Nz
QggIASoEAADgQEoLCgkKB3NjYWxhcnMwabyOOwAAAAAAAAAaI6xcCfMdfUOWwNpBEBQqLgosChNwZXJmL3Rva2Vuc19wZXJfc2VjQggIASoE
AAGAR0oLCgkKB3NjYWxhcnP9puKTMQAAAAAAAACdg4PpCSkefUOWwNpBEBQqJAoiCglldmFsL2xvc3NCCAgBKgQAAPBASgsKCQoHc2NhbGFy
c4Pi5qY=""",
}
EVENT_FILE = "events.out.tfevents.1700000000.node1.4242.0"


@pytest.mark.parametrize("style", EVENTS)
def test_scalars_of_an_event_file(tmp_path, style):
    folder = tmp_path / "runs" / "gpt2_4gpus"
    folder.mkdir(parents=True)
    (folder / EVENT_FILE).write_bytes(base64.b64decode(EVENTS[style]))
    (run,) = gather([tmp_path]).runs
    assert (run.name, run.format, run.world_size) == ("runs/gpt2_4gpus", "TensorBoard event file", 4)
    assert [(s.step, s.loss, s.tokens_per_s) for s in run.logged_steps] == [
        (0, 9.0, 65536.0),
        (10, None, 65537.0),
        (20, 7.0, 65538.0),
    ]
    assert (run.nan_steps, run.best_val_loss) == ([10], 7.5)


@pytest.mark.parametrize("damage", [lambda b: b[:300], lambda b: b[:300] + b"\xff" * 40, lambda b: b[:60]])
def test_an_event_file_that_is_cut_off_or_broken_is_read_up_to_there(tmp_path, damage):
    (tmp_path / EVENT_FILE).write_bytes(damage(base64.b64decode(EVENTS["tensors"])))
    evidence = gather([tmp_path])
    assert len(evidence.runs) <= 1
    assert all(s.loss is None or math.isfinite(s.loss) for run in evidence.runs for s in run.logged_steps)
    assert not [u for u in evidence.unread if u.kind == "damaged"]


def test_each_fault_of_an_event_file_has_its_byte_and_other_records_are_read(tmp_path):
    events = base64.b64decode(EVENTS["simple values"])

    def reasons_and_steps(content: bytes) -> tuple[list[str], int]:
        (tmp_path / EVENT_FILE).write_bytes(content)
        evidence = gather([tmp_path])
        return [unread.reason for unread in evidence.unread], sum(len(run.logged_steps) for run in evidence.runs)

    assert reasons_and_steps(events) == ([], 3)
    last = len(events) - 47  # of the last record, whose data are 31 bytes long
    cut_off = [f"its record at byte {last} is cut off, or damaged; what stands before was read"]
    for length in (last + 1, last + 12, len(events) - 1):
        assert reasons_and_steps(events[:length]) == (cut_off, 3)
    assert reasons_and_steps(events[:12] + b"\xff" * 4 + events[16:]) == (
        ["1 record damaged, the first at byte 0; others were read"],
        3,
    )
    whole_length = (1 << 62).to_bytes(8, "little")
    assert reasons_and_steps(whole_length + events[8:]) == (
        ["its record at byte 0 is cut off, or damaged; what stands before was read"],
        0,
    )


LIGHTNING = """epoch,lr-AdamW,step,train_loss_epoch,train_loss_step,val_loss
,0.0003,49,,,
0,,49,,9.8123,
0,,99,,nan,
0,,99,,,7.2210
0,,99,8.6170,,
1,,149,,6.9120,
1,,199,,,6.6110
"""
FABRIC = """epoch,step,train_loss,throughput/device/samples_per_sec,throughput/samples_per_sec,time
0,9,9.81,33.6,134.4,4.7
0,19,7.42,35.2,140.8,9.3
0,29,6.42,35.2,140.8,13.8
"""
EXPORT = (
    '"Step","ddp4 - train/loss","ddp4 - train/loss__MIN","ddp4 - train/loss__MAX","fsdp - train/loss",'
    '"fsdp - train/loss__MIN","fsdp - train/loss__MAX"\n"0","9.8","9.8","9.8","9.7","9.7","9.7"\n'
    '"1","9.4","9.4","9.4","","",""\n"2","9.1","9.1","9.1","9.0","9.0","9.0"\n"3","8.1","8.1","8.1","8.0","8.0","8.0"\n'
)
SAVED = "Wall time,Step,Value\n1700000000.1,10,9.8\n1700000010.1,20,9.1\n1700000020.1,30,8.8\n"
SAVED_JSON = "[[1700000000.1,1,9.8],[1700000001.2,2,9.7],[1.7e9,3,9.6]]"


@pytest.mark.parametrize(
    ("name", "text", "steps"),
    [
        ("metrics.csv", LIGHTNING, [(49, 9.8123), (99, None), (149, 6.912)]),
        ("metrics.csv", FABRIC, [(9, 9.81), (19, 7.42), (29, 6.42)]),
        ("run-gpt2-tag-train_loss.csv", SAVED, [(10, 9.8), (20, 9.1), (30, 8.8)]),
        ("run-gpt2-tag-loss.json", SAVED_JSON, [(1, 9.8), (2, 9.7), (3, 9.6)]),
    ],
)
def test_a_series_of_a_tracker(tmp_path, name, text, steps):
    (tmp_path / name).write_text(text)
    (run,) = gather([tmp_path]).runs
    assert [(s.step, s.loss) for s in run.logged_steps] == steps
    assert run.nan_steps == ([99] if "nan" in text else [])
    assert run.timed_spans == []  # a tracker's clock is no epoch time


def test_the_rate_of_all_devices_is_taken_where_both_are_there(tmp_path):
    (tmp_path / "metrics.csv").write_text(FABRIC)
    (run,) = gather([tmp_path]).runs
    assert [s.samples_per_s for s in run.logged_steps] == [134.4, 140.8, 140.8]


def test_an_export_of_several_runs_is_several_runs(tmp_path):
    (tmp_path / "wandb_export_2024-12-10.csv").write_text(EXPORT)
    ddp, fsdp = gather([tmp_path]).runs
    assert (ddp.name, fsdp.name) == ("wandb_export_2024-12-10.csv#ddp4", "wandb_export_2024-12-10.csv#fsdp")
    assert [s.step for s in fsdp.logged_steps] == [0, 2, 3]


def history(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_a_history_is_a_run_and_results_are_a_table(tmp_path):
    steps = [
        {"_step": k, "_runtime": 3.0 * k, "train/loss": 9 - k, "perf/tokens_per_sec_per_gpu": 16_384.0, "mfu": 38.2}
        for k in range(4)
    ]
    results = [{"iter": k, "gpus": 2**k, "tokens_per_sec": 1e4 * 2**k, "loss": 3.0} for k in range(4)]
    (tmp_path / "history.jsonl").write_text(history(steps))
    (tmp_path / "results.jsonl").write_text(history(results))
    evidence = gather([tmp_path])
    ((run,), (table,)) = evidence.runs, evidence.tables
    assert (run.format, run.rate_scope, len(run.logged_steps)) == ("W&B history", "rank", 4)
    assert [s.mfu for s in run.logged_steps] == [pytest.approx(0.382)] * 4
    assert [row.devices for row in table.rows] == [1, 2, 4, 8]


@pytest.mark.parametrize(("key", "runs"), [("tokens_per_sec", 1), ("samples_per_s", 1), ("latency_ms", 0)])
def test_a_history_of_rates_needs_no_loss(tmp_path, key, runs):
    (tmp_path / "history.jsonl").write_text(history([{"step": k, key: 100.0 + k % 3} for k in range(9)]))
    assert len(gather([tmp_path]).runs) == runs


def test_a_history_saved_as_csv_is_one_of_wandb(tmp_path):
    rows = "".join(f"{k},{3 - k / 9:.3f},{3.1 - k / 9:.3f},{65000 + k},0.50{k},{k}\n" for k in range(1, 9))
    header = "_step,train/loss,eval/loss,perf/tokens_per_sec,perf/step_time_s,_runtime\n"
    (tmp_path / "history.csv").write_text(header + rows)
    (run,) = gather([tmp_path]).runs
    step = run.logged_steps[1]
    assert (run.format, step.step, step.loss, step.tokens_per_s) == ("W&B history", 2, 2.778, 65002)
    assert (step.seconds, run.best_val_loss) == (0.502, 2.211)


FACTORY = {"current_steps": "{k}", "total_steps": 90, "loss": 2.3, "percentage": "{k}", "elapsed_time": "0:0{m}:00"}
SWIFT = {"loss": 2.3, "global_step/max_steps": "{k}/90", "percentage": "{k}%", "elapsed_time": "{m}m 2s"}


@pytest.mark.parametrize(
    ("row", "steps_per_s"),
    [(FACTORY, [0.5]), (SWIFT, [0.5]), (SWIFT | {"train_speed(iter/s)": 0.4}, [0.4, 0.4, 0.4]), ({"step": "{k}"}, [])],
)
def test_lines_with_the_time_since_the_start_are_steps(tmp_path, row, steps_per_s):
    """Of LLaMA-Factory and ms-swift: 30 steps in each minute."""
    text = "".join(
        json.dumps(row | {"loss": 9 - m}).replace("{k}", str(30 * m)).replace("{m}", str(m)) + "\n" for m in (1, 2, 3)
    )
    (tmp_path / "trainer_log.jsonl").write_text(re.sub(r'(step.*?": )"(\d+)"', r"\1\2", text))
    (run,) = gather([tmp_path]).runs
    assert (run.steps_per_s, [s.step for s in run.logged_steps]) == (steps_per_s, [30, 60, 90])


def test_the_summary_of_a_run_and_the_results_of_a_trainer_are_tables(tmp_path):
    summary = {
        "_runtime": 1234.5,
        "_step": 1200,
        "train/loss": 3.28,
        "tokens_per_sec": 65536.2,
        "_wandb": {"runtime": 1240},
    }
    results = {"epoch": 1.0, "train_loss": 3.45, "train_runtime": 412.6, "train_samples_per_second": 38.78}
    (tmp_path / "wandb-summary.json").write_text(json.dumps(summary))
    (tmp_path / "all_results.json").write_text(json.dumps(results))
    rows = {row.file: row for table in gather([tmp_path]).tables for row in table.rows}
    assert rows["wandb-summary.json"].value("tokens_per_s") == 65536.2
    assert rows["all_results.json"].value("total_time_s") == 412.6
    assert rows["all_results.json"].value("samples_per_s") == 38.78


def test_a_step_without_end_is_left_out_of_a_history(tmp_path):
    rows = [{"_step": step, "loss": 3.0, "_runtime": 1.0} for step in (1, 2, 3, math.inf)]
    (tmp_path / "history.jsonl").write_text(history(rows))
    (run,) = gather([tmp_path]).runs
    assert run.problems == ["line 4: its _step is inf"]
    assert len(run.logged_steps) == 3


@pytest.mark.parametrize(("rate", "codes"), [(32_768.0, []), (65_536.0, ["rate-times-time"])])
def test_what_every_line_states_is_a_setting_of_the_run(tmp_path, rate, codes):
    sizes = {"global_batch": 16, "seq_len": 1024, "world_size": 4}
    steps = [{"step": k, "loss": 9 - k / 10, "step_time_s": 0.5, "tokens_per_s": rate, **sizes} for k in range(1, 9)]
    (tmp_path / "log.jsonl").write_text(history(steps))
    (run,) = gather([tmp_path]).runs
    assert (run.global_batch, run.seq_len, run.world_size) == (16, 1024, 4)
    assert [finding.code for finding in audit_paths([tmp_path]).findings if finding.severity != "note"] == codes


def test_rates_of_one_device_do_not_follow_rates_of_all(tmp_path):
    rows = [{"_step": k, "loss": 9.5 - k, "tokens_per_s": 8000.0, "tokens_per_s_per_gpu": 1000.0} for k in range(4)]
    (tmp_path / "history.jsonl").write_text(history(rows))
    (run,) = gather([tmp_path]).runs
    assert [step.tokens_per_s for step in run.logged_steps] == [8000.0] * 4
    assert run.rate_scope != "rank"


@pytest.mark.parametrize("step", ["Infinity", "NaN"])
def test_a_step_that_is_no_number_is_named(tmp_path, step):
    lines = [f'{{"step": {number}, "loss": 2.3, "tokens_per_s": 900}}' for number in (1, 2, 3, step, 4)]
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    (tmp_path / "loss.json").write_text(f"[[1.7e9, 1, 2.3], [1.7e9, {step}, 2.2]]")
    evidence = gather([tmp_path])
    printed = step.lower()[:3]
    assert not evidence.tables
    (run,) = evidence.runs
    assert run.problems == [f"line 4: its step is {printed}"]
    assert len(run.logged_steps) == 4
    assert [unread.reason for unread in evidence.unread] == [f"the step of row 2 is {printed}, not a number of a step"]


def test_the_durations_of_phones_are_no_results(tmp_path):
    phones = [{"phone": "ah", "duration": 0.07, "start": 0.1}, {"phone": "t", "duration": 0.1, "start": 0.17}]
    (tmp_path / "a.json").write_text(json.dumps({"words": [{"word": "at", "phones": phones}]}))
    assert gather([tmp_path]).tables == []


@pytest.mark.parametrize("rate", [81_920, 61_440, 20_480, 163_840])
def test_the_tokens_that_a_trainer_has_seen_are_understood_and_no_side_of_a_product(tmp_path, rate):
    """They are of all ranks and sessions; the rate of this session (61,440: resumed), once of one device (20,480)."""
    results = {"train_runtime": 800.0, "num_input_tokens_seen": 65_536_000, "train_tokens_per_second": rate}
    (tmp_path / "all_results.json").write_text(json.dumps(results))
    audit = audit_paths([tmp_path])
    assert (audit.figures.not_understood, audit.columns_not_understood, audit.findings) == (0, [], [])
