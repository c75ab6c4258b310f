"""The gate: few false alarms, and a loss of 5 % is caught."""

import numpy as np
import pytest
from synthetic import cells, write_run

from scalebench.errors import UserError
from scalebench.verify.gate import gate, judge

CELLS = [f"cell{i}" for i in range(6)]


def history(random, sessions):
    """Rates of six cells: sessions differ by 1 %, cells in a session by 0.5 %, means of three runs by 1.2 %."""
    shared = random.normal(0, 0.01, (sessions, 1))
    own = random.normal(0, 0.005, (sessions, len(CELLS))) + random.normal(0, 0.02 / 3**0.5, (sessions, len(CELLS)))
    rates = 10_000 * np.exp(shared + own)
    return [dict(zip(CELLS, row, strict=True)) for row in rates]


def alarms(loss, cells=CELLS, sessions=10, trials=400):
    random, count = np.random.default_rng(5), 0
    for _ in range(trials):
        *earlier, new = history(random, sessions + 1)
        new = {cell: rate * (1 - loss if cell in cells else 1) for cell, rate in new.items()}
        count += any(verdict.worse for verdict in judge(new, earlier))
    return count / trials


def test_equal_histories_pass_95_of_100_times():
    assert alarms(0.0) <= 0.06
    assert alarms(0.0, sessions=3) <= 0.06


def test_a_loss_of_five_percent_is_caught():
    assert alarms(0.05) >= 0.95


def test_a_loss_of_one_cell_is_caught_when_it_is_larger():
    assert alarms(0.10, cells=CELLS[:1]) >= 0.9


def result(root, step_time, seed):
    for cell in cells():
        for repeat in (1, 2):
            write_run(root / "runs", cell, repeat, step_time / cell.batch.n_devices, seed=seed)
    return root


def test_results_are_read_and_compared(tmp_path):
    earlier = [result(tmp_path / f"old{i}", 0.1, i) for i in range(4)]
    verdicts, left_out = gate(result(tmp_path / "same", 0.1, 9), earlier)
    assert left_out == []
    assert [v.name for v in verdicts] == ["2 cells together", "ddp-n1x1", "ddp-n1x2"]
    assert not any(v.worse for v in verdicts)
    verdicts, _ = gate(result(tmp_path / "slow", 0.115, 9), earlier)
    assert verdicts[0].worse
    assert verdicts[0].change == pytest.approx(1 / 1.15 - 1, abs=0.02)
    with pytest.raises(UserError, match="at least 3 earlier results, not 2"):
        gate(tmp_path / "slow", earlier[:2])
