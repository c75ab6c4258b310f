"""How good forecasts are where the truth is known: 1,500 simulated machines, and the published series of the tests.

Prints coverage of 95 % intervals, errors and widths for what was measured and swept; exit code 1 where coverage is
outside of 93 to 99.5 %. Takes about two minutes of one core.
"""

import math
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from simulated_machines import STRATEGIES, machine, models

from scalebench.forecast.collective import Group
from scalebench.forecast.interval import clopper_pearson, conformal
from scalebench.forecast.step_model import Target, forecast_step

MACHINES = 1500
CASES = (((1, 2, 4), (2, 4, 8), 8), ((1, 2, 4), (2, 4), 8), ((1, 2, 4), (), 8), ((1, 2), (2, 4), 4))
PAST = 30  # campaigns of a ledger


def count(measured: tuple, swept: tuple, size: int, machines: int) -> tuple[float, float]:
    """Prints a row; returns coverage of both constructions."""
    inside: list[bool] = []
    errors: list[float] = []
    widths: list[float] = []
    past: list[float] = []
    by_ledger: list[bool] = []
    for seed in range(machines):
        box = machine(seed)
        made = models(box, measured, swept)
        target = Target(Group(1, size), 16, 1)
        residuals = [r for m in made.values() if (r := m.held_out(target.group)) is not None]
        largest = 0.0
        for strategy in STRATEGIES:
            interval = forecast_step(made[strategy], target, residuals).interval
            seen = box.runs(strategy, target).seconds
            inside.append(interval.holds(seen))
            widths.append(interval.half_width)
            errors.append(abs(interval.value / box.step(strategy, size, 16, 1) - 1))
            largest = max(largest, abs(math.log(seen / interval.value)))
            if len(past) >= PAST:
                by_ledger.append(conformal(interval.value, past[-PAST:], 1.0).holds(seen))
        past.append(largest)
    low, high = clopper_pearson(sum(inside), len(inside))
    print(
        f"| {measured} | {swept or 'none'} | {size} "
        f"| {100 * np.mean(inside):.1f} ({100 * low:.1f} to {100 * high:.1f}) | "
        f"{100 * np.mean(by_ledger):.1f} | {100 * np.mean(errors):.1f} | {100 * np.quantile(errors, 0.95):.1f} | "
        f"{100 * np.median(widths):.1f} |"
    )
    return float(np.mean(inside)), float(np.mean(by_ledger))


def main() -> None:
    machines = int(sys.argv[1]) if len(sys.argv) > 1 else MACHINES
    began = time.monotonic()
    print(f"{machines} machines x {len(STRATEGIES)} strategies; nominal 95 %; one doubling from the largest size\n")
    print(
        "| measured on | swept | forecast of | leave-largest-out covers (%) | conformal covers (%) | mean error (%) "
        "| p95 error (%) | median half-width (%) |"
    )
    print("|---|---|---|---|---|---|---|---|")
    covered = [count(*case, machines) for case in CASES]
    print(f"\n{time.monotonic() - began:.0f} s")
    if not all(0.93 <= own <= 0.995 for own, _ in covered):
        sys.exit(1)


if __name__ == "__main__":
    main()
