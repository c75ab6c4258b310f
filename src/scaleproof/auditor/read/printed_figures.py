"""Figures in cells and sentences: digits of several locales, magnitudes, units, spreads, remarks."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from scaleproof.auditor.read.reported_tables import Remark, resolution_of
from scaleproof.auditor.read.run_fields import LARGEST
from scaleproof.auditor.read.units import Unit, counted_item, unit_of

NUMBER = r"[-+−]?(?:\d{1,3}(?:[,'’ \u202f\u00a0]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d{1,3})?"
EUROPEAN = r"[-+−]?(?:\d{1,3}(?:\.\d{3})+(?:,\d+)?|\d+(?:,\d+)?)"
# "12,5" and "1.234,5" are no English figures; "1,234.5" and "1.25" are no continental ones.
CLEARLY_EUROPEAN = re.compile(r"\b0,\d+|\d+(?:\.\d{3})*,(?:\d{1,2}|\d{4,})(?!\d)|\d\.\d{3},\d|\d\.\d{3}\.\d{3}")
CLEARLY_ENGLISH = re.compile(r"\d,\d{3}\.\d|\d,\d{3},\d{3}|\d\.\d{1,2}(?!\d)|\d\.\d{4,}")
MAGNITUDES = {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}
NO_VALUE = re.compile(r"[-–—−−./?*x ]*|n/?a|nan|none|null|tbd|todo|\?+|not (?:measured|run|tested|available).*", re.I)
REMARKS: tuple[tuple[str, Remark], ...] = (
    (r"\boom\b|out.of.memory|显存溢出|显存不足|爆显存", "out of memory"),
    (r"\bproj(?:\.|ected|ection)?\b|\bextrapolat|\bforecast|\bpredicted\b|外推|推算", "projected"),
    (r"\btheoretical|\bideal\b|\blinear scaling\b|\bperfect scaling\b|理论|理想|理論|이론", "theoretical"),
    (
        r"\bestimat|\best\.|\bexpect(?:ed|ations?)\b|\btarget|\bgoal\b|\btypical\b|\bplaceholder|\bsimulated\b|"
        r"预计|预期|估计|估算|目标|推定|예상",
        "estimated",
    ),
    (r"\bfail(?:ed|s|ure)?\b|\bimpossible\b|\bcrash|\berror\b|\btimeout\b|\bdiverged\b|失败|실패", "failed"),
    (r"\btbd\b|\btodo\b|\bnot (?:yet )?(?:run|measured|tested)\b|\bpending\b", "not run"),
    (r"\bpaper\b|\bliterature\b|\bpublished (?:by|in)\b", "reference"),
)
NO_FIGURES: set[Remark] = {"out of memory", "failed", "not run"}
# Words that judge a result, or that count something: "Target Met", "as expected", "above the target", "8 targets".
_TARGET = r"(?:expected|expectations?|targets?|goals?|ideal|linear)"
VERDICT = re.compile(
    r"\b(?:as|than|of|on|above|below|beyond|within|under|over|meets?|met|hits?|reach(?:ed|es)?|exceed(?:ed|s)?|"
    rf"missed|misses|match(?:es|ed)?|achieved?|near|vs\.?|\d+)[ -](?:the |its |our |all )?{_TARGET}\b|"
    rf"\b{_TARGET} (?:is |was |not )?(?:met|reached|achieved|hit|exceeded|passed|missed|complete\w*)\b|"
    r"\bun?expected(?:ly)? |\btargets\b|\b(?:better|worse|faster|slower|lower|higher) than \w+\b"
)
MARKUP = re.compile(r"[<&\\$\[*_`~†‡¹²³⁴✅❌⚠️🚀⭐🏆🔥✓✔️\u00a0\u202f\t]|  ")
# In this order: "&amp;lt;" is "&lt;" as text.
ENTITIES = {"&nbsp;": " ", "&times;": "×", "&plusmn;": "±", "&lt;": "<", "&gt;": ">", "&amp;": "&"}
LATEX_SYMBOLS = {"\\times": "×", "\\pm": "±", "\\%": "%", "\\sim": "~", "\\approx": "~", "\\,": " ", "\\&": "&"}
LATEX_SYMBOLS |= {"\\_": "_", "\\#": "#", "\\mu": "µ", "\\uparrow": "", "\\downarrow": ""}
CLOCK_TIME = re.compile(r"(?:(\d{1,4}):)?(\d{1,2}):(\d{2}(?:\.\d+)?)")
TIME_IN_PARTS = re.compile(
    r"(?:(\d+) ?h(?:ours?|rs?)?)? ?(?:(\d+) ?m(?:in(?:ute)?s?)?)? ?(?:(\d+(?:\.\d+)?) ?s(?:ec(?:ond)?s?)?)?", re.I
)


@dataclass(slots=True)
class PrintedFigure:
    """A printed number with its unit; `value` is in the unit as printed, x `unit.scale` in the base unit."""

    value: float
    text: str
    resolution: float
    unit: Unit | None = None
    spread: float | None = None
    bound: str | None = None
    word: str = ""  # behind the unit: "faster", "less", "of peak"; what is counted: "tokens"


def plain_text(cell: str) -> str:
    """Return a cell without the markup of Markdown, HTML and LaTeX: "**$2\\times$**<br>" -> "2×"."""
    if not MARKUP.search(cell):
        return cell.strip()
    text = cell
    if "<" in text:
        text = re.sub(r"<br ?/?>", " ", text)
        text = re.sub(r"<(?:sup|sub)>[^<]{0,10}</(?:sup|sub)>", "", text)
        text = re.sub(r"</?[a-zA-Z][^<>]*>", "", text)
    if "&" in text:
        for entity, character in ENTITIES.items():
            text = text.replace(entity, character)
    if "\\" in text or "$" in text:
        text = _without_latex(text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\[\^?\w{1,3}\]|[†‡¹²³⁴✅❌⚠️🚀⭐🏆🔥✓✔️†‡]", "", text)
    text = text.replace("**", "").replace("__", "").replace("`", "").replace("~~", "")
    text = re.sub(r"(?<!\w)[*_](.+?)[*_](?!\w)", r"\1", text)
    return re.sub(r"[\s\u00a0\u202f]+", " ", text).strip().strip("*").strip()


def _without_latex(text: str) -> str:
    """Return a text without commands of LaTeX: "\\textbf{8 \\times 4}" -> "8 × 4"."""
    text = re.sub(
        r"\\(?:textbf|textit|emph|mathbf|text|mathrm|underline|texttt|num|makecell|textsc|bf|small|SI)\b", "", text
    )
    for command, character in LATEX_SYMBOLS.items():
        text = text.replace(command, character)
    text = re.sub(r"\\(?:rowcolor|cellcolor|cite\w*|ref|label|footnote\w*)(?:\[[^\]]*\])?\{[^}]*\}", "", text)
    text = re.sub(r"\\(?:textcolor|colorbox)(?:\[[^\]]*\])?\{[^}]*\}", "", text)
    text = re.sub(r"\\multi(?:column|row)\{[^}]*\}\{[^}]*\}", "", text)
    if re.fullmatch(r"[^$]*\$[^$]*\$[^$]*", text):
        text = text.replace("$", "")
    return text.replace("{", "").replace("}", "")


def is_european(cells: Iterable[str]) -> bool:
    """Whether the figures of a column have decimal commas: some clearly do, and none is clearly English."""
    cells = list(cells)
    return any(map(CLEARLY_EUROPEAN.search, cells)) and not any(map(CLEARLY_ENGLISH.search, cells))


def number(text: str, european: bool = False) -> float | None:
    """Return the value of a printed number without magnitude and unit: "1,234.5" -> 1234.5. None where it is none."""
    text = text.strip().replace("−", "-")
    if european:
        text = text.replace(".", "").replace(",", ".")
    try:
        value = float(re.sub(r"[,'’ \u202f\u00a0]", "", text))
    except ValueError:
        return None
    return value if abs(value) < LARGEST else None


def is_nothing(text: str) -> bool:
    """Whether a cell is empty, or says in some way that it is."""
    return NO_VALUE.fullmatch(text.strip()) is not None


def remarks_of(text: str) -> set[Remark]:
    """Return what a text says about itself: projected, estimated, failed, ..."""
    lowered = VERDICT.sub(" ", text.lower())
    return {remark for pattern, remark in REMARKS if re.search(pattern, lowered)}


def gave_no_figures(text: str) -> bool:
    """Whether a cell says that its configuration gave no figures: out of memory, failed, not run."""
    if not text or text[0].isdigit() or not (remarks := remarks_of(text) & NO_FIGURES):
        return False
    return "out of memory" in remarks or (len(text) < 40 and not re.search(r"(?i)\d|\b(?:no|without|none)\b", text))


def duration(text: str) -> PrintedFigure | None:
    """Return a time of several parts in seconds: "1h 23m" -> 4980, "1:02:03" -> 3723. None for any other text."""
    text = text.strip()
    if m := CLOCK_TIME.fullmatch(text):
        seconds = int(m[1] or 0) * 3600 + int(m[2]) * 60 + float(m[3])
        return PrintedFigure(seconds, text, resolution_of(m[3]), Unit("time", 1.0))
    if (m := TIME_IN_PARTS.fullmatch(text)) and sum(part is not None for part in m.groups()) >= 2:
        seconds = int(m[1] or 0) * 3600 + int(m[2] or 0) * 60 + float(m[3] or 0)
        last_part = 60.0 if m[2] else 3600.0  # without seconds
        resolution = resolution_of(m[3]) if m[3] else last_part
        return PrintedFigure(seconds, text, resolution, Unit("time", 1.0))
    return None


_BOUND_OF_SIGN = {"~": "~", "≈": "~", "∼": "~", "<": "<", "≤": "<", "<=": "<", ">": ">", "≥": ">", ">=": ">", "": None}
_CELL_WITH_FIGURE = re.compile(
    r"(?P<bound>[~≈∼<>≤≥]=?|)\s*(?P<money>\$?)\s*"
    rf"(?P<number>{NUMBER})\s?(?P<magnitude>[kKMBT](?![A-Za-z])|)"
    r"\s*(?P<unit>[^\d±()\[\]+,;:|]*?)\s*"
    rf"(?:(?:±|\+/-|\+-)\s*(?P<spread>{NUMBER})\s*(?P<unit_of_spread>[^\d()\[\],;|]*?))?\s*"
    r"(?P<rest>[(\[].*|[,;]\s.*)?"
)


def figures_of(text: str, european: bool = False) -> list[PrintedFigure]:
    """Return the figures of a cell without markup: "1.2k img/s (3.4x)" -> 1200 images/s, 3.4 times.

    A second one is taken only in brackets, with another unit than the first. [] where the cell is not understood: a
    range ("1.4-1.5x"), two values with a slash, a sentence. `european`: the comma is the decimal one.
    """
    if not text or len(text) > 120 or is_nothing(text):
        return []
    if european:
        text = re.sub(EUROPEAN, lambda m: m[0].replace(".", "").replace(",", "."), text)
    if time := duration(text):
        return [time]
    m = _CELL_WITH_FIGURE.fullmatch(text)
    first = _figure_of_match(m) if m else None
    if m is None or first is None:
        return []
    in_brackets = _CELL_WITH_FIGURE.fullmatch((m["rest"] or "").strip("()[],; "))
    second = _figure_of_match(in_brackets) if in_brackets and not in_brackets["rest"] else None
    return [first, second] if second and second.unit and second.unit != first.unit else [first]


def _figure_of_match(m: re.Match[str]) -> PrintedFigure | None:
    """Return the figure of a match of _CELL_WITH_FIGURE: 1200 of "1.2k ± 0.1 img/s"; None if its unit is unknown."""
    value = number(m["number"])
    if value is None:
        return None
    printed_unit = re.sub(r"^(?:x|×) (?=faster|slower|speed|higher|lower)", "x ", m["unit"].strip())
    unit, word = _unit_and_word(printed_unit or m["unit_of_spread"] or "", m["money"])
    if unit is None and printed_unit and not counted_item(printed_unit):
        return None
    magnitude = MAGNITUDES[m["magnitude"].lower()] if m["magnitude"] else 1.0
    spread = number(m["spread"]) if m["spread"] else None
    return PrintedFigure(
        value * magnitude,
        m[0].strip(),
        resolution_of(m["number"]) * magnitude,
        unit,
        None if spread is None else abs(spread) * magnitude,
        _BOUND_OF_SIGN.get(m["bound"]),
        word,
    )


_UNIT_AND_WORD = re.compile(
    r"(.*?)\s*\b(faster|slower|higher|lower|less|more|speed-?up|of peak|utili[sz]ation|v?ram|memory|"
    r"improvement|reduction|gain|savings?|increase|decrease)"
)


def _unit_and_word(text: str, money: str) -> tuple[Unit | None, str]:
    """Return the unit and the word behind a number: "% of peak" -> percent, "of peak". `money` is "$" or ""."""
    if money:
        return Unit("cost", 1.0), ""
    m = _UNIT_AND_WORD.fullmatch(text)
    unit, word = m.groups() if m else (text, "")
    return unit_of(unit), word or counted_item(unit)
