"""Reading YAML into the typed models, with messages that name file, line, key, what is allowed and the nearest name."""

import json
import re
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from scalebench.campaign.config import Campaign
from scalebench.campaign.corpora import CorpusTable
from scalebench.errors import UserError, nearest

CAMPAIGNS = Path("config/campaigns")
CORPORA = Path("config/corpora.yaml")
Model = TypeVar("Model", bound=BaseModel)


class _Yaml(yaml.SafeLoader):
    """The scalars of YAML 1.2: `1e-3` is a number, and `no`, `on` and `1:30` are text."""

    yaml_implicit_resolvers: ClassVar[dict] = {}


for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
):
    _Yaml.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), _first)
_Yaml.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))  # 010 is ten
_Yaml.add_constructor("tag:yaml.org,2002:float", lambda loader, node: float(node.value))


class Lines(dict):
    """The line of every place in a file: place (a tuple of keys and indices) -> line, counted from 1."""

    def at(self, path: Path, place: tuple) -> str:
        """`path, line n: ` of a place, or of the nearest one around it that stands in the file."""
        while place and place not in self:
            place = place[:-1]
        return f"{path}, line {self[place]}: " if place else f"{path}: "


def load_campaign(path: Path) -> tuple[Campaign, Lines]:
    """Read and check a campaign file. Raises UserError with every fault found, one a line."""
    if not path.is_file():
        names = [str(p) for p in sorted(path.parent.glob("*.yaml"))]
        found = ", ".join(names) or "none"
        raise UserError(f"{path}: no such campaign file.{nearest(path, names)} Found there: {found}")
    return _read(path, Campaign)


def load_corpora(path: Path) -> CorpusTable:
    """Read and check the table of corpora. Raises UserError."""
    if not path.is_file():
        raise UserError(
            f"{path}: no such file; scalebench works in the folder of the Snakefile, and this is {Path.cwd()}"
        )
    return _read(path, CorpusTable)[0]


def schema_text(model: type[BaseModel]) -> str:
    """The JSON schema of a model as it is committed."""
    return json.dumps(model.model_json_schema(), indent=2) + "\n"


def _read(path: Path, model: type[Model]) -> tuple[Model, Lines]:
    try:
        node = yaml.compose(path.read_text(encoding="utf-8"), Loader=_Yaml)
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text (byte {error.start})") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise UserError(f"{path}{where}: not valid YAML: {getattr(error, 'problem', error)}") from None
    lines = Lines()
    try:
        data = None if node is None else _build(node, (), lines, path)
    except RecursionError:
        raise UserError(f"{path}: nested too deeply, or an anchor that contains itself") from None
    schema = model.model_json_schema()
    if not isinstance(data, dict):
        raise UserError(
            f"{path}: a mapping is expected; allowed: {', '.join(_properties(schema, ())) or 'names of your choice'}"
        )
    try:
        return model.model_validate(data), lines
    except ValidationError as error:
        faults = {_place(e["loc"], data): e for e in reversed(error.errors())}  # one a place, the first that was found
        deepest = [p for p in faults if not any(q != p and q[: len(p)] == p and p for q in faults)]
        deepest.sort(key=lambda place: lines.get(place, 0))
        raise UserError("\n".join(_explain(path, lines, p, faults[p], schema, data) for p in deepest)) from None


def _build(node: yaml.Node, place: tuple, lines: Lines, path: Path) -> Any:
    """Plain data of a YAML node; fills `lines` and refuses a key that is given twice (YAML would keep the last)."""
    lines[place] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            name = key_node.value
            if not isinstance(name, str):
                raise UserError(
                    f"{path}, line {key_node.start_mark.line + 1}: a key must be a word, not a list or a mapping"
                )
            if name in result:
                raise UserError(
                    f"{path}, line {key_node.start_mark.line + 1}: {_dotted((*place, name))} is given twice"
                )
            result[name] = _build(value_node, (*place, name), lines, path)
            lines[*place, name] = key_node.start_mark.line + 1
        return result
    if isinstance(node, yaml.SequenceNode):
        return [_build(item, (*place, i), lines, path) for i, item in enumerate(node.value)]
    constructor = _Yaml("")
    try:
        return constructor.construct_object(node)
    except (ValueError, yaml.YAMLError) as error:
        problem = getattr(error, "problem", None) or error
        raise UserError(f"{path}, line {node.start_mark.line + 1}: {_dotted(place)}: {problem}") from None
    finally:
        constructor.dispose()


def _place(loc: tuple, data: Any) -> tuple:
    """The part of a pydantic location that exists in the file (unions add steps of their own)."""
    place: tuple = ()
    for step in loc:
        inside = step in data if isinstance(data, dict) else isinstance(data, list) and step in range(len(data))
        if inside:
            data = data[step]
            place += (step,)
    return place


def _explain(path: Path, lines: Lines, place: tuple, error: Any, schema: dict, data: Any) -> str:
    at = lines.at(path, place)
    if error["type"] == "missing":
        name = error["loc"][-1]
        about = _node(schema, (*place, name)).get("description", "")
        return f"{at}{_dotted((*place, name))} is missing: {about}"
    if error["type"] == "extra_forbidden":
        known = list(_properties(schema, place[:-1]))
        hint = _elsewhere(place[-1], schema) or nearest(place[-1], known)
        return f"{at}unknown key {_dotted(place)}.{hint} Allowed here: {', '.join(known)}"
    if error["loc"][-1] == "[key]":
        return f'{at}"{_dotted(place)}" cannot be a name; allowed: lower-case letters, digits, ".", "_" and "-"'
    for step in place:
        data = data[step]
    if error["type"] == "value_error":
        return f"{at}{_dotted(place)}{': ' if place else ''}{error['msg'].removeprefix('Value error, ')}"
    node = _node(schema, place)
    hint = nearest(data, _choices(node, schema)) if isinstance(data, str) else ""
    return f"{at}{_dotted(place)} cannot be {json.dumps(data, default=str)}; allowed: {_allowed(node, schema)}.{hint}"


def _elsewhere(name: str, schema: dict) -> str:
    """Where a key belongs that stands in another place, with a leading space; empty where no section has it."""
    sections = [section for section in _properties(schema, ()) if name in _properties(schema, (section,))]
    return f" It belongs under {' or '.join(sections)}." if sections else ""


def _dotted(place: tuple) -> str:
    return "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in place).lstrip(".")


def _resolve(node: dict, schema: dict) -> dict:
    while "$ref" in node:
        node = schema["$defs"][node["$ref"].rsplit("/", 1)[1]] | {k: v for k, v in node.items() if k != "$ref"}
    return node


def _alternatives(node: dict, schema: dict) -> list[dict]:
    node = _resolve(node, schema)
    return [a for b in node["anyOf"] for a in _alternatives(b, schema)] if "anyOf" in node else [node]


def _node(schema: dict, place: tuple) -> dict:
    """The schema of a place in the file; empty where it has none."""
    node = schema
    for step in place:
        found: dict = {}
        for option in _alternatives(node, schema):
            if isinstance(step, int):
                found = option.get("items") or next(iter(option.get("prefixItems", [])), {}) or found
            else:
                named = option.get("properties", {}).get(step)
                free = [*option.get("patternProperties", {}).values(), option.get("additionalProperties")]
                found = named or next((f for f in free if isinstance(f, dict)), found)
        node = found
    return _resolve(node, schema)


def _properties(schema: dict, place: tuple) -> dict:
    found: dict = {}
    for option in _alternatives(_node(schema, place), schema):
        found |= option.get("properties", {})
    return found


def _choices(node: dict, schema: dict) -> list[str]:
    found = []
    for option in _alternatives(node, schema):
        found += option.get("enum", []) + ([option["const"]] if "const" in option else [])
    return [c for c in found if isinstance(c, str)]


def _allowed(node: dict, schema: dict) -> str:
    """A few words for what the schema takes at a node."""
    words = []
    for option in _alternatives(node, schema):
        if "enum" in option or "const" in option:
            words += [str(c) for c in option.get("enum", [option.get("const")])]
        elif option.get("type") in ("integer", "number"):
            kind = "a whole number" if option["type"] == "integer" else "a number"
            limits = [
                f"{sign} {option[name]}"
                for name, sign in (("minimum", ">="), ("exclusiveMinimum", ">"), ("maximum", "<="))
                if name in option
            ]
            words.append(f"{kind} {' and '.join(limits)}".strip())
        elif option.get("type") == "array":
            words.append(f"a list of at least {option.get('minItems', 0)}")
        elif option.get("type") == "object":
            words.append("a mapping of " + ", ".join(option.get("properties", {})))
        elif option.get("type") == "string":
            examples = option.get("examples") or node.get("examples")
            words.append("text" + (f" like {' or '.join(examples)}" if examples else ""))
        elif option.get("type") == "boolean":
            words.append("true or false")
    return "; ".join(dict.fromkeys(words)) or node.get("description", "see the schema")
