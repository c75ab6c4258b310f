"""What is said of a fault in a configuration file: file, line, key, what is allowed, and the nearest name."""

import json
import math
import re
import unicodedata
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from scaleproof.ground.campaign.allowed_words import NAME_WORDS, words_for_allowed
from scaleproof.ground.campaign.campaign_paths import OF_CORPORA
from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.campaign.joined_faults import (
    join_dedented_keys,
    join_load_arguments,
    join_split_lists,
    value_at,
)
from scaleproof.ground.campaign.look_alikes import look_alike_text, plain_letters
from scaleproof.ground.campaign.model_shapes import SHAPES, EncoderShape
from scaleproof.ground.campaign.schema_nodes import (
    Schema,
    choices_at,
    meant_mappings,
    node_at,
    properties_at,
    schema_of,
    union_members,
)
from scaleproof.ground.campaign.value_hints import (
    OF_CELLS,
    OF_SINGLE_CELLS,
    PAIR,
    list_hint,
    nearest_valid_name,
    one_value_hint,
    placeholder_hint,
)
from scaleproof.ground.campaign.yaml_faults import assignment_text
from scaleproof.ground.errors import Place, did_you_mean, same_name, shortened

ALLOWED = re.compile(r"(?:; allowed: |Allowed here: ).{60,}?(?=\. [A-Z]|\.?$)", re.DOTALL)  # up to a hint, or the end
# Key that people write into a campaign -> key of a profile.
OF_PROFILES = {"partition": "slurm_partition", "queue": "slurm_partition", "account": "slurm_account"}
OF_PROFILES |= {name: name for name in ("qos", "constraint")}
# Key at the top of another program's file -> the program.
OF_PROGRAMS = {"apiVersion": "Kubernetes", "compute_environment": "Accelerate", "defaults": "Hydra"}
OF_PROGRAMS |= {"services": "Docker Compose", "trainer": "Lightning", "output_dir": "the Trainer of transformers"}
OF_PROGRAMS |= {"parameters": "Weights & Biases", "executor": "Snakemake", "jobs": "GitHub Actions"}
OF_PROGRAMS |= dict.fromkeys(("zero_optimization", "train_micro_batch_size_per_gpu"), "DeepSpeed")
KEY_AND_COLON = re.compile(r"(\w+) ?:(?=\S)(.*)", re.DOTALL)  # which YAML takes for one word
VARIABLE = re.compile(r"\$[\w{(]|\{\{")  # $X, ${x.y}, $(nproc), {{ x }}
ACCENTS = re.compile("[\u0300-\u036f]")  # as characters of their own
PATH_OF_KEYS = re.compile(r"\w+(/\w+)+")  # work/steps
EMPTY_KEY = '""'  # the spelling of a key without a name
MOST_MESSAGES = 20


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
    """Return one message for each faulty place of a file, in the order of lines, at most MOST_MESSAGES.

    `error`: what pydantic says of the content `data` by a model of this `schema`. A file of another kind gets one.
    """
    known = list(properties_at(schema, ()))
    program = next((f", but a file of {program}" for key, program in OF_PROGRAMS.items() if key in data), "")
    has_none = bool(known) and set(known).isdisjoint(data)
    if has_none and all(isinstance(row, dict) and "source" in row for row in data.values()):
        return [f"{path} {OF_CORPORA}"]
    if has_none and (program or not any(_key_hint((key,), known, schema, data) for key in data)):
        keys = shortened(", ".join(data), 100)
        return [f"{path} is no campaign{program}; it has {keys}; allowed: {', '.join(known)}"]

    faults = _deepest_faults(error.errors(), schema, data)
    order = {_file_place(fault["loc"], data): number for number, fault in enumerate(error.errors())}  # pydantic's
    # In the order of lines. On one line, faults of the whole file come last, others in pydantic's order.
    places_by_line = sorted(faults, key=lambda place: (lines.get(place, 0), not place, order.get(place, 0)))
    places = places_by_line[:MOST_MESSAGES]
    messages = {place: _fault_message(path, lines, place, faults[place], schema, data) for place in places}

    hints = " ".join(messages.values())
    for place, fault in faults.items():
        # A missing key is only misspelt if another message says: Did you mean "key"?
        if fault["type"] == "missing" and f'"{fault["loc"][-1]}"?' in hints:
            messages.pop(place, None)
    return _allowed_said_once(list(dict.fromkeys(messages.values())))


def _deepest_faults(reported: list[ErrorDetails], schema: Schema, data: object) -> dict[Place, ErrorDetails]:
    """Reduce pydantic's errors to one fault for each place in the file; () is the whole file.

    A place with another faulty place inside it is left out.
    """
    errors = [error for error in reported if _is_of_meant_alternative(error["loc"], schema, data)]
    # Of a union's errors at one place, a fault inside a mapping says more than "not a number".
    errors.sort(key=lambda fault: fault["type"] not in ("missing", "value_error"))
    faults: dict[Place, ErrorDetails] = {}
    for error in errors:
        faults.setdefault(_file_place(error["loc"], data), error)

    if ("workload", "command") in faults:  # the placeholders of a faulty command, which would be keys here
        unknown_keys = [place for place, fault in faults.items() if fault["type"] == "extra_forbidden"]
        of_command = {place for place in unknown_keys if place[0] in OF_CELLS}
        faults = {place: fault for place, fault in faults.items() if place not in of_command}
    join_split_lists(faults, data)
    join_dedented_keys(faults, schema, data)
    if not properties_at(schema, ()):  # a table of corpora
        join_load_arguments(faults, data)

    outer_places = {place[:depth] for place in faults for depth in range(1, len(place))}
    return {place: fault for place, fault in faults.items() if place not in outer_places}


def _allowed_said_once(messages: list[str]) -> list[str]:
    """Remove the long list of what is allowed from a message where an earlier message has the same list."""
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


def _is_of_meant_alternative(loc: Place, schema: Schema, data: object) -> bool:
    """Return whether pydantic's error at `loc` is of the alternative that is meant, by the most telling of its keys.

    Where a key takes one of several mappings (a union), pydantic reports the errors of each alternative: as a shape of
    an encoder, a GPT-2 has unknown keys. In `loc` the name of an alternative follows the place of the union, and is not
    in the file: workload, model, EncoderShape.
    """
    for depth, step in enumerate(loc):
        union = loc[:depth]
        if _file_place(loc[: depth + 1], data) == union:
            meant = meant_mappings(value_at(data, union), node_at(schema, union), schema)
            return not meant or meant[0]["title"] in str(step)
    return True


def dotted(place: Place) -> str:
    """Return a place in the form in which people write it: vary.strategy[0]."""
    parts = [f"[{step}]" if isinstance(step, int) else f".{step or EMPTY_KEY}" for step in place]
    return shortened("".join(parts).removeprefix("."), 200)


def _file_place(loc: Place, data: Any) -> Place:
    """Return the steps of a pydantic location that are in the file. Other steps name alternatives of unions."""
    place: Place = ()
    for step in loc:
        is_key = isinstance(data, dict) and step in data
        is_index = isinstance(data, list) and step in range(len(data))
        if is_key or is_index:
            data = data[step]
            place += (step,)
    return place


def _fault_message(path: Path, lines: Lines, place: Place, error: ErrorDetails, schema: Schema, data: Any) -> str:
    """Return the message on pydantic's `error` at `place` of a file with the content `data`, after path and line."""
    where = lines.place_prefix(path, place)
    if error["type"] == "missing":
        return f"{where}{_missing_text(place, error['loc'][-1], schema)}"
    if error["type"] == "extra_forbidden":
        mapping: Any = value_at(data, place[:-1])
        of_any = properties_at(schema, place[:-1])
        meant = meant_mappings(mapping, node_at(schema, place[:-1]), schema)
        in_other = bool(meant) and place[-1] in of_any
        likely = meant[:1] if in_other else meant
        known = {key: None for option in likely for key in option["properties"]} or of_any
        hint = "" if in_other else _key_hint(place, list(known), schema, data)
        if not hint and (in_other or (hint := did_you_mean(str(place[-1]), list(of_any)))):  # of another alternative
            hint += f" It does not go with {', '.join(key for key in mapping if key in known)}."
        hint += look_alike_text(str(place[-1]))
        if known and place[-1] not in known:
            return f"{where}unknown key {dotted(place)}.{hint} Allowed here: {', '.join(known)}"
        place = place[:-1]  # a mapping stands where a word is expected
    if error["loc"][-1:] == ("[key]",):  # the fault is in the name of the key
        return f'{where}"{dotted(place)}" cannot be a name; allowed: {NAME_WORDS}.{nearest_valid_name(str(place[-1]))}'

    value = value_at(data, place)
    if error["type"] == "value_error":
        colon = ": " if place else ""
        return f"{where}{dotted(place)}{colon}{error['msg'].removeprefix('Value error, ')}"
    is_infinite = isinstance(value, float) and math.isinf(value)  # 1e400 is infinite, too
    text = "infinite" if is_infinite else shortened(json.dumps(value, default=str, ensure_ascii=False))
    fault = 'has no value (empty, null or behind a "#")' if value is None else f"cannot be {text}"
    if isinstance(value, str) and "=" in value and place in lines:
        texts = path.read_text(encoding="utf-8-sig").split("\n")
        if assignments := assignment_text(texts, lines[place] + 1):
            return f"{path}{assignments}"
    sentence = _allowed_sentence(place, schema, value)
    return f"{where}{dotted(place)} {fault}; {sentence}{_task_text(sentence, data)}"


def _task_text(sentence: str, data: dict[str, Any]) -> str:
    """Return which task goes with the model that a `sentence` suggests; "" where it suggests none, or the task fits."""
    workload = data.get("workload")
    is_classification = isinstance(workload, dict) and workload.get("task") == "classification"
    model = next((name for name in SHAPES if sentence.endswith(f' Did you mean "{name}"?')), None)
    if model is None or isinstance(SHAPES[model], EncoderShape) == is_classification:
        return ""
    if is_classification:
        return f" {model} goes with task: language-modelling; encoders are encoder-small and encoder-large."
    return f" {model} goes with task: classification, and a corpus with labels such as ag_news."


def _missing_text(place: Place, name: Any, schema: Schema) -> str:
    """Describe what is missing at `place`: the key `name`, or the entry of a list with the index `name`."""
    if isinstance(name, int):
        options = union_members(node_at(schema, place), schema)
        length = next((option["minItems"] for option in options if option.get("minItems")), name + 1)
        return f"{dotted(place)}: a list of {length} is expected, and entry {name + 1} is missing"
    place_of_key = (*place, name)
    node = node_at(schema, place_of_key)
    if choices_at(node, schema):
        return f"{dotted(place_of_key)} is missing; allowed: {words_for_allowed(node, schema)}"
    description = f": {node['description']}" if node.get("description") else ""
    return f"{dotted(place_of_key)} is missing{description}"


def _key_hint(place: Place, known: list[str], schema: Schema, data: Any) -> str:
    """Return a hint at what is meant by the unknown key at `place`: another key, or another section of the file.

    `known`: the keys that are allowed there; `data`: the file's content. Returns "" where there is nothing to suggest.
    """
    name = str(place[-1])
    name = plain_letters(name) if look_alike_text(name) else name
    name = ACCENTS.sub("", unicodedata.normalize("NFD", name))  # géométrie
    name = name.replace("/", ".") if PATH_OF_KEYS.fullmatch(name) else name
    if hint := placeholder_hint(place, value_at(data, place), data):
        return hint
    section, _, own_name = name.lstrip("+~").rpartition(".")  # of "work.steps", as Hydra has it
    if len(place) == 1 and own_name in properties_at(schema, tuple(section.split("."))):
        return f" It belongs under {section}."
    if len(place) > 1 and value_at(data, place) in choices_at(node_at(schema, place[:-1]), schema):  # model: {name: x}
        return f" Write {place[-2]}: {value_at(data, place)}."
    of_cell = place[0] in OF_CELLS  # the key describes one cell, or several, which have no keys of other sections
    look_alike = unicodedata.normalize("NFKC", name)  # a wide colon, a space that does not break
    if name != look_alike and ":" in look_alike:
        return f' A colon or a blank in it only looks like one: write "{look_alike}".'
    if (pair := KEY_AND_COLON.match(name)) and pair[1] in known:  # execution:{precision: bf16}
        return f' A blank is missing behind the colon: write "{pair[1]}: " before "{shortened(pair[2], 40)}".'
    if (pair := PAIR.fullmatch(name)) and "=" in name and pair[1] in known:
        return f" Write {pair[1]}: {pair[2]}."
    if name != name.strip():
        return f' Write "{name.strip()}", without the blanks beside it, or what only looks like a space.'
    hint = _same_key_hint(name, known) or _top_hint(place, schema)
    geometry = same_name(name, ("geometry",))  # "geometry" for its synonyms, such as nodes; else None
    if not hint and geometry in (None, name):  # another section has a key `nodes` (trace), which is seldom meant
        hint = _other_section_hint(name.rpartition(".")[2], schema, of_cell, value_at(data, place))  # of "work.seed"
    in_list = (0,) if place[0] == "vary" else ()  # vary: {fp16: true}, whose keys take lists
    key = next((k for k in known if name in choices_at(node_at(schema, (*place[:-1], k, *in_list)), schema)), None)
    if not hint and key:  # a value for a key, fp16: {enabled: true}; "fused" is near to a key, too
        near = "" if key in ("precision", "strategy") else did_you_mean(name, known)
        beside: Any = value_at(data, place[:-1])
        is_there = in_list and key in beside
        hint = near or ("" if is_there else f" Write {key}: {f'[{name}]' if in_list else name}.")
    value = value_at(data, place)
    if not hint and isinstance(value, dict) and value and all(same_name(inner, known) for inner in value):
        hint = did_you_mean(name, known) or f" Its keys stand here without `{name}`."  # optimizer: {params: {lr: 0.1}}
    if hint := hint or (did_you_mean(name, known) if of_cell else ""):
        return hint

    if of_profile := OF_PROFILES.get(name.removeprefix("slurm_")):
        return f" It is the profile's business: {of_profile} in profiles/slurm (docs/cluster.md)."
    of_workload = properties_at(schema_of(Campaign), ("workload",))
    if len(place) == 2 and name in of_workload and not properties_at(schema, ()):  # in a row of a corpus
        return f" It belongs into a campaign: workload: {{{name}: ...}}."
    keys = [(section, key) for section in _sections(schema) for key in properties_at(schema, section)]
    plurals = (key for _, key in keys if f"{key}s" == name)
    other_name = geometry or same_name(name, (key for _, key in keys)) or next(plurals, None)
    if other_name and (
        hint := _other_section_hint(other_name, schema, of_cell, value_at(data, place), is_synonym=True)
    ):
        return hint
    if of_cell:
        return ""
    if hint := did_you_mean(name, known):
        return hint
    places = ((*section, key) for section, key in keys if section[0] not in OF_CELLS)
    of_value = (place for place in places if name in choices_at(node_at(schema, place), schema))  # fp16: true
    return next((f" It belongs under {dotted(place[:-1])}, as {place[-1]}: {name}." for place in of_value), "")


def _top_hint(place: Place, schema: Schema) -> str:
    """Return the hint that the key at `place` is a section of the file, and indented by mistake. "" for other keys."""
    if len(place) == 1 or place[-1] not in properties_at(schema, ()):
        return ""
    # A section with axes, such as `work`, is no such mistake under `vary`, which takes the axes without the section.
    if place[0] in OF_CELLS and {*properties_at(schema, ("vary",))} & {*properties_at(schema, (place[-1],))}:
        return f" Its keys stand here without `{place[-1]}`."
    return " It belongs at the top of the file, not indented."


def _same_key_hint(name: str, known: list[str]) -> str:
    """Return a hint at the `known` key that `name` means: a synonym, "execution.precision", a plural; else ""."""
    plurals = (key for key in known if f"{name}s" == key or f"{key}s" == name)
    own_key = same_name(name, known) or same_name(name.rpartition(".")[2], known) or next(plurals, None)
    return "" if own_key is None else f' Did you mean "{own_key}"?'


def _sections(schema: Schema) -> list[Place]:
    """Return the places in a file that may hold keys: the keys at its top, then the keys one level below."""
    top_places: list[Place] = [(key,) for key in properties_at(schema, ())]
    return top_places + [(*place, key) for place in top_places for key in properties_at(schema, place)]


def _other_section_hint(name: str, schema: Schema, of_cell: bool, value: object, is_synonym: bool = False) -> str:
    """Return a hint at the sections that have the key `name`: " It belongs under work.".

    Returns "" where none has it, and for a single cell also where several have it and none is likelier. `of_cell`: the
    key stands in the description of a single cell, where only keys that can vary are allowed. `value`: of the key; a
    list belongs under `vary`. `is_synonym`: the file has another word for `name`, which is said then.
    """
    sections = [
        dotted(place)
        for place in _sections(schema)
        if place[0] not in OF_SINGLE_CELLS and name in properties_at(schema, place)
    ]
    if len(sections) > 1 and "vary" in sections:  # a key of `vary` belongs to another section as well
        sections = ["vary"] if isinstance(value, list) else [section for section in sections if section != "vary"]
    top_sections = [section for section in sections if "." not in section]  # likelier than those inside of sections
    sections = top_sections or sections
    as_name = f", as {name}" * is_synonym

    if not sections and name in properties_at(schema, ("compare", 0)):  # `sections` leaves OF_SINGLE_CELLS out
        return " It belongs under an entry of compare."
    if not of_cell:
        return f" It belongs under {' or '.join(sections)}{as_name}." if sections else ""
    if not sections or (len(sections) > 1 and not top_sections):  # of several inside of sections, none is likelier
        return ""
    advice = "It is the same for all cells: another value needs a campaign of its own."
    return f" It belongs under {' or '.join(sections)}{as_name}. {advice}"


def _allowed_sentence(place: Place, schema: Schema, value: object) -> str:
    """Describe what is allowed in place of a faulty `value`: `allowed: ...`, with a hint at what was meant."""
    node = node_at(schema, place)
    options = union_members(node, schema)
    lists = [option for option in options if option.get("type") == "array"]
    hint = list_hint(value, lists[0], schema) if lists else ""
    if isinstance(value, str) and VARIABLE.search(value):
        hint = " Variables are not filled in: write the value itself."
    elif not lists or (isinstance(value, str) and choices_at(node, schema)):  # cells: all
        hint = one_value_hint(place, value, options, schema) or hint
    allowed = words_for_allowed(node, schema)
    described = node_at(schema, place[:-1]) if isinstance(place[-1], int) else node  # of an entry: its list
    if not hint and allowed.startswith(("a name of", "text")) and "description" in described:
        hint = f" {described['description']}"  # says which name or text is meant
    return f"allowed: {allowed}.{hint}" if allowed else f".{hint}"
