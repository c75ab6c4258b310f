"""Lines of steps with units: rates as they stand, times where the launcher's clock agrees that each is of a step."""

import pytest

from scaleproof.auditor.read.printed_log import printed_log
from scaleproof.measure.command.lines_with_units import read_lines_with_units

SECONDS = [0.30, 0.10, 0.12, 0.09, 0.11, 0.10]


def arrivals(seconds: list[float]) -> list[float]:
    """When lines come that are printed after each of these times."""
    return [sum(seconds[: k + 1]) for k in range(len(seconds))]


def printed(folder, lines):
    (folder / "train.log").write_text("\n".join(lines))
    return printed_log(folder / "train.log")


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("step {k} loss 2.31 12,800 tok/s", "tokens_per_s", 12_800.0),
        ("iter {k}: loss 2.31, 603.5 samples/s, 98 % busy", "samples_per_s", 603.5),
        ("Step: {k} | loss: 2.31 | 88 images/sec", "samples_per_s", 88.0),
    ],
)
def test_a_rate_with_its_unit(tmp_path, line, field, value):
    log = printed(tmp_path, [line.format(k=k) for k in range(6)])
    assert [getattr(step, field) for step in log.steps] == [value] * 6
    assert [step.loss for step in log.steps] == [2.31] * 6


@pytest.mark.parametrize(
    "line",
    [
        "step {k} loss 2.3 time {ms:.2f} ms",
        "it {k} dt {ms:.2f}ms",
        "batch {k} took {s:.4f} s",
        "step {k} | {ms:.2f} ms/step",
    ],
)
def test_a_time_of_each_step(line):
    lines = [line.format(k=k, ms=1e3 * s, s=s) for k, s in enumerate(SECONDS)]
    log = read_lines_with_units(lines, arrivals(SECONDS))
    assert [step.seconds for step in log.steps] == pytest.approx(SECONDS)


@pytest.mark.parametrize(
    ("numbers", "printed", "seen"),
    [
        (range(6), arrivals(SECONDS), SECONDS),  # since the start
        (range(0, 60, 10), SECONDS, SECONDS),  # of ten steps, or of one: nobody knows
        (range(6), SECONDS, [10 * s for s in SECONDS]),  # a part of the step, such as loading
        (range(6), SECONDS, [0.1 * s for s in SECONDS]),  # more than there was
        ([1, 2, 3, 1, 2, 3], SECONDS, SECONDS),  # two epochs
        (range(2), SECONDS, SECONDS),
    ],
)
def test_other_times_are_none(numbers, printed, seen):
    lines = [f"step {k} loss 2.3 time {s:.3f} s" for k, s in zip(numbers, printed, strict=False)]
    assert read_lines_with_units(lines, arrivals(seen)) is None


def test_beside_a_rate_a_time_since_the_start_is_no_time_of_a_step(tmp_path):
    lines = [f"step {k} loss 2.3 12,800 tok/s time {s:.2f} s" for k, s in enumerate(arrivals(SECONDS))]
    log = printed(tmp_path, lines)
    assert [(step.seconds, step.tokens_per_s) for step in log.steps] == [(None, 12_800.0)] * 6


def test_lines_without_a_number_of_a_step_are_none(tmp_path):
    assert printed(tmp_path, ["evaluated at 12,800 tok/s"] * 6) is None
    assert read_lines_with_units(["evaluated, took 3 s"] * 6, []) is None
