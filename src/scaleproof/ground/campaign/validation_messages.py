"""What is said of a fault in a configuration file: file, line, key, what is allowed, and the nearest name."""

import json
import math
import re
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

# What a pattern of the schema means.
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
ALLOWED = re.compile(r"(?:; allowed: |Allowed here: ).{60,}?(?=\. [A-Z]|\.?$)", re.DOTALL)  # before a hint, or the end
OF_PROFILES = {"partition": "slurm_partition", "queue": "slurm_partition", "account": "slurm_account", "qos": "qos"}
MEANT: dict[Place, str] = {("forecast", "cells"): ' Did you mean "hold_out"?'}  # and no section of this name
EMPTY_KEY = '""'  # as a key is written that has no name


class Lines(dict[Place, int]):
    """The line of every place in a file: place (a tuple of keys and indices) -> line, counted from 1."""

    def place_prefix(self, path: Path, place: Place) -> str:
        """Return how a message begins, "campaign.yaml, line 3: ", by the line of a place, or of the place around it."""
        while place and place not in self:
            place = place[:-1]
        return f"{path}, line {self[place]}: " if place else f"{path}: "


def fault_messages(
    path: Path, lines: Lines, error: ValidationError, schema: Schema, data: dict[str, object]
) -> list[str]:
    """Return one message for each faulty place of a file, in the order of lines; at most 20. `data`: its content."""
    known = properties_at(schema, ())
    if known and len(data) > 1 and not any(key in known or _key_hint((key,), list(known), schema) for key in data):
        has = shortened(", ".join(data), 100)
        return [f"{path} is no campaign; it has {has}; allowed: {', '.join(known)}"]
    faults = _deepest_faults(error.errors(), schema, data)
    reported = [_file_place(fault["loc"], data) for fault in error.errors()]  # in pydantic's order
    # By line; on one line what is wrong with the whole file last, then as they were reported.
    order = sorted(faults, key=lambda place: (lines.get(place, 0), not place, reported.index(place)))
    messages = {place: _fault_message(path, lines, place, faults[place], schema, data) for place in order[:20]}
    hints = " ".join(messages.values())
    missing = {place: fault["loc"][-1] for place, fault in faults.items() if fault["type"] == "missing"}
    misspelt = [place for place, key in missing.items() if f'"{key}"?' in hints]  # another message: Did you mean "key"?
    return _allowed_said_once([message for place, message in messages.items() if place not in misspelt])


def _deepest_faults(reported: list[ErrorDetails], schema: Schema, data: object) -> dict[Place, ErrorDetails]:
    """Return place in the file -> the fault to tell there; () is the whole file. Others around a place are left out."""
    errors = _errors_of_meant_alternative(reported, data)
    # Of a union's errors at one place, a fault inside a mapping says more than "not a number".
    errors.sort(key=lambda fault: fault["type"] not in ("missing", "value_error"))
    faults = {_file_place(fault["loc"], data): fault for fault in reversed(errors)}  # the first at each place
    # Each alternative of a union reports its own unknown keys; a key that another alternative knows is not a fault.
    faults = {place: fault for place, fault in faults.items() if not _known_to_another(place, fault, schema)} or faults
    _put_in_brackets(faults, data)
    around = [place for place in faults if place and any(other[: len(place)] == place != other for other in faults)]
    return {place: fault for place, fault in faults.items() if place not in around}


def _allowed_said_once(messages: list[str]) -> list[str]:
    """Return messages without the long list of what is allowed where an earlier one has the same."""
    stated: set[str] = set()
    shorter = []
    for message in messages:
        allowed = match[0] if (match := ALLOWED.search(message)) else ""
        shorter.append(message.replace(allowed, "").rstrip() if allowed in stated else message)
        stated.add(allowed)
    return shorter


def _put_in_brackets(faults: dict[Place, ErrorDetails], data: Any) -> None:
    """Make one faulty value of those of a list without brackets, which are unknown keys: {strategy: ddp, fsdp}."""
    for place in reversed([place for place, fault in faults.items() if fault["type"] == "extra_forbidden"]):
        around = data
        for step in place[:-1]:
            around = around[step]
        keys = list(around)
        before = keys[keys.index(place[-1]) - 1]
        is_faulty = (*place[:-1], before) in faults and isinstance(around[before], str | int)
        if around[place[-1]] is None and is_faulty and before != keys[-1]:
            around[before] = f"{around[before]}, {place[-1]}"
            del faults[place], around[place[-1]]


def _errors_of_meant_alternative(errors: list[ErrorDetails], data: object) -> list[ErrorDetails]:
    """Return the errors of a union's meant alternative, which knows all given keys; all errors without such a one.

    Each alternative reports errors of its own: as a shape of an encoder, a GPT-2 has unknown keys. An alternative is
    the beginning of pydantic's locations up to its name, a step that is not in the file.
    """
    with_unknown_keys: set[Place] = set()
    for error in errors:
        alternative = error["loc"][:-1]
        if error["type"] == "extra_forbidden" and _file_place(alternative, data) != alternative:
            with_unknown_keys.add(alternative)
    # These and the others of their unions that read the mapping: an error is inside, or says that a rule is broken.
    tried = {
        error["loc"][: len(one)]
        for one in with_unknown_keys
        for error in errors
        if error["loc"][: len(one) - 1] == one[:-1] and (error["type"] == "value_error" or len(error["loc"]) > len(one))
    }
    if tried <= with_unknown_keys:
        return errors
    return [error for error in errors if not any(error["loc"][: len(one)] == one for one in with_unknown_keys)]


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
    is_infinite = isinstance(value, float) and math.isinf(value)  # 1e400, too
    text = "infinite" if is_infinite else shortened(json.dumps(value, default=str, ensure_ascii=False))
    fault = "has no value" if value is None else f"cannot be {text}"
    return f"{at}{dotted(place)} {fault}; {_allowed_sentence(place, schema, value)}"


def _missing_text(place: Place, name: Any, schema: Schema) -> str:
    """Return what to say of a missing key, or entry of a list, `name` at `place`."""
    if isinstance(name, int):
        items = union_members(node_at(schema, place), schema)
        number = next((item["minItems"] for item in items if item.get("minItems")), name + 1)
        return f"{dotted(place)}: a list of {number} is expected, and entry {name + 1} is missing"
    whole = place if place[-1:] == (name,) else (*place, name)  # a key without a value is there, and missing
    node = node_at(schema, whole)
    if choices_at(node, schema):
        return f"{dotted(whole)} is missing; allowed: {_words_for_allowed(node, schema)}"
    about = node.get("description")
    return f"{dotted(whole)} is missing{f': {about}' if about else ''}"


def _key_hint(place: Place, known: list[str], schema: Schema) -> str:
    """Return a hint for the unknown key at `place`, after a blank; else "". `known`: the keys allowed there."""
    name, of_cell = str(place[-1]), place[0] in OF_SINGLE_CELLS
    if name != name.strip():
        return " A character beside it only looks like a space: type it again, indented with plain spaces."
    of_geometry = same_name(name, ("geometry",))  # nodes: those of `trace` are seldom meant
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
    meant = of_geometry or same_name(name, keys)
    hint = _other_section_hint(meant, schema, of_cell) if meant else ""
    return f"{hint.removesuffix('.')}, as {meant}." if hint else ""


def _top_hint(place: Place, schema: Schema) -> str:
    """Return the hint that the last key of `place` is a section of the file, and stands too deep; else ""."""
    # A section under `vary`, such as `work`, of whose keys some can vary: they stand there without their section.
    axes = set(properties_at(schema, ("vary",))) & set(properties_at(schema, (place[-1],)))
    is_too_deep = len(place) > 1 and place[-1] in properties_at(schema, ()) and not (axes and place[0] in OF_CELLS)
    return " It belongs at the top of the file, not indented." if is_too_deep else ""


def _same_key_hint(name: str, known: list[str]) -> str:
    """Return the hint at a `known` key by another word, after its section (execution.precision), or without its s."""
    meant = same_name(name, known) or same_name(name.rpartition(".")[2], known)
    meant = meant or next((key for key in known if f"{name}s" == key or f"{key}s" == name), None)
    return "" if meant is None else f' Did you mean "{meant}"?'


def _sections(schema: Schema) -> list[Place]:
    """Return the places that may hold keys: those of the keys at the top of a file, then of those one level below."""
    top: list[Place] = [(key,) for key in properties_at(schema, ())]
    return top + [(*section, key) for section in top for key in properties_at(schema, section)]


def _other_section_hint(name: str, schema: Schema, of_cell: bool) -> str:
    """Return a hint to which section the key `name` belongs, or "". `of_cell`: it stands in a cell's description."""
    others = [section for section in _sections(schema) if section[0] not in OF_SINGLE_CELLS]
    places = [dotted(section) for section in others if name in properties_at(schema, section)]
    places = [place for place in places if place != "vary"] or places  # whose keys are those of other sections
    if at_top := [place for place in places if "." not in place]:
        places = at_top
    elif of_cell and len(places) > 1:  # none is likelier
        return ""
    if not of_cell and not places and name in properties_at(schema, ("compare", 0)):
        return " It belongs under an entry of compare."
    return f" It belongs under {' or '.join(places)}." if places else ""


def _allowed_sentence(place: Place, schema: Schema, value: object) -> str:
    """Return what is allowed in place of a faulty `value`: `allowed: ...`, with a hint for the word or list meant."""
    node = node_at(schema, place)
    options = union_members(node, schema)
    array = next((option for option in options if option.get("type") == "array"), None)
    hint = list_hint(value, array, schema) if array else one_value_hint(place, value, options, schema)
    allowed = _words_for_allowed(node, schema)
    if not hint and allowed.startswith("a name of") and "description" in node:  # which names, not only their form
        hint = f" {node['description']}"
    return f"{allowed and 'allowed: '}{allowed}.{hint}"


def _words_for_allowed(node: Schema, schema: Schema) -> str:
    """Return a few words for what the schema takes at a node: "ddp; fsdp; ...", "a whole number >= 1 (samples)"."""
    words: list[str] = []
    for option in union_members(node, schema):
        words += _words_for_alternative(option, node, schema)
    if not words or {*words} == {"text", "a whole number", "a number", "true or false"}:
        return str(node.get("description", "text, a number, true or false"))
    return "; ".join(dict.fromkeys(words))


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
