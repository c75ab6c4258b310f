"""Traces of a campaign: made beside the timed runs, shown in the report, and repeated when they must be, only then."""

import json
from collections import Counter

import pytest
from workflow_texts import TINY

REPORT = "results/traced/report.html"
TRACED = TINY + "trace: {cells: [ddp-n1x2], steps: 2, tool: torch.profiler}\n"
# Findings of traces are findings of the campaign, with which cells and charts are shown.
TOLD = Counter(
    findings=1, analyse=1, trace_report=1, waterfall=1, tables=1, charts=1, loss_charts=1, trace_charts=1, report=1
)


@pytest.fixture(scope="module")
def traced(built):
    """The tiny campaign with one traced cell, run to its report."""
    built.campaign("traced", TRACED)
    built.build(REPORT)
    return built


def test_the_report_tells_of_the_trace(traced):
    folder = traced.root / "results/traced"
    profile = json.loads((folder / "traces/ddp-n1x2/profile_summary.json").read_text())
    assert (profile["status"], profile["unknown"], profile["steps"]) == ("ok", {}, 2)
    entry = json.loads((folder / "traces.json").read_text())["traces"][0]
    assert entry["overhead"]["n"] == 1
    assert entry["exposed_ms"] > 0
    page = (folder / "report.html").read_text()
    assert "Inside a step" in page
    assert "exposed communication" in page
    for chart in ("timeline", "communication", "steps", "kernels"):
        assert (folder / f"charts/trace-{chart}.png").stat().st_size > 5000
    assert str(traced.root) not in "".join(p.read_text() for p in folder.rglob("*.json"))


def test_a_campaign_without_traces_has_no_word_of_them(built):
    assert "Inside a step" not in (built.root / "results/tiny/report.html").read_text()


def test_nothing_is_traced_twice(traced):
    assert traced.planned(REPORT) == Counter()


def test_another_number_of_traced_steps_re_runs_no_timed_run(traced, edit):
    edit("config/campaigns/traced.yaml", TRACED.replace("steps: 2,", "steps: 3,"))
    assert traced.planned(REPORT) == TOLD + Counter(trace_capture=1, trace_summary=1)


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("measure/trace/breakdown.py", TOLD + Counter(trace_summary=1)),
        ("measure/trace/capture/rank_program.py", TOLD + Counter(trace_capture=1, trace_summary=1)),
        ("conclude/report/charts/traces.py", Counter(trace_charts=1, report=1)),
        ("cli/trace.py", Counter()),
    ],
)
def test_editing_code_re_runs_what_uses_it(traced, edit, file, expected):
    edit(f"src/scaleproof/{file}", append="\nEDITED = True\n")
    assert traced.planned(REPORT) == expected


def test_a_lost_chart_is_drawn_alone(traced):
    path = traced.root / "results/traced/charts/trace-steps.svg"
    content = path.read_bytes()
    path.unlink()
    assert traced.planned("results/traced/charts/trace-steps.svg") == Counter(trace_charts=1)
    path.write_bytes(content)


def test_a_cell_that_is_not_there_is_named(traced):
    traced.campaign("typing", TINY + "trace: {cells: [ddp-n1x3]}\n")
    done = traced.command("scaleproof", "campaign", "validate", "config/campaigns/typing.yaml")
    assert done.returncode == 2
    assert 'line 15: trace.cells: there is no cell "ddp-n1x3". Cells: ddp-n1x1, ddp' in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broken_trace_ends_with_its_message_and_exit_code_2(traced, tmp_path):
    (tmp_path / "a.sqlite").write_bytes(b"")
    done = traced.command("scaleproof", "trace", "summary", str(tmp_path / "a.sqlite"))
    assert done.returncode == 2
    assert done.stderr.startswith(f"scaleproof: {tmp_path}/a.sqlite: the file is empty")
