"""How often cells run: a number, or until their comparison is decided."""

import json
from pathlib import Path

import pytest

from scaleproof.ground.campaign.loaded import LoadedCampaign, look_file
from scaleproof.ground.campaign.repeats import RepeatUntil, repeats_text
from scaleproof.ground.errors import UserError

UNTIL = "title: x\nrepeats: {resolve: 3 %, at_least: 3, at_most: 12}\nvary: {strategy: [ddp, zero1]}\n"


@pytest.fixture
def load(tmp_path, monkeypatch, repository):
    (tmp_path / "config").mkdir()
    (tmp_path / "config/corpora.yaml").write_text((repository / "config/corpora.yaml").read_text())
    monkeypatch.chdir(tmp_path)

    def of(text: str) -> LoadedCampaign:
        Path("mine.yaml").write_text(text)
        return LoadedCampaign(Path("mine.yaml"))

    return of


def test_looks_lie_further_apart_the_more_repeats_there_are():
    assert list(RepeatUntil(resolve=0.03).looks()) == [3, 4, 5, 7, 9, 12]
    assert list(RepeatUntil(resolve=0.03, at_least=3, at_most=4).looks()) == [3, 4]


def test_a_campaign_plans_the_repeats_that_looks_have_asked_for(load):
    loaded = load(UNTIL)
    results = Path("results")
    assert len(loaded.runs(results)) == 2 * 3
    for repeats, goes_on in ((3, True), (4, True), (5, False)):
        path = look_file(results, "mine", repeats)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"goes_on": goes_on}))
    assert len(loaded.runs(results)) == 2 * 5
    assert len(loaded.runs(results, 4)) == 2 * 4
    path.write_text("{}")
    with pytest.raises(UserError, match=r"5\.json is damaged"):
        loaded.runs(results)


def test_all_first_repeats_come_before_any_second_one(load):
    loaded = load(UNTIL)
    first = min(loaded.priority(cell.slug, 1) for cell in loaded.cells)
    assert first > max(loaded.priority(cell.slug, 2) for cell in loaded.cells)
    assert min(loaded.priority(cell.slug, 12) for cell in loaded.cells) > 0, "before traces"


def test_a_number_is_a_number(load):
    assert len(load("title: x\nrepeats: 4\n").runs(Path("results"))) == 4
    assert repeats_text(1) == "1 repeat"
    assert repeats_text(RepeatUntil(resolve=0.03)) == "3 to 12 repeats"


@pytest.mark.parametrize(
    ("repeats", "message"),
    [
        ("{at_least: 3}", "repeats.resolve is missing"),
        ("{resolve: 0 %}", "0 % is never resolved"),
        ("{resolve: 3 %, at_least: 12}", "at_least 12 must be less than at_most 12"),
        ("{resolve: 3 %, at_least: 2}", "repeats.at_least cannot be 2; allowed: a whole number >= 3"),
        ("{resolve: 3 percent}", "allowed: a percentage below 100 % like 2 %"),
        ("{resolve: 3 %, minutes: 0}", "repeats.minutes cannot be 0; allowed: a number > 0"),
        ("{resolv: 3 %}", 'Did you mean "resolve"?'),
        ("{resolve: 3 %, at_most: 10000}\nvary: {seed: [1,2,3,4,5,6,7,8,9,10,11]}", "110,000 runs"),
        ("{resolve: 3 %}\nvary: {geometry: [1x1, 1x2]}\nforecast: {hold_out: [1x2]}", "give repeats as a number"),
    ],
)
def test_wrong_keys_are_named(load, repeats, message):
    with pytest.raises(UserError) as error:
        load(f"title: x\nrepeats: {repeats}\n")
    assert message in str(error.value)
    assert "mine.yaml, line 2" in str(error.value) or "line 4" in str(error.value)


def test_pairs_are_even(load):
    with pytest.raises(UserError, match=r"compare\[0\]\.pairs: 3 is odd, .*; allowed: even numbers, e\.g\. 4"):
        load("title: x\ncompare: [{name: a, b: {fused_optimizer: false}, pairs: 3}]\n")
    assert load("title: x\ncompare: [{name: a, b: {fused_optimizer: false}, pairs: 4}]\n").comparisons


def test_a_single_cell_has_nothing_to_resolve(load):
    with pytest.raises(UserError, match=r"line 2: repeats.resolve: ddp-n1x1 is the only cell"):
        load("title: x\nrepeats: {resolve: 3 %}\n")
