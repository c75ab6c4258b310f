"""Does a sentence of claims.json say what its claims support? Each claim has a word: faster, undecided, shown."""

import re
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from scaleproof.ground.records.grouping import group_by

FILE = "claims.json"
Claim = Mapping[str, Any]  # of that file

MANY = re.compile(r"\b(\d+) cells, from ")  # of so many, the first and the last are named
# Word of a claim -> what a sentence on a series or on pairs must say.
PHRASES = {
    "faster": "is faster",
    "slower": "is slower",
    "undecided": "cannot be told apart",
    "unclaimed": "nothing is claimed",
    "within-noise": "within the noise: nothing is claimed",
}


def left_unsaid(text: str, claims: Sequence[Claim]) -> tuple[set[str], str]:
    """Return the ids of the claims that a text passes over by "7 cells, from A to B", and a fault of such words.

    The fault is "", or that no group of `claims` has that number, begins with A and ends with B.
    """
    ids: set[str] = set()
    for match in MANY.finditer(text):
        ends = text[match.end() :].split(" to ", 1)
        groups = [group for group in _summed_up_groups(claims) if len(group) == int(match[1])]
        fitting_groups = [group for group in groups if _is_from_to(group, ends)]
        if not fitting_groups:
            return ids, f'says "{match[0].strip()}" of other cells than its claims'
        _, *between, _ = fitting_groups[0]
        ids |= {claim["id"] for claim in between}
    return ids, ""


def _summed_up_groups(claims: Sequence[Claim]) -> Iterator[list[Claim]]:
    """Yield the groups that "7 cells, from A to B" may stand for: claims of one kind, then claims of one word."""
    of_ratios = [claim for claim in claims if claim["kind"] in ("ratio", "one-device")]
    yield from group_by(of_ratios, itemgetter("kind")).values()
    yield from group_by(of_ratios, itemgetter("kind", "word")).values()


def _is_from_to(group: Sequence[Claim], ends: Sequence[str]) -> bool:
    """Return whether two texts, "1.2x A (1.1-1.3)" or "A at 1.2x", are of the first and the last cell of a group."""
    if len(ends) != 2:
        return False
    cells = group[0]["subject"], group[-1]["subject"]
    patterns = [rf"(?:[\d.,]+x )?{re.escape(cell)}(?![\w-])" for cell in cells]
    return all(re.match(pattern, end) for pattern, end in zip(patterns, ends, strict=True))


def wrong_word(topic: str, text: str, claims: Sequence[Claim]) -> str:
    """Return what a sentence says that its claims do not support, or does not say; "" where it says what they do."""
    if not claims:
        return ""
    first = claims[0]  # its word decides
    subject, word = first["subject"], first["word"]
    if topic == "verdict":
        return _unsupported(first, _pattern_of_verdict(first), text)
    if topic == "fastest":
        due_words = ", the next" if word == "shown" else "has the highest rate"
        names_fastest = text.startswith(f"Fastest: {subject} ") or f"; {subject} has the highest rate" in text
        return "" if names_fastest and due_words in text else f'does not say "{subject} ... {due_words}"'
    if topic == "slower":
        are_all_slower = all(claim["word"] == "slower" for claim in claims)
        names_baseline = text.startswith(f"Slower than {first['baseline']}:")
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
        fault = _fault_of_statement(statement, of_one_device)
        if fault:
            return fault
    return ""


def _fault_of_statement(statement: str, claims: Sequence[Claim]) -> str:
    """Return that "a at 1.5x is faster" has another word than the claim on a, or "is" for "are"; "" if it is right."""
    verb = re.search(r" (?:are|is) (faster|undecided|slower)\b", statement)
    if verb is None:
        return ""
    named = [claim for claim in claims if re.search(rf"(?<![\w-]){re.escape(claim['subject'])} at ", statement)]
    wrong_cells = [claim["subject"] for claim in named if claim["word"] != verb[1]]
    if wrong_cells:
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
        return rf"{subject}(?: pays off|: the fastest|: as fast as)"
    if kind == "recommended":
        return r"No(?: clear winner yet)?:"
    if kind == "fastest":
        return rf"No clear winner yet: {subject} "
    if kind == "one-device":
        return rf"{subject} pays off: "
    if kind == "question":
        patterns = {
            "yes": rf"Yes: {subject} is .*than {base}",
            "no": rf"No: {subject} is (?:not faster|more than)",
            "near": rf"Too near to call: {subject} |No: {subject} is as fast as {base} ",
        }
        return patterns.get(word, "No clear ")
    if kind == "pairs" and word in ("faster", "slower"):
        return rf"{subject} is {word} than {base}[:,] "
    if kind == "pairs":
        return "No clear winner yet: "
    return {"faster": ".* pays off: ", "slower": "No: .* is slower "}.get(word, "No clear ")
