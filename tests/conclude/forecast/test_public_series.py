"""The law and its intervals on public series, by the product's own functions."""

import numpy as np
import pytest
from published_series import (
    ddp_errors,
    half_log_slope,
    is_held_back,
    public_forecasts,
    public_tables,
    simumax_inside,
    unchanged,
    v100_error,
    weighted_quantile,
)

from scaleproof.conclude.forecast.law import A_DOUBLING, FROM_ONE, TABLES

FORECASTS = public_forecasts()
LEVELS = ("node", "network")


def answered(known: int, level: str) -> list:
    return [f for f in FORECASTS if f.known == known and f.target.group.level == level and f.error is not None]


def mean_error(forecasts: list) -> float:
    return float(np.mean([abs(f.error) for f in forecasts]))


def test_the_library_has_as_many_tables_as_it_says():
    tables = public_tables()
    assert len(tables) == TABLES
    assert sum(map(len, tables.values())) == 191


@pytest.mark.parametrize("level", LEVELS)
def test_the_half_widths_are_those_of_the_series(level):
    one, more = answered(1, level), answered(2, level)
    for share, of_one, a_doubling in (
        (0.8, FROM_ONE[level].likely, A_DOUBLING[level].likely),
        (0.95, FROM_ONE[level].nearly_all, A_DOUBLING[level].nearly_all),
    ):
        from_one = weighted_quantile([f.residual for f in one], [f.table for f in one], share)
        assert from_one == pytest.approx(of_one, abs=0.0006)
        distances = [np.log2(f.target.group.size / f.sizes[-1].group.size) for f in more]
        each = [f.residual / max(distance, 1.0) for f, distance in zip(more, distances, strict=True)]
        assert weighted_quantile(each, [f.table for f in more], share) == pytest.approx(a_doubling, abs=0.0006)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("doublings", [1, 2])
def test_on_tables_that_chose_nothing_it_is_as_good_as_the_one_line_law(level, doublings):
    """Half of the files, on which no choice of the law was made."""
    chosen = [f for f in answered(2, level) if f.doublings == doublings and is_held_back(f)]
    other = float(np.mean([abs(f.error_of(half_log_slope)) for f in chosen]))
    assert len(chosen) > 10
    assert mean_error(chosen) <= other + 1e-9


@pytest.mark.parametrize("level", LEVELS)
def test_from_one_size_it_is_better_than_an_unchanged_rate(level):
    held = [f for f in answered(1, level) if is_held_back(f)]
    assert mean_error(held) < np.mean([abs(f.error_of(unchanged)) for f in held])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("known", [1, 2])
def test_intervals_hold_in_tables_that_were_left_out(level, known):
    forecasts = answered(known, level)
    tables = {f.table for f in forecasts}
    inside = []
    for table in tables:
        own = [f for f in forecasts if f.table == table]
        rest = [f for f in forecasts if f.table != table]
        limit = weighted_quantile([f.residual / f.half_widths.nearly_all for f in rest], [f.table for f in rest], 0.95)
        inside.append(np.mean([f.residual / f.half_widths.nearly_all <= limit for f in own]))
    assert 0.92 <= np.mean(inside) <= 0.98


def test_few_are_refused_and_super_linear_series_are():
    refused = [f for f in FORECASTS if f.error is None]
    assert len(refused) / len(FORECASTS) < 0.10
    assert {f.refusal for f in refused} == {"super-linear"}


def test_ddp_in_a_node_from_one_and_two_devices():
    for kind in ("strong", "weak"):
        assert max(map(abs, ddp_errors(kind).values())) < 0.06
    assert abs(v100_error()) < 0.11


def test_a_ledger_of_anothers_forecasts_corrects_their_bias_and_covers():
    """43 analytical predictions err by -5.6 % on average: corrected by the others, each is within its interval."""
    errors, inside = simumax_inside()
    assert sum(map(abs, errors)) / 43 < 0.03
    assert sum(inside) / 43 >= 0.92
