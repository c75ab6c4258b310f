"""The JSON schema of a configuration file, looked up by places of the file."""

from collections import Counter
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

from scaleproof.ground.errors import Place

Schema = dict[str, Any]  # JSON schema, or a part of it


@lru_cache
def schema_of(model: type[BaseModel]) -> Schema:
    """Return the JSON schema of a model. It is for messages alone, as it takes longer than reading a campaign."""
    return model.model_json_schema()


def follow_reference(node: Schema, schema: Schema) -> Schema:
    """Return a node with its `$ref`, if any, replaced by the definition that this names."""
    while "$ref" in node:
        name = node["$ref"].rsplit("/", 1)[1]
        node = schema["$defs"][name] | {key: value for key, value in node.items() if key != "$ref"}
    return node


def union_members(node: Schema, schema: Schema) -> list[Schema]:
    """Return the schemas of which a value must match one: a union's members, nested ones too, else the node itself."""
    node = follow_reference(node, schema)
    if "anyOf" not in node:
        return [node]
    return [alternative for member in node["anyOf"] for alternative in union_members(member, schema)]


def node_at(schema: Schema, place: Place) -> Schema:
    """Return the schema of a place, {} for an unknown one; of alternatives that know it, the last counts."""
    node = schema
    for step in place:
        inner: Schema = {}
        for option in union_members(node, schema):
            if isinstance(step, int):
                prefix = option.get("prefixItems", [])  # of a tuple: a schema for each place
                inner = option.get("items") or (prefix[step] if step < len(prefix) else {}) or inner
            else:
                named = option.get("properties", {}).get(step)
                # Without `named`: the first schema for keys of any name (`additionalProperties` may be a bool). Under
                # `vary` free axes stand beside the other keys, though the schema has them under `settings`.
                of_settings = option.get("properties", {}).get("settings", {}).get("additionalProperties")
                free = [*option.get("patternProperties", {}).values(), option.get("additionalProperties"), of_settings]
                inner = named or next((entry for entry in free if isinstance(entry, dict)), inner)
        node = inner
    return follow_reference(node, schema)


def properties_at(schema: Schema, place: Place) -> Schema:
    """Return the keys that are allowed below a place, each with its schema."""
    properties: Schema = {}
    for option in union_members(node_at(schema, place), schema):
        properties |= option.get("properties", {})
    return properties


def meant_mappings(value: object, node: Schema, schema: Schema) -> list[Schema]:
    """Return which of the several mappings that a node takes `value` is meant to be: that of its most telling key.

    A key tells the more, the fewer mappings have it: {config: x, layers: 4} is a model of transformers. Several are
    returned where nothing tells them apart; none where the node takes no several mappings, or `value` is none.
    """
    mappings = [option for option in union_members(node, schema) if option.get("properties")]
    if len(mappings) < 2 or not isinstance(value, dict):
        return []
    n_having = Counter(key for option in mappings for key in option["properties"])
    telling = [sorted((1 / n_having[key] for key in value if key in o["properties"]), reverse=True) for o in mappings]
    return [option for option, of_option in zip(mappings, telling, strict=True) if of_option == max(telling)]


def choices_at(node: Schema, schema: Schema) -> list[str]:
    """Return the words that are allowed at a node. Returns [] where it is not a choice of words."""
    choices: list[Any] = []
    for option in union_members(node, schema):
        choices += option.get("enum", [])
        if "const" in option:
            choices.append(option["const"])
    return [choice for choice in choices if isinstance(choice, str)]
