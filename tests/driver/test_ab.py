"""Two commands as a campaign, and the verdict on what it measured."""

import os
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from patience import alive, wait_until

from scaleproof.cli import main
from scaleproof.cli.ab import split
from scaleproof.cli.commands import run
from scaleproof.conclude.analysis.measured_cells import unintended_differences
from scaleproof.conclude.report.sentences.ab import AbVerdict
from scaleproof.driver import ab, ab_verdict
from scaleproof.driver.ab import Pace, _describe_rounds, run_comparison
from scaleproof.driver.ab_campaign import AbRequest, make_campaign, write_campaign
from scaleproof.ground.campaign.campaign_paths import CAMPAIGNS
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.errors import UserError
from scaleproof.measure.command.figures import LONGER

REQUEST = AbRequest(["python", "a.py", "--name", "two words"], ["python", "b.py"], steps=(5, 20), figures="whole")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_commands_are_split_at_their_separators():
    options, programs = split(["ab", "--json", "--", "a", "-x", "--", "b"])
    assert options == ["ab", "--json"]
    assert split(programs) == (["a", "-x"], ["b"])


@pytest.mark.parametrize(
    "words",
    [
        ["python", "a.py", "python", "b.py", "--x"],
        ["python", "a.py", "--", "python", "b.py"],
        ["--a=python a.py", "--b=python b.py"],
        ["-a", "python a.py", "-b", "python b.py"],
    ],
)
def test_commands_without_their_separators_are_told_how_they_are_written(monkeypatch, words):
    monkeypatch.setattr(sys, "argv", ["scaleproof", "ab", "--minutes", "3", *words])
    with pytest.raises(UserError, match="two commands are compared, each behind --: scaleproof ab"):
        run()


def written(request: AbRequest, rounds: int = 1, chance: float | None = None) -> LoadedCampaign:
    write_campaign(CAMPAIGNS / "mine.yaml", make_campaign(request, rounds, chance))
    return LoadedCampaign(CAMPAIGNS / "mine.yaml")


def test_the_campaign_runs_both_commands_as_they_were_given():
    request = AbRequest(["python", "a.py", "--name", "two words"], ["python", "b.py", "--steps", "{steps}"])
    loaded = written(request)
    assert [cell.words for cell in loaded.cells] == [[*request.a], ["python", "b.py", "--steps", "50"]]
    assert loaded.question == {"is": "b-n1x1", "better_than": "a-n1x1", "by": 0.0}


def test_each_command_may_have_its_own_work_of_a_step():
    loaded = written(AbRequest(["a"], ["b"], per_step=("samples", [64, 256])))
    assert [(cell.words, cell.per_step) for cell in loaded.cells] == [(["a"], 64), (["b"], 256)]
    assert loaded.question == {"is": "b-n1x1-mb256", "better_than": "a-n1x1-mb64", "by": 0.0}


@pytest.mark.parametrize(
    ("b", "differing"),
    [
        ({"file b.py": "2"}, []),  # two programs are two files
        ({"file a.py": "2"}, ["file a.py"]),  # one file that has changed between the runs
        ({"file a.py": "1", "commit of the program": "3"}, ["commit of the program"]),
    ],
)
def test_programs_of_two_files_are_comparable(b, differing):
    a = {"file a.py": frozenset("1")}
    b = {name: frozenset(value) for name, value in b.items()}
    assert unintended_differences(a, b, same_program=False) == differing


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"geometry": "1x99"}, "--geometry 1x99 is not here; allowed: at most 1x2, 1 node with 2 cores"),
        ({"geometry": "2x1"}, "--geometry 2x1 is not here; allowed: at most 1x2"),
        ({"geometry": "one"}, '--geometry cannot be "one"; allowed: nodes x devices'),
        ({"patterns": {"nope": "x"}}, "unknown key --pattern nope. Allowed here: tokens_per_s"),
        ({"steps": (5, 20), "figures": "whole"}, "the command has no {steps}, so that --steps changes nothing"),
    ],
)
def test_what_is_refused_leaves_nothing_behind(tmp_path, monkeypatch, asked, words):
    monkeypatch.setattr(ab, "available_cores", lambda: 2)
    monkeypatch.setattr(ab, "cuda_devices", list)
    monkeypatch.setattr(ab, "run_snakemake", lambda *_: pytest.fail("it was started"))
    with pytest.raises(UserError) as refused:
        run_comparison(AbRequest(["a"], ["b"], series="tuning", **asked), "mine")
    assert words in str(refused.value)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("results/series/tuning.json", '{"mine": 3}', "is no series of comparisons (it is cut off"),
        ("config/campaigns/mine.yaml", "title: [", "mine.yaml, line 1, column 9: not valid YAML"),
    ],
)
def test_a_damaged_file_is_named_and_kept(tmp_path, monkeypatch, name, content, words):
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_text(content)
    monkeypatch.setattr(ab, "run_snakemake", lambda *_: pytest.fail("it was started"))
    with pytest.raises(UserError) as refused:
        run_comparison(AbRequest(["a"], ["b"], series="tuning"), "mine")
    assert words in str(refused.value)
    assert [(file, file.read_text()) for file in tmp_path.rglob("*") if file.is_file()] == [(path, content)]


def test_a_geometry_that_is_here_is_run(monkeypatch):
    monkeypatch.setattr(ab, "available_cores", lambda: 2)
    monkeypatch.setattr(ab, "cuda_devices", list)
    assert str(played(monkeypatch, geometry="1x2")[2].execution.geometry) == "1x2"


@pytest.mark.parametrize(
    ("elapsed_s", "runs_s", "rounds"),
    [
        (12.0, 4.4, 14),  # beside each round 1.9 s, and 23 s of the page
        (40.0, 36.0, 2),
        (120.0, 116.0, 1),
        (5.0, 36.0, 3),  # its runs were there already
    ],
)
def test_rounds_end_with_the_page_within_the_minutes(elapsed_s, runs_s, rounds):
    pace = Pace(elapsed_s, runs_s)
    assert pace.rounds_in(2.0) == rounds
    more = (rounds - 1) * pace.round_s
    assert elapsed_s >= 120 or elapsed_s + more < 120 < elapsed_s + more + pace.round_s + 3 * elapsed_s


def played(monkeypatch, failure=None, first_tries=(), **request):
    """What Snakemake was asked for, by `compare` in a world where each round takes 10 s, and the campaign.

    `first_tries`: the metrics of both runs of the first rounds; of later ones, `failure`.
    """
    asked, ends = [], []
    moments = count(step=6.0)
    metrics = SimpleNamespace(failure=failure and SimpleNamespace(failure_class=failure), total_wall_time_s=5.0)
    tries = iter(first_tries)

    def run(campaign, targets, limit_s):
        asked.append([str(target) for target in targets])
        ends.append(LoadedCampaign(campaign).campaign.work.seconds)
        nonlocal made
        made = next(tries, metrics)

    made = metrics
    monkeypatch.setattr(ab, "time", SimpleNamespace(monotonic=lambda: next(moments)))
    monkeypatch.setattr(ab, "read_run", lambda place: SimpleNamespace(metrics=made))
    monkeypatch.setattr(ab, "run_snakemake", run)
    monkeypatch.setattr(ab, "read_verdict", lambda *_: ab.AbVerdict("same", "as fast"))
    path, _ = run_comparison(AbRequest(["a"], ["b"], **{"minutes": 5} | request), "mine")
    return asked, ends, LoadedCampaign(path).campaign


def test_the_first_round_says_how_many_there_is_time_for(monkeypatch):
    asked, _, campaign = played(monkeypatch)
    assert asked[-1] == ["results/mine/report.html"]
    assert len(asked) == 2
    assert campaign.most_repeats == Pace(6.0, 10.0, 6.0).rounds_in(5.0)
    assert campaign.resources.time_limit == 1.25, "one round takes half of the budget at most"


def test_what_the_rounds_will_probably_show_is_said_before_them(monkeypatch, capsys):
    played(monkeypatch)
    assert "time for 24 rounds, which probably show a difference of 0.9 times the scatter" in capsys.readouterr().err
    assert _describe_rounds(3) == "there is time for 3 rounds, too few to look at them in between"


def test_a_program_that_fails_is_not_started_again(monkeypatch, capsys):
    asked, _, campaign = played(monkeypatch, failure="crash")
    assert not capsys.readouterr().err
    assert asked[-1] == ["results/mine/report.html"]
    assert campaign.most_repeats == 1


@pytest.mark.parametrize(("of_b", "has_page"), [("no_figures", False), ("crash", True), (None, True)])
def test_where_no_log_can_be_read_there_is_no_page(monkeypatch, of_b, has_page):
    """What is missing in a log is known after the first run, and nobody waits for a page without a figure."""
    targets_of_calls = []

    def run(campaign, targets, limit_s):
        targets_of_calls.append([target.name for target in targets])
        for cell in ("a-n1x1", "b-n1x1"):
            (place := Path("results/mine/runs", cell, "rep1")).mkdir(parents=True, exist_ok=True)
            (place / ab.METRICS).touch()

    def read(place):
        kind = of_b if place.parent.name == "b-n1x1" else "no_figures"
        failure = kind and SimpleNamespace(failure_class=kind, reason="not how much work a step is")
        return SimpleNamespace(metrics=SimpleNamespace(cell=place.parent.name, failure=failure, total_wall_time_s=5.0))

    monkeypatch.setattr(ab, "run_snakemake", run)
    monkeypatch.setattr(ab, "read_run", read)
    monkeypatch.setattr(ab, "read_verdict", lambda *_: ab.AbVerdict("failed", "of the page"))
    _, verdict = run_comparison(AbRequest(["a"], ["b"], minutes=2), "mine")
    assert (["report.html"] in targets_of_calls) == (verdict.sentence == "of the page") == has_page
    if not has_page:
        assert verdict.sentence == (
            "no numbers: a-n1x1, b-n1x1: no_figures: not how much work a step is; logs: results/mine/runs/*/*/train.log"
        )


def cut_short(reason: str = f"it printed nothing; {LONGER}"):
    failure = SimpleNamespace(failure_class="no_figures", reason=reason)
    return SimpleNamespace(failure=failure, total_wall_time_s=61.0)


@pytest.mark.parametrize(
    ("request_", "first_tries", "ends"),
    [
        ({}, [], [15.0, 15.0]),
        ({}, [cut_short()], [15.0, 30.0, 30.0]),  # it had hardly begun
        ({}, [cut_short()] * 2, [15.0, 30.0, 60.0, 60.0]),  # it starts slowly
        ({}, [cut_short()] * 3, [15.0, 30.0, 60.0, 60.0]),
        ({}, [cut_short("no figure is understood")], [15.0, 15.0]),  # nobody can read that, however long it is
        ({"minutes": 2}, [cut_short()], [15.0, 24.0, 24.0]),
        ({"seconds": 4.0}, [cut_short()], [4.0, 4.0]),
        ({"figures": "whole"}, [], [None, None]),
    ],
)
def test_runs_are_ended_so_that_there_is_time_for_several(monkeypatch, request_, first_tries, ends):
    assert played(monkeypatch, None, first_tries, **request_)[1] == ends


def test_a_comparison_that_is_asked_again_keeps_the_length_of_its_runs(monkeypatch):
    before = played(monkeypatch, None, [cut_short()])[2]
    asked, ends, after = played(monkeypatch)
    assert (asked, ends, after) == ([["results/mine/report.html"]], [30.0], before)
    with pytest.raises(UserError, match="with another comparison"):
        played(monkeypatch, seconds=7.0)


def test_time_that_went_into_waiting_is_noticed(tmp_path):
    log = tmp_path / "together-rep1-1.log"
    log.write_text("a-n1x1/rep1\n")
    assert not ab_verdict._has_waited(tmp_path)
    log.write_text("a-n1x1/rep1\nscaleproof: waiting for mine fsdp-n1x1/rep1 (process 1), which uses core-0\n")
    assert ab_verdict._has_waited(tmp_path)


@pytest.mark.parametrize(("in_time", "decided"), [(0, "undecided"), (1, "same"), (2, "same")])
def test_what_runs_when_the_minutes_are_over_is_ended(monkeypatch, in_time, decided):
    """The first round, all rounds with the page, the page of the finished rounds: each has the time that is left."""
    calls, sound = [], SimpleNamespace(metrics=SimpleNamespace(failure=None, total_wall_time_s=5.0))

    def run(campaign, targets, limit_s):
        calls.append((limit_s, sorted(place.name for place in Path("results/mine/runs/a-n1x1").glob("*"))))
        if len(calls) == in_time + 1:
            raise ab.OutOfTime
        for run in ("a-n1x1/rep1", "a-n1x1/rep2", "a-n1x1/rep3", "b-n1x1/rep1", "b-n1x1/rep2"):
            (place := Path("results/mine/runs", run)).mkdir(parents=True, exist_ok=True)
            (place / ab.METRICS).touch()

    monkeypatch.setattr(ab, "read_run", lambda place: sound)
    monkeypatch.setattr(ab, "run_snakemake", run)
    monkeypatch.setattr(ab, "read_verdict", lambda *_: ab.AbVerdict("same", "as fast"))
    path, verdict = run_comparison(AbRequest(["a"], ["b"], minutes=2), "mine")
    assert verdict.word == decided
    assert all(limit <= 120 - ab.GRACE_S for limit, _ in calls)
    if decided == "undecided":
        assert "cannot tell yet: the 2 min were over after 0 runs, before a page; give more of them" in verdict.sentence
    assert LoadedCampaign(path).campaign.most_repeats == {0: 1, 1: 2, 2: 12}[in_time], "two rounds are whole"
    assert in_time != 1 or calls[-1][1] == ["rep1", "rep2"], "what a third has left is removed before the page"


def test_a_page_that_is_made_when_the_minutes_end_is_read(monkeypatch):
    """Snakemake is ended, and the page is there: of all runs, or of those of an earlier call."""
    page = Path("results/mine/report.html")

    def run(campaign, targets, limit_s):
        for name in ("a-n1x1", "b-n1x1"):
            (place := page.parent / "runs" / name / "rep1").mkdir(parents=True)
            (place / ab.METRICS).touch()
        page.touch()
        raise ab.OutOfTime

    def stop(*_, **__):
        raise ab.OutOfTime

    monkeypatch.setattr(ab, "run_snakemake", run)
    monkeypatch.setattr(ab, "read_verdict", lambda *_: ab.AbVerdict("same", "as fast"))
    monkeypatch.setattr(ab, "_ratio_so_far", lambda runs: "")
    monkeypatch.setattr(ab, "read_run", lambda place: SimpleNamespace(metrics=SimpleNamespace(cell="", failure=None)))
    request = AbRequest(["a"], ["b"], minutes=2)
    assert run_comparison(request, "mine")[1].word == "same"
    assert page.is_file()
    os.utime(page, (0, 0))
    monkeypatch.setattr(ab, "run_snakemake", stop)
    assert "after 2 runs, before a page; the same command" in run_comparison(request, "mine")[1].sentence
    assert not page.exists(), "it is of fewer runs than there are"


def test_a_command_without_figures_is_said_though_the_minutes_are_over(monkeypatch):
    for name in ("a-n1x1", "b-n1x1"):
        (place := Path("results/mine/runs", name, "rep1")).mkdir(parents=True)
        (place / ab.METRICS).touch()
    failure = SimpleNamespace(failure_class="crash", reason="the command ended with exit code 3")

    def read(place):
        cell = place.parent.name
        return SimpleNamespace(metrics=SimpleNamespace(cell=cell, failure=failure if cell == "a-n1x1" else None))

    monkeypatch.setattr(ab, "read_run", read)
    verdict = ab._verdict_without(Path("results/mine/report.html"), AbRequest(["a"], ["b"], minutes=2))
    assert verdict.word == "failed"
    assert verdict.sentence == "no numbers: a-n1x1: crash: the command ended with exit code 3"
    failure = None
    verdict = ab._verdict_without(Path("results/mine/report.html"), AbRequest(["a"], ["b"], minutes=2))
    assert verdict.word == "undecided"


STUBBORN = """
import signal, subprocess, sys, time
code = "import signal; [signal.signal(number, signal.SIG_IGN) for number in (2, 15)]; signal.pause()  # ab-stubborn"
subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
signal.pause()
"""


@pytest.mark.fault("scaleproof ab is stopped, and Snakemake is not told", "the programs end within seconds")
def test_all_that_snakemake_started_ends_with_the_command(tmp_path):
    (tmp_path / "snakemake.py").write_text(STUBBORN)
    code = "from scaleproof.driver.snakemake_view import run_snakemake as run; run('config/campaigns/mine.yaml', [])"
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    command = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    wait_until(lambda: alive("# ab-stubborn"), command)
    command.send_signal(signal.SIGINT)
    said = command.communicate()[1]
    assert "KeyboardInterrupt" in said
    assert "config/campaigns/mine.yaml and its finished runs stay; the same command goes on" in said
    assert not alive("# ab-stubborn")


def test_the_command_has_the_defaults_of_its_request(monkeypatch):
    asked = []
    monkeypatch.setattr(
        ab, "run_comparison", lambda request, *_: asked.append(request) or (Path("x.yaml"), AbVerdict("faster", ""))
    )
    monkeypatch.setattr(sys, "argv", ["scaleproof", "ab", "--", sys.executable, "-V", "--", sys.executable, "-VV"])
    main()
    assert asked == [AbRequest([sys.executable, "-V"], [sys.executable, "-VV"])]
