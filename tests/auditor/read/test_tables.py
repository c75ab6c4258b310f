"""Published tables: every form gives the same typed figures, and what is not understood is left alone."""

import json

import pytest

from scaleproof.auditor.annotations import locations
from scaleproof.auditor.audit import audit_paths
from scaleproof.auditor.read import printed_figures
from scaleproof.auditor.read.discover import gather
from scaleproof.auditor.read.heading_words import PHRASES
from scaleproof.auditor.read.headings import NOT_FIGURES, column_of
from scaleproof.auditor.read.printed_figures import KINDS, figures_of, is_european, plain_text

ONE = '"num_gpus": 1, "strategy": "ddp", "epoch_time_s": 120, "images_per_sec": 1000.5, "speedup": 1, "efficiency": 1'
FOUR = (
    '"num_gpus": 4, "strategy": "ddp", "epoch_time_s": 40, "images_per_sec": 3001.5, "speedup": 3, "efficiency": 0.75'
)
TEXTS = {
    "README.md": """# Results
| GPUs | Strategy | Epoch time (s) | Throughput (img/s) | Speedup | Scaling efficiency |
|---:|---|---:|---:|---:|---:|
| 1 | DDP | 120.0 | 1,000.5 | 1.00x | 100 % |
| 4 | DDP | 40.0 | **3,001.5** | 3.00x | 75 % |
""",
    "results.csv": """num_gpus,strategy,epoch_time_s,images_per_sec,speedup,scaling_efficiency_pct
1,ddp,120.0,1000.5,1.00,100
4,ddp,40.0,3001.5,3.00,75
""",
    "results.tsv": "gpus\tstrategy\tepoch time [s]\timages/s\tspeed-up\tefficiency (%)\n"
    "1\tddp\t120.0\t1000.5\t1.00\t100\n"
    "4\tddp\t40.0\t3001.5\t3.00\t75\n",
    "table.tex": r"""\begin{table} \caption{Scaling}
\begin{tabular}{lrrrrr} \toprule
\# GPUs & Strategy & Epoch Time (s) & Throughput (images/s) & Speed-up & Efficiency \\ \midrule
1 & DDP & 120.0 & 1,000.5 & $1.00\times$ & 100\% \\
\textbf{4} & DDP & 40.0 & 3,001.5 & $3.00\times$ & 75\% \\ \bottomrule
\end{tabular} \end{table}
""",
    "page.html": """<html><table><tr><th>GPUs</th><th>Strategy</th><th>Epoch time (s)</th>
<th>img/s</th><th>Speedup</th><th>Efficiency</th></tr>
<tr><td>1</td><td rowspan=2>DDP</td><td>120.0</td><td>1000.5</td><td>1.00&times;</td><td>100%</td></tr>
<tr><td>4</td><td>40.0</td><td>3001.5</td><td>3.00&times;</td><td>75%</td></tr></table></html>
""",
    "frame.md": """Aggregated:
```
          epoch_time_s  images_per_sec  speedup  efficiency
gpus strategy
1    ddp         120.0          1000.5     1.00       100.0
4    ddp          40.0          3001.5     3.00        75.0
```
""",
    "box.txt": """+------+----------+----------------+--------+---------+------------+
| GPUs | Strategy | Epoch time (s) | img/s  | Speedup | Efficiency |
+------+----------+----------------+--------+---------+------------+
| 1    | DDP      | 120.0          | 1000.5 | 1.00x   | 100%       |
| 4    | DDP      | 40.0           | 3001.5 | 3.00x   | 75%        |
+------+----------+----------------+--------+---------+------------+
""",
    "printed.txt": """BENCHMARK RESULTS
------------------------------------------------------------------------------
GPUs | Strategy | Epoch time (s) |  img/s | Speedup | Efficiency
==============================================================================
   1 | DDP      |          120.0 | 1000.5 |   1.00x |       100%
   4 | DDP      |           40.0 | 3001.5 |   3.00x |        75%
""",
    "simple.rst": """===== ======== ============== ======= ======= ==========
GPUs  Strategy Epoch time (s) img/s   Speedup Efficiency
===== ======== ============== ======= ======= ==========
1     DDP      120.0          1000.5  1.00x   100%
4     DDP      40.0           3001.5  3.00x   75%
===== ======== ============== ======= ======= ==========
""",
    "records.json": f"[\n {{{ONE}}},\n {{{FOUR}}}\n]",
    "named.json": f'{{"model": "resnet50", "results": {{"one": {{{ONE}}}, "four": {{{FOUR}}}}}}}',
    "columns.json": """{"gpus": [1, 4], "strategy": ["ddp", "ddp"], "epoch_time_s": [120.0, 40.0],
 "images_per_sec": [1000.5, 3001.5], "speedup": [1.0, 3.0], "efficiency": [1.0, 0.75]}""",
    "rows.jsonl": f"{{{ONE}}}\n{{{FOUR}}}\n",
    "report.txt": """PERFORMANCE REPORT
==================

Configuration: DDP on 1 GPU
Epoch time: 120.0 s
Throughput: 1000.5 images/sec
Speedup: 1.00x
Parallel efficiency: 100.0%

Configuration: DDP on 4 GPUs
Epoch time: 40.0 s
Throughput: 3001.5 images/sec
Speedup: 3.00x
Parallel efficiency: 75.0%
""",
}


def read(folder, name, text):
    (folder / name).write_text(text)
    (table,) = gather([folder]).tables
    return table


@pytest.mark.parametrize("name", TEXTS)
def test_every_form_of_a_table_gives_the_same_figures(tmp_path, name):
    table = read(tmp_path, name, TEXTS[name])
    assert [row.devices for row in table.rows] == [1, 4]
    assert [row.words.get("strategy") for row in table.rows] == ["ddp", "ddp"]
    for kind, values in {
        "epoch_time_s": [120, 40],
        "samples_per_s": [1000.5, 3001.5],
        "speedup": [1, 3],
        "efficiency": [1, 0.75],
    }.items():
        assert [row.value(kind) for row in table.rows if row.figure(kind)] == pytest.approx(values), kind
    assert not table.not_understood


def test_a_spreadsheet_is_read(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["GPUs", "Tokens/s"], [1, 1000], [2, 1900]):
        book.active.append(row)
    book.save(tmp_path / "results.xlsx")
    (table,) = gather([tmp_path]).tables
    assert [(row.devices, row.value("tokens_per_s")) for row in table.rows] == [(1, 1000), (2, 1900)]


def test_headings_that_come_again_in_a_spreadsheet_begin_a_table(tmp_path):
    """The last column of the second is a power; in one table it would be a wrong speed-up."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    compute = [["app", "GPUs", "time (s)", "speedup"], ["compute", 1, 8.0, 1], ["", 2, 4.0, 2.0], ["", 4, 2.0, 4.0]]
    for row in (*compute, ["app", "GPUs", "time (s)", "idle power"], ["idle", 1, 2.0, 38.5], ["", 2, 2.0, 43.2]):
        book.active.append(row)
    book.save(tmp_path / "results.xlsx")
    tables = gather([tmp_path]).tables
    assert [[row.value("speedup") for row in table.rows] for table in tables] == [[1, 2, 4], [None, None]]


def test_rows_of_two_sheets_have_two_places(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for sheet, rate in ((book.active, 1900), (book.create_sheet("H100"), 3900)):
        for row in (["gpus", "tokens_per_s"], [1, 1000], [2, rate]):
            sheet.append(row)
    book.save(tmp_path / "results.xlsx")
    places = [table.rows[-1].place for table in gather([tmp_path]).tables]
    assert places == ["results.xlsx#Sheet:3", "results.xlsx#H100:3"]


def test_a_notebook_gives_its_tables_with_the_lines_of_its_file(tmp_path):
    cell = (
        '{"cell_type": "code", "outputs": [{"data": {"text/plain": [\n "   gpus  tokens_per_s\\n",\n'
        ' "0     1        1000.0\\n",\n "1     2        1900.0"]}}]}'
    )
    (tmp_path / "a.ipynb").write_text(f'{{"nbformat": 4, "cells": [\n{cell}\n]}}')
    (table,) = gather([tmp_path]).tables
    assert [(row.line, row.devices, row.value("tokens_per_s")) for row in table.rows] == [(4, 1, 1000), (5, 2, 1900)]


def test_a_notebook_in_one_line_gives_the_numbers_of_its_cells(tmp_path):
    table = ["| GPUs | tokens/s | speed-up |\n", "|---|---|---|\n", "| 2 | 21300 | 1 |\n", "| 8 | 83500 | 4.79 |\n"]
    cells = [{"cell_type": "markdown", "source": source} for source in (["# A title\n"], table)]
    for name, indent in (("packed.ipynb", None), ("indented.ipynb", 1)):
        (tmp_path / name).write_text(json.dumps({"nbformat": 4, "cells": cells}, indent=indent))
    found = [one for one in audit_paths([tmp_path]).findings if one.code == "speedup-not-in-table"]
    indented, packed = (location for one in found for location in sorted(locations(one, [tmp_path]), key=str))
    assert sorted(place for one in found for place in one.runs) == ["indented.ipynb:16", "packed.ipynb#cell:2"]
    assert (indented.file.name, indented.line) == ("indented.ipynb", 16)
    assert (packed.file.name, packed.line) == ("packed.ipynb", None)


def test_a_column_for_each_number_of_devices_becomes_rows(tmp_path):
    text = "| Model | 1 GPU | 4 GPUs | Speedup |\n|---|---|---|---|\n| small | 19.53s | 42.34s | 0.46x |\n"
    one, four = read(tmp_path, "README.md", text).rows
    assert (one.devices, one.value("time_s"), one.value("speedup")) == (1, 19.53, None)
    assert (four.devices, four.value("time_s"), four.value("speedup")) == (4, 42.34, 0.46)


def test_a_column_for_each_strategy_takes_its_kind_from_the_section(tmp_path):
    text = "## Speed-up over a single GPU\n| # of GPUs | DDP | ZeRO-2 |\n|---|---|---|\n| 2 | 1.9 | 1.5 |\n"
    rows = read(tmp_path, "README.md", text).rows
    assert [(r.devices, r.words["strategy"], r.value("speedup")) for r in rows] == [(2, "ddp", 1.9), (2, "zero2", 1.5)]


def test_a_table_on_its_side_has_its_configurations_in_columns(tmp_path):
    text = (
        "| Metric | 1 GPU | 4 GPUs |\n|---|---|---|\n| Epoch time | 19.5 s | 42.3 s |\n| Efficiency | 100% | 11.5% |\n"
    )
    rows = read(tmp_path, "README.md", text).rows
    assert [(r.devices, r.value("epoch_time_s"), r.value("efficiency")) for r in rows] == [
        (1, 19.5, 1),
        (4, 42.3, 0.115),
    ]


def test_projected_rows_and_targets_say_so(tmp_path):
    text = "| GPUs | tok/s |\n|---|---|\n| 4 | 152,142 |\n| 8 (proj) | 304,000 |\n"
    measured, projected = read(tmp_path, "README.md", text).rows
    assert measured.measured
    assert projected.remarks == {"projected"}
    assert projected.devices == 8
    text = "## Expected results\n| GPUs | tok/s |\n|---|---|\n| 4 | 152,142 |\n"
    assert not read(tmp_path, "README.md", text).rows[0].measured


def test_an_unknown_column_is_named_and_its_cells_are_not_guessed(tmp_path):
    text = "| GPUs | Throughput (img/s) | Zorp |\n|---|---|---|\n| 4 | about 5-6 | 17 |\n| 8 | 90 | 18 |\n"
    table = read(tmp_path, "README.md", text)
    assert table.not_understood == ["Zorp"]
    assert table.rows[0].not_understood["Throughput (img/s)"] == "about 5-6"
    assert table.rows[0].figure("samples_per_s") is None


def test_a_cell_that_is_not_understood_is_counted_once_where_notes_split_its_row(tmp_path):
    text = (
        "| Model | img/s (A100) | img/s (H100) | Memory (GB) |\n|---|---|---|---|\n| resnet | 100 | 12-15 | 10/12 |\n"
    )
    (tmp_path / "README.md").write_text(f"{text}| vgg | 90 | 210 | 11/13 |\n")
    (table,) = gather([tmp_path]).tables
    cells = [sorted(row.not_understood.values()) for row in table.rows]
    assert cells == [["10/12", "12-15"], ["11/13"], []]


def test_a_row_is_not_named_by_the_hash_of_a_file(tmp_path):
    text = (
        "| run | sha256 | tokens/s |\n|-|-|-|\n| cafe-2 | 5b063cfbe389 | 9,950 |\n| facade | 0dca01905b21 | 9,951 |\n"
    )
    assert [row.label for row in read(tmp_path, "a.md", text).rows] == ["cafe-2", "facade"]


def test_a_table_of_other_things_is_no_result(tmp_path):
    (tmp_path / "README.md").write_text("| Option | Default |\n|---|---|\n| lr | 0.1 |\n| seed | 3 |\n")
    (tmp_path / "package.json").write_text('{"name": "x", "version": 3, "timeout": 12}')
    assert not gather([tmp_path]).tables


def test_columns_of_two_configurations_become_two_rows(tmp_path):
    text = "| Model | MFU (A100) | MFU (H100) |\n|---|---|---|\n| 7B | 0.68 | 0.46 |\n"
    rows = read(tmp_path, "README.md", text).rows
    assert [(r.words["device"], r.value("mfu")) for r in rows] == [("A100", 0.68), ("H100", 0.46)]


def test_one_result_a_file_is_one_table(tmp_path):
    for n in (1, 2, 4):
        text = f'{{"world_size": {n}, "batch_size": 32, "step_time_ms": {100 / n}, "images_per_second": {320.0 * n}}}'
        (tmp_path / f"run{n}.json").write_text(text)
    (table,) = gather([tmp_path]).tables
    assert [(r.file, r.devices, r.value("step_time_s")) for r in table.rows] == [
        ("run1.json", 1, 0.1),
        ("run2.json", 2, 0.05),
        ("run4.json", 4, 0.025),
    ]


@pytest.mark.parametrize(
    ("cell", "value", "dimension"),
    [
        ("**152,142 tok/s**", 152142, "rate"),
        ("~152K tok/s", 152e3, "rate"),
        ("0.46×", 0.46, "times"),
        ("11.5%", 11.5, "percent"),
        ("1h 23m", 4980, "time"),
        ("2:34:05", 9245, "time"),
        ("7.7GB each", 7.7, "memory"),
        ("1 234.5 ms", 1234.5, "time"),
    ],
)
def test_figures_of_cells(cell, value, dimension):
    (figure,) = figures_of(plain_text(cell))
    assert figure.value == pytest.approx(value)
    assert figure.unit.dimension == dimension


@pytest.mark.parametrize("cell", ["1.4-1.5x", "N/A", "-", "TODO", "7.7 / 6.8 GB", "fast", "1.234,5"])
def test_what_is_no_single_figure_is_not_read(cell):
    assert figures_of(plain_text(cell)) == []


def test_a_spread_and_a_decimal_comma():
    (figure,) = figures_of("19.53 ± 0.63")
    assert (figure.value, figure.spread, figure.resolution) == (19.53, 0.63, pytest.approx(0.01))
    assert is_european(["12,5", "1.234,5"])
    assert not is_european(["1,234.5", "12,5"])
    assert figures_of("1.234,5", european=True)[0].value == 1234.5


@pytest.mark.parametrize(
    ("heading", "kind", "scale", "statistic", "per_device"),
    [
        ("Step time (ms)", "step_time_s", 1e-3, None, None),
        ("avg_step_time_s median", "step_time_s", 1, "median", None),
        ("step_time_p95_sec", "step_time_s", 1, "p95", None),
        ("tokens/s/GPU", "tokens_per_s", 1, None, True),
        ("Tokens/sec (global)", "tokens_per_s", 1, None, False),
        ("Peak Mem (GB)", "memory_bytes", 2**30, None, None),
        ("per_device_train_batch_size", "micro_batch", 1, None, True),
        ("% of linear", "efficiency", 0.01, None, None),
        ("TFLOP/s/GPU", "flops_per_s", 1e12, None, True),
        ("Achieved teraFLOP/s per GPU", "flops_per_s", 1e12, None, True),
        ("Percentage of theoretical peak FLOP/s", None, 1.0, None, None),
        ("Speedup vs 1 GPU", "speedup", 1, None, None),
        ("Number of zorps", None, 1, None, None),
    ],
)
def test_headings(heading, kind, scale, statistic, per_device):
    column = column_of(heading)
    assert (column.kind, column.scale, column.statistic, column.per_device) == (
        kind,
        pytest.approx(scale),
        statistic,
        per_device,
    )


def test_a_result_with_parts_by_rank_is_one_row_with_its_processes(tmp_path):
    sampled = {"interval_sec": 1.0, "gpu_activity_pct": {"min": 42.0, "mean": 98.7}, "mem_used_mb": {"mean": 10868.0}}
    result = {
        "world_size": 2,
        "nodes": 1,
        "gpus_per_node": 8,
        "mean_step_sec": 0.348,
        "images_per_sec_per_gpu": 367.8,
        "images_per_sec_global": 735.6,
        "gpu_sampling_rank0": sampled,
        "per_rank": [{"rank": k, "mean_step_sec": 0.348, "images_per_sec": 367.8} for k in range(2)],
    }
    (tmp_path / "2gpu_weak.json").write_text(json.dumps(result, indent=2))
    (table,) = gather([tmp_path]).tables
    assert [(row.devices, len(row.all_of("samples_per_s"))) for row in table.rows] == [(2, 2)]


def test_columns_of_nodes_times_devices(tmp_path):
    text = (
        "# Number of samples trained per second\n\n| model \\ num_node * num_gpus | 1*1 | 1*8 | 4*8 |\n"
        "|---|---|---|---|\n| bert | 44.7 | 137.9 | 339.0 |\n"
    )
    (tmp_path / "report.md").write_text(text)
    (table,) = gather([tmp_path]).tables
    assert [(r.devices, r.value("samples_per_s")) for r in table.rows] == [(1, 44.7), (8, 137.9), (32, 339.0)]


def test_a_graph_in_json_is_left_early(tmp_path):
    nodes = [{"name": f"op{k}", "step_time": 1.0, "attrs": {"id": k}} for k in range(15_000)]
    (tmp_path / "graph.json").write_text(json.dumps({"nodes": nodes}))
    evidence = gather([tmp_path])
    assert (evidence.tables, evidence.ignored) == ([], ["graph.json"])
    (unread,) = gather([tmp_path / "graph.json"]).unread
    assert unread.reason == "it has more than 20,000 objects and lists; save the results alone"


def test_each_cell_is_cleaned_once(tmp_path, monkeypatch):
    """A border that every cell passes, and none twice."""
    cleaned = []
    real = printed_figures.plain_text
    monkeypatch.setattr(printed_figures, "plain_text", lambda text: cleaned.append(text) or real(text))
    (tmp_path / "README.md").write_text("| GPUs | **Speedup** |\n|---|---|\n| 1 | `1.00x` |\n| 4 | _3.91x_ |\n")
    (table,) = gather([tmp_path]).tables
    assert [row.value("speedup") for row in table.rows] == [1, 3.91]
    assert sorted(text for text in cleaned if text) == sorted(["GPUs", "**Speedup**", "1", "`1.00x`", "4", "_3.91x_"])


def test_every_kind_of_a_heading_is_a_figure_or_a_word():
    assert set(PHRASES) <= {*KINDS, *NOT_FIGURES}


def test_a_table_of_two_columns_that_pandas_printed_is_read(tmp_path):
    text = "  world_size  Global throughput (tok/s)\n           1                     132746\n"
    table = read(tmp_path, "README.md", f"# Results\n\n```\n{text}           8                     799594\n```\n")
    assert [(row.devices, row.value("tokens_per_s")) for row in table.rows] == [(1, 132746), (8, 799594)]


@pytest.mark.parametrize("span", ["²", "0", "-1", "two", ""])
def test_a_span_that_is_no_number_counts_as_one(tmp_path, span):
    head = f'<table><tr><th colspan="{span}">GPUs</th><th>tokens/s</th></tr>'
    table = read(tmp_path, "page.html", f"{head}<tr><td>1</td><td>100</td></tr><tr><td>2</td><td>190</td></tr></table>")
    assert [(row.devices, row.value("tokens_per_s")) for row in table.rows] == [(1, 100), (2, 190)]


INDEXED = """               tokens/s  speed-up
strategy GPUs
DDP      1        10000      1.00
         2        19500      1.95
FSDP     2        19000      1.90
         4        36000      3.60
"""


def test_an_index_that_pandas_prints_once_holds_below(tmp_path):
    (tmp_path / "t.txt").write_text(INDEXED)
    (table,) = gather([tmp_path]).tables
    assert [row.label.split()[0] for row in table.rows] == ["DDP", "DDP", "FSDP", "FSDP"]


def test_a_row_without_a_name_is_of_no_group(tmp_path):
    """Without names of an index on a line of their own, nobody knows what an empty cell means: a total, perhaps."""
    (tmp_path / "t.txt").write_text(
        "name  GPUs  tokens/s\nDDP      1     10000\nDDP      2     19500\n         4     36000\n"
    )
    assert [row.label for row in gather([tmp_path]).tables[0].rows] == ["DDP", "DDP"]
