"""What is said of a fault in a configuration file: file, line, key, what is allowed, and the nearest name."""

import json
import math
import re
import unicodedata
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from scaleproof.ground.campaign.config import ENTRIES, TOKENIZER
from scaleproof.ground.campaign.corpora import BUDGET
from scaleproof.ground.campaign.geometry import GEOMETRY
from scaleproof.ground.campaign.schema_nodes import Schema, choices_at, node_at, properties_at, union_members
from scaleproof.ground.campaign.value_hints import (
    LIMITS,
    OF_CELLS,
    OF_SINGLE_CELLS,
    PERCENT,
    list_hint,
    nearest_valid_name,
    one_value_hint,
)
from scaleproof.ground.errors import Place, did_you_mean, plural, same_name, shortened

# Pattern of the schema -> its meaning in words.
NAME_WORDS = 'lower-case letters, digits, ".", "_" and "-", beginning with a letter or digit'
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
ALLOWED = re.compile(r"(?:; allowed: |Allowed here: ).{60,}?(?=\. [A-Z]|\.?$)", re.DOTALL)  # up to a hint, or the end
# Key that people write into a campaign -> key of a profile.
OF_PROFILES = {"partition": "slurm_partition", "queue": "slurm_partition", "account": "slurm_account", "qos": "qos"}
MEANT: dict[Place, str] = {("forecast", "cells"): ' Did you mean "hold_out"?'}  # the section `cells` is not meant
EMPTY_KEY = '""'  # the spelling of a key without a name


class Lines(dict[Place, int]):
    """The line of every place in a file: place (a tuple of keys and indices) -> line, counted from 1."""

    def place_prefix(self, path: Path, place: Place) -> str:
        """Return the beginning of a message on a place, "campaign.yaml, line 3: ", or on the place around it."""
        while place and place not in self:
            place = place[:-1]
        return f"{path}, line {self[place]}: " if place else f"{path}: "


def fault_messages(
    path: Path, lines: Lines, error: ValidationError, schema: Schema, data: dict[str, object]
) -> list[str]:
    """Return one message for each faulty place of a file, in the order of lines, at most 20. `data`: its content."""
    known = properties_at(schema, ())
    if known and len(data) > 1 and not any(key in known or _key_hint((key,), list(known), schema) for key in data):
        keys = shortened(", ".join(data), 100)
        return [f"{path} is no campaign; it has {keys}; allowed: {', '.join(known)}"]

    faults = _deepest_faults(error.errors(), schema, data)
    reported = [_file_place(fault["loc"], data) for fault in error.errors()]  # in pydantic's order
    # In the order of lines. On one line, faults of the whole file come last, others in pydantic's order.
    order = sorted(faults, key=lambda place: (lines.get(place, 0), not place, reported.index(place)))
    messages = {place: _fault_message(path, lines, place, faults[place], schema, data) for place in order[:20]}

    hints = " ".join(messages.values())
    for place, fault in faults.items():
        # A missing key is only misspelt if another message says: Did you mean "key"?
        if fault["type"] == "missing" and f'"{fault["loc"][-1]}"?' in hints:
            messages.pop(place, None)
    return _allowed_said_once(list(messages.values()))


def _deepest_faults(reported: list[ErrorDetails], schema: Schema, data: object) -> dict[Place, ErrorDetails]:
    """Return place in the file -> its fault, without the places around another faulty place; () is the whole file."""
    errors = _errors_of_meant_alternative(reported, data)
    # Of a union's errors at one place, a fault inside a mapping says more than "not a number".
    errors.sort(key=lambda fault: fault["type"] not in ("missing", "value_error"))
    faults = {_file_place(fault["loc"], data): fault for fault in reversed(errors)}  # the first of each place stays
    # Each alternative of a union reports its own unknown keys; a key that another alternative knows is not a fault.
    faults = {place: fault for place, fault in faults.items() if not _known_to_another(place, fault, schema)} or faults
    _put_in_brackets(faults, data)
    around = [place for place in faults if place and any(other[: len(place)] == place != other for other in faults)]
    return {place: fault for place, fault in faults.items() if place not in around}


def _allowed_said_once(messages: list[str]) -> list[str]:
    """Remove the long list of what is allowed from each message that follows another with the same list."""
    earlier_lists: set[str] = set()
    shorter_messages = []
    for message in messages:
        match = ALLOWED.search(message)
        allowed_list = match[0] if match else ""
        if allowed_list in earlier_lists:
            message = message.replace(allowed_list, "").rstrip()
        shorter_messages.append(message)
        earlier_lists.add(allowed_list)
    return shorter_messages


def _put_in_brackets(faults: dict[Place, ErrorDetails], data: Any) -> None:
    """Join the values of a list without brackets, {strategy: ddp, fsdp}, to one faulty value: "ddp, fsdp".

    YAML reads each value but the first as a key without a value.
    """
    for place in reversed([place for place, fault in faults.items() if fault["type"] == "extra_forbidden"]):
        *outer_place, key = place
        mapping = data
        for step in outer_place:
            mapping = mapping[step]
        keys = list(mapping)
        previous_key = keys[keys.index(key) - 1]
        is_faulty = (*outer_place, previous_key) in faults and isinstance(mapping[previous_key], str | int)
        if mapping[key] is None and is_faulty and previous_key != keys[-1]:
            mapping[previous_key] = f"{mapping[previous_key]}, {key}"
            del faults[place], mapping[key]


def _errors_of_meant_alternative(errors: list[ErrorDetails], data: object) -> list[ErrorDetails]:
    """Return the errors of a union's alternative that knows all given keys. Without one, returns all errors.

    Each alternative reports errors of its own: as a shape of an encoder, a GPT-2 has unknown keys. An alternative is
    the beginning of pydantic's locations up to its name, a step that is not in the file.
    """
    with_unknown_keys: set[Place] = set()
    for error in errors:
        alternative = error["loc"][:-1]
        if error["type"] == "extra_forbidden" and _file_place(alternative, data) != alternative:
            with_unknown_keys.add(alternative)

    # All alternatives of these unions that have read the mapping: an error is inside it, or says that it breaks a rule.
    alternatives: set[Place] = set()
    for alternative in with_unknown_keys:
        size = len(alternative)
        for error in errors:
            is_of_union = error["loc"][: size - 1] == alternative[:-1]
            if is_of_union and (error["type"] == "value_error" or len(error["loc"]) > size):
                alternatives.add(error["loc"][:size])
    if alternatives <= with_unknown_keys:
        return errors
    return [error for error in errors if not any(error["loc"][: len(loc)] == loc for loc in with_unknown_keys)]


def dotted(place: Place) -> str:
    """Return a place in the form in which people write it: vary.strategy[0]."""
    parts = [f"[{step}]" if isinstance(step, int) else f".{step or EMPTY_KEY}" for step in place]
    return shortened("".join(parts).removeprefix("."), 200)


def _file_place(loc: Place, data: Any) -> Place:
    """Return the part of a pydantic location that exists in the file. Unions add steps of their own."""
    place: Place = ()
    for step in loc:
        is_key = isinstance(data, dict) and step in data
        is_index = isinstance(data, list) and step in range(len(data))
        if is_key or is_index:
            data = data[step]
            place += (step,)
    return place


def _known_to_another(place: Place, error: ErrorDetails, schema: Schema) -> bool:
    """Return whether the key at `place`, unknown to one alternative of a union, is known to another alternative."""
    return error["type"] == "extra_forbidden" and bool(place) and place[-1] in properties_at(schema, place[:-1])


def _fault_message(path: Path, lines: Lines, place: Place, error: ErrorDetails, schema: Schema, data: Any) -> str:
    """Return the message on pydantic's `error` at `place` of a file with the content `data`, after path and line."""
    where = lines.place_prefix(path, place)
    if error["type"] == "missing":
        return f"{where}{_missing_text(place, error['loc'][-1], schema)}"
    if error["type"] == "extra_forbidden":
        known = list(properties_at(schema, place[:-1]))
        if known:
            hint = _key_hint(place, known, schema)
            return f"{where}unknown key {dotted(place)}.{hint} Allowed here: {', '.join(known)}"
        place = place[:-1]  # a mapping where a word is expected, such as a geometry
    if error["loc"][-1:] == ("[key]",):  # the fault is in the name of the key
        hint = nearest_valid_name(str(place[-1]))
        return f'{where}"{dotted(place)}" cannot be a name; allowed: {NAME_WORDS}.{hint}'

    value = data
    for step in place:
        value = value[step]
    if error["type"] == "value_error":
        colon = ": " if place else ""
        return f"{where}{dotted(place)}{colon}{error['msg'].removeprefix('Value error, ')}"
    is_infinite = isinstance(value, float) and math.isinf(value)  # 1e400 is infinite, too
    text = "infinite" if is_infinite else shortened(json.dumps(value, default=str, ensure_ascii=False))
    fault = "has no value" if value is None else f"cannot be {text}"
    return f"{where}{dotted(place)} {fault}; {_allowed_sentence(place, schema, value)}"


def _missing_text(place: Place, name: Any, schema: Schema) -> str:
    """Describe a missing key, or entry of a list, `name` at `place`."""
    if isinstance(name, int):
        items = union_members(node_at(schema, place), schema)
        number = next((item["minItems"] for item in items if item.get("minItems")), name + 1)
        return f"{dotted(place)}: a list of {number} is expected, and entry {name + 1} is missing"
    whole = place if place[-1:] == (name,) else (*place, name)  # the place of a key without a value ends with it
    node = node_at(schema, whole)
    if choices_at(node, schema):
        return f"{dotted(whole)} is missing; allowed: {_words_for_allowed(node, schema)}"
    description = f": {node['description']}" if node.get("description") else ""
    fault = 'has no value ("#" begins a comment)' if whole == place else "is missing"
    return f"{dotted(whole)} {fault}{description}"


def _key_hint(place: Place, known: list[str], schema: Schema) -> str:
    """Return a hint at the unknown key at `place`; "" where there is none. `known`: the keys allowed there."""
    name, of_cell = str(place[-1]), place[0] in OF_SINGLE_CELLS
    look_alike = unicodedata.normalize("NFKC", name)  # a wide colon, a space that does not break
    if name != look_alike and ":" in look_alike:
        return f' A colon or a blank in it only looks like one: write "{look_alike}".'
    if name.isascii() and name != name.strip():
        return f' Write "{name.strip()}", without the blanks beside it.'
    if name != name.strip():
        return " A character beside it only looks like a space: type it again, indented with plain spaces."
    of_geometry = same_name(name, ("geometry",))  # a key `nodes` seldom means that of `trace`
    hint = (
        MEANT.get(place)
        or _same_key_hint(name, known)
        or _top_hint(place, schema)
        or ("" if of_geometry else _other_section_hint(name, schema, of_cell))
        or did_you_mean(name, known)
    )
    if hint or of_cell:
        return hint
    if name in OF_PROFILES:
        return f" It is the profile's business: {OF_PROFILES[name]} in profiles/slurm (docs/cluster.md)."
    keys = (key for section in _sections(schema) for key in properties_at(schema, section))
    other_name = of_geometry or same_name(name, keys)
    hint = _other_section_hint(other_name, schema, of_cell) if other_name else ""
    return f"{hint.removesuffix('.')}, as {other_name}." if hint else ""


def _top_hint(place: Place, schema: Schema) -> str:
    """Return a hint at a key that is a section of the file, and stands too deep at `place`; "" for other keys."""
    # A section of which keys can vary, such as `work`, is not too deep under `vary`: its keys stand there without it.
    axes = set(properties_at(schema, ("vary",))) & set(properties_at(schema, (place[-1],)))
    is_too_deep = len(place) > 1 and place[-1] in properties_at(schema, ()) and not (axes and place[0] in OF_CELLS)
    return " It belongs at the top of the file, not indented." if is_too_deep else ""


def _same_key_hint(name: str, known: list[str]) -> str:
    """Return a hint at the `known` key that `name` is another word for, with its section or another ending; else ""."""
    own_key = same_name(name, known) or same_name(name.rpartition(".")[2], known)  # "precision" of execution.precision
    own_key = own_key or next((key for key in known if f"{name}s" == key or f"{key}s" == name), None)
    return "" if own_key is None else f' Did you mean "{own_key}"?'


def _sections(schema: Schema) -> list[Place]:
    """Return the places of the keys at the top of a file, then of the keys one level below. They may hold keys."""
    top: list[Place] = [(key,) for key in properties_at(schema, ())]
    return top + [(*section, key) for section in top for key in properties_at(schema, section)]


def _other_section_hint(name: str, schema: Schema, of_cell: bool) -> str:
    """Return a hint at the section of the key `name`; "" where none is. `of_cell`: a cell's description has the key."""
    others = [section for section in _sections(schema) if section[0] not in OF_SINGLE_CELLS]
    places = [dotted(section) for section in others if name in properties_at(schema, section)]
    places = [place for place in places if place != "vary"] or places  # keys of `vary` are keys of other sections
    top_places = [place for place in places if "." not in place]
    if top_places:
        places = top_places
    elif of_cell and len(places) > 1:  # no place is likelier than another
        return ""
    if not of_cell and not places and name in properties_at(schema, ("compare", 0)):
        return " It belongs under an entry of compare."
    if not places:
        return ""
    alike = " It is the same for all cells: another value needs a campaign of its own." if of_cell else ""
    return f" It belongs under {' or '.join(places)}.{alike}"


def _allowed_sentence(place: Place, schema: Schema, value: object) -> str:
    """Describe what is allowed in place of a faulty `value`: `allowed: ...`, with a hint at what was meant."""
    node = node_at(schema, place)
    options = union_members(node, schema)
    array = next((option for option in options if option.get("type") == "array"), None)
    hint = list_hint(value, array, schema) if array else one_value_hint(place, value, options, schema)
    allowed = _words_for_allowed(node, schema)
    if not hint and allowed.startswith("a name of") and "description" in node:  # it says which names
        hint = f" {node['description']}"
    return f"allowed: {allowed}.{hint}" if allowed else f".{hint}"


def _words_for_allowed(node: Schema, schema: Schema) -> str:
    """Describe in a few words what the schema takes at a node: "ddp; fsdp; ...", "a whole number >= 1 (samples)"."""
    words: list[str] = []
    for option in union_members(node, schema):
        words += _words_for_alternative(option, node, schema)
    if not words or {*words} == {"text", "a whole number", "a number", "true or false"}:
        return str(node.get("description", "text, a number, true or false"))
    return "; ".join(dict.fromkeys(words))


def _words_for_alternative(option: Schema, node: Schema, schema: Schema) -> list[str]:
    """Return the choices of one alternative of a node, or words for them such as "a whole number >= 1 (steps)"."""
    kind = option.get("type")
    if "enum" in option or "const" in option:
        return [str(choice) for choice in option.get("enum", [option.get("const")])]
    if kind in ("integer", "number"):
        noun = "a whole number" if kind == "integer" else "a number"
        limits = [f"{sign} {option[name]:,}".replace(",", "") for name, sign, _ in LIMITS if name in option]
        unit = "" if node.get("unit", "none") == "none" else f" ({node['unit']})"
        return [f"{noun} {' and '.join(limits)}".strip() + unit]
    if kind == "array":
        return [_words_for_lists(option, schema)]
    if kind == "object":
        entry = option.get("additionalProperties")
        each = f", each {_words_for_allowed(entry, schema)}" if isinstance(entry, dict) else ""
        keys = ", ".join(option.get("properties", {}))
        return [f"a mapping of {keys or 'names' + each}"]
    if kind == "string":
        return [_words_for_texts(option, node)]
    return ["true or false"] if kind == "boolean" else []


def _words_for_lists(option: Schema, schema: Schema) -> str:
    """Describe the lists that an alternative takes: "a list of at least 1 entry, each ..."."""
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
    """Describe the texts that an alternative takes: the meaning of its pattern, the length, examples."""
    examples = option.get("examples") or node.get("examples")
    words = PATTERNS.get(option.get("pattern", ""), "text")
    if "maxLength" in option:
        of_length = f" of at most {option['maxLength']} characters"
        words = words.replace("text", f"text{of_length}", 1) if words.startswith("text") else words + of_length
    return words + (f" like {' or '.join(map(str, examples))}" if examples else "")
