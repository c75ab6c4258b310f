"""Faults of a configuration file that are one mistake: a list without its brackets, keys without their indentation."""

from typing import Any

from pydantic_core import ErrorDetails

from scaleproof.ground.campaign.schema_nodes import Schema, properties_at
from scaleproof.ground.errors import Place, shortened

# What repository, configuration and split of a data set are called: as arguments of load_dataset, and elsewhere.
LOAD_ARGUMENTS = (
    ("path", "dataset", "repository", "repo", "repo_id", "dataset_name", "id"),
    ("name", "subset", "config", "config_name", "configuration", "dataset_config", "dataset_config_name"),
    ("split",),
)


def value_at(data: object, place: Place) -> object:
    """Return the value at a place of a file with the content `data`."""
    value: Any = data
    for step in place:
        value = value[step]
    return value


def join_split_lists(faults: dict[Place, ErrorDetails], data: object) -> None:
    """Join the entries of a list that lacks its brackets, as in {strategy: ddp, fsdp}, to one value: "ddp, fsdp".

    YAML reads `fsdp` as a key of its own, without a value, and pydantic calls it unknown. Its fault is removed from
    `faults`, and the key from `data`: the fault of the value before it then is that "ddp, fsdp" lacks brackets.
    """
    for place in _unknown_keys(faults):  # in the order of the file: each is joined to all entries before it
        mapping: Any = value_at(data, place[:-1])
        key = place[-1]
        earlier_keys = list(mapping)[: list(mapping).index(key)]
        if not earlier_keys or mapping[key] is not None:
            continue
        previous_key = earlier_keys[-1]
        previous_value = mapping[previous_key]
        previous_place = (*place[:-1], previous_key)
        is_number = isinstance(previous_value, int) and str(key).isdigit()  # 1,024 is two numbers, and the first may do
        if is_number or (previous_place in faults and isinstance(previous_value, str | int)):
            mapping[previous_key] = f"{previous_value}, {key}"
            faults.setdefault(previous_place, {**faults[place], "type": "int_type"})
            del faults[place], mapping[key]


def join_dedented_keys(faults: dict[Place, ErrorDetails], schema: Schema, data: object) -> None:
    """Make one fault of an empty section and the keys of it that stand below, not indented.

    Their own faults, "unknown key", are removed from `faults`.
    """
    keys: dict[Place, list[str]] = {}  # place of a section -> its keys
    for place in _unknown_keys(faults):
        mapping: Any = value_at(data, place[:-1])
        earlier_keys = list(mapping)[: list(mapping).index(place[-1])]
        empty_key = next((key for key in reversed(earlier_keys) if mapping[key] is None), None)
        section = (*place[:-1], empty_key) if empty_key is not None else ()
        if section in faults and place[-1] in properties_at(schema, section):
            keys.setdefault(section, []).append(str(place[-1]))
            del faults[place]
    for section, names in keys.items():
        advice = f"its keys need two blanks more before them than it has: {shortened(', '.join(names), 100)}"
        faults[section] = {**faults[section], "type": "value_error", "msg": advice}


def join_load_arguments(faults: dict[Place, ErrorDetails], data: object) -> None:
    """Make one fault of the arguments of `datasets.load_dataset` that stand as keys in the row of a corpus.

    `data`: the content of a table of corpora.
    """
    for row in {place[:-1]: None for place in _unknown_keys(faults) if len(place) == 2}:
        mapping: Any = value_at(data, row)
        given = [next((key for key in names if key in mapping), None) for names in LOAD_ARGUMENTS]
        keys = [key for key in given if key]
        unknown = [place for place in _unknown_keys(faults) if place[:-1] == row and place[-1] in keys]
        is_of_hub = mapping.get("source", "dataset") in ("dataset", "datasets", "hub", "huggingface", "hf")
        is_meant = mapping.get("source") == "dataset" or given[1] or given[2]  # else files of a repository
        has_name = given[0] is not None and "/" in str(mapping[given[0]])
        if not (unknown and is_of_hub and is_meant and has_name) or "files" in mapping:
            continue
        defaults = zip(given, ("", "default", "train"), strict=True)
        arguments = [str(mapping[key] if key else default) for key, default in defaults]
        lines = [f"load: [{shortened(', '.join(arguments), 200)}]"]
        lines += ["source: dataset"] * (mapping.get("source") != "dataset")
        lines += ["revision: main"] * ("revision" not in mapping)
        fault = faults[unknown[0]]
        for key in (*keys, "source", "load"):
            faults.pop((*row, key), None)
        advice = f"in place of {', '.join(keys)} write {', '.join(lines)}"
        faults[unknown[0]] = {**fault, "type": "value_error", "msg": advice}


def _unknown_keys(faults: dict[Place, ErrorDetails]) -> list[Place]:
    return [place for place, fault in faults.items() if fault["type"] == "extra_forbidden"]
