"""What labels, captions and sentences of any language say of a configuration ("DDP, 4x A100, bf16, bs 32")."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from scaleproof.auditor.read.printed_figures import DEVICE

# Normalised word -> pattern. The first pattern that matches counts: "DeepSpeed ZeRO-2" is zero2, "FSDP2" is fsdp.
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
    "megatron": r"(?<![-/])megatron(?![-_ ]?(?:bert|gpt|turing|\d))",
    "tensor parallel": r"tensor[ -]parallel(?:ism)?|\btp ?=? ?\d{1,2}(?!\d)",
    "pipeline parallel": r"pipeline[ -]parallel(?:ism)?|gpipe|\bpp ?=? ?\d{1,2}(?!\d)|^pipelined?$",
    "model parallel": r"model[ -]parallel(?:ism)?",
    "parameter server": r"parameter[ -]server",
    "mirrored": r"mirrored ?strategy",
    "single": r"single[ -](?:gpu|device|process|node single)|^serial\b|\bserial$|non[ -]distributed",
}
PRECISIONS = {
    "fp4": r"\b(?:nv|mx)?fp4\b",
    "fp8": r"\bfp8\b|float8",
    "int8": r"\bint8\b",
    "bf16": r"\bbf16(?:-mixed)?\b|bfloat16",
    "fp16": r"\bfp16\b|float16|half[ -]precision|\b16-mixed\b",
    "tf32": r"\btf32\b",
    "fp32": r"\bfp32\b|float32|full[ -]precision|single[ -]precision|\bf32\b",
    "amp": r"\bamp\b|mixed[ -]precision|automatic mixed",
    "fp64": r"\bfp64\b|float64",
}
DEVICES = (
    r"(?:nvidia |geforce |tesla |quadro |amd |instinct )*(?:a100|h100|h200|b200|b300|gb200|gb300|gh200|"
    r"v100|a800|h800|h20|p100|k80|t4|l4|l40s?|a10g?|a40|a30|a6000|a5000|a4000|p40|"
    r"rtx ?a?\d{4}(?: ?ti| ?super)?|gtx ?\d{4}(?: ?ti)?|titan \w+|mi\d{2,3}[xa]?|gaudi ?\d?|tpu ?v\d\w*|"
    r"trainium\d?|\d0[6-9]0(?: ?ti)?|m[1-9] (?:max|pro|ultra)|apple m[1-9](?: (?:max|pro|ultra))?|"
    r"m[1-9](?= (?:gpu|chip|mac))|(?:ryzen )?ai max\+? \d{3}|rx \d{4}(?: xtx?)?|arc (?:pro )?[ab]?\d{2,3}|"
    r"(?:adreno|radeon) \d{3,4}[ms]?)(?:[- ](?:sxm\d?|pcie|nvl|\d{2,3} ?gb))*"
)
MODELS = (
    r"gpt-?[234](?:[- ](?:small|medium|large|xl|neo|j|\d+[mb]))?|bert(?:[- ](?:base|large|tiny))?|"
    r"resnet-?\d+(?:v\d)?|vit(?:[-_ /][a-z0-9]+)*|t5(?:[- ]\w+)?|"
    r"llama(?![-_. ]?(?:cpp|server|cli|bench|factory))[- ]?\d?(?:[.-]\d)?(?:[- ]\d+b)?|"
    r"vgg-?\d+|mobilenet\w*|efficientnet\w*|mistral[- ]?\d*b?|qwen[\d.]*[- ]?[\d.]*b?|"
    r"opt-\d+\.?\d*b|densenet-?\d+|inception\w*|roberta\w*|alexnet|lstm|u-?net|nanogpt|swin\w*|bloom\w*|"
    r"pythia\w*|distilbert|(?:code)?gemma[- ]?\d?(?:[- ]\w?\d+b)?|phi-?\d(?:\.\d)?|mixtral|deepseek(?!-moe)[-\w]*|"
    r"yolo-?(?:v?\d+[nsmlx]?)?|whisper(?:[- ](?:tiny|base|small|medium|large))?|falcon-\d+b|smollm\d?"
)
SPELT_OUT = {"one": 1, "single": 1, "two": 2, "dual": 2, "three": 3, "four": 4, "quad": 4}
SPELT_OUT |= {"six": 6, "eight": 8, "sixteen": 16}
_COUNT = r"(?<![A-Za-z\d.])(\d{1,5}|one|single|two|dual|three|four|quad|six|eight|sixteen)"
APPLE = re.compile(r"(?:APPLE )?M[1-9]\b.*")  # one device, whatever its number
DEVICE_PLURAL = r"(?:gpus|devices|accelerators|cards|chips|ranks|workers|tpus|processes)"
_BEFORE, _AFTER = r"(?:^|(?<=[_\-/. (,=@|:+\[]))", r"(?=$|[_\-/. ),:;+|\]'\"])"
NUMBERS = {
    "tensor_parallel": (rf"{_BEFORE}(?:tp|mp) ?= ?(\d{{1,3}}){_AFTER}",),
    "pipeline_parallel": (rf"{_BEFORE}pp ?= ?(\d{{1,3}}){_AFTER}",),
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
    # "4gpu", "gpus 4", "workers=4"; "worker 2" and "GPU 3" are the names of one, "rank = 64" of a matrix (LoRA), too.
    rf"{_BEFORE}(?:n_?)?(?!rank\b){DEVICE}[ _]?[=:] ?(\d{{1,5}}){_AFTER}",
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
LONGEST_LABEL = 400  # characters
_ANY_NUMBER = re.compile(r"(?i)\d|one|single|two|dual|three|four|quad|six|eight")
_DEVICE = re.compile(rf"(?<![a-z0-9])(?:\d{{1,4}} ?[x×] ?)?({DEVICES})(?:s)?(?![a-z0-9])", re.I)
_MODEL = re.compile(rf"(?<![a-z0-9])((?:{MODELS})(?:[-_ ](?:bn|gn|v\d))?)(?![a-z0-9]|\.\d)", re.I)
# Names whose number is no count: "GPT-2 GPU", "llama2 GPU".
_NAME_WITH_VERSION = re.compile(r"(?:gpt|llama|phi|gemma|qwen|mistral|bert|cuda|rocm)-\d+", re.I)
_NUMBERS = {kind: [re.compile(pattern, re.I) for pattern in patterns] for kind, patterns in NUMBERS.items()}
_DEVICES_OF_TWO_KINDS = re.compile(r"(?i)\d ?[x×] ?[a-z][\w -]*\+ ?\d+ ?[x×] ?[a-z]")  # "2x XPU + 2x CUDA"
_NUMBER_OF_DEVICES = [re.compile(pattern, re.I) for pattern in _DEVICE_COUNTS]


@lru_cache(maxsize=50_000)
def describe(text: str) -> Description:
    """Return what a label says: strategy, device, 4 devices, batch 32 of "DDP, 4x A100, bs 32".

    Of a text longer than LONGEST_LABEL nothing is taken. The result is shared: nobody may change it.
    """
    if not text or len(text) > LONGEST_LABEL:
        return Description()
    text = in_english(text)
    result = Description(words=_words_in(text.replace("_", " ") if " " not in text else text))  # "_" of a file's name
    if not _ANY_NUMBER.search(text):
        return result

    for kind, number_patterns in _NUMBERS.items():
        if matches := [m for pattern in number_patterns if (m := pattern.search(text))]:
            result.numbers[kind] = integer_of(matches[0][1])
    _count_devices(text, result)
    return result


def _words_in(text: str) -> dict[str, str]:
    """Return the words that a text says, by kind: {"strategy": "ddp", "device": "A100"}."""
    words: dict[str, str] = {}
    for kind, any_of, patterns in _VOCABULARY:
        if any_of.search(text):  # one search is enough for most texts, which have none
            matching_words = [word for word, pattern in patterns if pattern.search(text)]
            if matching_words:
                words[kind] = matching_words[0]
    if m := _DEVICE.search(text):
        words["device"] = " ".join(m[1].split()).upper()
    if m := _MODEL.search(text):
        words["model"] = m[1].lower()
    return words


WORD_OF_INFERENCE = re.compile(
    r"(?i)\b(?:inference|infer|serving|prefill|decod(?:e|ing)|ttft|tpot|vllm|sglang|concurrency)\b|tensorrt|llama\.cpp|"
    r"\btime[ -]to[ -]first[ -]token|\binter[ -]token|\breq(?:uest)?s? ?/ ?s|\b(?:text|token) generation\b|"
    r"\bgenerat(?:ed|ing|ion) (?:tokens|speed|throughput|latency|time)\b|\boutput (?:tokens|throughput)\b|推理|推論"
)
WORD_OF_TRAINING = re.compile(
    r"(?i)\b(?:pre-?)?train(?:ing|ed|s)?\b|\bfine-?tun\w+|\bepochs?\b|\bbackward\b|\boptimi[sz]er\b|\bddp\b|\bfsdp\b|训练"
)


def is_inference(texts: Sequence[str]) -> bool:
    """Whether the first text that speaks of training or inference speaks of inference alone. A latency says neither."""
    speaking = (text for text in texts if WORD_OF_TRAINING.search(text) or WORD_OF_INFERENCE.search(text))
    return WORD_OF_TRAINING.search(next(speaking, "training")) is None


def names_in(text: str) -> dict[str, set[str]]:
    """Return all strategies, precisions and models that a text names, not one alone: {"strategy": {"ddp", "dp"}}."""
    names: dict[str, set[str]] = {"model": {m[1].lower() for m in _MODEL.finditer(text)}}
    for kind, any_of, patterns in _VOCABULARY:
        matches = (m[0] for m in any_of.finditer(text))
        names[kind] = {next(word for word, pattern in patterns if pattern.search(match)) for match in matches}
    return names


def only_device(text: str) -> str | None:
    """Return the only device that a text names: "on A100 GPUs" -> "A100". None unless it names exactly one."""
    names = {" ".join(m[1].split()).upper() for m in _DEVICE.finditer(text)}
    return names.pop() if len(names) == 1 else None


def _count_devices(text: str, result: Description) -> None:
    """Add the devices that a text states to `result`: 16 of "2 nodes x 8 GPUs".

    A text with several numbers of devices states none.
    """
    text = re.sub(r"(?i)num[_ ]workers\W{0,3}\d+", " ", text)  # of a data loader
    if m := _NODES_BY_DEVICES.search(text):
        nodes, per_node = map(int, (m[1], m[2]) if m[1] else (m[4], m[3]))  # "8 GPUs on 2 nodes"
        result.numbers |= {"nodes": nodes, "devices_per_node": per_node, "devices": nodes * per_node}
        return

    counts = set(_counts_of_devices(text))
    is_single = result.words.get("strategy") == "single"
    if not counts and (is_single or APPLE.fullmatch(result.words.get("device", ""))):
        counts = {1}
    contradicts_itself = is_single and counts != {1}
    if len(counts) == 1 and counts != {0} and not contradicts_itself and not _DEVICES_OF_TWO_KINDS.search(text):
        result.numbers["devices"] = counts.pop()


def _counts_of_devices(text: str) -> list[int]:
    """Return the numbers of devices in a text by the first pattern that finds any: [1, 8] of "1 GPU, 8 GPUs"."""
    all_matches = ([m for m in pattern.finditer(text) if m[1]] for pattern in _NUMBER_OF_DEVICES)
    for matches in filter(None, all_matches):
        # Where a number that is a part of a name may end.
        places_in_names = {place for start, end in spans_of_names(text) for place in range(start + 1, end + 1)}
        # The 3090 of "RTX 3090 GPU" is no number of devices.
        counts = [integer_of(m[1]) for m in matches if not (m[1].isdigit() and m.end(1) in places_in_names)]
        if counts:
            return counts
    return []


def spans_of_names(text: str) -> list[tuple[int, int]]:
    """Return (start, end) of names of devices and strategies, whose numbers count nothing: "RTX 3090 GPU"."""
    _, any_strategy, _ = _VOCABULARY[0]
    names = [*any_strategy.finditer(text), *_NAME_WITH_VERSION.finditer(text)]
    return [*(m.span() for m in names), *(m.span(1) for m in _DEVICE.finditer(text))]


DEVICES_HEADING = re.compile(
    rf"(?:[a-z][\w .+-]*?[ ,:(-]*)?(?:[nw] ?= ?)?(?<![a-z\d])(?P<count>\d{{1,5}})[ -]*[x×]?[ -]*"
    rf"(?P<what>{DEVICE}|nodes?|(?:nvidia )?(?:tesla )?[avhpltgb]\d{{1,4}}\w*|rtx ?\d+\w*|mi\d+\w*|t4|l4)\)?",
    re.I,
)


def devices_in(heading: str) -> int | None:
    """Return the number of devices that a heading is of: 2 of "DDP (2 GPUs)". None where it counts none."""
    m = DEVICES_HEADING.fullmatch(heading)
    if m is None or m["what"].lower().startswith("node"):
        return None
    if any(start < m.end("count") <= end for start, end in spans_of_names(heading)):
        return None  # "RTX 3090 GPU"
    return int(m["count"])


def integer_of(text: str) -> int:
    """Return a whole number that is printed or spelt out: "1,024" -> 1024, "four" -> 4, "a single" -> 1."""
    return SPELT_OUT.get(text.lower().removeprefix("a ")) or int(text.replace(",", ""))


# English -> words that mean it. Chinese, Japanese and Korean have no spaces between words: a longer one counts first.
WRITTEN_TOGETHER = {
    "scaling efficiency": "扩展效率|并行效率|加速效率|扩展性|线性度|线性加速比|スケーリング効率|並列化効率|확장 효율",
    "speedup": "加速比|加速倍数|加速倍率|スピードアップ|高速化率|가속비|속도 향상",
    "peak memory": "峰值显存占用|峰值显存|显存峰值|最大显存|峰值内存|ピークメモリ|최대 메모리",
    "memory": "显存占用|显存使用|显存|内存占用|内存|メモリ使用量|メモリ|메모리",
    "memory per gpu": "单卡显存占用|单卡显存|每卡显存",
    "throughput": "吞吐量|吞吐率|吞吐|スループット|처리량",
    "throughput per gpu": "单卡吞吐量|单卡吞吐|每卡吞吐量|每卡吞吐",
    "total throughput": "总吞吐量|总吞吐",
    "step time": "每步时间|单步时间|每步耗时|单步耗时|迭代时间|迭代耗时|步耗时|ステップ時間|스텝 시간",
    "epoch time": "每轮时间|单轮时间|每轮耗时|单轮耗时|每个epoch时间|每epoch时间|每epoch耗时|エポック時間|에폭 시간",
    "total time": "总训练时间|训练总时间|总时间|总耗时|総時間|총 시간",
    "training time": "训练时间|训练耗时|訓練時間|学習時間|训练用时|학습 시간|훈련 시간",
    "mean time": "平均时间|平均耗时",
    "time": "时间|耗时|用时|時間|시간",
    "communication time": "通信时间|通信耗时",
    "compute time": "计算时间|计算耗时",
    "speed": "训练速度|速度|속도",
    "number of gpus": "显卡数量|显卡数|GPU 数量|GPU数量|GPU 数|GPU数|卡数|GPU 개수|GPU 수",
    "number of nodes": "节点数量|节点数|机器数|ノード数|노드 수",
    "number of processes": "进程数量|进程数|プロセス数",
    "global batch size": "全局批大小|全局批次大小|总批大小|总批次大小",
    "batch size": "批次大小|批量大小|批大小|批尺寸|バッチサイズ|배치 크기|배치 사이즈",
    "gradient accumulation": "梯度累积步数|梯度累积|梯度累加",
    "sequence length": "序列长度|系列長",
    "context length": "上下文长度",
    "parameters": "总参数量|参数量|パラメータ数|파라미터 수",
    "accuracy": "准确率|正确率|正解率|정확도",
    "loss": "损失|損失|손실",
    "model": "模型|モデル|모델",
    "dataset": "数据集|データセット|데이터셋",
    "precision": "数据类型|数值精度",
    "strategy": "并行策略|并行方式|训练策略|策略",
    "method": "方法|方式|手法|방법",
    "configuration": "配置|设置|方案|設定|構成|설정|구성",
    "device": "显卡|设备|硬件|デバイス|장치",
    "framework": "框架|フレームワーク|프레임워크",
    "steps": "步数|迭代次数|ステップ数",
    "epochs": "轮数|训练轮数|エポック数",
    "improvement": "提升|改善|提升幅度|향상",
    "gpu utilization": "GPU 利用率|GPU利用率|GPU使用率",
    "utilization": "利用率|使用率|사용률",
    "metric": "指标|項目|지표|항목",
    "notes": "备注|说明|備考|비고|설명",
    "phase": "阶段|段階|단계",
    "theoretical": "理论|理想",
    "measured": "实测|实际",
    "expected": "预期|预计",
    "baseline": "基线|ベースライン|베이스라인",
    "mean": "平均值|平均|평균",
    "images/s": "张/秒|图片/秒|枚/秒",
    "samples/s": "样本/秒|条/秒",
    "ms": "毫秒|ミリ秒",
    "s": "秒|초",
    "min": "分钟|分間|분",
    "hours": "小时|小時|時間数",
    "single gpu": "单机单卡|单卡|シングルGPU|단일 GPU",
    "2 gpus": "双卡",
    "gpu": "卡",  # of "tokens/s/卡"
}
NUMBER_OF_CARDS = re.compile(r"(\d{1,5}) ?(?:张显卡|块显卡|张卡|块卡|张GPU|块GPU|卡)")
NODES_AND_CARDS = re.compile(r"(\d{1,4}|单|两) ?(?:机|节点) ?(\d{1,3}) ?卡")
# English -> headings of languages with spaces between their words.
EUROPEAN_HEADINGS = {
    "training time": "tiempo de entrenamiento|tempo de treinamento|tempo di addestramento|temps d'entraînement|"
    "temps d'entrainement|trainingszeit",
    "total time": "tiempo total|tempo total|tempo totale|temps total|gesamtzeit|laufzeit",
    "time": "tiempo|tempo|temps|zeit",
    "epoch time": "tiempo por época|tiempo por epoca|tempo por época|tempo per epoca|temps par époque|zeit pro epoche",
    "step time": "tiempo por paso|tempo por passo|tempo per passo|temps par pas|zeit pro schritt|schrittzeit",
    "throughput": "rendimiento|vazão|débit|durchsatz",
    "speedup": "aceleración|aceleracion|aceleração|accelerazione|accélération|beschleunigung",
    "efficiency": "eficiencia|eficiência|efficienza|efficacité|effizienz",
    "batch size": "tamaño de lote|tamanho do lote|dimensione del batch|taille de lot|batchgröße",
    "model": "modelo|modello|modèle|modell",
    "memory": "memoria|memória|mémoire|speicher",
    "number of gpus": "número de gpus|numero de gpus|numero di gpu|nombre de gpu|nombre de gpus|anzahl gpus",
    "configuration": "configuración|configuração|configurazione|konfiguration",
}
_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20, 0x3001: 0x2C}
_ENGLISH_OF_EAST_ASIAN = {w: english for english, words in WRITTEN_TOGETHER.items() for w in words.lower().split("|")}
# A single Korean syllable is a unit where it stands alone: in other words it means nothing of the kind.
_LONE_SYLLABLE = "(?<![가-힣]){}(?![가-힣])"
_EAST_ASIAN_TERM = re.compile(
    "|".join(
        _LONE_SYLLABLE.format(word) if re.fullmatch("[가-힣]", word) else re.escape(word)
        for word in sorted(_ENGLISH_OF_EAST_ASIAN, key=len, reverse=True)
    ),
    re.I,
)
_ENGLISH_OF_EUROPEAN = {word: english for english, words in EUROPEAN_HEADINGS.items() for word in words.split("|")}
_EUROPEAN_HEADING = re.compile(
    rf"(?i)({'|'.join(sorted(map(re.escape, _ENGLISH_OF_EUROPEAN), key=len, reverse=True))})(?= ?[(\[]|$)"
)
_EAST_ASIAN_CHARACTER = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uac00-\ud7af\uff01-\uff5e]")


@lru_cache(maxsize=20_000)
def in_english(text: str) -> str:
    """Return a heading or a cell in English, as far as its words are known: "time (ms)" of "Zeit (ms)"."""
    if _EAST_ASIAN_CHARACTER.search(text):
        return _east_asian_in_english(text)
    m = _EUROPEAN_HEADING.match(text.strip())
    return text if m is None else _ENGLISH_OF_EUROPEAN[m[1].lower()] + text.strip()[m.end() :]


def _east_asian_in_english(text: str) -> str:
    """Return a text with its Chinese, Japanese and Korean terms in English: "2机8卡" -> "2 nodes"."""
    text = text.translate(_FULL_WIDTH)
    text = NODES_AND_CARDS.sub(_nodes_or_cards, text)
    text = NUMBER_OF_CARDS.sub(r" \1 gpus ", text)
    text = _EAST_ASIAN_TERM.sub(lambda m: f" {_ENGLISH_OF_EAST_ASIAN[m[0].lower()]} ", text)
    # The spaces that this has set around words do not belong behind "/" and in brackets.
    text = re.sub(r"/ +(s|ms|min|hours|gpu)\b", r"/\1", text)
    return re.sub(r"([(\[]) +| +([)\]])", r"\1\2", " ".join(text.split()))


def _nodes_or_cards(m: re.Match[str]) -> str:
    """Return "8 gpus" for "1机8卡", but "2 nodes" for "2机8卡", whose cards may be those of each node, or of all."""
    nodes, cards = m.groups()
    return f" {cards} gpus " if nodes in ("1", "单") else f" {nodes.replace('两', '2')} nodes "
