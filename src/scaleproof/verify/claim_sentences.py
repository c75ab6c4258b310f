"""Sentences of claims.json: the numbers that they print are figures of their claims, and no figure is left out.

And their words are what the claims support: each claim has a word, such as faster, undecided or shown.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from scaleproof.ground.number_format import is_useless, significant
from scaleproof.ground.records.grouping import group_by
from scaleproof.verify.intervals import FEWEST
from scaleproof.verify.printed import numbers, stands_for
from scaleproof.verify.raw import Difference

FILE = "claims.json"
Claim = Mapping[str, Any]  # of that file

MANY = re.compile(r"\b(\d+) cells, from ")  # of so many, the first and the last are named
AS_FAST = "(?:as fast as )?"  # "1.2x A" was written before 0.2
# Word of a claim -> what a sentence on a series or on pairs must say.
PHRASES = {
    "faster": "is faster",
    "slower": "is slower",
    "undecided": "cannot be told apart",
    "unclaimed": "nothing is claimed",
    "within-noise": "within the noise: nothing is claimed",
}
PRINTED = {"ratio", "one-device", "pairs"}  # kinds whose figure stands in each sentence on them
SUMMING_UP = {"verdict", "recommended"}  # sentences that need not print the figures they rest on


def check_sentence(
    sentence: Mapping[str, Any], claims: Sequence[Claim], names: Sequence[str], extras: Mapping[str, list[float]]
) -> Iterator[Difference]:
    """Yield where a sentence has a number that is none of its claims, or a word that they do not support.

    `names`: of cells and comparisons, the longest first; `extras`: topic -> further numbers that its sentences may
    state, "" for those of any topic.
    """
    topic, text = sentence["topic"], sentence["text"]
    where = f'{topic}: "{text[:60]}{"..." if len(text) > 60 else ""}"'
    summed_up_ids, fault_of_summary = left_unsaid(text, claims)
    if fault_of_summary:
        yield Difference(FILE, where, fault_of_summary)

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
        is_due = claim["kind"] in PRINTED and topic not in SUMMING_UP
        if is_due and claim["id"] not in summed_up_ids:
            yield from _check_is_printed(claim, printed_numbers, where)
    if problem := wrong_word(topic, text, claims):
        yield Difference(FILE, where, problem)


def check_unmeasured_parts(text: str, entry: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield where a sentence on lost time names wrong parts as "Not measured". `entry`: of waterfall.json."""
    match = re.search(r" Not measured: ([^.]*)\.", text)
    stated_parts = match[1] if match else ""
    unmeasured_parts = ", ".join(part["name"] for part in entry["parts"] if part["ms"] is None)
    has_loss = entry["measured_ms"] > entry["ideal_ms"]  # without a loss no parts are named
    expected_parts = unmeasured_parts if has_loss else ""
    if stated_parts != expected_parts:
        problem = f"is to call unmeasured: {expected_parts or 'no part'}"
        yield Difference(FILE, f'lost: "{text[:60]}"', problem)


def _numbers_beside_names(text: str, names: Sequence[str]) -> list[str]:
    """Return the numbers that a sentence prints outside of names, without the 7 of "7 cells, from A to B"."""
    text = MANY.sub("from ", text)
    for name in names:
        text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", "", text)
    without_words = re.sub(r"\b[\w.]*[a-z][\w.]*-[\w.-]*", " ", text)  # other words with hyphens: "zero2-n1x4"
    return numbers(without_words)


def _check_is_printed(claim: Claim, printed_numbers: Sequence[str], where: str) -> Iterator[Difference]:
    """Yield the value or bound of a claim that is none of the printed numbers. Bounds that are too wide need not be."""
    value, low, high = claim["figure"] or (None, None, None)
    due_figures = [value]
    if low is not None and high is not None and not is_useless(low, high, claim.get("n", FEWEST)):
        due_figures += [low, high]
    for figure in due_figures:
        if figure is None:
            continue
        claim_on_figure = {**claim, "figure": (figure,)}  # this figure alone, in all forms of _is_figure_of
        if not any(_is_figure_of(printed, claim_on_figure) for printed in printed_numbers):
            yield Difference(FILE, where, f"does not say the figure of {claim['id']}, {figure:.4g}")


def _bounds_of_efficiency(claims: Sequence[Claim]) -> list[float]:
    """Return the bounds of an efficiency in percent as sentences of reports before schema 6 have them: its speed-up's.

    Its own claim had another interval then. Returns [] where claims lack either.
    """
    figures = {claim["kind"]: claim["figure"] for claim in claims if claim["figure"]}
    if not {"efficiency", "speed-up"} <= figures.keys():
        return []
    efficiency, *_ = figures["efficiency"]
    speedup, *bounds = figures["speed-up"]
    return [100 * efficiency / speedup * bound for bound in bounds if bound is not None]


def _is_figure_of(printed: str, claim: Claim) -> bool:
    """Return whether a printed number is the value or a bound of a claim, as ratio, in percent, or as a difference."""
    for value in claim["figure"] or ():
        if value is None:
            continue
        # As it is, in percent, "20 % faster", "20 % slower", and milliseconds that shorten a step without their sign.
        forms = [value, 100 * value, 100 * (value - 1), 100 * (1 - value), -value]
        if value and _is_stated_inverted(claim):
            forms.append(1 / value)
        if any(stands_for(printed, form) for form in forms):
            return True
        if claim["kind"] == "recommended" and abs(float(printed.replace(",", "")) - 100 * value) <= 1:
            return True  # the most that the cell may lose is rounded up
    return bool(claim.get("margin")) and stands_for(printed, 100 * claim["margin"])


def _is_stated_inverted(claim: Claim) -> bool:
    """Return whether sentences state a claim's ratio as that of the faster cell over a slower one, above 1."""
    if claim["kind"] == "pairs":
        return _is_below_1(claim)  # by the bound, not by the word: it may be "within-noise"
    return claim["kind"] == "ratio" or (claim["kind"], claim["word"]) == ("question", "no")


def _is_below_1(claim: Claim) -> bool:
    """Return whether the whole interval of a claim's figure is below 1."""
    *_, high = claim["figure"] or (None,)
    return high is not None and bool(high < 1)


def _check_quoted_ratio(claim: Claim, text: str, where: str) -> Iterator[Difference]:
    """Yield where "1.2x as fast as A (1.1-1.3)" is neither the claim on A nor its inverse (`_is_stated_inverted`)."""
    ratio_pattern = _pattern_of_quoted_ratio(claim)
    if not ratio_pattern:
        return
    figure = claim["figure"] or ()
    if _is_stated_inverted(claim):
        value, low, high = figure or (None, None, None)
        # The lower bound of the inverse is 1 / high. A bound that is not known stays None.
        figure = tuple(bound and 1 / bound for bound in (value, high, low))
    match = re.search(rf"{ratio_pattern}(?: \((?:95 % CI )?([\d.,]+)-([\d.,]+)\))?", text)
    stated = match.groups() if match else ()  # the ratio and its bounds, where they are printed
    for printed, value in zip(stated, figure, strict=False):
        if printed and (value is None or not stands_for(printed, value)):
            gives = "none" if value is None else significant(value, 4)
            yield Difference(FILE, where, f"{claim['subject']} is at {printed}x, the raw files give {gives}")


def _pattern_of_quoted_ratio(claim: Claim) -> str:
    """Return a pattern for the words in which a sentence quotes the ratio of a claim; "" where it quotes none."""
    name = re.escape(claim["subject"])
    if claim["kind"] == "one-device":
        return rf"(?<![\w-]){name} at ([\d.,]+)x"  # "A at 1.2x (1.1-1.3) is faster"
    if claim["kind"] == "ratio":
        return rf"(?<![\w.,-])([\d.,]+)x {AS_FAST}{name}(?![\w-])"  # of the fastest cell over A
    if _is_stated_inverted(claim):
        return r", which has ([\d.,]+)x its [\w/]+"  # "A is slower than B, which has 1.2x its tokens/s"
    return ""


def left_unsaid(text: str, claims: Sequence[Claim]) -> tuple[set[str], str]:
    """Return (ids of the claims that a text sums up as "7 cells, from A to B", the fault of such words).

    The fault is "", or that no group of `claims` has that number, begins with A and ends with B.
    """
    # "7 cells" may be all claims of one kind, or those of one kind and word (all "slower" ones).
    of_ratios = [claim for claim in claims if claim["kind"] in ("ratio", "one-device")]
    groups = [
        *group_by(of_ratios, itemgetter("kind")).values(),
        *group_by(of_ratios, itemgetter("kind", "word")).values(),
    ]

    ids: set[str] = set()
    for match in MANY.finditer(text):
        ends = text[match.end() :].split(" to ", 1)
        fitting_groups = [group for group in groups if len(group) == int(match[1]) and _is_from_to(group, ends)]
        if not fitting_groups:
            return ids, f'says "{match[0].strip()}" of other cells than its claims'
        _, *between, _ = fitting_groups[0]
        ids |= {claim["id"] for claim in between}
    return ids, ""


def _is_from_to(group: Sequence[Claim], ends: Sequence[str]) -> bool:
    """Return whether two texts, "1.2x as fast as A" or "A at 1.2x", are of the first and the last cell of a group."""
    if len(ends) != 2:
        return False
    cells = group[0]["subject"], group[-1]["subject"]
    patterns = [rf"(?:[\d.,]+x {AS_FAST})?{re.escape(cell)}(?![\w-])" for cell in cells]
    return all(re.match(pattern, end) for pattern, end in zip(patterns, ends, strict=True))


def wrong_word(topic: str, text: str, claims: Sequence[Claim]) -> str:
    """Return what a sentence says that its claims do not support, or does not say; "" where it says what they do."""
    if not claims:
        return ""
    first = claims[0]  # decides the words of a sentence; in those on "slower" and "one-device" all claims do
    subject, word = first["subject"], first["word"]
    if topic == "verdict":
        verdict = text.removeprefix("With reservations: ")
        not_shown = [claim for claim in claims if claim["kind"] == "fastest" and claim["word"] != "shown"]
        if not_shown and f"{subject}: the fastest on " in verdict:
            return f"says the fastest of {subject}, which is not shown to be"
        return _unsupported(first, _pattern_of_verdict(first), verdict)
    if topic == "fastest":
        due_words = ", the next" if word == "shown" else "has the highest rate"
        names_fastest = text.startswith(f"Fastest: {subject} ") or f"; {subject} has the highest rate" in text
        return "" if names_fastest and due_words in text else f'does not say "{subject} ... {due_words}"'
    if topic == "slower":
        are_all_slower = all(claim["word"] == "slower" for claim in claims)
        # "Lead: A runs at 1.2x B" was written before 0.2.
        names_baseline = re.match(rf"(?:Clearly faster|Lead): {re.escape(first['baseline'])}(?![\w-])", text)
        return "" if are_all_slower and names_baseline else "names cells that are not shown to be slower"
    if topic == "one-device":
        return _fault_of_one_device_sentence(text, claims)
    if topic == "recommended":
        confirmed = rf"Recommended: {re.escape(subject)}\b(?!.*not confirmed)"
        patterns = {"recommended": confirmed, "undecided": ".*(not confirmed|none yet)"}
        return _unsupported(first, patterns.get(word, ".*none;"), text)
    if topic in ("scaling", "pairs", "comparison") and PHRASES.get(word, "") not in text:
        return f"does not say that {subject} {PHRASES[word]}"
    return ""


def _unsupported(claim: Claim, pattern: str, text: str) -> str:
    """Return "" for a text that begins as the claim's pattern, else that the claim does not support it."""
    return "" if re.match(pattern, text) else f"is not what {claim['id']} ({claim['word']}) supports"


def _fault_of_one_device_sentence(text: str, claims: Sequence[Claim]) -> str:
    """Return the fault of the first wrong part of a sentence, "says faster of a, b"; "" where all are right.

    Such a sentence: "Against one device: a at 1.5x (1.4-1.6) is faster; b at 0.9x (0.8-1.1) is undecided".
    """
    of_one_device = [claim for claim in claims if claim["kind"] == "one-device"]
    _, _, statements = text.partition(": ")
    for statement in statements.split("; "):
        if fault := _fault_of_statement(statement, of_one_device):
            return fault
    return ""


def _fault_of_statement(statement: str, claims: Sequence[Claim]) -> str:
    """Return the fault of "a at 1.5x is faster": not the word of the claim on a, or "is" for "are"; "" for none."""
    verb = re.search(r" (?:are|is) (faster|undecided|slower)\b", statement)
    if verb is None:
        return ""
    named = [claim for claim in claims if re.search(rf"(?<![\w-]){re.escape(claim['subject'])} at ", statement)]
    if wrong_cells := [claim["subject"] for claim in named if claim["word"] != verb[1]]:
        return f"says {verb[1]} of {', '.join(wrong_cells)}"
    are_several = len(named) > 1
    if named and are_several != (" are " in statement):
        return f'says "{verb[0].strip()}" of {len(named)} cells'
    return ""


def _pattern_of_verdict(claim: Claim) -> str:
    """Return a pattern for the beginning of the verdicts that a claim supports, by its kind and its word."""
    subject, base = re.escape(claim["subject"]), re.escape(claim["baseline"] or "")
    word = claim["word"]
    kind = claim["kind"]
    if kind == "recommended" and word == "recommended":
        return rf"{subject}(?: pays off|: the fastest|: as fast as|: no slower|: at most )"
    if kind == "recommended":
        return r"No(?: clear winner yet)?:|One device is faster "
    if kind == "fastest":
        return rf"No clear winner yet: {subject} "
    if kind == "one-device":
        return rf"{subject} pays off: "
    if kind == "question":
        patterns = {
            "yes": rf"Yes: {subject} is .*than {base}",
            "no": rf"No: {subject} is (?:not faster|more than{'|slower' * _is_below_1(claim)})",
            "near": rf"Too near to call: {subject} |No: {subject} is as fast as {base} ",
        }
        return patterns.get(word, "No clear ")
    if kind == "pairs" and word in ("faster", "slower"):
        return rf"{subject} is {word} than {base}[:,] "
    if kind == "pairs":
        return "No clear winner yet: "
    # Other kinds, such as a speed-up.
    return {"faster": ".* pays off: ", "slower": ".* is slower "}.get(word, "No clear ")
