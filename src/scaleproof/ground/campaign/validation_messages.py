"""What is said of a fault in a configuration file: file, line, key, what is allowed, and the nearest name."""

import json
import operator
import re
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from scaleproof.ground.campaign.config import TOKENIZER
from scaleproof.ground.campaign.corpora import BUDGET
from scaleproof.ground.campaign.geometry import GEOMETRY
from scaleproof.ground.errors import Place, nearest, plural, same_name, shortened

Schema = dict[str, Any]  # JSON schema, or a part of it
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
    r"^[^\s]+$": "a path without spaces",
    TOKENIZER: "gpt2, bytes or bpe-ENTRIES",
    BUDGET: "a number with kB, MB, GB or documents",
    PERCENT: "a percentage below 100 %",
    r"\S": "text that is not blank",
    GEOMETRY: "nodes x devices of each, at most 99999x999,",
}
HUB_NAME = re.compile(r"[\w.-]+/[\w-]+")  # owner/name; a file of one's own has a suffix
OF_CELLS = ("vary", "cells", "exclude", "compare")  # sections whose keys are those of several other sections
LIMITS = (
    ("minimum", ">=", operator.ge),
    ("exclusiveMinimum", ">", operator.gt),
    ("maximum", "<=", operator.le),
    ("exclusiveMaximum", "<", operator.lt),
)


class Lines(dict[Place, int]):
    """The line of every place in a file: place (a tuple of keys and indices) -> line, counted from 1."""

    def at(self, path: Path, place: Place) -> str:
        """`path, line n: ` of a place, or of the nearest one around it that is in the file."""
        while place and place not in self:
            place = place[:-1]
        return f"{path}, line {self[place]}: " if place else f"{path}: "


def messages(path: Path, lines: Lines, error: ValidationError, schema: Schema, data: object) -> list[str]:
    """One message for each faulty place, in the order of lines: the deepest place, and the first fault there."""
    # Of a union's errors at one place, what is wrong inside a mapping says more than that it is no number.
    errors = sorted(error.errors(), key=lambda e: e["type"] not in ("missing", "value_error"))
    faults = {_place(e["loc"], data): e for e in reversed(errors)}
    # Of a union, each alternative reports its own unknown keys; one that another alternative knows is no fault.
    faults = {p: e for p, e in faults.items() if not _known_to_another(p, e, schema)} or faults
    deepest = [p for p in faults if not any(q != p and q[: len(p)] == p and p for q in faults)]
    order = [_place(e["loc"], data) for e in error.errors()]
    deepest.sort(key=lambda place: (lines.get(place, 0), not place, order.index(place)))
    return [_message(path, lines, place, faults[place], schema, data) for place in deepest[:20]]


EMPTY_KEY = '""'


def dotted(place: Place) -> str:
    """A place as people write it: vary.strategy[0]."""
    parts = [f"[{s}]" if isinstance(s, int) else f".{s or EMPTY_KEY}" for s in place]
    return shortened("".join(parts).removeprefix("."), 200)


def sections_of(schema: Schema) -> list[str]:
    """The keys at the top of a file."""
    return list(_properties(schema, ()))


def _place(loc: Place, data: Any) -> Place:
    """The part of a pydantic location that exists in the file (unions add steps of their own)."""
    place: Place = ()
    for step in loc:
        inside = step in data if isinstance(data, dict) else isinstance(data, list) and step in range(len(data))
        if inside:
            data = data[step]
            place += (step,)
    return place


def _known_to_another(place: Place, error: ErrorDetails, schema: Schema) -> bool:
    return error["type"] == "extra_forbidden" and bool(place) and place[-1] in _properties(schema, place[:-1])


def _message(path: Path, lines: Lines, place: Place, error: ErrorDetails, schema: Schema, data: Any) -> str:
    at = lines.at(path, place)
    if error["type"] == "missing":
        return f"{at}{_missing(place, error['loc'][-1], schema)}"
    if error["type"] == "extra_forbidden":
        known = list(_properties(schema, place[:-1]))
        if known:
            hint = _hint(place, known, schema)
            return f"{at}unknown key {dotted(place)}.{hint} Allowed here: {', '.join(known)}"
        place = place[:-1]  # a mapping where a word is expected, such as a geometry
    if error["loc"][-1] == "[key]":
        name = nearest_valid_name(str(place[-1]))
        return f'{at}"{dotted(place)}" cannot be a name; allowed: {NAME_WORDS}.{name}'
    value = data
    for step in place:
        value = value[step]
    if error["type"] == "value_error":
        return f"{at}{dotted(place)}{': ' if place else ''}{error['msg'].removeprefix('Value error, ')}"
    fault = "has no value" if value is None else f"cannot be {_shown(value)}"
    return f"{at}{dotted(place)} {fault}; {_allowed_at(place, schema, value)}"


def valid_name(text: str) -> str:
    """A name of a campaign, a corpus or a comparison that resembles a text; empty if no letter of it is left."""
    name = "".join(c if (c.isascii() and c.isalnum()) or c in "._-" else "-" for c in text.casefold()[:60])
    return name.strip("-._")


def nearest_valid_name(text: str) -> str:
    """`Write "my-notes".` for "My Notes", with a leading space; empty if there is nothing to suggest."""
    name = valid_name(text)
    return f' Write "{name}".' if name and name != text else ""


def _missing(place: Place, name: Any, schema: Schema) -> str:
    if isinstance(name, int):
        items = _alternatives(_node(schema, place), schema)
        number = next((o["minItems"] for o in items if o.get("minItems")), name + 1)
        return f"{dotted(place)}: a list of {number} is expected, and entry {name + 1} is missing"
    whole = place if place[-1:] == (name,) else (*place, name)
    node = _node(schema, whole)
    if _choices(node, schema):
        return f"{dotted(whole)} is missing; allowed: {_allowed(node, schema)}"
    about = node.get("description")
    return f"{dotted(whole)} is missing{f': {about}' if about else ''}"


def _shown(value: object) -> str:
    return shortened(json.dumps(value, default=str, ensure_ascii=True))


def _hint(place: Place, known: list[str], schema: Schema) -> str:
    """Which key is meant: one of this section by another word, one of another section, or one that resembles it."""
    name = str(place[-1])
    varied = set(_properties(schema, ("vary",))) & set(_properties(schema, (name,)))
    if len(place) > 1 and name in sections_of(schema) and not (varied and place[0] in OF_CELLS):
        return " It belongs at the top of the file, not indented."
    here = same_name(name, known)
    if here is not None:
        return f' Did you mean "{here}"?'
    return _elsewhere(name, schema) or nearest(name, known)


def _elsewhere(name: str, schema: Schema, depth: int = 2) -> str:
    """Where a key belongs that is in another place, with a leading space; empty where no section has it."""
    places = []
    waiting: list[Place] = [()]
    while waiting:
        section = waiting.pop(0)
        keys = _properties(schema, section)
        if section and name in keys and section[0] not in OF_CELLS[1:]:
            places.append(dotted(section))
        waiting += [(*section, key) for key in keys if len(section) < depth]
    places = [p for p in places if p != "vary"] or places
    if not places and name in _properties(schema, ("compare", 0)):
        return " It belongs under an entry of compare."
    return f" It belongs under {' or '.join(places)}." if places else ""


def _resolve(node: Schema, schema: Schema) -> Schema:
    while "$ref" in node:
        node = schema["$defs"][node["$ref"].rsplit("/", 1)[1]] | {k: v for k, v in node.items() if k != "$ref"}
    return node


def _alternatives(node: Schema, schema: Schema) -> list[Schema]:
    node = _resolve(node, schema)
    return [a for b in node["anyOf"] for a in _alternatives(b, schema)] if "anyOf" in node else [node]


def _node(schema: Schema, place: Place) -> Schema:
    """The schema of a place in the file; empty if it has none."""
    node = schema
    for step in place:
        inner: Schema = {}
        for option in _alternatives(node, schema):
            if isinstance(step, int):
                prefix = option.get("prefixItems", [])
                inner = option.get("items") or (prefix[step] if step < len(prefix) else {}) or inner
            else:
                named = option.get("properties", {}).get(step)
                free = [*option.get("patternProperties", {}).values(), option.get("additionalProperties")]
                inner = named or next((f for f in free if isinstance(f, dict)), inner)
        node = inner
    return _resolve(node, schema)


def _properties(schema: Schema, place: Place) -> Schema:
    properties: Schema = {}
    for option in _alternatives(_node(schema, place), schema):
        properties |= option.get("properties", {})
    return properties


def _choices(node: Schema, schema: Schema) -> list[str]:
    choices: list[Any] = []
    for option in _alternatives(node, schema):
        choices += option.get("enum", []) + ([option["const"]] if "const" in option else [])
    return [c for c in choices if isinstance(c, str)]


def _allowed_at(place: Place, schema: Schema, value: object) -> str:
    """`allowed: ...` with the word that is meant, and where a list goes, or is needed."""
    node = _node(schema, place)
    options = _alternatives(node, schema)
    array = next((option for option in options if option.get("type") == "array"), None)
    hint = _one_of_list(value, array, schema) if array else _one_value(place, value, options, schema)
    allowed = _allowed(node, schema)
    if "corpus" in place[-2:] and isinstance(value, str) and HUB_NAME.fullmatch(value):
        hint = _row_of_hub(value)
    if not hint and allowed.startswith("a name of") and "description" in node:
        hint = f" {node['description']}"
    return f"{allowed and 'allowed: '}{allowed}.{hint}"


def _row_of_hub(repository: str) -> str:
    """The row of config/corpora.yaml that a data set of a hub needs, with a leading space."""
    name = valid_name(repository.partition("/")[2])
    row = f"{name}: {{source: hub, repository: {repository}, revision: main, format: parquet, files: [...]}}"
    return f' A data set of a hub has a row in config/corpora.yaml, whose name stands here: "{row}" (docs/corpora.md).'


def _one_value(place: Place, value: object, options: list[Schema], schema: Schema) -> str:
    """The word that resembles a wrong one; of a list where one value goes, how to write one, and where several go."""
    choices = [word for option in options for word in _choices(option, schema)]
    if not isinstance(value, list):
        return _nearest_word(value, options, choices)
    if not value or not all(_fits(one, options, choices) for one in value):
        return ""
    if len(value) == 1:
        return f" Write {shortened(value[0], 40)}."
    if place[0] in OF_CELLS or place[-1] not in _properties(schema, ("vary",)):
        return ""
    listed = shortened(", ".join(map(str, value)), 60)
    return f" Several values go under vary: {{{place[-1]}: [{listed}]}}."


def _nearest_word(value: object, options: list[Schema], choices: list[str]) -> str:
    """The allowed word, example or name that text resembles, with a leading space."""
    if isinstance(value, bool | dict | None):
        return ""
    texts = [option for option in options if option.get("type") == "string"]
    examples = [str(example) for option in texts for example in option.get("examples", [])]
    name = valid_name(str(value)) if isinstance(value, str) and "/" not in value else ""
    is_name = any(name and re.search(r"[a-z]", name) and option.get("pattern") in NAMES for option in texts)
    return nearest(value, [*choices, *examples]) or (nearest_valid_name(str(value)) if is_name else "")


def _one_of_list(value: object, array: Schema, schema: Schema) -> str:
    """`Write [ddp].` where the one value of a list stands without brackets."""
    if isinstance(value, dict | list | None) or array.get("minItems", 0) > 1:
        return ""
    items = array.get("items", {})
    fits = _fits(value, _alternatives(items, schema), _choices(items, schema))
    return f" Write [{shortened(value, 60)}]." if fits else ""


def _fits(value: object, options: list[Schema], choices: list[str]) -> bool:
    """Whether a value without the brackets around it would be taken, as far as its kind tells."""
    if isinstance(value, str):
        patterns = [option.get("pattern", "") for option in options if option.get("type") == "string"]
        free = [pattern for pattern in patterns if pattern or not choices]
        return value in choices or any(re.search(pattern, value) for pattern in free)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return any(_within(value, option) for option in options if option.get("type") in ("integer", "number"))


def _within(number: float, option: Schema) -> bool:
    """Whether a number is within the limits of an option."""
    if option["type"] == "integer" and not float(number).is_integer():
        return False
    return all(holds(number, option[name]) for name, _, holds in LIMITS if name in option)


def _allowed(node: Schema, schema: Schema) -> str:
    """A few words for what the schema takes at a node."""
    words: list[str] = []
    for option in _alternatives(node, schema):
        words += _words(option, node, schema)
    return "; ".join(dict.fromkeys(words)) or node.get("description", "see the schema")


def _words(option: Schema, node: Schema, schema: Schema) -> list[str]:
    kind = option.get("type")
    if "enum" in option or "const" in option:
        return [str(choice) for choice in option.get("enum", [option.get("const")])]
    if kind in ("integer", "number"):
        noun = "a whole number" if kind == "integer" else "a number"
        limits = [f"{sign} {option[name]:,}".replace(",", "") for name, sign, _ in LIMITS if name in option]
        unit = node.get("unit", "none")
        return [f"{noun} {' and '.join(limits)}".strip() + (f" ({unit})" if unit != "none" else "")]
    if kind == "array":
        return [_array(option, schema)]
    if kind == "object":
        entry = option.get("additionalProperties")
        of_names = "names" + (f", each {_allowed(entry, schema)}" if isinstance(entry, dict) else "")
        return [f"a mapping of {', '.join(option.get('properties', {})) or of_names}"]
    if kind == "string":
        return [_text(option, node)]
    return ["true or false"] if kind == "boolean" else []


def _array(option: Schema, schema: Schema) -> str:
    least, most = option.get("minItems", 0), option.get("maxItems")
    inner: Schema = option.get("items") or next(iter(option.get("prefixItems", [])), {})
    of = f", each {_allowed(inner, schema)}" if inner else ""
    if _resolve(inner, schema).get("type") == "object":
        of = ", each a mapping"
    if least == most:
        return f"a list of {plural(least, 'entry', 'entries')}{of}"
    if not least and not most:
        return f"a list{of}"
    most_words = f" and at most {most:,}" if most else ""
    return f"a list of at least {plural(least, 'entry', 'entries')}{most_words}{of}"


def _text(option: Schema, node: Schema) -> str:
    examples = option.get("examples") or node.get("examples")
    words = PATTERNS.get(option.get("pattern", ""), "text")
    if "maxLength" in option:
        of_length = f" of at most {option['maxLength']} characters"
        words = words.replace("text", f"text{of_length}", 1) if words.startswith("text") else words + of_length
    return words + (f" like {' or '.join(map(str, examples))}" if examples else "")
