"""Scaling series out of tables as people have them: which rows are one series, and how fast a device is in them."""

import pytest

from scaleproof.auditor.read.rates_by_size import rates_by_size, unread_rows_text
from scaleproof.ground.errors import UserError


@pytest.fixture
def series(tmp_path):
    def read(text: str, name: str = "scaling.csv"):
        path = tmp_path / name
        path.write_text(text)
        return rates_by_size(path, devices_per_node=8)

    return read


def test_words_tell_series_apart_and_figures_do_not(series):
    table = "model,GPUs,tokens/s,MFU,step time (ms)\nA,8,80000,0.41,102\nA,16,152000,0.39,107\nB,8,1000,0.2,99\n"
    assert series(table) == {"A": {8: [10_000], 16: [9_500]}, "B": {8: [125]}}


def test_a_command_is_named_once_and_different_words_all(series):
    table = "task,strategy,model,devices,tokens_per_s\n{0},{1},{0},1,100\n{0},{1},{0},2,190\n"
    assert set(series(table.format("command", "command"))) == {"command"}
    assert set(series(table.format("gpt2", "ddp"))) == {"gpt2 gpt2 ddp"}


def test_rates_of_one_device_are_taken_before_those_of_all(series):
    assert series("gpus,tokens/s/gpu,tokens/s\n1,100,100\n2,98,190\n") == {"": {1: [100], 2: [98]}}


def test_a_column_of_each_precision_is_a_series(series):
    table = """
| GPUs | Throughput - TF32(sequences/sec) | Throughput - FP16(sequences/sec) | Weak scaling - TF32 |
|---|---|---|---|
| 1 | 44 | 116 | 1.00 |
| 4 | 160 | 440 | 3.64 |
"""
    assert series(table, "README.md") == {"tf32": {1: [44], 4: [40]}, "fp16": {1: [116], 4: [110]}}


def test_names_of_rows_may_be_their_sizes(series):
    table = "| Run | Throughput | Speedup |\n|---|---|---|\n| 1 GPU | 43 tok/s | 1x |\n| 4 GPUs | 160 tok/s | 3.7x |\n"
    assert series(table, "results.md") == {"": {1: [43], 4: [40]}}


@pytest.mark.parametrize(
    ("names", "read"),
    [
        (("8x A100", "16x A100"), ["A100"]),
        (("A100 x8", "A100x16"), ["A100"]),
        (("8x A100", "16x H100"), ["A100", "H100"]),
        (("mx100, 8 GPUs", "mx200, 16 GPUs"), ["mx100", "mx200"]),
        (("1x batch, 8 GPUs", "2x batch, 16 GPUs"), ["1x batch", "2x batch"]),
    ],
)
def test_how_many_devices_is_no_name(series, names, read):
    lines = "".join(f"| {name} | {3100 - k} |\n" for k, name in enumerate(names))
    assert sorted(series("| hardware | tokens/s/GPU |\n|---|---|\n" + lines, "results.md")) == read


@pytest.mark.parametrize(("unit", "of_device"), [("tokens/s/卡", 3120), ("tokens/s", 390)])
def test_whose_rate_it_is_may_be_said_in_chinese(series, unit, of_device):
    table = f"| 卡数 | 吞吐 ({unit}) |\n|---|---|\n| 8 | 3120 |\n| 64 | 3010 |\n"
    assert series(table, "results.md")[""][8] == [of_device]


def test_a_batch_tells_apart_only_where_a_size_stands_twice(series):
    weak = "gpus,global_batch_size,samples_per_sec\n1,32,50\n2,64,96\n"
    assert series(weak) == {"": {1: [50], 2: [48]}}
    both = "gpus,global_batch_size,samples_per_sec\n1,32,50\n2,32,80\n1,64,60\n2,64,110\n"
    assert series(both) == {"global-batch 32": {1: [50], 2: [40]}, "global-batch 64": {1: [60], 2: [55]}}


def test_an_unknown_column_tells_apart_and_equal_rows_are_repeats(series):
    table = (
        "hidden,gpus,samples_per_sec,job_id\n768,1,50,901\n768,2,96,902\n768,2,98,903\n1024,1,30,904\n1024,2,58,905\n"
    )
    assert series(table) == {"768": {1: [50], 2: [48, 49]}, "1024": {1: [30], 2: [29]}}


@pytest.mark.parametrize(
    ("clusters", "names"), [(("mahti", "puhti"), {"ddp mahti DDP", "ddp puhti DDP"}), (("mahti",) * 2, {"ddp DDP"})]
)
def test_machines_tell_apart_where_there_are_several(series, clusters, names):
    rates = ((1, 780, 330), (4, 3060, 1245))
    lines = [f"| DDP | {name} | {n} | {rate[k]} |" for n, *rate in rates for k, name in enumerate(clusters)]
    table = "\n".join(["| Benchmark | Cluster | GPUs | Img/sec |", "|---|---|---|---|", *lines])
    assert series(table, "results.md").keys() == names


def test_times_of_steps_and_nodes(series):
    assert series("strategy,devices,step_time_s,global_batch\nddp,1,0.5,64\nddp,2,0.32,64\n") == {
        "ddp": {1: [128], 2: [100]}
    }
    assert series("nodes,throughput (samples/sec)\n1,240\n2,464\n") == {"": {8: [30], 16: [29]}}


def test_what_was_not_measured_is_left_out(series):
    table = "gpus,tokens/s\n1,100\n2,190\n4,OOM\n"
    assert series(table) == {"": {1: [100], 2: [95]}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpus,colour\n1,red\n", "no table with a column of devices"),
        ("tokens/s\n1\n", "and one of rates"),
        ("gpus,step_time_s\n1,0.5\n2,0.3\n", "beside a global batch"),
        ("gpus,tokens/s\n", "no table"),
    ],
)
def test_another_file_is_refused_with_what_is_wanted(series, text, message):
    with pytest.raises(UserError, match=message):
        series(text)


def test_how_a_size_did_is_no_series_and_a_name_is(series):
    rows = ("ddp,1,100,", 'ddp,2,150,"undecided, low to good"', "fsdp,1,90,", "fsdp,2,100,low")
    rated = "\n".join(["series,devices,tokens/s,rating", *rows])
    assert series(rated) == {"ddp": {1: [100], 2: [75]}, "fsdp": {1: [90], 2: [50]}}
    assert series(rated.replace("rating", "model")).keys() > {"low"}


@pytest.mark.parametrize(
    ("cells", "fault"),
    [
        ("one,4800", r'has no number of devices \(gpus: "one"\)'),
        ("2,many\none,4800", r'has no rate above 0 \(tokens/s: "many"\)'),
    ],
)
def test_where_the_columns_are_there_the_cell_that_is_no_number_is_named(series, cells, fault):
    with pytest.raises(UserError, match=rf"scaling.csv:2: {fault}, nor has any other row both"):
        series(f"gpus,tokens/s\n{cells}\n")
    assert series(f"gpus,tokens/s\n{cells}\n4,400\n") == {"": {4: [100]}}


def test_rows_without_a_rate_are_counted(tmp_path):
    path = tmp_path / "scaling.csv"
    path.write_text("gpus,tokens/s\n1,1000\n2,n/a\nsixteen,13000\n")
    assert unread_rows_text(path, 8) == "2 rows of 3 not read; the first, scaling.csv:3: has no rate above 0"
    path.write_text("gpus,tokens/s\n1,1000\n2,1900\n")
    assert unread_rows_text(path, 8) == ""


TABLE = "| GPUs | tokens/s |\n|---|---|\n| 1 | {} |\n\n"


@pytest.mark.parametrize(
    ("headings", "names"),
    [
        (("## FP32", "## FP16"), ["FP32", "FP16"]),
        (("## FP16\n\n### Batch 1", "## FP16\n\n### Batch 2"), ["Batch 1", "Batch 2"]),
        (("text", "text"), ["results.md:5", "results.md:11"]),
    ],
)
def test_tables_under_different_headings_are_different_series(series, headings, names):
    first, second = (f"{heading}\n\n{TABLE.format(rate)}" for heading, rate in zip(headings, (100, 300), strict=True))
    assert series(f"# A100\n\n{first}{second}", "results.md") == {names[0]: {1: [100]}, names[1]: {1: [300]}}
    assert series(f"# A100\n\n{first}", "results.md") == {"": {1: [100]}}
