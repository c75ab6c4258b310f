"""Every edit of a finished campaign is found; an untouched one has none."""

import itertools
import json
import os
import random
import re
import shutil
from pathlib import Path

import pytest
import synthetic
from conclude.report.conftest import Results
from synthetic import campaign, cells, write_failure, write_run

from scaleproof.conclude.analysis.ab_comparison import comparison_report, read_pairs
from scaleproof.conclude.analysis.ranking import MARGIN
from scaleproof.conclude.publication.made_again import compare_with_rewritten
from scaleproof.conclude.report.page import write_page
from scaleproof.conclude.report.tables.scaling import write_series
from scaleproof.ground.campaign.cells import arms_of
from scaleproof.ground.errors import UserError
from scaleproof.ground.files import write_json
from scaleproof.ground.findings.finding import Finding, Findings
from scaleproof.verify.campaign import _run_check, verify, why
from scaleproof.verify.charts import RATE
from scaleproof.verify.contents import json_of
from scaleproof.verify.manifest import Demands, demands_in, write_manifest
from scaleproof.verify.pairs import check_comparison
from scaleproof.verify.raw import Difference, read_runs
from scaleproof.verify.recompute import Quantities, by_cell, cell_quantities, ratio_quantities, with_pooled_intervals
from scaleproof.verify.reports import check_scaling_report

EDITS = 60
PUBLISHED = sorted((Path(__file__).parents[2] / "results/published").glob("demo_*"))[-1]


def finished(root):
    """A finished campaign in `root`: 1, 2, 4 devices, 8 out of memory; tables, charts, page, manifest."""
    members = cells(vary={"geometry": ["1x1", "1x2", "1x4", "1x8"]})
    times = {1: 0.1, 2: 0.06, 4: 0.04}
    runs = [write_run(root / "runs", c, k, times[c.batch.n_devices]) for c in members[:3] for k in (1, 2, 3)]
    results = Results(root, [*runs, write_failure(root / "runs", members[3])])
    results.findings_json()
    results.tables()
    for kind in ("strong", "weak"):
        write_series(results.report, kind, root / "tables")
    inputs = results.inputs()
    write_page(inputs, root / "report.html")
    asked = {"title": results.report.title, "target_loss": "derive", "margin": MARGIN}
    write_manifest(root, "0", Demands(**asked, question=None, repeats=None, charts=inputs.drawn))
    return root


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The same whatever tests ran before, so that the random edits of it are always the same ones."""
    with pytest.MonkeyPatch.context() as patch:
        for counter in ("TICKS", "TURNS"):
            patch.setattr(synthetic, counter, itertools.count())
        return finished(tmp_path_factory.mktemp("campaign"))


def test_nothing_differs_in_an_untouched_campaign(folder):
    (folder / "._claims.json").write_bytes(b"\0\5\26\7")  # of macOS, beside each file of another disk
    differences, runs, figures = verify(folder)
    (folder / "._claims.json").unlink()
    assert differences == []
    assert runs == 10
    assert figures > 100
    (folder / "copy.html").write_text("of another campaign")
    with pytest.raises(UserError, match=r"copy\.html is none of the files that are verified with .*; give that folder"):
        verify(folder / "copy.html")
    (folder / "copy.html").unlink()
    assert verify(folder / "report.html")[0] == []


def test_weak_scaling_has_neither_a_serial_part_nor_a_ratio_of_jobs(tmp_path):
    """The jobs of its sizes do different work: the report states none, and none may be asked for."""
    members = cells(work={"global_batch": "derive", "micro_batch": 4}, vary={"geometry": ["1x1", "1x2"]})
    runs = [write_run(tmp_path / "runs", c, k, 0.1 + 0.01 * c.batch.n_devices) for c in members for k in (1, 2)]
    report = Results(tmp_path, runs).report.model_dump()
    assert [series["kind"] for series in report["series"]] == ["weak"]
    raw, differences = read_runs(tmp_path)
    assert differences == []
    quantities: Quantities = {}
    for runs_of_cell in by_cell(raw).values():
        quantities |= cell_quantities(runs_of_cell)
    quantities = with_pooled_intervals(quantities, raw)
    quantities |= ratio_quantities(quantities, raw, report)
    assert "cells/ddp-n1x2/scaling_efficiency" in quantities
    assert list(check_scaling_report(report, quantities)) == []


def mutated(text: str, chance: random.Random) -> str:
    """A digit changed, a line dropped, or two lines swapped."""
    digits = [m.start() for m in re.finditer(r"\d", text)]
    kind = chance.choice(["digit", "digit", "digit", "drop", "swap"])
    lines = text.splitlines(keepends=True)
    if not digits:
        return text.replace("e", "a", 1)
    if kind == "digit" or len(lines) < 3:
        place = chance.choice(digits)
        return text[:place] + str((int(text[place]) + chance.randrange(1, 10)) % 10) + text[place + 1 :]
    i = chance.randrange(len(lines) - 1)
    if kind == "drop" or lines[i] == lines[i + 1]:
        return "".join(lines[:i] + lines[i + 1 :])
    return "".join([*lines[:i], lines[i + 1], lines[i], *lines[i + 2 :]])


@pytest.mark.fault("a finished campaign is edited anywhere", "`scaleproof verify` finds it")
def test_sixty_random_edits_are_all_found(folder):
    chance = random.Random(20)
    files = [p for p in sorted(folder.rglob("*")) if p.suffix in (".csv", ".json", ".md", ".tex", ".svg", ".html")]
    missed = []
    for nth in range(EDITS):
        path = chance.choice(files)
        before = path.read_bytes()
        if nth % 10 == 9:
            path.unlink()
        else:
            path.write_text(mutated(before.decode(), chance), encoding="utf-8")
        changed = not path.exists() or path.read_bytes() != before
        if changed and not verify(folder)[0]:
            missed.append((nth, path.name))
        path.write_bytes(before)
    assert missed == []
    assert verify(folder)[0] == []


def test_a_difference_is_printed_with_plain_spaces_and_without_control_characters():
    text = str(Difference("tables/scaling.md", "a\x1b[31m", "is 1\u00a0[2,\u00a03]\u202e"))
    assert text == "tables/scaling.md: a\\x1b[31m: is 1 [2, 3]\\u202e"


# File -> what is replaced by what: figures that recomputation must find, without any hash of the result files.
FIGURES = {
    "cells.csv": (r"(ddp-n1x2,.*?,3,3,)(\d)", r"\g<1>9\g<2>"),
    "runs.csv": (r"(ddp-n1x1,2,ok,.*?,\d+,)(\d+\.)", r"\g<1>9\g<2>"),
    "scaling_report.json": (r'("speedup":\s*\{\s*"value":\s*)', r"\g<1>1"),
    "tables/scaling.csv": (r"(ddp-n1x4,.*?,3,3,)(\d)", r"\g<1>8\g<2>"),
    "tables/scaling.md": (r"(\| ddp[^|]*\|[^|]*1x2[^|]*\|[^|]*\|[^|\[]*)(\d,\d)", r"\g<1>7\g<2>"),
    "tables/strong.md": (r"(1\.)(6\d \()", r"\g<1>1\g<2>"),
    "tables/strong.csv": (r"(ddp,ddp-n1x2,2,3,)", r"\g<1>1"),
    "tables/scaling.tex": (r"(1x2 & .*?)(\d,\d)", r"\g<1>3\g<2>"),
    "charts/ranking.svg": (r"(<title>ddp-n1x2: )", r"\g<1>1"),
    "report.html": (r'(data-id="cells/ddp-n1x2/speedup"[^>]*>)', r"\g<1>2"),
}


@pytest.mark.parametrize("file", FIGURES)
def test_a_wrong_figure_is_found_by_recomputing_it(folder, file):
    path = folder / file
    before = path.read_text()
    after = re.sub(*FIGURES[file], before, count=1, flags=re.DOTALL if file.endswith("json") else 0)
    assert after != before, "the edit must be one"
    path.write_text(after)
    try:
        differences = [*verify(folder, with_manifest=False)[0], *compare_with_rewritten(folder).differences]
        assert any(d.file == file for d in differences)
        if file.startswith("tables/"):  # no other file is blamed for it
            assert {d.file for d in differences} == {file}
    finally:
        path.write_text(before)


def test_a_forged_run_is_found_even_with_new_hashes(folder):
    """Metrics changed and every hash made to fit: the figures are no longer those of steps.csv."""
    path = folder / "runs/ddp-n1x2/rep1/training_metrics.json"
    before = path.read_text()
    data = json.loads(before)
    data["window"]["tokens_per_sec_global"] *= 1.05
    path.write_text(json.dumps(data))
    problems = [str(d) for d in verify(folder, with_manifest=False)[0]]
    path.write_text(before)
    assert any("window.tokens_per_sec_global" in p and "steps.csv gives" in p for p in problems)


def taken_out(text: str) -> str:
    return re.sub(r'\n *"charts/[^\n]*', "", text, count=1)


def two_swapped(text: str) -> str:
    return re.sub(r'(\n *"charts/[^\n]*)(\n *"charts/[^\n]*)', r"\2\1", text, count=1)


@pytest.mark.parametrize(
    "edit", [taken_out, two_swapped, lambda text: text.replace('"scaleproof": "0"', '"scaleproof": "1"')]
)
def test_a_manifest_that_was_edited_is_found(folder, edit):
    path = folder / "manifest.json"
    before = path.read_text()
    path.write_text(edit(before))
    problems = [str(d) for d in verify(folder)[0]]
    path.write_text(before)
    assert edit(before) != before, "the edit must be one"
    assert ["manifest.json" in problem for problem in problems] == [True]


@pytest.mark.fault("a run vanishes, or appears later", "`scaleproof verify` finds it")
def test_a_run_that_vanished_or_came_later_is_found(folder):
    run = folder / "runs/ddp-n1x4/rep3"
    aside = folder / "aside"
    run.rename(aside)
    gone = [str(d) for d in verify(folder)[0]]
    other = folder / "runs/ddp-n1x4/rep4"
    aside.rename(other)
    renamed = [str(d) for d in verify(folder)[0]]
    shutil.copytree(other, run)
    later = [str(d) for d in verify(folder)[0]]
    shutil.rmtree(other)
    assert any("ddp-n1x4/rep3" in p and "missing" in p for p in gone)
    assert any("ddp-n1x4/rep3" in p and "renamed" in p for p in renamed)
    assert any("a run that the report does not have" in p for p in later)
    assert verify(folder)[0] == []


def test_runs_that_the_campaign_no_longer_has_are_one_difference(folder, tmp_path):
    """As after fewer `repeats`: the page was made again, and its manifest lists all that is on disk."""
    copied = shutil.copytree(folder, tmp_path / "campaign")
    for cell in ("ddp-n1x1", "ddp-n1x2", "ddp-n1x4"):
        run = shutil.copytree(copied / f"runs/{cell}/rep3", copied / f"runs/{cell}/rep4")
        metrics = json.loads((run / "training_metrics.json").read_text())
        (run / "training_metrics.json").write_text(json.dumps(metrics | {"repeat": 4}))
    demands = demands_in(copied)
    for with_all in (False, True):
        if with_all:
            write_manifest(copied, "0", demands)
        (one,), runs, _ = verify(copied)
        assert runs == 10
        assert str(one).startswith("runs: 3 runs (ddp-n1x1/rep4, ddp-n1x2/rep4, ddp-n1x4/rep4) that the report")


def test_results_without_a_report_are_one_difference(folder, tmp_path):
    shutil.copytree(folder / "runs", tmp_path / "campaign/runs")
    (one,), *_ = verify(tmp_path / "campaign")
    assert "there is no report yet; it is made by: snakemake --cores 2" in str(one)


def test_a_finding_that_was_struck_out_is_found(folder):
    path = folder / "findings.json"
    before = path.read_text()
    data = json.loads(before)
    words = {"code": "machine-busy", "severity": "suspect", "evidence": "", "advice": ""}
    data["findings"].append(words | {"cells": ["ddp-n1x2"], "runs": []})
    path.write_text(json.dumps(data))
    problems = [str(d) for d in verify(folder, with_manifest=False)[0]]
    path.write_text(before)
    assert any("lacks machine-busy, which findings.json has" in p for p in problems)
    assert "scaling_report.json: ddp-n1x2, findings: is [], findings.json gives ['machine-busy']" in problems


@pytest.mark.parametrize(
    ("concerns", "left_out"), [("runs", True), ("scaling", True), ("trace", False), ("comparison", False)]
)
def test_a_finding_stands_beside_the_figures_that_it_concerns(folder, concerns, left_out):
    """One on a trace, or on a comparison, is none of the cell's own runs."""
    path = folder / "findings.json"
    before = path.read_text()
    finding = Finding(
        code="step-idle", severity="suspect", cells=["ddp-n1x2"], runs=[], evidence="", advice="", concerns=concerns
    )
    data = json.loads(before)
    path.write_text(json.dumps(data | {"findings": [*data["findings"], finding.model_dump()]}))
    problems = [str(d) for d in verify(folder, with_manifest=False)[0]]
    path.write_text(before)
    assert any("lacks step-idle, which findings.json has" in problem for problem in problems) == left_out
    beside_the_page = [problem for problem in problems if not problem.startswith("report.html")]  # which is of before
    assert bool(beside_the_page) == left_out


def test_why_names_value_formula_and_files(folder):
    text = why(folder, "cells/ddp-n1x2/speedup")
    assert "tokens/s of ddp-n1x2 / tokens/s of ddp-n1x1" in text
    assert "n=3" in text
    assert text.count("training_metrics.json  sha256 ") == 6
    for word, meant in {"spedup": "speedup", "throughput": "tokens_per_s"}.items():
        with pytest.raises(UserError, match=f'Did you mean "cells/ddp-n1x2/{meant}"'):
            why(folder, f"cells/ddp-n1x2/{word}")
    for of_cell in ("cells/ddp-n1x1/speedup", "cells/ddp-n1x1"):
        with pytest.raises(UserError, match=r"Figures: tokens_per_s, .*, startup_s(, [^/]*)?$"):
            why(folder, of_cell)
    with pytest.raises(UserError, match='Did you mean "cells/ddp-n1x1/tokens_per_s"') as of_a_cell:
        why(folder, "cells/ddp-n1x1")
    assert "all of a cell" not in str(of_a_cell.value)
    with pytest.raises(UserError, match=rf"_device, \.\.\. \(all of a cell: scaleproof why {folder} cells/ddp-n1x1\)$"):
        why(folder, "nothing")
    with pytest.raises(UserError, match=r"no run of ddp-n1x8 has numbers; the logs are in .*/runs/ddp-n1x8$"):
        why(folder, "cells/ddp-n1x8/tokens_per_s")
    with pytest.raises(UserError, match="no campaign's results"):
        verify(folder / "runs")


def test_why_explains_no_figure_of_a_cell_that_lost_a_run(folder):
    assert "n=3" in why(folder, "cells/ddp-n1x1/tokens_per_s")
    (folder / "runs/ddp-n1x1/rep3").rename(folder.parent / "rep3")
    try:
        for cell, figure in (("ddp-n1x1", "tokens_per_s"), ("ddp-n1x2", "speedup")):
            with pytest.raises(UserError, match=r"runs/ddp-n1x1/rep3/\S+: is missing") as caught:
                why(folder, f"cells/{cell}/{figure}")
            assert ("cannot be explained" in str(caught.value)) == (cell == "ddp-n1x1")
        assert "n=3" in why(folder, "cells/ddp-n1x2/tokens_per_s")
    finally:
        (folder.parent / "rep3").rename(folder / "runs/ddp-n1x1/rep3")


def test_the_rates_of_the_arms_of_a_comparison_are_recomputed(tmp_path):
    given = campaign(
        vary={}, compare=[{"name": "fused", "a": {"fused_optimizer": False}, "b": {"fused_optimizer": True}}]
    )
    a, b = arms_of(given, given.compare[0])
    entries = []
    for k in range(1, 5):
        pair = {}
        for arm, cell in (("a", a), ("b", a if k > 2 else b)):
            made = write_run(tmp_path / "made" / f"{k}{arm}", cell, k, 0.1, seed=ord(arm)).folder
            folder = tmp_path / f"compare/fused/pair{k}/{arm}"
            folder.parent.mkdir(parents=True, exist_ok=True)
            pair[arm] = str(made.rename(folder))
        entries.append({"pair": k, "null": k > 2, "first": "a", **pair})
    path = tmp_path / "compare/fused/pairs.json"
    path.write_text(json.dumps({"comparison": "fused", "pairs": entries}))
    findings = Findings(campaign="c", checks=[], findings=[])
    report = comparison_report("c", {"fused": (a, b, read_pairs(path, a, b))}, findings).model_dump()
    write_json(tmp_path / "comparison.json", report)
    assert list(check_comparison(tmp_path)) == []
    report = json.loads((tmp_path / "comparison.json").read_text())
    report["comparisons"][0]["arms"]["b"]["tokens_per_s"]["value"] *= 1.01
    write_json(tmp_path / "comparison.json", report)
    assert ["tokens/s of B" in d.where for d in check_comparison(tmp_path)] == [True]
    (entry,) = report["comparisons"]
    del entry["arms"]  # as older files
    write_json(tmp_path / "comparison.json", report)
    assert list(check_comparison(tmp_path)) == []
    entry |= {"status": "incomplete", "why": "fewer than two pairs", "estimate": None}
    write_json(tmp_path / "comparison.json", report)
    write_json(tmp_path / "findings.json", findings)
    assert [d.problem for d in check_comparison(tmp_path)] == ["is missing, and nothing forbids one"]
    wrong = Finding(
        code="x", severity="invalid", cells=["fused"], runs=[], evidence="", advice="", concerns="comparison"
    )
    write_json(tmp_path / "findings.json", findings.model_copy(update={"findings": [wrong]}))
    assert [d.problem for d in check_comparison(tmp_path)] == ["is incomplete; it is invalid"]
    entry["status"] = "invalid"
    write_json(tmp_path / "comparison.json", report)
    assert list(check_comparison(tmp_path)) == []
    shutil.rmtree(tmp_path / "compare/fused/pair4/b")
    write_json(tmp_path / "findings.json", findings)
    assert "is invalid; it is incomplete" in [d.problem for d in check_comparison(tmp_path)]


@pytest.mark.parametrize(
    "tip",
    [
        "ddp-n1x2: 15,679 tokens/s (95 % CI 14,130-17,397, n=3)",
        "ddp-n1x2: 15,679 tokens/s, 95 % CI 14,130 to 17,397, n=3",
    ],
)
def test_hover_texts_of_either_version_are_understood(tip):
    match = RATE.match(tip)
    assert match.groups() == ("ddp-n1x2", "15,679", "14,130", "17,397", "3")
    assert RATE.match("ddp-n1x1: 9,671 tokens/s").groups() == ("ddp-n1x1", "9,671", None, None, None)


@pytest.mark.parametrize("ask", [verify, lambda folder: why(folder, "cells/ddp-n1x2/speedup")], ids=["verify", "why"])
def test_a_pipe_among_the_results_is_named_and_not_waited_for(folder, ask):
    pipe = folder / "pipe.json"
    os.mkfifo(pipe)
    try:
        with pytest.raises(UserError, match=r"pipe.json is a pipe"):
            ask(folder)
    finally:
        pipe.unlink()


def test_a_damaged_file_is_named_by_whichever_check_reads_it(tmp_path):
    (tmp_path / "findings.json").write_text("")
    (difference,) = _run_check("report.html", lambda: iter(json_of(tmp_path / "findings.json")))
    assert str(difference) == "findings.json: not readable: it is empty"


def test_a_target_loss_that_is_not_the_campaigns_is_named(tmp_path: Path) -> None:
    """By the campaign's file, where the manifest does not say what the campaign asked."""
    shutil.copytree(PUBLISHED, tmp_path / "demo")
    manifest = tmp_path / "demo/manifest.json"
    manifest.write_text(json.dumps({"files": json.loads(manifest.read_text())["files"]}))
    with (tmp_path / "demo/campaign.yaml").open("a") as campaign:
        campaign.write("\ntarget_loss: 6.9\n")
    differences = [str(difference) for difference in verify(tmp_path / "demo", with_manifest=False)[0]]
    assert any("target_loss: is 6.96" in difference for difference in differences), differences


def test_a_publication_without_its_environment_is_named(tmp_path: Path) -> None:
    shutil.copytree(PUBLISHED, tmp_path / "demo")
    (tmp_path / "demo/environment.json").unlink()
    (difference,) = verify(tmp_path / "demo", with_manifest=False)[0]
    assert str(difference) == "environment.json: the file is missing"
