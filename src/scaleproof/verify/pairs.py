"""The A/B comparisons of a campaign, computed again from the runs of their pairs: of A and B, or of A twice (A/A)."""

import math
import statistics
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from scipy import stats

from scaleproof.verify import raw
from scaleproof.verify.contents import json_of, schema_of
from scaleproof.verify.intervals import EARLIER_ERROR, ERROR, detectable_by_ab_pairs, half_width
from scaleproof.verify.raw import Difference, RawRun
from scaleproof.verify.recompute import CONFIDENCE, log_interval

FILE = "comparison.json"
EFFECT = 0.02  # for which the pairs needed are stated
FEWEST_PAIRS, MOST_PAIRS = 6, 1000
FEWEST_OF_EACH = 2  # whole pairs of A and B, and of A twice, without which there is no estimate
# What is detectable with the smallest and the largest spread that the measured one allows, by quantiles of chi-square.
QUANTILES = {"detectable_low": 0.975, "detectable_high": 0.025}
WITH_BOUNDS = (1, 2)  # schema from which on the bounds and words are those of today
EVEN_DRAWS = (1, 3)  # and from which on simulated effects have no more than today's error


@dataclass(frozen=True)
class PairedRuns:
    """The ratios B / A of a comparison, those of A / A, and the runs of both."""

    ratios: list[float]
    null_ratios: list[float]
    runs: list[RawRun]

    @property
    def logs(self) -> list[float]:
        return [math.log(ratio) for ratio in self.ratios]

    @property
    def freedom(self) -> int:
        return len(self.ratios) - 1 + len(self.null_ratios)

    @property
    def spread(self) -> float:
        """Standard deviation of the logarithm of a pair's ratio, of all pairs; the true mean of A / A is 0."""
        mean = statistics.fmean(self.logs)
        squares = [(log - mean) ** 2 for log in self.logs] + [math.log(ratio) ** 2 for ratio in self.null_ratios]
        return math.sqrt(math.fsum(squares) / self.freedom)


def check_comparison(folder: Path, cells: Sequence[RawRun] = ()) -> Iterator[Difference]:
    """Yield where comparison.json has other figures, bounds or claims than the pairs' own files give.

    `cells`: runs of the campaign's own cells, among which each arm names those that do its work.
    """
    report = json_of(folder / FILE)
    yield from raw.check_values(FILE, "confidence", report["confidence"], CONFIDENCE)
    for entry in report["comparisons"]:
        runs, differences = raw.read_runs(folder, f"compare/{entry['name']}/pair*/[ab]")
        if differences:  # then what follows from them is not reported as well
            yield from differences
            continue
        listed = json_of(folder / "compare" / entry["name"] / "pairs.json")["pairs"]
        pairs = _paired_runs(listed, runs)
        yield from _check_entry(entry, listed, runs)
        if entry["estimate"]:
            yield from _check_estimate(entry, pairs, schema_of(report))
            yield from _check_arms(entry, pairs.runs, cells)
        elif not (problems := _reasons_against(entry["name"], pairs, json_of(folder / "findings.json"))):
            yield Difference(FILE, f"{entry['name']}, estimate", "is missing, and nothing forbids one")
        elif entry["status"] not in problems:
            yield Difference(FILE, f"{entry['name']}, status", f"is {entry['status']}; it is {problems[0]}")


def _reasons_against(name: str, pairs: PairedRuns, findings: Mapping[str, Any]) -> list[str]:
    """Return the statuses that forbid an estimate: of too few whole pairs, and of `findings` on the comparison."""
    statuses = ["incomplete"] if min(len(pairs.ratios), len(pairs.null_ratios)) < FEWEST_OF_EACH else []
    for finding in findings["findings"]:
        if finding.get("concerns") == "comparison" and name in finding["cells"]:
            statuses += ["invalid"] * (finding["severity"] == "invalid")
            statuses += ["incomparable"] * (finding["code"] == "provenance-differs")
    return statuses


def _check_entry(
    entry: Mapping[str, Any], listed: Sequence[Mapping[str, Any]], runs: Sequence[RawRun]
) -> Iterator[Difference]:
    """Yield where a comparison states other settings, pairs or paths than its runs have. `listed`: of pairs.json."""
    configs = {run.cell: run.metrics["config"] for run in runs}
    declared = raw.differing_settings(configs.get(entry["a"], {}), configs.get(entry["b"], {}))
    expected: dict[str, Any] = {"pairs": len(listed), "declared": declared}
    if entry["estimate"]:
        expected |= {"status": "ok", "why": None}
    if entry.get("metrics_paths"):  # results may have been moved: the folder before compare/ is taken as stated
        moved_to = entry["metrics_paths"][0].split("compare/")[0]
        folders = [f"compare/{entry['name']}/pair{pair['pair']}/{arm}" for pair in listed for arm in "ab"]
        expected["metrics_paths"] = [f"{moved_to}{path_of_run}/{raw.METRICS}" for path_of_run in folders]
    yield from raw.check_values(FILE, entry["name"], entry, expected)


def _check_estimate(entry: Mapping[str, Any], pairs: PairedRuns, schema: tuple[int, ...]) -> Iterator[Difference]:
    """Yield where ratios and figures of a comparison are not those of its pairs; of early schemas no bounds."""
    estimate = entry["estimate"]
    expected = dict(_expected_figures(pairs)) | (dict(_expected_bounds(pairs)) if schema >= WITH_BOUNDS else {})
    yield from raw.check_values(FILE, entry["name"], estimate, expected, "the pairs give")
    for name, values in (("ratios", pairs.ratios), ("null_ratios", pairs.null_ratios)):
        if len(values) != len(estimate[name]) or not all(map(raw.close, values, estimate[name])):
            yield Difference(FILE, f"{entry['name']}, {name}", "are not those of the pairs")
    if schema >= WITH_BOUNDS:
        error = ERROR if schema >= EVEN_DRAWS else EARLIER_ERROR
        yield from _check_detectable(entry["name"], estimate, pairs, error)


def _check_detectable(
    comparison: str, estimate: Mapping[str, Any], pairs: PairedRuns, error: float
) -> Iterator[Difference]:
    """Yield where effects that the pairs would show are others by more than the `error` of draws, or pairs for them."""
    nulls = len(pairs.null_ratios)
    in_spreads = detectable_by_ab_pairs(len(pairs.ratios), nulls)
    for name, probability in QUANTILES.items():
        spread = pairs.spread * math.sqrt(pairs.freedom / float(stats.chi2.ppf(probability, pairs.freedom)))
        effect = in_spreads * spread
        if not raw.close(math.log1p(estimate[name]), effect, error):
            difference = math.expm1(effect)
            yield from raw.check_values(FILE, f"{comparison}, {name}", estimate[name], difference, "the pairs give")
        of_pairs = name.replace("detectable", "pairs")  # pairs_low, pairs_high
        stated = estimate[of_pairs]
        fewest, most = (_pairs_needed(factor * spread, nulls) for factor in (1 - error, 1 + error))
        if not fewest <= (math.inf if stated is None else stated) <= most:
            yield Difference(FILE, f"{comparison}, {of_pairs}", f"is {stated}, the pairs give {fewest:g} to {most:g}")
    # Both are multiples of one effect in spreads, whose proportion is exact.
    low, high = (math.log1p(estimate[name]) for name in QUANTILES)
    of_low, of_high = (float(stats.chi2.ppf(probability, pairs.freedom)) for probability in QUANTILES.values())
    if not raw.close(high, low * math.sqrt(of_low / of_high), raw.TOLERANCE):
        yield Difference(FILE, f"{comparison}, detectable_high", "does not follow from detectable_low")
    effect, detectable = abs(statistics.fmean(pairs.logs)), in_spreads * pairs.spread
    if not raw.close(effect, detectable, error):  # else other draws may say otherwise
        overstated = estimate["claim"] is not None and effect < detectable
        yield from raw.check_values(FILE, f"{comparison}, overstated", estimate["overstated"], overstated)


def _paired_runs(pairs: Sequence[Mapping[str, Any]], runs: Sequence[RawRun]) -> PairedRuns:
    """Return the ratios of the pairs in which both runs have numbers. `pairs`: of pairs.json."""
    run_of_arm = {tuple(Path(run.path).parts[-3:-1]): run for run in runs if run.ok}  # by ("pair1", "a")
    ratios: dict[bool, list[float]] = {False: [], True: []}  # under True of A/A pairs
    whole = []
    for pair in pairs:
        a, b = (run_of_arm.get((f"pair{pair['pair']}", arm)) for arm in "ab")
        if a and b:
            ratios[pair["null"]].append(raw.rate_of(b) / raw.rate_of(a))
            whole += [a, b]
    return PairedRuns(ratios[False], ratios[True], whole)


def _expected_figures(pairs: PairedRuns) -> Iterator[tuple[str, object]]:
    """Yield the figures that every version states, by name."""
    yield "ratio", math.exp(statistics.fmean(pairs.logs))
    yield "n", len(pairs.ratios)
    yield "floor", math.expm1(_noise_floor(pairs))


def _noise_floor(pairs: PairedRuns) -> float:
    """Return what the mean of the logarithms of as many A/A pairs stays below with 95 %."""
    return half_width(pairs.spread**2 / len(pairs.ratios), pairs.freedom, CONFIDENCE)


def _expected_bounds(pairs: PairedRuns) -> Iterator[tuple[str, object]]:
    """Yield field and value of the bounds and the claim."""
    n, mean = len(pairs.ratios), statistics.fmean(pairs.logs)
    half = half_width(statistics.variance(pairs.logs) / n, n - 1, CONFIDENCE)
    yield "low", math.exp(mean - half)
    yield "high", math.exp(mean + half)
    claimed = abs(mean) > max(half, _noise_floor(pairs))  # the interval is without 1, the mean above the noise
    yield "claim", ("faster" if mean > 0 else "slower") if claimed else None


def _pairs_needed(spread: float, nulls: int) -> float:
    """Return how many pairs with that spread would show EFFECT: an even number; infinite above MOST_PAIRS."""
    numbers = range(FEWEST_PAIRS, MOST_PAIRS + 1, 2)
    suffices = partial(_pairs_suffice, spread=spread, nulls=nulls)
    index = bisect_left(numbers, True, key=suffices)
    return numbers[index] if index < len(numbers) else math.inf


def _pairs_suffice(n: int, spread: float, nulls: int) -> bool:
    """Return whether `n` pairs with that spread, beside `nulls` A/A pairs, show EFFECT."""
    return detectable_by_ab_pairs(n, nulls) * spread <= math.log1p(EFFECT)


def _check_arms(entry: Mapping[str, Any], runs: Sequence[RawRun], cells: Sequence[RawRun]) -> Iterator[Difference]:
    """Yield where A or B (an arm) has another rate over all of its `runs`, or names other `cells` that do its work."""
    arms = entry.get("arms", {})  # older files have none
    if arms is None:
        yield Difference(FILE, f"{entry['name']}, arms", "are missing")
    for arm, stated in (arms or {}).items():
        arm_runs = [run for run in runs if run.cell == entry[arm]]
        rate = raw.rate_of(*arm_runs)
        below, above = log_interval([raw.rate_of(run) for run in arm_runs])  # factors
        expected = {"value": rate, "n": len(arm_runs), "low": below and rate * below, "high": above and rate * above}
        where = f"{entry['name']}, tokens/s of {arm.upper()}"
        yield from raw.check_values(FILE, where, stated["tokens_per_s"], expected, "the runs give")
        first = arm_runs[0]
        # On one device the work is the same by any strategy.
        may_differ = {"execution.strategy"} if first.devices == 1 else set()
        differing = {run.cell: raw.differing_settings(first.metrics["config"], run.metrics["config"]) for run in cells}
        same_work = {cell for cell, keys in differing.items() if keys.keys() <= may_differ}
        wrongly_named = same_work ^ (differing.keys() & set(stated["same_work"]))
        if wrongly_named:
            problem = f"is another of {', '.join(sorted(wrongly_named))}"
            yield Difference(FILE, f"{entry['name']}, {arm.upper()}, same_work", problem)
