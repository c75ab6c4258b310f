"""The one exception that means "the input is wrong": it is printed as it stands and the exit code is 2."""

import difflib
import errno
import json
import os
import re
from collections.abc import Iterable
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from scaleproof.ground.file_kinds import no_utf_8_fault
from scaleproof.ground.json_faults import fault_of_json, newer_version
from scaleproof.ground.number_format import integer
from scaleproof.ground.pointers import pointer_fault
from scaleproof.ground.snakemake_command import snakemake_command

Place = tuple[str | int, ...]  # of a value in a file: keys and indices


class UserError(Exception):
    """Something that the person at the keyboard can fix.

    The message says what is wrong, where (file and key), what is allowed, and the nearest valid name.
    `key` names the place in a configuration file, if there is one; whoever knows the file adds its line.
    """

    def __init__(self, message: str, key: Place = ()) -> None:
        super().__init__(message)
        self.key = key


# What other programs call it: what it is called here. Letters alone, small; of several the first that is allowed.
OTHER_WORDS = """
gpu gpus nvidia nccl amd rocm hip rccl: cuda | gloo: cpu
float16 half amp 16 16mixed 16true: fp16 | bfloat16 mixed bf16mixed bf16true: bf16
amp dtype paramdtype mixedprecision: precision | backend accelerator usecpu usecuda nocuda: device | attn: attention
gpu gpus ngpus worldsize nproc ntasks: devices | subset configuration: load
distributeddataparallel: ddp | dataparallel: dp | hybridshard: hsdp | offload offloadoptimizer cpuoffload: strategy
fsdp2 fullysharded fullyshardeddataparallel fullyshard fullshard fullshardautowrap shardgradop: fsdp | noshard: ddp
deepspeed: zero2 | stage0: zero0 | stage1 z1 deepspeedstage1: zero1 | none: single | stage3 z3 deepspeedstage3: zero3
float32 float full 32 32true: fp32 | tensorfloat32: tf32 | stage2 z2 deepspeedstage2: zero2
zerooffload deepspeedstage2offload: zero2-offload | deepspeedstage3offload: zero3-offload
deepspeed zerostage zerooptimization distributed distributedbackend parallel parallelism strategies: strategy
nodes nnodes gpu gpus ngpus gres nvidiagpu gpuspernode gpuspertask devices worldsize nproc nprocpernode: geometry
ntasks machines processes: geometry | reducebucketsize allgatherbucketsize bucketcapmb: bucket_elements
wd: weight_decay | gradientcheckpointing: activation_checkpointing | optim: optimizer | fused: fused_optimizer
lm languagemodeling: language-modelling | classify: classification | bert: encoder-small
flashattention flashattention2 flashattn fa2 fa3: flash | crossentropy: plain | localbatchsize: micro_batch
lr: learning_rate | warmup: ramp_steps warmup_steps | iterations iters epochs totalsteps: steps | epsilon: eps
warmupsteps: ramp_steps | geometry: on | margin: by | cells: hold_out | gpt2: gpt2-small | cmd script: command
batch batchsize bs: global_batch | microbatchsize microbatchsizepergpu batchsize perdevicebatchsize: micro_batch
gradientaccumulation gradientaccumulationsteps gradaccum gradaccumsteps accumulategradbatches: accumulation
gradclip gradclipnorm gradclipval gradientclipval gradientclipping clipgrad clipgradnorm gradnorm: max_grad_norm
blocksize sequencelength seqlength contextlength maxtokens: seq_len | contextlength: context | beta1 beta2: betas
throughput tokenspersec: tokens_per_s | modelorpath: model | dynamobackend dynamo: compile
nlayer hiddenlayers: layers | nhead attentionheads: heads | nembd hidden hiddensize dmodel: width | hiddensize: d_model
dataset data: corpus | path file: files place config | column textcolumn: field | url: urls
huggingface hf: hub repository | hub: repository | txt: text | json: jsonl | trainer: execution | training: work
type kind: source name | name description: title | include experiments variants: cells | license: licence | auto: derive
repeats: pairs | baseline before: a question | candidate after: b | nsight nsightsystems: nsys
runs nruns repetitions seeds: repeats | seeds: seed | max maximum: at_most largest | min minimum: at_least
threads: threads_per_device | cpuspertask threads: cpus_per_device | than: better_than | pytorch kineto: torch.profiler
matrix foreach grid sweep params parameters varies: vary | npositions maxpositionembeddings: context seq_len
124m gpt2124m: gpt2-small | 355m gpt2355m: gpt2-medium | 774m gpt2774m: gpt2-large | 15b gpt215b: gpt2-xl
ram memory mem memmb memgb mempercpu mempernode mempergpu: memory_per_device | minutes: seconds | warmupratio: schedule
walltime timeout runtime: time_limit | spawn: fresh | fork: forked | scheduler lrscheduler: schedule
"""
# Words of other programs' names that make no difference here: max_epochs, dataset_name, lr_scheduler_type.
FILLERS = re.compile(r"(?:^|[_-])(?:adam|implementation|max|name|num|ratio|torch|train|type)(?=[_-]|$)")
# Near by their letters to what they do not mean: devices that are not supported, processes (of "work").
UNRELATED = ("tpu", "npu", "xpu", "hpu", "ipu", "vpu", "intel", "worker", "workers", "t5small", "t5base", "t5large")
BYTES = re.compile("[\udc80-\udcff]+")  # of a name, as Python decodes it with "surrogateescape"


def did_you_mean(name: object, allowed: Iterable[str]) -> str:
    """Return the hint ` Did you mean "x"?` for a mistyped `name`, to end a message.

    Returns "" if nothing allowed resembles it. Case and punctuation do not count, and synonyms of the field are known.
    """
    close = nearest_name(name, allowed)
    return f' Did you mean "{close}"?' if close is not None else ""


def no_such(what: str, name: object, allowed: Iterable[str], heading: str = "Allowed") -> str:
    """Return `there is no cell "dpp-n1x2". Did you mean "ddp-n1x2"? Cells: ddp-n1x2`."""
    names = [str(choice) for choice in allowed]
    return f'there is no {what} "{shortened(name)}".{did_you_mean(name, names)} {heading}: {", ".join(names) or "none"}'


def nearest_name(name: object, allowed: Iterable[str]) -> str | None:
    """Return the allowed name that `name` resembles most.

    Returns None where `name` is allowed, resembles no allowed name, or means another thing (UNRELATED).
    """
    choices = [str(choice) for choice in allowed]
    by_letters = {_letters(choice): choice for choice in reversed(choices)}  # of equal letters the first choice counts
    letters = _letters(str(name)[:200])
    if str(name) in by_letters.values() or letters in UNRELATED:
        return None

    # From the surest rule to the least sure: another spelling or another program's word, a beginning, few edits.
    same = same_name(name, by_letters.values())
    if same is not None:
        return same

    longer = [choice for choice in choices if _letters(choice).startswith(letters)]  # zero2-n1x2 for zero2
    if longer and len(letters) >= 2 and "/" not in str(name):
        lengths = sorted(map(len, longer))
        return min(longer, key=len) if lengths[:1] != lengths[1:2] else None

    nearest = _nearest_letters(letters, list(by_letters))
    if nearest is not None:
        return by_letters[nearest]

    begun = [choice for choice in choices if re.fullmatch(f"{re.escape(_letters(choice)[:4])}(ing|ed|ora|s)", letters)]
    if len(begun) == 1 and 4 <= len(begun[0]) < 8:  # trace, of tracing; corpus, of corpora
        return begun[0]
    # Its last or first word, which a single name has: hours, of device_hours; gradient_checkpointing; bucket_size.
    words = re.split("[_-]", str(name).casefold())
    for word in (words[-1], words[0]):
        with_word = [choice for choice in by_letters.values() if word in re.split(r"[\W_]+", choice.casefold())]
        is_whole_choice = with_word == [word] and word != words[-1]  # steps, of steps_per_epoch
        if len(word) >= 4 and word.isalpha() and len(with_word) == 1 and len(words) <= 3 and not is_whole_choice:
            return with_word[0]
    plain = FILLERS.sub("", str(name))  # last, all of this again without words that make no difference
    return nearest_name(plain, choices) if plain not in ("", name) else None


def _nearest_letters(letters: str, choices: list[str]) -> str | None:
    """Return the choice that is nearest to `letters`, all as `_letters` returns them. Returns None if none is near."""
    edits = {choice: edit_distance(letters, choice) for choice in choices}
    slips = [choice for choice in choices if len(choice) == len(letters) and edits[choice] == 1]
    if len(slips) == 1 and (len(letters) >= 3 or sorted(letters) == sorted(slips[0])):  # ddp rather than dp, of dpp; ba
        return slips[0]
    # Below this ratio, and farther than two edits, the nearest name is no help.
    if close := difflib.get_close_matches(letters, choices, n=2, cutoff=0.7):  # none of two as near, nor fp16 for fp64
        nearness = {(edits[choice], difflib.SequenceMatcher(None, choice, letters).ratio()) for choice in close}
        return close[0] if len(nearness) == len(close) and 2 * edits[close[0]] < len(letters) else None
    allowed_edits = min(2, (len(letters) - 1) // 2)  # 1 in three letters, 2 in five
    near = [choice for choice in choices if edits[choice] + (choice[:1] != letters[:1]) <= allowed_edits]
    return min(near, key=edits.__getitem__, default=None)


def same_name(name: object, allowed: Iterable[str]) -> str | None:
    """Return the allowed name that equals `name` but for case and punctuation, or that other programs call `name`."""
    by_letters = {_letters(choice): choice for choice in map(str, allowed)}
    forms = dict.fromkeys(_letters(form[:200]) for form in (str(name), FILLERS.sub("", str(name))) if form)
    words = [word for form in forms for word in (form, *_synonyms().get(form, ()))]
    meanings = map(_letters, words)
    return next((by_letters[meaning] for meaning in meanings if meaning in by_letters), None)


@cache
def _synonyms() -> dict[str, list[str]]:
    """Return OTHER_WORDS as a table, "lr" -> ["learning_rate"]: other programs' word -> words here, likeliest first."""
    words: dict[str, list[str]] = {}
    for entry in re.split(r"[|\n]", OTHER_WORDS.strip()):
        others, _, words_here = entry.partition(":")
        for word in others.split():
            words.setdefault(word, []).extend(words_here.split())
    return words


def edit_distance(a: str, b: str) -> int:
    """Return how many insertions, deletions, replacements or swaps of neighbours make `b` of `a`; 3 for any above 2."""
    if abs(len(a) - len(b)) > 2:
        return 3
    # The table of edits (Damerau and Levenshtein), row by row: its entry [i][j] is the edits between the first i
    # characters of `a` and the first j of `b`.
    row_two_above = [0]
    row_above = list(range(len(b) + 1))
    for i, letter_a in enumerate(a, start=1):
        row = [i]
        for j, letter_b in enumerate(b, start=1):
            edits = min(row_above[j] + 1, row[j - 1] + 1, row_above[j - 1] + (letter_a != letter_b))
            are_swapped = i > 1 and j > 1 and letter_a == b[j - 2] and letter_b == a[i - 2]
            if are_swapped:
                edits = min(edits, row_two_above[j - 2] + 1)
            row.append(edits)
        row_two_above, row_above = row_above, row
    return min(row_above[-1], 3)


def path_fault(path: Path) -> str:
    """Return what is wrong with a path, to be said after it. Returns "" for a regular file or a folder.

    Examples: `: no such file or folder. Did you mean "results/demo"?`, ` is a pipe, not a regular file`.
    """
    if path.is_file() or path.is_dir():
        return ""
    if path.is_symlink() and not path.exists():
        return link_fault(path)
    if not path.exists():
        # The nearest place above that exists. If it is no folder, the fault is its own: a file, a pipe, a broken link.
        above = next((place for place in path.parents if os.path.lexists(place)), Path())
        if not above.is_dir():
            return f": {above}{path_fault(above) or ' is a file, not a folder'}"
        of_pattern = ", and a pattern is expanded by the shell alone, without quotes" * any(map(str(path).count, "*?["))
        return f": no such file or folder{of_pattern}.{nearest_path(path)}"
    kinds = {"is_fifo": "pipe", "is_socket": "socket", "is_char_device": "device", "is_block_device": "device"}
    kind = next((word for name, word in kinds.items() if getattr(path, name)()), "special file")
    return f" is a {kind}, not a regular file"


def link_fault(path: Path) -> str:
    """Return what is wrong with a broken link, to be said after its path: ` is a link that leads back to itself`."""
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            return " is a link that leads back to itself"
    target = os.readlink(path)
    return f" is {pointer_fault(target) or f'a link to {target}, which leads nowhere'}"


def nearest_path(path: Path) -> str:
    """Return a hint after a path that is not there: ` Did you mean "results/demo"?` for resluts/demo.

    Where a part of the path resembles no name in its folder, the hint lists what that folder holds.
    """
    posix_path = Path(str(path).replace("\\", "/"))  # a path may be written as on Windows
    mended = Path(posix_path.anchor)  # the path up to the present part, with its names put right
    for part in posix_path.parts[1 if posix_path.anchor else 0 :]:
        if part == ".." or (mended / part).exists():
            mended /= part
            continue
        try:
            names = sorted(child.name for child in islice(mended.iterdir(), 10_000) if not child.name.startswith("."))
        except OSError:
            return ""
        if (nearest := nearest_name(part, names)) is None:
            tails = [Path(*posix_path.parts[n:]) for n in range(len(posix_path.parts))]  # seen from folders above
            deeper = [place for name in names if os.path.lexists(place := mended / name / tails[len(mended.parts)])]
            meant = [*filter(os.path.lexists, tails[1:]), *(deeper if len(deeper) == 1 else ())]
            return f' Did you mean "{meant[0]}"?' if meant else _content_text(mended, names)
        mended /= nearest
    is_folder_for_file = path.suffix and mended.is_dir()  # config, for config.json
    return f' Did you mean "{mended}"?' if mended != path and not is_folder_for_file else ""


def _content_text(folder: Path, names: list[str]) -> str:
    """Return a hint that lists the first ten of the `names` in a folder."""
    if not names:
        return f" In {folder}: {'hidden names alone' if any(folder.iterdir()) else 'nothing'}"
    return f" In {folder}: {shortened(', '.join(names[:10]), 300)}{', ...' * (len(names) > 10)}"


def _letters(text: str) -> str:
    """Return a name without case and punctuation, by which names are compared; one of punctuation alone, as it is."""
    return re.sub(r"[\W_]+", "", text.casefold()) or text


def printable(text: str, besides: str = "") -> str:
    """Return the text with its unprintable characters spelled out, except those in `besides`.

    Bytes of a name that the locale could not decode are read as UTF-8, and spelled out where they are none: "\\xe4".
    """
    text = BYTES.sub(lambda run: run[0].encode(errors="surrogateescape").decode(errors="backslashreplace"), text)
    return "".join(c if c.isprintable() or c in besides else ascii(c)[1:-1] for c in text)


def shortened(value: object, limit: int = 80) -> str:
    """Return a value as a message has it: printable, and not longer than `limit` characters."""
    text = printable(str(value)[:1000])
    return text if len(text) <= limit else f"{text[:limit]}..."


def describe_first_fault(error: Any) -> str:
    """Return the first thing that is wrong with a file of records, in words. `error`: what reading it raised.

    As: "window.steps is missing", 'window.steps cannot be "x"; allowed: a valid integer', "no JSON, or cut off (...)".
    """
    if not hasattr(error, "errors"):  # not of pydantic
        return _fault_of_parsing(error)
    faults = error.errors()
    first = faults[0]
    kind = first["type"]
    # The status of a run chooses the model of its record; pydantic puts it before the keys.
    keys = [str(key) for key in first["loc"] if key not in ("ok", "failed")]
    if kind.startswith("union_tag"):  # the key whose value chooses a model has another value, or is missing
        keys.append(first["ctx"]["discriminator"].strip("'"))
    place = ".".join(keys)
    message = str(first["msg"]).removeprefix("Value error, ")

    if kind in ("missing", "union_tag_not_found"):
        siblings = [fault for fault in faults if fault["loc"][:-1] == first["loc"][:-1]]
        unknown_keys = [str(fault["loc"][-1]) for fault in siblings if fault["type"] == "extra_forbidden"]
        similar = nearest_name(keys[-1], unknown_keys)
        return shortened(f"{place} is missing" + (f'; it has "{similar}" instead' if similar else ""), 300)
    if kind == "union_tag_invalid":
        tag = shortened(repr(first["ctx"]["tag"]), 80)
        return shortened(f"{place} cannot be {tag}; allowed: {first['ctx']['expected_tags']}", 300)
    if kind == "extra_forbidden":
        return shortened(f"unknown key {place}", 300)
    if kind == "json_invalid":
        return _json_fault(first["input"], message.removeprefix("Invalid JSON: "))
    if kind == "too_short":
        return f"{shortened(place, 100)} is empty"
    return _fault_of_value(place, first, message)


def _fault_of_value(place: str, fault: dict[str, Any], message: str) -> str:
    """Return what is wrong with the value at `place` ("": the whole file), by pydantic's `fault` and its `message`."""
    if not place:
        kind = "null" if fault["input"] is None else f"a {type(fault['input']).__name__}"
        return shortened(message.replace("Input should be", f"{kind} is in it, not"), 300)
    if not message.startswith("Input should be "):
        return shortened(f"{place} {json.dumps(fault['input'], default=str)[:80]}: {message}", 300)
    allowed = message.removeprefix("Input should be ").partition("ionary or instance of ")[0]
    for technical, plain in (("valid integer", "whole number"), ("valid array", "list"), ("valid dict", "mapping")):
        allowed = allowed.replace(technical, plain)
    if fault["type"] not in ("literal_error", "enum"):  # whose messages list the allowed values with commas
        allowed = allowed.partition(",")[0]  # "a whole number, unable to parse ..."
    value = "null" if fault["input"] is None else shortened(repr(fault["input"]), 80)
    return f"{shortened(place, 100)} {newer_version(place, value, allowed) or f'cannot be {value}; allowed: {allowed}'}"


def _fault_of_parsing(error: Exception) -> str:
    """Return what is wrong with a JSON file, by the `error` of reading it, or of taking values from its content."""
    text = shortened(" ".join(str(error).split()).replace("could not convert string to float:", "no number:"), 200)
    if isinstance(error, json.JSONDecodeError):
        return _json_fault(error.doc, text)
    if "int_max_str_digits" in text:
        return "a number has more than 4,300 digits"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return no_utf_8_fault(error.object)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}"
    if isinstance(error, TypeError | AttributeError | IndexError) or "format code" in text:  # a text as a number
        return "it is cut off, or not what this version writes"
    return f"it has no {text}" if isinstance(error, KeyError) else text


def _json_fault(content: str | bytes, problem: str) -> str:
    """Return what is wrong with the `content` of a file that is no JSON, by what a parser says."""
    if not content:
        return "it is empty"
    start = content[:40].encode() if isinstance(content, str) else content[:40]
    is_garbled = "\N{REPLACEMENT CHARACTER}" in start.decode("utf-8", "replace")[:2]
    if fault := pointer_fault(start) or no_utf_8_fault(start) * is_garbled:
        return fault
    return shortened(f"no JSON, or cut off ({fault_of_json(content, problem)})", 300)


OF_CAMPAIGN = ("scaling_report.json", "findings.json", "runs.csv", "cells.csv", "report.html")  # beside runs/
UNMADE = ("published", "downloads", "job-logs", "forecasts")  # folders of results/ that no rule writes into


def missing_file(path: Path) -> UserError:
    """Return the error for a file that the workflow writes and that is not there, with how to make it."""
    if path.is_dir():
        return UserError(f"{path} is a folder; a file is expected")
    if path.parent.is_file():
        return UserError(f"{path.parent} is a file; the results of a campaign are a folder, results/NAME")
    return UserError(f"{path}: no such file; {_how_to_make(path, 'build it with: ')}")


def damaged_file(path: Path, why: str) -> UserError:
    """Return the error for a file that the workflow wrote and that is damaged. `why`: what is wrong with it."""
    return UserError(f"{path} is damaged ({why}); {_how_to_make(path, f'rebuild it with: rm {path} && ')}")


def without_place(fault: str, folder: Path | str) -> str:
    """Return a fault with the files of `folder` named relative to it, as records must not tell private paths."""
    place = f"{folder}/"
    # What follows "; " is the command that makes the file again: it needs the whole path, and is cut off.
    return fault.partition("; ")[0].replace(place, "") if place in fault else fault


def _how_to_make(path: Path, words: str) -> str:
    """Return `words` and the command that makes the missing file `path` of results/NAME, or why no rule can make it."""
    target = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    parts = target.parts
    # The last folder of that name counts.
    below_results = parts[len(parts) - parts[::-1].index("results") :] if "results" in parts else ()
    if len(below_results) < 2 or below_results[0] in UNMADE:
        return "no rule makes it there: the results of a campaign are in results/NAME"
    if path.name in OF_CAMPAIGN and len(below_results) > 2:
        return f"it is in the folder of the campaign: {Path(*parts[: 1 - len(below_results)])}"  # .../results/NAME
    campaigns = [] if path.is_absolute() else [file.stem for file in Path("config/campaigns").glob("*.yaml")]
    if campaigns and below_results[0] not in ("corpora", *campaigns):
        return f'there is no campaign "{below_results[0]}" here.{did_you_mean(below_results[0], campaigns)}'
    return f"{words}{snakemake_command(target)}"


def check_counts(**numbers: int) -> None:
    """Raise UserError unless all `numbers` (name of the argument -> its value) are whole and above 0."""
    for name, number in numbers.items():
        if type(number) is not int or number < 1:
            raise UserError(f"{name} cannot be {shortened(repr(number))}; allowed: a whole number from 1")


def plural(number: int, noun: str, several: str | None = None) -> str:
    """Return `1 run`, `2 runs`, `1,000 runs`; `several`: the plural, where an s does not make it."""
    return f"{integer(number)} {noun if number == 1 else several or noun + 's'}"
