"""What stands on standard input is told by its contents, as a file's is; a log may begin with a bracket."""

import io

import pytest
from command_line import scaleproof

from scaleproof.auditor.audit import audit_paths
from scaleproof.auditor.read.discover import gather
from scaleproof.auditor.read.json_text import begins_like_json
from scaleproof.auditor.read.logs import KeyValues, read_log

NANOGPT = "".join(f"iter {k * 10}: loss {4 - k / 10:.4f}, time 500.00ms, mfu 30.00%\n" for k in range(6))
PLAIN = "".join(f"step: {k} loss: 3.{k} tokens/s: {128000 + k}\n" for k in range(1, 7))
FORMS = {
    ".log": NANOGPT,
    "ranks.log": "".join(f"[rank0] {line}\n" for line in PLAIN.splitlines()),
    "stamps.log": "".join(f"[2026-11-23 07:00:01] [INFO] {line}\n" for line in PLAIN.splitlines()),
    "dictionaries.log": "".join(f"{{'step': {k}, 'loss': 3.{k}, 'tokens/s': 128000}} saved\n" for k in range(6)),
    "epochs.csv": "epoch,train_time,loss\n1,10.1,3.0\n2,10.2,2.5\n3,10.1,2.2\n",
    "results.csv": "strategy,gpus,tokens_per_sec\nddp,1,100\nddp,2,190\n",
    "README.md": "# Results\n\nWe reach 3.8x on 4 GPUs.\n\n| GPUs | tok/s |\n|---|---|\n| 1 | 100 |\n| 4 | 380 |\n",
    "quoted.md": f"# A log\n\n```\n{NANOGPT}```\n",
    "one.json": '{"runs": [{"gpus": 1, "tokens_per_sec": 100}, {"gpus": 2, "tokens_per_sec": 190}]}',
    "lines.jsonl": '{"gpus": 1, "tokens_per_sec": 100}\n{"gpus": 2, "tokens_per_sec": 190}\n',
    "table.tex": "\\begin{tabular}{lr}\nGPUs & tok/s \\\\\n1 & 100 \\\\\n2 & 190 \\\\\n\\end{tabular}\n",
    "part.html": "<div><table><tr><th>GPUs</th><th>tok/s</th></tr><tr><td>1</td><td>100</td></tr></table></div>",
    "page.html": "<!doctype html><table><tr><th>GPUs</th><th>tok/s</th></tr><tr><td>1</td><td>100</td></tr></table>",
    "report.txt": "".join(
        f"{'=' * 40}\nConfiguration: run_{n} GPU\n{'=' * 40}\nMean epoch time: {s} s\nThroughput: {r} samples/sec\n\n"
        for n, s, r in ((1, 19.53, 6143), (2, 10.1, 11880))
    ),
    "mllog.txt": "".join(
        f':::MLLOG {{"key": "run_{k}", "value": null, "time_ms": {t}, "metadata": {{}}}}\n'
        for k, t in (("start", 1000), ("stop", 61000))
    ),
}


def told(path):
    """What was read and found, without the name of the file."""
    evidence = gather([path])
    runs = [(run.format, len(run.logged_steps), len(run.timed_spans)) for run in evidence.runs]
    tables = [(t.form, [(row.line, row.part, row.devices) for row in t.rows]) for t in evidence.tables]
    return runs, tables, [stated.printed for stated in evidence.stated_figures], len(evidence.unread)


@pytest.mark.parametrize("name", FORMS)
def test_a_file_without_a_name_is_read_as_the_file_with_one(tmp_path, name):
    file, nameless = tmp_path / f"x{name}", tmp_path / "standard-input"
    for path in (file, nameless):
        path.write_text(FORMS[name])
    assert told(nameless) == told(file)
    assert told(file)[0] or told(file)[1]


@pytest.mark.parametrize("name", [".log", "ranks.log", "results.csv", "one.json", "README.md"])
def test_standard_input_is_audited_whatever_it_is(monkeypatch, tmp_path, name):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(FORMS[name].encode())))
    done = scaleproof("audit", "-", cwd=tmp_path)
    assert (done.returncode, done.stdout[:7]) == (0, "found: ")


def test_a_sentence_on_standard_input_is_read(tmp_path):
    (tmp_path / "standard-input").write_text("Training is 3.8x faster on 4 GPUs.\n")
    assert [s.printed for s in gather([tmp_path / "standard-input"]).stated_figures] == ["3.8x faster"]


@pytest.mark.parametrize("name", ["ranks.log", "stamps.log", "dictionaries.log"])
def test_a_log_that_begins_with_a_bracket_is_no_damaged_json(tmp_path, name):
    path = tmp_path / "train.log"
    path.write_text(FORMS[name])
    run = gather([path]).runs[0]
    assert run.logged_steps[1].tokens_per_s in (128000, 128002)
    assert audit_paths([path]).not_read == {}


JSON = [
    '{"a": 1}',
    '{"a": 1}\n{"a": 2}\n',
    "[1, 2, 3",
    '[{"a": 1}, {"a"',
    '{"x": {"y": "',
    '{"a": 1, "b": }',
    "[]",
    "[[1, 2], [3",
]
TEXT = [
    "[rank0] step 1",
    "[2026-11-23 07:00:01] x",
    "[12:00:01] x",
    "[0] step 1",
    "[1/100] step",
    "[1, 2] x",
    '["rank0"] x',
    "[0.001] x",
    "{'loss': 2.1}",
    "{rank 0} x",
    '{"step": 1} x',
    '{"step": 1}\nINFO x',
]


@pytest.mark.parametrize("text", JSON)
def test_json_whole_or_cut_off_begins_like_json(text):
    assert begins_like_json(text)


@pytest.mark.parametrize("text", TEXT)
def test_text_in_brackets_does_not(text):
    assert not begins_like_json(text)


def test_damaged_json_is_still_named(tmp_path):
    (tmp_path / "x.txt").write_text('{"runs": [{"gpus": 1, "tokens_per_sec": 100}, {"gpus": }]}')
    assert "no JSON" in audit_paths([tmp_path / "x.txt"]).findings[0].evidence


SEPARATED = [
    "step: {} loss: 10.9 tokens/s: 128000",
    "step: {} loss: 10.9 tokens/s : 128000",
    "step={} loss=10.9 tokens/s=128000",
    "step={},loss=10.9,tokens_per_sec=128,000",
    "step {} loss 10.9 tokens/s 128000",
    "step:{} loss:10.9 tok/s:128000",
    "step\t{}\tloss\t10.9\ttokens/s\t128000",
    "iter: {}, tokens per second: 128000, loss: 10.9",
    "step: {} loss: 10.9 tok/s: 128k",
    "Step {}/100 - loss: 10.9 - throughput: 128000 tokens/s",
    "step {} loss 10.9 (tokens/s 128000)",
]


@pytest.mark.parametrize("line", SEPARATED)
def test_a_rate_is_read_behind_any_separator(line):
    lines = [(k, line.format(k)) for k in range(1, 6)]
    assert KeyValues.reads("\n".join(text for _, text in lines))
    step = read_log("x", KeyValues, lines)[0].logged_steps[1]
    assert (step.step, step.loss, step.tokens_per_s) == (2, 10.9, 128000)


def test_a_rate_of_one_device_in_a_log_says_so():
    lines = [(k, f"step: {k} loss: 3.0 tokens/s/gpu: 1000") for k in range(5)]
    assert read_log("x", KeyValues, lines)[0].rate_scope == "rank"


ROWS = ("| GPUs | tok/s |", "|------|-------|", "| 1 | 100 |", "| 2 | 190 |")
QUOTED = {
    "a quote": "".join(f"> {row}\n" for row in ROWS),
    "a quote without spaces": "".join(f">{row}\n" for row in ROWS),
    "a quote in a quote": "".join(f"> > {row}\n" for row in ROWS),
    "three quotes": "".join(f">>> {row}\n" for row in ROWS),
    "a list": "- results:\n\n" + "".join(f"  {row}\n" for row in ROWS),
    "an item": f"- {ROWS[0]}\n" + "".join(f"  {row}\n" for row in ROWS[1:]),
    "a quote in an item": f"1. > {ROWS[0]}\n" + "".join(f"   > {row}\n" for row in ROWS[1:]),
    "an item in a quote": f"> * {ROWS[0]}\n" + "".join(f">   {row}\n" for row in ROWS[1:]),
}


@pytest.mark.parametrize("form", QUOTED)
def test_a_table_in_a_quote_or_a_list_is_read(tmp_path, form):
    (tmp_path / "README.md").write_text(f"# Results\n\n{QUOTED[form]}\nThat is all.\n")
    tables = gather([tmp_path]).tables
    assert [[(row.devices, row.value("tokens_per_s")) for row in table.rows] for table in tables] == [
        [(1, 100), (2, 190)]
    ]


def test_a_log_in_a_quoted_fence_is_read(tmp_path):
    text = "".join(f"> {line}\n" for line in f"```\n{NANOGPT}```".splitlines())
    (tmp_path / "README.md").write_text(text)
    assert [len(run.logged_steps) for run in gather([tmp_path]).runs] == [6]


@pytest.mark.parametrize("broken", ['{"gpus": 2, "tokens_pe', "{'gpus': 2, 'tokens_per_sec': 190}"])
@pytest.mark.parametrize("place", [0, 1, 3])
def test_of_json_lines_a_broken_one_is_named_and_the_others_are_read(tmp_path, broken, place):
    lines = [f'{{"gpus": {n}, "tokens_per_sec": {100 * n - 5}}}' for n in (1, 4, 8)]
    lines.insert(place, broken)
    (tmp_path / "runs.jsonl").write_text("\n".join(lines) + "\n")
    evidence = gather([tmp_path])
    assert [row.devices for table in evidence.tables for row in table.rows] == [1, 4, 8]
    assert [unread.name for unread in evidence.unread] == [f"runs.jsonl:{place + 1}"]
