"""Runs that did not train: NaN to the end, a loss that never moves, gradients of zero, a loss above guessing."""

import json
from pathlib import Path

import pytest

from scaleproof.auditor.audit import audit_paths
from scaleproof.ground.findings.finding import Finding

STEPS = range(10, 310, 10)
CODE = "did-not-train"


def finding(folder: Path) -> Finding | None:
    return next((f for f in audit_paths([folder]).findings if f.code == CODE), None)


def nanogpt(loss: str) -> str:
    return "".join(
        f"iter {step}: loss {loss.format(x=10 / (1 + step / 300))}, time 500.00ms, mfu 40.00%\n" for step in STEPS
    )


LINE = (
    " iteration {step:8d}/  500000 | consumed samples: {samples:12d} | elapsed time per iteration (ms): 512.3 | "
    "global batch size:   256 | lm loss: {loss} | grad norm: {norm} | number of skipped iterations:   0 | "
    "number of nan iterations:   0 |\n"
)


def megatron(loss: str, norm: str = "1.234") -> str:
    lines = (LINE.format(step=s, samples=s * 256, loss=loss.format(x=9 - s / 1000), norm=norm) for s in STEPS)
    return "".join(lines)


def state(loss: float | None, norm: float = 1.0) -> str:
    history = [{"step": s, "loss": 9 - s / 100 if loss is None else loss, "grad_norm": norm} for s in STEPS]
    return json.dumps({"global_step": 300, "log_history": history})


def console(loss: str) -> str:
    return "".join(
        f"{{'loss': {loss.format(x=9 - s / 100)}, 'grad_norm': 1.5, 'step': {s}, 'epoch': 0.1}}\n" for s in STEPS
    )


def csv(loss: str) -> str:
    return "step,loss,step_time_s\n" + "".join(f"{s},{loss.format(x=9 - s / 100)},0.5\n" for s in STEPS)


def unknown(loss: str) -> str:
    return "".join(f"epoch 1 step {s} loss: {loss.format(x=9 - s / 100)} time: 0.5 s\n" for s in STEPS)


def history(loss: str) -> str:
    values = (loss.format(x=9 - s / 100) for s in STEPS)
    return "".join(
        f'{{"_step": {s}, "train/loss": {v}, "_runtime": {s}}}\n' for s, v in zip(STEPS, values, strict=True)
    )


def bars(loss: str) -> str:
    """Return the states of the bars of three epochs of 100 steps; the last epoch is validated."""
    bar = "Epoch {}: 50%|#  | {}/{} [00:30<00:20, 4.00it/s, v_num=0, {}={}]\r"
    counted = (((s - 1) // 100, (s - 1) % 100 + 1, loss.format(x=9 - s / 100)) for s in STEPS)
    validated = (bar.format(2, k, 7, "loss", 2.1) for k in range(1, 8))
    return "".join([*(bar.format(epoch, k, 100, "train_loss", value) for epoch, k, value in counted), *validated])


WRITERS = {"train.log": nanogpt, "out.txt": megatron, "console.log": console, "log.csv": csv, "log.out": unknown}
WRITERS |= {"bars.log": bars}
FALLS = "{x:.4f}"


@pytest.mark.parametrize("name", WRITERS)
def test_a_loss_that_is_nan_to_the_end(tmp_path, name):
    (tmp_path / name).write_text(WRITERS[name]("nan"))
    named = finding(tmp_path)
    assert (named.severity, "from step 10 to the last one" in named.evidence) == ("invalid", True)


def test_a_line_that_counts_its_iterations_is_one_line(tmp_path):
    lines = megatron("nan")
    (tmp_path / "out.txt").write_text(lines)
    evidence = finding(tmp_path).evidence
    (tmp_path / "out.txt").write_text(lines.replace("nan iterations:   0", "nan iterations:  10"))
    assert finding(tmp_path).evidence == evidence


@pytest.mark.parametrize("name", WRITERS)
def test_a_loss_that_falls_is_of_training(tmp_path, name):
    (tmp_path / name).write_text(WRITERS[name](FALLS))
    assert finding(tmp_path) is None


@pytest.mark.parametrize("name", [name for name in WRITERS if name not in ("log.out", "bars.log")])
def test_a_loss_that_never_moves(tmp_path, name):
    (tmp_path / name).write_text(WRITERS[name]("6.9314"))
    named = finding(tmp_path)
    assert (named.severity, "6.9314 in all of 30 logged steps" in named.evidence) == ("suspect", True)


def test_nan_in_a_history(tmp_path):
    (tmp_path / "history.jsonl").write_text(history("NaN"))
    assert finding(tmp_path) is None or finding(tmp_path).severity == "invalid"


def test_nan_in_the_middle_is_not_the_end(tmp_path):
    lines = nanogpt(FALLS).splitlines()
    lines[5] = "iter 60: loss nan, time 500.00ms, mfu 40.00%"
    (tmp_path / "train.log").write_text("\n".join(lines))
    audit = audit_paths([tmp_path])
    assert {f.code for f in audit.findings if f.severity == "invalid"} == {"not-finite"}


@pytest.mark.parametrize(("first", "last", "named"), [(105, 300, True), (105, 290, False), (299, 300, False)])
def test_nan_in_bars_accuses_only_if_it_stays_to_the_end(tmp_path, first, last, named):
    bar = " 50%|#  | {}/300 [00:30<00:20, 4.00it/s, step_loss={}]\n"
    losses = ((step, "nan" if first <= step <= last else 2.1) for step in range(1, 301))
    (tmp_path / "bars.log").write_text("".join(bar.format(*both) for both in losses))
    evidence = getattr(finding(tmp_path), "evidence", "")
    assert evidence == "the loss is NaN or infinite from step 105 to the last one, in 196 lines" * named
    assert all(f.severity == "note" for f in audit_paths([tmp_path]).findings) is not named


@pytest.mark.parametrize(("norm", "named"), [(0.0, True), (1e-9, False)])
def test_gradients_of_zero(tmp_path, norm, named):
    (tmp_path / "trainer_state.json").write_text(state(None, norm))
    assert (finding(tmp_path) is not None) is named
    (tmp_path / "trainer_state.json").unlink()
    (tmp_path / "out.txt").write_text(megatron(FALLS, f"{norm:.3e}"))
    assert (finding(tmp_path) is not None) is named


def test_a_norm_of_zero_beside_an_unknown_loss_scale_is_not_known(tmp_path):
    lines = megatron(FALLS, "0.000").replace("| grad norm", "| loss scale: -1.0 | grad norm")
    (tmp_path / "out.txt").write_text(lines)
    assert finding(tmp_path) is None


def test_a_trainer_state_that_never_moves(tmp_path):
    (tmp_path / "trainer_state.json").write_text(state(2.3026))
    assert "2.3026" in finding(tmp_path).evidence
    (tmp_path / "trainer_state.json").write_text(state(0.0))  # programs of reinforcement learning print that
    assert finding(tmp_path) is None


@pytest.mark.parametrize(("loss", "named"), [("11.2{x:.0f}", True), ("10.9{x:.0f}", False)])
def test_a_loss_above_that_of_guessing(tmp_path, loss, named):
    (tmp_path / "train.log").write_text(nanogpt(loss))
    assert (finding(tmp_path) is not None) is named
