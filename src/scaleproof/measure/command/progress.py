"""Steps that a program counts aloud, timed by the launcher: for logs in which no time and no rate is understood."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from scaleproof.ground.records.evidence import WorkUnit

# With the word in front of it, if there is one: "[ 640/3000", "step 5/14".
PAIR = re.compile(r"(?:\b([A-Za-z]+)\W{0,3})?(?<![\d.])(\d+) ?/ *(\d+)(?![\d.])")
NAMED = re.compile(r"(?i)\b(step|iter|iteration|batch|update|epoch)s?[\"']?\W{0,3}(\d+)(?![\d.])")
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

# The number that a line has counted to, the one it counts to, if it says so, and of what; None without any.
Count = tuple[int, int | None, WorkUnit] | None


@dataclass(frozen=True)
class Progress:
    """What was counted from one line to the next: `amounts` of `unit`, their `seconds`, and the later line's loss."""

    unit: WorkUnit
    amounts: list[int]
    seconds: list[float]
    losses: list[float | None]
    counts_to: int | None


def progress(lines: Sequence[str], arrivals: Sequence[float]) -> Progress | None:
    """The progress that `lines` tell, which the launcher received at `arrivals`; None where they count nothing.

    Lines with the same words are one series; that of the training is the longest among those with a loss, else among
    those that speak of steps, else that of bars without a description, else that of bare numbers, where the first ones
    rise evenly ("499 2.85e-08"). Where the number falls, an epoch has begun: what was between is in no entry.
    """
    series: dict[str, list[int]] = defaultdict(list)  # words -> places of lines
    for place, line in enumerate(lines[: len(arrivals)]):
        if any(map(str.isdigit, line)) and not NOT_TRAINING.match(line):
            series[" ".join(word for word in WORD.findall(line) if word not in NOT_FINITE)].append(place)
    for is_training in (LOSS, OF_TRAINING, BAR):
        candidates = [
            counted
            for words, places in series.items()
            if len(places) >= FEWEST
            and is_training.search(lines[places[0]])
            and (is_training is not BAR or words == OF_A_BARE_BAR)
            and (counted := _counted([(place, lines[place]) for place in places]))
        ]
        if candidates:
            best = max(candidates, key=_rises)
            losses = {place: float(loss[1]) for place, *_ in best if (loss := LOSS.search(lines[place]))}
            return between(best, losses, arrivals)
    bare = [(place, lines[place]) for place in series[""] if LEADING.match(lines[place])]
    counted = _counted(bare) if len(bare) >= FEWEST_BARE else None
    if counted and len({after[1] - before[1] for before, after in pairwise(counted)}) == 1:
        return between(counted, {}, arrivals)
    return None


def _counted(numbered: Sequence[tuple[int, str]]) -> list[tuple[int, int, int | None, WorkUnit]] | None:
    """Return (place, number, number it counts to, unit) for each line, by the way of counting that rises most often."""
    ways: list[Callable[[str], Count]] = [partial(_pair, place=k) for k in range(MOST_PAIRS)]
    ways += [partial(_number, pattern=NAMED.search), partial(_number, pattern=LEADING.match)]
    counted = []
    for way in ways:
        counts = [(place, *count) for place, line in numbered if (count := way(line))]
        if len(counts) == len(numbered):
            # A second series in the same words counts to another number.
            (most, _), *_ = Counter(of for _, _, of, _ in counts).most_common()
            counted.append([count for count in counts if count[2] == most])
    best = max(counted, key=_rises, default=[])
    falls = sum(after[1] < before[1] for before, after in pairwise(best))
    return best if _rises(best) >= max(FEWEST - 1, falls) else None


def _rises(counts: Sequence[tuple[int, int, int | None, WorkUnit]]) -> int:
    """How often a number is larger than the one before it."""
    return sum(after[1] > before[1] for before, after in pairwise(counts))


def _pair(line: str, place: int) -> Count:
    """The pair "number/number" at `place` of `line`."""
    pairs = PAIR.findall(line)
    if len(pairs) <= place:
        return None
    word, number, of = pairs[place]
    if bar := BAR.search(line):
        word = bar[1] or bar[2]
        word = "" if word == "it" else word  # a bar's word for anything
    return (int(number), int(of), _unit(word)) if int(number) <= int(of) else None


def _number(line: str, pattern: Callable[[str], re.Match[str] | None]) -> Count:
    """The number that `pattern` finds in `line`."""
    match = pattern(line)
    return (int(match[2]), None, _unit(match[1])) if match else None


def _unit(word: str) -> WorkUnit:
    """What is counted by a number that stands behind `word`, which may be empty."""
    return next((unit for unit, begins in UNITS.items() if f"{word.lower()} ".startswith(begins)), "items")


def between(
    counts: Sequence[tuple[int, int, int | None, WorkUnit]],
    losses: Mapping[int, float | None],
    arrivals: Sequence[float],
) -> Progress:
    """Return what was counted between lines that follow each other in one epoch.

    `counts`: place of the line, number, number it counts to, unit. `losses`: of lines, by their places.
    """
    last, counted, counts_to, unit = counts[0]
    progress = Progress(unit, [], [], [], counts_to)
    for place, number, *_ in counts[1:]:
        if number == counted:  # another rank's line, or the same one once more
            continue
        if number > counted:
            progress.amounts.append(number - counted)
            progress.seconds.append(arrivals[place] - arrivals[last])
            progress.losses.append(losses.get(place))
        last, counted = place, number
    return progress
