"""What a key of a configuration file takes, in a few words."""

import json

from scaleproof.ground.campaign.config import ENTRIES, TOKENIZER
from scaleproof.ground.campaign.corpora import BUDGET
from scaleproof.ground.campaign.geometry import GEOMETRY
from scaleproof.ground.campaign.schema_nodes import Schema, union_members
from scaleproof.ground.campaign.value_hints import LIMITS, PERCENT
from scaleproof.ground.errors import plural

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
    GEOMETRY: "nodes x devices of each, from 1x1 to 99999x999,",
}


def words_for_allowed(node: Schema, schema: Schema) -> str:
    """Describe in a few words what the schema takes at a node: "ddp; fsdp; ...", "a whole number >= 1 (samples)"."""
    words = [word for option in union_members(node, schema) for word in _words_for_alternative(option, node, schema)]
    if not words or {*words} == {"text", "a whole number", "a number", "true or false"}:
        return str(node.get("description", "text, a number, true or false"))
    return "; ".join(dict.fromkeys(words))


def _words_for_alternative(option: Schema, node: Schema, schema: Schema) -> list[str]:
    """Return words for the values that one alternative (`option`) of a node takes.

    A choice of words gives several texts, ["ddp", "fsdp"]; another type gives one, ["a whole number >= 1 (steps)"].
    """
    kind = option.get("type")
    if "enum" in option or "const" in option:
        return [str(choice) for choice in option.get("enum", [option.get("const")])]
    if kind in ("integer", "number"):
        noun = "a whole number" if kind == "integer" else "a number"
        limits = [f"{sign} {option[name]}" for name, sign, _ in LIMITS if name in option]
        unit = "" if node.get("unit", "none") == "none" else f" ({node['unit']})"  # the node's, for all alternatives
        return [f"{noun} {' and '.join(limits)}".strip() + unit]
    if kind == "array":
        examples = option.get("examples") or node.get("examples")
        like = f" like [{', '.join(map(str, examples[0]))}]" if examples else ""
        return [_words_for_lists(option, schema) + like]
    if kind == "object":
        entry = option.get("additionalProperties")
        each = f", each {words_for_allowed(entry, schema)}" if isinstance(entry, dict) else ""
        keys = ", ".join(option.get("properties", {}))
        return [f"a mapping of {keys}{_example_mapping(option)}" if keys else f"a mapping of names{each}"]
    if kind == "string":
        return [_words_for_texts(option, node)]
    return ["true or false"] if kind == "boolean" else []


def _example_mapping(option: Schema) -> str:
    """Return ` like {cells: all}`, or "" for a mapping without an example."""
    example = json.dumps([*option.get("examples", []), ""][0]).replace('"', "")
    return f" like {example}" if example else ""


def _words_for_lists(option: Schema, schema: Schema) -> str:
    """Describe the lists that an alternative takes: "a list of at least 1 entry, each ..."."""
    least, most = option.get("minItems", 0), option.get("maxItems")
    item: Schema = option.get("items") or [*option.get("prefixItems", []), {}][0]  # of a tuple: its first entry
    each = f", each {words_for_allowed(item, schema)}" if item else ""
    if least == most:
        return f"a list of {plural(least, 'entry', 'entries')}{each}"
    numbers = {"at least": least, "at most": most}
    limits = " and ".join(f"{word} {plural(number, 'entry', 'entries')}" for word, number in numbers.items() if number)
    return f"a list of {limits}{each}" if limits else f"a list{each}"


def _words_for_texts(option: Schema, node: Schema) -> str:
    """Describe the texts that an alternative takes: the meaning of its pattern, the length, examples."""
    words = PATTERNS.get(option.get("pattern", ""), "text")
    if "maxLength" in option:
        of_length = f" of at most {option['maxLength']} characters"
        words = words.replace("text", f"text{of_length}", 1) if words.startswith("text") else words + of_length
    examples = map(str, option.get("examples") or node.get("examples", []))
    like = " or ".join(example for example in examples if example not in words)  # no word of a choice once more
    return f"{words} like {like}" if like else words
