"""Steps that a program counts aloud, timed by the launcher: for logs in which no time and no rate is understood."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from scaleproof.ground.records.evidence import WorkUnit

# Two numbers, with the word in front of them if there is a word: "[ 640/3000", "step 5/14".
PAIR = re.compile(r"(?:\b([A-Za-z]+)\W{0,3})?(?<![\d.])(\d+) ?/ *(\d+)(?![\d.])")
NAMED = re.compile(r"(?i)\b(step|iter|it|iteration|batch|update|epoch)s?[\"']?\W{0,3}(\d+)(?![\d.])")
LEADING = re.compile(r"\W*()(\d+)(?![\w.])")  # "58 | loss 5.5638"; group 1, the word, is empty
# What a bar counts stands in its rate: "8/36 [00:07<00:27,  1.01img/s".
BAR = re.compile(r"\[\d+:\d\d<[^\]]*?(?:[\d.?]([A-Za-z]+)/s|s/([A-Za-z]+))\b")
BARE_BAR_WORDS = "it"  # a bar without a description has this word alone; others may be of preparing, or of loading
LOSS = re.compile(r"(?i)loss\w*[\"']?(?: ?\(\w+\))?\W{0,3}(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?|nan\b|inf\b)")
WORD = re.compile(r"[A-Za-z]{2,}")
OF_TRAINING = re.compile(r"(?i)\b(?:epoch|step|iter|iteration|batch)(?:e?s)?\b")
NOT_TRAINING = re.compile(r"(?i)\W*(?:test|val|valid|validation|validating|eval|evaluat\w*|sanity)\b|.*\bexamples/s")
NOT_FINITE = {"nan", "inf"}
FEWEST = 3  # lines
FEWEST_WORDLESS = 10  # lines without a word
MOST_PAIRS = 3  # pairs of numbers that are looked for in a line
# Unit -> how words for it begin. A number without such a word counts items, whatever these are.
UNIT_WORDS: dict[WorkUnit, tuple[str, ...]] = {
    "steps": ("step", "iter", "it ", "update"),
    "batches": ("batch",),
    "epochs": ("epoch",),
    "samples": ("sample", "example", "image", "img"),
}


class Count(NamedTuple):
    """What a line counts: "step 3/100" has come to number 3, and counts to 100, if the line says so, in steps."""

    number: int
    counts_to: int | None
    unit: WorkUnit


Counts = list[tuple[int, Count]]  # (place of a line in the log, what the line counts)
NumberedLines = list[tuple[int, str]]  # (place of a line in the log, its text)


@dataclass(frozen=True)
class Progress:
    """What was counted between lines: `amounts` of `unit`, their `seconds`, and the later line's loss."""

    unit: WorkUnit
    amounts: list[int]
    seconds: list[float]
    losses: list[float | None]
    counts_to: int | None


def find_progress(lines: Sequence[str], arrivals: Sequence[float]) -> Progress | None:
    """Return the progress of the training that `lines`, received at `arrivals`, print. None where they count nothing.

    Lines that differ in numbers alone are one series. The training's series is the longest one of the first kind that
    exists: lines with a loss; lines that speak of steps; bars without a description; lines without a word, whose first
    number rises evenly ("499 2.85e-08").
    """
    series = _series_by_words(lines[: len(arrivals)])
    bare_bars = {BARE_BAR_WORDS: series[BARE_BAR_WORDS]}  # the lines whose only word is that of "it/s"
    for line_kind, series_of_kind in ((LOSS, series), (OF_TRAINING, series), (BAR, bare_bars)):
        if counts := _longest_counts(line_kind, series_of_kind):
            losses = {place: float(loss[1]) for place, _ in counts if (loss := LOSS.search(lines[place]))}
            return progress_between(counts, losses, arrivals)

    wordless = [(place, line) for place, line in series[""] if LEADING.match(line)]
    counts = _find_counts(wordless) if len(wordless) >= FEWEST_WORDLESS else None
    if counts and len({after.number - before.number for (_, before), (_, after) in pairwise(counts)}) == 1:
        return progress_between(counts, {}, arrivals)
    return None


def _series_by_words(lines: Sequence[str]) -> defaultdict[str, NumberedLines]:
    """Group the lines with numbers by their words, without lines of evaluation: words -> lines."""
    series: defaultdict[str, NumberedLines] = defaultdict(list)
    for place, line in enumerate(lines):
        if any(map(str.isdigit, line)) and not NOT_TRAINING.match(line):
            words = " ".join(word for word in WORD.findall(line) if word not in NOT_FINITE)
            series[words].append((place, line))
    return series


def _longest_counts(line_kind: re.Pattern[str], series: Mapping[str, NumberedLines]) -> Counts | None:
    """Return the counts of the longest series whose first line matches `line_kind`. Returns None where none counts."""
    best: Counts | None = None
    for numbered_lines in series.values():
        if len(numbered_lines) < FEWEST or not line_kind.search(numbered_lines[0][1]):  # too short, or another kind
            continue
        counts = _find_counts(numbered_lines)
        if counts and (best is None or _count_rises(counts) > _count_rises(best)):
            best = counts
    return best


def _find_counts(numbered_lines: NumberedLines) -> Counts | None:
    """Return the counts of lines with the same words: the number in all of them that rises most often.

    Returns None where it rises less than FEWEST - 1 times, or falls more often than it rises.
    """
    finders: list[Callable[[str], Count | None]] = [partial(_find_pair, index=k) for k in range(MOST_PAIRS)]
    finders += [partial(_find_number, pattern=NAMED.search), partial(_find_number, pattern=LEADING.match)]
    candidates: list[Counts] = []
    for find in finders:
        counts = [(place, count) for place, line in numbered_lines if (count := find(line))]
        if len(counts) == len(numbered_lines):
            # Two series with the same words may count to different numbers: the longer series is kept.
            (commonest, _), *_ = Counter(count.counts_to for _, count in counts).most_common()
            candidates.append([(place, count) for place, count in counts if count.counts_to == commonest])

    best = max(candidates, key=_count_rises, default=[])
    falls = sum(after.number < before.number for (_, before), (_, after) in pairwise(best))
    return best if _count_rises(best) >= max(FEWEST - 1, falls) else None


def _count_rises(counts: Counts) -> int:
    """Return how often a number is larger than the number before it."""
    return sum(after.number > before.number for (_, before), (_, after) in pairwise(counts))


def _find_pair(line: str, index: int) -> Count | None:
    """Return the count in a pair of `line`: "step 3/100" counts steps up to 100. None where there is no such pair."""
    pairs = PAIR.findall(line)
    if len(pairs) <= index:
        return None
    word, number, counts_to = pairs[index]
    if int(number) > int(counts_to):
        return None
    if bar := BAR.search(line):
        word = bar[1] or bar[2]  # of images/s, or of s/image
        word = "" if word == "it" else word  # "it/s" may be of anything: items, not iterations
    return Count(int(number), int(counts_to), _unit_of_word(word))


def _find_number(line: str, pattern: Callable[[str], re.Match[str] | None]) -> Count | None:
    """Return the count in the number that `pattern` finds in `line`. Returns None where it finds none."""
    match = pattern(line)
    return Count(number=int(match[2]), counts_to=None, unit=_unit_of_word(match[1])) if match else None


def _unit_of_word(word: str) -> WorkUnit:
    """Return the unit of a count by the word before it: "items" if the word is unknown or empty."""
    units = (unit for unit, beginnings in UNIT_WORDS.items() if f"{word.lower()} ".startswith(beginnings))
    return next(units, "items")


def progress_between(counts: Counts, losses: Mapping[int, float | None], arrivals: Sequence[float]) -> Progress:
    """Return the progress from each line to the next line with a larger number.

    `losses`: place of a line -> its loss; `arrivals`: when each line came. Where the number falls a new epoch has
    begun: the time between these two lines is left out.
    """
    (place_before, first), *others = counts
    number_before = first.number
    progress = Progress(unit=first.unit, amounts=[], seconds=[], losses=[], counts_to=first.counts_to)
    for place, count in others:
        if count.number == number_before:  # another rank's line, or the same line once more
            continue
        if count.number > number_before:
            progress.amounts.append(count.number - number_before)
            progress.seconds.append(arrivals[place] - arrivals[place_before])
            progress.losses.append(losses.get(place))
        place_before, number_before = place, count.number
    return progress
