"""Whatever a campaign lacks, one thing or two, it has a page and a paper.

Each shape takes something away from a campaign that has all that a report can show.
"""

import itertools
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from conclude.report.conftest import Results
from conclude.report.test_forecasts import AHEAD, HELD, REFUSED, WIDE, forecast
from result_models import comparison, comparisons, paired
from synthetic import cells, rewrite, write_failure, write_run
from synthetic_traces import trace

from scaleproof.conclude.analysis.traces import traces_report
from scaleproof.conclude.analysis.waterfall import waterfall_report
from scaleproof.conclude.report.chart_catalog import CATALOG
from scaleproof.conclude.report.charts import draw_comparison, draw_waterfall
from scaleproof.conclude.report.charts.forecast import draw_forecast
from scaleproof.conclude.report.charts.traces import CHARTS as TRACE_CHARTS
from scaleproof.conclude.report.charts.traces import draw_trace
from scaleproof.conclude.report.claims_report import claims_report
from scaleproof.conclude.report.page import write_page
from scaleproof.conclude.report.page_facts import PageInputs, collect_run_facts
from scaleproof.conclude.report.paper import write_paper
from scaleproof.conclude.report.read_results import read_inputs, read_traces
from scaleproof.conclude.report.tables.comparison import write_comparison
from scaleproof.conclude.report.tables.forecast import write_forecast
from scaleproof.conclude.report.tables.scaling import KINDS, write_series
from scaleproof.conclude.report.tables.waterfall import write_waterfall
from scaleproof.ground.records.profile_schema import PROFILE, Profile
from scaleproof.ground.records.run import Run
from scaleproof.ground.records.unreadable import make_unreadable_run
from scaleproof.measure.trace.breakdown import StepBreakdown
from scaleproof.measure.trace.timeline import timeline_of_median_step

MEMBERS = cells(vary={"geometry": ["1x1", "1x2", "1x4"], "strategy": ["ddp", "zero2"]})
OTHER = comparison(None, name="other", status="incomparable", why="commit differs")


def whole(folder: Path) -> SimpleNamespace:
    """A campaign that has everything, and a failed cell."""
    runs = []
    for cell, repeat in itertools.product(MEMBERS, (1, 2)):
        seconds = 0.1 / cell.batch.n_devices**0.8
        run = write_run(folder / "runs", cell, repeat, seconds, seed=cell.execution.strategy == "zero2")
        energy = {"joules": 10.0 + repeat, "joules_per_token": 0.01 + repeat / 1000, "withheld": None}
        runs.append(rewrite(run, lambda data, energy=energy: data.update(energy=energy)))
    made = trace(late={1: 20})
    return SimpleNamespace(
        runs=[*runs, write_failure(folder / "failed", cells(vary={"geometry": ["1x8"]})[0])],
        comparisons=[comparison(paired()), OTHER],
        trace=(made, StepBreakdown(made).profile_fields()),
        forecast=forecast(HELD, AHEAD, WIDE, REFUSED, coverage_n=2),
        drawn=list(CATALOG),
        findings=True,
    )


def _all(runs: list[Run], root: str, kind: str, reason: str) -> list[Run]:
    """The same cells, none with numbers."""
    folder = runs[0].folder.parents[2] / root
    shutil.rmtree(folder, ignore_errors=True)
    return [write_failure(folder, cell, kind=kind, reason=reason) for cell in MEMBERS]


def _unreadable(runs: list[Run]) -> list[Run]:
    return [Run(runs[0].folder, make_unreadable_run("synthetic", cell, 1, "it is empty")) for cell in MEMBERS]


def _change(**changes: Callable | object) -> Callable[[SimpleNamespace], None]:
    def change(have: SimpleNamespace) -> None:
        for name, to in changes.items():
            setattr(have, name, to(getattr(have, name)) if callable(to) else to)

    return change


def _some(keep: Callable[[Run], bool]) -> Callable[[SimpleNamespace], None]:
    return _change(runs=lambda runs: [run for run in runs if keep(run)] or runs)


def _without(*charts: str) -> Callable[[SimpleNamespace], None]:
    return _change(drawn=lambda drawn: [name for name in drawn if name not in charts])


SHAPES: dict[str, Callable[[SimpleNamespace], None]] = {
    "all runs failed": _change(runs=lambda runs: _all(runs, "oom", "oom", "CUDA out of memory")),
    "nothing applicable": _change(runs=lambda runs: _all(runs, "na", "not_applicable", "no GPU here")),
    "all unreadable": _change(runs=_unreadable),
    "one cell": _some(lambda run: run.metrics.cell == MEMBERS[0].slug),
    "one size": _some(lambda run: run.metrics.cell.endswith("1x2")),
    "one strategy": _some(lambda run: run.metrics.cell.startswith("ddp")),
    "one repeat": _some(lambda run: run.metrics.repeat == 1),
    "no failure": _some(lambda run: run.ok),
    "no energy": _without("energy"),
    "few charts": _without("loss_step", "loss_seconds", "waterfall", "forecast", "ranking", "memory"),
    "no pairs": _change(comparisons=[]),
    "no pair has an answer": _change(comparisons=[OTHER]),
    "not traced": _change(trace=None),
    "no trace worked": _change(trace=(None, {"status": "failed", "reason": "timeout", "tool": "nsys"})),
    "no forecasts": _change(forecast=None),
    "all forecasts refused": _change(forecast=forecast(REFUSED)),
    "forecasts of nothing": _change(forecast=forecast()),
    "nothing found": _change(findings=False),
}


def inputs(have: SimpleNamespace, folder: Path) -> PageInputs:
    """All files of the campaign, made from what there is, as the stages do."""
    folder.mkdir()
    results = Results(folder, have.runs)
    if not have.findings:
        results.findings = results.findings.model_copy(update={"findings": []})
    results.findings_json()
    results.tables()
    for kind in KINDS:
        write_series(results.report, kind, folder / "tables")
    profiles = _profiles(have, folder)
    (folder / "traces.json").write_text(traces_report("synthetic", profiles, have.runs).model_dump_json())
    traces, spans = read_traces(folder)
    runs_table, cell_rows, _ = read_inputs(folder)
    per_step = {profile.cell: profile.per_step for profile in profiles.values()}
    lost = waterfall_report("synthetic", cell_rows, results.report, per_step).cells
    write_waterfall(lost, "synthetic", folder / "tables")
    if have.comparisons:
        write_comparison(comparisons(*have.comparisons), folder / "tables")
        draw_comparison(have.comparisons, folder / "charts")
    if have.forecast:
        write_forecast(have.forecast.forecasts, have.forecast.campaign, folder / "tables")
        draw_forecast(have.forecast.forecasts, folder / "charts")
    for name in TRACE_CHARTS:
        draw_trace(name, traces, spans, folder / "charts")
    draw_waterfall(lost, folder / "charts")
    results.charts()
    return PageInputs(
        facts=collect_run_facts([run for run in have.runs if run.metrics.timestamp_utc != "unknown"]),
        runs_table=runs_table,
        cells=cell_rows,
        report=results.report,
        findings=results.findings,
        charts=folder / "charts",
        drawn=[name for name in have.drawn if name != "forecast" or have.forecast],
        comparisons=have.comparisons,
        traces=traces if have.trace else None,
        profiles=list(profiles.values()),
        waterfall=lost if "waterfall" in have.drawn else [],
        forecast=have.forecast,
    )


def _profiles(have: SimpleNamespace, folder: Path) -> dict[Path, Profile]:
    """The summary of the traced cell, with its timeline."""
    if not have.trace:
        return {}
    made, fields = have.trace
    place = folder / "traces/ddp-n1x2"
    place.mkdir(parents=True)
    breakdown = StepBreakdown(made or trace(ranks=1))
    (timeline_of_median_step(breakdown) if made else timeline_of_median_step(breakdown).iloc[:0]).to_csv(
        place / "timeline.csv", index=False
    )
    known = {"generated_at_utc": "now", "run_dir": "here", "cell": "ddp-n1x2", "strategy": "ddp"}
    return {place / PROFILE: Profile(**known, **fields)}


def make_forecast_report(have: SimpleNamespace, folder: Path) -> str:
    """The text of the page; the paper is made, too. No sentence is stated twice, which `verify` takes for an edit."""
    made = inputs(have, folder)
    sentences = [sentence.text for sentence in claims_report(made).sentences]
    assert len(sentences) == len(set(sentences))
    write_page(made, folder / "report.html")
    write_paper(made, folder / "report.pdf")
    assert (folder / "report.pdf").read_bytes().startswith(b"%PDF")
    return (folder / "report.html").read_text()


@pytest.fixture
def undrawn(monkeypatch):
    """Charts are blank: drawing them takes most of the time."""

    def blank(path, *_, **__):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"/>')

    for module in ("charts", "charts.traces", "chart_style"):
        monkeypatch.setattr(f"scaleproof.conclude.report.{module}.write_chart", blank)


def test_the_whole_campaign_has_every_section(tmp_path):
    html = make_forecast_report(whole(tmp_path), tmp_path / "out")
    sections = ("cells", "lost", "forecast", "pairs", "charts", "step", "findings", "failed")
    assert [name for name in sections if f'<section id="{name}">' not in html] == []
    folded = ("strong", "protocol", "environment", "definitions", "sources")
    assert [name for name in folded if f'<div id="{name}">' not in html] == []
    placed = ("waterfall", "forecast", "comparison", "energy", "trace-steps")
    assert [name for name in placed if f'<figure id="chart-{name}">' not in html] == []


@pytest.mark.parametrize("shape", SHAPES)
def test_a_campaign_that_lacks_something_has_a_report(tmp_path, shape):
    have = whole(tmp_path)
    SHAPES[shape](have)
    html = make_forecast_report(have, tmp_path / "out")
    assert '<p class="verdict">' in html
    assert not re.search(r">\s*(?:undefined|nan|inf)\s*[<\[]", html.partition("<script")[0], re.IGNORECASE)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_campaign_that_lacks_two_things_has_a_report(tmp_path, shape, undrawn):
    sound = whole(tmp_path)
    for nth, other in enumerate(itertools.takewhile(lambda name: name != shape, SHAPES)):
        have = SimpleNamespace(**vars(sound))
        SHAPES[shape](have)
        SHAPES[other](have)
        assert '<p class="verdict">' in make_forecast_report(have, tmp_path / f"out{nth}"), other
