"""Steps that a program counts aloud, timed by the launcher: for logs in which no time and no rate is understood."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from scaleproof.ground.records.evidence import WorkUnit

# With the word in front of it, if there is one: "[ 640/3000", "step 5/14".
PAIR = re.compile(r"(?:\b([A-Za-z]+)\W{0,3})?(?<![\d.])(\d+) ?/ *(\d+)(?![\d.])")
NAMED = re.compile(r"(?i)\b(step|iter|it|iteration|batch|update|epoch)s?[\"']?\W{0,3}(\d+)(?![\d.])")
LEADING = re.compile(r"\W*()(\d+)(?![\w.])")  # "58 | loss 5.5638"
# What a bar counts stands in its rate: "8/36 [00:07<00:27,  1.01img/s".
BAR = re.compile(r"\[\d+:\d\d<[^\]]*?(?:[\d.?]([A-Za-z]+)/s|s/([A-Za-z]+))\b")
OF_A_BARE_BAR = "it"  # all words of one without a description: others may be of preparing, or of loading
LOSS = re.compile(r"(?i)loss\w*[\"']?(?: ?\(\w+\))?\W{0,3}(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?|nan\b|inf\b)")
WORD = re.compile(r"[A-Za-z]{2,}")
OF_TRAINING = re.compile(r"(?i)\b(?:epoch|step|iter|iteration|batch)(?:e?s)?\b")
NOT_TRAINING = re.compile(r"(?i)\W*(?:test|val|valid|validation|validating|eval|evaluat\w*|sanity)\b|.*\bexamples/s")
NOT_FINITE = {"nan", "inf"}
FEWEST = 3  # lines
FEWEST_BARE = 10  # lines without a word
MOST_PAIRS = 3  # of a line that are looked at
# What is counted -> how words for it begin. A number without such a word counts items, whatever these are.
UNITS: dict[WorkUnit, tuple[str, ...]] = {
    "steps": ("step", "iter", "it ", "update"),
    "batches": ("batch",),
    "epochs": ("epoch",),
    "samples": ("sample", "example", "image", "img"),
}


class Count(NamedTuple):
    """What a line counts: the number it has come to, the one it counts to, if it says so, and of what."""

    number: int
    counts_to: int | None
    unit: WorkUnit


Counts = list[tuple[int, Count]]  # place of a line in the log, and what the line counts


@dataclass(frozen=True)
class Progress:
    """What was counted between lines: `amounts` of `unit`, their `seconds`, and the later line's loss."""

    unit: WorkUnit
    amounts: list[int]
    seconds: list[float]
    losses: list[float | None]
    counts_to: int | None


def find_progress(lines: Sequence[str], arrivals: Sequence[float]) -> Progress | None:
    """Return the progress of the training that `lines`, received at `arrivals`, print; None where they count nothing.

    Lines that differ in numbers alone are one series. The training's is the longest of the first kind that exists:
    lines with a loss; lines that speak of steps; bars without a description; lines without a word, whose first number
    rises evenly ("499 2.85e-08").
    """
    series: dict[str, list[tuple[int, str]]] = defaultdict(list)  # words -> place and text of each line with them
    for place, line in enumerate(lines[: len(arrivals)]):
        if any(map(str.isdigit, line)) and not NOT_TRAINING.match(line):
            words = " ".join(word for word in WORD.findall(line) if word not in NOT_FINITE)
            series[words].append((place, line))
    bare_bars = {OF_A_BARE_BAR: series[OF_A_BARE_BAR]}
    for kind, of_kind in ((LOSS, series), (OF_TRAINING, series), (BAR, bare_bars)):
        candidates = [
            _find_counts(numbered)
            for numbered in of_kind.values()
            if len(numbered) >= FEWEST and kind.search(numbered[0][1])
        ]
        best = max(filter(None, candidates), key=_count_rises, default=None)
        if best:
            losses = {place: float(loss[1]) for place, _ in best if (loss := LOSS.search(lines[place]))}
            return progress_between(best, losses, arrivals)
    wordless = [(place, line) for place, line in series[""] if LEADING.match(line)]
    counted = _find_counts(wordless) if len(wordless) >= FEWEST_BARE else None
    if counted and len({after.number - before.number for (_, before), (_, after) in pairwise(counted)}) == 1:
        return progress_between(counted, {}, arrivals)
    return None


def _find_counts(numbered: Sequence[tuple[int, str]]) -> Counts | None:
    """Return what lines with the same words count; None where their numbers rise too seldom, or fall more often.

    `numbered`: place and text of each line. The number may stand in several places: of those that all lines have, the
    one whose numbers rise most often counts.
    """
    ways: list[Callable[[str], Count | None]] = [partial(_find_pair, index=k) for k in range(MOST_PAIRS)]
    ways += [partial(_find_number, pattern=NAMED.search), partial(_find_number, pattern=LEADING.match)]
    candidates: list[Counts] = []
    for find in ways:
        counts = [(place, count) for place, line in numbered if (count := find(line))]
        if len(counts) == len(numbered):
            # Another series may have the same words, and count to another number: the longer one is kept.
            (most, _), *_ = Counter(count.counts_to for _, count in counts).most_common()
            candidates.append([(place, count) for place, count in counts if count.counts_to == most])
    best = max(candidates, key=_count_rises, default=[])
    falls = sum(after.number < before.number for (_, before), (_, after) in pairwise(best))
    return best if _count_rises(best) >= max(FEWEST - 1, falls) else None


def _count_rises(counts: Counts) -> int:
    """Return how often a number is larger than the one before it."""
    return sum(after.number > before.number for (_, before), (_, after) in pairwise(counts))


def _find_pair(line: str, index: int) -> Count | None:
    """Return what a pair such as "step 3/100" counts, the one with this `index` in `line`.

    None where the line has fewer pairs, or the first number is the larger one. In the line of a bar the unit is that of
    its rate, not the word before the pair.
    """
    pairs = PAIR.findall(line)
    if len(pairs) <= index:
        return None
    word, number, of = pairs[index]
    if bar := BAR.search(line):
        word = bar[1] or bar[2]  # of images/s, or of s/image
        word = "" if word == "it" else word  # a bar's word for anything
    return Count(int(number), int(of), _unit_of_word(word)) if int(number) <= int(of) else None


def _find_number(line: str, pattern: Callable[[str], re.Match[str] | None]) -> Count | None:
    """Return what `line` counts by the number that `pattern` finds; None without one."""
    match = pattern(line)
    return Count(int(match[2]), None, _unit_of_word(match[1])) if match else None


def _unit_of_word(word: str) -> WorkUnit:
    """Return the unit that a number counts by the word before it; "items" for other words, and for ""."""
    return next((unit for unit, begins in UNITS.items() if f"{word.lower()} ".startswith(begins)), "items")


def progress_between(counts: Counts, losses: Mapping[int, float | None], arrivals: Sequence[float]) -> Progress:
    """Return the progress from each line to the next one with a larger number. `losses`: place of a line -> its loss.

    Where the number falls a new epoch has begun, and what lies between the two lines is left out.
    """
    (last_place, first), *others = counts
    last_number = first.number
    progress = Progress(first.unit, [], [], [], first.counts_to)
    for place, (number, *_) in others:
        if number == last_number:  # another rank's line, or the same one once more
            continue
        if number > last_number:
            progress.amounts.append(number - last_number)
            progress.seconds.append(arrivals[place] - arrivals[last_place])
            progress.losses.append(losses.get(place))
        last_place, last_number = place, number
    return progress
