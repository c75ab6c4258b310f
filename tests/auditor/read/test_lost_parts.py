"""Files of which a part is lost, given twice or not understood: that is said, and the rest is read."""

import json

import pytest
from command_line import scaleproof

from scaleproof.auditor.audit import NoResult, audit_paths
from scaleproof.auditor.read.discover import gather
from scaleproof.auditor.read.headings import column_of

LOG = "".join(f"iter {n}: loss {4 - n / 1000:.4f}, time 893.{n % 100:02d}ms, mfu 16.60%\n" for n in range(2000))
FIRST_KIBIBYTES = len("".join(LOG.splitlines(keepends=True)[:1600]))  # more than tell what a file is
MODEL_HEADINGS = "| model | tokens/s | mem (GB) | tokens/s | mem (GB) |"
RATES = {1: 1000.0, 2: 1900.0}
TITLE = "<tr><td colspan=2>Table 2: scaling</tr>"


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ("\0" * 4096, "bytes of value 0 in line 1601: a part of it was lost; the rest was read"),
        (
            "<<<<<<< HEAD\n=======\n>>>>>>> theirs\n",
            "a merge conflict of git begins in line 1601; both of its versions were read",
        ),
        ("<<<<<<< a banner\n", None),
        ("", None),
    ],
)
def test_damage_far_behind_the_beginning_is_said(tmp_path, part, reason):
    (tmp_path / "run.log").write_text(LOG[:FIRST_KIBIBYTES] + part + LOG[FIRST_KIBIBYTES:])
    evidence = gather([tmp_path / "run.log"])
    assert len(evidence.runs[0].logged_steps) == 2000
    assert [unread.reason for unread in evidence.unread] == ([reason] if reason else [])


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("m.json", '{"gpus": 2, "gpus": 4, "tokens_per_sec": 4000}', "gpus given twice; the last was read"),
        ("m.json", '[{"gpus": 2, "tokens_per_sec": 1900}, {"gpus": 4, "tokens_per_sec": 4000}]', None),
        (
            "t.csv",
            "gpus,tokens/s,tokens/s\n1,1000,990\n2,1900,1880\n",
            "columns of one name: tokens/s; give each a name of its own",
        ),
        ("t.csv", "gpus,tokens/s,note,note\n1,1000,a,b\n2,1900,c,d\n", None),
    ],
)
def test_what_is_given_twice_is_said(tmp_path, name, text, reason):
    (tmp_path / name).write_text(text)
    evidence = gather([tmp_path / name])
    assert evidence.tables
    assert [unread.reason for unread in evidence.unread] == ([reason] if reason else [])


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (
            "t.md",
            ["| | 1 GPU | | 2 GPUs | |", "|---|---|---|---|---|", MODEL_HEADINGS, "| gpt2 | 1000 | 10 | 1900 | 9 |"],
        ),
        ("t.csv", [",tokens/s,tokens/s", ",mean,std", "gpus,,", "1,1000,5", "2,1900,9"]),
        (
            "t.tex",
            [
                r"\begin{tabular}{lcc}",
                r"& \multicolumn{2}{c}{DDP}\\",
                r"GPUs & tokens/s & mem\\",
                r"1 & 1000 & 9\\",
                r"2 & 1900 & 9\end{tabular}",
            ],
        ),
        (
            "t.tex",
            [
                r"\begin{tabular}{lc}\multicolumn{2}{c}{A}\\",
                r"GPUs & tokens/s\\",
                r"1 & 1000\\",
                r"2 & 1900\end{tabular}",
            ],
        ),
        ("t.html", [f"<table>{TITLE}<tr><td>GPUs<td>tokens/s</tr>", "<tr><td>1<td>1000<tr><td>2<td>1900</table>"]),
        (
            "t.html",
            [
                "<table><tr><th rowspan=2>GPUs<th colspan=2>DDP<th rowspan=2>Note</tr><tr><th>tokens/s<th>ms</tr>",
                "<tr><th colspan=4>Runs of May</tr><tr><td>1<td>1000<td>9<td>a</tr><tr><td>2<td>1900<td>9<td>b</table>",
            ],
        ),
    ],
)
def test_headings_in_several_lines(tmp_path, name, lines):
    (tmp_path / name).write_text("\n".join(lines))
    (table,) = gather([tmp_path / name]).tables
    assert {row.devices: row.value("tokens_per_s") for row in table.rows} == RATES


def test_a_row_of_words_below_an_empty_heading_is_no_heading(tmp_path):
    (tmp_path / "t.md").write_text("| | tokens/s | |\n|---|---|---|\n| base | OOM | a |\n| other | 1000 | b |\n")
    (table,) = gather([tmp_path / "t.md"]).tables
    assert [row.label for row in table.rows] == ["base, a", "other, b"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Loading\nTraceback:\nCUDA out of memory\nhint\n", "no step and no table; its last error: CUDA out of memory"),
        ("KeyError: 'a'\n  ...\nRuntimeError: NCCL\n", "no step and no table; its last error: RuntimeError: NCCL"),
        ("Loading, without a word on it\n", "no benchmark result among 1 file"),
    ],
)
def test_the_error_of_a_log_without_steps_is_said(tmp_path, text, reason):
    (tmp_path / "run.log").write_text(text)
    with pytest.raises(NoResult, match=f"run.log: {reason}"):
        audit_paths([tmp_path / "run.log"])


def test_a_claim_about_a_run_that_is_not_here_names_those_that_are(tmp_path):
    (tmp_path / "exp1.log").write_text(LOG)
    claim = "{kind: speedup, value: 2, of: exp2, over: exp1}"
    (tmp_path / "c.yaml").write_text(f"scaleproof_claims: '1.0'\nclaims:\n- {claim}\n")
    evidence = [finding.evidence for finding in audit_paths([tmp_path]).findings]
    assert "published, but no file here: exp2; runs here: exp1.log" in evidence


def test_a_page_is_written_to_a_file(tmp_path):
    (tmp_path / "run.log").write_text(LOG)
    done = scaleproof("audit", "run.log", "--html", "-", cwd=tmp_path)
    assert done.returncode == 2
    assert '"-" is standard output; give the name of a file' in done.stderr


@pytest.mark.parametrize(
    ("name", "text", "need"),
    [
        ("run.log", "num decayed parameter tensors: 50\n", 'such as "step: 7 tokens/s: 4567"'),
        ("t.csv", "gpus  tokens/s\n1  1000\n2  1900\n", "and commas, semicolons or tabs between its cells"),
        ("t.md", "| GPUs | tokens/s |\n|—|—|\n| 1 | 1000 |\n", "and a line |---|---| below its headings"),
        ("t.tex", "\\begin{tabular}{rr}\nGPUs & tokens/s\n1 & 1000\n\\end{tabular}\n", r"its rows end in \\"),
        ("m.json", '{"ws": 8, "thrpt": 4567}', 'such as {"gpus": 8, "tokens_per_sec": 4567}'),
        ("t.txt", "GPUs tokens/s\n1 1000\n2 1900\n", "tabs or two spaces between its columns"),
        (
            "t.md",
            "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n",
            "among 1 file; not read: t.md:1: a table whose headings",
        ),
        ("k.csv", "Time (%),Total Time (ns),Instances,Name\n33.2,9,4,nccl\n", "for scaleproof trace summary"),
        ("config.yaml", "batch_size: 12\n", "settings alone are no result: give what was printed, or JSON"),
        ("settings.jsonl", '{"lr": 1}\n{"lr": 2}\n', "JSON needs an object with a number above 0 under a key such as"),
        ("m.json", 'Done.\n{"gpus": 2}', 'm.json has text before its object or list: "Done."'),
        ("train.py", "print('step 1 loss 2')\n", "a program is no result; give what it printed"),
    ],
)
def test_what_a_file_without_a_result_needs(tmp_path, name, text, need):
    (tmp_path / name).write_text(text)
    with pytest.raises(NoResult) as raised:
        audit_paths([tmp_path / name])
    assert need in str(raised.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "t.md",
            "| **GPUs 🖥️** | **🚀 Tokens/s** | speed-up |\n|---|---|---|\n| 1 | 1000 | 1.00 |\n| 2 | 1900 | 1.90 |\n",
        ),
        (
            "t.html",
            "<table><tr><th>GPUs<th>tokens/s<th>speed&#8209;up<tr><td>1<td>1000<td>1.00<tr><td>2<td>1900<td>1.90</table>",
        ),
    ],
)
def test_ornaments_of_headings_are_passed_over(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    (table,) = gather([tmp_path / name]).tables
    assert {row.devices: row.value("tokens_per_s") for row in table.rows} == RATES
    assert [row.value("speedup") for row in table.rows] == [1.0, 1.9]


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("m.jsonl", '{"step": 1, "loss": 2},\n{"step": 2, "loss": 1},\n', "JSON lines have no commas between them"),
        (
            "c.yaml",
            "scaleproof_claims: '1.0'\nclaims:\n- {kind: speedup, value: 7,6, of: a, over: b}\n",
            "Numbers have a decimal point: 7.6",
        ),
    ],
)
def test_why_a_file_is_damaged(tmp_path, name, text, reason):
    (tmp_path / name).write_text(text)
    (unread,) = gather([tmp_path / name]).unread
    assert reason in unread.reason


@pytest.mark.parametrize(
    ("line", "kind", "first"),
    [
        ("epoch 1 step {n} loss={loss} step_time=0.1s tokens/s=12000", "tokens_per_s", 12000),
        ("epoch=0/global_step={n}, RunningAvgSamplesPerSec=40.1, CurrSamplesPerSec=41.5", "samples_per_s", 41.5),
    ],
)
def test_a_log_of_pairs_is_no_report(tmp_path, line, kind, first):
    (tmp_path / "run.log").write_text("".join(line.format(n=n, loss=3 - n / 100) + "\n" for n in range(40)))
    evidence = gather([tmp_path / "run.log"])
    assert not evidence.tables
    assert evidence.runs[0].logged_steps.values(kind)[0] == first


@pytest.mark.parametrize("steps", ["", "iters=100 "])
def test_blocks_of_many_configurations_are_a_report(tmp_path, steps):
    lines = [f"gpus={n} {steps}step_time=0.1s tokens/s={1000 * n}\n" for n in range(1, 20)]
    (tmp_path / "r.txt").write_text("".join(lines))
    (table,) = gather([tmp_path / "r.txt"]).tables
    assert [row.devices for row in table.rows] == [*range(1, 20)]


@pytest.mark.parametrize(
    ("heading", "unit", "scale"),
    [
        ("step time [ms]", "time", 1e-3),
        ("memory [GB]", "memory", 2**30),
        ("time (ms) [1]", "time", 1e-3),
        ("loss [a]", None, 1),
    ],
)
def test_units_in_square_brackets_are_no_footnotes(heading, unit, scale):
    column = column_of(heading)
    assert (column.unit, column.scale) == (unit, scale)


def test_units_in_square_brackets_in_a_log(tmp_path):
    line = "step: {n}, loss: 2.1, step_time [ms]: 100.5, throughput [tok/s]: 12000"
    (tmp_path / "run.log").write_text("".join(line.format(n=n) + "\n" for n in range(40)))
    steps = gather([tmp_path / "run.log"]).runs[0].logged_steps
    assert (steps.values("seconds")[0], steps.values("tokens_per_s")[0]) == (0.1005, 12000)


HEADINGS_OF_TWO_LINES = r"""\begin{tabular}{lrr}
Number & Images & Time per \\
of GPUs & per second & step (ms) \\
1 & 100 & 320 \\
8 & 700 & 365 \\
\end{tabular}
"""


OURS_AND_THEIRS = r"""\begin{tabular}{lrrrr}
Model & \multicolumn{2}{c}{Throughput (img/s)} & \multicolumn{2}{c}{Memory (GB)} \\
 & ours & theirs & ours & theirs \\
ResNet-50 & 1000 & 800 & 10 & 12 \\
\end{tabular}
"""


def test_headings_below_one_of_several_columns(tmp_path):
    (tmp_path / "t.tex").write_text(OURS_AND_THEIRS)
    (table,) = gather([tmp_path / "t.tex"]).tables
    assert [figure.value for row in table.rows for figure in row.all_of("samples_per_s")] == [1000, 800]


def test_headings_of_two_lines_in_latex(tmp_path):
    (tmp_path / "t.tex").write_text(HEADINGS_OF_TWO_LINES)
    (table,) = gather([tmp_path / "t.tex"]).tables
    assert [(row.devices, row.value("samples_per_s"), row.value("step_time_s")) for row in table.rows] == [
        (1, 100, 0.32),
        (8, 700, 0.365),
    ]


TWO_ROWS_IN_A_LINE = r"""\begin{tabular}{lr}
GPUs & images/s \\
1 & 100 \\ 8 & 790 \\ 16 & 1500 & 3 runs \\
\end{tabular}
"""


@pytest.mark.parametrize(
    ("name", "text", "rates"),
    [
        ("t.md", "| GPUs | images/s |\n|---|---|\n| 1 | 100 | base\n| 8 | 790 | good\n", [100, 790]),
        ("t.md", "| GPUs | images/s |\n|---|---|\n| 1 | 1,100 | 9 |\n| 8 | 790 |\n", [790]),
        (
            "t.md",
            "| GPUs | images/s |\n|---|---|\n| 1 | 100 |\n| 8 | 790 | [^1]\n| 9 | 795 | <!-- 2 -->\n",
            [100, 790, 795],
        ),
        ("t.md", "| GPUs | images/s |\n|---|---|\n| **A100** |\n| 1 | 100 | 5 |\n| 8 | 790 | 6 |\n", [100, 790]),
        (
            "t.md",
            "| GPUs | batch | images/s |\n|---|---|---|\n| 1 | 8 | 100 |\n| 2 | 190 |\n| 8 | 64 | 790 |\n",
            [100, 790],
        ),
        ("t.md", "| GPUs | images/s | speedup |\n|---|---|---|\n| 1 | 100 |\n| 8 | 790 | 7.9 |\n", [100, 790]),
        ("t.md", "| GPUs | images/s | note |\n|---|---|---|\n| 1 | 100 | base |\n| 8 | 790 |\n", [100, 790]),
        (
            "t.txt",
            "| GPUs | batch | images/s |\n|---|---|---|\n| 2 | 190 |\n| 8 | 64 | 790 |\n| 9 | 8 | 800 |\n",
            [790, 800],
        ),
        ("t.org", "| GPUs | images/s |\n|------+----------|\n| 1 | 100 |\n| 8 | 790 |\n", [100, 790]),
        ("t.txt", "Host: n7  2 GPUs  rank: 0\nms     images/s\n9.5     100.5\n8.5     790.5\n", [100.5, 790.5]),
        ("t.tex", TWO_ROWS_IN_A_LINE, [100, 790]),
        ("t.txt", "Link      size MB   images/s\nn0 <- n1  100       12.3\nn1 <- n2  200       11.3\n", [12.3, 11.3]),
        ("t.txt", "GPUs   images/s\n1      100.5  <- baseline\n8      790.5  <- knee\n", [100.5, 790.5]),
        (
            "t.txt",
            "".join(f"== Results ==\nthreads: {n}\nthroughput: {n} img/s\nlatency: 2 ms\n\n" for n in range(1, 12)),
            [*range(1, 12)],
        ),
    ],
)
def test_rows_with_words_beside_the_figures(tmp_path, name, text, rates):
    (tmp_path / name).write_text(text)
    (table,) = gather([tmp_path / name]).tables
    assert [figure.value for row in table.rows for figure in row.figures if figure.kind.endswith("per_s")] == rates


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ("Training ResNet-50 on 8 GPUs\nThroughput: 1234 img/s\n", 8),
        ("The node has 8 GPUs.\nThroughput: 1234 img/s\n", None),
        ("Throughput: 1234 img/s\non 8 GPUs.\n", 8),
        ("Throughput: 1234 img/s\nDevices: 8 GPUs\n", None),
    ],
)
def test_a_sentence_over_two_lines_is_one(tmp_path, text, devices):
    (tmp_path / "a.md").write_text(text)
    (figure,) = gather([tmp_path / "a.md"]).stated_figures
    assert figure.devices == devices


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("RuntimeWarning: Error: retried\n" + "a line\n" * 200_000 + "KeyError: 'lr'\n", "KeyError: 'lr'"),
        ("validation error: 0.12\nNo Error\nMeanAbsoluteError: 0.045\n", None),
    ],
)
def test_the_last_error_is_that_at_the_end(tmp_path, text, error):
    (tmp_path / "a.log").write_text(text)
    with pytest.raises(NoResult) as caught:
        audit_paths([tmp_path / "a.log"])
    assert ("its last error: " in str(caught.value)) == bool(error)
    assert not error or str(caught.value).endswith(error)


@pytest.mark.parametrize(("devices", "is_contradicted"), [("8", True), ("4", False)])
def test_a_world_size_against_that_of_the_log(tmp_path, devices, is_contradicted):
    (tmp_path / "run.log").write_text("$ torchrun --nproc_per_node=4 train.py\n" + LOG)
    (run,) = gather([tmp_path / "run.log"]).runs
    assert run.world_size == 4
    answer = scaleproof("audit", "run.log", "--world-size", devices, cwd=tmp_path).stdout
    reason = "it says that world_size is 4; 8, as given, was not used"
    assert (reason in " ".join(answer.split())) == is_contradicted


def test_a_world_size_for_the_runs_that_lack_it(tmp_path):
    (tmp_path / "a.log").write_text("$ torchrun --nproc_per_node=4 train.py\n" + LOG)
    (tmp_path / "b.log").write_text(LOG.replace("893", "894"))
    evidence = gather([tmp_path], {"": {"world_size": 8}, "b": {"world_size": 2}})
    assert [run.world_size for run in evidence.runs] == [4, 2]
    assert not evidence.unread


def test_an_array_of_steps_is_one_run(tmp_path):
    steps = [{"step": n, "loss": 4 - n / 100, "tokens_per_sec": 9000 + n} for n in range(40)]
    (tmp_path / "m.json").write_text(json.dumps(steps, indent=1))
    evidence = gather([tmp_path / "m.json"])
    (run,) = evidence.runs
    assert len(run.logged_steps) == 40
    assert not evidence.tables
