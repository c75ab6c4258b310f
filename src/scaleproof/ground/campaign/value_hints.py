"""What is meant where a configuration file has a value that it cannot have: the word, number or list to write."""

import json
import math
import operator
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from scaleproof.ground.campaign.command import placeholders
from scaleproof.ground.campaign.corpus_hints import FILE, own_text_hint
from scaleproof.ground.campaign.hub_names import HUB_NAME
from scaleproof.ground.campaign.look_alikes import bullet_text, look_alike_text, plain_letters, valid_name
from scaleproof.ground.campaign.schema_nodes import Schema, choices_at, node_at, properties_at, union_members
from scaleproof.ground.errors import Place, did_you_mean, nearest_name, same_name, shortened

# What is to be said of keys of other programs that have no key here -> these keys.
NOT_HERE = {
    "Only data parallelism is measured.": r"(tensor|pipeline|sequence|context|expert)_(model_)?parallel\w*|[tpce]p",
    "The hub's token is the variable HF_TOKEN, in no file.": r"(hf_|hub_|auth_|use_auth_|access_)?token",
    "Ranks are started and find each other by themselves; leave it out.": r"(machine|node|local|global)_rank|rank"
    r"|(rdzv|master|dashboard|main_process|main_training)_\w+|same_network|hostfile|compute_environment|launcher",
    "Other settings of a strategy's library cannot be changed; leave it out.": r"(ddp_)?find_unused_\w+|static_graph"
    r"|(fsdp|deepspeed|ds|ddp)_(config|plugin|kwargs)"
    r"|stage3_\w+|gradient_as_bucket_view|broadcast_buffers|\w*wrap_policy|sync_module_states|use_orig_params"
    r"|limit_all_gathers|state_dict_type|\w+_gradients|\w+_partitions|sub_group_size",
    "It follows from the device: NCCL on GPUs, Gloo on CPUs; leave it out.": r"(?!dynamo)\w*backend|nccl|gloo",
    "Samples come from files of tokens, without a data loader; leave it out.": r"data_?loader|shuffle"
    r"|(dataloader_)?(num_workers|pin_memory|prefetch_factor|persistent_workers|drop_last)",
    "The validation loss is taken once, at the end; leave it out.": r"eval_(steps|iters|interval|strategy)",
    "A run has steps, not epochs: work.steps.": r"(num_|max_|n_)?(train_)?epochs?",
    "It follows from steps, global_batch and seq_len; leave it out.": r"(num_|n_|total_|train_)*(tokens|samples)"
    r"|(tokens|samples)_per_(step|batch|run|epoch)",
    "Every figure is measured, with intervals of 95 %; leave it out.": r"metrics?|statistics?|alpha|confidence(_\w+)?",
    "The models have none; leave it out.": r"(convert_)?sync_?(batch_?norm|bn)|\w*dropout\w*",
    "Results go to results/, and nothing else is logged or saved; leave it out.": r"loggers?|(wandb|tensorboard)\w*"
    r"|report_to|callbacks|checkpoint_(dir|interval|every\w*)|(save|log|logging|resume)(_\w+)?"
    r"|outputs?|(output|root|default_root|run)_dir|(enable_)?(progress_bar|checkpointing)",
    "No other file is read: vary lists what differs; an anchor (&x) stands at its first use, *x repeats it.": (
        r"defaults|hydra|extends|inherits?|_(target|partial|recursive|convert)_"
    ),
}
INCLUDES = re.compile(r"\W?(?:includes?|imports?|_?base_?|based_on|inherit_from|parent|template|ref)", re.IGNORECASE)
PERCENT = r"^[0-9]+(\.[0-9]+)? ?%$"  # of question.Percent
PROGRAMS = ' Programs vary by a placeholder: command: "{program}", and vary: {program: [..., ...]}.'
FREE = (r"\S", r"^[^\s]+$")  # of texts, and of paths
NAMES = (r"^[a-z0-9][a-z0-9._-]*$", r"^[a-z0-9][a-z0-9-]*$")
NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?) ?([A-Za-z]*)")  # number and unit: 30s, 10 min, 1e3
DECIMAL = re.compile(r"[0-9]+,[0-9]+(?: ?[A-Za-z%]+)?")  # a decimal with the comma of other languages
GROUPED = re.compile("(?<=[0-9])[\u00a0\u2009\u202f'’](?=[0-9]{3}(?![0-9]))")  # other marks of thousands than a comma
THOUSANDS = re.compile(r"[1-9][0-9]{0,2}(?:,[0-9]{3})+(?: ?[A-Za-z%]+)?")
PER_CENT = re.compile(r"([1-9][0-9]?(?:\.[0-9]+)?) ?(?:%|percent|per cent|pct)?")
SECONDS = {"seconds": 1, "minutes": 60}  # unit of a key -> its seconds
SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([mgt])(i?)b?", re.IGNORECASE)  # 16GiB, 80G, 16000 MB
PLACEHOLDER = re.compile(r"<[^<>]+>|\$?\{[^{}]+\}|\.\.\.|…")  # left over from an example: <your corpus>
BETWEEN = re.compile(r"[\s,;|+&\u3001]+(?:(?:and|or)\s+)?")  # what people write between the entries of a list
RANGE = re.compile(r"([1-9][0-9]*) ?(?:-|to|\.\.) ?([1-9][0-9]*)")
PAIR = re.compile(r"(\w+)\s*(?:[-=]>|[:=]=?)\s*(.*\S)")  # a key and its value, without the blank that YAML wants
CELL = re.compile(r"([a-z0-9]+(?:-offload)?)-n?([0-9]+x[0-9]+)")  # strategy and geometry in the name of a cell
# Models of images and of speech, by names that no model of language has.
NO_LANGUAGE = re.compile(
    r"(?:wide[-_]?)?resne(?:t|xt)(?:[-_]?\d.*)?|vgg[-_]?\d.*|alexnet|(?:efficient|mobile|dense)net.*|convnext.*"
    r"|(?:vit|swin|deit)[-_](?:[tsblh]|tiny|small|base|large|huge)(?:[-_\d].*)?|yolov?\d.*|whisper(?:-.*)?|wav2vec.*",
    re.IGNORECASE,
)
WEIGHTS = ("/", ".bin", ".pt")  # no config.json
# What people write in place of a text with a pattern -> how it is written. The first: ddp-n1x2, 1X2, [1, 2].
FORMS = {
    r"(?:[a-z][a-z0-9]*(?:-offload)?-)?[n([]?([1-9][0-9]*)(?:[\sx*×,:]+|by)([1-9][0-9]*)[)\]]?": r"\1x\2",
    r"0x([1-9][0-9]*)": r"1x\1",
    r"([1-9][0-9]*)(?: ?(?:gpu|device|process)\w*)?": r"1x\1",
    r"bpe[\W_]?([1-9][0-9]*)": r"bpe-\1",
    r"bpe[\W_]?([1-9][0-9]*)k": r"bpe-\g<1>000",
    r"([0-9.,]+) ?mi?b": r"\1 MB",
    r"([0-9.,]+) ?gi?b": r"\1 GB",
    r"(?:0|([1-9][0-9]*))\.([0-9]) ?gi?b": r"\1\g<2>00 MB",  # budgets are whole numbers
    r"([0-9.,]+) ?docs": r"\1 documents",
    r"https?://[^/]+/(?:datasets/)?([\w.-]+/[\w.-]+)/?": r"\1",  # an address of owner/name
}
TRUTHS = dict.fromkeys(("on", "yes", "y", "true", "enable", "enabled", "inductor"), "true")
TRUTHS |= dict.fromkeys(("off", "no", "n", "false", "disable", "disabled"), "false")
LIMITS = (
    ("minimum", ">=", operator.ge),
    ("exclusiveMinimum", ">", operator.gt),
    ("maximum", "<=", operator.le),
    ("exclusiveMaximum", "<", operator.lt),
)
OF_SINGLE_CELLS = ("cells", "exclude", "compare")  # sections that describe cells one by one
OF_CELLS = ("vary", *OF_SINGLE_CELLS)  # sections with the keys of several other sections


def nearest_valid_name(text: str) -> str:
    """Return ` Write "my-notes".` for "My Notes". Returns "" if there is nothing to suggest."""
    name = valid_name(text)
    return f' Write "{name}".' if name and name != text else ""


def one_value_hint(place: Place, value: object, options: list[Schema], schema: Schema) -> str:
    """Return a hint at a wrong value of a key that takes one value: the word, number or mapping to write.

    `options`: the schemas of what the key takes. Returns "" where there is nothing to suggest.
    """
    choices = [word for option in options for word in choices_at(option, schema)]
    if isinstance(value, str) and (letters := look_alike_text(value)):
        plain = plain_letters(value)
        if _is_allowed(plain, options, choices):
            return f"{letters} Write {plain}."
        return f"{letters}{one_value_hint(place, plain, options, schema)}"
    if isinstance(value, dict) and [*value] in (["name"], [place[-1]]):  # corpus: {name: mine}
        value = [*value.values()]
    if value is not None and not isinstance(value, list):
        return (
            _number_hint(value, options, node_at(schema, place).get("unit", ""))
            or _truth_hint(value, options)
            or own_text_hint(place, value)
            or _form_hint(value, options)
            or _mapping_hint(value, options, schema)
            or _word_hint(place, value, options, choices)
            or _text_hint(value, options)
        )

    if value and place[-1:] == ("command",):
        if any(" " in str(word) for word in value):
            return PROGRAMS
        return f" Write {shortened(' '.join(map(str, value)))}."
    if not value:
        return ""
    if not all(_is_allowed(entry, options, choices) for entry in value):  # perhaps values of another key
        return _form_hint(value, options) or _mapping_hint(value, options, schema)
    if len(value) == 1:
        return f" Write {shortened(value[0], 40)}."
    if place[0] in ("cells", "exclude"):  # an entry is one combination of values
        entries = ", ".join(f"{{{place[-1]}: {item}}}" for item in value[:3])
        return f" Write an entry for each: [{entries}]."
    axes = properties_at(schema, ("vary",)) if "vary" in properties_at(schema, ()) else ()
    if place[0] in OF_CELLS or place[-1] not in axes:  # `vary` cannot take the list
        return ""
    return f" Several values go under vary: {{{place[-1]}: [{shortened(', '.join(map(str, value)), 60)}]}}."


def _number_hint(value: object, options: list[Schema], unit: str) -> str:
    """Return a hint at a number that a person has written in another way: "30 s", "1,000", "5 %", "1/2", "1e3".

    `unit`: the unit of the key. Returns "" where there is nothing to suggest.
    """
    text = str(value).strip("“”„‘’").replace("\N{MINUS SIGN}", "-")  # the quotes and digits of word processors
    text = "".join(str(unicodedata.decimal(character, character)) for character in text)  # any digits, but no "³"
    text = re.split(" //|#", GROUPED.sub(",", text))[0].rstrip(",;}])")  # a comment of C, or without its blank; JSON
    # {learning_rate: 0,001} is two keys to YAML, which `join_split_lists` has joined to "0, 001".
    if re.fullmatch("[0-9]+(, [0-9]+)+", text):
        text = text.replace(", ", ",")
    if THOUSANDS.fullmatch(text) or DECIMAL.fullmatch(text):
        text = text.replace(",", "" if THOUSANDS.fullmatch(text) else ".")
    seconds = _parse_seconds(text) if unit in SECONDS else None
    if seconds is not None and _is_allowed(seconds / SECONDS[unit], options):
        return f" Write {seconds / SECONDS[unit]:g} ({unit})."
    if percent := PER_CENT.fullmatch(text):
        is_plain = percent[1] == text
        is_ratio = is_plain and 1 < float(text) < 2  # 1.05 may be 5 %, too
        if not is_ratio and any(option.get("pattern") == PERCENT for option in options):
            return f" Write {percent[1]} %."
        if unit.startswith("part of") and (not is_plain or float(text) >= 5):  # a plain 2 may be anything
            return f" Write {float(percent[1]) / 100:g}{f' for {text} %' * is_plain}."
    if "steps" in unit and (thousands := re.fullmatch(r"([1-9][0-9]{0,3}|[0-9]\.[0-9])k", text, re.I)):
        return f" Write {float(thousands[1]) * 1000:.0f}."

    if fraction := re.fullmatch(r"([0-9]+)/([1-9][0-9]*)", text):
        quotient = int(fraction[1]) / int(fraction[2])
        if _is_allowed(quotient, options):
            return f" Write {quotient:g}."

    if unit == "GB" and (size := SIZE.fullmatch(text)):
        text = f"{float(size[1]) * (1024 if size[3] else 1000) ** ' kMGT'.index(size[2].upper()) / 1e9:.6g}"
    match = NUMBER.fullmatch(text) if isinstance(value, str | float) else None
    if match is None or not any(word.startswith(match[2]) for word in ("x", *unit.split())):  # a unit, cut short: "min"
        return ""
    # "5s" are seconds, not 5 steps, though "steps" begins with s, too.
    is_of_other_unit = match[2] == "s" and unit != "seconds"
    number = float(match[1])
    if is_of_other_unit or math.isinf(number) or not _is_allowed(number, options):
        return ""
    return f" Write {int(number) if number.is_integer() else match[1]}."


def _parse_seconds(text: str) -> float | None:
    """Read a time as people and schedulers write it: 30s, 5 min, 2h, 1 day, 1:30:00. Returns None for other texts."""
    if match := re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?(s|sec|seconds?|m|min|minutes?|h|hours?|d|days?)", text):
        return float(match[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[match[2][0]]
    if match := re.fullmatch(r"(?:([0-9]{1,3})-)?([0-9]{1,3}):([0-9]{2}):([0-9]{2})", text):
        days, hours, minutes, seconds = (int(digits or 0) for digits in match.groups())
        return days * 86400 + hours * 3600 + minutes * 60 + seconds
    return None


def _form_hint(value: object, options: list[Schema]) -> str:
    """Return a hint at a text in another form than its pattern has: "2 gpus" for 1x2. Returns "" for other values."""
    strict = [text for option in options if not re.search(text := option.get("pattern", ""), "word")]
    text = str(value)
    matches = [(re.fullmatch(form, text, re.IGNORECASE), written) for form, written in FORMS.items()]
    for form in (
        text.lower(),
        *(match.expand(written) for match, written in matches if match),
    ):  # a checksum in capitals
        if form != value and any(re.search(pattern, form) for pattern in strict):
            return f" Write {form}."
    return ""


def _truth_hint(value: object, options: list[Schema]) -> str:
    """Return a hint at yes, on, "true" and the like, which YAML 1.2 takes for words. Returns "" for other values."""
    word = str(value).casefold()
    takes_truth = any(option.get("type") == "boolean" for option in options)
    return f" Write {TRUTHS[word]}." if takes_truth and word in TRUTHS else ""


def _text_hint(value: object, options: list[Schema]) -> str:
    """Return a hint at a number that would be a text of the right form in quotes; "" for other values."""
    of_form = [option for option in options if option.get("pattern")]
    return " Put it into quotes." if type(value) in (int, float) and _is_allowed(str(value), of_form) else ""


def _mapping_hint(value: object, options: list[Schema], schema: Schema) -> str:
    """Return the mapping to write for a value; "" where there is nothing to suggest."""
    mappings = [option["properties"] for option in options if option.get("properties")]  # each: key -> its schema
    if not mappings or isinstance(value, dict):
        return ""
    nodes = [(key, node) for mapping in mappings for key, node in mapping.items()]
    keys = {key for key, _ in nodes}
    if isinstance(value, list):
        inner_keys = [key for entry in value for key in (entry if isinstance(entry, dict) else [""])]
        if inner_keys and len({*inner_keys} & keys) == len(inner_keys):
            return f' Take the "- " (or the brackets) before {", ".join(inner_keys)} away.'
        return _axis_hint(value, nodes, schema)

    text = str(value)
    if "files" in keys and FILE.search(text) and "://" not in text:  # a row of corpora
        return f" Write {{source: text, files: [{shortened(text, 60)}]}}."
    if "tokens" in keys and (placeholders(text) or (isinstance(value, int) and value > 1)):  # per_step: 8192
        return f" Write {{tokens: {json.dumps(value)}}}."
    if (pair := PAIR.fullmatch(text)) and pair[1] in keys and ": " in pair[2]:
        return f" Write {{{shortened(text)}}}."
    pairs = [PAIR.fullmatch(part) for part in re.split(r"\s*[,;]\s*", text)]
    if "=" in text and all(part and part[1] in keys for part in pairs):
        return f" Write {{{', '.join(f'{part[1]}: {part[2]}' for part in pairs if part)}}}."
    if pair and pair[1] in keys:
        return f" Write {pair[1]}: {pair[2]}, with a colon and a blank."
    rounds = RANGE.fullmatch(text)  # repeats: 3-10
    if rounds and 3 <= int(rounds[1]) < int(rounds[2]) and "at_most" in keys:
        return f" Write {{resolve: 3 %, at_least: {rounds[1]}, at_most: {rounds[2]}}}."
    cell = CELL.fullmatch(text)  # ddp-n1x2
    if cell and "geometry" in keys:
        return f" Write {{strategy: {cell[1]}, geometry: {cell[2]}}}."

    # "ddp" -> "strategy"; the first key that takes a word
    key_of_word = {word: key for key, node in reversed(nodes) for word in choices_at(node, schema)}
    word = text.casefold()
    if word not in key_of_word:
        word = nearest_name(word, key_of_word) or ""
    if word:
        return f" Write {{{key_of_word[word]}: {word}}}."
    return f" Write {{command: {shortened(value)}}}." if " " in text and "command" in keys else ""


def _axis_hint(values: list[object], nodes: list[tuple[str, Schema]], schema: Schema) -> str:
    """Return a hint to write a list under the key of `nodes` that takes all its values: ` Write {strategy: [ddp]}.`."""
    words = [str(value) for value in values]
    for key, node in nodes:
        for option in union_members(node, schema):
            if set(words) <= {*choices_at(option.get("items", {}), schema)}:
                return f" Write {{{key}: [{', '.join(words)}]}}."
    return ""


def _word_hint(place: Place, value: object, options: list[Schema], choices: list[str]) -> str:
    """Return a hint at a word: the allowed word, example or name that it resembles. Returns "" where there is none."""
    if isinstance(value, bool | dict | None):
        return ""
    text = str(value)
    if PLACEHOLDER.fullmatch(text):
        return " It stands for a value of yours."
    if place[-1:] == ("model",) and "://" not in text and (file := re.search(r"\.py(:|$)", text)):
        return f" Write {{module: {shortened(text, 60)}{'' if file[1] else ':FUNCTION'}}}."
    if place[-1:] == ("model",) and FILE.search(text) and "://" not in text and not text.endswith(WEIGHTS):
        return f" Write {{config: {shortened(text, 60)}}}."
    if any(option.get("pattern", "").endswith("{40}$") for option in options):
        return " The command that prints the commit: scaleproof model fetch OWNER/NAME."
    may_be_of_hub = any("hub" in option.get("properties", {}) for option in options)
    if may_be_of_hub and NO_LANGUAGE.fullmatch(text.rpartition("/")[2]):
        own = "your own program trains it: workload: {command: ...} (docs/measure-mine.md)"
        return f" {shortened(text, 60)} is no model of language, and these alone are trained here; {own}."
    if may_be_of_hub and HUB_NAME.fullmatch(text):
        return f" A model of the hub: scaleproof model fetch {value} prints what to write."
    text_options = [option for option in options if option.get("type") == "string"]
    could_be_name = isinstance(value, str) and "/" not in text and re.search(r"[a-z]", valid_name(text))
    is_name = could_be_name and any(option.get("pattern") in NAMES for option in text_options)
    words = BETWEEN.split(unicodedata.normalize("NFKC", text))  # a wide comma, too
    is_free = any(option.get("pattern") in FREE for option in options)  # any text is allowed, also with commas
    if len(words) > 1 and not is_free and all(_is_allowed(word, options, choices) for word in words):
        one_name = f"; one name has no blanks: {valid_name(text)}" * bool(is_name)
        return f" Several stand apart: {', '.join(words)}{one_name}."

    examples = [str(example) for option in text_options for example in option.get("examples", [])]
    like_value = [example for example in examples if re.findall("[0-9]", example) == re.findall("[0-9]", text)]
    if hint := did_you_mean(value, [*choices, *like_value]):  # a number of an example is nobody's meaning
        return hint
    words = re.split(r"[\W_]+", text)
    named = {*words} & {*choices} or {same_name(word, choices) for word in words} - {None}
    if len(named) == 1 and {"no", "not"}.isdisjoint(words):  # ddp_find_unused_parameters_true, torch.bfloat16, gpu:0
        return f' Did you mean "{named.pop()}"?'
    if may_be_of_hub and isinstance(value, str) and HUB_NAME.fullmatch(f"owner/{text}"):
        return f" A model of the hub has its owner before it: scaleproof model fetch OWNER/{text} prints what to write."
    return nearest_valid_name(text) if is_name else ""


def list_hint(value: object, array: Schema, schema: Schema) -> str:
    """Return a hint at a value that lacks the brackets of a list, ` Write [ddp].`, or "". `array`: its schema."""
    if isinstance(value, list | None):
        return ""
    beginning = next(iter(value), "") if isinstance(value, dict) else value  # of "– strategy: ddp" YAML makes a key
    if bullet := bullet_text(str(beginning)):
        return f" Its {bullet}."
    items = array.get("items") or [*array.get("prefixItems", []), {}][0]  # of a tuple: its first entry
    options = union_members(items, schema)
    takes_mappings = any(option.get("type") == "object" for option in options)
    if isinstance(value, dict) and takes_mappings:
        return " Each begins with a hyphen and a blank, or all stand in brackets: [{...}, {...}]."
    if hint := _mapping_hint(value, options, schema):
        return f" Write [{hint.removeprefix(' Write ').removesuffix('.')}]."

    entries: list[Any] = [value]
    if isinstance(value, dict):  # {values: [ddp, fsdp]}, {beta1: 0.9, beta2: 0.95}
        entries = [entry for inner in value.values() for entry in (inner if isinstance(inner, list) else [inner])]
        entries = [*value] if all(entry is None for entry in entries) else entries  # {ddp, fsdp}
    elif isinstance(value, str):  # "ddp, fsdp", "(0.9, 0.95)"; of lines such as -ddp, YAML makes "-ddp -fsdp"
        words = BETWEEN.split(re.sub(r"(^|\s)-(?=[a-z])", r"\1", unicodedata.normalize("NFKC", value).strip("()[]")))
        has_numbers = any(option.get("type") == "integer" for option in options)
        entries = [_as_number(re.sub("/$", "/*", word), has_numbers) for word in words]  # a folder: its files
    has_length = len(entries) == array.get("maxItems", len(entries)) and len(entries) >= array.get("minItems", 0)
    choices = choices_at(items, schema)
    are_allowed = has_length and all(_is_allowed(entry, options, choices) for entry in entries)
    return f" Write [{shortened(', '.join(map(str, entries)), 60)}]." if are_allowed else ""


def _as_number(word: str, can_be_whole: bool) -> float | str:
    """Return the number that a word of a list is, or the word: "0.9" -> 0.9, and "8" -> 8 where `can_be_whole`."""
    if can_be_whole and re.fullmatch("[0-9]{1,9}", word):
        return int(word)
    return float(word) if NUMBER.fullmatch(word) and word.isascii() and "." in word else word


def placeholder_hint(place: Place, value: object, data: dict[str, object]) -> str:
    """Return a hint at an unknown key: a placeholder of the command, or a corpus one level too deep; else "".

    `value`: of the key; `data`: the content of the file.
    """
    name = str(place[-1])
    files: list[Any] = value if isinstance(value, list) and value else [value]
    if INCLUDES.fullmatch(name) and all(isinstance(file, str) for file in files):
        is_file = all(file.endswith((".yaml", ".yml")) for file in files)
        if is_file or (len(place) == 1 and "title" in data):
            return next(f" {hint}" for hint in NOT_HERE if hint.startswith("No other file"))
    if len(place) == 2 and isinstance(value, dict) and "source" in value:
        return f" Names of corpora stand at the top of the file, without `{place[0]}`."
    workload = data.get("workload")
    command = workload.get("command") if isinstance(workload, dict) else None
    if not isinstance(command, str):
        return next((f" {hint}" for hint, keys in NOT_HERE.items() if re.fullmatch(keys, name.lower())), "")
    if name in placeholders(command):
        return f" Values of {{{name}}} stand under vary: {{{name}: [{shortened(value)}]}}."
    if f"{{{name}}}" in command:
        valid_form = re.sub(r"\W", "_", name.lower()).lstrip("_0123456789")
        return f" Placeholders are of small letters, digits and _: write {{{valid_form}}} in both places."
    if name == "command" and place[0] in OF_CELLS:
        return PROGRAMS
    others = ", ".join(re.findall(r"\{[A-Za-z][\w-]*\}", command))
    hint = f" It has {others}." if others else ""
    return f" workload.command has no {{{name}}}.{hint}" if place[0] in ("vary", "cells", "exclude") else ""


def _is_allowed(value: object, options: list[Schema], choices: Sequence[str] = ()) -> bool:
    """Return whether a text or number is one of `choices`, or has type, pattern and limits of one of `options`."""
    if isinstance(value, str):
        patterns = [option.get("pattern", "") for option in options if option.get("type") == "string"]
        if choices:  # an option without a pattern allows the choices alone
            patterns = [pattern for pattern in patterns if pattern]
        return value in choices or any(re.search(pattern, value) for pattern in patterns)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    types = ("integer", "number") if isinstance(value, int) or value.is_integer() else ("number",)  # 3.0 is 3
    for option in options:
        limits = [(holds, option[name]) for name, _, holds in LIMITS if name in option]
        if option.get("type") in types and all(holds(value, limit) for holds, limit in limits):
            return True
    return False
