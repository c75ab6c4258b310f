"""Sweep and frontier with real ranks of gloo on this machine."""

from itertools import pairwise

from synthetic import cells

from scaleproof.conclude.forecast.collective import COLLECTIVES, Group
from scaleproof.conclude.forecast.frontier import MOST_TRIALS, find_frontier, sizes_to_try
from scaleproof.conclude.forecast.sweep import groups_of, measure_sweep
from scaleproof.conclude.forecast.sweep_file import sweep_rows
from scaleproof.ground.campaign.loaded import LoadedCampaign

TINY = {"model": {"layers": 1, "width": 16, "heads": 2, "context": 32}, "tokenizer": "bpe-512", "seq_len": 32}


def test_a_sweep_of_two_ranks_keeps_every_call(tmp_path, repository, monkeypatch):
    monkeypatch.chdir(repository)
    monkeypatch.setattr("scaleproof.conclude.forecast.sweep.sizes_up_to", lambda nbytes: [4096, 2**20])
    path = tmp_path / "two.yaml"
    path.write_text("title: t\nvary: {geometry: [1x1, 1x2]}\n")
    loaded = LoadedCampaign(path)
    ((group, cell),) = groups_of(loaded).items()
    assert group == Group(1, 2)
    made = measure_sweep(loaded, group, cell, tmp_path / "sweep", launches=1)
    assert (made.backend, made.device) == ("gloo", "cpu")
    assert len(made.launches[0].ranks) == 2
    rows = sweep_rows(made)
    assert {row.collective for row in rows} == set(COLLECTIVES)
    assert all(len(calls.seconds) >= 3 for calls in made.launches[0].calls)
    assert not list((tmp_path / "sweep").glob(".attempt-*"))


def test_a_frontier_within_a_limit_of_a_process(tmp_path, tokens):
    """Four trials at most, never unsafe, and the certificate is what they show.

    On a quiet machine it is the failure right above; how much memory a process keeps beside other work may vary more
    than four trials can tell.
    """
    (cell,) = cells(
        workload=TINY | {"vocab_size": 8192},
        work={"global_batch": 1, "steps": 3, "warmup_steps": 3},
        execution={"start": "forked"},
        vary={},
    )
    limit = 0.8e9
    found = find_frontier(cell, "frontier", tokens, tmp_path / "frontier", limit, 900, compare_speed=False)
    assert len(found.trials) <= MOST_TRIALS
    fitting = [trial.micro_batch for trial in found.trials if trial.fits]
    failing = [trial.micro_batch for trial in found.trials if not trial.fits]
    assert found.largest == max(fitting)
    assert all(trial.nbytes <= limit for trial in found.trials if trial.fits)
    sizes = sizes_to_try(10**4)
    above = sizes[sizes.index(found.largest) + 1]
    shown = "ran out of memory" if above in failing else "a larger one ran out of memory" if failing else "none"
    assert found.certificate == shown


def test_sizes_to_try_are_a_sixteenth_apart_at_most():
    sizes = sizes_to_try(1000)
    assert sizes[:33] == [*range(1, 33), 34]
    assert all(b <= a * 17 / 16 or b == a + 1 for a, b in pairwise(sizes))
    assert sizes[-1] <= 1000
