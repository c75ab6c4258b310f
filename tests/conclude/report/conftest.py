"""A whole campaign's results, made from synthetic runs through the real analysis."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright
from synthetic import cells, rewrite, write_failure, write_run

from scaleproof.conclude.analysis.campaign_findings import campaign_findings
from scaleproof.conclude.analysis.loss_curves import curves_of, losses_table
from scaleproof.conclude.analysis.run_tables import cells_table, measured_by_cell, runs_table
from scaleproof.conclude.analysis.scaling import scaling_report
from scaleproof.conclude.analysis.waterfall import waterfall_report
from scaleproof.conclude.report.chart_catalog import CATALOG
from scaleproof.conclude.report.charts import CHARTS, draw, draw_comparison, draw_losses, draw_waterfall
from scaleproof.conclude.report.charts.sweeps import AGAINST
from scaleproof.conclude.report.page import write_page
from scaleproof.conclude.report.page_facts import PageInputs, collect_run_facts
from scaleproof.conclude.report.read_results import read_inputs, read_losses
from scaleproof.conclude.report.tables.cells import write_tables
from scaleproof.ground.files import write_json

# Chromium without its background services: the tests have no network, and it would try.
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser(chromium):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture
def show(browser):
    """Open a page at a given width; fails the test on any error or request that the page makes."""
    opened = []

    def run(path, width=1100, height=900):
        page = browser.new_page(viewport={"width": width, "height": height})
        opened.append(page)
        page.on("console", lambda message: pytest.fail(message.text) if message.type == "error" else None)
        page.on("request", lambda r: None if r.url.startswith(("file:", "data:")) else pytest.fail(r.url))
        page.goto(f"file://{path}")
        return page

    yield run
    for page in opened:
        page.close()


class Results:
    """The files of a campaign in `folder`, and what they were made from."""

    def __init__(self, folder: Path, runs: list) -> None:
        self.folder, self.runs = folder, runs
        self.findings = campaign_findings("synthetic", runs)
        self.report = scaling_report("synthetic", "Does it scale?", runs, self.findings)
        runs_table(runs).to_csv(folder / "runs.csv", index=False)
        cells_table(runs, self.findings).to_csv(folder / "cells.csv", index=False)
        losses_table(curves_of(measured_by_cell(runs))).to_csv(folder / "losses.csv", index=False)
        write_json(folder / "scaling_report.json", self.report)

    def findings_json(self) -> None:
        (self.folder / "findings.json").write_text(self.findings.model_dump_json())

    def tables(self) -> Path:
        _, cell_rows, report = read_inputs(self.folder)
        write_tables(cell_rows, report, self.folder / "tables")
        return self.folder / "tables"

    def charts(self, names: Sequence[str] = tuple(CHARTS)) -> Path:
        inputs, losses = read_inputs(self.folder), read_losses(self.folder)
        for name in names:
            draw(name, *inputs, self.folder / "charts")
        for against in AGAINST:
            draw_losses(against, *losses, self.folder / "charts")
        return self.folder / "charts"

    def inputs(self, comparisons: list | None = None, names: Sequence[str] = tuple(CHARTS), **more: Any) -> PageInputs:
        """What page and paper are made from; draws the charts, those of `names` and the ones of losses."""
        self.charts(names)
        if comparisons:
            draw_comparison(comparisons, self.folder / "charts")
        runs_table, cells, _ = read_inputs(self.folder)
        waterfall = waterfall_report("synthetic", cells, self.report, {})
        write_json(self.folder / "waterfall.json", waterfall)
        draw_waterfall(waterfall.cells, self.folder / "charts")
        left_out = {"batch_size", "seq_len", "forecast", *CHARTS} - ({*names} - {"batch_size", "seq_len"})
        drawn = [name for name in CATALOG if name not in left_out]
        return PageInputs(
            facts=collect_run_facts(self.runs),
            runs_table=runs_table,
            cells=cells,
            report=self.report,
            findings=self.findings,
            charts=self.folder / "charts",
            drawn=more.pop("drawn", drawn),
            campaign_file="config/campaigns/synthetic.yaml",
            comparisons=comparisons or [],
            waterfall=waterfall.cells,
            **more,
        )

    def page(self, comparisons: list | None = None, **more: Any) -> Path:
        out = self.folder / "report.html"
        write_page(self.inputs(comparisons, **more), out)
        return out


@pytest.fixture
def results(tmp_path):
    """1, 2, 4 devices at 100, 60 and 40 ms; 8 devices ran out of memory."""
    found = cells(vary={"geometry": ["1x1", "1x2", "1x4", "1x8"]})
    times = {1: 0.1, 2: 0.06, 4: 0.04}
    runs = [write_run(tmp_path / "runs", c, k, times[c.batch.n_devices]) for c in found[:3] for k in (1, 2, 3)]
    return Results(tmp_path, [*runs, write_failure(tmp_path / "runs", found[3])])


@pytest.fixture
def broken(tmp_path):
    """As above with two sizes, but one run's rate is not its work over its time."""
    runs = [write_run(tmp_path / "runs", c, k, 0.1 / c.batch.n_devices) for c in cells() for k in (1, 2)]
    runs[-1] = rewrite(runs[-1], lambda d: d["window"].update(tokens_per_sec_global=1e9))
    return Results(tmp_path, runs)


@pytest.fixture
def impossible(tmp_path):
    """Two devices are two and a half times as fast as one."""
    times = {1: 0.1, 2: 0.04}
    runs = [write_run(tmp_path / "runs", c, k, times[c.batch.n_devices]) for c in cells() for k in (1, 2, 3)]
    return Results(tmp_path, runs)


@pytest.fixture
def single(tmp_path):
    """One run a cell: no intervals anywhere."""
    return Results(tmp_path, [write_run(tmp_path / "runs", c, 1, 0.1 / c.batch.n_devices) for c in cells()])


@pytest.fixture
def nothing(tmp_path):
    """Every run failed."""
    return Results(tmp_path, [write_failure(tmp_path / "runs", c) for c in cells()])
