"""How good forecasts are where the truth is known: published series, simulated machines, devices and networks.

    python benchmarks/forecast.py [MACHINES]

Prints the tables of docs/forecast.md: errors on published series; coverage of 95 % intervals, errors and widths for
what was measured and swept; micro-batches that a search finds; nodes and links that are accused. Exit code 1 where
coverage is outside of 93 to 99.5 %, an answer of the search is unsafe or takes more than four trials, or sound nodes
are accused in more than one network of a thousand. Takes about four minutes of one core.
"""

import math
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from published_series import (
    ddp_strong_errors,
    ddp_weak_errors,
    fsdp_errors,
    fsdp_inside,
    memory_errors,
    simumax_corrected,
    v100_error,
)
from simulated_machines import STRATEGIES, machine, models
from simulated_memory import random_device
from simulated_networks import node_pairs

from scaleproof.conclude.forecast.collective import Group
from scaleproof.conclude.forecast.frontier import MOST_TRIALS
from scaleproof.conclude.forecast.interval import clopper_pearson, conformal
from scaleproof.conclude.forecast.node_pairs import judge
from scaleproof.conclude.forecast.step_model import Target, forecast_step

MACHINES = 1500
CASES = (((1, 2, 4), (2, 4, 8), 8), ((1, 2, 4), (2, 4), 8), ((1, 2, 4), (), 8), ((1, 2), (2, 4), 4))
PAST = 30  # campaigns of a ledger
DEVICES = 2000
LAWS = (("a line", 0.0, 0.0), ("bent by 2 %", 0.02, 0.0), ("bent, runs differ by 0.3 %", 0.02, 0.003))
LAWS = (*LAWS, ("bent, runs differ by 1 %", 0.02, 0.01))
NETWORKS = 300
MOST_ACCUSED = 0.001  # of the networks
SPREADS = (0.02, 0.05, 0.10, 0.20, 0.35)


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


def back_tests() -> None:
    """Prints errors on the published series, and how many intervals hold."""
    strong, weak = ddp_strong_errors(), ddp_weak_errors()
    rows = {
        "FSDP, 16 to 512 devices, one doubling": fsdp_errors(1),
        "FSDP, 16 to 512 devices, two doublings": fsdp_errors(2),
        "DDP, H100, 1 and 2 to 4 devices": [strong[4], weak[4]],
        "DDP, H100, 1 and 2 to 8 devices": [strong[8], weak[8]],
        "DDP, V100, 1 and 2 to 4 devices": [v100_error()],
        "memory, ZeRO-2": memory_errors("zero2"),
        "memory, ZeRO-3": memory_errors("zero3"),
    }
    print("| published series | forecasts | mean error (%) | largest (%) |\n|---|---|---|---|")
    for name, errors in rows.items():
        percent = 100 * np.abs(errors)
        print(f"| {name} | {len(errors)} | {percent.mean():.1f} | {percent.max():.1f} |")
    print()
    for level in (0.8, 0.9):
        inside = fsdp_inside(level)
        print(f"conformal, FSDP: nominal {100 * level:.0f} % covers {sum(inside)} of {len(inside)}")
    for level in (0.9, 0.95):
        errors, held = simumax_corrected(level)
        mean = 100 * np.mean(np.abs(errors))
        print(f"conformal, SimuMax: nominal {100 * level:.0f} % covers {sum(held)} of {len(held)}; error {mean:.1f} %")
    print()


def frontier() -> int:
    """Prints how often the largest micro-batch is found; returns the number of bad answers.

    Bad is an answer that does not fit by the true law, and a search of more than four trials. Where runs differ, an
    answer that ran may be `tight`: its mean peak is above the limit by less than four standard deviations of a run.
    """
    bad = 0
    print(f"{DEVICES:,} random devices each\n")
    print(
        "| memory | largest found (%) | neighbour's failure seen (%) | trials, mean | most | tight (%) | bad |\n"
        "|---|---|---|---|---|---|---|"
    )
    for name, bend, noise in LAWS:
        random = np.random.default_rng(19)
        exact, certified = [], []
        trials, tight = [], []
        wrong = 0
        for _ in range(DEVICES):
            device = random_device(random, bend)
            answer = device.search(random, noise)
            trials.append(len(answer.trials))
            over = device.used(answer.largest) / device.limit - 1 if answer.largest else 0.0
            tight.append(0 < over <= 4 * noise)
            wrong += over > 4 * noise or trials[-1] > MOST_TRIALS
            exact.append(answer.largest == device.largest())
            certified.append(answer.certificate in ("ran out of memory", "largest allowed"))
        bad += wrong
        shares = f"{100 * np.mean(exact):.0f} | {100 * np.mean(certified):.0f}"
        print(f"| {name} | {shares} | {np.mean(trials):.1f} | {max(trials)} | {100 * np.mean(tight):.0f} | {wrong} |")
    print()
    return bad


def networks() -> float:
    """Prints how often sound and slow nodes and links are accused; returns the share of networks with an accusation
    of a sound node."""
    accused_nodes = made = 0
    print(f"{NETWORKS} networks each; the slow one at half the speed\n")
    print("| nodes | sound pairs differ by (%) | sound link accused (%) | slow node named (%) | slow link named (%) |")
    print("|---|---|---|---|---|")
    random = np.random.default_rng(55)
    for n in (4, 8, 16):
        for spread in SPREADS:
            sound = [judge(node_pairs(random, n, spread)) for _ in range(NETWORKS)]
            node = [judge(node_pairs(random, n, spread, slow=(0,))) for _ in range(NETWORKS)]
            link = [judge(node_pairs(random, n, spread, slow=((0, 1),))) for _ in range(NETWORKS)]
            made += len(sound) + len(node) + len(link)
            accused_nodes += sum(bool(verdict.slow_nodes) for verdict in (*sound, *link))
            accused_nodes += sum(bool(set(verdict.slow_nodes) - {"n0"}) for verdict in node)
            accused = np.mean([bool(verdict.slow_links) for verdict in sound])
            named = np.mean([verdict.slow_nodes == ("n0",) for verdict in node])
            links = [[(row.first, row.second) for row in verdict.slow_links] == [("n0", "n1")] for verdict in link]
            shares = f"{100 * accused:.0f} | {100 * named:.0f} | {100 * np.mean(links):.0f}"
            print(f"| {n} | {100 * spread:.0f} | {shares} |")
    print(f"\na sound node was accused in {accused_nodes} of {made:,} networks\n")
    return accused_nodes / made


def main() -> None:
    machines = int(sys.argv[1]) if len(sys.argv) > 1 else MACHINES
    began = time.monotonic()
    back_tests()
    bad = frontier()
    accused = networks()
    print(f"{machines} machines x {len(STRATEGIES)} strategies; nominal 95 %; one doubling from the largest size\n")
    print(
        "| measured on | swept | forecast of | leave-largest-out covers (%) | conformal covers (%) | mean error (%) "
        "| p95 error (%) | median half-width (%) |"
    )
    print("|---|---|---|---|---|---|---|---|")
    covered = [count(*case, machines) for case in CASES]
    print(f"\n{time.monotonic() - began:.0f} s")
    if bad or accused > MOST_ACCUSED or not all(0.93 <= own <= 0.995 for own, _ in covered):
        sys.exit(1)


if __name__ == "__main__":
    main()
