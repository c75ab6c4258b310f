"""What a program printed as rows of steps.csv, and what is said where it did not print enough."""

import pytest

from scaleproof.auditor.read.printed_log import printed_log
from scaleproof.ground.campaign.cells import expand
from scaleproof.ground.campaign.config import Campaign
from scaleproof.measure.command.figures import NoFigures, read_figures

NANOGPT = "\n".join(f"iter {k}: loss {4 - k / 100:.4f}, time {10 + k % 2}.00ms, mfu 1.00%" for k in range(40))
TOKENS = "tokens per iteration will be: 256\n"
RATES = "\n".join(f"step {k} loss {4 - k / 100:.3f} tokens/s {1000 + k}" for k in range(40))


def figures(tmp_path, text: str, devices: int = 1, **workload):
    campaign = {
        "title": "x",
        "workload": {"command": "p"} | workload,
        "execution": {"geometry": f"1x{devices}"},
    }
    (cell,) = expand(Campaign.model_validate(campaign))
    log = tmp_path / "train.log"
    log.write_text(text)
    return read_figures(log, cell, printed_log)


def test_steps_after_the_warm_up_are_the_window(tmp_path):
    work = figures(tmp_path, TOKENS + NANOGPT)
    window = work.rows[work.rows["phase"] == "window"]
    assert (work.unit, work.per_step, len(window), work.window[0].step) == ("tokens", 256, 30, 10)
    assert window["step_time_s"].sum() == pytest.approx(30 * 0.0105)
    assert window["tokens"].sum() == 30 * 256


def test_given_work_of_a_step_replaces_what_is_printed(tmp_path):
    work = figures(tmp_path, NANOGPT, per_step={"samples": 12})
    assert (work.unit, int(work.rows["tokens"][-1])) == ("samples", 12)


def test_the_time_of_a_step_follows_from_a_rate(tmp_path):
    work = figures(tmp_path, RATES, per_step={"tokens": 100})
    assert work.rows["step_time_s"][-1] == pytest.approx(100 / 1039)


def test_the_rate_of_one_device_is_that_of_all_times_their_number(tmp_path):
    one = figures(tmp_path, RATES, devices=2, per_step={"tokens": 100}, rate_of="device")
    every = figures(tmp_path, RATES, devices=2, per_step={"tokens": 100}, rate_of="all")
    assert every.rows["step_time_s"][-1] == pytest.approx(2 * one.rows["step_time_s"][-1])


def test_patterns_read_any_line(tmp_path):
    text = "\n".join(f"[{k}] took 1,0{k}0.5 ms\nL={3 - k / 10}" for k in range(8))
    patterns = {"step_ms": r"took ([\d,.]+) ms", "loss": r"L=([\d.]+)", "step": r"^\[(\d+)\]"}
    (cell,) = expand(
        Campaign.model_validate(
            {
                "title": "x",
                "workload": {"command": "p", "figures": patterns, "per_step": {"steps": 1}},
                "work": {"warmup_steps": 3},
            }
        )
    )
    (tmp_path / "train.log").write_text(text)
    work = read_figures(tmp_path / "train.log", cell, printed_log)
    assert work.unit == "steps"
    assert [step.step for step in work.window] == [3, 4, 5, 6, 7]
    assert work.window[0].seconds == pytest.approx(1.0305)
    assert work.window[0].loss == pytest.approx(2.8)  # of the last line before it


@pytest.mark.parametrize(
    ("text", "keys", "message"),
    [
        (NANOGPT, {}, "give workload.per_step"),
        (RATES, {}, "a rate without the time of a step"),
        ("hello\nworld\n", {}, "no figure in its log is understood"),
        (TOKENS + "world_size = 4\n" + NANOGPT, {}, "4 ranks, and the geometry is 1x1"),
        (TOKENS + NANOGPT, {"figures": "NanoGTP"}, 'there is no reader "NanoGTP"'),
        (TOKENS + "\n".join(NANOGPT.splitlines()[:8]), {}, "within the first 10 steps"),
        (TOKENS + NANOGPT + "\n" + NANOGPT, {}, "has 2 runs"),
    ],
)
def test_what_a_log_does_not_say_is_asked_for_by_name(tmp_path, text, keys, message):
    with pytest.raises(NoFigures, match=message):
        figures(tmp_path, text, **keys)
