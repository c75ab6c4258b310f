"""The campaign of an A/B comparison: which one it is, its rounds, and what more minutes add to it."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from scaleproof.conclude.report.sentences.ab import AbVerdict
from scaleproof.driver import ab
from scaleproof.driver.ab import run_comparison
from scaleproof.driver.ab_campaign import (
    AbRequest,
    campaign_file,
    make_campaign,
    read_campaign,
    run_lengths_to_try,
    write_campaign,
)
from scaleproof.ground.campaign.campaign_paths import CAMPAIGNS
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.errors import UserError


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def written(request: AbRequest, rounds: int = 1, chance: float | None = None) -> LoadedCampaign:
    write_campaign(CAMPAIGNS / "mine.yaml", make_campaign(request, rounds, chance))
    return LoadedCampaign(CAMPAIGNS / "mine.yaml")


def test_another_comparison_needs_another_name():
    written(AbRequest(["a"], ["b"]), rounds=9)
    path = CAMPAIGNS / "mine.yaml"
    assert read_campaign(path, AbRequest(["a"], ["b"], minutes=99, difference=0.5))["repeats"]["at_most"] == 9
    for other in (AbRequest(["a"], ["c"]), AbRequest(["a"], ["b"], geometry="1x2")):
        with pytest.raises(UserError, match="with another comparison"):
            read_campaign(path, other)


def test_with_more_minutes_it_is_the_same_comparison():
    asked = AbRequest(["a"], ["b"], minutes=1)
    assert replace(asked, minutes=3).name == asked.name
    assert replace(asked, seconds=9.0).name != asked.name


@pytest.mark.parametrize(("minutes", "first_s"), [(1, 12.0), (2, 15.0), (9, 15.0)])
def test_runs_of_an_earlier_call_set_the_length_where_the_minutes_allow_it(minutes, first_s):
    asked = AbRequest(["a"], ["b"], minutes=minutes)
    assert run_lengths_to_try(asked, tried=15.0)[0] == first_s
    write_campaign(CAMPAIGNS / "mine.yaml", make_campaign(asked, seconds=first_s))
    assert LoadedCampaign(CAMPAIGNS / "mine.yaml").campaign.work.seconds == first_s


def test_what_another_version_has_named_otherwise_is_gone_on_with(capsys):
    asked = AbRequest(["a"], ["b"], minutes=3)
    assert campaign_file(asked) == CAMPAIGNS / f"{asked.name}.yaml"
    earlier = CAMPAIGNS / "ab-0ld0ld00.yaml"
    write_campaign(earlier, make_campaign(replace(asked, minutes=1), 3, seconds=11.0))
    assert campaign_file(asked) == earlier
    assert campaign_file(asked, "mine") == CAMPAIGNS / "mine.yaml"
    assert capsys.readouterr().err == ""

    (CAMPAIGNS / "ab-not-ours.yaml").write_text("title: x\nvary: [1]\n")
    (CAMPAIGNS / "ab-damaged.yaml").write_text("title: [\n")
    at_two = replace(asked, geometry="1x2")
    assert campaign_file(at_two) == CAMPAIGNS / f"{at_two.name}.yaml", "another comparison"
    said = "it has the same commands with other options, or by an earlier version"
    assert capsys.readouterr().err == f"scaleproof: left alone: {earlier} ({said})\n"
    assert campaign_file(AbRequest(["a"], ["c"])).stem != earlier.stem
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("minutes", "request_", "word", "made", "repeats"),
    [
        (3, {}, "undecided", [(4, None), (12, 0.025)], "judged at half of 5 %: a look at three rounds was taken"),
        (1, {}, "undecided", [(3, None)], "no more minutes: the same answer"),
        (3, {}, "faster", [(3, None)], "it is decided"),
        (3, {"series": "tuning"}, "undecided", [(3, None)], "its part of the budget is spent"),
    ],
)
def test_more_minutes_go_on_with_the_rounds_that_are_there(monkeypatch, minutes, request_, word, made, repeats):
    asked, seen = AbRequest(["a"], ["b"], minutes=1, **request_), []
    write_campaign(CAMPAIGNS / "mine.yaml", make_campaign(asked, 3, seconds=11.0))

    def run(campaign, targets, limit_s):
        loaded = LoadedCampaign(campaign)
        rule = loaded.campaign.repeat_until
        seen.append((loaded.campaign.most_repeats, rule.chance if rule else None))
        assert loaded.campaign.work.seconds == 11, "its runs keep their length"

    monkeypatch.setattr(ab, "_whole_rounds", lambda *_: 3)
    sound = SimpleNamespace(metrics=SimpleNamespace(failure=None, total_wall_time_s=5.0))
    monkeypatch.setattr(ab, "read_run", lambda place: sound)
    monkeypatch.setattr(ab.Pace, "rounds_in", lambda *_: 9)
    monkeypatch.setattr(ab, "run_snakemake", run)
    monkeypatch.setattr(ab, "read_verdict", lambda *_: AbVerdict(word, ""))
    page, table = Path("results/mine/report.html"), Path("results/mine/runs.csv")
    page.parent.mkdir(parents=True)
    page.touch()
    table.touch()
    run_comparison(replace(asked, minutes=minutes), "mine")
    assert seen == made, repeats
    assert table.exists() == (len(made) == 1), "with it, Snakemake does not miss a look"


def test_rounds_that_do_not_get_further_leave_the_answer_as_it_was(monkeypatch):
    asked = AbRequest(["a"], ["b"], minutes=1)
    write_campaign(CAMPAIGNS / "mine.yaml", before := make_campaign(asked, 3, seconds=11.0))

    def stop(*_, **__):
        raise ab.OutOfTime

    monkeypatch.setattr(ab, "_whole_rounds", lambda *_: 3)
    monkeypatch.setattr(ab, "run_snakemake", stop)
    assert run_comparison(replace(asked, minutes=3), "mine")[1].word == "undecided"
    assert read_campaign(CAMPAIGNS / "mine.yaml", asked) == before


def test_the_looks_share_the_rounds_that_there_is_time_for():
    request = AbRequest(["a"], ["b"])
    assert written(request, 1).campaign.repeats == 1
    rule = written(request, 9).campaign.repeat_until
    assert (rule.at_least, rule.at_most) == (4, 9)
    assert make_campaign(request, 3)["repeats"] == 3
    assert make_campaign(request, 4)["repeats"]["at_most"] == 4
    assert make_campaign(request, 500)["repeats"]["at_most"] == 30
    # Without looks nothing says a level, and 5 % is more than the series has left.
    assert make_campaign(request, 3, chance=0.01)["repeats"] == 1
    # What was looked at is not looked at again.
    assert [make_campaign(request, rounds, looked=6)["repeats"]["at_least"] for rounds in (7, 9, 99)] == [6, 7, 7]


@pytest.mark.parametrize(("minutes", "failure", "left"), [(3, "timeout", 0), (1, "timeout", 2), (3, "crash", 2)])
def test_what_was_stopped_at_the_limit_of_fewer_minutes_is_made_again(monkeypatch, minutes, failure, left):
    asked = AbRequest(["a"], ["b"], minutes=1)
    write_campaign(CAMPAIGNS / "mine.yaml", make_campaign(asked, 1, seconds=11.0))
    places = LoadedCampaign(CAMPAIGNS / "mine.yaml").runs(Path("results"))
    for place in places:
        place.mkdir(parents=True)
        (place / ab.METRICS).touch()
    why = SimpleNamespace(failure_class=failure, reason="")
    monkeypatch.setattr(ab, "read_run", lambda _: SimpleNamespace(metrics=SimpleNamespace(failure=why, cell="a-n1x1")))
    seen = []

    def run(*_, **__):
        seen.append(sum(map(Path.exists, places)))
        raise ab.OutOfTime

    monkeypatch.setattr(ab, "run_snakemake", run)
    run_comparison(replace(asked, minutes=minutes), "mine")
    assert seen == [left]
