"""claims.json: every claim is computed again, and every sentence is read: its figures, names and words are theirs.

A claim is a figure, of a cell or of two (subject and baseline), with the word that its interval supports.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scaleproof.ground.number_format import is_useless, significant
from scaleproof.verify.claim_words import MANY, Claim, left_unsaid, wrong_word
from scaleproof.verify.contents import entries_of, json_of, points_of
from scaleproof.verify.intervals import FEWEST
from scaleproof.verify.laws import check_further_sentences
from scaleproof.verify.printed import numbers, stands_for
from scaleproof.verify.raw import Difference, check_values
from scaleproof.verify.recompute import Quantities

FILE = "claims.json"
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
TOPICS = CLAIMING | {"incomparable", "forecast", "forecasts", "next", "drift", "law", "trace", "trust"}
PRINTED = {"ratio", "one-device", "pairs"}  # kinds whose figure stands in each sentence on them
SUMMING_UP = {"verdict", "recommended"}  # sentences that need not print the figures they rest on
LEVEL = 95.0  # of intervals
HIDES = 3.0  # computing over transfers that usually hides them
# "an effect of 2 %", "4 times in 5", "from 6 pairs on", "more than 1,000 pairs": in the sentences on what pairs detect.
NUMBERS_ON_PAIRS = (2.0, 4.0, 5.0, 6.0, 1000.0)

Figure = tuple[float, float | None, float | None] | None  # value and bounds


def check_claims(folder: Path, quantities: Quantities, report: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield each claim that the raw files do not support, and each sentence that does not say what its claims do."""
    content = json_of(folder / FILE)
    claims = {claim["id"]: claim for claim in content["claims"]}
    comparisons = {entry["name"]: entry for entry in entries_of(folder / "comparison.json", "comparisons")}
    lost = {entry["cell"]: entry for entry in entries_of(folder / "waterfall.json", "cells")}
    expected = {claim["id"]: claim for claim in _expected_claims(quantities, report, comparisons, lost)}
    yield from _check_stated_claims(claims, expected, quantities)
    extras = _further_figures(report, comparisons, lost)
    names = {claim[key] for claim in claims.values() for key in ("subject", "baseline") if claim[key]}
    longest_first = sorted(names, key=len, reverse=True)  # a name may begin as another one does
    for sentence in content["sentences"]:
        topic, rests_on = sentence["topic"], sentence["claims"]
        unknown = [identity for identity in rests_on if identity not in claims]
        if unknown or topic not in TOPICS:
            problem = f"rests on {unknown[0]}, which is no claim" if unknown else "is no topic"
            yield Difference(FILE, f'{topic}: "{sentence["text"][:60]}"', problem)
        if topic in CLAIMING and all(identity in expected for identity in rests_on):
            own_claims = [expected[identity] for identity in rests_on]
            yield from _check_sentence(sentence, own_claims, longest_first, extras)
            if topic == "lost" and own_claims:
                yield from _check_unmeasured_parts(sentence["text"], lost[own_claims[0]["subject"]])
    yield from check_further_sentences(content["sentences"], report, comparisons, quantities)


def _check_stated_claims(
    claims: Mapping[str, Claim], expected: Mapping[str, Claim], quantities: Quantities
) -> Iterator[Difference]:
    """Yield the expected claims that are missing, those that are not expected, and what a claim states otherwise."""
    for identity in sorted(expected.keys() - claims.keys()):
        yield Difference(FILE, identity, "is missing")
    for identity, claim in claims.items():
        if identity in expected:
            quantity = quantities.get(f"cells/{claim['subject']}/{COLUMN_OF.get(claim['kind'])}")
            n = quantity.n if quantity else expected[identity].get("n")
            yield from _check_claim(claim, expected[identity], n)
        elif claim["kind"] != "lost":  # a waterfall need not be among what the page is made from
            yield Difference(FILE, identity, "is a claim that the raw files do not support")


def _expected_claims(
    quantities: Quantities, report: Mapping[str, Any], comparisons: Mapping[str, Any], lost: Mapping[str, Any]
) -> Iterator[Claim]:
    """Yield the claims that a campaign must make. `comparisons`, `lost`: comparison.json and waterfall.json by name."""
    for series, point in points_of(report):
        yield from _claims_on_size(quantities, series["baseline"], point)
    for index, ranking in enumerate(report["ranking"]):
        yield from _claims_on_ranking(quantities, index, ranking)
    question = report["question"]
    if question and question["ratio"]:
        base = question["better_than"] or question["not_slower_than"]  # a campaign asks one of these
        figure = (question["ratio"]["value"], question["ratio"]["low"], question["ratio"]["high"])
        yield _claim("question", question["is"], base, figure, question["status"])
    for entry in comparisons.values():
        if entry["estimate"]:
            yield from _claims_on_pairs(entry, entry["estimate"])
    for entry in lost.values():
        yield from _claims_on_loss(entry)


def _claims_on_pairs(entry: Mapping[str, Any], estimate: Mapping[str, Any]) -> Iterator[Claim]:
    """Yield the claims on an A/B comparison: the ratio, the noise, and the effects that it would show."""
    name = entry["name"]
    spans = estimate["low"] <= 1 <= estimate["high"]
    word = estimate["claim"] or ("undecided" if spans else "within-noise")
    figure = (estimate["ratio"], estimate["low"], estimate["high"])
    of_pairs = {"id": f"pairs/{name}", "method": "paired", "inputs": [name], "n": estimate["n"]}
    yield {**_claim("pairs", entry["b"], entry["a"], figure, word), **of_pairs}
    yield _claim("noise", name, None, (estimate["floor"], None, None), None)
    low, high = estimate["detectable_low"], estimate["detectable_high"]
    yield _claim("detectable", name, None, (low, low, high), None)


def _claims_on_loss(entry: Mapping[str, Any]) -> Iterator[Claim]:
    """Yield the claims on where a cell loses time, in milliseconds of a step."""
    cell = entry["cell"]
    parts = {name: entry[f"{name}_ms"] for name in ("measured", "ideal", "unexplained")}
    parts |= {part["name"]: part["ms"] for part in entry["parts"]}
    for name, ms in parts.items():
        if ms is not None:
            yield {**_claim("lost", cell, entry["baseline"], (ms, None, None), name), "id": f"lost/{cell}/{name}"}


def _claims_on_size(quantities: Quantities, baseline: str, point: Mapping[str, Any]) -> Iterator[Claim]:
    """Yield the claims on a size of a series, `point` of scaling_report.json."""
    cell, best = point["cell"], point["best_single"]
    yield _claim("rate", cell, None, _figure_of_cell(quantities, cell, "rate"), None)
    stated = point["speedup_in_answer"]
    if stated:  # its interval holds together with others; check_answer compares it
        speedup = _figure_of_cell(quantities, cell, "speed-up")
        yield _claim_on_ratio("speed-up", cell, baseline, speedup and (speedup[0], stated["low"], stated["high"]))
    if point["scaling_efficiency"]:
        efficiency = _figure_of_cell(quantities, cell, "efficiency")
        yield _claim("efficiency", cell, baseline, efficiency, point["verdict"] or "unrated")
    if point["speedup_vs_best_single"]:
        yield _claim_on_ratio("one-device", cell, best, _figure_of_cell(quantities, cell, "one-device"))


def _claims_on_ranking(quantities: Quantities, index: int, ranking: Mapping[str, Any]) -> Iterator[Claim]:
    """Yield the claims on the cells of one size, the fastest first. `index`: of their ranking in the report."""
    comparable = [entry for entry in ranking["cells"] if not entry["incomparable"]]
    if len(comparable) < 2:
        return
    fastest = ranking["cells"][0]["cell"]
    by_method = {"method": f"{ranking['method']}, {ranking['claims']} comparisons" if ranking["method"] else None}
    for entry in comparable:
        if entry["relative_to_fastest"]:
            figure = _figure_of_cell(quantities, entry["cell"], "ratio")
            yield _claim_on_ratio("ratio", entry["cell"], fastest, figure) | by_method
        if entry["letters"]:  # cells that share one are not told apart
            yield _claim("letters", entry["cell"], None, None, entry["letters"]) | by_method
    word = "shown" if ranking["fastest_shown"] else "not-shown"
    yield _claim("fastest", fastest, None, None, word) | by_method | {"id": f"fastest/{index}"}
    advice = ranking["recommendation"]
    if advice:
        subject = advice["cell"] or advice["candidate"] or fastest
        loss = None if advice["worst"] is None else (advice["worst"], None, None)
        claim = _claim("recommended", subject, None, loss, "recommended" if advice["cell"] else advice["why"])
        yield claim | {"id": f"recommended/{index}", "margin": advice["margin"]}
    if ranking["resolve"]:
        difference = (ranking["resolve"]["detectable"], None, None)
        yield _claim("detectable", fastest, None, difference, None) | {"id": f"detectable/{index}"}


def _claim(kind: str, subject: str, baseline: str | None, figure: Figure, word: str | None) -> dict[str, Any]:
    """Return a claim as claims.json has it, but for `figure`: value and bounds as a tuple."""
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
    word = "unclaimed"
    if low is not None and high is not None:
        word = "slower" if high < 1 else "faster" if low > 1 else "undecided"
    return _claim(kind, subject, baseline, figure, word)


def _figure_of_cell(quantities: Quantities, cell: str, kind: str) -> Figure:
    """Return the figure of a cell that a claim of this kind has; None where it cannot be computed."""
    quantity = quantities.get(f"cells/{cell}/{COLUMN_OF[kind]}")
    return (quantity.value, quantity.low, quantity.high) if quantity else None


def _check_claim(claim: Claim, expected: Claim, n: int | None) -> Iterator[Difference]:
    """Yield what a claim states otherwise than expected. `n`: runs that its figure is over, where they are known."""
    identity = claim["id"]
    stated, figure = claim["figure"], expected["figure"]
    words = {key: expected[key] for key in ("kind", "subject", "baseline", "word", "method", "inputs")}
    yield from check_values(FILE, identity, claim, words)
    if stated and figure:
        figures = dict(zip(("value", "low", "high"), figure, strict=True)) | ({"n": n} if n else {})
        yield from check_values(FILE, identity, stated, figures)
    elif stated or figure:
        yield Difference(FILE, identity, "has a figure that nothing gives" if stated else "has no figure")


def cells_of_codes(points: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return code of a finding -> the cells that have it. `points`: of all series of scaling_report.json."""
    cells: dict[str, list[str]] = {}
    for point in points:
        for code in dict.fromkeys(point["findings"]):
            cells.setdefault(code, []).append(point["cell"])
    return cells


def _further_figures(
    report: Mapping[str, Any], comparisons: Mapping[str, Any], lost: Mapping[str, Any]
) -> dict[str, list[float]]:
    """Return topic -> the numbers that its sentences may state beside the figures of their claims; "": any topic."""
    points = [point for _, point in points_of(report)]
    of_points = [count for point in points for count in (point["n"], point["devices"])]
    of_rankings = [count for ranking in report["ranking"] for count in (ranking["claims"], len(ranking["cells"]))]
    rates = [point["tokens_per_sec_median"] for point in points]
    rates += [point["tokens_per_sec_global"]["value"] for point in points if point["tokens_per_sec_global"]]
    of_pairs = [*NUMBERS_ON_PAIRS, *(count for entry in comparisons.values() for count in _counts_of_pairs(entry))]
    question = report["question"] or {}
    of_question = [100 * question[key] for key in ("by", "within") if question.get(key)]
    return {
        "": [LEVEL, len(points), *of_points, *of_rankings],
        "reservation": [*filter(None, rates), *map(len, cells_of_codes(points).values())],
        "repeats": _figures_of_looks(report["repeats"] or {}),
        "pairs": of_pairs,
        "comparison": of_pairs,
        "lost": [HIDES, *(figure for entry in lost.values() for figure in _further_figures_on_loss(entry))],
        "question": of_question,
        "verdict": [FEWEST, *of_question],  # "3 repeats per cell are needed"
        "recommended": [FEWEST],
    }


def _counts_of_pairs(comparison: Mapping[str, Any]) -> list[float]:
    """Return how many pairs an A/B comparison has, and would need."""
    estimate = comparison["estimate"]
    if not estimate:
        return []
    counts = (estimate["n"], len(estimate["null_ratios"]), estimate["pairs_low"], estimate["pairs_high"])
    return list(filter(None, counts))


def _figures_of_looks(look: Mapping[str, Any]) -> list[float]:
    """Return the numbers of the rule by which repeats end, `repeats` of scaling_report.json."""
    limits = [look.get(name) for name in ("repeats", "minutes", "device_hours", "at_most", "at_least")]
    return list(filter(None, [*limits, *look.get("looks", ()), 100 * look.get("resolve", 0)]))


def _further_figures_on_loss(entry: Mapping[str, Any]) -> list[float]:
    """Return the ratios of a cell in waterfall.json, also in percent, its runs, and what it loses in milliseconds."""
    ratios = [ratio for ratio in (entry["compute_to_communication"], entry["transfer_exposed"]) if ratio is not None]
    percents = [100 * ratio for ratio in ratios]
    return [*ratios, *percents, entry["n"] or 0, abs(entry["measured_ms"] - entry["ideal_ms"])]


def _check_sentence(
    sentence: Mapping[str, Any], claims: Sequence[Claim], names: Sequence[str], extras: Mapping[str, list[float]]
) -> Iterator[Difference]:
    """Yield where a sentence has a number that is none of its claims, or a word that they do not support.

    `names`: of cells and comparisons, the longest first; `extras`: topic -> further numbers that it may state.
    """
    topic, text = sentence["topic"], sentence["text"]
    where = f'{topic}: "{text[:60]}{"..." if len(text) > 60 else ""}"'
    unsaid, miscounted = left_unsaid(text, claims)
    if miscounted:
        yield Difference(FILE, where, miscounted)
    printed_numbers = _numbers_beside_names(text, names)
    allowed = [*extras[""], *extras.get(topic, []), *_bounds_of_efficiency(claims)]
    if topic == "verdict" and "other cells" in text:  # "ddp-n1x2 measured highest; 4 other cells may be as fast"
        allowed.append(len(claims) - 1.0)
    for printed in printed_numbers:
        is_allowed = any(stands_for(printed, value) for value in allowed)
        if not is_allowed and not any(_is_figure_of(printed, claim) for claim in claims):
            yield Difference(FILE, where, f"{printed} is no figure of its claims")
    for claim in claims:
        yield from _check_quoted_ratio(claim, text, where)
        if claim["kind"] in PRINTED and topic not in SUMMING_UP and claim["id"] not in unsaid:
            yield from _check_is_printed(claim, printed_numbers, where)
    problem = wrong_word(topic, text, claims)
    if problem:
        yield Difference(FILE, where, problem)


def _check_unmeasured_parts(text: str, entry: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield where a sentence on lost time calls other parts unmeasured than those that `entry` has no figure of."""
    stated = re.search(r" Not measured: ([^.]*)\.", text)
    without_figure = [part["name"] for part in entry["parts"] if part["ms"] is None]
    due = without_figure if entry["measured_ms"] > entry["ideal_ms"] else []  # else nothing is lost
    if (stated[1] if stated else "") != ", ".join(due):
        expected = ", ".join(due) or "no part"
        yield Difference(FILE, f'lost: "{text[:60]}"', f"is to call unmeasured: {expected}")


def _numbers_beside_names(text: str, names: Sequence[str]) -> list[str]:
    """Return the numbers that a sentence prints, without those in names, and of "7 cells, from A to B" without 7."""
    plain = MANY.sub("from ", text)
    for name in names:
        plain = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", "", plain)
    without_words = re.sub(r"\b[\w.]*[a-z][\w.]*-[\w.-]*", " ", plain)  # with hyphens, as other names have
    return numbers(without_words)


def _check_is_printed(claim: Claim, printed_numbers: Sequence[str], where: str) -> Iterator[Difference]:
    """Yield the value or bound of a claim that is none of the printed numbers; bounds that say nothing aside."""
    value, low, high = claim["figure"] or (None, None, None)
    has_bounds = low is not None and high is not None and not is_useless(low, high, claim.get("n", FEWEST))
    for figure in (value, low, high) if has_bounds else (value,):
        alone = {**claim, "figure": (figure,)}
        if figure is not None and not any(_is_figure_of(printed, alone) for printed in printed_numbers):
            yield Difference(FILE, where, f"does not say the figure of {claim['id']}, {figure:.4g}")


def _bounds_of_efficiency(claims: Sequence[Claim]) -> list[float]:
    """Return the bounds of an efficiency in percent, made from those of its speed-up; [] where claims lack either."""
    of_kind = {claim["kind"]: claim["figure"] for claim in claims if claim["figure"]}
    if not {"efficiency", "speed-up"} <= of_kind.keys():
        return []
    efficiency, *_ = of_kind["efficiency"]
    speedup, *bounds = of_kind["speed-up"]
    factor = 100 * efficiency / speedup
    return [bound * factor for bound in bounds if bound is not None]


def _is_figure_of(printed: str, claim: Claim) -> bool:
    """Return whether a printed number is the value or a bound of a claim, as ratio, in percent, or as a difference."""
    for value in claim["figure"] or ():
        if value is None:
            continue
        # A difference is printed as faster or slower, and milliseconds that shorten a step without their sign.
        forms = [value, 100 * value, 100 * (value - 1), 100 * (1 - value), -value]
        if value and _is_stated_inverted(claim):
            forms.append(1 / value)
        if any(stands_for(printed, form) for form in forms):
            return True
        if claim["kind"] == "recommended" and abs(float(printed.replace(",", "")) - 100 * value) <= 1:
            return True  # the most that the cell may lose is rounded up
    return bool(claim.get("margin")) and stands_for(printed, 100 * claim["margin"])


def _is_stated_inverted(claim: Claim) -> bool:
    """Return whether sentences state a claim's ratio as that of the faster cell over the slower one, above 1."""
    if claim["kind"] == "pairs":
        *_, high = claim["figure"] or (None,)
        return high is not None and bool(high < 1)  # also where its word is "within-noise"
    return claim["kind"] == "ratio" or (claim["kind"], claim["word"]) == ("question", "no")


def _check_quoted_ratio(claim: Claim, text: str, where: str) -> Iterator[Difference]:
    """Yield where a sentence has another ratio, or interval, beside the name of a claim's cell than the claim."""
    name = re.escape(claim["subject"])
    figure = claim["figure"] or ()
    if _is_stated_inverted(claim):
        value, low, high = figure or (None, None, None)
        figure = tuple(bound and 1 / bound for bound in (value, high, low))
    if claim["kind"] == "one-device":
        quoted = rf"(?<![\w-]){name} at ([\d.,]+)x"  # "A at 1.2x (1.1-1.3) is faster"
    elif claim["kind"] == "ratio":
        quoted = rf"(?<![\w.,-])([\d.,]+)x {name}(?![\w-])"  # of the fastest cell over A: "1.2x A (1.1-1.3)"
    elif _is_stated_inverted(claim):
        quoted = r", which has ([\d.,]+)x its [\w/]+"  # "A is slower than B, which has 1.2x its tokens/s"
    else:
        return
    match = re.search(rf"{quoted}(?: \((?:95 % CI )?([\d.,]+)-([\d.,]+)\))?", text)
    stated = match.groups() if match else ()  # the ratio and its bounds, where they are printed
    for printed, value in zip(stated, figure, strict=False):
        if printed and (value is None or not stands_for(printed, value)):
            gives = "none" if value is None else significant(value, 4)
            yield Difference(FILE, where, f"{claim['subject']} is at {printed}x, the raw files give {gives}")
