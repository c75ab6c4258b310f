"""The A/B comparisons of a campaign, computed again from the runs of their pairs: of A and B, or of A twice (A/A)."""

import math
import statistics
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy import stats

from scaleproof.ground.configurations import configuration_differences
from scaleproof.verify import raw
from scaleproof.verify.contents import json_of, schema_of
from scaleproof.verify.intervals import EARLIER_ERROR, ERROR, detectable_by_ab_pairs, half_width
from scaleproof.verify.raw import Difference, RawRun
from scaleproof.verify.recompute import CONFIDENCE, log_interval

FILE = "comparison.json"
EFFECT = 0.02  # for which the needed pairs are stated
FEWEST_PAIRS, MOST_PAIRS = 6, 1000
FEWEST_OF_EACH = 2  # whole pairs of A and B, and of A twice, without which there is no estimate
# What is detectable with the smallest and the largest spread that the measured one allows, by quantiles of chi-square.
QUANTILES = {"detectable_low": 0.975, "detectable_high": 0.025}
WITH_BOUNDS = (1, 2)  # schema from which on the bounds and words are those of today
EVEN_DRAWS = (1, 3)  # schema from which on simulated effects have no more than today's error


@dataclass(frozen=True)
class PairedRuns:
    """The ratios B / A of a comparison, the ratios A / A, and the runs of both."""

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
        """Standard deviation of the logarithm of a pair's ratio, over all pairs; the true mean of A / A is 0."""
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
        if differences:  # figures of damaged runs would differ, too: only the damage is reported
            yield from differences
            continue
        listed = json_of(folder / "compare" / entry["name"] / "pairs.json")["pairs"]
        pairs = _paired_runs(listed, runs)
        yield from _check_entry(entry, listed, runs)
        if entry["estimate"]:
            yield from _check_estimate(entry, pairs, schema_of(report))
            yield from _check_arms(entry, pairs.runs, cells)
        else:
            yield from _check_missing_estimate(entry, pairs, json_of(folder / "findings.json")["findings"])


def _check_missing_estimate(
    entry: Mapping[str, Any], pairs: PairedRuns, findings: Sequence[Mapping[str, Any]]
) -> Iterator[Difference]:
    """Yield where a comparison without an estimate has no reason (few pairs, findings), or names another."""
    name = entry["name"]
    statuses = ["incomplete"] if min(len(pairs.ratios), len(pairs.null_ratios)) < FEWEST_OF_EACH else []
    for finding in findings:
        if finding.get("concerns") != "comparison" or name not in finding["cells"]:
            continue
        if finding["severity"] == "invalid":
            statuses.append("invalid")
        if finding["code"] == "provenance-differs":
            statuses.append("incomparable")

    if not statuses:
        yield Difference(FILE, f"{name}, estimate", "is missing, and nothing forbids one")
    elif entry["status"] not in statuses:
        yield Difference(FILE, f"{name}, status", f"is {entry['status']}; it is {statuses[0]}")


def _check_entry(
    entry: Mapping[str, Any], listed: Sequence[Mapping[str, Any]], runs: Sequence[RawRun]
) -> Iterator[Difference]:
    """Yield where a comparison states other settings, pairs or paths than its runs have.

    `listed`: the pairs in pairs.json.
    """
    configs = {run.cell: run.metrics["config"] for run in runs}
    # "section.key" -> [value in A, value in B]
    declared = configuration_differences(configs.get(entry["a"], {}), configs.get(entry["b"], {}))
    expected: dict[str, Any] = {"pairs": len(listed), "declared": declared}
    if entry["estimate"]:
        expected |= {"status": "ok", "why": None}
    if entry.get("metrics_paths"):  # results may have been moved: the folder before compare/ is taken as stated
        folders = [f"compare/{entry['name']}/pair{pair['pair']}/{arm}" for pair in listed for arm in "ab"]
        paths = [f"{folder}/{raw.METRICS}" for folder in folders]
        stated_folder = raw.folder_before(entry["metrics_paths"][0], paths[0])
        expected["metrics_paths"] = [f"{stated_folder}{path}" for path in paths]
    yield from raw.check_values(FILE, entry["name"], entry, expected)


def _check_estimate(entry: Mapping[str, Any], pairs: PairedRuns, schema: tuple[int, ...]) -> Iterator[Difference]:
    """Yield where ratios and figures of a comparison are not those of its pairs. Early schemas have no bounds."""
    estimate = entry["estimate"]
    yield from raw.check_values(FILE, entry["name"], estimate, _expected_figures(pairs, schema), "the pairs give")
    for name, values in (("ratios", pairs.ratios), ("null_ratios", pairs.null_ratios)):
        if len(values) != len(estimate[name]) or not all(map(raw.close, values, estimate[name])):
            yield Difference(FILE, f"{entry['name']}, {name}", "are not those of the pairs")
    if schema >= WITH_BOUNDS:
        error = ERROR if schema >= EVEN_DRAWS else EARLIER_ERROR
        yield from _check_detectable(entry["name"], estimate, pairs, error)


def _check_detectable(
    comparison: str, estimate: Mapping[str, Any], pairs: PairedRuns, error: float
) -> Iterator[Difference]:
    """Yield where detectable effects, or the pairs needed for EFFECT, differ by more than the `error` of draws."""
    nulls = len(pairs.null_ratios)  # number of A/A pairs
    effect_in_spreads = detectable_by_ab_pairs(len(pairs.ratios), nulls)
    for name, probability in QUANTILES.items():
        spread = pairs.spread * math.sqrt(pairs.freedom / float(stats.chi2.ppf(probability, pairs.freedom)))
        log_effect = effect_in_spreads * spread
        if not raw.close(math.log1p(estimate[name]), log_effect, error):
            effect = math.expm1(log_effect)
            yield from raw.check_values(FILE, f"{comparison}, {name}", estimate[name], effect, "the pairs give")

        name_of_pairs = name.replace("detectable", "pairs")  # pairs_low, pairs_high
        stated_pairs = estimate[name_of_pairs]
        fewest = _pairs_needed((1 - error) * spread, nulls)
        most = _pairs_needed((1 + error) * spread, nulls)
        if not fewest <= (math.inf if stated_pairs is None else stated_pairs) <= most:
            problem = f"is {stated_pairs}, the pairs give {fewest:g} to {most:g}"
            yield Difference(FILE, f"{comparison}, {name_of_pairs}", problem)

    # detectable_low and detectable_high are the same drawn effect times two exact spreads: so their ratio is exact.
    low, high = (math.log1p(estimate[name]) for name in QUANTILES)
    low_chi2, high_chi2 = (float(stats.chi2.ppf(probability, pairs.freedom)) for probability in QUANTILES.values())
    if not raw.close(high, low * math.sqrt(low_chi2 / high_chi2), raw.TOLERANCE):
        yield Difference(FILE, f"{comparison}, detectable_high", "does not follow from detectable_low")

    log_ratio = abs(statistics.fmean(pairs.logs))
    detectable = effect_in_spreads * pairs.spread
    if not raw.close(log_ratio, detectable, error):  # so near to the limit the outcome would depend on the draws
        is_overstated = estimate["claim"] is not None and log_ratio < detectable
        yield from raw.check_values(FILE, f"{comparison}, overstated", estimate["overstated"], is_overstated)


def _paired_runs(pairs: Sequence[Mapping[str, Any]], runs: Sequence[RawRun]) -> PairedRuns:
    """Return the ratios of the pairs in which both runs have numbers. `pairs`: the entries of pairs.json."""
    run_of_arm = {tuple(Path(run.path).parts[-3:-1]): run for run in runs if run.ok}  # ("pair1", "a") -> run
    ratios: dict[bool, list[float]] = {False: [], True: []}  # is it an A/A pair -> ratios
    paired = []
    for pair in pairs:
        a, b = (run_of_arm.get((f"pair{pair['pair']}", arm)) for arm in "ab")
        if a and b:
            ratios[pair["null"]].append(raw.rate_of(b) / raw.rate_of(a))
            paired += [a, b]
    return PairedRuns(ratios=ratios[False], null_ratios=ratios[True], runs=paired)


def _expected_figures(pairs: PairedRuns, schema: tuple[int, ...]) -> dict[str, object]:
    """Return the figures of an estimate, by name; from the schema WITH_BOUNDS on with bounds and claim."""
    n, mean = len(pairs.ratios), statistics.fmean(pairs.logs)
    # With a probability of 95 % the mean log ratio of n A/A pairs, which have no effect, stays below the floor.
    noise_floor = half_width(pairs.spread**2 / n, pairs.freedom, CONFIDENCE)
    figures: dict[str, object] = {"ratio": math.exp(mean), "n": n, "floor": math.expm1(noise_floor)}
    if schema < WITH_BOUNDS:
        return figures

    half = half_width(statistics.variance(pairs.logs) / n, n - 1, CONFIDENCE)
    claim = None
    if abs(mean) > max(half, noise_floor):  # the interval leaves 1 out, and the mean is above the noise
        claim = "faster" if mean > 0 else "slower"
    return figures | {"low": math.exp(mean - half), "high": math.exp(mean + half), "claim": claim}


def _pairs_needed(spread: float, nulls: int) -> float:
    """Return how many pairs with that spread would show EFFECT: an even number; infinite above MOST_PAIRS."""
    pair_counts = range(FEWEST_PAIRS, MOST_PAIRS + 1, 2)
    log_effect = math.log1p(EFFECT)
    # The first count that is enough: the key is False below it, and True from it on.
    index = bisect_left(pair_counts, True, key=lambda n: detectable_by_ab_pairs(n, nulls) * spread <= log_effect)
    return pair_counts[index] if index < len(pair_counts) else math.inf


def _check_arms(entry: Mapping[str, Any], runs: Sequence[RawRun], cells: Sequence[RawRun]) -> Iterator[Difference]:
    """Yield where A or B (an arm) has another rate over all of its `runs`, or names other `cells` that do its work."""
    arms = entry.get("arms", {})  # older files have no such key; null is a fault
    if arms is None:
        yield Difference(FILE, f"{entry['name']}, arms", "are missing")
    for arm, stated in (arms or {}).items():
        arm_runs = [run for run in runs if run.cell == entry[arm]]
        rate = raw.rate_of(*arm_runs)
        below, above = log_interval([raw.rate_of(run) for run in arm_runs])  # factors
        expected = {"value": rate, "n": len(arm_runs), "low": below and rate * below, "high": above and rate * above}
        where = f"{entry['name']}, tokens/s of {arm.upper()}"
        yield from raw.check_values(FILE, where, stated["tokens_per_s"], expected, "the runs give")

        same_work = _cells_with_same_work(arm_runs[0], cells)
        stated_cells = set(stated["same_work"]) & {run.cell for run in cells}
        wrongly_named = same_work ^ stated_cells  # named without the same work, or not named with it
        if wrongly_named:
            problem = f"is another of {', '.join(sorted(wrongly_named))}"
            yield Difference(FILE, f"{entry['name']}, {arm.upper()}, same_work", problem)


def _cells_with_same_work(run: RawRun, cells: Sequence[RawRun]) -> set[str]:
    """Return the names of the `cells` that do the work of a run. On one device any strategy does the same work."""
    may_differ = {"execution.strategy"} if run.devices == 1 else set()
    config = run.metrics["config"]
    differing = {other.cell: configuration_differences(config, other.metrics["config"]) for other in cells}
    return {cell for cell, settings in differing.items() if settings.keys() <= may_differ}
