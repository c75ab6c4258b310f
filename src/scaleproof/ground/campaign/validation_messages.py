"""What is said of a fault in a configuration file: file, line, key, what is allowed, and the nearest name."""

import json
import math
import operator
import re
import unicodedata
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from scaleproof.ground.campaign.config import ENTRIES, TOKENIZER
from scaleproof.ground.campaign.corpora import BUDGET
from scaleproof.ground.campaign.geometry import GEOMETRY
from scaleproof.ground.campaign.hub_names import HUB_NAME, OF_FILES
from scaleproof.ground.campaign.schema_nodes import (
    Schema,
    choices_at,
    hint_to_named_section,
    node_at,
    properties_at,
    union_members,
)
from scaleproof.ground.errors import Place, did_you_mean, plural, same_name, shortened

PERCENT = r"^[0-9]+(\.[0-9]+)? ?%$"  # of question.Percent
# What a pattern of the schema means.
NAME_WORDS = 'lower-case letters, digits, ".", "_" and "-", beginning with a letter or digit'
NAMES = (r"^[a-z0-9][a-z0-9._-]*$", r"^[a-z0-9][a-z0-9-]*$")
PATTERNS = {
    r"^[a-z0-9][a-z0-9._-]*$": f"a name of {NAME_WORDS}",
    r"^[a-z0-9][a-z0-9-]*$": 'a name of lower-case letters, digits and "-"',
    r"^[A-Za-z0-9][A-Za-z0-9._-]*$": 'a name of letters, digits, ".", "_" and "-"',
    r"^[\w.-]+/[\w.-]+$": "owner/name",
    r"^[0-9a-f]{64}$": "64 hexadecimal digits",
    r"^[0-9a-f]{40}$": "a commit, 40 hexadecimal digits",
    r"^[^:]+\.py:[A-Za-z_][A-Za-z0-9_]*$": "file.py:function",
    r"^[^\s]+$": "a path without spaces",
    TOKENIZER: f"{', '.join(ENTRIES)} or bpe-ENTRIES",
    BUDGET: "a number with kB, MB, GB or documents",
    PERCENT: "a percentage below 100 %",
    r"\S": "text that is not blank",
    GEOMETRY: "nodes x devices of each, at most 99999x999,",
}
NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?) ?([A-Za-z]*)")  # a quoted one, or with its unit
DECIMAL = re.compile(r"[0-9]+,[0-9]+")  # with the comma of other languages
THOUSANDS = re.compile(r"[1-9][0-9]{0,2}(?:,[0-9]{3})+")
PER_CENT = re.compile(r"([1-9][0-9]?(?:\.[0-9]+)?) ?(?:percent|per cent|pct)?")
FILE = re.compile(rf"^[./~]|\\|(?:{'|'.join(map(re.escape, OF_FILES))})$")  # how a path begins or ends
TRUTHS = dict.fromkeys(("on", "yes", "y"), "true") | dict.fromkeys(("off", "no", "n"), "false")
OF_CELLS = ("vary", "cells", "exclude", "compare")  # sections with the keys of several other sections
LIMITS = (
    ("minimum", ">=", operator.ge),
    ("exclusiveMinimum", ">", operator.gt),
    ("maximum", "<=", operator.le),
    ("exclusiveMaximum", "<", operator.lt),
)
EMPTY_KEY = '""'  # as a key is written that has no name


class Lines(dict[Place, int]):
    """The line of every place in a file: place (a tuple of keys and indices) -> line, counted from 1."""

    def place_prefix(self, path: Path, place: Place) -> str:
        """Return how a message begins, "campaign.yaml, line 3: ", by the line of a place, or of the place around it."""
        while place and place not in self:
            place = place[:-1]
        return f"{path}, line {self[place]}: " if place else f"{path}: "


def fault_messages(path: Path, lines: Lines, error: ValidationError, schema: Schema, data: object) -> list[str]:
    """Return one message for each faulty place of a file, in the order of lines; at most 20. `data`: its content.

    Of places inside each other the deepest counts, and of its faults the first.
    """
    # Of a union's errors at one place, a fault inside a mapping says more than "not a number".
    errors = _errors_of_meant_alternative(error.errors(), data)
    errors.sort(key=lambda fault: fault["type"] not in ("missing", "value_error"))
    faults = {_file_place(fault["loc"], data): fault for fault in reversed(errors)}  # the first at each place
    # Each alternative of a union reports its own unknown keys; a key that another alternative knows is not a fault.
    faults = {place: fault for place, fault in faults.items() if not _known_to_another(place, fault, schema)} or faults
    around = [place for place in faults if place and any(other[: len(place)] == place != other for other in faults)]
    deepest = [place for place in faults if place not in around]
    reported = [_file_place(fault["loc"], data) for fault in error.errors()]  # in pydantic's order
    # By line; on one line what is wrong with the whole file last, then as they were reported.
    deepest.sort(key=lambda place: (lines.get(place, 0), not place, reported.index(place)))
    messages = {place: _fault_message(path, lines, place, faults[place], schema, data) for place in deepest[:20]}
    hints = " ".join(messages.values())  # a key that is missing because it is misspelt is told once, there
    missing = {place: f'"{fault["loc"][-1]}"?' for place, fault in faults.items() if fault["type"] == "missing"}
    return [message for place, message in messages.items() if missing.get(place, "\0") not in hints]


def _errors_of_meant_alternative(errors: list[ErrorDetails], data: object) -> list[ErrorDetails]:
    """Return the errors of a union's meant alternative, which knows all given keys; all errors without such a one.

    Each alternative reports errors of its own: as a shape of an encoder, a GPT-2 has unknown keys.
    """
    strange: set[Place] = set()  # alternatives: each is a step of the locations below it that is not in the file
    for error in errors:
        around = error["loc"][:-1]
        if error["type"] == "extra_forbidden" and _file_place(around, data) != around:
            strange.add(around)
    meant = {
        error["loc"][: len(other)]
        for other in strange
        for error in errors
        if error["loc"][: len(other) - 1] == other[:-1]
        and (error["type"] == "value_error" or len(error["loc"]) > len(other))
    }
    if not meant - strange:
        return errors
    return [error for error in errors if not any(error["loc"][: len(other)] == other for other in strange)]


def dotted(place: Place) -> str:
    """Return a place as people write it: vary.strategy[0]."""
    parts = [f"[{step}]" if isinstance(step, int) else f".{step or EMPTY_KEY}" for step in place]
    return shortened("".join(parts).removeprefix("."), 200)


def _file_place(loc: Place, data: Any) -> Place:
    """Return the part of a pydantic location that exists in the file; unions add steps of their own."""
    place: Place = ()
    for step in loc:
        inside = step in data if isinstance(data, dict) else isinstance(data, list) and step in range(len(data))
        if inside:
            data = data[step]
            place += (step,)
    return place


def _known_to_another(place: Place, error: ErrorDetails, schema: Schema) -> bool:
    """Return whether the key at `place`, unknown to one alternative of a union, is a key of another."""
    return error["type"] == "extra_forbidden" and bool(place) and place[-1] in properties_at(schema, place[:-1])


def _fault_message(path: Path, lines: Lines, place: Place, error: ErrorDetails, schema: Schema, data: Any) -> str:
    """Return the message on pydantic's `error` at `place` of a file with the content `data`, after path and line."""
    at = lines.place_prefix(path, place)
    if error["type"] == "missing":
        return f"{at}{_missing_text(place, error['loc'][-1], schema)}"
    if error["type"] == "extra_forbidden":
        known = list(properties_at(schema, place[:-1]))
        if known:
            return f"{at}unknown key {dotted(place)}.{_key_hint(place, known, schema)} Allowed here: {', '.join(known)}"
        place = place[:-1]  # a mapping where a word is expected, such as a geometry
    if error["loc"][-1:] == ("[key]",):  # the fault is in the name of the key
        name = nearest_valid_name(str(place[-1]))
        return f'{at}"{dotted(place)}" cannot be a name; allowed: {NAME_WORDS}.{name}'
    value = data
    for step in place:
        value = value[step]
    if error["type"] == "value_error":
        return f"{at}{dotted(place)}{': ' if place else ''}{error['msg'].removeprefix('Value error, ')}"
    fault = "has no value" if value is None else f"cannot be {shortened(json.dumps(value, default=str))}"
    return f"{at}{dotted(place)} {fault}; {_allowed_sentence(place, schema, value)}"


def valid_name(text: str) -> str:
    """Return a name of a campaign, corpus or comparison that resembles a text; "" if no letter of it is left."""
    plain = re.sub(r"[\u0300-\u036f]", "", unicodedata.normalize("NFKD", text.casefold()))  # letters without accents
    return re.sub(r"[^a-z0-9._-]", "-", plain[:60]).strip("-._")


def nearest_valid_name(text: str) -> str:
    """Return ` Write "my-notes".` for "My Notes"; "" if there is nothing to suggest."""
    name = valid_name(text)
    return f' Write "{name}".' if name and name != text else ""


def _missing_text(place: Place, name: Any, schema: Schema) -> str:
    """Return what to say of a missing key, or entry of a list, `name` at `place`."""
    if isinstance(name, int):
        items = union_members(node_at(schema, place), schema)
        number = next((item["minItems"] for item in items if item.get("minItems")), name + 1)
        return f"{dotted(place)}: a list of {number} is expected, and entry {name + 1} is missing"
    whole = place if place[-1:] == (name,) else (*place, name)
    node = node_at(schema, whole)
    if choices_at(node, schema):
        return f"{dotted(whole)} is missing; allowed: {_words_for_allowed(node, schema)}"
    about = node.get("description")
    return f"{dotted(whole)} is missing{f': {about}' if about else ''}"


def _key_hint(place: Place, known: list[str], schema: Schema) -> str:
    """Return a hint for the unknown key at `place`, after a blank; else "". `known`: the keys that are allowed there.

    The key meant is one of this section by another word, one of another section, or one that resembles it.
    """
    name = str(place[-1])
    if name != name.strip():
        return " A character beside it only looks like a space: type it again, indented with plain spaces."
    # A section under `vary`, such as `work`, of whose keys some can vary: they stand there without their section.
    axes = set(properties_at(schema, ("vary",))) & set(properties_at(schema, (name,)))
    if len(place) > 1 and name in properties_at(schema, ()) and not (axes and place[0] in OF_CELLS):
        return " It belongs at the top of the file, not indented."
    meant = same_name(name, known) or same_name(name.rpartition(".")[2], known)  # execution.precision under vary
    meant = meant or next((key for key in known if f"{name}s" == key or f"{key}s" == name), None)
    if meant is not None:
        return f' Did you mean "{meant}"?'
    return _other_section_hint(name, schema, of_cell=place[0] in OF_CELLS[1:]) or did_you_mean(name, known)


def _other_section_hint(name: str, schema: Schema, of_cell: bool) -> str:
    """Return a hint to which section the key `name` belongs, or "". `of_cell`: it stands in a cell's description."""
    places = []
    waiting: list[Place] = [()]  # sections that are still to be looked through
    while waiting:
        section = waiting.pop(0)
        keys = properties_at(schema, section)
        if section and name in keys and section[0] not in OF_CELLS[1:]:
            places.append(dotted(section))
        waiting += [(*section, key) for key in keys if len(section) < 2]
    places = [place for place in places if place != "vary"] or places
    if of_cell:
        places = [place for place in places if "." not in place] or places[: len(places) == 1]
    elif not places and name in properties_at(schema, ("compare", 0)):
        return " It belongs under an entry of compare."
    return f" It belongs under {' or '.join(places)}." if places else ""


def _allowed_sentence(place: Place, schema: Schema, value: object) -> str:
    """Return what is allowed in place of a faulty `value`: `allowed: ...`, with a hint for the word or list meant."""
    node = node_at(schema, place)
    options = union_members(node, schema)
    array = next((option for option in options if option.get("type") == "array"), None)
    hint = _list_hint(value, array, schema) if array else _one_value_hint(place, value, options, schema)
    allowed = _words_for_allowed(node, schema)
    if not hint and allowed.startswith("a name of") and "description" in node:
        hint = f" {node['description']}"
    return f"{allowed and 'allowed: '}{allowed}.{hint}"


def _one_value_hint(place: Place, value: object, options: list[Schema], schema: Schema) -> str:
    """Return a hint at a key of one value: the nearest allowed word, or how to write the given list; else ""."""
    choices = [word for option in options for word in choices_at(option, schema)]
    if not isinstance(value, list):
        return (
            _number_hint(value, options, node_at(schema, place).get("unit", ""))
            or _truth_hint(value, options)
            or _own_text_hint(place, value)
            or hint_to_named_section(value, options, schema)
            or _word_hint(value, options, choices)
        )
    if not value or not all(_is_allowed_alone(entry, options, choices) for entry in value):
        return ""
    if len(value) == 1:
        return f" Write {shortened(value[0], 40)}."
    if place[0] in OF_CELLS or place[-1] not in properties_at(schema, ("vary",)):
        return ""
    listed = shortened(", ".join(map(str, value)), 60)
    return f" Several values go under vary: {{{place[-1]}: [{listed}]}}."


def _number_hint(value: object, options: list[Schema], unit: str) -> str:
    """Return a hint for a number in quotes, with a unit, a point or an exponent, after a blank; else ""."""
    text = str(value)
    minutes = _parse_minutes(text) if unit == "minutes" else None
    if minutes is not None and _is_allowed_alone(minutes, options, []):
        return f" Write {minutes:g} (minutes)."
    if THOUSANDS.fullmatch(text):
        text = text.replace(",", "")
    elif DECIMAL.fullmatch(text):
        text = text.replace(",", ".")
    percent = PER_CENT.fullmatch(text)
    if percent and any(option.get("pattern") == PERCENT for option in options):
        return f" Write {percent[1]} %."
    match = NUMBER.fullmatch(text) if isinstance(value, str | float) else None
    number = float(match[1]) if match else math.inf
    if match is None or match[2] not in unit or math.isinf(number) or not _is_allowed_alone(number, options, []):
        return ""
    return f" Write {int(number) if number.is_integer() else match[1]}."


def _parse_minutes(text: str) -> float | None:
    """Return the minutes of a time as schedulers write it: 2h, 1 day, 1:30:00, 1-12:00:00; None for any other text."""
    if match := re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?(h|hours?|d|days?)", text):
        return float(match[1]) * (60 if match[2].startswith("h") else 1440)
    if match := re.fullmatch(r"(?:([0-9]{1,3})-)?([0-9]{1,3}):([0-9]{2}):([0-9]{2})", text):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return days * 1440 + hours * 60 + minutes + seconds / 60
    return None


def _truth_hint(value: object, options: list[Schema]) -> str:
    """Return a hint for yes, on and the like, which YAML 1.2 takes for words, after a blank; else ""."""
    word = str(value).casefold()
    takes = any(option.get("type") == "boolean" for option in options)
    return f" Write {TRUTHS[word]}." if takes and word in TRUTHS else ""


def _own_text_hint(place: Place, value: object) -> str:
    """Return a hint for the path of a file in place of a corpus, after a blank; else ""."""
    if place[-1:] != ("corpus",) or not FILE.search(str(value)):
        return ""
    name = valid_name(Path(str(value)).name.partition(".")[0]) or "mine"
    where, _, file = str(value).rpartition("/")
    source = f"http, urls: [{where}], revision: v1, format: text" if "://" in where else "text"
    row = f"{name}: {{source: {source}, files: [{shortened(file if '://' in where else value, 60)}]}}"
    return f" A file of your own is a row of config/corpora.yaml (docs/corpora.md): {row}; then corpus: {name}."


def _word_hint(value: object, options: list[Schema], choices: list[str]) -> str:
    """Return a hint with the allowed word, example or name that `value` resembles, after a blank; else ""."""
    if isinstance(value, bool | dict | None):
        return ""
    if any("hub" in option.get("properties", {}) for option in options) and HUB_NAME.fullmatch(str(value)):
        return f" A model of the hub: scaleproof model fetch {value} prints what to write."
    texts = [option for option in options if option.get("type") == "string"]
    examples = [str(example) for option in texts for example in option.get("examples", [])]
    name = valid_name(str(value)) if isinstance(value, str) and "/" not in value else ""
    is_name = any(name and re.search(r"[a-z]", name) and option.get("pattern") in NAMES for option in texts)
    if is_name and "$" in str(value):
        return " Variables are not filled in: write the name itself."
    last_part = str(value).rpartition(".")[2]  # of torch.bfloat16
    hint = did_you_mean(value, [*choices, *examples]) or (
        did_you_mean(last_part, choices) if last_part.isalnum() else ""
    )
    return hint or (nearest_valid_name(str(value)) if is_name else "")


def _list_hint(value: object, array: Schema, schema: Schema) -> str:
    """Return a hint where a list is expected: ` Write [ddp].` for a value without brackets; else ""."""
    if isinstance(value, list | None) or array.get("minItems", 0) > 1:
        return ""
    if isinstance(value, dict):
        of_mappings = any(option.get("type") == "object" for option in union_members(array.get("items", {}), schema))
        hint = " Each begins with a hyphen and a blank, or all stand in brackets: [{...}, {...}]."
        return hint if of_mappings else ""
    items = array.get("items", {})
    would_fit = _is_allowed_alone(value, union_members(items, schema), choices_at(items, schema))
    return f" Write [{shortened(value, 60)}]." if would_fit else ""


def _is_allowed_alone(value: object, options: list[Schema], choices: list[str]) -> bool:
    """Return whether a value from a list would be allowed without the brackets, by its type, pattern and limits."""
    if isinstance(value, str):
        patterns = [option.get("pattern", "") for option in options if option.get("type") == "string"]
        free = [pattern for pattern in patterns if pattern or not choices]
        return value in choices or any(re.search(pattern, value) for pattern in free)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    kinds = ("integer", "number") if isinstance(value, int) or value.is_integer() else ("number",)
    numbers = [option for option in options if option.get("type") in kinds]
    return any(all(holds(value, option[name]) for name, _, holds in LIMITS if name in option) for option in numbers)


def _words_for_allowed(node: Schema, schema: Schema) -> str:
    """Return a few words for what the schema takes at a node: "ddp; fsdp; ...", "a whole number >= 1 (samples)"."""
    words: list[str] = []
    for option in union_members(node, schema):
        words += _words_for_alternative(option, node, schema)
    return "; ".join(dict.fromkeys(words)) or node.get("description", "text, a number, true or false")


def _words_for_alternative(option: Schema, node: Schema, schema: Schema) -> list[str]:
    """Return what one alternative of a node takes: its choices, or words such as "a whole number >= 1 (steps)"."""
    kind = option.get("type")
    if "enum" in option or "const" in option:
        return [str(choice) for choice in option.get("enum", [option.get("const")])]
    if kind in ("integer", "number"):
        noun = "a whole number" if kind == "integer" else "a number"
        limits = [f"{sign} {option[name]:,}".replace(",", "") for name, sign, _ in LIMITS if name in option]
        unit = node.get("unit", "none")
        return [f"{noun} {' and '.join(limits)}".strip() + (f" ({unit})" if unit != "none" else "")]
    if kind == "array":
        return [_words_for_lists(option, schema)]
    if kind == "object":
        entry = option.get("additionalProperties")
        of_names = "names" + (f", each {_words_for_allowed(entry, schema)}" if isinstance(entry, dict) else "")
        return [f"a mapping of {', '.join(option.get('properties', {})) or of_names}"]
    if kind == "string":
        return [_words_for_texts(option, node)]
    return ["true or false"] if kind == "boolean" else []


def _words_for_lists(option: Schema, schema: Schema) -> str:
    """Return a few words for the lists that an alternative takes: "a list of at least 1 entry, each ..."."""
    least, most = option.get("minItems", 0), option.get("maxItems")
    inner: Schema = option.get("items") or next(iter(option.get("prefixItems", [])), {})
    each = f", each {_words_for_allowed(inner, schema)}" if inner else ""
    if least == most:
        return f"a list of {plural(least, 'entry', 'entries')}{each}"
    if not least and not most:
        return f"a list{each}"
    most_words = f" and at most {most:,}" if most else ""
    return f"a list of at least {plural(least, 'entry', 'entries')}{most_words}{each}"


def _words_for_texts(option: Schema, node: Schema) -> str:
    """Return a few words for the texts that an alternative takes: what its pattern means, its length and examples."""
    examples = option.get("examples") or node.get("examples")
    words = PATTERNS.get(option.get("pattern", ""), "text")
    if "maxLength" in option:
        of_length = f" of at most {option['maxLength']} characters"
        words = words.replace("text", f"text{of_length}", 1) if words.startswith("text") else words + of_length
    return words + (f" like {' or '.join(map(str, examples))}" if examples else "")
