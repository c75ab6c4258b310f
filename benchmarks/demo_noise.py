"""What the runs of the published demo say about how to measure: how short a window may be, and whether covariates help.

    python benchmarks/demo_noise.py [--trials 1000] > tables.md

Prints two tables of docs/statistics.md, in some seconds.
"""

import argparse
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from many_campaigns import families, speed_up_halves

from scaleproof.ground.confidence import remove_means
from scaleproof.ground.records.run import MeasuredRun, read_run

CELLS = 5
SHORT = (2, 3, 6, 12, 25)  # steps of a window


def demo_runs(pattern: str) -> dict[str, list[MeasuredRun]]:
    """Cell -> its runs below folders of the newest published demo."""
    newest = sorted(Path(__file__).parents[1].glob("results/published/demo*"))[-1]
    runs: dict[str, list[MeasuredRun]] = {}
    for folder in sorted(newest.glob(pattern)):
        run = read_run(folder)
        assert isinstance(run, MeasuredRun)
        runs.setdefault(run.metrics.cell, []).append(run)
    return runs


def windows_table(trials: int) -> None:
    """Campaigns of equal cells whose runs are windows cut out of measured step series, whole-run effects included."""
    of_cells = [*demo_runs("runs/*/rep*").values(), *demo_runs("compare/*/pair[0-9]*/[ab]").values()]
    series = []
    for runs in of_cells:
        usual = math.exp(float(np.mean([math.log(run.step_times.mean()) for run in runs])))
        series += [run.step_times / usual for run in runs]
    step_s = float(np.mean([run.step_times.mean() for runs in of_cells for run in runs]))
    print("| window | half-width of a speed-up, n=5 | speed-ups that hold the truth, n=3, 5 | false claims, n=3, 5 |")
    print("|---|---|---|---|")
    random = np.random.default_rng(20_260_101)
    for steps in SHORT:
        held, false = [], []
        half = 0.0
        for n in (3, 5):
            logs = np.empty((trials, CELLS + 1, n))
            for place in np.ndindex(logs.shape):
                times = series[random.integers(len(series))]
                start = random.integers(len(times) - steps + 1)
                logs[place] = -math.log(times[start : start + steps].mean())
            compared, halves = families(logs), speed_up_halves(logs)
            held.append(100 * float(np.mean(np.abs(compared.log_ratio[:, 1, 0]) <= halves)))
            false.append(100 * float(compared.misses.any(axis=(1, 2)).mean()))
            half = 100 * float(np.median(halves))
        shares = f"{held[0]:.1f}, {held[1]:.1f} % | {false[0]:.1f}, {false[1]:.1f} %"
        print(f"| {steps} steps, {steps * step_s:.2f} s | {half:.1f} % | {shares} |")


def _per_second(run: MeasuredRun, name: str) -> float:
    """A figure of the ranks for each second of the window, mean over ranks."""
    return float(np.mean([rank[name] for rank in run.metrics.ranks])) / run.metrics.window.wall_time_s


def _of_others(run: MeasuredRun) -> float:
    """Processor time of other programs for each second of the window."""
    own = sum(rank["cpu_s"] for rank in run.metrics.ranks)
    return float(run.metrics.ranks[0]["machine_busy_s"] - own) / run.metrics.window.wall_time_s


def _log_mean(run: MeasuredRun, name: str) -> float:
    return math.log(float(np.mean([rank[name] for rank in run.metrics.ranks])) + 1e-9)


COVARIATES: dict[str, Callable[[MeasuredRun], float]] = {
    "processor time of the ranks": lambda run: _log_mean(run, "cpu_s"),
    "involuntary switches a second": lambda run: math.log(_per_second(run, "involuntary_switches")),
    "involuntary switches": lambda run: _log_mean(run, "involuntary_switches"),
    "processor time of other programs": _of_others,
    "first step": lambda run: math.log(run.metrics.startup.first_step_s),
    "warm-up": lambda run: math.log(run.metrics.startup.warmup_s),
    "waiting for a core": lambda run: _per_second(run, "run_delay_s"),
    "load before the run": lambda run: float(run.metrics.ranks[0]["cpu_load"]),
    "time stolen by the host": lambda run: _per_second(run, "machine_steal_s"),
}


def covariates_table() -> None:
    """How much narrower intervals were by each covariate, with a slope from the other rounds."""
    runs = list(demo_runs("runs/*/rep*").values())
    rates = remove_means(np.array([[math.log(run.metrics.window.tokens_per_s) for run in of_cell] for of_cell in runs]))
    print("\n| covariate | correlation with the rate | width of intervals with it |\n|---|---|---|")
    for name, figure in COVARIATES.items():
        values = remove_means(np.array([[figure(run) for run in of_cell] for of_cell in runs]))
        left = np.empty_like(rates)
        for place in range(rates.shape[1]):
            others = np.delete(np.arange(rates.shape[1]), place)
            slope = (values[:, others] * rates[:, others]).sum() / (values[:, others] ** 2).sum()
            left[:, place] = rates[:, place] - slope * values[:, place]
        width = math.sqrt(float((left**2).mean() / (rates**2).mean()))
        print(f"| {name} | {np.corrcoef(values.ravel(), rates.ravel())[0, 1]:.2f} | {width:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=1000)
    windows_table(parser.parse_args().trials)
    covariates_table()


if __name__ == "__main__":
    main()
