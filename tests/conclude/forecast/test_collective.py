"""Tables of collectives: interpolation, groups, levels, and what they refuse."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaleproof.conclude.forecast.collective import (
    COLLECTIVES,
    CollectiveTimes,
    Group,
    Network,
    Unsupported,
    bus_bandwidth,
    factor,
    hops,
    non_decreasing,
)

PUBLISHED = json.loads((Path(__file__).parent / "series" / "all_reduce_8.json").read_text())
LATENCY, BANDWIDTH = 1e-5, 1e10


PAIR = Group(1, 2)


def table(name: str = "all_reduce", group: Group = PAIR, sizes: tuple = (4096, 65536, 2**20, 2**26)) -> CollectiveTimes:
    seconds = (hops(name, group.size) * LATENCY + factor(name, group.size) * size / BANDWIDTH for size in sizes)
    return CollectiveTimes(name, group, sizes, tuple(seconds))


@pytest.mark.parametrize(("name", "worst"), [("all_reduce", 0.14), ("all_gather", 0.21), ("reduce_scatter", 0.23)])
def test_a_published_table_without_every_other_row_gives_these_rows(name, worst):
    """Within 6 % from 32 MiB, where a line in (log, log) bends little; at the knee no row of four says where it is."""
    rows = [(int(size), us / 1e6) for size, us in PUBLISHED[name].items()]
    half = CollectiveTimes(name, Group(1, 8), tuple(s for s, _ in rows[::2]), tuple(t for _, t in rows[::2]))
    errors = {size: abs(half.at(size) / t - 1) for size, t in rows[1::2] if size <= half.sizes[-1]}
    assert max(errors.values()) < worst
    assert max(error for size, error in errors.items() if size >= 2**25) < 0.06


def test_a_time_at_a_measured_size_is_the_measured_one():
    assert table().at(65536) == pytest.approx(table().seconds[1])


@given(st.lists(st.floats(1e-6, 1.0), min_size=2, max_size=12), st.floats(1, 2**27), st.floats(1, 4))
def test_time_never_falls_with_size(seconds, nbytes, factor):
    sizes = tuple(2**i * 1024 for i in range(len(seconds)))
    measured = CollectiveTimes("all_reduce", Group(1, 4), sizes, tuple(seconds))
    small = min(max(nbytes, sizes[0] / 2), sizes[-1] * 2)
    large = min(small * factor, sizes[-1] * 2)
    assert measured.at(small) <= measured.at(large) * (1 + 1e-9)


def test_time_never_falls_with_ranks():
    network = Network((table("all_reduce"), table("all_gather"), table("reduce_scatter"), table("broadcast")))
    for name in COLLECTIVES:
        for nbytes in (4096, 2**20, 2**26):
            times = [network.seconds(name, nbytes, Group(1, n)) for n in (1, 2, 3, 4, 8)]
            assert times == sorted(times)


def test_a_larger_group_of_the_same_law_is_met():
    network = Network((table(),))
    for nbytes in (4096, 2**20, 2**26):
        assert network.seconds("all_reduce", nbytes, Group(1, 8)) == pytest.approx(
            hops("all_reduce", 8) * LATENCY + factor("all_reduce", 8) * nbytes / BANDWIDTH, rel=1e-3
        )


def test_bus_bandwidth_is_that_of_the_link_whatever_the_group():
    for size in (2, 4, 8):
        one = table(group=Group(1, size), sizes=(2**26, 2**30))
        assert bus_bandwidth("all_reduce", size, 2**30, one.at(2**30)) == pytest.approx(BANDWIDTH, rel=0.01)
        assert bus_bandwidth("all_reduce", size, 2**30, one.at(2**30)) <= BANDWIDTH


def test_rails_carry_a_share_each_and_one_card_all_of_it():
    sizes = (2**20, 2**26, 2**32)  # without latency
    tables = tuple(table(name, group, sizes) for name in COLLECTIVES for group in (Group(1, 4), Group(2, 1)))
    shared = Network(tables).seconds("all_reduce", 2**32, Group(2, 4))
    rails = Network(tables, rails=True).seconds("all_reduce", 2**32, Group(2, 4))
    inside = sum(Network(tables).seconds(name, 2**32, Group(1, 4)) for name in ("reduce_scatter", "all_gather"))
    assert (shared - inside) / (rails - inside) == pytest.approx(4, rel=0.01)


@pytest.mark.parametrize(
    ("code", "nbytes", "group"),
    [
        ("message-outside-sweep", 2**28, Group(1, 2)),
        ("message-outside-sweep", 1024, Group(1, 2)),
        ("link-never-swept", 2**20, Group(2, 1)),
        ("group-too-large", 2**20, Group(1, 16)),
    ],
)
def test_what_was_not_swept_is_refused(code, nbytes, group):
    with pytest.raises(Unsupported) as refused:
        Network((table(),)).seconds("all_reduce", nbytes, group)
    assert refused.value.code == code
    assert "sweep all_reduce in" in refused.value.measure


def test_pooling_keeps_what_is_sorted_and_the_mean_of_what_is_not():
    assert non_decreasing([1, 2, 3]) == [1, 2, 3]
    assert non_decreasing([3, 1, 2]) == [2, 2, 2]
