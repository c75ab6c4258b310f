"""Losses of equal steps of two trainings that nothing replays: whether they agree, in one sentence."""

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import chain
from statistics import fmean

from scaleproof.ground.errors import plural
from scaleproof.ground.number_format import significant

ALIKE = 0.01  # relative difference of losses that the order of summation explains in bf16
LossesByStep = Mapping[int, float]


def compare_losses(a: str, b: str, runs_a: Sequence[LossesByStep], runs_b: Sequence[LossesByStep]) -> tuple[bool, str]:
    """Return whether the losses of two sides, each of one run or more, differ in equal steps, and a sentence on it.

    They differ where all runs of a side are further from all of the other than ALIKE and one printed digit. Without
    losses of a side the sentence is "".
    """
    if not any(runs_a) or not any(runs_b):
        return False, ""
    steps = sorted(set(runs_a[0]).intersection(*runs_a, *runs_b))
    if not steps:
        return False, "Losses were not compared: no step has one in all runs."
    for step in steps:
        if _is_finite(step, runs_a) != _is_finite(step, runs_b):
            diverged = b if _is_finite(step, runs_a) else a
            return True, f"Losses differ: at step {step} that of {diverged} is no finite number."
    steps = [step for step in steps if _is_finite(step, runs_a)]
    if not steps:
        return False, "Losses were not compared: none is a finite number."
    last_digit = _last_digit(chain.from_iterable(run.values() for run in (*runs_a, *runs_b)))
    apart: dict[int, float] = {}  # step -> relative difference of the means
    texts: dict[int, str] = {}  # of steps that differ
    for step in steps:
        losses_a, losses_b = [run[step] for run in runs_a], [run[step] for run in runs_b]
        mean_a, mean_b = fmean(losses_a), fmean(losses_b)
        scale = max(abs(mean_a), abs(mean_b)) or 1.0
        apart[step] = abs(mean_a - mean_b) / scale
        gap = max(min(losses_a) - max(losses_b), min(losses_b) - max(losses_a))
        if gap > ALIKE * scale + last_digit:
            figures = f"{significant(mean_a, 5)} in {a}, {significant(mean_b, 5)} in {b}"
            texts[step] = f"at step {step} ({figures}: {_percent(apart[step])} apart)"

    equal_steps = plural(len(steps), "equal step")
    if not texts:
        largest = max(apart.values())
        explained = ", within the scatter of runs and the last digit" if largest > ALIKE else ""
        return False, f"Losses agree in {equal_steps}: at most {_percent(largest)} apart{explained}."
    first, most = min(texts), max(texts, key=apart.__getitem__)
    most_text = f", most {texts[most]}" if most != first else ""
    return True, f"Losses differ in {len(texts)} of {equal_steps}, first {texts[first]}{most_text}."


def _is_finite(step: int, runs: Sequence[LossesByStep]) -> bool:
    return all(math.isfinite(run[step]) for run in runs)


def _last_digit(losses: Iterable[float]) -> float:
    """Return one unit of the last printed digit: 0.01 of 2.31 and 2.3, 1e-5 of 9e-05."""
    exponents = [Decimal(f"{loss:.12g}").normalize().as_tuple().exponent for loss in losses if math.isfinite(loss)]
    return 10.0 ** min(0, *map(int, exponents))


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %" if part > 0.099 else f"{significant(100 * part, 2)} %"
