"""Groups, and bandwidths that are comparable between them."""

import pytest

from scaleproof.conclude.forecast.collective import COLLECTIVES, Group, bus_bandwidth, bus_factor

LATENCY, BANDWIDTH = 1e-5, 1e10


@pytest.mark.parametrize("name", COLLECTIVES)
def test_bus_bandwidth_is_that_of_the_link_whatever_the_group(name):
    for size in (2, 4, 8):
        seconds = LATENCY + bus_factor(name, size) * 2**30 / BANDWIDTH
        assert bus_bandwidth(name, size, 2**30, seconds) == pytest.approx(BANDWIDTH, rel=0.01)
        assert bus_bandwidth(name, size, 2**30, seconds) <= BANDWIDTH


def test_the_factors_are_those_of_nccl_tests():
    assert [bus_factor("all_reduce", n) for n in (1, 2, 4)] == [0, 1, 1.5]
    assert bus_factor("all_gather", 4) == bus_factor("reduce_scatter", 4) == 0.75
    assert bus_factor("broadcast", 4) == 1


def test_a_group_crosses_the_slowest_link_between_its_ranks():
    assert [group.level for group in (Group(1, 8), Group(2, 1))] == ["node", "network"]
    assert (Group(2, 4).size, str(Group(2, 4))) == (8, "2x4")
