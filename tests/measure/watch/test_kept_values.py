"""What stays of the tensors of a watched loop."""

import pytest
import torch

from scaleproof.measure.watch.kept_values import copied


def test_copies_are_made_in_the_memory_of_the_last_ones():
    first = copied([torch.ones(3)])
    second = copied([torch.zeros(3)], first)
    assert second[0] is first[0]
    assert second[0].tolist() == [0, 0, 0]


@pytest.mark.parametrize("changed", [torch.ones(4), torch.ones(3, dtype=torch.bfloat16)])
def test_tensors_of_another_shape_or_dtype_get_copies_of_their_own(changed):
    first = copied([torch.ones(3)])
    (second,) = copied([changed], first)
    assert second is not first[0]
    assert torch.equal(second, changed)
    assert second is not changed
