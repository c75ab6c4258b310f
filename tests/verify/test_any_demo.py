"""No statement of a sound campaign with traces and A/B pairs differs, whatever its times, failures and question."""

import pytest
from verify.any_demo import differences_in


# Two of which were accused once: of the runs of a ratio where a run failed, and of cells named before a command.
@pytest.mark.parametrize("seed", [0, 1])
def test_nothing_differs_in_a_sound_demo(tmp_path, seed):
    assert differences_in(tmp_path, seed) == []


@pytest.mark.parametrize(("seed", "repeats", "pairs"), [(2, 2, 2), (3, 3, 4)])
def test_nothing_differs_in_a_sound_demo_of_few_runs(tmp_path, seed, repeats, pairs):
    assert differences_in(tmp_path, seed, repeats, pairs) == []
