"""Sentences that state a figure: "3.4x on 4 GPUs", "71 % faster".

What a figure is about is not decided here: the numbers of devices and the words that stand in its sentence go with
it, and the audit matches them with runs and rows. A figure whose kind the sentence does not name is left alone.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from scaleproof.auditor.read.printed_figures import (
    DEVICE,
    NUMBER,
    TIME_IN_PARTS,
    Unit,
    duration,
    number,
    plain_text,
    unit_of,
)
from scaleproof.auditor.read.reported import StatedFigure, StatedKind
from scaleproof.auditor.read.reported_tables import resolution_of
from scaleproof.auditor.read.words import DEVICES, describe, integer_of

Prose = list[tuple[int, str, tuple[str, ...]]]
N = rf"(?P<n>{NUMBER})"
RANGE = rf"(?:(?P<low>{NUMBER}) ?(?:[-–—]|to) ?)?{N}"  # of a figure that has a unit: "19–21 ms"
RANGE_OF_TIMES = r"(?:(?P<low>\d+\.\d+) ?[x×]? ?(?:[-–—]|to) ?)?"  # "1.3x–1.5x"
ANY_DEVICE = rf"(?:{DEVICE}|{DEVICES})"
SCALING = r"(?:strong|weak|linear|scaling|parallel|parallelization)"
FASTER = (
    r"faster|speed-?up|quicker|acceleration|higher throughput|more throughput|throughput improvement|the throughput"
)
NEAR = r"on|with|using|across|at|for"
TIMED = r"(?:epoch|step|iteration|training|total|wall|wall-clock|run)"
TIMES = r"(?: ?[x×](?![a-z0-9])|-?fold| times)"
PERCENT = r" ?(?:%|percent|per cent)"
WAYS = (
    r"faster|slower|less|more|higher|lower|quicker|better|worse|reduction|improvement|increase|decrease|gain|drop|"
    r"speed-?up|saving|savings|cheaper"
)
VERBS = r"reduc\w+|improv\w+|increas\w+|decreas\w+|lower\w*|rais\w+|cut\w*|boost\w*|sav\w+|drop\w*|gain\w*|degrad\w+"
UNIT = r"(?P<u>(?:[kKM] ?)?[A-Za-zµ]+(?: ?(?:/|per) ?[A-Za-z]+){1,2})"
TIME_UNIT = r"(?P<u>ms|s|sec|secs|seconds|min|mins|minutes|h|hours?)\b"
COUNT = r"(?<![A-Za-z\d.])(?:\d{1,5}|a single|single|one|two|four|eight|sixteen)"
ON_COUNT = rf"(?:{NEAR}) {COUNT} {ANY_DEVICE}"
IS = r"(?: of| is| was|:| =| at| reached| reaches| to)? ?(?:only |about |~ ?|≈ ?|roughly |approximately |around )?"
# Kind, pattern; the first that matches at a place counts.
PATTERNS: tuple[tuple[StatedKind, str], ...] = (
    ("efficiency", rf"{N}{PERCENT} (?:{SCALING}[ -])*(?:scaling )?efficien(?:cy|t)"),
    ("efficiency", rf"(?:scaling|parallel|parallelization) efficiency(?: \([^)]*\))?{IS}{N}{PERCENT}"),
    ("efficiency", rf"\befficiency {ON_COUNT}{IS}{N}{PERCENT}"),
    ("efficiency", rf"{N}{PERCENT} of (?:the )?(?:linear|ideal|perfect)(?: scaling| speed-?up)?"),
    ("mfu", rf"{N}{PERCENT} of (?:the )?theoretical peak(?: FLOPS?)?(?! (?:\w+ )?bandwidth)"),
    ("mfu", rf"{N}{PERCENT} (?:MFU|model flops? utili[sz]ation)"),
    ("mfu", rf"(?:MFU|model flops? utili[sz]ation){IS}{N}{PERCENT}"),
    ("speedup", rf"{RANGE_OF_TIMES}{N}{TIMES} (?:\w+ )?(?:{FASTER})"),
    ("speedup", rf"speed-?ups?(?: factor)?(?: \([^)]*\))?{IS}{N}{TIMES}"),
    ("speedup", rf"speed-?up {ON_COUNT}{IS}{N}(?:{TIMES}|(?![.,]?\d)(?=[.,;)]|$))"),
    ("speedup", rf"{N}{TIMES}(?= (?:{NEAR}) (?:\d+|two|four|eight|sixteen) ?(?:[x×] ?)?{ANY_DEVICE})"),
    ("speedup", rf"{N}{TIMES}(?:(?=,? (?:and|vs\.?|to) [~]?{NUMBER}{TIMES} (?:\w+ )?speed-?up))"),
    ("change", rf"(?P<sign>[+−-]?){N}{PERCENT} (?P<way>{WAYS})\b"),
    ("change", rf"(?P<way>{VERBS})(?: \w+){{0,5}} by {IS}(?P<sign>[+−-]?){N}{PERCENT}"),
    ("change", rf"(?P<way>throughput|tokens/s(?:ec)?|speed|performance)[^.;:%]{{0,30}}?(?P<sign>[+−]){N}{PERCENT}"),
    ("change", rf"(?P<way>throughput|tokens/s(?:ec)?|speed)\b.{{0,80}}?[≈=] ?(?P<sign>[+−-]){N}{PERCENT}"),
    ("change", rf"(?P<sign>[+]){N}{PERCENT}(?= (?P<way>throughput|tokens|speed|performance|by|through|from))"),
    ("share", rf"{N}{PERCENT} (?:of (?:the )?(?:(?:total|step|training|iteration|wall|epoch|gpu|run) ?)?time)"),
    ("memory", rf"(?:peak |gpu )*(?:memory|vram)(?: usage| consumption| footprint)?{IS}{N} ?(?P<u>[GMT]i?B)\b"),
    ("memory", rf"{N} ?(?P<u>[GMT]i?B)(?:/GPU| per GPU)? (?:of )?(?:peak )?(?:gpu )?(?:memory|vram)"),
    ("time", rf"{TIMED} times?(?: per (?:epoch|step))?{IS}{RANGE} ?{TIME_UNIT}"),
    ("time", rf"{RANGE} ?{TIME_UNIT} ?(?:/|per|an?) ?(?:epoch|step|iteration)"),
    (
        "time",
        rf"(?:took|takes|trained in|finish(?:ed|es) in|complete[ds]? in) "
        rf"(?:only |about |around |roughly |approximately |~ ?|≈ ?)?{N} ?{TIME_UNIT}",
    ),
    ("rate", rf"{RANGE} ?(?P<k>[kKM]?) ?{UNIT}\b(?! ?[:=] ?\d)"),  # not "loss: 2.5 tokens/s: 900"
)
_COMPILED = [(kind, re.compile(pattern, re.I)) for kind, pattern in PATTERNS]
# Without one of these a sentence has no figure of the kind; looking for them is fast.
_PERCENT_SIGNS = ("%", "percent", "per cent")
_NEEDED_BY_KIND: dict[StatedKind, tuple[str, ...]] = {
    **dict.fromkeys(("efficiency", "mfu", "change", "share"), _PERCENT_SIGNS),
    "speedup": ("x", "×", "fold", "times", "speed"),
    "rate": ("/", "per"),
    "memory": ("memory", "vram"),
}
_WITH_UNIT = ("rate", "time", "memory")
_REMARK_ON_TARGET = re.compile(r"\([^()]*\btarget[^()]*\)")  # beside what was measured
HYPOTHETICAL = re.compile(
    r"(?i)\b(?:expect\w*|ideal\w*|should|could|can|may|might|would|target\w*|goal|theoretical\w*|aim\w*|"
    r"projected?|estimat\w*|typical\w*|hope|potential\w*|usually|often|generally|if|recommend\w*|predict\w*|assum\w*|"
    r"e\.g\.|example|literature|paper)\b"
)
BOUNDS: tuple[tuple[re.Pattern[str], Literal["<", ">", "~"]], ...] = (
    (re.compile(r"(?i)(?:up to|at most|less than|below|under|max(?:imum)?(?: of)?|<|≤) ?$"), "<"),
    (re.compile(r"(?i)(?:more than|over|at least|above|exceeds?|greater than|>|≥) ?$"), ">"),
    (re.compile(r"(?i)(?:about|around|approximately|roughly|nearly|almost|~|≈|close to|some) ?$"), "~"),
)
_COUNT = COUNT.replace("(?:", "(")
_ON_DEVICES = re.compile(
    rf"(?i)(?:^\W*|\b(?:on|with|using|across|at|for|over|up to|scal(?:es?|ed|ing) to)(?: the| all)? )"
    rf"{_COUNT}[ -]?(?:[x×] ?)?(?:(?!\d)\w+ )?{ANY_DEVICE}"
)
_OVER_DEVICES = re.compile(
    rf"(?i)\b(?:vs\.?|versus|over|compared (?:to|with)|relative to|than(?: on| with)?)(?: the| a| using)? "
    rf"{_COUNT}(?:[ -]?(?:[x×] ?)?(?:(?!\d)\w+ )?{ANY_DEVICE}|(?<=than on one)(?=[.,;)]|$))"
)
_FROM_TO_DEVICES = re.compile(
    rf"(?i)\b(?:from )?{_COUNT} ?(?:(?:{DEVICE}) )?(?:to|→|->) ?{_COUNT} ?(?:\w+ )?(?:{DEVICE}|{DEVICES})"
)
_DEVICES_BEFORE = re.compile(
    rf"(?i){_COUNT}[ -]?(?:[x×] ?)?(?:{DEVICE}|{DEVICES})\)?"
    rf"(?::| =| -| –| takes?| needs?| (?:give|yield|bring|reach|achieve|deliver|provide|get)(?:s|es)? an?) ?[~≈]?$"
)
OF_DEVICE = re.compile(
    rf"(?i)(?:{DEVICES})(?: super)?(?: gpus?)?[ ,(]{{1,3}}(?:with an? )?$"
)  # "4070 Super GPU, 12 GB VRAM": it has
DIGIT = re.compile(r"\d")
# A paragraph without any of these states no figure that is understood.
WORD_OF_RESULT = re.compile(
    r"(?i)speed|fast|slow|effic|throughput|[x×%]|time|memory|vram|/s|per sec|mfu|flops|higher|lower|reduc|improv|"
    r"increas|epoch|step|[gm]i?b\b|\bms\b|took|takes|trained in|hours|minutes"
)
ITEM = re.compile(r"[-*#>+•✅]|\d{1,2}\. |\\item")  # how one of a list begins
# A line that belongs to no sentence: a heading, or a name with its figure ("Memory: 2.3 GB").
ALONE = re.compile(r"#{1,6} .*|[^:=]{2,60}[:=] ?[~≈]?[\d.,]+ ?[\w/%µ]{0,12}")
GOES_ON = re.compile(r"\(?(?:[a-z]+|\d+) [^:=]*$")  # the next line of a sentence
LONGEST_PARAGRAPH = 1200  # characters


@dataclass(slots=True)
class Paragraph:
    """Lines that belong together, and where each begins in the text."""

    text: str
    starts: list[tuple[int, int]]  # place in the text, line in the file
    sections: tuple[str, ...]

    def line_at(self, place: int) -> int:
        """Return the line of the file in which a place of the text stands."""
        return next((line for start, line in reversed(self.starts) if start <= place), self.starts[0][1])


def stated_figures(prose: Prose, file: str) -> list[StatedFigure]:
    """Return the figures that sentences state, in their order."""
    figures: list[StatedFigure] = []
    for paragraph in _paragraphs(prose):
        if not _may_state_figure(paragraph.text):
            continue
        is_hypothetical = bool(paragraph.sections and HYPOTHETICAL.search(paragraph.sections[-1]))
        for start, sentence in _sentences(paragraph.text):
            if _may_state_figure(sentence):
                figures += _figures_of_sentence(sentence, start, paragraph, file, is_hypothetical)
    return figures


def _may_state_figure(text: str) -> bool:
    return DIGIT.search(text) is not None and WORD_OF_RESULT.search(text) is not None


def _paragraphs(prose: Prose) -> Iterator[Paragraph]:
    """Yield lines of prose that belong together: up to a gap, the next item of a list, or LONGEST_PARAGRAPH."""
    current: Paragraph | None = None
    last_line = -2
    was_alone = was_heading = False
    for line, raw, sections in prose:
        text = plain_text(raw.strip())
        # What stands below "Results:", an item or a line behind a gap, belongs to it.
        is_announced = current is not None and current.text.endswith(":") and line <= last_line + 2
        is_alone = ALONE.fullmatch(raw.strip()) is not None
        if is_alone and current is not None and line == last_line + 1 and not was_alone and not raw.startswith("#"):
            is_alone = current.text.endswith((".", "!", "?", ";"))  # else it goes on: "the\nspeedup = 7.4x"
        if was_alone and not was_heading and GOES_ON.match(raw):
            was_alone = False  # "Speedup: 7.4x\non 8 GPUs."
        begins = not is_announced and (ITEM.match(raw.lstrip()) or line != last_line + 1 or is_alone or was_alone)
        if current is None or begins or len(current.text) > LONGEST_PARAGRAPH:
            if current is not None:
                yield current
            current = Paragraph(text, [(0, line)], sections)
        else:
            current.starts.append((len(current.text) + 1, line))
            current.text += " " + text
        last_line = line
        was_alone = is_alone
        was_heading = raw.startswith("#")
    if current is not None:
        yield current


def _sentences(text: str) -> Iterator[tuple[int, str]]:
    """Yield each sentence and where it starts: "A b. C" -> (0, "A b."), (4, " C"). A semicolon ends one, too."""
    start = 0
    # A full stop, "!" or "?" ends one behind a small letter, ")", "%" or "]", where a capital, "*", "(" or nothing
    # follows, or behind "GPU" a word. Behind a digit or one capital it may belong to a number or an abbreviation.
    for m in re.finditer(r"(?<=[a-z)%\]xs])[.!?](?= +[A-Z*(]|$)|(?<=[A-Z]{2})[.!?](?= +[A-Z][a-z])|; ", text):
        yield start, text[start : m.end()]
        start = m.end()
    yield start, text[start:]


def _figures_of_sentence(
    sentence: str, start: int, paragraph: Paragraph, file: str, is_hypothetical: bool
) -> Iterator[StatedFigure]:
    """Yield the figures of a sentence, which begins at `start` of its paragraph: "3.4x" of "3.4x on 4 GPUs"."""
    taken: list[tuple[int, int]] = []  # start and end of the figures so far
    lowered = sentence.lower()
    possible = {kind for kind, _ in PATTERNS if any(part in lowered for part in _NEEDED_BY_KIND.get(kind, ("",)))}
    for kind, pattern in _COMPILED:
        if kind not in possible:
            continue
        for m in pattern.finditer(sentence):
            low = m.groupdict().get("low")  # of a range: "19–21 ms"
            first, end = m.start("low" if low else "n"), m.end("n")
            overlaps = any(other_first < end and first < other_end for other_first, other_end in taken)
            is_part_of_number = (first and sentence[first - 1] in ".,0123456789–") or sentence[end : end + 1] == "–"
            if overlaps or is_part_of_number or (not low and _is_end_of_range(sentence, m)):
                continue

            figure = _figure_of_match(kind, m, sentence)
            if figure is None:
                continue
            taken.append((first, end))
            figure.file, figure.line = file, paragraph.line_at(start + first)
            measured = _REMARK_ON_TARGET.sub("", sentence)
            figure.hypothetical = is_hypothetical or HYPOTHETICAL.search(measured) is not None
            yield figure


def _is_end_of_range(sentence: str, m: re.Match[str]) -> bool:
    """Whether a figure is the end of a range or a spread: "5-10 %", "3-4x", "8.45 ± 1.68 tok/s"."""
    start = m.start("sign") if m.groupdict().get("sign") else m.start("n")
    before = sentence[max(0, start - 3) : start].rstrip()
    return bool(re.search(r"\d[-–~]?$|±$", before)) or bool(re.match(r"\s?[-–]\s?\d", sentence[m.end("n") :]))


def _figure_of_match(kind: StatedKind, m: re.Match[str], sentence: str) -> StatedFigure | None:
    """Return the figure of a match of PATTERNS, without file and line: 0.71 of "71 % faster". Else None."""
    groups = m.groupdict()  # n: the number; of some kinds also low (of a range), sign, u (unit), k (its magnitude)
    value = number(m["n"])
    if value is None or (kind == "speedup" and not 0 < value < 10_000):
        return None
    if kind == "memory" and OF_DEVICE.search(sentence[: m.start("n")]):
        return None
    unit = Unit("times", 1.0) if kind == "speedup" else Unit("percent", 0.01)
    if kind in _WITH_UNIT:
        printed_unit = unit_of((groups.get("k") or "") + re.sub(r" ?per ?", "/", groups["u"]))
        # A value is below 0 by a hyphen: "GPT-2 350 tokens/s".
        if printed_unit is None or kind != printed_unit.dimension or value <= 0:
            return None
        unit = printed_unit
    scale = unit.scale
    resolution = resolution_of(m["n"])
    if groups.get("low"):
        low = number(groups["low"])
        if low is None or not 0 < low < value:
            return None
        resolution += (value - low) / 2
        value = (low + value) / 2  # of a range the middle
    sign = -1.0 if groups.get("sign") in ("-", "−") else 1.0
    printed = m[0].strip()[:80]
    parts = TIME_IN_PARTS.match(sentence, m.start("n")) if kind == "time" else None
    is_word = parts is not None and sentence[parts.end() : parts.end() + 1].isalpha()  # "2 h 4 machines"
    if parts and not is_word and (whole := duration(parts[0].strip())):  # "39min 24s"
        value = whole.value
        scale = 1.0
        resolution = whole.resolution
        printed += sentence[m.end() : parts.end()].rstrip()

    figure = StatedFigure(kind, sign * value * scale, printed, resolution * scale, sentence.strip()[:400], "", 0)
    figure.position = m.start("n") - (len(sentence) - len(sentence.lstrip()))  # in the stripped sentence
    before = sentence[max(0, m.start("n") - 20) : m.start("n")]
    figure.bound = next((bound for pattern, bound in BOUNDS if pattern.search(before)), None)
    _set_devices(figure, sentence, m.start("n"), m.end("n"))
    figure.words = dict(describe(sentence[:400]).words)  # a copy: `describe` remembers its results
    if figure.over_devices == 1 and figure.words.get("strategy") == "single":
        del figure.words["strategy"]  # "over a single GPU"
    return figure


def _set_devices(figure: StatedFigure, sentence: str, start: int, end: int) -> None:
    """Set the devices of a figure and of its baseline from its sentence, where the figure stands at [start:end].

    Those before the figure count ("4 GPUs: 3.4x"), else the first behind it ("3.4x on 4 GPUs"), else the only ones.
    With some on both sides these must be of the figure's clause: of "on 2 GPUs it is 1.9x, on 4 GPUs 3.7x" none is.
    """
    if m := _FROM_TO_DEVICES.search(sentence):
        figure.over_devices, figure.devices = integer_of(m[1]), integer_of(m[2])
        return

    over = _OVER_DEVICES.search(sentence)
    if over:
        figure.over_devices = integer_of(over[1])
    if m := _DEVICES_BEFORE.search(sentence[:start]):
        figure.devices = integer_of(m[1])
        return
    # "5.6x faster than on one GPU": these devices are the baseline's.
    places = [m for m in _ON_DEVICES.finditer(sentence) if over is None or m.end(1) != over.end(1)]
    behind = [m for m in places if m.start() >= end]
    anywhere = {integer_of(m[1]) for m in places} - {figure.over_devices}
    if behind and (len(behind) == len(places) or "," not in sentence[end : behind[0].start()]):
        figure.devices = integer_of(behind[0][1])
    elif len(anywhere) == 1:
        figure.devices = anywhere.pop()
