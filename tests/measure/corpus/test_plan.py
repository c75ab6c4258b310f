"""The sample plan: every sample once an epoch, disjoint shares, the same for every world size."""

import numpy as np
import pytest

from scaleproof.ground.campaign.batch import Batch
from scaleproof.ground.errors import UserError
from scaleproof.measure.corpus.reader import SamplePlan, TokenFile, digest_of_ids, held_out_ids


def test_an_epoch_holds_every_sample_once():
    plan = SamplePlan(samples=96, global_batch=8, seed=1)
    first = np.concatenate([plan.step(s) for s in range(12)])
    second = np.concatenate([plan.step(s) for s in range(12, 24)])
    assert sorted(first) == sorted(second) == list(range(96))
    assert first.tolist() != second.tolist()


def test_a_step_may_span_two_epochs():
    plan = SamplePlan(samples=10, global_batch=4, seed=1)
    ids = np.concatenate([plan.step(s) for s in range(5)])
    assert sorted(ids) == sorted([*range(10), *range(10)])


@pytest.mark.parametrize(("world", "accumulation"), [(1, 1), (2, 1), (2, 4), (4, 2), (8, 1)])
def test_shares_are_disjoint_and_make_up_the_step(world, accumulation):
    batch = Batch(micro=32 // world // accumulation, accumulation=accumulation, n_devices=world, global_=32)
    plan = SamplePlan(samples=1000, global_batch=32, seed=3)
    for step in (0, 7, 40):
        shares = [plan.ids_of_rank(step, batch, rank) for rank in range(world)]
        assert all(s.shape == (accumulation, batch.micro) for s in shares)
        assert sorted(np.concatenate([s.ravel() for s in shares])) == sorted(plan.step(step))


def test_the_order_is_fixed_for_ever():
    assert SamplePlan(1000, 4, seed=1).step(0).tolist() == SamplePlan(1000, 4, seed=1).step(0).tolist()
    assert SamplePlan(1000, 4, seed=1).step(0).tolist() == [775, 813, 549, 55]
    assert SamplePlan(1000, 4, seed=2).step(0).tolist() != SamplePlan(1000, 4, seed=1).step(0).tolist()


def test_digest_knows_steps_but_not_the_order_in_them():
    assert digest_of_ids([np.array([1, 2]), np.array([3, 4])]) == digest_of_ids([np.array([2, 1]), np.array([4, 3])])
    assert digest_of_ids([np.array([1, 2]), np.array([3, 4])]) != digest_of_ids([np.array([1, 3]), np.array([2, 4])])
    assert digest_of_ids([np.array([1, 2])]) != digest_of_ids([np.array([1, 2, 2])])


def test_too_small_a_corpus():
    with pytest.raises(UserError, match=r"7 training samples.*global batch of 8"):
        SamplePlan(samples=7, global_batch=8, seed=1)


def test_samples_are_consecutive_and_share_one_token(tokens):
    file = TokenFile(tokens, "train", seq_len=32)
    flat = np.fromfile(tokens / "train.bin", dtype="<u2")
    read = file.read(np.array([0, 5, file.n_samples - 1]))
    assert read.shape == (3, 33)
    assert read.dtype == np.int64
    assert read[0].tolist() == flat[:33].tolist()
    assert read[1].tolist() == flat[160:193].tolist()
    assert (file.n_samples - 1) * 32 + 33 <= len(flat)


def test_a_file_that_is_not_what_tokens_json_says(tokens, tmp_path):
    import shutil

    shutil.copytree(tokens, tmp_path / "t")
    with (tmp_path / "t/train.bin").open("ab") as file:
        file.write(b"xx")
    with pytest.raises(UserError, match="tokenise the corpus again"):
        TokenFile(tmp_path / "t", "train", seq_len=32)


@pytest.mark.parametrize(
    ("samples", "wanted", "ids"), [(10, 5, [0, 2, 4, 6, 8]), (3, 5, [0, 1, 2]), (3, 0, []), (0, 4, [])]
)
def test_held_out_samples_are_spread_over_what_there_is(samples, wanted, ids):
    assert held_out_ids(samples, wanted).tolist() == ids
