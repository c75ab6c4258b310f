"""Reading ahead hands out what reading at once does, notes the same, and hides no error."""

import numpy as np
import pytest
import torch

from scaleproof.ground.campaign.batch import Batch
from scaleproof.measure.corpus.reader import SamplePlan, TokenFile
from scaleproof.measure.trainer.batches import Batches


@pytest.fixture
def make(tokens):
    def made(ahead: bool) -> Batches:
        file = TokenFile(tokens, "train", seq_len=32)
        plan = SamplePlan(file.n_samples, 8, seed=1)
        batches = Batches(
            file, plan, Batch(micro=2, accumulation=2, n_devices=2, global_=8), range(1, 2), torch.device("cpu")
        )
        if ahead:
            batches.read_ahead()
        return batches

    return made


# Steps as a run asks for them: two in order, a jump, one again.
ORDER = [(0, 0), (0, 1), (1, 0), (1, 1), (7, 0), (7, 1), (1, 0)]


def test_reading_ahead_hands_out_the_same(make):
    ahead, at_once = make(True), make(False)
    for place in ORDER:
        assert torch.equal(ahead.take(*place), at_once.take(*place))
    assert ahead.tokens == at_once.tokens == {0: 128, 1: 192, 7: 128}
    for step, ids in at_once.taken.items():
        assert [a.tolist() for a in ahead.taken[step]] == [b.tolist() for b in ids]


def test_what_was_read_ahead_is_not_read_again(make):
    batches, read = make(True), []
    original = batches.file.read
    batches.file.read = lambda ids: read.append(ids.tolist()) or original(ids)
    for place in ORDER[:4]:
        batches.take(*place)
    batches._reader.shutdown()
    assert len(read) == 5, "four, and the one ahead"
    assert len({tuple(ids) for ids in read}) == 5


def test_an_error_of_the_reader_is_raised_where_the_tokens_are_asked_for(make):
    batches = make(True)
    batches.take(0, 0)
    batches._reader.shutdown()
    batches.read_ahead()
    batches.file.tokens = np.zeros(3, dtype=np.uint16)
    batches.take(0, 1)  # read before the file was lost
    with pytest.raises(IndexError):
        batches.take(1, 0)


def test_a_cpu_device_shares_its_core_with_no_reader(make):
    assert make(False)._reader is None
