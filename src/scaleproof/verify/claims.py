"""claims.json: every claim is computed again, and every sentence is read, with its figures, names and words.

A claim is a figure, of a cell or of two (subject and baseline), with the word that its interval supports.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scaleproof.verify.claim_sentences import FILE, Claim, check_sentence, check_unmeasured_parts
from scaleproof.verify.contents import entries_of, json_of, points_of
from scaleproof.verify.intervals import FEWEST
from scaleproof.verify.laws import check_further_sentences
from scaleproof.verify.raw import Difference, check_values
from scaleproof.verify.recompute import Quantities

# Kind of claim -> column of the figure.
COLUMN_OF = {
    "rate": "tokens_per_s",
    "speed-up": "speedup",
    "efficiency": "scaling_efficiency",
    "one-device": "speedup_vs_best_single",
    "ratio": "relative_to_fastest",
}
CLAIMING = {
    *("verdict", "question", "fastest", "slower", "one-device", "scaling", "recommended"),
    *("comparison", "pairs", "lost", "reservation", "repeats"),
}
# Topics of sentences that state no figure of a claim, or are read by check_further_sentences.
TOPICS = CLAIMING | {"incomparable", "forecast", "forecasts", "next", "drift", "law", "remark", "trace", "trust"}
LEVEL = 95.0  # of intervals
HIDING_RATIO = 3.0  # computing over transfers that usually hides them
# "an effect of 2 %", "4 times in 5", "from 6 pairs on", "more than 1,000 pairs": in the sentences on what pairs detect.
NUMBERS_ON_PAIRS = (2.0, 4.0, 5.0, 6.0, 1000.0)

Figure = tuple[float, float | None, float | None] | None  # value and bounds


def check_claims(folder: Path, quantities: Quantities, report: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield each claim that the raw files do not support, and each sentence that does not say what its claims do."""
    content = json_of(folder / FILE)
    claims = {claim["id"]: claim for claim in content["claims"]}
    comparisons = {entry["name"]: entry for entry in entries_of(folder / "comparison.json", "comparisons")}
    waterfalls = {entry["cell"]: entry for entry in entries_of(folder / "waterfall.json", "cells")}
    expected = {claim["id"]: claim for claim in _expected_claims(quantities, report, comparisons, waterfalls)}
    yield from _check_stated_claims(claims, expected, quantities, has_waterfalls=bool(waterfalls))

    extras = _further_figures(report, comparisons, waterfalls)  # topic -> numbers that its sentences may state, too
    names = {claim[key] for claim in claims.values() for key in ("subject", "baseline") if claim[key]}
    longest_first = sorted(names, key=len, reverse=True)  # a name may begin as another one does
    for sentence in content["sentences"]:
        topic, rests_on = sentence["topic"], sentence["claims"]
        where = f'{topic}: "{sentence["text"][:60]}"'
        if unknown_claims := [identity for identity in rests_on if identity not in claims]:
            yield Difference(FILE, where, f"rests on {unknown_claims[0]}, which is no claim")
        elif topic not in TOPICS:
            yield Difference(FILE, where, "is no topic")
        if topic in CLAIMING and all(identity in expected for identity in rests_on):  # others are reported above
            own_claims = [expected[identity] for identity in rests_on]
            yield from check_sentence(sentence, own_claims, longest_first, extras)
            if topic == "lost" and own_claims:
                yield from check_unmeasured_parts(sentence["text"], waterfalls[own_claims[0]["subject"]])
    yield from check_further_sentences(content["sentences"], report, comparisons, quantities)


def _check_stated_claims(
    claims: Mapping[str, Claim], expected: Mapping[str, Claim], quantities: Quantities, has_waterfalls: bool
) -> Iterator[Difference]:
    """Yield the expected claims that are missing, unexpected claims, and fields that are not as expected."""
    for identity in sorted(expected.keys() - claims.keys()):
        yield Difference(FILE, identity, "is missing")
    for identity, claim in claims.items():
        if identity in expected:
            quantity = quantities.get(f"cells/{claim['subject']}/{COLUMN_OF.get(claim['kind'])}")
            n = quantity.n if quantity else expected[identity].get("n")  # number of runs, or of pairs
            yield from _check_claim(claim, expected[identity], n)
        elif has_waterfalls or claim["kind"] != "lost":  # without waterfalls nothing is known of what was lost
            yield Difference(FILE, identity, "is a claim that the raw files do not support")


def _expected_claims(
    quantities: Quantities, report: Mapping[str, Any], comparisons: Mapping[str, Any], waterfalls: Mapping[str, Any]
) -> Iterator[Claim]:
    """Yield the claims that a campaign must make. `comparisons`, `waterfalls`: name -> entry of the file."""
    for series, point in points_of(report):
        yield from _claims_on_size(quantities, series["baseline"], point)
    for index, ranking in enumerate(report["ranking"]):
        yield from _claims_on_ranking(quantities, index, ranking)
    question = report["question"]
    if question and question["ratio"]:
        base = question["better_than"] or question["not_slower_than"]  # a campaign asks one of these
        figure = (question["ratio"]["value"], question["ratio"]["low"], question["ratio"]["high"])
        yield _claim("question", question["is"], base, figure, question["status"])
    for comparison in comparisons.values():
        if comparison["estimate"]:
            yield from _claims_on_pairs(comparison, comparison["estimate"])
    for waterfall in waterfalls.values():
        yield from _claims_on_loss(waterfall)


def _claims_on_pairs(entry: Mapping[str, Any], estimate: Mapping[str, Any]) -> Iterator[Claim]:
    """Yield the claims on an A/B comparison: the ratio, the noise, and the effects that it would show."""
    name = entry["name"]
    spans_one = estimate["low"] <= 1 <= estimate["high"]
    word = estimate["claim"] or ("undecided" if spans_one else "within-noise")
    figure = (estimate["ratio"], estimate["low"], estimate["high"])
    fields_of_pairs = {"id": f"pairs/{name}", "method": "paired", "inputs": [name], "n": estimate["n"]}
    yield _claim("pairs", entry["b"], entry["a"], figure, word) | fields_of_pairs
    yield _claim("noise", name, None, (estimate["floor"], None, None), None)
    low, high = estimate["detectable_low"], estimate["detectable_high"]
    yield _claim("detectable", name, None, (low, low, high), None)  # its value is the lower bound


def _claims_on_loss(entry: Mapping[str, Any]) -> Iterator[Claim]:
    """Yield the claims on where a cell loses time, in milliseconds of a step."""
    cell = entry["cell"]
    parts = {name: entry[f"{name}_ms"] for name in ("measured", "ideal", "unexplained")}
    parts |= {part["name"]: part["ms"] for part in entry["parts"]}
    for name, ms in parts.items():
        if ms is not None:
            yield _claim("lost", cell, entry["baseline"], (ms, None, None), name) | {"id": f"lost/{cell}/{name}"}


def _claims_on_size(quantities: Quantities, baseline: str, point: Mapping[str, Any]) -> Iterator[Claim]:
    """Yield the claims on a size of a series, `point` of scaling_report.json."""
    cell, best = point["cell"], point["best_single"]
    yield _claim("rate", cell, None, _figure_of_cell(quantities, cell, "rate"), None)
    if point.get("speedup_corrected"):
        yield _claim_on_ratio("speed-up", cell, baseline, _figure_of_cell(quantities, cell, "speed-up"))
    elif stated := point.get("speedup_in_answer"):  # before schema 6; check_answer recomputes it
        yield _claim_on_ratio("speed-up", cell, baseline, (stated["value"], stated["low"], stated["high"]))
    if point["scaling_efficiency"]:
        efficiency = _figure_of_cell(quantities, cell, "efficiency")
        yield _claim("efficiency", cell, baseline, efficiency, point["verdict"] or "unrated")
    if point["speedup_vs_best_single"]:
        yield _claim_on_ratio("one-device", cell, best, _figure_of_cell(quantities, cell, "one-device"))


def _claims_on_ranking(quantities: Quantities, index: int, ranking: Mapping[str, Any]) -> Iterator[Claim]:
    """Yield the claims on the cells of one size, the fastest first. `index`: of the ranking in the report."""
    comparable = [entry for entry in ranking["cells"] if not entry["incomparable"]]
    if len(comparable) < 2:
        return

    fastest = ranking["cells"][0]["cell"]
    method = f"{ranking['method']}, {ranking['claims']} comparisons" if ranking["method"] else None
    for entry in comparable:
        if entry["relative_to_fastest"]:
            figure = _figure_of_cell(quantities, entry["cell"], "ratio")
            yield _claim_on_ratio("ratio", entry["cell"], fastest, figure) | {"method": method}
        if entry["letters"]:  # cells that share one are not told apart
            yield _claim("letters", entry["cell"], None, None, entry["letters"]) | {"method": method}

    word = "shown" if ranking["fastest_shown"] else "not-shown"
    yield _claim("fastest", fastest, None, None, word) | {"method": method, "id": f"fastest/{index}"}
    if advice := ranking["recommendation"]:
        subject = advice["cell"] or advice["candidate"] or fastest  # the recommended cell, one that may be, or neither
        loss = None if advice["worst"] is None else (advice["worst"], None, None)
        word = "recommended" if advice["cell"] else advice["why"]
        claim = _claim("recommended", subject, None, loss, word)
        yield claim | {"id": f"recommended/{index}", "margin": advice["margin"]}
    if ranking["resolve"]:
        difference = (ranking["resolve"]["detectable"], None, None)
        yield _claim("detectable", fastest, None, difference, None) | {"id": f"detectable/{index}"}


def _claim(kind: str, subject: str, baseline: str | None, figure: Figure, word: str | None) -> dict[str, Any]:
    """Return a claim as in claims.json, except for its figure: value and bounds are a tuple."""
    return {
        "id": f"{kind}/{subject}",
        "kind": kind,
        "subject": subject,
        "baseline": baseline,
        "figure": figure,
        "word": word,
        "method": None,
        "inputs": [subject, baseline] if baseline else [subject],
    }


def _claim_on_ratio(kind: str, subject: str, baseline: str, figure: Figure) -> dict[str, Any]:
    """Return the claim on a ratio, with the word that its interval supports."""
    _, low, high = figure or (0.0, None, None)
    if low is None or high is None:
        word = "unclaimed"
    elif high < 1:
        word = "slower"
    else:
        word = "faster" if low > 1 else "undecided"
    return _claim(kind, subject, baseline, figure, word)


def _figure_of_cell(quantities: Quantities, cell: str, kind: str) -> Figure:
    """Return the figure of a cell that a claim of this kind has; None where it cannot be computed."""
    quantity = quantities.get(f"cells/{cell}/{COLUMN_OF[kind]}")
    return (quantity.value, quantity.low, quantity.high) if quantity else None


def _check_claim(claim: Claim, expected: Claim, n: int | None) -> Iterator[Difference]:
    """Yield the fields in which a claim differs from the expected one. `n`: runs of its figure, where it is known."""
    identity = claim["id"]
    words = {key: expected[key] for key in ("kind", "subject", "baseline", "word", "method", "inputs")}
    yield from check_values(FILE, identity, claim, words)

    stated, figure = claim["figure"], expected["figure"]
    if stated and figure:
        figures = dict(zip(("value", "low", "high"), figure, strict=True))
        if n:
            figures["n"] = n
        yield from check_values(FILE, identity, stated, figures)
    elif stated:
        yield Difference(FILE, identity, "has a figure that nothing gives")
    elif figure:
        yield Difference(FILE, identity, "has no figure")


def _further_figures(
    report: Mapping[str, Any], comparisons: Mapping[str, Any], waterfalls: Mapping[str, Any]
) -> dict[str, list[float]]:
    """Return topic -> the numbers that its sentences may state beside the figures of their claims; "": any topic."""
    points = [point for _, point in points_of(report)]
    numbers_anywhere = [LEVEL, len(points)]
    for point in points:
        numbers_anywhere += [point["n"], point["devices"]]
    for ranking in report["ranking"]:
        numbers_anywhere += [ranking["claims"], len(ranking["cells"])]
    rates = [point["tokens_per_sec_median"] for point in points]
    rates += [point["tokens_per_sec_global"]["value"] for point in points if point["tokens_per_sec_global"]]
    code_counts = Counter(code for point in points for code in set(point["findings"]))  # code -> number of its cells
    numbers_on_pairs = list(NUMBERS_ON_PAIRS)
    for comparison in comparisons.values():
        numbers_on_pairs += _counts_of_pairs(comparison)
    numbers_on_losses = [HIDING_RATIO]
    for waterfall in waterfalls.values():
        numbers_on_losses += _further_figures_on_loss(waterfall)
    question = report["question"] or {}
    numbers_in_question = [100 * question[key] for key in ("by", "within") if question.get(key)]
    rule = report["repeats"] or {}  # the rule by which repeats end; "looks": numbers of repeats at which it is tried
    limits = [rule.get(name) for name in ("repeats", "minutes", "device_hours", "at_most", "at_least")]
    numbers_on_repeats = [*limits, *rule.get("looks", ()), 100 * rule.get("resolve", 0)]
    return {
        "": numbers_anywhere,
        "reservation": [*filter(None, rates), *code_counts.values()],
        "repeats": list(filter(None, numbers_on_repeats)),
        "pairs": numbers_on_pairs,
        "comparison": numbers_on_pairs,
        "lost": numbers_on_losses,
        "question": numbers_in_question,
        "verdict": [FEWEST, *numbers_in_question],  # "3 repeats per cell are needed"
        "recommended": [FEWEST],
    }


def _counts_of_pairs(comparison: Mapping[str, Any]) -> list[float]:
    """Return how many pairs an A/B comparison has, and would need."""
    estimate = comparison["estimate"]
    if not estimate:
        return []
    counts = (estimate["n"], len(estimate["null_ratios"]), estimate["pairs_low"], estimate["pairs_high"])
    return list(filter(None, counts))


def _further_figures_on_loss(entry: Mapping[str, Any]) -> list[float]:
    """Return the ratios of a cell in waterfall.json, also in percent, its number of runs, and its loss in ms."""
    ratios = [ratio for ratio in (entry["compute_to_communication"], entry["transfer_exposed"]) if ratio is not None]
    percents = [100 * ratio for ratio in ratios]
    return [*ratios, *percents, entry["n"] or 0, abs(entry["measured_ms"] - entry["ideal_ms"])]
