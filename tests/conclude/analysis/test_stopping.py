"""When repeats end: at what level, and what a look says."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.special import stdtrit
from synthetic import cells, write_run

from scaleproof.conclude.analysis.scaling import scaling_report
from scaleproof.conclude.analysis.stopping import confidence_at, is_resolved, shown_in_scatters
from scaleproof.ground.campaign.repeats import RepeatUntil
from scaleproof.ground.findings.finding import Findings
from scaleproof.ground.records.run import read_run

RULE = RepeatUntil(resolve=0.03)
NOTHING = Findings(campaign="synthetic", checks=[], findings=[])
STEADY = (1.0, 1.001, 0.999)
NOISY = (1.0, 1.3, 0.8)


def test_levels_of_all_looks_add_up():
    assert sum(1 - confidence_at(RULE, n) for n in RULE.looks()) == pytest.approx(0.05)
    assert confidence_at(RULE, 3) == pytest.approx(1 - 0.05 * (3 / 12) ** 3)
    assert confidence_at(RULE, 12) < 0.98, "most is left for the last look"
    assert confidence_at(RULE, 6) == confidence_at(RULE, 7), "between looks the next one counts"


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(1.01, 1.2, True), (0.8, 0.99, True), (0.98, 1.02, True), (0.96, 1.02, False), (0.98, 1.04, False)],
)
def test_a_ratio_is_resolved_by_a_difference_or_by_a_small_interval(low, high, expected):
    assert is_resolved((low, high), 0.03) is expected
    assert not is_resolved(None, 0.03)


@pytest.fixture
def look(tmp_path):
    """The report of three repeats. `times`: (strategy, geometry) -> step time; `noise`: factors of its repeats."""

    def take(times, noise=STEADY, rule=RULE, question=None):
        runs = []
        for place, ((strategy, geometry), seconds) in enumerate(times.items()):
            (cell,) = cells(vary={"strategy": [strategy], "geometry": [geometry]})
            factors = noise[place % 3 :] + noise[: place % 3]
            runs += [write_run(tmp_path, cell, k, seconds * f, spread=0) for k, f in enumerate(factors, start=1)]
        return scaling_report("synthetic", "Which?", runs, NOTHING, question=question, repeat_until=rule)

    return take


TWO = {("ddp", "1x2"): 0.06, ("zero1", "1x2"): 0.08}
QUESTION = {"is": "ddp-n1x2", "better_than": "zero1-n1x2", "by": 0.02}


def test_a_clear_difference_ends_the_campaign(look):
    seen = look(TWO).repeats
    assert (seen.decided, seen.goes_on, seen.why) == (True, False, "decided")


def test_noise_goes_on(look):
    seen = look(TWO, NOISY).repeats
    assert (seen.decided, seen.goes_on, seen.why) == (False, True, None)


def test_a_question_is_what_has_to_be_decided(look):
    times = TWO | {("zero2", "1x2"): 0.06}  # which of ddp and zero2 is faster is not asked
    report = look(times, question=QUESTION)
    assert report.question.status == "yes"
    assert report.repeats.why == "decided"


def test_as_fast_within_what_matters_is_a_decision(look):
    equal = {("ddp", "1x2"): 0.06, ("zero1", "1x2"): 0.06}
    question = QUESTION | {"by": 0.0}
    rule = RepeatUntil(resolve=0.03, at_most=4)
    assert look(equal, rule=rule, question=question).question.status == "near"


def test_the_speed_up_of_one_series_is_what_has_to_be_decided(look):
    assert look({("ddp", "1x1"): 0.1, ("ddp", "1x2"): 0.06}).repeats.why == "decided"


def test_a_cell_alone_is_nothing_to_repeat_for(look):
    seen = look({("ddp", "1x1"): 0.1}).repeats
    assert (seen.goes_on, seen.why) == (False, "nothing-to-compare")


@pytest.mark.parametrize(
    ("budget", "why"),
    [({"minutes": 0.01}, "minutes"), ({"device_hours": 1e-5}, "device_hours"), ({"minutes": 1e6}, None)],
)
def test_a_budget_that_the_next_round_exceeds_ends_the_campaign(look, budget, why):
    seen = look(TWO, NOISY, RepeatUntil(resolve=0.03, **budget)).repeats
    assert (seen.decided, seen.goes_on, seen.why) == (False, why is None, why)


def test_intervals_have_the_level_of_their_look(look):
    report = look(TWO)
    assert report.repeats.confidence == pytest.approx(1 - 0.05 * (3 / 12) ** 3)
    fixed = scaling_report("synthetic", "Which?", report_runs(report), NOTHING)
    widths = [r.ranking[0].cells[1].relative_to_fastest for r in (report, fixed)]
    assert widths[0].high > widths[1].high
    assert widths[0].value == widths[1].value
    assert fixed.repeats is None


def report_runs(report):
    """The runs that a report was made from."""
    return [read_run(Path(path).parent) for point in report.points for path in point.metrics_paths]


@pytest.mark.parametrize("chance", [0.05, 0.00125])
@pytest.mark.parametrize("rounds", [5, 9, 16, 30])
def test_what_is_said_to_be_shown_is_shown(rounds, chance):
    """7 to 9 times in 10: pairs of runs whose true difference is what `ab` says before them."""
    rule = RepeatUntil(resolve=0.02, at_least=4, at_most=rounds, chance=chance)
    random, scatter = np.random.default_rng(1), 0.03
    logs = random.normal(shown_in_scatters(rule) * scatter, math.sqrt(2) * scatter, (4000, rounds))
    shown = np.zeros(len(logs), bool)
    for look in rule.looks():
        error = logs[:, :look].std(axis=1, ddof=1) / math.sqrt(look)
        half = stdtrit(look - 1, (1 + confidence_at(rule, look)) / 2) * error
        shown |= logs[:, :look].mean(axis=1) > half
    assert 0.68 < shown.mean() < 0.92
