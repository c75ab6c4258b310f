"""Kinds of figures with their units, and figures in cells and sentences: digits, magnitudes, spreads."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from scaleproof.auditor.read.reported_tables import LARGEST, Bound, resolution_of


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of figure, as tables have it."""

    printed_in: tuple[str, ...] = ()  # dimensions of the units that it may have
    is_result: bool = False  # a table without any of these is not one of results
    needs_unit: bool = False  # without a unit its ratios hold, the value itself does not
    is_whole: bool = False
    is_share: bool = False  # a fraction (0.71, never 71)


PLAIN = Kind()
COUNT = Kind(is_whole=True)
TIME = Kind(("time",), is_result=True, needs_unit=True)
PART_OF_TIME = Kind(("time", "percent"), is_result=True, needs_unit=True)
RATE = Kind(("rate",), is_result=True)
RATIO = Kind(("percent", "times"), is_result=True)
SHARE = Kind(("percent",), is_result=True, is_share=True)
# `batch`, `time_s` and `rate` are figures whose heading does not say which batch (per device or global), which time
# (step, epoch, total) or a rate of what is meant.
KINDS = {
    **dict.fromkeys(("devices", "nodes", "devices_per_node", "processes", "zero_stage", "repeats"), COUNT),
    **dict.fromkeys(("tensor_parallel", "pipeline_parallel"), COUNT),
    **dict.fromkeys(("batch", "micro_batch", "global_batch", "global_batch_tokens", "accumulation", "seq_len"), PLAIN),
    **dict.fromkeys(("steps", "epochs", "samples", "tokens", "parameters", "step", "epoch", "data_parallel"), PLAIN),
    **dict.fromkeys(("learning_rate", "gradient_norm", "loss", "val_loss", "perplexity"), PLAIN),
    **dict.fromkeys(("step_time_s", "epoch_time_s", "total_time_s", "time_s", "latency_s"), TIME),
    "device_time_s": Kind(("time",), is_result=True),
    **dict.fromkeys(("communication_time_s", "compute_time_s"), PART_OF_TIME),
    "data_time_s": Kind(("time", "percent"), needs_unit=True),
    **dict.fromkeys(("tokens_per_s", "samples_per_s", "steps_per_s"), RATE),
    "rate": Kind(("rate", "flops", "times"), is_result=True, needs_unit=True),
    **dict.fromkeys(("speedup", "change"), RATIO),
    "efficiency": Kind(("percent", "times"), is_result=True, is_share=True),
    **dict.fromkeys(("mfu", "hfu", "utilization", "communication_share"), SHARE),
    "memory_share": Kind(is_result=True, is_share=True),
    "accuracy": Kind(("percent",), is_share=True),
    "flops_per_s": Kind(("flops",), is_result=True, needs_unit=True),
    "memory_bytes": Kind(("memory", "percent"), is_result=True, needs_unit=True),
    "bandwidth_bytes_per_s": Kind(("bandwidth",), is_result=True, needs_unit=True),
    "power_w": Kind(("power",)),
    "energy_j": Kind(("energy",), needs_unit=True),
    "cost": Kind(("cost",)),
    "price_per_s": Kind(("price", "cost")),
    "cost_per_token": Kind(("token price",), needs_unit=True),
}
RESULTS = {name for name, kind in KINDS.items() if kind.is_result}
SHARES = [name for name, kind in KINDS.items() if kind.is_share]
# A unit that contradicts the heading decides: "124 s" below "Speed" is a time.
OTHER_KINDS = {("rate", "time"): "time_s", ("power_w", "energy"): "energy_j"}
# Kind of a figure by the dimension of its unit, where nothing else is known.
KINDS_OF_UNITS = {"time": "time_s", "rate": "rate", "memory": "memory_bytes", "flops": "flops_per_s"}
KINDS_OF_UNITS |= {"bandwidth": "bandwidth_bytes_per_s"}


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit as it is printed: what it measures, how large it is, and of what."""

    dimension: str  # time, rate, memory, flops, bandwidth, power, energy, cost, (token) price, percent or times
    scale: float  # printed number x scale = base unit
    item: str | None = None  # of rates: "tokens", "samples", "images", "steps", ...
    per_device: bool | None = None
    of: str | None = None  # of times: "step", "epoch", "device" (hours of all devices together)


TIMES = {
    1e-9: ("ns", "nanosecond", "nanoseconds"),
    1e-6: ("us", "µs", "μs", "usec", "microsecond", "microseconds"),
    1e-3: ("ms", "msec", "msecs", "millisecond", "milliseconds"),
    1.0: ("s", "sec", "secs", "second", "seconds"),
    60.0: ("min", "mins", "minute", "minutes", "m"),
    3600.0: ("h", "hr", "hrs", "hour", "hours"),
    86400.0: ("d", "day", "days"),
}
# "MB" is read as MiB: frameworks divide by 1024 and print MB.
MEMORIES = {
    1.0: ("b", "byte", "bytes"),
    2.0**10: ("kb", "kib"),
    2.0**20: ("mb", "mib", "megabytes"),
    2.0**30: ("gb", "gib", "g", "gigabytes"),
    2.0**40: ("tb", "tib"),
}
ITEMS = {
    "tokens": ("tokens", "token", "tok", "toks", "t", "tkn"),
    "samples": ("samples", "sample", "smp", "samp", "examples", "example", "ex", "records"),
    "images": ("images", "image", "img", "imgs", "im", "pictures", "frames"),
    "sequences": ("sequences", "sequence", "seq", "seqs", "sentences", "sent"),
    "steps": ("steps", "step", "iterations", "iteration", "iters", "iter", "it", "its", "batches", "batch", "updates"),
}
PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12, "p": 1e15}
# A table has one currency: which one it is changes no check.
CURRENCIES = ("$", "usd", "€", "eur", "euro", "euros", "£", "gbp", "chf", "¥", "cny", "rmb", "jpy", "₹", "inr")
MONEY = "$€£¥₹"  # signs that stand before a number
UNITS_BY_NAME = {
    "tgs": Unit("rate", 1.0, "tokens", True),
    "sps": Unit("rate", 1.0, "samples"),
    "gbps": Unit("bandwidth", 1e9 / 8),
    **{name: Unit("power", watts) for name, watts in (("kw", 1e3), ("milliwatts", 1e-3))},
    **dict.fromkeys(("/s", "/sec", "per second", "per sec"), Unit("rate", 1.0)),
    **dict.fromkeys(("tps", "wps"), Unit("rate", 1.0, "tokens")),
    **dict.fromkeys(("ips", "fps"), Unit("rate", 1.0, "images")),
    **dict.fromkeys(("%", "percent", "pct"), Unit("percent", 0.01)),
    **dict.fromkeys(("pp", "pts", "points"), Unit("points", 0.01)),
    **dict.fromkeys(("x", "×", "times"), Unit("times", 1.0)),
    **dict.fromkeys(("w", "watt", "watts"), Unit("power", 1.0)),
    **dict.fromkeys(CURRENCIES, Unit("cost", 1.0)),
}
_JOULES = {"j": 1.0, "kj": 1e3, "mj": 1e6, "wh": 3600.0, "kwh": 3.6e6, "mwh": 3.6e9}
UNITS_BY_NAME |= {name: Unit("energy", joules) for name, joules in _JOULES.items()}
DEVICE = r"(?:gpus?|devices?|accelerators?|cards?|chips?|ranks?|workers?|tpus?|npus?|hpus?|xpus?|gcds?|process(?:es)?)"
NAMED_DEVICE = r"(?:[abhlv]\d{2,3}[a-z]?|g[bh]200|gb300|t4|l4|mi\d{3}[ax]?)"  # "tokens/s per H100"
_TIME = {name: scale for scale, names in TIMES.items() for name in names}
UNITS_BY_NAME |= {name: Unit("time", seconds) for name, seconds in _TIME.items()}
UNITS_BY_NAME |= {name: Unit("memory", size) for size, names in MEMORIES.items() for name in names}
_ITEM = {name: item for item, names in ITEMS.items() for name in names}


def counted_item(text: str) -> str:
    """Return the item that a text names: "images" of "pictures". "" for other texts and short words, as "its"."""
    word = text.strip().lower()
    return _ITEM.get(word, "") if word.endswith("s") and len(word) > 4 else ""


def unit_of(text: str) -> Unit | None:
    """Return the unit that all of `text` is: "img/s", "s/epoch", "k tokens/sec/GPU"; None for any other text."""
    text = re.sub(r"\s+", " ", re.sub(r"\bmW\b", "milliwatts", text.strip()).strip(".,;:").lower())  # not "MW"
    text = text.replace("\\%", "%").replace("⋅", "/").replace("·", "/")
    if not text or len(text) > 40:
        return None
    bare, per_device = _without_device(text)
    for read_unit in (UNITS_BY_NAME.get, _flops, _rate, _time_per_step_or_epoch, _price):
        if unit := read_unit(bare):
            return replace(unit, per_device=per_device or unit.per_device)
    return None


def _without_device(text: str) -> tuple[str, bool | None]:
    """Return a unit without "/GPU" or "each": ("ms", True) of "ms/gpu", ("ms", None) of "ms"."""
    bare, count = re.subn(rf"\s*(?:/|\bper\b)\s*(?:{DEVICE}|{NAMED_DEVICE})(?![a-z0-9])|\s*\beach\b", "", text)
    return bare.strip(), True if count else None


def _flops(text: str) -> Unit | None:
    """Return a unit of FLOP/s, also without its "/s": "TFLOPS" -> x 1e12. None for others."""
    m = re.fullmatch(r"(|g|t|p|giga|tera|peta) ?(?:flops?(?:/s(?:ec)?)?|flop per second)", text)
    return Unit("flops", PREFIXES[m[1][:1]]) if m else None


def _rate(text: str) -> Unit | None:
    """Return a rate ("k tokens/s", "images/min") or a bandwidth ("GB/s"). None for other units."""
    patterns = (
        r"(k|m|b)? ?([a-z]+) ?(?:/|\bper\b) ?(s|secs?|seconds?|min|minutes?|h|hr|hours?|day)",
        r"(k|m|b)([a-z]{2,}) ?(?:/|\bper\b) ?(s|secs?|seconds?)",  # "ktok/s"
    )
    for pattern in patterns:
        if (m := re.fullmatch(pattern, text)) and m[2] in _ITEM:
            return Unit("rate", PREFIXES[m[1] or ""] / _TIME[m[3]], _ITEM[m[2]])
    m = re.fullmatch(r"(k|m|g|t)?i?b ?/ ?s(?:ec)?", text)
    return Unit("bandwidth", PREFIXES[m[1] or ""]) if m else None


def _time_per_step_or_epoch(text: str) -> Unit | None:
    """Return the time of a step or an epoch ("ms/step"), or of a device ("GPU-hours"); None for others ("s/img")."""
    m = re.fullmatch(r"([a-zµμ]+) ?(?:/|\bper\b) ?(step|iteration|iter|it|batch|epoch)", text)
    if m and m[1] in _TIME:
        return Unit("time", _TIME[m[1]], of="epoch" if m[2] == "epoch" else "step")
    m = re.fullmatch(rf"(?:{DEVICE}|{NAMED_DEVICE})[ /-]?(h|hrs?|hours?|days?)", text)
    return Unit("time", _TIME[m[1]], of="device") if m else None


_PAYMENTS = "|".join(map(re.escape, (*CURRENCIES, "price", "cost")))
_PRICE = re.compile(rf"(?:{_PAYMENTS})(?:(h|hr|hour)|(10*|)(|k|m|million|b|billion)(?:tok|tokens?))")


def _price(text: str) -> Unit | None:
    """Return the price of an hour ("$/hr", "EUR per hour") or of tokens ("$ per 1M tokens"). None for other units."""
    m = _PRICE.fullmatch(re.sub(r"\bper\b|[/ -]", "", text))
    if m is None:
        return None
    return Unit("price", 1 / _TIME["h"]) if m[1] else Unit("token price", 1 / int(m[2] or 1) / PREFIXES[m[3][:1]])


NUMBER = r"[-+−]?(?:\d{1,3}(?:[,'’ \u202f\u00a0]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d{1,3})?"
EUROPEAN = r"[-+−]?(?:\d{1,3}(?:\.\d{3})+(?:,\d+)?|\d+(?:,\d+)?)"
# "12,5" and "1.234,5" are no English figures; "1,234.5" and "1.25" are no continental ones.
CLEARLY_EUROPEAN = re.compile(r"\b0,\d+|(?<!\d)\d+(?:\.\d{3})*,(?:\d{1,2}|\d{4,})(?!\d)|\d\.\d{3},\d|\d\.\d{3}\.\d{3}")
CLEARLY_ENGLISH = re.compile(r"\d,\d{3}\.\d|\d,\d{3},\d{3}|\d\.\d{1,2}(?!\d)|\d\.\d{4,}")
NO_VALUE = re.compile(r"[-–—−−./?*x ]*|n/?a|nan|none|null|tbd|todo|\?+|not (?:measured|run|tested|available).*", re.I)
MARKS_IN_NUMBERS = str.maketrans(dict.fromkeys(",'’ \u202f\u00a0") | {"−": "-"})
MARKUP = re.compile(r"[<&{\\$\[*_`~†‡¹²³⁴✅❌⚠⭐✓✔\ufe0f\U0001f300-\U0001faff↑↓\u00a0\u202f\t]|  ")
BOLD = r"\*\*(?!(?<=\d\*\*)\d)"  # "**8**", but not 10**6, which is a power
# Marks of footnotes ("[^1]", not "[ms]"), medals and ticks, and the arrow behind a figure: which way is better.
ORNAMENTS = re.compile(
    r"\[(?!(?:[munµ]?s|min|h|[KMGT]i?B)\])\^?\w{1,3}\]|[†‡✅❌⚠⭐✓✔\ufe0f\U0001f300-\U0001faff]|(?<=[\d%x×]) ?[↑↓]$|"
    r"(?<![⁰¹²³⁴⁵⁶⁷⁸⁹])[¹²³⁴](?![⁰¹²³⁴⁵⁶⁷⁸⁹])"
)
# In this order: "&amp;lt;" is "&lt;" as text.
ENTITIES = {"{,}": ",", "&nbsp;": " ", "&times;": "×", "&plusmn;": "±", "&lt;": "<", "&gt;": ">", "&amp;": "&"}
LATEX_SYMBOLS = {"\\times": "×", "\\pm": "±", "\\%": "%", "\\sim": "~", "\\approx": "~", "\\,": " ", "\\&": "&"}
LATEX_SYMBOLS |= {"\\_": "_", "\\#": "#", "\\mu": "µ", "\\uparrow": "", "\\downarrow": ""}
CLOCK_TIME = re.compile(r"(?:(\d{1,4}):)?(\d{1,2}):(\d{2}(?:\.\d+)?)")
TIME_IN_PARTS = re.compile(
    r"(?:(\d+) ?h(?:ours?|rs?)?)? ?(?:(\d+) ?m(?:in(?:ute)?s?)?)? ?(?:(\d+(?:\.\d+)?) ?s(?:ec(?:ond)?s?)?)?", re.I
)


@dataclass(frozen=True, slots=True)
class PrintedFigure:
    """A printed number with its unit; `value` is in the unit as printed, x `unit.scale` in the base unit."""

    value: float
    text: str
    resolution: float
    unit: Unit | None = None
    spread: float | None = None
    bound: Bound | None = None
    word: str = ""  # behind the unit: "faster", "less", "of peak"; what is counted: "tokens"


@lru_cache(maxsize=50_000)
def plain_text(cell: str) -> str:
    """Return a cell without the markup of Markdown, HTML and LaTeX: "**$2\\times$**<br>" -> "2×"."""
    if not MARKUP.search(cell):
        return cell.strip()
    text = re.sub(r"<br ?/?>", " ", cell)
    if "<" in text:
        text = re.sub(r"<(?:sup|sub)>[^<]{0,10}</(?:sup|sub)>", "", text)  # with its content: the mark of a footnote
        text = re.sub(r"</?[a-zA-Z][^<>]*>", "", text)  # of all other tags the content stays
    for entity, character in ENTITIES.items():
        text = text.replace(entity, character)
    if "\\" in text or "$" in text:
        text = _without_latex(text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)  # of a link or a picture its text
    text = re.sub(rf"{BOLD}|__|`|~~", "", ORNAMENTS.sub("", text))
    text = re.sub(r"(?<!\w)[*_](?! )(.+?)(?<! )[*_](?!\w)", r"\1", text)  # *italic*, but not tokens_per_s and 2 * 3 * 4
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
    if re.fullmatch(r"[^$]*\$[^$]*\$[^$]*", text):  # two enclose a formula; a single one is an amount
        text = text.replace("$", "")
    return text.replace("{", "").replace("}", "")


def is_european(cells: Sequence[str]) -> bool:
    """Whether the figures of a column have decimal commas: some clearly do, and none is clearly English."""
    return any(map(CLEARLY_EUROPEAN.search, cells)) and not any(map(CLEARLY_ENGLISH.search, cells))


def number(text: str) -> float | None:
    """Return the value of a printed number without magnitude and unit: "1,234.5" -> 1234.5. None where it is none."""
    try:
        value = float(text.strip().translate(MARKS_IN_NUMBERS))
    except ValueError:
        return None
    return value if abs(value) < LARGEST else None


def is_nothing(text: str) -> bool:
    """Whether a cell is empty, or says in some way that it is."""
    return NO_VALUE.fullmatch(text.strip()) is not None


def duration(text: str) -> PrintedFigure | None:
    """Return a time of several parts in seconds: "1h 23m" -> 4980, "1:02:03" -> 3723. None for any other text."""
    if m := CLOCK_TIME.fullmatch(text):
        resolution = resolution_of(m[3])
    elif (m := TIME_IN_PARTS.fullmatch(text)) and sum(part is not None for part in m.groups()) >= 2:
        resolution = resolution_of(m[3]) if m[3] else (60.0 if m[2] else 3600.0)
    else:
        return None

    hours, minutes, seconds = (float(part or 0) for part in m.groups())
    return PrintedFigure(3600 * hours + 60 * minutes + seconds, text, resolution, Unit("time", 1.0))


_SIGNS: dict[Bound, str] = {"~": "~ ≈ ∼", "<": "< ≤ <=", ">": "> ≥ >="}
_BOUND_OF_SIGN = {sign: bound for bound, signs in _SIGNS.items() for sign in signs.split()}
_TIMES_BEFORE = re.compile(r"^[x×] ?(\d+(?:\.\d+)?)(?=$| ?[(\[])")  # "x1.84"
_CELL_WITH_FIGURE = re.compile(
    rf"(?P<bound>[~≈∼<>≤≥]=?|)\s*(?P<money>[{MONEY}]?)\s*"
    rf"(?P<number>{NUMBER})\s?(?P<magnitude>[kKMBT](?![A-Za-z])|)"
    r"\s*(?P<unit>[^\d±()\[\]+,;:|]*?)\s*"
    rf"(?:(?:±|\+/-|\+-)\s*(?P<spread>{NUMBER})\s*(?P<unit_of_spread>[^\d()\[\],;|]*?))?\s*"
    rf"(?P<rest>[(\[].*|[,;]\s.*|(?<=[a-z] ){NUMBER} ?[A-Za-z].*)?"
)


@lru_cache(maxsize=100_000)
def figures_of(text: str, european: bool = False) -> list[PrintedFigure]:
    """Return the figures of a cell without markup: "1.2k img/s (3.4x)" -> 1200 images/s, 3.4 times.

    A second figure is taken only in brackets, with another unit than the first. The result is [] where the cell is not
    understood: a range ("1.4-1.5x"), two values with a slash, a sentence. `european`: the comma is the decimal one.
    """
    if not text or len(text) > 120 or is_nothing(text):
        return []
    if european:
        text = re.sub(EUROPEAN, lambda m: m[0].replace(".", "").replace(",", "."), text)
    if time := duration(text.strip()):
        return [time]

    m = _CELL_WITH_FIGURE.fullmatch(_TIMES_BEFORE.sub(r"\1x", text))
    first = _figure_of_match(m) if m else None
    if m is None or first is None:
        return []
    rest = m["rest"] or ""
    behind = _CELL_WITH_FIGURE.fullmatch(rest.strip("()[],; "))
    second = _figure_of_match(behind) if behind and not behind["rest"] else None
    has_other_unit = second is not None and second.unit is not None and second.unit != first.unit
    if rest[:1].isdigit():  # "36.1 samples/s 0.07 TFLOP/s" is the rate; "24m 13h18m", "3 days 4 hours" no figure
        dimensions = {figure.unit.dimension for figure in (first, second) if figure and figure.unit}
        return [first] if has_other_unit and len(dimensions) > 1 else []
    return [first, second] if second and has_other_unit else [first]


def _figure_of_match(m: re.Match[str]) -> PrintedFigure | None:
    """Return the figure of a match of _CELL_WITH_FIGURE: 1200 of "1.2k ± 0.1 img/s". None if its unit is unknown."""
    value = number(m["number"])
    if value is None:
        return None
    printed_unit = re.sub(r"^(?:x|×) (?=faster|slower|speed|higher|lower)", "x ", m["unit"].strip())
    unit, word = _unit_and_word(printed_unit or m["unit_of_spread"] or "", m["money"])
    if unit is None and printed_unit and not counted_item(printed_unit):
        return None

    magnitude = PREFIXES[m["magnitude"].lower()]
    spread = number(m["spread"] or "")
    return PrintedFigure(
        value=value * magnitude,
        text=m[0].strip(),
        resolution=resolution_of(m["number"]) * magnitude,
        unit=unit,
        spread=None if spread is None else abs(spread) * magnitude,
        bound=_BOUND_OF_SIGN.get(m["bound"]),
        word=word,
    )


_UNIT_AND_WORD = re.compile(
    r"(.*?)\s*\b(faster|slower|higher|lower|less|more|speed-?up|of peak|utili[sz]ation|v?ram|memory|"
    r"improvement|reduction|gain|savings?|increase|decrease)"
)


def _unit_and_word(text: str, money: str) -> tuple[Unit | None, str]:
    """Return the unit and the word behind a number: "% of peak" -> percent, "of peak". `money` is "$", "€" or ""."""
    if money:
        return Unit("cost", 1.0), ""
    m = _UNIT_AND_WORD.fullmatch(text)
    unit, word = m.groups() if m else (text, "")
    return unit_of(unit), word or counted_item(unit)
