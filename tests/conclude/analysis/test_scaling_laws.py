"""Laws of scaling: the fraction that went in comes out, and nothing where they are not defined."""

import numpy as np
import pytest
from result_models import estimated, scaling, series

from scaleproof.conclude.analysis.scaling_laws import fit_scaling_law, karp_flatt
from scaleproof.conclude.report.sentences.scaling import law_sentences


def amdahl(fraction, sizes, repeats=1, noise=0.0, seed=0):
    random = np.random.default_rng(seed)
    speedup = {n: 1 / (fraction + (1 - fraction) / n) for n in sizes}
    return {n: {k: 1000 * s * random.lognormal(0, noise) for k in range(repeats)} for n, s in speedup.items()}


def test_amdahls_fraction_is_recovered():
    law = fit_scaling_law("strong", amdahl(0.08, (1, 2, 4, 8)))
    assert law.law == "amdahl"
    assert law.fraction.value == pytest.approx(0.08)
    assert law.limit == pytest.approx(1 / 0.08)
    assert law.fraction.low is None, "one repeat has no interval"


def test_gustafsons_fraction_is_recovered():
    rates = {n: {1: 1000 * (n - 0.1 * (n - 1))} for n in (1, 2, 4, 16)}
    law = fit_scaling_law("weak", rates)
    assert law.law == "gustafson"
    assert law.fraction.value == pytest.approx(0.1)
    assert law.limit is None


def test_the_interval_of_the_fraction_covers_it():
    """Baseline noise moves all speed-ups of a repeat together; the interval over repeats has it in."""
    trials = 1000
    laws = [
        fit_scaling_law("strong", amdahl(0.1, (1, 2, 4, 8), repeats=5, noise=0.02, seed=k)).fraction
        for k in range(trials)
    ]
    covered = sum(f.low <= 0.1 <= f.high for f in laws) / trials
    assert 0.93 <= covered <= 0.97


@pytest.mark.parametrize(
    ("rates", "why"),
    [
        ({1: {1: 100.0}, 2: {1: 190.0}}, "2 sizes"),
        ({2: {1: 100.0}, 4: {1: 190.0}, 8: {1: 300.0}}, "smallest size has 2 devices"),
        ({1: {1: 6143.0}, 2: {1: 2835.0}, 4: {1: 4913.0}}, "no faster than one device on 2, 4"),
        ({1: {1: 100.0}, 2: {1: 190.0}, 4: {2: 350.0}}, "no repeat has runs of all sizes"),
        ({}, "0 sizes"),
    ],
)
def test_no_law_where_it_is_not_defined(rates, why):
    """The published P = 0.43 from a speed-up below 1 is such a case: the formula gives -1.56."""
    law = fit_scaling_law("strong", rates)
    assert law.fraction is None
    assert why in law.undefined


def test_karp_flatt_is_the_serial_fraction_of_one_point():
    shown = estimated(1 / (0.05 + 0.95 / 4), 3.0, 3.6, 5)
    found = karp_flatt(shown, 4)
    assert found.value == pytest.approx(0.05)
    assert found.low < 0.05 < found.high
    assert karp_flatt(estimated(0.8, 0.7, 0.9, 5), 4) is None
    assert karp_flatt(None, 4) is None
    assert karp_flatt(shown, 1) is None


def test_a_fraction_outside_of_its_range_is_no_number():
    superlinear = estimated(4.4, 4.1, 4.7, 5)
    assert karp_flatt(superlinear, 4) is None
    wide = karp_flatt(estimated(1.1, 0.6, 5.0), 4)
    assert (wide.low, wide.high) == (0.0, 1.0)


def test_a_law_that_does_not_hold_is_no_basis_for_a_limit():
    """T = 1/N + 0.02 log2 N: communication grows with N, which Amdahl's law does not have."""
    random = np.random.default_rng(1)
    rates = {n: 1000 / (1 / n + 0.02 * np.log2(n)) for n in (1, 2, 4, 8, 16)}
    growing = {n: {k: rate * random.lognormal(0, 0.005) for k in range(5)} for n, rate in rates.items()}
    law = fit_scaling_law("strong", growing)
    assert law.lack_of_fit.devices in (2, 4, 8, 16)
    assert abs(law.lack_of_fit.percent) > 1
    assert law.limit is None
    (sentence,) = law_sentences(scaling(series=[series(law=law)]), "strong")
    assert "It does not fit: ddp is" in sentence


def test_sizes_are_compared_within_a_repeat():
    """The machine was half as fast in repeat 2, of which the third size has no run."""
    rates = {1: {1: 100.0, 2: 50.0, 3: 100.0}, 2: {1: 190.0, 2: 95.0, 3: 190.0}, 4: {1: 340.0, 3: 340.0}}
    law = fit_scaling_law("strong", rates)
    assert law.fraction.n == 2
    assert law.fraction.low == pytest.approx(law.fraction.high)


def test_a_law_that_holds_is_seldom_doubted():
    laws = [fit_scaling_law("strong", amdahl(0.1, (1, 2, 4, 8), repeats=5, noise=0.02, seed=k)) for k in range(300)]
    doubted = [law.lack_of_fit for law in laws]
    assert sum(d is not None for d in doubted) / 300 <= 0.08
