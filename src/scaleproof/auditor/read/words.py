"""What labels, captions and sentences say of a configuration ("DDP, 4x A100, bf16, bs 32"), in one vocabulary."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from scaleproof.auditor.read.heading_words import in_english
from scaleproof.auditor.read.units import DEVICE

# Normalised word -> pattern. Those further up count more: "DeepSpeed ZeRO-2" is zero2, "FSDP2" is fsdp.
STRATEGIES = {
    "zero3": r"zero[ -]?(?:stage[ -]?)?3|deepspeed[ -]?(?:zero[ -]?)?(?:stage[ -]?)?3|\bzs_?3|\bz3\b|stage[ -]?3",
    "zero2": r"zero[ -]?(?:stage[ -]?)?2|deepspeed[ -]?(?:zero[ -]?)?(?:stage[ -]?)?2|\bzs_?2|\bz2\b|stage[ -]?2",
    "zero1": r"zero[ -]?(?:stage[ -]?)?1|deepspeed[ -]?(?:zero[ -]?)?(?:stage[ -]?)?1|\bzs_?1|\bz1\b|stage[ -]?1",
    "zero0": r"zero[ -]?(?:stage[ -]?)?0|\bzs_?0|deepspeed[ -]?stage[ -]?0",
    "fsdp": r"fsdp\d?|fully[ -]sharded(?: data parallel)?|full[ _]shard",
    "hsdp": r"hsdp|hybrid[ _]shard",
    "ddp": r"ddp|distributed[ -]?data[ -]?parallel(?:ism)?",
    "dp": r"\bdp\b|(?<!distributed )(?<!sharded )\bdata[ -]?parallel(?:ism)?\b|nn\.dataparallel",
    "horovod": r"horovod|\bhvd\b",
    "deepspeed": r"deepspeed",
    "megatron": r"megatron",
    "tensor parallel": r"tensor[ -]parallel(?:ism)?|\btp ?=? ?\d",
    "pipeline parallel": r"pipeline[ -]parallel(?:ism)?|gpipe|\bpp ?=? ?\d|pipelined?",
    "model parallel": r"model[ -]parallel(?:ism)?",
    "parameter server": r"parameter[ -]server",
    "mirrored": r"mirrored ?strategy",
    "single": r"single[ -](?:gpu|device|process|node single)|\bserial\b|non[ -]distributed",
}
PRECISIONS = {
    "fp8": r"\bfp8\b|float8",
    "bf16": r"\bbf16(?:-mixed)?\b|bfloat16",
    "fp16": r"\bfp16\b|float16|half[ -]precision|\b16-mixed\b",
    "tf32": r"\btf32\b",
    "fp32": r"\bfp32\b|float32|full[ -]precision|single[ -]precision|\bf32\b",
    "amp": r"\bamp\b|mixed[ -]precision|automatic mixed",
    "int8": r"\bint8\b",
    "fp64": r"\bfp64\b|float64",
}
DEVICES = (
    r"(?:nvidia |geforce |tesla |quadro |amd |instinct )*(?:a100|h100|h200|b200|b300|gb200|gb300|gh200|"
    r"v100|a800|h800|h20|p100|k80|t4|l4|l40s?|a10g?|a40|a30|a6000|a5000|a4000|p40|"
    r"rtx ?a?\d{4}(?: ?ti| ?super)?|gtx ?\d{4}(?: ?ti)?|titan \w+|mi\d{2,3}[xa]?|gaudi ?\d?|tpu ?v\d\w*|"
    r"trainium\d?|\d0[6-9]0(?: ?ti)?|m[1-9] (?:max|pro|ultra)|apple m[1-9](?: (?:max|pro|ultra))?|"
    r"m[1-9](?= (?:gpu|chip|mac)))(?:[- ](?:sxm\d?|pcie|nvl|\d{2,3} ?gb))*"
)
MODELS = (
    r"gpt-?[234](?:[- ](?:small|medium|large|xl|neo|j|\d+[mb]))?|bert(?:[- ](?:base|large|tiny))?|"
    r"resnet-?\d+(?:v\d)?|vit(?:[-_ /][a-z0-9]+)*|llama[- ]?\d?(?:[.-]\d)?(?:[- ]\d+b)?|"
    r"t5(?:[- ]\w+)?|vgg-?\d+|mobilenet\w*|efficientnet\w*|mistral[- ]?\d*b?|qwen[\d.]*[- ]?[\d.]*b?|"
    r"opt-\d+\.?\d*b|densenet-?\d+|inception\w*|roberta\w*|alexnet|lstm|u-?net|nanogpt|swin\w*|bloom\w*|"
    r"pythia\w*|distilbert"
)
SPELT_OUT = {"one": 1, "single": 1, "two": 2, "dual": 2, "three": 3, "four": 4, "quad": 4}
SPELT_OUT |= {"six": 6, "eight": 8, "sixteen": 16}
_COUNT = r"(?<![A-Za-z\d.])(\d{1,5}|one|single|two|dual|three|four|quad|six|eight|sixteen)"
APPLE = re.compile(r"(?:APPLE )?M[1-9]\b.*")  # one device, whatever its number
DEVICE_PLURAL = r"(?:gpus|devices|accelerators|cards|chips|ranks|workers|tpus|processes)"
_BEFORE, _AFTER = r"(?:^|(?<=[_\-/. (,=@|:+\[]))", r"(?=$|[_\-/. ),:;+|\]'\"])"
NUMBERS = {
    "nodes": (rf"{_COUNT}[ -]?(?:x ?)?nodes?\b", r"\bn?nodes[ _=:]{0,2}(\d{1,4})\b", rf"{_BEFORE}(\d{{1,3}})n(?=\d*g)"),
    "micro_batch": (
        r"\b(?:mbs|micro[ _-]?batch(?:[ _-]size)?|batch(?: size)? per (?:gpu|device))[ _=:of]*(\d{1,6})\b",
    ),
    "global_batch": (r"\b(?:gbs|(?:global|effective|total)[ _-]batch(?:[ _-]size)?)[ _=:of]*(\d[\d,]{0,8})\b",),
    "batch": (rf"{_BEFORE}(?:bs|batch[ _-]?size|batch)[ _=:of]*(\d{{1,6}}){_AFTER}",),
    "seq_len": (
        rf"{_BEFORE}(?:sl|seq(?:[ _-]?len(?:gth)?)?|sequence length|ctx|context(?: length)?)[ _=:of]*"
        rf"(\d{{2,7}}){_AFTER}",
    ),
    "accumulation": (
        rf"{_BEFORE}(?:ga|gas|accum(?:ulation)?(?:[ _-]steps)?|grad[ _-]accum\w*)[ _=:of]*(\d{{1,4}}){_AFTER}",
    ),
}
_DEVICE_TIMES = rf"(?<![a-z0-9])(?:{DEVICES})(?<!pcie)(?: ?gpus?)? ?[x×*] ?(\d{{1,4}})(?![\w.]| ?(?:nodes?|lanes?|GB))"
_DEVICE_COUNTS = (
    rf"{_COUNT}[ _-]?(?:[x×*] ?)?(?:nvidia |tesla |amd )*(?:{DEVICE}|{DEVICES}(?:[ -]{DEVICE})?)\b",
    # "4gpu", "gpus 4", "workers=4"; "worker 2" and "GPU 3" are the names of one.
    rf"{_BEFORE}(?:n_?)?{DEVICE}[ _]?[=:] ?(\d{{1,5}}){_AFTER}",
    rf"{_BEFORE}(?:n_?)?(?:gpu|{DEVICE_PLURAL})_?(\d{{1,5}}){_AFTER}",
    rf"{_BEFORE}(?:n_?)?{DEVICE_PLURAL} (\d{{1,5}}){_AFTER}",
    rf"{_BEFORE}(?:ws|world[ _-]?size|np|nproc)[ _=:]{{0,2}}(\d{{1,5}}){_AFTER}",
    rf"{_BEFORE}(?:ddp|dp|zero\d[_-]|horovod)[_-]?(\d{{1,3}}){_AFTER}",
    _DEVICE_TIMES,
)
_NODES_BY_DEVICES = re.compile(
    rf"(\d{{1,4}}) ?nodes? ?(?:[x×*,] ?|with |of )(\d{{1,3}}) ?(?:{DEVICE}|{DEVICES})|"
    rf"(\d{{1,3}}) ?(?:{DEVICE}|{DEVICES})(?: ?/ ?node| per node)?,? ?(?:[x×*]|on|across) ?(\d{{1,4}}) ?nodes?",
    re.I,
)


@dataclass(slots=True)
class Description:
    """What a text says: words and whole numbers, by kind."""

    words: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)


_VOCABULARY = tuple(
    (
        kind,
        re.compile("|".join(f"(?:{pattern})" for pattern in patterns.values()), re.I),
        [(word, re.compile(rf"(?<![a-z]){pattern}", re.I)) for word, pattern in patterns.items()],
    )
    for kind, patterns in (("strategy", STRATEGIES), ("precision", PRECISIONS))
)
_ANY_NUMBER = re.compile(r"(?i)\d|one|single|two|dual|three|four|quad|six|eight")
_DEVICE = re.compile(rf"(?<![a-z0-9])(?:\d{{1,4}} ?[x×] ?)?({DEVICES})(?:s)?(?![a-z0-9])", re.I)
_MODEL = re.compile(rf"(?<![a-z0-9])({MODELS})(?![a-z0-9])", re.I)
# Names whose number is no count: "GPT-2 GPU", "llama2 GPU".
_NAME_WITH_VERSION = re.compile(r"(?:gpt|llama|phi|gemma|qwen|mistral|bert|cuda|rocm)-\d+", re.I)
_NUMBERS = {kind: [re.compile(pattern, re.I) for pattern in patterns] for kind, patterns in NUMBERS.items()}
_DEVICES_OF_TWO_KINDS = re.compile(r"(?i)\d ?[x×] ?[a-z][\w -]*\+ ?\d+ ?[x×] ?[a-z]")  # "2x XPU + 2x CUDA"
_NUMBER_OF_DEVICES = [re.compile(pattern, re.I) for pattern in _DEVICE_COUNTS]


def describe(text: str) -> Description:
    """Return what a label says: strategy, device, 4 devices, batch 32 of "DDP, 4x A100, bs 32"; empty if it is long."""
    result = Description()
    if not text or len(text) > 400:
        return result
    text = in_english(text)
    spaced = text.replace("_", " ") if " " not in text else text
    for kind, any_of, patterns in _VOCABULARY:
        if any_of.search(spaced):  # one search for most texts, which have none
            word = next((word for word, pattern in patterns if pattern.search(spaced)), "")
            if word:
                result.words[kind] = word
    if m := _DEVICE.search(spaced):
        result.words["device"] = " ".join(m[1].split()).upper()
    if m := _MODEL.search(spaced):
        result.words["model"] = m[1].lower()

    if not _ANY_NUMBER.search(text):
        return result
    for kind, number_patterns in _NUMBERS.items():
        if m := next(filter(None, (pattern.search(text) for pattern in number_patterns)), None):
            result.numbers[kind] = _integer(m[1])
    _count_devices(text, result)
    return result


WORD_OF_INFERENCE = re.compile(
    r"(?i)\b(?:inference|infer|serving|prefill|decod(?:e|ing)|ttft|tpot|vllm|sglang|concurrency)\b|tensorrt|llama\.cpp|"
    r"\btime[ -]to[ -]first[ -]token|\binter[ -]token|\breq(?:uest)?s? ?/ ?s|\b(?:text|token) generation\b|"
    r"\bgenerat(?:ed|ing|ion) (?:tokens|speed|throughput|latency|time)\b|\boutput tokens\b|推理|推論"
)
WORD_OF_TRAINING = re.compile(
    r"(?i)\b(?:pre-?)?train(?:ing|ed|s)?\b|\bfine-?tun\w+|\bepochs?\b|\bbackward\b|\boptimi[sz]er\b|\bddp\b|\bfsdp\b|训练"
)
LATENCY_OF_TRAINING = re.compile(r"(?i)\b(?:step|iteration|communication|network|allreduce|kernel) latency")


def is_inference(texts: Sequence[str]) -> bool:
    """Whether the first text that speaks of training or inference speaks of inference alone.

    Where none does, a latency that is none of training ("step latency") means inference.
    """
    for text in texts:
        speaks_of_training = WORD_OF_TRAINING.search(text) is not None
        if speaks_of_training or WORD_OF_INFERENCE.search(text):
            return not speaks_of_training
    return any("latency" in LATENCY_OF_TRAINING.sub(" ", text).lower() for text in texts)


def names_in(text: str) -> dict[str, set[str]]:
    """Return all strategies, precisions and models that a text names, where `describe` takes the first."""
    names: dict[str, set[str]] = {"model": {m[1].lower() for m in _MODEL.finditer(text)}}
    for kind, any_of, patterns in _VOCABULARY:
        matches = (m[0] for m in any_of.finditer(text))
        names[kind] = {next(word for word, pattern in patterns if pattern.search(match)) for match in matches}
    return names


def only_device(text: str) -> str | None:
    """Return the only device that a text names: "on A100 GPUs" -> "A100". None where it names none or several."""
    names = {" ".join(m[1].split()).upper() for m in _DEVICE.finditer(text)}
    return names.pop() if len(names) == 1 else None


def _count_devices(text: str, result: Description) -> None:
    """Add the devices that a text states to `result`: 16 of "2 nodes x 8 GPUs"; of several numbers, how many."""
    if m := _NODES_BY_DEVICES.search(text):
        nodes, per_node = map(int, (m[1], m[2]) if m[1] else (m[4], m[3]))
        result.numbers |= {"nodes": nodes, "devices_per_node": per_node, "devices": nodes * per_node}
        return
    counts = _counts_of_devices(text)
    is_single = result.words.get("strategy") == "single"
    if not counts:
        if is_single or APPLE.fullmatch(result.words.get("device", "")):
            result.numbers["devices"] = 1
    elif len(set(counts)) == 1 and counts[0] > 0 and not _DEVICES_OF_TWO_KINDS.search(text):
        if not is_single or counts[0] == 1:  # else the text contradicts itself
            result.numbers["devices"] = counts[0]
    elif any(counts):
        result.numbers["several device counts"] = len(counts)


def _counts_of_devices(text: str) -> list[int]:
    """Return the numbers of devices in a text by the first pattern that finds any: [1, 8] of "1 GPU, 8 GPUs"; or []."""
    ends_in_names = {end_in_name for start, end in spans_of_names(text) for end_in_name in range(start + 1, end + 1)}
    for pattern in _NUMBER_OF_DEVICES:
        matches = [m for m in pattern.finditer(text) if m[1]]
        # The 3090 of "RTX 3090 GPU" is none.
        if counts := [_integer(m[1]) for m in matches if not (m[1].isdigit() and m.end(1) in ends_in_names)]:
            return counts
    return []


def spans_of_names(text: str) -> list[tuple[int, int]]:
    """Return (start, end) of names of devices and strategies, whose numbers count nothing: "RTX 3090 GPU"."""
    _, any_strategy, _ = _VOCABULARY[0]
    names = [*any_strategy.finditer(text), *_NAME_WITH_VERSION.finditer(text)]
    return [*(m.span() for m in names), *(m.span(1) for m in _DEVICE.finditer(text))]


def _integer(text: str) -> int:
    """Return a printed whole number: "1,024" -> 1024, "four" -> 4."""
    return SPELT_OUT.get(text.lower()) or int(text.replace(",", ""))
