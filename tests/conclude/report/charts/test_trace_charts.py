"""Charts and words of traces: from files alone, the same bytes each time, and no 0 for what is unknown."""

from pathlib import Path

import pytest
from conclude.report.charts.test_charts import faint
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from synthetic_traces import trace

from scaleproof.conclude.analysis.campaign_findings import campaign_findings
from scaleproof.conclude.analysis.traces import traces_report
from scaleproof.conclude.report.chart_style import WIDTH, chart_style
from scaleproof.conclude.report.charts import traces
from scaleproof.conclude.report.charts.traces import CHARTS, draw_trace
from scaleproof.conclude.report.page_tables import trace_row
from scaleproof.conclude.report.read_results import read_traces
from scaleproof.ground.facts import kernel_classes
from scaleproof.ground.records.profile_schema import PROFILE, Profile, read_profile
from scaleproof.measure.trace.breakdown import PHASES, StepBreakdown
from scaleproof.measure.trace.timeline import timeline_of_median_step


def test_every_class_of_kernels_and_every_phase_has_its_colour():
    """Any other is drawn as communication."""
    assert {*kernel_classes.CLASSES, kernel_classes.UNCLASSIFIED, "waiting"} == set(traces.CLASSES)
    assert set(PHASES) == set(traces.PHASES)


@pytest.fixture
def traced(tmp_path) -> Path:
    """traces.json and timelines of three cells: a sound trace, one that is not understood, one that failed."""
    profiles = {}
    for slug, made in {
        "ddp-n1x2": trace(late={1: 20}),
        "fsdp-n1x2": trace(reduce="mystery"),
        "zero3-n1x2": None,
    }.items():
        folder = tmp_path / "traces" / slug
        folder.mkdir(parents=True)
        known = {"generated_at_utc": "now", "run_dir": "here", "cell": slug, "strategy": slug.split("-")[0]}
        summary = StepBreakdown(made or trace(ranks=1))
        spans = timeline_of_median_step(summary) if made else timeline_of_median_step(summary).iloc[:0]
        spans.to_csv(folder / "timeline.csv", index=False)
        fields = (
            summary.profile_fields() if made else {"status": "failed", "reason": "timeout: too slow", "tool": "nsys"}
        )
        profiles[folder / PROFILE] = Profile(**known, **fields)
        (folder / PROFILE).write_text(profiles[folder / PROFILE].model_dump_json())
    (tmp_path / "traces.json").write_text(traces_report("synthetic", profiles, []).model_dump_json())
    return tmp_path


def figure(name: str, folder: Path) -> Figure:
    with chart_style():
        drawn = Figure(figsize=(WIDTH, 4))
        FigureCanvasAgg(drawn)
        CHARTS[name](drawn.subplots(), *read_traces(folder))
        drawn.draw_without_rendering()
    return drawn


@pytest.mark.parametrize("name", ["trace-communication", "trace-steps"])
def test_a_first_cell_without_figures_takes_no_legend_away(name, traced):
    report, spans = read_traces(traced)
    labels = []
    for order in (report.traces, [report.traces[1], report.traces[0], report.traces[2]]):
        with chart_style():
            axes = Figure().subplots()
            CHARTS[name](axes, report.model_copy(update={"traces": order}), spans)
        labels.append(axes.get_legend_handles_labels()[1])
    assert labels[0] == labels[1] != []


@pytest.mark.parametrize("name", CHARTS)
def test_units_are_written_and_the_bytes_are_the_same(name, traced):
    axes = figure(name, traced).axes[0]
    assert "ms, under the profiler" in axes.get_xlabel()
    first, second = traced / "a", traced / "b"
    for folder in (first, second):
        draw_trace(name, *read_traces(traced), folder)
    assert (first / f"{name}.svg").read_bytes() == (second / f"{name}.svg").read_bytes()


@pytest.mark.parametrize("name", ["trace-communication", "trace-steps"])
def test_what_is_unknown_is_written_and_not_drawn(name, traced):
    axes = figure(name, traced).axes[0]
    rows = [t.get_text() for t in axes.get_yticklabels()]
    assert rows == ["ddp-n1x2", "fsdp-n1x2"]
    assert ["unknown" in t.get_text() for t in axes.texts] == [True]
    assert axes.texts[0].get_position()[1] == 1, "in the row of the trace that is not understood"
    drawn = [p for p in axes.patches if p.get_width() > 0]
    assert all(p.get_y() < 0.5 for p in drawn)


@pytest.mark.parametrize("name", CHARTS)
def test_every_part_is_seen_on_both_pages(name, traced):
    assert faint(figure(name, traced).axes[0]) == []


def test_total_and_exposed_are_as_long_as_they_are(traced):
    bars = [p.get_width() for p in figure("trace-communication", traced).axes[0].patches]
    # Of 200 us: 90 (rank 0) and 70 (rank 1, late) communicate, 40 of them exposed for rank 0 and 30 for rank 1.
    assert sorted(round(b, 4) for b in bars) == [0.035, 0.08]


def test_parts_add_up_to_the_step(traced):
    axes = figure("trace-steps", traced).axes[0]
    assert sum(p.get_width() for p in axes.patches) == pytest.approx(0.2)


def test_where_nothing_was_traced_charts_say_so(traced):
    report, spans = read_traces(traced)
    report.traces = [t for t in report.traces if t.status != "ok"]
    for name in CHARTS:
        drawn = Figure()
        CHARTS[name](drawn.subplots(), report, spans)
        assert "no " in drawn.axes[0].texts[0].get_text()


def test_the_table_says_unknown_and_leaves_failures_to_the_words(traced):
    report, _ = read_traces(traced)
    first, second = map(trace_row, report.ok)
    assert (first["exposed communication (ms)"], first["traced / untraced"]) == ("0.0350", "unknown")
    assert (second["exposed communication (ms)"], second["step (ms)"]) == ("unknown", "0.200")
    assert list(first).index("exposed waiting (ms)") == list(first).index("exposed communication (ms)") + 1


def test_the_page_tells_of_traces_and_their_findings(traced, results):
    report, _ = read_traces(traced)
    results.charts()
    for name in CHARTS:
        draw_trace(name, *read_traces(traced), results.folder / "charts")
    page = results.page().read_text()
    assert "Inside a step" not in page
    profiles = [read_profile(traced / "traces" / t.cell / PROFILE) for t in report.traces]
    results.findings = campaign_findings("synthetic", results.runs, profiles)
    of_traces = [finding for finding in results.findings.findings if finding.concerns == "trace"]
    assert any(report.traces[1].cell in finding.cells for finding in of_traces)
    page = results.page(traces=report, profiles=profiles).read_text()
    assert "Inside a step" in page
    assert "Rank 1 comes last in 4 of 4 steps" in page
    assert 'id="trace-not-understood"' in page
    assert 'id="chart-trace-timeline"' in page
