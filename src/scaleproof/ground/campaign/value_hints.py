"""What is meant where a configuration file has a value that it cannot have: the word, number or list to write."""

import math
import operator
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from scaleproof.ground.campaign.hub_names import HUB_NAME, OF_FILES
from scaleproof.ground.campaign.schema_nodes import Schema, choices_at, node_at, properties_at, union_members
from scaleproof.ground.errors import Place, did_you_mean, nearest_name, shortened

PERCENT = r"^[0-9]+(\.[0-9]+)? ?%$"  # of question.Percent
NAMES = (r"^[a-z0-9][a-z0-9._-]*$", r"^[a-z0-9][a-z0-9-]*$")
NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?) ?([A-Za-z]*)")  # a quoted one, or with its unit
DECIMAL = re.compile(r"[0-9]+,[0-9]+")  # with the comma of other languages
THOUSANDS = re.compile(r"[1-9][0-9]{0,2}(?:,[0-9]{3})+")
PER_CENT = re.compile(r"([1-9][0-9]?(?:\.[0-9]+)?) ?(?:%|percent|per cent|pct)?")
LONGER_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(m|h)(?:in|inutes?|ours?)?")  # than seconds
RANGE = re.compile(r"([1-9][0-9]*) ?(?:-|to|\.\.) ?([1-9][0-9]*)")
CELL = re.compile(r"([a-z0-9]+(?:-offload)?)-n?([0-9]+x[0-9]+)")  # the name of one
FILE = re.compile(rf"^[./~]|\\|(?:{'|'.join(map(re.escape, OF_FILES))})$")  # how a path begins or ends
TRUTHS = dict.fromkeys(("on", "yes", "y", "true"), "true") | dict.fromkeys(("off", "no", "n", "false"), "false")
LIMITS = (
    ("minimum", ">=", operator.ge),
    ("exclusiveMinimum", ">", operator.gt),
    ("maximum", "<=", operator.le),
    ("exclusiveMaximum", "<", operator.lt),
)
OF_SINGLE_CELLS = ("cells", "exclude", "compare")  # sections that describe cells one by one
OF_CELLS = ("vary", *OF_SINGLE_CELLS)  # sections with the keys of several other sections


def valid_name(text: str) -> str:
    """Return a name of a campaign, corpus or comparison that resembles a text; "" if no letter of it is left."""
    plain = re.sub(r"[\u0300-\u036f]", "", unicodedata.normalize("NFKD", text.casefold()))  # letters without accents
    return re.sub(r"[^a-z0-9._-]", "-", plain[:60]).strip("-._")


def nearest_valid_name(text: str) -> str:
    """Return ` Write "my-notes".` for "My Notes"; "" if there is nothing to suggest."""
    name = valid_name(text)
    return f' Write "{name}".' if name and name != text else ""


def one_value_hint(place: Place, value: object, options: list[Schema], schema: Schema) -> str:
    """Return a hint at a key of one value: the nearest allowed word, or how to write the given list; else ""."""
    choices = [word for option in options for word in choices_at(option, schema)]
    if not isinstance(value, list):
        return (
            _number_hint(value, options, node_at(schema, place).get("unit", ""))
            or _truth_hint(value, options)
            or _own_text_hint(place, value)
            or _mapping_hint(value, options, schema)
            or _word_hint(value, options, choices)
        )
    if value and place[-1:] == ("command",):
        return f" Write {shortened(' '.join(map(str, value)))}."
    if not value or not all(_is_allowed(entry, options, choices) for entry in value):
        return _mapping_hint(value, options, schema) if value else ""
    if len(value) == 1:
        return f" Write {shortened(value[0], 40)}."
    if place[0] == "exclude":  # an entry matches one combination of values
        return f" Write an entry for each: [{', '.join(f'{{{place[-1]}: {one}}}' for one in value[:3])}]."
    if place[0] in OF_CELLS or place[-1] not in properties_at(schema, ("vary",)):  # nothing to move to `vary`
        return ""
    listed = shortened(", ".join(map(str, value)), 60)
    return f" Several values go under vary: {{{place[-1]}: [{listed}]}}."


def _number_hint(value: object, options: list[Schema], unit: str) -> str:
    """Return a hint for a number in quotes, with a unit (of the key: `unit`), comma or exponent; else ""."""
    text = unicodedata.normalize("NFKC", str(value)).strip("“”„‘’")  # as word processors and other keyboards write it
    minutes = _parse_minutes(text) if unit == "minutes" else None
    if minutes is not None and _is_allowed(minutes, options):
        return f" Write {minutes:g} (minutes)."
    if unit == "seconds" and (longer := LONGER_TIME.fullmatch(text)):
        return f" Write {float(longer[1]) * (60 if longer[2] == 'm' else 3600):g} (seconds)."
    if THOUSANDS.fullmatch(text):
        text = text.replace(",", "")
    elif DECIMAL.fullmatch(text):
        text = text.replace(",", ".")
    percent = PER_CENT.fullmatch(text)
    if percent and any(option.get("pattern") == PERCENT for option in options):
        return f" Write {percent[1]} %."
    if percent and unit.startswith("part of") and (isinstance(value, int) or percent[1] != text):
        return f" Write {float(percent[1]) / 100:g}."
    fraction = re.fullmatch(r"([0-9]+)/([1-9][0-9]*)", text)
    if fraction and _is_allowed(int(fraction[1]) / int(fraction[2]), options):
        return f" Write {int(fraction[1]) / int(fraction[2]):g}."
    match = NUMBER.fullmatch(text) if isinstance(value, str | float) else None
    if match is None or not any(word.startswith(match[2]) for word in ("", *unit.split())):  # 30s, 10 min
        return ""
    number = float(match[1])
    if math.isinf(number) or not _is_allowed(number, options):
        return ""
    return f" Write {int(number) if number.is_integer() else match[1]}."


def _parse_minutes(text: str) -> float | None:
    """Return the minutes of a time as schedulers write it: 30s, 2h, 1 day, 1:30:00, 1-12:00:00; else None."""
    if match := re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?(s|sec|seconds?|h|hours?|d|days?)", text):
        return float(match[1]) * {"s": 1 / 60, "h": 60, "d": 1440}[match[2][0]]
    if match := re.fullmatch(r"(?:([0-9]{1,3})-)?([0-9]{1,3}):([0-9]{2}):([0-9]{2})", text):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return days * 1440 + hours * 60 + minutes + seconds / 60
    return None


def _truth_hint(value: object, options: list[Schema]) -> str:
    """Return a hint for yes, on, "true" and the like, which YAML 1.2 takes for words, after a blank; else ""."""
    word = str(value).casefold()
    takes = any(option.get("type") == "boolean" for option in options)
    return f" Write {TRUTHS[word]}." if takes and word in TRUTHS else ""


def _own_text_hint(place: Place, value: object) -> str:
    """Return a hint for the path of a file in place of a corpus, after a blank; else ""."""
    if place[-1:] != ("corpus",) or not FILE.search(str(value)):
        return ""
    name = valid_name(Path(str(value)).name.partition(".")[0]) or "mine"
    source, file = "text", str(value)
    where, _, last = file.rpartition("/")
    if "://" in where:
        source, file = f"http, urls: [{where}], revision: v1, format: text", last
    row = f"{name}: {{source: {source}, files: [{shortened(file, 60)}]}}"
    return f" A file of your own is a row of config/corpora.yaml (docs/corpora.md): {row}; then corpus: {name}."


def _mapping_hint(value: object, options: list[Schema], schema: Schema) -> str:
    """Return a hint where one of several mappings is expected: which of the given keys do not go together; else ""."""
    mappings = [option["properties"] for option in options if option.get("properties")]
    if isinstance(value, dict) and mappings:
        known = max(([key for key in value if key in keys] for keys in mappings), key=len)
        strange = [str(key) for key in value if key not in known]
        return f" Beside {', '.join(known)} there is no {' or '.join(strange)}." if known and strange else ""
    if isinstance(value, int) and value > 1 and any("tokens" in keys for keys in mappings):  # the work of a step
        return f" Write {{tokens: {value}}}."
    rounds = RANGE.fullmatch(str(value))
    if rounds and 3 <= int(rounds[1]) < int(rounds[2]) and any("at_most" in keys for keys in mappings):
        return f" Write {{resolve: 3 %, at_least: {rounds[1]}, at_most: {rounds[2]}}}."
    # A word in place of a mapping: the name of a cell (ddp-n1x2), or the value of a key (ddp).
    if any("geometry" in keys for keys in mappings) and (cell := CELL.fullmatch(str(value))):
        return f" Write {{strategy: {cell[1]}, geometry: {cell[2]}}}."
    keys_by_word = {word: key for keys in mappings for key, node in keys.items() for word in choices_at(node, schema)}
    if isinstance(value, list):  # the values of one key, as of `vary`
        lists = [(key, option) for keys in mappings for key in keys for option in union_members(keys[key], schema)]
        meant = [key for key, one in lists if {*map(str, value)} <= {*choices_at(one.get("items", {}), schema)}]
        return f" Write {{{meant[0]}: [{', '.join(map(str, value))}]}}." if meant else ""
    word = str(value).casefold()
    word = word if word in keys_by_word else nearest_name(word, keys_by_word) or ""
    if word:
        return f" Write {{{keys_by_word[word]}: {word}}}."
    is_command = " " in str(value) and any("command" in keys for keys in mappings)
    return f" Write {{command: {shortened(value)}}}." if is_command else ""


def _word_hint(value: object, options: list[Schema], choices: list[str]) -> str:
    """Return a hint with the allowed word, example or name that `value` resembles, after a blank; else ""."""
    if isinstance(value, bool | dict | None):
        return ""
    text = str(value)
    if (cell := CELL.fullmatch(text)) and _is_allowed(cell[2], options, choices):
        return f" Write {cell[2]}."
    if any("hub" in option.get("properties", {}) for option in options) and HUB_NAME.fullmatch(text):
        return f" A model of the hub: scaleproof model fetch {value} prints what to write."
    several = re.split(r"[,; ]+", text)
    if len(several) > 1 and all(one in choices or _is_allowed(one, options, choices) for one in several):
        return f" Several stand apart: {', '.join(several)}."
    texts = [option for option in options if option.get("type") == "string"]
    could_be_name = isinstance(value, str) and "/" not in text and re.search(r"[a-z]", valid_name(text))
    is_name = could_be_name and any(option.get("pattern") in NAMES for option in texts)
    if is_name and "$" in text:
        return " Variables are not filled in: write the name itself."
    examples = [str(example) for option in texts for example in option.get("examples", [])]
    last_part = text.rpartition(".")[2].partition(":")[0]  # of torch.bfloat16, gpu:0
    hint = did_you_mean(value, [*choices, *examples])
    hint = hint or (did_you_mean(last_part, choices) if last_part.isalnum() else "")
    return hint or (nearest_valid_name(text) if is_name else "")


def list_hint(value: object, array: Schema, schema: Schema) -> str:
    """Return a hint where a list is expected: ` Write [ddp].` for a value without brackets; else ""."""
    if isinstance(value, list | None) or array.get("minItems", 0) > 1:
        return ""
    if isinstance(value, dict):
        of_mappings = any(option.get("type") == "object" for option in union_members(array.get("items", {}), schema))
        hint = " Each begins with a hyphen and a blank, or all stand in brackets: [{...}, {...}]."
        return hint if of_mappings else ""
    items = array.get("items", {})
    if hint := _mapping_hint(value, union_members(items, schema), schema):
        return f" Write [{hint.removeprefix(' Write ').removesuffix('.')}]."
    entries = re.split(r"[,;]? +|[,;]", value) if isinstance(value, str) else [value]  # "ddp, fsdp"
    would_fit = all(_is_allowed(entry, union_members(items, schema), choices_at(items, schema)) for entry in entries)
    return f" Write [{shortened(', '.join(map(str, entries)), 60)}]." if would_fit else ""


def _is_allowed(value: object, options: list[Schema], choices: Sequence[str] = ()) -> bool:
    """Return whether a text or number is one of `choices`, or fits type, pattern and limits of one of `options`."""
    if isinstance(value, str):
        patterns = [option.get("pattern", "") for option in options if option.get("type") == "string"]
        if choices:  # these are all that an option without a pattern allows
            patterns = [pattern for pattern in patterns if pattern]
        return value in choices or any(re.search(pattern, value) for pattern in patterns)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    kinds = ("integer", "number") if isinstance(value, int) or value.is_integer() else ("number",)
    numbers = [option for option in options if option.get("type") in kinds]
    return any(all(holds(value, option[name]) for name, _, holds in LIMITS if name in option) for option in numbers)
