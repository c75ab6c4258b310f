"""The words of the sentences in claims.json: which a claim supports, by its own word."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

Claim = Mapping[str, Any]  # of claims.json


def wrong_word(topic: str, text: str, claims: Sequence[Claim]) -> str:
    """Return what a sentence says that its claims do not support; "" where it says what they do."""
    if not claims:
        return ""
    first = claims[0]
    subject, word = first["subject"], first["word"]
    if topic == "verdict":
        return "" if re.match(_verdict(first), text) else f"is not what {first['id']} ({word}) supports"
    if topic == "fastest":
        says = ", the next" if word == "shown" else "has the highest rate"
        sound = text.startswith(f"Fastest: {subject} ") or f"; {subject} has the highest rate" in text
        return "" if sound and says in text else f'does not say "{subject} ... {says}"'
    if topic == "slower":
        all_slower = all(claim["word"] == "slower" for claim in claims)
        sound = text.startswith(f"Slower than {first['baseline']}:") and all_slower
        return "" if sound else "names cells that are not shown to be slower"
    if topic == "one-device":
        return _wrong_against_one_device(text, claims)
    if topic == "recommended":
        patterns = {
            "recommended": rf"Recommended: {re.escape(subject)}\b(?!.*not confirmed)",
            "undecided": ".*(not confirmed|none yet)",
        }
        return "" if re.match(patterns.get(word, ".*none;"), text) else f"is not what {first['id']} ({word}) supports"
    phrases = {
        "faster": "is faster",
        "slower": "is slower",
        "undecided": "cannot be told apart",
        "unclaimed": "nothing is claimed",
        "within-noise": "within the noise: nothing is claimed",
    }
    if topic in ("scaling", "pairs", "comparison") and phrases.get(word, "") not in text:
        return f"does not say that {subject} {phrases[word]}"
    return ""


def _wrong_against_one_device(text: str, claims: Sequence[Claim]) -> str:
    """Return which cells are wrongly called faster, slower or undecided; "" where none is.

    The sentence is as "Against one device: a at 1.5x (1.4-1.6) is faster; b at 0.9x (0.8-1.1) is undecided".
    """
    for part in text.partition(": ")[2].split("; "):
        verb = re.search(r" (?:are|is) (faster|undecided|slower)\b", part)
        if verb is None:
            continue
        wrong = [claim["subject"] for claim in claims if _names(claim, part) and claim["word"] != verb[1]]
        if wrong:
            return f"says {verb[1]} of {', '.join(wrong)}"
    return ""


def _names(claim: Claim, text: str) -> bool:
    """Return whether a text states the ratio to one device that a claim is about."""
    subject = re.escape(claim["subject"])
    return claim["kind"] == "one-device" and re.search(rf"(?<![\w-]){subject} at ", text) is not None


def _verdict(claim: Claim) -> str:
    """Return the pattern of the verdicts that a claim supports."""
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
    if kind == "pairs":
        return rf"{subject} is {word} than {base}[:,] " if word in ("faster", "slower") else "No clear winner yet: "
    return {"faster": ".* pays off: ", "slower": "No: .* is slower "}.get(word, "No clear ")
