"""Do the statistics keep their word? Campaigns with a known truth through the project's own functions.

    python benchmarks/coverage.py [--trials 1000] [--tables false-claims ...] > table.md  # ten minutes on one core

Prints the tables of docs/statistics.md. tests/conclude/analysis/test_coverage.py runs a small part of it.
"""

import argparse
import math
from collections.abc import Callable

import numpy as np

from scaleproof.conclude.analysis.measured_cells import MeasuredCell
from scaleproof.conclude.analysis.paired_test import compare, detectable, pairs_needed
from scaleproof.conclude.analysis.recommend import SIMPLICITY, recommend
from scaleproof.conclude.analysis.simultaneous import (
    MOST_REPEATS,
    MOST_TIMES,
    ROUND_CONFIDENCE,
    Family,
    compare_all,
    resolution,
)
from scaleproof.conclude.analysis.simultaneous import detectable as detectable_effect
from scaleproof.conclude.analysis.stopping import confidence_at, resolved
from scaleproof.ground.campaign.repeats import RepeatUntil
from scaleproof.ground.confidence import CONFIDENCE, Estimate, paired_ratio, rate
from scaleproof.ground.findings.finding import Findings

Random = np.random.Generator
Draw = Callable[[Random, int, int], np.ndarray]  # cells, repeats -> logarithms of rates, truth 0

# Exchangeable: every cell of a round has the same distribution.
NOISE: dict[str, Draw] = {
    "normal 3 %": lambda r, k, n: np.log(np.maximum(1 + 0.03 * r.standard_normal((k, n)), 0.1)),
    "log-normal 10 %": lambda r, k, n: 0.1 * r.standard_normal((k, n)),
    "log-normal 50 %": lambda r, k, n: 0.5 * r.standard_normal((k, n)),
    "exponential tail": lambda r, k, n: -np.log1p(0.1 * r.exponential(size=(k, n))),
    "Pareto 2.1": lambda r, k, n: -np.log1p(0.05 * r.pareto(2.1, (k, n))),
    "10 % of runs 1.5x slower": lambda r, k, n: -np.log(np.where(r.random((k, n)) < 0.1, 1.5, 1)) + _small(r, k, n),
    "two clock states 50/50": lambda r, k, n: np.where(r.random((k, n)) < 0.5, 0.1, 0) + _small(r, k, n),
    "two clock states 80/20": lambda r, k, n: np.where(r.random((k, n)) < 0.2, 0.1, 0) + _small(r, k, n),
    "a state for each round 5 %": lambda r, k, n: 0.05 * r.standard_normal((1, n)) + _small(r, k, n),
    "drift of 10 % over the rounds": lambda r, k, n: np.linspace(0, 0.1, n)[None, :] + _small(r, k, n),
}
# Not exchangeable: a quarter of the cells is four times as noisy.
UNEQUAL: Draw = lambda r, k, n: r.standard_normal((k, n)) * np.where(np.arange(k) % 4 == 0, 0.08, 0.02)[:, None]  # noqa: E731


def _small(random: Random, k: int, n: int) -> np.ndarray:
    return 0.01 * random.standard_normal((k, n))


def family(logs: np.ndarray, matched: bool = True, confidence: float = CONFIDENCE) -> Family:
    """The comparison of cells with these logarithms of rates; repeats that do not match have numbers of their own."""
    offset = 0 if matched else logs.shape[1]
    rates = {str(i): {i * offset + j: math.exp(value) for j, value in enumerate(row)} for i, row in enumerate(logs)}
    compared = compare_all(rates, confidence=confidence)
    assert compared is not None
    return compared


def false_claims(random: Random, draw: Draw, k: int, n: int, trials: int, matched: bool = True) -> float:
    """Part of campaigns of k equal cells in which any two are told apart."""
    return float(np.mean([family(draw(random, k, n), matched).differ.any() for _ in range(trials)]))


def stopped(
    random: Random, draw: Draw, k: int, rule: RepeatUntil, trials: int, effect: float = 0.0, naive: bool = False
) -> dict[str, float]:
    """Campaigns whose repeats end as `rule` says. `effect`: by which the first cell is faster, of the rate. `naive`:
    95 % at every look.

    `false`: a pair of equal cells told apart, or the wrong one of two said to be faster; `missed`: a pair whose
    interval at the end leaves the truth out; `rates`: part of the intervals of a cell's rate that hold its truth.
    """
    truth = np.zeros(k)
    truth[0] = math.log1p(effect)
    centre = float(draw(random, 1, 200_000).mean())
    false = missed = decided = repeats = rates = 0
    for _ in range(trials):
        logs = draw(random, k, rule.at_most) + truth[:, None]
        for n in rule.looks():
            compared = family(logs[:, :n], confidence=CONFIDENCE if naive else confidence_at(rule, n))
            fastest = int(np.argmax(logs[:, :n].mean(axis=1)))
            ratios = [(compared.low(i, fastest), compared.high(i, fastest)) for i in range(k) if i != fastest]
            done = all(resolved(ratio, rule.resolve) for ratio in ratios)
            if done:
                break
        apart = truth[:, None] - truth[None, :]
        wrong = compared.differ & (np.sign(compared.log_ratio) != np.sign(apart))
        false += bool(wrong.any())
        missed += bool((np.abs(compared.log_ratio - apart) > compared.half + 1e-12).any())
        decided += done
        repeats += n
        cell = rate(list(np.exp(logs[-1, :n])), [1.0] * n)
        value = math.exp(float(logs[-1, :n].mean()))
        rates += (cell.low or 0) * value / cell.value <= math.exp(centre) <= (cell.high or 0) * value / cell.value
    counts = {"false": false, "missed": missed, "decided": decided, "repeats": repeats, "rates": rates}
    return {name: number / trials for name, number in counts.items()}


def single_coverage(random: Random, draw: Draw, n: int, trials: int) -> tuple[float, float]:
    """Coverage of a cell's interval and of a paired ratio. The truth is the mean of the logarithms."""
    truth = float(draw(random, 1, 200_000).mean())
    cell_hits = ratio_hits = 0
    for _ in range(trials):
        a, b = np.exp(draw(random, 2, n))
        value = math.exp(float(np.log(a).mean()))
        cell = rate(list(a), [1.0] * n)
        assert cell.low is not None
        assert cell.high is not None
        # The interval lies around the mean rate; on the logarithms its centre is the mean of the logarithms.
        cell_hits += cell.low * value / cell.value <= math.exp(truth) <= cell.high * value / cell.value
        ratio = paired_ratio(dict(enumerate(a)), dict(enumerate(b)), float(np.exp(np.log(a / b).mean())))
        assert ratio is not None
        assert ratio.low is not None
        assert ratio.high is not None
        ratio_hits += ratio.low <= 1 <= ratio.high
    return cell_hits / trials, ratio_hits / trials


def recommended(
    random: Random, speeds: np.ndarray, noise: np.ndarray, n: int, margin: float = 0.05
) -> tuple[int | None, int]:
    """Recommended and fastest of one campaign. `speeds`: true, `noise`: sd of logarithms, a strategy each."""
    logs = np.log(speeds)[:, None] + noise[:, None] * random.standard_normal((len(speeds), n))
    order = np.argsort(-logs.mean(axis=1))
    cells = [_cell(SIMPLICITY[2 + i], math.exp(float(logs[i].mean())), n) for i in order]
    rates = {cell.cell: dict(enumerate(np.exp(logs[i]))) for cell, i in zip(cells, order, strict=True)}
    compared = compare_all(rates, {cell.cell: cell.rate.value for cell in cells})
    nothing = Findings(campaign="simulated", checks=[], findings=[])
    advice = recommend(cells, compared, nothing, {}, margin)
    assert advice is not None
    names = {cell.cell: int(i) for cell, i in zip(cells, order, strict=True)}
    return names.get(advice.cell or ""), int(order[0])


def _cell(strategy: str, value: float, n: int) -> MeasuredCell:
    return MeasuredCell(strategy, [], {"strategy": strategy}, Estimate(value, None, None, n, None, None), {})


def regret(random: Random, n: int, sd: float, trials: int, noisy: bool = False) -> dict[str, float]:
    """Mean loss of speed of following the recommendation (of the fastest where there is none), that of taking the
    fastest, and how often a cell more than 10 % slower than the best is recommended. `noisy`: the simplest cell is 25 %
    slower and five times as noisy; else times are uniform in 1 to 1.5."""
    lost = []
    lost_fastest = []
    bad = 0
    given = 0
    for _ in range(trials):
        speeds = 1 / random.uniform(1, 1.5, 5)
        noise = np.full(5, sd)
        if noisy:
            speeds = np.array([0.75, 1.0, 0.99, 0.98, 0.97])
            noise[0] = 5 * sd
        best = speeds.max()
        choice, fastest = recommended(random, speeds, noise, n)
        given += choice is not None
        bad += choice is not None and speeds[choice] < 0.9 * best
        lost.append(1 - speeds[fastest if choice is None else choice] / best)
        lost_fastest.append(1 - speeds[fastest] / best)
    means = {"lost": float(np.mean(lost)), "lost by the fastest": float(np.mean(lost_fastest))}
    return means | {"bad": bad / trials, "recommended": given / trials}


def more_repeats(random: Random, k: int, n: int, sd: float, trials: int, effect: float = 0.05) -> dict[str, float]:
    """What a campaign of n repeats says about further ones, against what these then show.

    `settled`: part of campaigns whose first cell is faster by `effect`, are given the repeats that were said to settle
    it, runs of the campaign itself among them, and tell it from the second; `too small`: part that is told so.
    `shown`: part of new campaigns of n repeats that show the difference that such campaigns were
    said to show; `further`: the same with as many repeats as are in reach. `enough`: the smallest number that settles
    `effect` if sd is known, and no round is looked at; `median`: of the numbers that are said.
    """
    log_effect = math.log1p(effect)
    settled: list[bool] = []
    by_n: list[bool] = []
    further: list[bool] = []
    numbers: list[float] = []
    for _ in range(trials):
        first = sd * random.standard_normal((k, n))
        result = resolution(family(first), effect)
        needed = result.repeats or math.inf
        numbers.append(needed)
        if needed <= MOST_REPEATS:
            rest = sd * random.standard_normal((k, int(needed) - n))
            settled.append(_first_two_differ(np.hstack([first, rest]), log_effect, ROUND_CONFIDENCE))
        again = sd * random.standard_normal((k, n))
        by_n.append(_first_two_differ(again, math.log1p(result.detectable), CONFIDENCE))
        rest = sd * random.standard_normal((k, result.further.repeats - n))
        logs = np.hstack([first, rest])
        further.append(_first_two_differ(logs, math.log1p(result.further.detectable), ROUND_CONFIDENCE))
    enough = 3
    while detectable_effect(enough, k) * math.sqrt(2) * sd > log_effect:
        enough += 1
    return {
        "enough": enough,
        "median": float(np.median(numbers)),
        "too small": float(np.mean([number > MOST_TIMES * n for number in numbers])),
        "settled": float(np.mean(settled)),
        "shown": float(np.mean(by_n)),
        "further": float(np.mean(further)),
    }


def _first_two_differ(logs: np.ndarray, log_effect: float, confidence: float) -> bool:
    """Whether the first cell, made faster by the effect, is told from the second."""
    effect = np.zeros((len(logs), 1))
    effect[0] = log_effect
    compared = family(logs + effect, confidence=confidence)
    return bool(compared.differ[0, 1] and compared.log_ratio[0, 1] > 0)


def extended(random: Random, draw: Draw, k: int, trials: int, first: int = 3, times: int = MOST_TIMES) -> float:
    """Part of campaigns of k equal cells that make a false claim, after a fixed number of repeats or after the rounds
    that the report advises where these leave a cell beside the fastest open."""
    rule = RepeatUntil(resolve=0.05, at_least=first, at_most=times * first)
    false = 0
    for _ in range(trials):
        logs = draw(random, k, rule.at_most)
        for n in rule.looks():
            compared = family(logs[:, :n], confidence=CONFIDENCE if n == first else confidence_at(rule, n))
            place = int(np.argmax(logs[:, :n].mean(axis=1)))
            ratios = [(compared.low(i, place), compared.high(i, place)) for i in range(k) if i != place]
            if all(resolved(ratio, rule.resolve) for ratio in ratios):
                break
        false += bool(compared.differ.any())
    return false / trials


def ab(random: Random, n: int, nulls: int, sd: float, trials: int) -> dict[str, float]:
    """False claims, power at the effect that is called detectable, and whether the printed ranges hold the truth."""

    def pairs(count: int, effect: float = 0.0) -> list[float]:
        return list(np.exp(effect + sd * random.standard_normal(count)))

    effect = detectable(n, nulls) * sd
    needed = pairs_needed(sd, nulls)
    null = [compare(pairs(n), pairs(nulls)) for _ in range(trials)]
    real = [compare(pairs(n, effect), pairs(nulls)).claim == "faster" for _ in range(trials)]
    ranges = [math.log1p(e.detectable_low) <= effect <= math.log1p(e.detectable_high) for e in null]
    in_pairs = [(e.pairs_low or math.inf) <= (needed or math.inf) <= (e.pairs_high or math.inf) for e in null]
    return {
        "false claims": float(np.mean([e.claim is not None for e in null])),
        "power": float(np.mean(real)),
        "range of the effect": float(np.mean(ranges)),
        "range of the pairs": float(np.mean(in_pairs)),
    }


def false_claims_table(random: Random, trials: int) -> None:
    sizes = [(2, 3), (2, 5), (2, 20), (6, 3), (6, 5), (20, 3), (20, 5), (20, 10), (50, 3), (50, 5)]
    print("### Family-wise false claims: equal cells, any pair told apart\n")
    _head(["noise", *(f"{k} cells, n={n}" for k, n in sizes)])
    for name, draw in (NOISE | {"unequal noise (not exchangeable)": UNEQUAL}).items():
        row = [false_claims(random, draw, k, n, trials) for k, n in sizes]
        print(f"| {name} | " + " | ".join(f"{100 * x:.1f}" for x in row) + " |", flush=True)


def coverage_table(random: Random, trials: int) -> None:
    print("### Coverage of single intervals: cell / paired ratio\n")
    _head(["noise", "n=3", "n=5", "n=10", "n=20"])
    for name in list(NOISE)[:9]:
        row = [single_coverage(random, NOISE[name], n, 2 * trials) for n in (3, 5, 10, 20)]
        print(f"| {name} | " + " | ".join(f"{a:.3f} / {b:.3f}" for a, b in row) + " |", flush=True)


def stopping_table(random: Random, trials: int) -> None:
    rule = RepeatUntil(resolve=0.03)
    print("### Repeat until it is decided: looks after 3, 4, 5, 7, 9 and 12 repeats, 3 % resolved\n")
    _head(["noise", "cells", "true difference", "false claims", "naive", "missed", "decided", "repeats", "rates held"])
    for name in ("normal 3 %", "Pareto 2.1", "two clock states 50/50", "a state for each round 5 %"):
        for k, effect in ((2, 0.0), (2, 0.05), (6, 0.0)):
            number = trials if k > 2 else 3 * trials  # quick ones; for two cells the share is nearest to 5 %
            naive = stopped(random, NOISE[name], k, rule, number, effect, naive=True)["false"]
            row = stopped(random, NOISE[name], k, rule, number, effect)
            shares = " | ".join(f"{100 * x:.1f}" for x in (row["false"], naive, row["missed"], row["decided"]))
            print(
                f"| {name} | {k} | {100 * effect:g} % | {shares} | {row['repeats']:.1f} | {100 * row['rates']:.1f} |",
                flush=True,
            )


def recommendation_table(random: Random, trials: int) -> None:
    print("### Recommendation\n")
    _head(["noise", "n", *regret(random, 3, 0.03, 2)])
    for noisy in (False, True):
        for sd in (0.03, 0.1):
            for n in (2, 3, 5, 10):
                row = regret(random, n, sd, trials, noisy).values()
                label = f"{100 * sd:g} %{', the simplest 25 % slower and noisy' if noisy else ''}"
                print(f"| {label} | {n} | " + " | ".join(f"{100 * x:.1f}" for x in row) + " |", flush=True)


def more_repeats_table(random: Random, trials: int) -> None:
    print("### Further repeats: what is said about them, and what they show\n")
    _head(["cells", "n", "sd", "enough", "said (median)", "too small", "settled", "shown by n", "shown by further"])
    for k, n, sd in ((2, 3, 0.01), (2, 3, 0.03), (4, 3, 0.03), (6, 5, 0.02), (10, 5, 0.05), (6, 3, 0.15)):
        row = more_repeats(random, k, n, sd, trials)
        shares = " | ".join(f"{row[name]:.3f}" for name in ("too small", "settled", "shown", "further"))
        print(f"| {k} | {n} | {100 * sd:g} % | {row['enough']:g} | {row['median']:g} | {shares} |", flush=True)


def extended_table(random: Random, trials: int) -> None:
    print("### False claims where rounds follow a fixed number of repeats\n")
    _head(["noise", "cells", "false claims"])
    for name in ("normal 3 %", "two clock states 50/50", "a state for each round 5 %"):
        for k in (2, 6):
            share = extended(random, NOISE[name], k, 2 * trials)
            print(f"| {name} | {k} | {100 * share:.1f} |", flush=True)


def ab_table(random: Random, trials: int) -> None:
    print("### A/B\n")
    _head(["pairs", "A/A pairs", "sd", "false claims", "power", "range of the effect", "range of the pairs"])
    for n, nulls in ((4, 2), (6, 4), (8, 4), (16, 4), (32, 8)):
        for sd in (0.01, 0.05):
            row = ab(random, n, nulls, sd, trials).values()
            print(f"| {n} | {nulls} | {100 * sd:g} % | " + " | ".join(f"{x:.3f}" for x in row) + " |", flush=True)


def _head(columns: list[str]) -> None:
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")


TABLES = {
    "false-claims": false_claims_table,
    "coverage": coverage_table,
    "stopping": stopping_table,
    "recommendation": recommendation_table,
    "more-repeats": more_repeats_table,
    "extended": extended_table,
    "ab": ab_table,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES), metavar="TABLE", help="which ones")
    arguments = parser.parse_args()
    for name in arguments.tables:
        TABLES[name](np.random.default_rng(20_260_101), arguments.trials)
        print(flush=True)


if __name__ == "__main__":
    main()
