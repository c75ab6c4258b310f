"""A CSV file is a log where steps or epochs go on from row to row, and else has a row for each configuration."""

import pytest

from scaleproof.auditor.audit import audit_paths
from scaleproof.auditor.read.discover import gather


def read(folder, head, *rows, name="results.csv"):
    (folder / name).write_text("\n".join((head, *rows)) + "\n")
    return gather([folder])


def codes(folder):
    return {finding.code for finding in audit_paths([folder]).findings}


SWEEPS = {
    "settings that nobody knows": (
        "model,gpus,num_workers,optimizer,epoch,epoch_time",
        [f"resnet18,{g},{w},{o},5,{100 / g + w}" for g in (1, 2) for w in (0, 2, 4) for o in ("sgd", "adam")],
    ),
    "one length for all": ("bucket_mb,epoch,epoch_time,loss", [f"{b},3,{20 - b / 10},2.1" for b in (1, 5, 10, 25)]),
    "lengths in no order": ("lr,epoch,epoch_time", [f"{r},{e},{e * 2.0}" for r in (0.1, 0.01) for e in (10, 5, 20)]),
    "repeats without a number": (
        "strategy,gpus,epoch,epoch_time",
        ["ddp,1,1,20.1", "ddp,2,1,11.0", "ddp,2,1,11.2", "ddp,2,1,11.1"],
    ),
    "steps that were run": (
        "config,bucket,steps,tokens_per_sec",
        [f"{c},{b},50,{1000 + b}" for c in "ab" for b in (1, 5)],
    ),
}


@pytest.mark.parametrize("sweep", SWEEPS)
def test_a_row_for_each_configuration_is_a_table(tmp_path, sweep):
    head, rows = SWEEPS[sweep]
    evidence = read(tmp_path, head, *rows)
    assert (len(evidence.runs), [len(table.rows) for table in evidence.tables]) == (0, [len(rows)])
    assert not codes(tmp_path) & {"runs-interleaved", "field-unusable"}


def test_an_unknown_setting_tells_the_runs_of_a_log_apart(tmp_path):
    rows = [f"{w},{e},{10 + w},{2 - e / 10}" for w in (2, 4) for e in range(1, 6)]
    evidence = read(tmp_path, "num_workers,epoch,epoch_time,loss", *rows)
    assert [len(run.timed_spans) for run in evidence.runs] == [5, 5]
    assert "runs-interleaved" not in codes(tmp_path)


def test_two_runs_that_write_to_one_log_are_still_named(tmp_path):
    read(tmp_path, "epoch,train_time,loss", *(f"{e},{10 + e % 3},1.5" for e in (6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 6, 7)))
    assert "runs-interleaved" in codes(tmp_path)


@pytest.mark.parametrize("row", ["3,,", "3,OOM,OOM", "3,nan,nan", "3,0,CUDA out of memory", "3,N/A,-", "3,failed,"])
def test_a_row_without_figures_is_no_fault_of_its_log(tmp_path, row):
    read(tmp_path, "epoch,epoch_time,loss", "1,10.0,3.0", "2,10.1,2.5", row, "4,10.1,2.0")
    assert "field-unusable" not in codes(tmp_path)
    assert "not-finite" not in codes(tmp_path)


@pytest.mark.parametrize("row", ["3,ten,2.2", "3,-1.0,2.2", "3"])
def test_a_row_that_is_none_is_still_named(tmp_path, row):
    read(tmp_path, "epoch,epoch_time,loss", "1,10.0,3.0", "2,10.1,2.5", row, "4,10.1,2.0")
    assert "field-unusable" in codes(tmp_path)


def test_a_rate_of_one_device_is_no_rate_of_one_rank_by_mistake(tmp_path):
    head = "global_step,step_time_s,loss,tok_s_gpu,world_size,global_batch,seq_len"
    run = read(tmp_path, head, *(f"{i},0.5,3.0,4096,4,8,1024" for i in range(20))).runs[0]
    assert run.rate_scope == "rank"
    assert "rate-of-one-rank" not in codes(tmp_path)


def test_a_rate_of_all_devices_is_preferred(tmp_path):
    head = "global_step,step_time_s,loss,tok_s_gpu,tok_s"
    run = read(tmp_path, head, *(f"{i},0.5,3.0,4096,16384" for i in range(5))).runs[0]
    assert (run.logged_steps[0].tokens_per_s, run.rate_scope) == (16384, None)


def test_utilisation_tells_no_runs_of_a_log_apart(tmp_path):
    rows = [f"{e},{2 / (e + 1):.3f},{10 + e / 10},{(52, 11, 96, 38)[e % 4]}" for e in range(12)]
    runs = read(tmp_path, "epoch,loss,epoch_time,gpu", *rows).runs
    assert [(len(run.timed_spans), run.world_size) for run in runs] == [(12, None)]


@pytest.mark.parametrize(
    ("head", "values", "devices"),
    [
        ("model,throughput,gpu", (52, 96, 99), None),
        ("model,throughput,gpu", (0, 1, 2), None),
        ("model,throughput,cpu,gpu", ("12,4", "33,8", "20,8"), None),
        ("model,throughput,gpu", (1, 2, 8), [1, 2, 8]),
        ("model,throughput,gpu", (8, 64, 256), [8, 64, 256]),
    ],
)
def test_a_column_gpu_counts_devices_where_its_numbers_can_be_counts(tmp_path, head, values, devices):
    table = read(tmp_path, head, *(f"m{i},{100 + i},{v}" for i, v in enumerate(values))).tables[0]
    assert [row.devices for row in table.rows] == (devices or [None] * 3)


def test_hours_that_run_on_from_epoch_to_epoch_are_a_clock(tmp_path):
    clock = [f"{epoch},{hours},{40 + epoch}" for epoch, hours in enumerate((0.07, 0.12, 0.17, 0.22, 0.27, 0.32))]
    (run,) = read(tmp_path, "epoch\thours\taccuracy", *(row.replace(",", "\t") for row in clock), name="a.tsv").runs
    assert [round(span.seconds) for span in run.timed_spans] == [252, 180, 180, 180, 180, 180]


@pytest.mark.parametrize("times", [(60, 61, 62, 63, 64, 65), (90, 60, 61, 60, 62, 61), (60, 120, 180)])
def test_times_of_epochs_are_no_clock(tmp_path, times):
    (run,) = read(tmp_path, "epoch,time (s),loss", *(f"{k},{t},2.{k}" for k, t in enumerate(times))).runs
    assert [span.seconds for span in run.timed_spans] == list(times)


def test_lines_that_are_all_longer_than_their_heading_are_not_read(tmp_path):
    evidence = read(tmp_path, "step,loss,tokens_per_sec", *[f"{step},2.{step},1.000,5" for step in range(1, 6)])
    assert evidence.runs == []
    assert "more values than the heading has names" in evidence.unread[0].reason


def test_a_comma_at_the_end_of_a_line_makes_it_no_longer(tmp_path):
    rows = [f"{step},2.{step},1000," for step in range(1, 6)]
    assert len(read(tmp_path, "step,loss,tokens_per_sec", *rows).runs[0].logged_steps) == 5


@pytest.mark.parametrize(("row", "notes"), [("2,1.900,5", ["results.csv:3"]), ("2,1900,,", []), ("2", [])])
def test_a_line_with_more_values_than_the_heading_is_noted(tmp_path, row, notes):
    evidence = read(tmp_path, "gpus,tokens/s", "1,1000", row)
    assert [unread.name for unread in evidence.unread] == notes
    assert len(evidence.tables) == 1


def test_columns_may_be_divided_by_bars(tmp_path):
    """As `sacct -P` does."""
    rows = ("1|02:10:44|1.00", "2|01:07:31|1.94", "4|00:36:02|3.93")
    (table,) = read(tmp_path, "NNodes|Elapsed|Speedup", *rows).tables
    assert [row.value("nodes") for row in table.rows] == [1, 2, 4]
    (finding,) = audit_paths([tmp_path]).findings
    assert (finding.code, finding.runs) == ("speedup-not-in-table", ["results.csv:4"])


def logged(tmp_path, head, row):
    rows = [row.format(step=step) for step in range(1, 6)]
    (run,) = read(tmp_path, head, *rows, name="step_log.csv").runs
    return run.logged_steps[0]


@pytest.mark.parametrize(
    ("heading", "cell", "tokens_per_s"), [("ktok/s", "39.4", 39_400), ("tokens_per_s", "39400", 39_400)]
)
def test_a_rate_is_in_the_unit_of_its_heading(tmp_path, heading, cell, tokens_per_s):
    step = logged(tmp_path, f"step,step_time_ms,{heading}", f"{{step}},412.5,{cell}")
    assert (step.seconds, step.tokens_per_s) == pytest.approx((0.4125, tokens_per_s))


def test_a_log_in_thousands_of_tokens_a_second_is_not_accused(tmp_path):
    read(
        tmp_path,
        "step,loss,step_time_ms,ktok/s,global_batch,seq_len",
        *(f"{k},2.1,400,81.92,32,1024" for k in range(9)),
    )
    assert "rate-times-time" not in codes(tmp_path)


@pytest.mark.parametrize(
    ("heading", "is_accused"), [("step_time", False), ("step_time_ms", False), ("step_time_s", True)]
)
def test_milliseconds_need_not_be_called_so(tmp_path, heading, is_accused):
    head = f"step,loss,{heading},tokens_per_s,global_batch,seq_len"
    read(tmp_path, head, *(f"{k},2.1,400,81920,32,1024" for k in range(9)))
    assert ("rate-times-time" in codes(tmp_path)) == is_accused


@pytest.mark.parametrize(
    ("row", "seconds", "loss", "tokens_per_s"),
    [
        ("{step};412,5;2,31;9.900,25", 0.4125, 2.31, 9900.25),
        ("{step};412.5;2.31;9,900.25", 0.4125, 2.31, 9900.25),
        ("{step};412;2.31;9,900", 0.412, 2.31, 9900),
    ],
)
def test_a_decimal_comma_is_told_from_one_that_sets_thousands_apart(tmp_path, row, seconds, loss, tokens_per_s):
    step = logged(tmp_path, "step;step_time_ms;loss;tokens_per_s", row)
    assert (step.seconds, step.loss, step.tokens_per_s) == pytest.approx((seconds, loss, tokens_per_s))


def test_files_of_one_row_without_a_known_heading_are_not_joined(tmp_path):
    (tmp_path / "a.csv").write_text("foo,DDP,FSDP\nresnet,100 img/s,5\n")
    evidence = read(tmp_path, "foo,DDP,FSDP", "resnet,100 img/s,5")
    assert [table.file for table in evidence.tables] == ["a.csv", "results.csv"]


def test_files_of_one_row_are_joined(tmp_path):
    (tmp_path / "a.csv").write_text("gpus,img/s\n1,100\n")
    evidence = read(tmp_path, "gpus,img/s", "2,190")
    assert [len(table.rows) for table in evidence.tables] == [2]


@pytest.mark.parametrize(
    ("heading", "shares"),
    [
        ("mfu", ["1.2", "45.2", "47"]),  # the first step compiles
        ("mfu", ["0.012", "0.452", "0.47"]),
        ("mfu (%)", ["1.2", "45.2", "47"]),
    ],
)
def test_an_mfu_is_a_share_whatever_its_unit(tmp_path, heading, shares):
    rows = [f"{step},0.4,{share}" for step, share in enumerate(shares, start=1)]
    (run,) = read(tmp_path, f"step,step_time_s,{heading}", *rows, name="step_log.csv").runs
    assert list(run.logged_steps.values("mfu")) == pytest.approx([0.012, 0.452, 0.47])
    assert "mfu-impossible" not in codes(tmp_path)


def test_an_mfu_above_one_is_impossible(tmp_path):
    read(tmp_path, "step,step_time_s,mfu", "1,0.4,1.3", "2,0.4,1.31", "3,0.4,1.3", name="step_log.csv")
    assert "mfu-impossible" in codes(tmp_path)


@pytest.mark.parametrize(
    ("cells", "seconds"),
    [(["63s", "64 s", "62s"], [63, 64, 62]), (["0:01:02", "0:01:05", "0:01:01"], [62, 65, 61]), (["1,5"] * 3, None)],
)
def test_times_of_epochs_may_say_their_units(tmp_path, cells, seconds):
    rows = [f"{epoch},{3 / epoch},{cell}" for epoch, cell in enumerate(cells, start=1)]
    evidence = read(tmp_path, "Epoch,Train Loss,Time", *rows)
    spans = [span.seconds for run in evidence.runs for span in run.timed_spans]
    assert spans == (seconds or [])
