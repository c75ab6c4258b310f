"""Forecasts in charts, answer, page and findings.json."""

import re
from dataclasses import replace

import pytest
from matplotlib.figure import Figure
from result_models import forecast_row

from scaleproof.conclude.analysis.campaign_findings import with_forecasts
from scaleproof.conclude.report.chart_style import chart_style
from scaleproof.conclude.report.charts import CHARTS, draw
from scaleproof.conclude.report.charts.forecast import LABEL, bands_of_series, draw_forecast
from scaleproof.conclude.report.page import write_page
from scaleproof.conclude.report.read_results import read_inputs
from scaleproof.conclude.report.sentences.answer import answer_campaign
from scaleproof.conclude.report.sentences.forecast import forecast_sentences
from scaleproof.ground.findings.forecast_report import ForecastReport

SERIES = ["ddp-n1x1", "ddp-n1x2", "ddp-n1x4", "ddp-n1x8"]


def row(cell, devices, value, measured=None, half=0.1, **more):
    return forecast_row(cell, devices, value, measured, half, **{"relatives": SERIES} | more)


def forecast(*rows, findings=(), coverage_n=0):
    counts = {"n": coverage_n, "inside": coverage_n, "low": 0.5, "high": 1.0, "nominal": 0.95 if coverage_n else None}
    return ForecastReport(
        campaign="synthetic",
        machine="cpu gloo",
        forecasts=list(rows),
        sweeps=[],
        checks=["forecasts_hold"],
        findings=list(findings),
        coverage=counts | {"here": counts},
    )


HELD = row("ddp-n1x4", 4, 0.041, measured=0.04)
MISSED = row("ddp-n1x4", 4, 0.06, measured=0.04)
AHEAD = row("ddp-n1x8", 8, 0.03)
WIDE = row("ddp-n1x8", 8, 0.03, half=0.4)
REFUSED = row("ddp-n1x8", 8, None)


@pytest.mark.parametrize(("chart", "base"), [("throughput", None), ("speedup", "1x1")])
def test_forecasts_stand_as_bands_behind_measured_points(results, chart, base):
    runs, cells, report = read_inputs(results.folder)
    (series,) = report.series
    rate = series.points[0].tokens_per_sec_global.value if base else 1.0
    with chart_style():
        axes = Figure().subplots()
        CHARTS[chart](axes, runs, cells, report, [HELD, AHEAD])
    boxes = [patch.get_bbox() for patch in axes.patches if patch.get_height()]
    assert [(box.y0, box.y1) for box in boxes] == [
        pytest.approx((1000 / f.high / rate, 1000 / f.low / rate)) for f in (HELD, AHEAD)
    ]
    assert boxes[0].x0 < 4 < boxes[0].x1, "behind the measured point"
    assert boxes[1].x0 > 7, "of a size that has not run"
    assert LABEL in axes.get_legend_handles_labels()[1]
    assert axes.get_xlim()[1] > 8


def test_without_forecasts_a_chart_has_no_band_and_the_same_bytes(results):
    for folder, forecasts in (("a", ()), ("b", [REFUSED])):
        draw("throughput", *read_inputs(results.folder), results.folder / folder, forecasts)
    assert len({(results.folder / f / "throughput.svg").read_bytes() for f in "ab"}) == 1
    assert LABEL not in (results.folder / "a" / "throughput.svg").read_text()


def test_a_wide_forecast_has_a_band_without_a_value(results):
    (series,) = results.report.series
    (band,) = bands_of_series(series, [WIDE])
    assert band.value is None
    assert band.low < band.high
    assert bands_of_series(series, [row("fsdp-n1x8", 8, 0.03, relatives=["fsdp-n1x8"])]) == []
    assert bands_of_series(series, [row("ddp-n1x8", 8, 0.03, tokens_per_step=None)]) == [], "padding is no token"


def test_the_answer_names_what_is_ahead_else_what_came_of_it(results):
    def bullets(*rows):
        return [b.text for b in answer_campaign(results.report, [], forecast(*rows)).bullets if b.topic == "forecast"]

    assert bullets(HELD, AHEAD) == ["Forecast: ddp-n1x8 is expected to take 30.0 ms a step (95 %: 27.0-33.0)"]
    assert bullets(HELD) == [
        "Forecast: ddp-n1x4 was forecast at 41.0 ms a step (95 %: 36.9-45.1) before it ran and took 40.0 ms: "
        "inside the interval, +2.5 %"
    ]
    assert "outside the interval, +50.0 %" in bullets(MISSED)[0]
    assert "too wide for one figure" in bullets(WIDE)[0]
    assert bullets(REFUSED) == []
    assert not [b for b in answer_campaign(results.report, []).bullets if b.topic == "forecast"]


def test_sentences_count_refuse_and_keep_score():
    lines = forecast_sentences(forecast(HELD, MISSED, REFUSED, coverage_n=4))
    assert lines[0].startswith("1 of 2 steps that were forecast before their runs took a time inside the interval")
    assert "+50.0 % (ddp-n1x4)" in lines[0]
    assert "no forecast (group-too-large): 1x8 has too many devices. To lift it: run ddp on 1x8." in lines[1]
    assert "4 of 4 forecasts were inside (Clopper-Pearson 50-100 %)" in lines[2]
    assert forecast_sentences(forecast()) == []


def test_the_page_has_a_section_with_a_table(results):
    charts = results.folder / "charts"
    data = forecast(HELD, REFUSED)
    draw_forecast(data.forecasts, charts)
    inputs = results.inputs(names=["throughput"], forecast=data, drawn=["throughput", "forecast"])
    page = results.folder / "report.html"
    write_page(inputs, page)
    text = page.read_text()
    section = re.search(r'<section id="forecast">.*?</section>', text, re.DOTALL)[0]
    assert "ddp-n1x4 was forecast at 41.0 ms" in section
    assert "refused: group-too-large" in section
    assert 'id="chart-forecast"' in text
    write_page(replace(inputs, forecast=None, drawn=["throughput"]), page)
    assert 'id="forecast"' not in page.read_text(), "a campaign without forecasts has no such section"


def test_findings_about_forecasts_are_findings_of_the_campaign(results):
    missed = {
        "code": "forecast-missed",
        "severity": "note",
        "cells": ["ddp-n1x4"],
        "runs": ["ddp-n1x4"],
        "evidence": "60 ms were forecast",
        "advice": "sweep again",
    }
    merged = with_forecasts(results.findings, forecast(MISSED, findings=(missed,)))
    assert [f.code for f in merged.of("ddp-n1x4")].count("forecast-missed") == 1
    assert "forecasts_hold" in merged.checks
    assert with_forecasts(results.findings, forecast(HELD)).findings == results.findings.findings
