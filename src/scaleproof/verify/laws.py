"""Laws of scaling fitted again from the raw runs, and the sentences on them and on what changed on the machine.

Amdahl's and Gustafson's fraction is a slope through the origin: the loss of a speed-up on N devices over the largest
loss that N devices could have.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from scaleproof.verify.contents import REPORT
from scaleproof.verify.intervals import half_width
from scaleproof.verify.printed import numbers, stands_for
from scaleproof.verify.raw import Difference, RawRun, check_values, rate_of
from scaleproof.verify.recompute import CONFIDENCE, Quantities, measured_by_cell

CLAIMS = "claims.json"
LEVEL = 95.0
FEWEST_SIZES, FEWEST_FITS = 3, 3  # of a fit; repeats of which a law can be shown to miss
NO_MISS = 0.005  # logarithm of a speed-up
NAME_OF = {"amdahl": "Amdahl's law", "gustafson": "Gustafson's law"}
Fitted = dict[str, float | int | None]
Due = tuple[list[str], list[str], list[float]]  # names and words that a sentence must have, figures that it may have


def check_laws(report: Mapping[str, Any], runs: Sequence[RawRun]) -> Iterator[Difference]:
    """Yield where the law of a series in scaling_report.json is not the one that its runs give."""
    cells = measured_by_cell(runs)
    for series in report["series"]:
        law = series["law"]
        if (law is None) != (series["kind"] is None):
            yield Difference(REPORT, f"{series['name']}, law", "is there without a kind of scaling, or is missing")
        if law is None:
            continue
        points = [point for point in series["runs"].values() if not point["incomparable"]]
        of_repeats = [{run.metrics["repeat"]: rate_of(run) for run in cells.get(point["cell"], [])} for point in points]
        complete = sorted(set.intersection(*map(set, of_repeats))) if points else []
        rates = {
            point["devices"]: [of_repeat[repeat] for repeat in complete]
            for point, of_repeat in zip(points, of_repeats, strict=True)
        }
        expected = refit_law(series["kind"], rates)
        if not expected and list(map(float, numbers(law["undefined"] or ""))) != _figures_in_reason(rates):
            yield Difference(REPORT, f"{series['name']}, law", f'"{law["undefined"]}" is no reason that its runs give')
        stated = _stated_law(law)
        yield from check_values(REPORT, f"{series['name']}, law", stated, dict.fromkeys(stated) | expected)


def refit_law(kind: str, rates: Mapping[int, Sequence[float]]) -> Fitted:
    """Fit Amdahl's law ("strong") or Gustafson's ("weak"); return its fraction, bounds, limit and worst miss.

    Return {} with fewer than FEWEST_SIZES sizes, without one device, or where a size is no faster than one device.
    `rates`: devices -> tokens/s of each repeat, as many of each size. Each repeat is fitted by itself.
    """
    sizes = np.array(sorted(set(rates) - {1}), dtype=float)
    if len(rates) < FEWEST_SIZES or not rates.get(1):
        return {}
    repeats = len(rates[1])
    speedups = np.array([rates[int(size)] for size in sizes]) / np.array(rates[1])  # sizes x repeats
    if (speedups.mean(axis=1) <= 1).any():
        return {}
    if kind == "strong":
        largest_losses, losses = 1 - 1 / sizes, 1 / speedups - 1 / sizes[:, None]
    else:
        largest_losses, losses = sizes - 1, sizes[:, None] - speedups
    fractions = np.linalg.lstsq(largest_losses[:, None], losses, rcond=None)[0][0]  # slopes through the origin
    value = float(fractions.mean())
    half = half_width(float(fractions.var(ddof=1)) / repeats, repeats - 1, CONFIDENCE) if repeats > 1 else None
    law: Fitted = {"fraction": value, "n": repeats}
    if half is not None:
        law |= {"low": value - half, "high": value + half}
    by_law = losses_to_speedups(kind, sizes, np.outer(largest_losses, fractions))
    worst = _worst_miss(sizes, np.log(speedups) - np.log(np.maximum(by_law, np.finfo(float).tiny)))
    if worst:
        devices, log_miss = worst
        return law | {"devices": devices, "log_miss": log_miss, "percent": 100 * math.expm1(log_miss)}
    return law | ({"limit": 1 / value} if kind == "strong" and 0 < value <= 1 else {})


def _figures_in_reason(rates: Mapping[int, Sequence[float]]) -> list[float]:
    """Return the figures of the sentence on why there is no law. `rates`: as in `refit_law`.

    Too few sizes: how many there are, and are needed; none with one device: the smallest size; else each size that is
    no faster than one device.
    """
    if len(rates) < FEWEST_SIZES:
        return [len(rates), FEWEST_SIZES]
    if 1 not in rates:
        return [min(rates)]
    return [size for size in sorted(rates) if size > 1 and np.mean(np.divide(rates[size], rates[1])) <= 1]


def losses_to_speedups(kind: str, sizes: np.ndarray, losses: np.ndarray) -> np.ndarray:
    """Return the speed-ups (sizes x repeats) that have these losses: the inverse of the step in `refit_law`."""
    return 1 / (losses + 1 / sizes[:, None]) if kind == "strong" else sizes[:, None] - losses


def _worst_miss(sizes: np.ndarray, misses: np.ndarray) -> tuple[int, float] | None:
    """Return the size at which the law misses by most, and the mean logarithm; None where it may be chance, or small.

    `misses`: logarithm of measured over fitted speed-up, sizes x repeats.
    """
    repeats = misses.shape[1]
    if repeats < FEWEST_FITS:
        return None
    level = 1 - (1 - CONFIDENCE) / 2 / len(sizes)  # for all sizes together, by Bonferroni
    errors = stats.sem(misses, axis=1) * stats.t.ppf(level, repeats - 1)
    means = misses.mean(axis=1)
    certain = (np.abs(means) > errors) & (np.abs(means) > NO_MISS)
    if not certain.any():
        return None
    index = int(np.argmax(np.where(certain, np.abs(means), 0.0)))
    return int(sizes[index]), float(means[index])


def _stated_law(law: Mapping[str, Any]) -> Fitted:
    """Return the law of scaling_report.json in the form that `refit_law` returns."""
    fraction, lack = law["fraction"] or {}, law["lack_of_fit"] or {}
    names = {"fraction": "value", "n": "n", "low": "low", "high": "high"}
    return {
        **{name: fraction[field] for name, field in names.items() if fraction.get(field) is not None},
        **{name: lack[name] for name in ("devices", "log_miss", "percent") if name in lack},
        **({"limit": law["limit"]} if law["limit"] is not None else {}),
    }


def check_further_sentences(
    sentences: Sequence[Mapping[str, Any]],
    report: Mapping[str, Any],
    comparisons: Mapping[str, Any],
    quantities: Quantities,
) -> Iterator[Difference]:
    """Yield sentences on laws and on changes of the machine that are missing, too many, or have other figures."""
    due = {"law": list(_sentences_due_on_laws(report)), "drift": list(_sentences_due_on_drift(comparisons, quantities))}
    for topic, expected in due.items():
        texts = [sentence["text"] for sentence in sentences if sentence["topic"] == topic]
        if len(texts) != len(expected):
            yield Difference(CLAIMS, topic, f"has {len(texts)} sentences, not {len(expected)}")
            continue
        for text, (names, words, figures) in zip(texts, expected, strict=True):
            where, without_names = f'{topic}: "{text[:60]}"', text
            for name in sorted(names, key=len, reverse=True):  # a name has digits
                without_names = without_names.replace(name, " ")
            missing = [word for word in (*names, *words) if word not in text]
            printed = numbers(without_names)
            wrong = [number for number in printed if not any(stands_for(number, figure) for figure in figures)]
            if missing:
                yield Difference(CLAIMS, where, f"does not say {missing[0]}")
            if wrong:
                yield Difference(CLAIMS, where, f"{wrong[0]} is none of its figures")


def _sentences_due_on_laws(report: Mapping[str, Any]) -> Iterator[Due]:
    """Yield what the sentence on the law of each series must have: strong scaling first, then the order of the series.

    Its figures, bounds and misses, are those of the report; a reason why there is no law stands in it as it is.
    """
    for kind in ("strong", "weak"):
        for series in (series for series in report["series"] if series["kind"] == kind and series["law"]):
            law, stated = series["law"], _stated_law(series["law"])
            name, law_name = series["name"], NAME_OF[law["law"]]
            if law["undefined"]:
                yield [name], [law_name, law["undefined"]], [*map(float, numbers(law["undefined"]))]
                continue
            words = [law_name]
            figures = [LEVEL, *(float(value) for value in stated.values() if value is not None)]
            percent = stated.get("percent")
            if percent is not None:
                words += ["does not fit", "faster" if percent > 0 else "slower"]
                figures.append(abs(percent))  # "3 % slower"
            elif "limit" in stated and (stated.get("low") or 0) > 0:
                words.append("no speed-up above")
            yield [name], words, figures


def _sentences_due_on_drift(comparisons: Mapping[str, Any], quantities: Quantities) -> Iterator[Due]:
    """Yield what the sentence on A or B (an arm) must have, where its rate is not that of a cell with the same work.

    There is a sentence where the 95 % interval of the ratio of both rates leaves 1 out, by Welch and Satterthwaite.
    """
    for entry in comparisons.values():
        for arm, stated in (entry.get("arms") or {}).items():
            rate = stated["tokens_per_s"]
            arm_error = _standard_error(rate["low"], rate["high"], rate["n"])
            for cell in stated["same_work"]:
                of_cell = quantities.get(f"cells/{cell}/tokens_per_s")
                cell_error = _standard_error(of_cell.low, of_cell.high, of_cell.n) if of_cell else None
                if of_cell is None or arm_error is None or cell_error is None:
                    continue
                variance = arm_error**2 + cell_error**2
                freedom = variance**2 / (arm_error**4 / (rate["n"] - 1) + cell_error**4 / (of_cell.n - 1))
                half = half_width(variance, freedom, CONFIDENCE)
                ratio = rate["value"] / of_cell.value
                if abs(math.log(ratio)) > half:
                    bounds = [ratio * math.exp(-half), ratio * math.exp(half)]
                    counts = [float(rate["n"]), float(of_cell.n)]
                    yield [entry[arm], cell], [], [rate["value"], of_cell.value, ratio, *bounds, *counts, LEVEL]


def _standard_error(low: float | None, high: float | None, n: int) -> float | None:
    """Return the standard error of a logarithm by its interval over `n` runs; None without one."""
    if not low or not high or n < 2:
        return None
    return math.log(high / low) / 2 / float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1))
