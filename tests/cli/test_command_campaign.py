"""A campaign of somebody's program from its runs to the page and back to the raw files, stage by stage."""

import json
import re
import shlex
import sys

import pytest
import small_programs

from scaleproof.cli.commands import run
from scaleproof.conclude.publication.publish import Publication, publish
from scaleproof.ground.errors import UserError
from scaleproof.verify.campaign import verify, why

PYTHON = shlex.quote(sys.executable)
CAMPAIGN = f"""
title: Is the other one faster?
workload: {{command: "{PYTHON} nanogpt.py --ms {{ms}}", figures: NanoGPT, per_step: {{samples: 8}}}}
vary: {{ms: {{slow: 12, fast: 6}}}}
question: {{is: fast, better_than: slow}}
repeats: 3
"""


# As in docs/measure-mine.md: the axes give a global batch, and cells differ in their devices.
OF_TWO_SIZES = f"""
title: Is it faster on two devices?
workload:
  command: "{PYTHON} nanogpt.py --ms 6"
  figures: NanoGPT
  per_step: {{tokens: "{{global_batch}} * 32"}}
  rate_of: all
work: {{global_batch: 8}}
vary: {{geometry: [1x1, 1x2]}}
repeats: 3
"""


def make_results(folder, campaign, cells):
    """The results of a campaign, made by the commands of the workflow's rules."""
    small_programs.write(folder)
    (folder / "config/campaigns").mkdir(parents=True)
    place = "config/campaigns/mine.yaml"
    (folder / place).write_text(campaign)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)

        def stage(*words: str) -> None:
            patch.setattr(sys, "argv", ["scaleproof", "stage", *words])
            run()

        for cell in cells:
            for repeat in ("1", "2", "3"):
                stage("train", place, cell, "--repeat", repeat, "--out", f"results/mine/runs/{cell}/rep{repeat}")
        for name in ("collect", "findings", "analyse", "waterfall"):
            stage(name, place)
        for name in ("tables", "charts", "loss_charts"):
            stage(name, "results/mine")
        stage("report", place)
    return folder / "results/mine"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return make_results(tmp_path_factory.mktemp("project"), CAMPAIGN, ("slow-n1x1", "fast-n1x1"))


def test_a_command_on_two_sizes_comes_to_its_report(tmp_path):
    """It does not say its samples, of which steps of a waterfall are made; its series has no word for a name."""
    folder = make_results(tmp_path, OF_TWO_SIZES, ("n1x1", "n1x2"))
    assert json.loads((folder / "waterfall.json").read_text())["cells"] == []
    verdicts = [entry["text"] for entry in json.loads((folder / "claims.json").read_text())["sentences"]]
    assert any(
        "the command on 2 devices against 1: " in text or "command pays off" in text or "command is slower" in text
        for text in verdicts
    )
    assert verify(folder)[0] == []


def test_a_plan_counts_the_runs_of_a_command_and_a_forecast_says_that_it_knows_none(results, monkeypatch, capsys):
    monkeypatch.chdir(results.parents[1])
    monkeypatch.setattr(sys, "argv", ["scaleproof", "plan", "config/campaigns/mine.yaml"])
    run()
    plan = capsys.readouterr().out
    assert len(re.findall(r"3 of 3 .* measured", plan)) == 2
    assert "step time of all cells: unknown, forecasts know built-in models, not commands\n" in plan
    monkeypatch.setattr(sys, "argv", ["scaleproof", "forecast", "config/campaigns/mine.yaml"])
    with pytest.raises(UserError, match="knows built-in models, not commands"):
        run()


def test_every_figure_has_its_level(results):
    report = json.loads((results / "scaling_report.json").read_text())
    assert (report["evidence"], report["unit"]) == ("printed", "samples")
    disturbed = "machine-busy" in (results / "findings.json").read_text()  # by other tests, side by side with this one
    assert report["question"]["status"] in ({"yes", "undecided"} if disturbed else {"yes"})
    for table in ("runs.csv", "cells.csv"):
        header, *rows = (results / table).read_text().splitlines()
        assert {row.split(",")[header.split(",").index("evidence")] for row in rows} == {"printed"}
    page = (results / "report.html").read_text()
    assert "<strong>printed</strong>: the program says so" in page


def test_rates_are_in_the_unit_that_was_given(results):
    table = (results / "tables/scaling.md").read_text()
    assert "samples/s (95 %)" in table
    assert (
        "tokens/s" not in table + (results / "charts/ranking.svg").read_text() + (results / "report.html").read_text()
    )


def test_why_knows_each_figure_of_the_page_in_the_unit_of_the_command(results):
    names = set(re.findall(r'data-id="([^"]+)"', (results / "report.html").read_text()))
    assert {"cells/fast-n1x1/tokens_per_s", "cells/fast-n1x1/time_to_loss_s"} <= names
    for name in names:
        assert "tokens" not in why(results, name).partition("formula")[2]
    in_samples = why(results, "cells/fast-n1x1/samples_per_s")
    assert in_samples.partition("\n")[2] == why(results, "cells/fast-n1x1/tokens_per_s").partition("\n")[2]
    with pytest.raises(UserError, match=r'no figure "cells/fast-n1x1/steps_per_s"\. Did you mean'):
        why(results, "cells/fast-n1x1/steps_per_s")


def test_the_figures_are_recomputed_from_the_raw_files(results, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["scaleproof", "verify", str(results)])
    run()
    assert "PASS" in capsys.readouterr().out
    steps = results / "runs/fast-n1x1/rep1/steps.csv"
    sound = steps.read_text()
    steps.write_text(sound.replace("0.0", "0.1", 1))
    try:
        with pytest.raises(SystemExit):
            run()
        assert "FAIL" in capsys.readouterr().out
    finally:
        steps.write_text(sound)


def test_results_of_commands_are_published_with_their_logs(results, tmp_path):
    out = publish(results, tmp_path, Publication(("Jane Doe",)), "0")
    assert "_command_" in out.name
    assert "devices not recorded" in (out / "README.md").read_text()
    assert len(list(out.glob("runs/*/*/train.log"))) == len(list(results.glob("runs/*/*/train.log")))
    assert verify(out)[0] == []


def test_a_page_without_content_is_one_difference(results, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["scaleproof", "verify", str(results)])
    page = results / "report.html"
    sound = page.read_text()
    page.write_text("<html></html>")
    try:
        with pytest.raises(SystemExit):
            run()
    finally:
        page.write_text(sound)
    of_page = [line for line in capsys.readouterr().out.splitlines() if line.startswith("report.html: ")]
    assert [re.sub(r"\d+", "N", line) for line in of_page] == [
        "report.html: is cut off: N of its N statements are there; changed since the report was written"
    ]
