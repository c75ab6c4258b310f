"""The value that is meant by one that is not allowed: "10 min" is 10, "1 x 2" is 1x2, "on" is true."""

import re
from typing import Any

from scaleproof.ground.campaign.geometry import GEOMETRY
from scaleproof.ground.errors import nearest, shortened

Schema = dict[str, Any]  # a part of a JSON schema
PERCENT = r"^[0-9]+(\.[0-9]+)? ?%$"  # of question.Percent
NUMBER = re.compile(r"([0-9][0-9_,]*(?:\.[0-9]+)?(?:e-?[0-9]+)?) ?([a-z%]*)", re.IGNORECASE)
THOUSANDS = re.compile(r"[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]+)?")
SLUG = re.compile(r"([a-z0-9-]+)-n([0-9]+x[0-9]+)")  # of a cell: strategy and geometry
CLOCK = re.compile(r"(?:([0-9]+)-)?([0-9]+):([0-5][0-9])(?::([0-5][0-9]))?")  # [days-]hours:minutes[:seconds]
PAIR = re.compile(r"([0-9]+)\s*(?:[x×*:,/]|\s|by)\s*([0-9]+)", re.IGNORECASE)
PLAIN = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "%": 0.01, "percent": 0.01}
# Unit of a key -> what one of a suffix is in it.
SUFFIXES = {
    "minutes": {"s": 1 / 60, "sec": 1 / 60, "m": 1.0, "min": 1.0, "minutes": 1.0, "h": 60.0, "hours": 60.0, "d": 1440.0}
    | {"second": 1 / 60, "seconds": 1 / 60, "mins": 1.0, "hour": 60.0, "hrs": 60.0, "day": 1440.0, "days": 1440.0},
    "device": {"h": 1.0, "hour": 1.0, "hours": 1.0, "m": 1 / 60, "min": 1 / 60, "minutes": 1 / 60, "days": 24.0},
    "runs": {"times": 1.0, "x": 1.0, "run": 1.0, "repeats": 1.0, "repetitions": 1.0},
    "GB": {"m": 1e-3, "mb": 1e-3, "g": 1.0, "gb": 1.0, "gib": 2**30 / 1e9, "tb": 1e3},
}
NUMBER_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
WORDS_OF_TRUTH = dict.fromkeys(("on", "yes", "y", "true", "1"), "true")
WORDS_OF_TRUTH |= dict.fromkeys(("off", "no", "n", "false", "0"), "false")
LEAST, MOST = ("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")


def value_hint(value: object, options: list[Schema], choices: list[str], unit: str) -> str:
    """`Write 10 (minutes).` with a leading space; empty if nothing that is allowed resembles the value.

    `options`: what the schema takes there. `choices`: the words among it. `unit`: of a number, as the schema states it.
    """
    if isinstance(value, bool) or value is None:
        return ""
    if isinstance(value, str | int | float):
        for hint in (
            nearest(value, choices),
            _truth(value, options),
            _geometry(value, options),
            _percent(value, options),
            _number(value, options, unit),
            _text(value, options),
        ):
            if hint:
                return hint
    if isinstance(value, list):
        return _geometry(":".join(map(str, value)), options)
    return ""


def list_hint(value: object, of_mappings: bool) -> str:
    """How to write a list where something else stands, one `of_mappings` or of single values."""
    if isinstance(value, dict):
        return ' Put "- " before its first key: each entry of the list is a mapping.' if of_mappings else ""
    if isinstance(value, str) and re.match(r"-\w", value):
        return f" A dash needs a space after it: - {shortened(value[1:].split()[0], 40)}"
    return ""


def mapping_hint(value: object, choices: dict[str, list[str]]) -> str:
    """How to write what stands where a mapping is expected. `choices`: key of the mapping -> the words it takes."""
    if isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):
        return ' Leave out "- ": it is a mapping, not a list.'
    if not isinstance(value, str):
        return ""
    if match := re.match(r"([a-z_]+):(\S+)", value):
        return f" A colon needs a space after it: {match[1]}: {shortened(match[2], 40)}"
    if "geometry" in choices and (match := SLUG.fullmatch(value)) and match[1] in choices.get("strategy", []):
        return f" Write {{strategy: {match[1]}, geometry: {match[2]}}}."
    word = value.casefold()
    key = next((key for key, words in choices.items() if word in words), None)
    return f" Write {{{key}: {word}}}." if key else ""


def valid_name(text: str) -> str:
    """A name of a campaign, a corpus or a comparison that resembles a text; empty if no letter of it is left."""
    name = "".join(c if (c.isascii() and c.isalnum()) or c in "._-" else "-" for c in text.casefold()[:60])
    return name.strip("-._")


def _truth(value: object, options: list[Schema]) -> str:
    word = WORDS_OF_TRUTH.get(str(value).casefold())
    return f" Write {word}." if word and any(o.get("type") == "boolean" for o in options) else ""


def _geometry(value: object, options: list[Schema]) -> str:
    """`2` is two devices of one node; `1 x 2`, `1*2` and [1, 2] are what they look like."""
    if not any(option.get("pattern") == GEOMETRY for option in options):
        return ""
    text = re.sub(r"(?<=[0-9]) *(?:gpus?|devices?|processes)$", "", str(value).strip(), flags=re.IGNORECASE)
    pair = PAIR.fullmatch(text)
    meant = f"{pair[1]}x{pair[2]}" if pair else f"1x{text}"
    return f' Write "{meant}".' if re.search(GEOMETRY, meant) and meant != value else ""


def _percent(value: object, options: list[Schema]) -> str:
    match = NUMBER.fullmatch(str(value).strip())
    if not match or not any(option.get("pattern") == PERCENT for option in options):
        return ""
    if match[2].casefold() not in ("", "%", "percent", "pct"):
        return ""
    number = float(match[1].replace("_", "").replace(",", ".", 1).replace(",", ""))
    return f" Write {number:g} %." if number < 100 else ""


def _number(value: object, options: list[Schema], unit: str) -> str:
    """A number that is written with its unit, with separators, or as a float where a whole one is expected."""
    numbers = [option for option in options if option.get("type") in ("integer", "number")]
    if not numbers:
        return ""
    meant = _in_unit(str(value).strip(), unit)
    name = "" if unit in ("", "none") or "/" in unit else f" ({unit})"
    for option in numbers:
        if meant is not None and is_allowed(meant, option) and repr(meant) != repr(value):
            return f" Write {meant:.12g}{name}."
    is_with_unit = isinstance(value, str) and re.match(r"[0-9]+ *[a-z]", value, re.IGNORECASE)
    return f" The unit is {unit}." if is_with_unit and name else ""


def _in_unit(text: str, unit: str) -> float | None:
    """What a text such as `1,000`, `1k`, `8GB` or `01:30:00` is in the unit of its key."""
    if text.casefold() in NUMBER_WORDS:
        return NUMBER_WORDS.index(text.casefold())
    if unit == "minutes" and (clock := CLOCK.fullmatch(text)):
        return 1440 * int(clock[1] or 0) + 60 * int(clock[2]) + int(clock[3]) + int(clock[4] or 0) / 60
    match = NUMBER.fullmatch(text)
    factors = PLAIN | {unit.split(" ")[-1].casefold(): 1.0} | SUFFIXES.get(unit.partition(" ")[0], {})
    if not match or match[2].casefold() not in factors:
        return None
    if "," in match[1] and not THOUSANDS.fullmatch(match[1]):
        digits = match[1].replace(",", ".", 1)  # 0,001 as it is written in half of the world
    else:
        digits = re.sub("[_,]", "", match[1])
    try:
        number = float(digits) * factors[match[2].casefold()]
    except ValueError:
        return None
    return int(number) if number.is_integer() else number


def is_allowed(number: float, option: Schema) -> bool:
    """Whether a number is within the limits of an option."""
    if option["type"] == "integer" and not float(number).is_integer():
        return False
    least = number >= option.get(LEAST[0], number) and number > option.get(LEAST[1], number - 1)
    most = number <= option.get(MOST[0], number) and number < option.get(MOST[1], number + 1)
    return bool(least and most)


def _text(value: object, options: list[Schema]) -> str:
    """Text that another case, blank or hyphen makes right: " Python-Docs", "bpe2048", "10MB", "My Notes"."""
    texts = [o for o in options if o.get("type") == "string" and not {"enum", "const"} & set(o)]
    if not isinstance(value, str):
        fits = any(re.search(option.get("pattern", ""), str(value)) for option in texts)
        written = f': "{value}"' if isinstance(value, int) else ""  # of 3.10 the last digit is gone
        return f" Put it in quotes{written}." if fits else ""
    text = value.strip()
    lower = text.casefold()
    texts = [option for option in texts if option.get("pattern") not in (PERCENT, GEOMETRY)]  # which have their own
    examples = [str(example) for option in texts for example in option.get("examples", [])]
    if hint := nearest(text, examples):
        return hint
    candidates = [
        lower,
        re.sub(r"docs?$", "documents", lower),
        text.replace(" ", "") if "/" not in text else "",
        re.sub(r"(?<=[a-z])_?(?=[0-9])", "-", lower),
        re.sub(r"(?<=[0-9])(?=[A-Za-z])", " ", text.replace("iB", "B")),
        re.sub(r"^(?:https?://[^/]+/)?(?:datasets/)?+([^/]+/[^/]+).*", r"\1", text),
        valid_name(text) if "/" not in text else "",
    ]
    for meant in candidates:
        if meant != value and any("pattern" in o and re.search(o["pattern"], meant) for o in texts):
            return f' Write "{shortened(meant, 60)}".'
    return ""
