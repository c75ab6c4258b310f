"""A world that is not the one that was asked for is known before anything is timed."""

import pytest
from synthetic import cells

from scaleproof.measure.trainer.__main__ import failure_class
from scaleproof.measure.trainer.session import WrongWorld, check_world, describe_mismatch

CELL = cells(vary={"geometry": ["2x2"]})[0]


def places(*ranks):
    return [{"host": host, "devices": [device]} for host, device in ranks]


SOUND = (("n1", "GPU-a"), ("n1", "GPU-b"), ("n2", "GPU-c"), ("n2", "GPU-d"))


@pytest.mark.parametrize(
    ("ranks", "hosts", "reason"),
    [
        (SOUND, (), None),
        (SOUND, ("n1.site", "n2.site"), None),
        ((("n1", "cpu"), ("n1", "cpu"), ("n2", "cpu"), ("n2", "cpu")), ("n1", "n2"), None),
        (SOUND[:3], (), "4 ranks were asked for, 3 came up"),
        ((*SOUND[:3], ("n3", "GPU-d")), (), "2 nodes were asked for, the ranks are on 3: n1, n2, n3"),
        ([("n1", f"GPU-{i}") for i in range(4)], (), "the ranks are on 1: n1"),
        ((*SOUND[:3], ("n1", "GPU-d")), (), "2 ranks per node were asked for; there are 3 on n1, 1 on n2"),
        (SOUND, ("n1", "n3"), "ranks are on n2, the allocation is n1, n3"),
        ((*SOUND[:3], ("n2", "GPU-c")), (), "GPU-c is used by 2 ranks"),
    ],
)
def test_worlds(ranks, hosts, reason):
    found = describe_mismatch(2, 2, places(*ranks), hosts)
    assert found == reason if reason is None else reason in found


def test_a_wrong_world_is_a_class_of_its_own():
    with pytest.raises(WrongWorld) as raised:
        check_world(CELL, places(*SOUND[:3]))
    assert failure_class(raised.value) == "wrong_world"
