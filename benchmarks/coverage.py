"""Do the printed sentences keep their word? Campaigns with a known truth, from their runs to the answer of the page.

    python benchmarks/coverage.py [--trials 1000] [--tables false-claims ...] > table.md

Prints the tables of docs/statistics.md: a quarter of an hour on one core with 1,000 trials. The first two tables come
from arrays (many_campaigns.py), with four times as many trials; of each row some campaigns are printed as well, and the
exit code is 1 where a page says something else. tests/conclude/analysis/test_coverage.py runs a small part of it.
"""

import argparse
import math
import re
import sys
from collections.abc import Mapping

import numpy as np
from many_campaigns import drawn, families, rate_halves, speed_up_halves, values
from simulated_campaigns import ALL_NOISE, NOISE, Draw, Random, answered, cell_name, family, question_ratio

from scaleproof.conclude.analysis.paired_test import compare_ratios, pairs_needed
from scaleproof.conclude.analysis.power import detectable_by_pairs
from scaleproof.conclude.analysis.simultaneous import MOST_REPEATS, MOST_TIMES, ROUND_CONFIDENCE, resolution_of_family
from scaleproof.conclude.analysis.stopping import confidence_at, is_resolved
from scaleproof.conclude.report.sentences.answer import Answer
from scaleproof.ground.campaign.repeats import RepeatUntil
from scaleproof.ground.confidence import CONFIDENCE, paired_ratio, rate_with_interval
from scaleproof.ground.number_format import estimate
from scaleproof.ground.records.result_file import Estimated
from scaleproof.ground.records.scaling_report import ScalingReport

# What the answer says where it claims that two cells differ.
CLAIM = re.compile(
    r"Clearly faster: |\b(is|are) (faster|slower)\b|pays off|one device is faster|, the (next|fastest)\b"
)
RATIO = re.compile(r"(\S+) at [\d.]+x \(([\d.]+)-([\d.]+)\)")
TO_FASTEST = re.compile(r"[\d.]+x (\S+) \(([\d.]+)-([\d.]+)\)")
IN_TABLE = re.compile(r"\[([\d.,]+),\s([\d.,]+)\]")
CELLS = (2, 5, 10, 30)
REPEATS = (3, 4, 5, 6, 7, 8)  # two repeats are compared with nothing
AT_ONCE = 1000  # campaigns in an array
SLOW_RUNS = "10 % of runs 1.5x slower"
PAGES = 8  # of each row of the arrays that are printed as well
RECOMMENDED = re.compile(r"Recommended: (\S+), the (?:fastest|simplest)")


def claims_a_difference(report: ScalingReport, answer: Answer) -> bool:
    """Whether the answer or the letters of the ranking tell any two cells apart."""
    letters = [set(entry.letters) for entry in report.ranking[-1].comparable if entry.letters]
    apart = any(not one & other for one in letters for other in letters)
    return apart or CLAIM.search(answer.text) is not None


def false_claims(random: Random, draw: Draw, k: int, n: int, trials: int) -> float:
    """Part of campaigns of k equal cells and one equal device whose page says that any two differ."""
    return float(np.mean([claims_a_difference(*answered(draw(random, k + 1, n))) for _ in range(trials)]))


def printed_coverage(random: Random, draw: Draw, k: int, n: int, trials: int) -> dict[str, float]:
    """Part of the printed intervals that hold the truth, of k equal cells on two devices and one device.

    `rate`: of the tables; `single`: a ratio that was not picked, as of a question; `fastest`: the fastest cell against
    one device, as the answer has it; `together`: all ratios of an answer. `half`, `half alone`: median half-width of
    the single ratio, and what it would be by the runs of the pair alone.
    """
    centre = float(np.mean([draw(random, k + 1, n).mean() for _ in range(20_000 // (k * n))]))
    held: dict[str, list[bool]] = {name: [] for name in ("rate", "single", "fastest", "together")}
    half: list[float] = []
    alone: list[float] = []
    for _ in range(trials):
        logs = draw(random, k + 1, n)
        report, answer = answered(logs)
        point = next(point for point in report.points if point.cell == cell_name(1))
        # The interval lies around the mean rate; its centre on the logarithms is their mean.
        shift = logs[1].mean() + math.log(1000 / point.tokens_per_sec_global.value)
        held["rate"].append(_holds(estimate(point.tokens_per_sec_global, digits=6), 1000 * math.exp(centre - shift)))
        single = question_ratio(logs)
        held["single"].append(_holds(estimate(single, digits=6), 1.0))
        ratios = [TO_FASTEST.findall(bullet.text) for bullet in answer.bullets if bullet.topic in ("fastest", "slower")]
        against_one = [RATIO.findall(bullet.text) for bullet in answer.bullets if bullet.topic == "one-device"]
        pairs = [pair for of_bullet in (*ratios, *against_one) for pair in of_bullet]
        held["together"].append(all(float(low) <= 1 <= float(high) for _, low, high in pairs))
        own = [pair for of_bullet in against_one for pair in of_bullet if pair[0] == report.ranking[-1].cells[0].cell]
        held["fastest"] += [float(low) <= 1 <= float(high) for _, low, high in own]
        half.append(_half_width(single))
        pair_alone = paired_ratio(*(dict(enumerate(np.exp(logs[place]))) for place in (1, 0)), 1.0)
        assert pair_alone
        alone.append(math.log(pair_alone.high or 1))
    shares = {name: float(np.mean(values)) if values else math.nan for name, values in held.items()}
    return shares | {"half": float(np.median(half)), "half alone": float(np.median(alone))}


def _holds(printed: str, truth: float) -> bool:
    match = IN_TABLE.search(printed)
    if match is None:
        return True  # no interval is printed
    low, high = (float(bound.replace(",", "")) for bound in match.groups())
    return low <= truth <= high


def _half_width(ratio: Estimated) -> float:
    """Of the logarithm."""
    low, high = ratio.bounds or (math.nan, math.nan)
    return math.log(high / low) / 2


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
            done = all(is_resolved(ratio, rule.resolve) for ratio in ratios)
            if done:
                break
        apart = truth[:, None] - truth[None, :]
        wrong = compared.differ & (np.sign(compared.log_ratio) != np.sign(apart))
        false += bool(wrong.any())
        missed += bool((np.abs(compared.log_ratio - apart) > compared.half + 1e-12).any())
        decided += done
        repeats += n
        cell = rate_with_interval(list(np.exp(logs[-1, :n])), [1.0] * n)
        value = math.exp(float(logs[-1, :n].mean()))
        rates += (cell.low or 0) * value / cell.value <= math.exp(centre) <= (cell.high or 0) * value / cell.value
    counts = {"false": false, "missed": missed, "decided": decided, "repeats": repeats, "rates": rates}
    return {name: number / trials for name, number in counts.items()}


def recommended(random: Random, draw: Draw, k: int, n: int, trials: int, noisy: bool = False) -> dict[str, float]:
    """What the answer recommends among k cells whose times are uniform in 1 to 1.5, and one device at half the rate.

    `given`: part of campaigns with a recommendation; `5 % slower`, `10 % slower`: those that recommend a cell that is
    slower than the best by more; `lost`: mean loss by following the answer (by taking the fastest where it recommends
    none). `noisy`: the simplest cell is 25 % slower and five times as noisy.
    """
    lost = []
    slower5 = slower10 = given = 0
    for _ in range(trials):
        speeds = 1 / random.uniform(1, 1.5, k)
        logs = draw(random, k + 1, n)
        if noisy:
            speeds[:] = 1 - 0.01 * np.arange(k)
            speeds[0] = 0.75
            logs[1] *= 5
        logs += np.log([0.5, *speeds])[:, None]
        report, answer = answered(logs)
        names = {cell_name(place + 1): speed for place, speed in enumerate(speeds)}
        match = RECOMMENDED.search(answer.text)
        chosen = names[match[1] if match else report.ranking[-1].cells[0].cell]
        loss = 1 - chosen / speeds.max()
        lost.append(loss)
        if match:
            given += 1
            slower5 += loss > 0.05
            slower10 += loss > 0.1
    shares = {"given": given, "5 % slower": slower5, "10 % slower": slower10}
    return {name: count / trials for name, count in shares.items()} | {"lost": float(np.mean(lost))}


def more_repeats(random: Random, draw: Draw, k: int, n: int, trials: int, effect: float = 0.05) -> dict[str, float]:
    """What a campaign of n repeats says about further ones, against what these then show.

    `settled`: part of campaigns whose first cell is faster by `effect`, are given the repeats that were said to settle
    it, runs of the campaign itself among them, and tell it from the second; `too small`: part that is told so.
    `shown`: part of campaigns of n further repeats that show the difference that n repeats were said to show;
    `further`: the same with as many repeats as are in reach. `median`: of the numbers that are said.
    """
    log_effect = math.log1p(effect)
    settled: list[bool] = []
    by_n: list[bool] = []
    further: list[bool] = []
    numbers: list[float] = []
    for _ in range(trials):
        logs = draw(random, k, MOST_REPEATS)
        result = resolution_of_family(family(logs[:, :n]), effect)
        needed = result.repeats or math.inf
        numbers.append(needed)
        if needed <= MOST_REPEATS:
            settled.append(_first_two_differ(logs[:, : int(needed)], log_effect, ROUND_CONFIDENCE))
        by_n.append(_first_two_differ(logs[:, n : 2 * n], math.log1p(result.detectable), CONFIDENCE))
        reach = logs[:, : result.further.repeats]
        further.append(_first_two_differ(reach, math.log1p(result.further.detectable), ROUND_CONFIDENCE))
    return {
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
            if all(is_resolved(ratio, rule.resolve) for ratio in ratios):
                break
        false += bool(compared.differ.any())
    return false / trials


def ab(random: Random, n: int, nulls: int, sd: float, trials: int) -> dict[str, float]:
    """False claims, power at the effect that is called detectable, and whether the printed ranges hold the truth."""

    def pairs(count: int, effect: float = 0.0) -> list[float]:
        return list(np.exp(effect + sd * random.standard_normal(count)))

    effect = detectable_by_pairs(n, nulls) * sd
    needed = pairs_needed(sd, nulls)
    null = [compare_ratios(pairs(n), pairs(nulls)) for _ in range(trials)]
    real = [compare_ratios(pairs(n, effect), pairs(nulls)).claim == "faster" for _ in range(trials)]
    ranges = [math.log1p(e.detectable_low) <= effect <= math.log1p(e.detectable_high) for e in null]
    in_pairs = [(e.pairs_low or math.inf) <= (needed or math.inf) <= (e.pairs_high or math.inf) for e in null]
    return {
        "false claims": float(np.mean([e.claim is not None for e in null])),
        "power": float(np.mean(real)),
        "range of the effect": float(np.mean(ranges)),
        "range of the pairs": float(np.mean(in_pairs)),
    }


def false_claims_table(random: Random, trials: int) -> None:
    print("### False claims of a page: equal cells and one equal device, any two told apart\n")
    _head(["noise", "cells", *(f"n={n}" for n in REPEATS)])
    for name, draw in ALL_NOISE.items():
        for k in CELLS:
            row = [_false_claims_at_once(random, draw, k, n, 4 * trials) for n in REPEATS]
            print(f"| {name} | {k} | " + " | ".join(f"{100 * x:.1f}" for x in row) + " |", flush=True)


def _false_claims_at_once(random: Random, draw: Draw, k: int, n: int, trials: int) -> float:
    """As `false_claims`, by arrays. Ends the program where a page disagrees."""
    false = 0
    for first in range(0, trials, AT_ONCE):
        logs = drawn(random, draw, k, n, min(AT_ONCE, trials - first))
        claims = families(logs).misses.any(axis=(1, 2))
        false += int(claims.sum())
        if first == 0:
            for campaign, claimed in zip(logs[:PAGES], claims, strict=False):
                if claims_a_difference(*answered(campaign)) != claimed:
                    sys.exit(f"a page of {k} cells and {n} repeats does not say what the arrays say")
    return false / trials


def coverage_table(random: Random, trials: int) -> None:
    print("### Printed intervals that hold the truth\n")
    quantities = ("rate", "single", "together", "half-width")
    _head(["noise", "cells", *(f"{name}, n={n}" if n == 3 else f"{n}" for name in quantities for n in (3, 5, 8))])
    usual: list[float] = []
    for name, draw in ALL_NOISE.items():
        for k in CELLS:
            rows = [_coverage_at_once(random, draw, k, n, 4 * trials if k < 30 else trials) for n in (3, 5, 8)]
            shares = " | ".join(f"{100 * row[quantity]:.1f}" for quantity in quantities for row in rows)
            print(f"| {name} | {k} | {shares} |", flush=True)
            usual += [100 * row["usual run"] for row in rows if name == SLOW_RUNS]
    print(f"\n{SLOW_RUNS}: intervals of rates hold the usual run's in {min(usual):.1f} % or more")


def _coverage_at_once(random: Random, draw: Draw, k: int, n: int, trials: int) -> dict[str, float]:
    """As `printed_coverage`, by arrays, also of the usual (median) run. Ends the program where a page disagrees."""
    logs = drawn(random, draw, k, n, trials)
    of_rate, of_speed_up = rate_halves(logs), speed_up_halves(logs)
    compared = families(logs)
    fastest = values(logs)[:, 1:].argmax(axis=1) + 1
    missed = compared.misses[np.arange(trials), fastest].any(axis=1) | compared.misses[:, 0].any(axis=1)
    for campaign, *halves in zip(logs[:PAGES], of_rate, of_speed_up, strict=False):
        report, _ = answered(campaign)
        point = next(point for point in report.points if point.cell == cell_name(1))
        printed = [_half_width(estimate) for estimate in (point.tokens_per_sec_global, question_ratio(campaign))]
        if not np.allclose(printed, halves):
            sys.exit(f"a page of {k} cells and {n} repeats does not have the intervals of the arrays")
    return {
        "rate": float(np.mean(np.abs(logs[:, 1].mean(axis=1) - logs.mean()) <= of_rate)),
        "usual run": float(np.mean(np.abs(logs[:, 1].mean(axis=1) - np.median(logs)) <= of_rate)),
        "single": float(np.mean(np.abs(compared.log_ratio[:, 1, 0]) <= of_speed_up)),
        "together": float(1 - missed.mean()),
        "half-width": float(np.median(of_speed_up)),
    }


def stopping_table(random: Random, trials: int) -> None:
    rule = RepeatUntil(resolve=0.03)
    print("### Repeat until it is decided: looks after 3, 4, 5, 7, 9 and 12 repeats, 3 % resolved\n")
    _head(["noise", "cells", "true difference", "false claims", "naive", "missed", "decided", "repeats", "rates held"])
    for name in ("normal 3 %", "heavy tails (t3)", "two states", "a state for each round 5 %"):
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
    _head(["noise", "cells", "n", "given", "5 % slower", "10 % slower", "lost"])
    chosen: Mapping[str, Draw] = {
        "normal 3 %": NOISE["normal 3 %"],
        "normal 10 %": lambda r, k, n: 0.1 * r.standard_normal((k, n)),
        **{name: ALL_NOISE[name] for name in ("heavy tails (t3)", "two states that last", "noise of 1 to 10 %")},
        **{name: ALL_NOISE[name] for name in ("drift of 10 % over the rounds", "a state for each round 5 %")},
    }
    for name, draw in chosen.items():
        for k, n in ((5, 3), (5, 5), (10, 5), (10, 10)):
            row = recommended(random, draw, k, n, trials)
            print(f"| {name} | {k} | {n} | " + " | ".join(f"{100 * x:.1f}" for x in row.values()) + " |", flush=True)
    for n in (3, 5, 10):
        row = recommended(random, NOISE["normal 3 %"], 5, n, trials, noisy=True)
        shares = " | ".join(f"{100 * x:.1f}" for x in row.values())
        print(f"| normal 3 %, the simplest 25 % slower and noisy | 5 | {n} | {shares} |", flush=True)


def more_repeats_table(random: Random, trials: int) -> None:
    print("### Further repeats: what is said about them, and what they show\n")
    _head(["noise", "cells", "n", "said (median)", "too small", "settled", "shown by n", "shown by further"])
    for name in ("normal 3 %", "heavy tails (t3)", "two states", "noise of 1 to 10 %", "one cell 10x noisier"):
        for k, n in ((2, 3), (6, 3), (6, 5)):
            row = more_repeats(random, ALL_NOISE[name], k, n, trials)
            shares = " | ".join(f"{row[key]:.2f}" for key in ("too small", "settled", "shown", "further"))
            print(f"| {name} | {k} | {n} | {row['median']:g} | {shares} |", flush=True)


def extended_table(random: Random, trials: int) -> None:
    print("### False claims where rounds follow a fixed number of repeats\n")
    _head(["noise", "cells", "false claims"])
    for name in ("normal 3 %", "two states", "a state for each round 5 %"):
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
