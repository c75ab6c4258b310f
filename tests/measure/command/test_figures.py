"""What a program printed as rows of steps.csv, and what is said where it did not print enough."""

import re

import pytest

from scaleproof.auditor.read.printed_log import printed_log
from scaleproof.ground.campaign.cells import expand_cells
from scaleproof.ground.campaign.config import Campaign
from scaleproof.measure.command.figures import NoFigures, read_figures

NANOGPT = "\n".join(f"iter {k}: loss {4 - k / 100:.4f}, time {10 + k % 2}.00ms, mfu 1.00%" for k in range(40))
TOKENS = "tokens per iteration will be: 256\n"
RATES = "\n".join(f"step {k} loss {4 - k / 100:.3f} tokens/s {1000 + k}" for k in range(40))


def figures(tmp_path, text: str, devices: int = 1, seconds: float | None = None, ended: bool = False, **workload):
    campaign = {
        "title": "x",
        "workload": {"command": "p"} | workload,
        "work": {"seconds": seconds} if seconds else {},
        "execution": {"geometry": f"1x{devices}"},
    }
    (cell,) = expand_cells(Campaign.model_validate(campaign))
    log = tmp_path / "train.log"
    log.write_text(text)
    return read_figures(log, cell, printed_log, range(text.count("\n") + 1), ended)


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
    (cell,) = expand_cells(
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


def patterned(tmp_path, lines: list[str], **patterns: str):
    """The figures of lines that are read by patterns."""
    return figures(tmp_path, "\n".join(lines), figures=patterns, per_step={"steps": 1})


def test_a_printed_step_0_is_a_number(tmp_path):
    """Not the place of its line: numbers may begin anew in each epoch."""
    work = patterned(tmp_path, [f"it {k % 15} took 9 ms" for k in range(30)], step=r"it (\d+)", step_ms=r"took (\d+)")
    assert [step.step for step in work.log.steps] == [*range(15), *range(15)]
    assert [step.step for step in work.window] == [*range(10, 15), *range(15)]
    assert (work.rows["phase"] == "window").tolist() == [False] * 10 + [True] * 20
    text = [f"it {k if k < 14 else 'nan'} took 9 ms" for k in range(16)]
    work = patterned(tmp_path, text, step=r"it (\S+)", step_ms=r"took (\d+)")
    assert [step.step for step in work.log.steps] == [*range(16)], "without a number the lines are counted"


def test_times_that_are_printed_as_0_are_not_left_out(tmp_path):
    """The rest, which were long enough to be printed, would be slower than all."""
    patterns = {"step": r"it (\d+)", "step_s": r"took ([\d.]+) s"}
    times = [0.0] * 3 + [0.1] * 20
    text = [f"it {k} took {time} s" for k, time in enumerate(times)]
    assert len(patterned(tmp_path, text, **patterns).window) == 10, "in the warm-up they may be missing"
    text[17] = "it 17 took 0.0 s"
    with pytest.raises(NoFigures, match="the time of step 17 is printed as 0: print more digits of it, or a rate"):
        patterned(tmp_path, text, **patterns)


def test_a_rate_of_samples_gives_no_time_of_a_step_that_is_one_step(tmp_path):
    """100 samples/s are not 100 steps/s."""
    text = [f"it {k} speed 100.0 samples/s" for k in range(20)]
    with pytest.raises(NoFigures, match="has no time and no rate in steps/s"):
        patterned(tmp_path, text, step=r"it (\d+)", samples_per_s=r"speed ([\d.]+)")


def test_a_pattern_of_the_step_alone_is_timed_by_the_launcher(tmp_path):
    """Lines that nobody knows: here steps of an environment, with their mean rate."""
    text = "\n".join(f"global_step={8 * k}, return=[{k}.5]\nSPS: {200 + k}" for k in range(1, 21))
    work = figures(tmp_path, text, figures={"step": r"global_step=(\d+)", "loss": r"return=\[([\d.]+)"})
    assert (work.unit, work.log.reader, int(work.rows["tokens"][-1])) == ("steps", "progress", 8)
    assert (work.rows["step_time_s"][-1], work.rows["loss"][-1]) == (2.0, 20.5)
    for pattern, message in ((r"local_step=(\d+)", "match no line of its log"), (r"SPS: (20[12])$", "match no line")):
        with pytest.raises(NoFigures, match=message):
            figures(tmp_path, text, figures={"step": pattern})
    with pytest.raises(NoFigures, match="no figure in its log is understood"):
        figures(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "keys", "message"),
    [
        (NANOGPT, {}, r"of 40 steps \(the last: 0.011 s a step, 3.61 loss\).*--metric steps/s.*workload.per_step"),
        (RATES, {}, r"\(the last: 1039 tokens/s, 3.61 loss\), but not how much work a step is, which gives its time"),
        (
            RATES,
            {},
            r"add --per-step with A's tokens of a step and B's \(.*, e.g. \{tokens: \"\{global_batch\} \* 1024\"\}\)$",
        ),
        (NANOGPT, {}, r"work a step is: with ab, add --metric steps/s if .*or \{steps: 1\} to compare steps/s\)$"),
        (
            "hello\nworld\n",
            {},
            r"^it printed 2 lines \(the last: world\); steps are read from 3 lines on; a program",
        ),
        ("hello\nnew\nworld\n", {}, r"no figure in its log is understood: .* \(its last line: world\)\. Give patterns"),
        (
            "step 50 time 10 ms\n",
            {"ended": True},
            r"^it had printed 1 line \(the last: .*\); let it train longer \(work.s",
        ),
        ("hello\nworld\nagain\n", {"ended": True}, "let it train longer: it had printed 3 lines$"),
        ("hello\n" * 100, {"ended": True}, "with {steps} in the command$"),
        ("", {}, "^it printed nothing; a program that prints no step is timed as a whole"),
        ("", {"ended": True}, "^it printed nothing; let it train longer"),
        (TOKENS + "world_size = 4\n" + NANOGPT, {}, "4 ranks, and the geometry is 1x1"),
        (TOKENS + "\n".join(NANOGPT.splitlines()[:8]), {}, "within the first 10 steps"),
        (TOKENS + NANOGPT + "\n" + NANOGPT, {}, "has 2 runs"),
    ],
)
def test_what_a_log_does_not_say_is_asked_for_by_name(tmp_path, text, keys, message):
    with pytest.raises(NoFigures, match=message):
        figures(tmp_path, text, **keys)


EPOCHS = "\n".join(f"epoch {k} took 2.{k}s, 100.0 samples/s" for k in range(1, 5))
COUNTS = "\n".join(f"Train [{{}}{64 * k}/1280 (0%)]\tLoss: {2 - k / 99:.6f}" for k in range(20))
BATCHES, ITEMS, IMAGES = (COUNTS.replace("{}", word) for word in ("batch ", "", "images "))


@pytest.mark.parametrize(
    ("text", "per_step", "unit", "amount"),
    [
        (ITEMS, None, "items", 64),
        (IMAGES, None, "samples", 64),
        (BATCHES, None, "batches", 64),
        (ITEMS, {"steps": 1}, "items", 64),  # somebody says that they are equal work, not what they are
        (ITEMS, {"samples": 1}, "samples", 64),
        (IMAGES, {"samples": 32}, "samples", 64),  # counted already
        (BATCHES, {"samples": 32}, "samples", 64 * 32),
        (BATCHES, {"steps": 1}, "batches", 64),
        (ITEMS, {"samples": 48}, "samples", 64 * 48),  # it does not rise by 48s: no samples are counted
    ],
)
def test_a_rate_is_of_what_lines_count(tmp_path, text, per_step, unit, amount):
    work = figures(tmp_path, text, per_step=per_step)
    assert (work.unit, int(work.rows["tokens"][-1])) == (unit, amount)
    assert work.counts_to == 1280
    assert (work.rows["phase"] == "warmup").sum() == 1


@pytest.mark.parametrize(
    ("text", "per_step", "message"),
    [
        (ITEMS, {"samples": 32}, "count something to 1,280 without saying what: .* Give per_step {samples: 1} if it"),
        (IMAGES, {"tokens": 32}, "its lines count samples to 1,280"),
        (EPOCHS, {"tokens": 32}, "not how many steps they have"),
    ],
)
def test_work_of_a_step_is_not_taken_for_that_of_something_else(tmp_path, text, per_step, message):
    with pytest.raises(NoFigures, match=message):
        figures(tmp_path, text, per_step=per_step)


def test_of_a_program_that_may_be_ended_the_first_epoch_is_left_out(tmp_path):
    """Its programs make different numbers of epochs, and the first one is slower."""
    work = figures(tmp_path, EPOCHS)
    assert (work.unit, len(work.rows), int(work.rows["tokens"].sum())) == ("epochs", 4, 4)
    assert len(figures(tmp_path, EPOCHS, seconds=9.0, ended=True).rows) == 3
    assert len(figures(tmp_path, EPOCHS, seconds=9.0).rows) == 3


def diverged(text: str, lines: int, word: str = "nan") -> str:
    """The log with `word` for the loss of its last lines."""
    *before, last = text.rsplit("\n", lines)[0], "\n".join(text.rsplit("\n", lines)[1:])
    return "\n".join([*before, re.sub(r"(?<=[Ll]oss)(:?) [\d.]+", rf"\1 {word}", last)])


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (TOKENS + NANOGPT, 0),
        (diverged(TOKENS + NANOGPT, 4), 4),
        (diverged(TOKENS + NANOGPT, 4) + "\niter 40: loss 3.1, time 10.00ms, mfu 1.00%", 0),  # it is one again
        (BATCHES, 0),
        (diverged(BATCHES, 5, "inf"), 5),
    ],
)
def test_losses_that_are_no_numbers_up_to_the_end(tmp_path, text, lines):
    assert figures(tmp_path, text).losses_lost == lines


def test_a_rate_in_another_unit_than_the_work_of_a_step_names_it(tmp_path):
    with pytest.raises(NoFigures, match=r"its rate is in tokens/s: give workload.per_step: \{tokens: ...\}"):
        figures(tmp_path, RATES, per_step={"samples": 32})


def test_a_time_beside_a_rate_gives_the_work_of_a_step(tmp_path):
    times = [3.97, 4.2, 3.8, 4.02, 3.9] * 4
    lines = [f"step {20 * k} loss 2.{k} time {ms} ms tokens/s {64e3 / ms:.0f}" for k, ms in enumerate(times)]
    work = figures(tmp_path, "\n".join(lines))
    assert (work.unit, set(work.rows["tokens"])) == ("tokens", {64})
    assert work.rows["step_time_s"][1] == pytest.approx(4.2e-3)
    bare = [f"step {20 * k} | loss 2.{k} | {ms:.2f} ms/step | {64e3 / ms:,.0f} tok/s" for k, ms in enumerate(times)]
    assert set(figures(tmp_path, "\n".join(bare)).rows["tokens"]) == {64}
    for other in ("ms/token", "ms/stepwise", "ms"):  # units of something else, or of nobody knows what
        with pytest.raises(NoFigures, match="not how much work a step is"):
            figures(tmp_path, "\n".join(line.replace("ms/step", other) for line in bare))
    lines = [f"step {20 * k} loss 2.1 time {4.0 * k + 4:.2f} ms tokens/s {16000 + k}" for k in range(20)]
    with pytest.raises(NoFigures, match="not how much work a step is"):  # the time since the start
        figures(tmp_path, "\n".join(lines))
