"""What a gate says of cells that are gone, failed, changed or new, and of numbers that are wrong."""

import json
import shutil
from pathlib import Path

import pytest
from conclude.publication.test_gate import result
from synthetic import cells, write_failure, write_run

from scaleproof.cli import parser
from scaleproof.conclude.publication.gate import _finding_key, compare_with_baselines
from scaleproof.ground.errors import UserError
from scaleproof.ground.findings.finding import read_findings

PUBLISHED = sorted((Path(__file__).parents[3] / "results/published").glob("demo_*"))[-1]


@pytest.fixture(scope="module")
def earlier(tmp_path_factory):
    """Four results of two cells."""
    root = tmp_path_factory.mktemp("earlier")
    return [result(root / f"old{i}", 0.1, i) for i in range(4)]


@pytest.fixture
def new(tmp_path):
    """A further one."""
    return result(tmp_path / "new", 0.1, 9)


def asked(results, baselines, capsys):
    """The exit code and the lines of the console."""
    args = parser().parse_args(["gate", str(results), "--baseline", *map(str, baselines)])
    try:
        args.run(args)
        code = 0
    except SystemExit as ended:
        code = ended.code
    return code, capsys.readouterr().out.splitlines()


def edited(paths, change):
    for path in paths:
        data = json.loads(path.read_text())
        change(data)
        path.write_text(json.dumps(data))


def test_a_cell_that_is_gone_is_a_failure_with_its_name(earlier, new, capsys):
    assert asked(new, earlier, capsys)[0] == 0
    shutil.rmtree(new / "runs/ddp-n1x2")
    code, lines = asked(new, earlier, capsys)
    assert code == 1
    assert "FAIL  ddp-n1x2: is gone; earlier results have it" in lines


def test_a_result_without_any_cell_of_the_earlier_ones_is_a_failure_too(earlier, new, capsys):
    for name in ("ddp-n1x1", "ddp-n1x2"):
        shutil.rmtree(new / "runs" / name)
    code, lines = asked(new, earlier, capsys)
    assert (code, sum("is gone" in line for line in lines)) == (1, 2)


def test_a_cell_whose_runs_all_failed_is_a_failure_with_their_reason(earlier, new, capsys):
    shutil.rmtree(new / "runs/ddp-n1x2")
    for repeat in (1, 2):
        write_failure(new / "runs", cells()[1], repeat)
    code, lines = asked(new, earlier, capsys)
    assert code == 1
    assert "FAIL  ddp-n1x2: all of its 2 runs failed: oom: CUDA out of memory" in lines


def test_a_rate_that_fell_by_more_than_is_allowed_is_not_ok(tmp_path, capsys):
    noisy = [result(tmp_path / f"old{i}", step_time, i) for i, step_time in enumerate((0.1, 0.15, 0.2))]
    code, lines = asked(result(tmp_path / "new", 0.3, 9), noisy, capsys)
    assert code == 5
    assert [line.split("  ")[0] for line in lines] == ["cannot tell"] * 3 + [lines[-1].split("  ")[0]]
    code, lines = asked(result(tmp_path / "same", 0.146, 9), noisy, capsys)
    assert (code, [line[:4] for line in lines[:-1]]) == (0, ["ok  "] * 3), "no loss: noise alone is no reservation"


def test_a_changed_key_is_a_failure_that_names_it(earlier, tmp_path, capsys):
    changed = cells(work={"global_batch": 16, "steps": 40, "warmup_steps": 5})
    for cell in changed:
        write_run(tmp_path / "new/runs", cell, 1, 0.14 / cell.batch.n_devices)
    code, lines = asked(tmp_path / "new", earlier, capsys)
    assert code == 1
    assert [line for line in lines if "configuration" in line] == [
        f"FAIL  {cell.slug}: its configuration is not that of the earlier results: work.steps 30 -> 40"
        for cell in changed
    ]


def test_a_new_cell_is_named_and_no_failure(earlier, new, capsys):
    for repeat in (1, 2):
        write_run(new / "runs", cells(vary={"geometry": ["1x4"]})[0], repeat, 0.025)
    code, lines = asked(new, earlier, capsys)
    assert code == 0
    assert lines[0] == "new   ddp-n1x4: no earlier result has it"


def test_a_cell_of_another_machine_is_not_compared_and_no_failure(earlier, new, capsys):
    paths = new.glob("runs/ddp-n1x2/*/training_metrics.json")
    edited(paths, lambda data: data["hardware"].update(cpu_model="another"))
    code, lines = asked(new, earlier, capsys)
    assert "not compared  ddp-n1x2: incomparable: processor" in lines
    assert code == 0


def test_a_result_with_invalid_numbers_is_no_pass(earlier, new, capsys):
    paths = new.glob("runs/*/*/training_metrics.json")
    edited(paths, lambda data: data["ledger"].update(consumed_sha256="f" * 64))
    code, lines = asked(new, earlier, capsys)
    assert code == 1
    assert any(line.startswith("FAIL  ") and "invalid: ledger-differs-from-plan" in line for line in lines)


def test_a_result_that_does_not_verify_is_no_pass_and_a_damaged_baseline_none(earlier, new, capsys):
    path = new / "runs/ddp-n1x2/rep1/steps.csv"
    path.write_text(path.read_text().replace(",16,", ",17,", 1))
    code, lines = asked(new, earlier, capsys)
    assert code == 1
    assert any("does not verify: runs/ddp-n1x2/rep1/steps.csv" in line for line in lines)
    with pytest.raises(UserError, match=r"cannot be compared with: runs/ddp-n1x2/rep1/steps\.csv"):
        compare_with_baselines(earlier[0], [*earlier[1:], new])


def test_a_cell_that_vanished_from_a_history_is_a_failure(earlier, tmp_path, capsys):
    last = [result(tmp_path / f"n{i}", 0.1, 20 + i) for i in range(2)]
    shutil.rmtree(last[1] / "runs/ddp-n1x2")
    args = parser().parse_args(["gate", "--history", *map(str, [*earlier, *last])])
    with pytest.raises(SystemExit):
        args.run(args)
    assert "FAIL  ddp-n1x2: the newest result" in capsys.readouterr().out


def test_a_finding_is_known_whatever_the_order_of_its_runs():
    """A campaign lists its runs by cell as the file has them, who reads its folders by name."""
    any_finding = read_findings(PUBLISHED / "findings.json").findings[0]
    keys = [
        _finding_key(any_finding.model_copy(update={"runs": runs}))
        for runs in (["slow/rep1", "fast/rep1"], ["fast/rep1", "slow/rep1"], ["fast/rep1"])
    ]
    assert keys[0] == keys[1] != keys[2]
