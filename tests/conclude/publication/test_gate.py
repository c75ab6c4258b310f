"""The gate: few false alarms, and a loss of 5 % is caught."""

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from synthetic import cells, write_run

from scaleproof.cli import parser
from scaleproof.conclude.publication.gate import (
    RateChange,
    check_given_once,
    compare_with_baselines,
    rate_changes,
    what_is_seen,
)
from scaleproof.conclude.publication.history import find_history_shifts as history_of
from scaleproof.conclude.publication.history import shifts_of
from scaleproof.ground.errors import UserError

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
        count += any(verdict.worse for verdict in rate_changes(new, earlier))
    return count / trials


def test_equal_histories_pass_95_of_100_times():
    assert alarms(0.0) <= 0.06
    assert alarms(0.0, sessions=3) <= 0.06


def test_a_loss_of_five_percent_is_caught():
    assert alarms(0.05) >= 0.95


def test_a_loss_of_one_cell_is_caught_when_it_is_larger():
    assert alarms(0.10, cells=CELLS[:1]) >= 0.9


@pytest.mark.parametrize("sessions", [3, 10])
def test_the_loss_that_is_seen_is_seen_eight_times_in_ten(sessions):
    random, seen = np.random.default_rng(7), []
    for _ in range(1000):
        logs = random.normal(0, 0.03, sessions + 1)
        *earlier, new = ({"a": rate} for rate in np.exp(logs))
        (together,) = rate_changes(new, earlier)
        (lost,) = rate_changes({"a": new["a"] * (1 - together.seen)}, earlier)
        seen.append(lost.worse)
    assert np.mean(seen) == pytest.approx(0.8, abs=0.04)


def test_how_many_results_it_takes():
    together = RateChange("all", -0.02, 0.02, 3, 0.025)
    needed = together.results_to_see(0.07)
    assert together.seen > 0.07
    assert replace(together, sessions=needed).seen <= 0.07 < replace(together, sessions=needed - 1).seen
    assert what_is_seen(together, 0.07).endswith(f"for one of 7.0 % it takes about {needed - 3} more earlier results")
    assert together.results_to_see(0.01) is None, "further results do not make sessions more alike"
    assert what_is_seen(together, 0.5).endswith("8 times in 10")


@pytest.mark.parametrize(("options", "code"), [([], 0), (["--difference", "99"], 0), (["--difference", "0.01"], 5)])
def test_a_gate_that_would_not_see_a_loss_says_so(tmp_path, capsys, options, code):
    earlier = [result(tmp_path / f"old{i}", 0.1, i) for i in range(3)]
    new = result(tmp_path / "same", 0.1, 9)
    args = parser().parse_args(["gate", str(new), "--baseline", *map(str, earlier), *options])
    try:
        args.run(args)
        ended = 0
    except SystemExit as end:
        ended = end.code
    text = capsys.readouterr().out
    assert ended == code
    assert ("cannot tell  a loss of " in text) == (code == 5)
    assert "in all cells would raise an alarm 8 times in 10" in text


def result(root, step_time, seed):
    for cell in cells():
        for repeat in (1, 2):
            write_run(root / "runs", cell, repeat, step_time / cell.batch.n_devices, seed=seed)
    return root


def test_results_are_read_and_compared(tmp_path):
    earlier = [result(tmp_path / f"old{i}", 0.1, i) for i in range(4)]
    found = compare_with_baselines(result(tmp_path / "same", 0.1, 9), earlier)
    assert (found.left_out, found.faults, found.new) == ([], [], [])
    assert [v.name for v in found.verdicts] == ["2 cells together", "ddp-n1x1", "ddp-n1x2"]
    assert not found.worse
    found = compare_with_baselines(result(tmp_path / "slow", 0.115, 9), earlier)
    assert found.worse
    assert found.verdicts[0].worse
    assert found.verdicts[0].change == pytest.approx(1 / 1.15 - 1, abs=0.02)
    with pytest.raises(UserError, match=r"old\*: no such file|old\* is no campaign's results: no such file"):
        compare_with_baselines(tmp_path / "slow", [tmp_path / "old*"])
    with pytest.raises(UserError, match="at least 3 earlier results, not 2"):
        compare_with_baselines(tmp_path / "slow", earlier[:2])


def with_shifts(loss, cells=CELLS, sessions=12, after=3, trials=300):
    """How often a history has a shift, and how often one of a loss at the right place."""
    random = np.random.default_rng(6)
    some, right = 0, 0
    for _ in range(trials):
        rates = history(random, sessions)
        for session in rates[sessions - after :]:
            session.update({cell: session[cell] * (1 - loss) for cell in cells})
        shifts = shifts_of(rates)
        some += bool(shifts)
        right += any(s.change < 0 and abs(s.session - (sessions - after)) <= 1 for s in shifts)
    return some / trials, right / trials


@pytest.mark.parametrize("sessions", [5, 12])
def test_equal_histories_have_no_shift_95_of_100_times(sessions):
    assert with_shifts(0.0, sessions=sessions)[0] <= 0.06


def test_a_shift_of_five_percent_is_found_where_it_is():
    assert with_shifts(0.05)[1] >= 0.95
    assert with_shifts(0.10, cells=CELLS[:1], after=4, trials=100)[1] >= 0.95


def test_a_repaired_loss_is_two_steps_and_no_alarm():
    level = [1.0] * 6 + [0.9] * 6 + [1.0] * 6
    noise = np.random.default_rng(2).normal(0, 0.005, len(level))
    shifts = shifts_of([{"a": 1000 * x * np.exp(e)} for x, e in zip(level, noise, strict=True)])
    assert [(s.session, s.change < 0) for s in shifts] == [(6, True), (12, False)]
    assert shifts[0].low < -0.1 < shifts[0].high


@pytest.fixture(scope="module")
def slower(tmp_path_factory):
    """Six results, the last three of which are 15 % slower."""
    root = tmp_path_factory.mktemp("history")
    return [result(root / f"r{i}", 0.1 if i < 3 else 0.115, i) for i in range(6)]


def test_a_history_of_results(slower, tmp_path):
    series = history_of(slower[::-1])
    assert [s.folder for s in series.sessions] == slower, "in the order of their dates"
    assert series.cells == ["ddp-n1x1", "ddp-n1x2"]
    assert {shift.session for shift in series.alarms} == {3}
    assert "2 cells together" in {shift.series for shift in series.alarms}
    assert history_of(slower[:3] + [result(tmp_path / f"n{i}", 0.1, 9 + i) for i in range(3)]).alarms == []
    with pytest.raises(UserError, match="at least 5 results, not 4"):
        history_of(slower[:4])
    with pytest.raises(UserError, match='no cell "zero2"'):
        history_of(slower, "zero2")
    shutil.copytree(slower[0], tmp_path / "copy")
    with pytest.raises(UserError, match=r"has the rate of .* to the last digit"):
        history_of([*slower, tmp_path / "copy"])


def test_a_cell_that_was_changed_does_not_vanish_from_a_history(tmp_path, capsys):
    """All earlier results are incomparable with it: its rate is judged no more."""
    results = [result(tmp_path / f"r{i}", 0.1, i) for i in range(6)]
    changed = cells(work={"global_batch": 16, "steps": 40, "warmup_steps": 5})[1]
    shutil.rmtree(results[-1] / "runs/ddp-n1x2")
    write_run(results[-1] / "runs", changed, 1, 0.05)
    args = parser().parse_args(["gate", "--history", *map(str, results)])
    with pytest.raises(SystemExit) as ended:
        args.run(args)
    assert ended.value.code == 1
    text = capsys.readouterr().out
    assert "FAIL  ddp-n1x2: its configuration is not that of the result before the newest: work.steps 30 -> 40" in text
    assert "FAIL  6 results, 1 cell, 0 shifts" in text
    args = parser().parse_args(["gate", "--history", *map(str, results), "--cell", "ddp-n1x1"])
    args.run(args)
    assert "PASS" in capsys.readouterr().out, "nothing was asked about the other cell"


def test_other_machines_are_left_out_of_a_history(slower, tmp_path):
    other = result(tmp_path / "other", 0.1, 7)
    for path in other.rglob("training_metrics.json"):
        data = json.loads(path.read_text())
        data["hardware"]["cpu_model"] = "another"
        data["timestamp_utc"] = "2020-01-01T00:00:00Z"
        path.write_text(json.dumps(data))
    series = history_of([*slower, other])
    assert [line.split(": ", 1)[1] for line in series.left_out] == [
        f"{cell} is incomparable with the newest: processor" for cell in series.cells
    ]
    assert {shift.session for shift in series.alarms} == {4}, "the other one is the oldest and has no place in it"


def test_the_console_and_the_chart_of_a_history(slower, tmp_path, capsys):
    out = tmp_path / "history.svg"
    words = ["gate", "--history", *map(str, slower), "--chart", str(out)]
    args = parser().parse_args(words)
    with pytest.raises(SystemExit) as ended:
        args.run(args)
    assert ended.value.code == 1
    text = capsys.readouterr().out
    assert "FAIL  2 cells together: -1" in text
    assert f"since {slower[3]}" in text
    assert out.read_text().count("tokens/s,") == 12, "every result of every cell has its value on hover"
    assert re.search(r"0000000 2026-01-\d\d", out.read_text())
    for wrong, message in ((["gate"], "give RESULTS"), (["gate", "x", "--history", "y"], "takes all results")):
        args = parser().parse_args(wrong)
        with pytest.raises(UserError, match=message):
            args.run(args)


def test_one_result_by_two_of_its_files_is_given_twice(tmp_path):
    for name in ("monday", "tuesday"):
        (tmp_path / name / "runs").mkdir(parents=True)
        (tmp_path / name / "cells.csv").touch()
    check_given_once([tmp_path / "monday", tmp_path / "tuesday/cells.csv"])
    with pytest.raises(UserError, match="monday is given twice"):
        check_given_once([tmp_path / "monday", tmp_path / "monday/cells.csv"])


def test_logs_of_one_folder_are_not_one_result_given_twice(tmp_path):
    logs = [tmp_path / f"{k}.log" for k in range(4)]
    for log in logs:
        log.touch()
    check_given_once(logs)
    with pytest.raises(UserError, match=r"0\.log is given twice"):
        check_given_once([*logs, logs[0]])
    with pytest.raises(UserError, match=r"0\.log is no campaign's results"):
        compare_with_baselines(logs[0], logs[1:])
