"""How the time of a campaign is best spent: by what whole runs and single steps scatter."""

import numpy as np
import pytest
from synthetic import cells, write_run

from scaleproof.conclude.analysis.ab_comparison import Pair
from scaleproof.conclude.analysis.design import best_split, best_split_of_pairs, variance_parts
from scaleproof.conclude.analysis.scaling import scaling_report
from scaleproof.ground.findings.finding import Findings


@pytest.fixture
def measured(tmp_path):
    """Runs of four cells of three repeats, 30 steps each: cell -> runs."""

    def make(run_sd, step_sd):
        random = np.random.default_rng(5)
        members = cells(vary={"strategy": ["ddp", "fsdp", "zero1", "zero2"], "geometry": ["1x2"]})
        return {
            cell.slug: [
                write_run(
                    tmp_path, cell, k, 0.1 * np.exp(run_sd * random.standard_normal()), seed=place, spread=step_sd
                )
                for k in (1, 2, 3)
            ]
            for place, cell in enumerate(members)
        }

    return make


def test_what_whole_runs_scatter_by_asks_for_more_and_shorter_ones(measured):
    runs = measured(run_sd=0.08, step_sd=0.02)
    parts = variance_parts(runs)
    assert 0.02 < parts.of_runs**0.5 < 0.16
    assert parts.of_steps < parts.of_runs / 10
    now, better = best_split(runs)
    assert (now.repeats, now.steps) == (3, 30)
    assert better.repeats > 3
    assert better.steps < 30
    assert better.difference < 0.9 * now.difference


def test_where_steps_scatter_the_parts_say_so(measured):
    parts = variance_parts(measured(run_sd=0.0, step_sd=0.3))
    assert parts.of_steps == pytest.approx(0.3**2 / 30, rel=0.7)
    assert parts.of_runs < 2 * 0.3**2 / 30


def test_of_one_cell_or_of_two_repeats_nothing_is_known(measured):
    runs = measured(run_sd=0.05, step_sd=0.02)
    assert variance_parts(dict(list(runs.items())[:1])) is None
    assert best_split({cell: of_cell[:2] for cell, of_cell in runs.items()}) is None


def test_a_split_shows_what_the_report_says_that_the_runs_show(measured):
    cells_ = measured(run_sd=0.08, step_sd=0.02)
    none = Findings(campaign="demo", checks=[], findings=[])
    report = scaling_report("demo", "Demo", [run for runs in cells_.values() for run in runs], none)
    now, _ = best_split(cells_)
    assert now.difference == pytest.approx(report.ranking[-1].resolve.detectable, rel=1e-9)


def _pairs(tmp_path, run_sd, step_sd):
    """Four pairs of A and B and two of A and A, 30 steps each."""
    random = np.random.default_rng(5)
    (cell,) = cells(vary={"strategy": ["ddp"], "geometry": ["1x2"]})

    def run(k):
        return write_run(tmp_path, cell, k, 0.1 * np.exp(run_sd * random.standard_normal()), seed=k, spread=step_sd)

    return [Pair(null=k > 3, a=run(2 * k + 1), b=run(2 * k + 2)) for k in range(6)]


def test_pairs_of_runs_that_scatter_ask_for_more_and_shorter_ones(tmp_path):
    now, better = best_split_of_pairs(_pairs(tmp_path, run_sd=0.08, step_sd=0.02))
    assert (now.repeats, now.steps) == (4, 30)
    assert better.repeats > 4
    assert better.steps < 30


def test_where_steps_scatter_pairs_stay_as_they_are(tmp_path):
    assert best_split_of_pairs(_pairs(tmp_path, run_sd=0.0, step_sd=0.5)) is None


def test_of_two_pairs_nothing_is_known(tmp_path):
    pairs = _pairs(tmp_path, run_sd=0.08, step_sd=0.02)
    assert best_split_of_pairs([*pairs[:2], *pairs[4:]]) is None
