"""Laws of scaling fitted again from the raw runs, and the sentences on them and on what changed on the machine.

Amdahl's and Gustafson's fraction is a slope through the origin: the loss of a speed-up on N devices over the largest
loss that N devices could have.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from scaleproof.verify.claim_sentences import FILE
from scaleproof.verify.contents import REPORT
from scaleproof.verify.intervals import half_width
from scaleproof.verify.printed import numbers, stands_for
from scaleproof.verify.raw import Difference, RawRun, check_values, rate_of
from scaleproof.verify.recompute import CONFIDENCE, Quantities, RecomputedQuantity, measured_by_cell

LEVEL = 95.0
FEWEST_SIZES, FEWEST_FITS = 3, 3  # of a fit; repeats of which a law can be shown to miss
MISS_TOLERANCE = 0.005  # logarithm of a speed-up
NAME_OF = {"amdahl": "Amdahl's law", "gustafson": "Gustafson's law"}
Fitted = dict[str, float | int | None]


class DueSentence(NamedTuple):
    """The names and the words that a sentence must have, and the figures that it may have."""

    names: list[str]
    words: list[str]
    figures: list[float]


def check_laws(report: Mapping[str, Any], runs: Sequence[RawRun]) -> Iterator[Difference]:
    """Yield where the law of a series in scaling_report.json is not the one that its runs give."""
    cells = measured_by_cell(runs)
    rule = report.get("repeats")  # by which results decide when repeats end: intervals then have a higher level
    confidence = float(rule["confidence"]) if rule else CONFIDENCE
    for series in report["series"]:
        law = series["law"]
        if (law is None) != (series["kind"] is None):
            yield Difference(REPORT, f"{series['name']}, law", "is there without a kind of scaling, or is missing")
        if law is None:
            continue
        points = [point for point in series["runs"].values() if not point["incomparable"]]
        rates = _rates_of_sizes(points, cells)
        expected = refit_law(series["kind"], rates, confidence)
        figures_in_reason = [float(number) for number in numbers(law["undefined"] or "")]  # why there is no fit
        if not expected and figures_in_reason != _figures_of_reason(rates):
            yield Difference(REPORT, f"{series['name']}, law", f'"{law["undefined"]}" is no reason that its runs give')
        stated = _stated_law(law)
        # A stated figure that the runs do not give is expected to be None.
        yield from check_values(REPORT, f"{series['name']}, law", stated, dict.fromkeys(stated) | expected)


def _rates_of_sizes(
    points: Sequence[Mapping[str, Any]], cells: Mapping[str, Sequence[RawRun]]
) -> dict[int, list[float]]:
    """Return devices -> tokens/s of each repeat that all `points` of a series have."""
    if not points:
        return {}
    # Devices -> repeat -> tokens/s. 1x4 and 2x2 have the same devices: the later one replaces the earlier one.
    runs_of = {point["devices"]: cells.get(point["cell"], []) for point in points}
    rates = {devices: {run.metrics["repeat"]: rate_of(run) for run in runs} for devices, runs in runs_of.items()}
    common_repeats = sorted(set.intersection(*map(set, rates.values())))
    return {devices: [of_size[repeat] for repeat in common_repeats] for devices, of_size in rates.items()}


def refit_law(kind: str, rates: Mapping[int, Sequence[float]], confidence: float = CONFIDENCE) -> Fitted:
    """Fit Amdahl's law ("strong") or Gustafson's ("weak"); return its fraction, bounds, and limit or worst miss.

    Returns {} with fewer than FEWEST_SIZES sizes, without one device, or where a size is no faster than one device.
    Each repeat is fitted by itself. `rates`: devices -> tokens/s of each repeat, as many for each size. `confidence`:
    the level of the bounds.
    """
    sizes = np.array(sorted(set(rates) - {1}), dtype=float)
    if len(rates) < FEWEST_SIZES or not rates.get(1):
        return {}
    n = len(rates[1])  # repeats
    speedups = np.array([rates[int(size)] for size in sizes]) / np.array(rates[1])  # sizes x repeats
    if (speedups.mean(axis=1) <= 1).any():
        return {}

    if kind == "strong":
        largest_losses, losses = 1 - 1 / sizes, 1 / speedups - 1 / sizes[:, None]
    else:
        largest_losses, losses = sizes - 1, sizes[:, None] - speedups
    fractions = np.linalg.lstsq(largest_losses[:, None], losses, rcond=None)[0][0]  # slopes through the origin
    fraction = float(fractions.mean())
    law: Fitted = {"fraction": fraction, "n": n}
    if n > 1:
        half = half_width(float(fractions.var(ddof=1)) / n, n - 1, confidence)
        law |= {"low": fraction - half, "high": fraction + half}

    fitted_losses = np.outer(largest_losses, fractions)
    fitted_speedups = 1 / (fitted_losses + 1 / sizes[:, None]) if kind == "strong" else sizes[:, None] - fitted_losses
    worst = _worst_miss(sizes, np.log(speedups) - np.log(np.maximum(fitted_speedups, np.finfo(float).tiny)))
    if worst:
        devices, log_miss = worst
        return law | {"devices": devices, "log_miss": log_miss, "percent": 100 * math.expm1(log_miss)}
    if kind == "strong" and 0 < fraction <= 1:
        law["limit"] = 1 / fraction
    return law


def _figures_of_reason(rates: Mapping[int, Sequence[float]]) -> list[float]:
    """Return the figures of the sentence on why there is no law. `rates`: as in `refit_law`.

    For too few sizes they are the number of sizes and the number needed. For no size of one device they are the
    smallest size; else each size that is no faster than one device.
    """
    if len(rates) < FEWEST_SIZES:
        return [len(rates), FEWEST_SIZES]
    if 1 not in rates:
        return [min(rates)]
    if not rates[1]:  # no repeat has runs of all sizes, which is a reason without figures
        return []
    return [size for size in sorted(rates) if size > 1 and np.mean(np.divide(rates[size], rates[1])) <= 1]


def _worst_miss(sizes: np.ndarray, misses: np.ndarray) -> tuple[int, float] | None:
    """Return the size at which the law misses by most, and the mean logarithm of its miss there.

    Returns None where each miss may be chance, or is small. `misses`: log(measured / fitted speed-up), sizes x repeats.
    """
    n = misses.shape[1]
    if n < FEWEST_FITS:
        return None
    level = 1 - (1 - CONFIDENCE) / 2 / len(sizes)  # two-sided, for all sizes together by Bonferroni
    errors = stats.sem(misses, axis=1) * stats.t.ppf(level, n - 1)
    means = misses.mean(axis=1)
    are_shown = (np.abs(means) > errors) & (np.abs(means) > MISS_TOLERANCE)
    if not are_shown.any():
        return None
    index = int(np.argmax(np.where(are_shown, np.abs(means), 0.0)))
    return int(sizes[index]), float(means[index])


def _stated_law(law: Mapping[str, Any]) -> Fitted:
    """Return the law of scaling_report.json in the form that `refit_law` returns."""
    estimate = law["fraction"] or {}
    misfit = law["lack_of_fit"] or {}
    stated: Fitted = {"fraction": estimate.get("value"), "limit": law["limit"]}
    stated |= {name: estimate.get(name) for name in ("n", "low", "high")}
    stated |= {name: misfit.get(name) for name in ("devices", "log_miss", "percent")}
    return {name: value for name, value in stated.items() if value is not None}


def check_further_sentences(
    sentences: Sequence[Mapping[str, Any]],
    report: Mapping[str, Any],
    comparisons: Mapping[str, Any],
    quantities: Quantities,
) -> Iterator[Difference]:
    """Yield where sentences on laws, or on changes of the machine, are missing, too many, or have other figures."""
    expected_on = {
        "law": list(_sentences_due_on_laws(report)),
        "drift": list(_sentences_due_on_drift(comparisons, quantities)),
    }
    for topic, expected in expected_on.items():
        texts = [sentence["text"] for sentence in sentences if sentence["topic"] == topic]
        if len(texts) != len(expected):
            yield Difference(FILE, topic, f"has {len(texts)} sentences, not {len(expected)}")
            continue
        for text, due in zip(texts, expected, strict=True):
            yield from _check_due_sentence(topic, text, due)


def _check_due_sentence(topic: str, text: str, due: DueSentence) -> Iterator[Difference]:
    """Yield the first name or word that a sentence lacks, and its first number that is none of its figures."""
    where = f'{topic}: "{text[:60]}"'
    if missing := [word for word in (*due.names, *due.words) if word not in text]:
        yield Difference(FILE, where, f"does not say {missing[0]}")
    for name in sorted(due.names, key=len, reverse=True):  # the digits of names are no figures
        text = text.replace(name, " ")
    for printed in numbers(text):
        if not any(stands_for(printed, figure) for figure in due.figures):
            yield Difference(FILE, where, f"{printed} is none of its figures")
            return


def _sentences_due_on_laws(report: Mapping[str, Any]) -> Iterator[DueSentence]:
    """Yield what the sentence on the law of each series must have: strong scaling first, then the order of the series.

    Its figures, bounds and misses, are those of the report; a reason why there is no law stands in it as it is.
    """
    for kind in ("strong", "weak"):
        for series in report["series"]:
            if series["kind"] == kind and series["law"]:
                yield _sentence_due_on_law(series["name"], series["law"])


def _sentence_due_on_law(series_name: str, law: Mapping[str, Any]) -> DueSentence:
    """Return what the sentence on the law of one series must have."""
    words = [NAME_OF[law["law"]]]
    if reason := law["undefined"]:
        return DueSentence([series_name], [*words, reason], [float(number) for number in numbers(reason)])
    stated = _stated_law(law)
    figures = [LEVEL, *(float(value) for value in stated.values() if value is not None)]
    percent = stated.get("percent")
    if percent is not None:
        words += ["does not fit", "faster" if percent > 0 else "slower"]
        figures.append(abs(percent))  # "3 % slower"
    elif "limit" in stated and (stated.get("low") or 0) > 0:  # the fraction is shown to be above 0
        words.append("no speed-up above")
    return DueSentence([series_name], words, figures)


def _sentences_due_on_drift(comparisons: Mapping[str, Any], quantities: Quantities) -> Iterator[DueSentence]:
    """Yield what each sentence on a changed machine must have.

    There is one for each arm of a comparison (A or B) and each cell of the same work whose rates differ.
    """
    for entry in comparisons.values():
        for arm, stated in (entry.get("arms") or {}).items():
            rate = stated["tokens_per_s"]
            for cell in stated["same_work"]:
                of_cell = quantities.get(f"cells/{cell}/tokens_per_s")
                figures = _figures_of_drift(rate, of_cell) if of_cell else []
                if figures:
                    yield DueSentence([entry[arm], cell], [], figures)


def _figures_of_drift(rate: Mapping[str, Any], of_cell: RecomputedQuantity) -> list[float]:
    """Return the figures of the sentence on arm and cell; [] where Welch's 95 % interval has the ratio 1."""
    arm_error = _standard_error(rate["low"], rate["high"], rate["n"])
    cell_error = _standard_error(of_cell.low, of_cell.high, of_cell.n)
    if arm_error is None or cell_error is None:
        return []
    variance = arm_error**2 + cell_error**2
    degrees_of_freedom = variance**2 / (arm_error**4 / (rate["n"] - 1) + cell_error**4 / (of_cell.n - 1))
    half = half_width(variance, degrees_of_freedom, CONFIDENCE)
    ratio = rate["value"] / of_cell.value
    if abs(math.log(ratio)) <= half:
        return []
    bounds = [ratio * math.exp(-half), ratio * math.exp(half)]
    return [rate["value"], of_cell.value, ratio, *bounds, float(rate["n"]), float(of_cell.n), LEVEL]


def _standard_error(low: float | None, high: float | None, n: int) -> float | None:
    """Return the standard error of a logarithm by its interval over `n` runs; None without an interval."""
    if not low or not high or n < 2:
        return None
    return math.log(high / low) / 2 / float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1))
