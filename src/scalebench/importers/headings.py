"""What a heading of a table (or a key of a JSON file) means: one readable list of words for each kind of figure.

A heading is taken apart into its unit, its statistic ("p95"), its scope ("per GPU", "total") and the phrase that is left; the phrase
must be one of PHRASES as a whole. Anything else is not understood, and is listed as such.
"""

import re
from dataclasses import replace
from functools import lru_cache

from scalebench.importers.cells import plain_text, remarks_of
from scalebench.importers.reported_tables import Remark, Statistic, TableColumn
from scalebench.importers.units import DEVICE, Unit, unit_of
from scalebench.importers.words import described

# Kind -> phrases, separated by "|" and matched as a whole after units, statistics and scopes are taken off. "?" after a word makes it optional.
PHRASES = {
    "devices": "gpus|gpu count|number of gpus|number of gpu|num gpus|n gpus|no of gpus|gpus used|gpus total|total gpus|gpu num|ngpus|ngpu|num gpu|n gpu|gpu number|"
    "devices|num devices|number of devices|n devices|device count|accelerators|number of accelerators|chips|num chips|tpus|"
    "gpus count|of gpus|of gpu|count of gpus|h100s|a100s|gcds|ddp gpus",
    "processes": "world size|workers|num workers distributed|ranks|number of ranks|processes|num processes|number of processes|nproc|nprocs|np|"
    "n procs|worker count|number of workers|replicas|num ranks|num procs|mpi ranks|mpi processes",
    "nodes": "nodes|number of nodes|num nodes|nnodes|n nodes|node count|hosts|machines|number of machines|of nodes",
    "devices_per_node": "gpus per node|num gpus per node|gpu per node|devices per node|nproc per node|gpus node|ngpus per node|gpu node",
    "global_batch": "global batch|global batch size|gbs|effective batch|effective batch size|total batch|total batch size|total train batch size|"
    "global bs|batch size global|batch size total|overall batch size|global train batch size|eff batch|eff batch size|eff bs",
    "micro_batch": "micro batch|micro batch size|mbs|local batch|local batch size|microbatch size|microbatch|device batch size|microbs|micro bs|"
    "train micro batch size|device train microbatch size|batch size local|device train batch size|local bs|train micro batch size per gpu",
    "batch": "batch|batch size|bs|batchsize|train batch size|training batch size|batch sz|mini batch|mini batch size|minibatch size|train batch|b",
    "accumulation": "grad accum|grad accumulation|gradient accumulation|gradient accumulation steps|accumulation|accumulation steps|accum|accum steps|"
    "grad accum steps|ga|gas|grad acc|grad acc steps|gradacc|acc steps|grad accumulation steps|ga steps",
    "seq_len": "seq len|seqlen|sequence length|seq length|context length|context|ctx|ctx len|context size|context window|max seq len|max length|"
    "max seq length|max sequence length|block size|sequence|seq|n ctx|sl|tokens per sequence|max len",
    "steps": "steps|iterations|iters|num steps|number of steps|total steps|train steps|training steps|num iterations|optimizer steps|updates|n steps|"
    "max steps|number of iterations|num iters|total iterations|steps run|measured steps|timed steps|train iters",
    "epochs": "epochs|num epochs|number of epochs|n epochs|total epochs|num train epochs|epochs trained",
    "epoch": "epoch|epoch idx|epoch number|epoch num",
    "step": "step|iteration|iter|global step|global steps",
    "samples": "samples|dataset size|train size|training samples|num samples|number of samples|train samples|examples|training set size|"
    "samples total|total samples|n samples|training examples",
    "tokens": "tokens|total tokens|tokens processed|tokens trained|tokens seen|train tokens|training tokens|num tokens",
    "parameters": "parameters|params|num params|number of parameters|n params|model params|total params|parameter count|param count|model parameters|"
    "total parameters|trainable params|trainable parameters|num parameters|of parameters|of params|model size params",
    "zero_stage": "zero stage|zero|zs|deepspeed stage|stage|deepspeed zero stage",
    "tensor_parallel": "tp|tensor parallel|tensor parallel size|tp size|tensor parallelism",
    "pipeline_parallel": "pp|pipeline parallel|pipeline parallel size|pp size|pipeline parallelism",
    "data_parallel": "dp size|data parallel size|dp degree",
    "learning_rate": "lr|learning rate|max lr|base lr|peak lr",
    "step_time_s": "step time|time per step|time step|iteration time|iter time|time per iteration|time iteration|time iter|batch time|time per batch|"
    "time batch|step latency|time per iter|step duration|train step time|training step time|step times|per step time|seconds per step|"
    "latency per step|iteration latency|seconds per iteration|per iteration time|per step|step wall time|time per training step|ms per step|"
    "elapsed time per iteration|time per train step|wall time per step|secs per step|seconds iter|step wall|time per optimizer step",
    "epoch_time_s": "epoch time|time per epoch|time epoch|epoch duration|train time per epoch|training time per epoch|seconds per epoch|per epoch time|"
    "epoch wall time|epoch latency|per epoch|latency per epoch|epoch train time|train epoch time|epoch training time|runtime per epoch|"
    "wall time per epoch|training time epoch|sec per epoch|epoch seconds|duration per epoch|epoch runtime|train time epoch|epoch times",
    "total_time_s": "total time|training time|total training time|wall time|wall clock|wall clock time|runtime|run time|elapsed|elapsed time|total runtime|"
    "duration|total wall time|time to train|train runtime|total train time|execution time|total duration|wallclock|wallclock time|"
    "end to end time|total elapsed time|training duration|total elapsed|e2e time|total wall clock|total run time|time total|walltime|"
    "training wall time|total execution time|job time|time to solution|train time total|time taken|total seconds|training runtime|train duration",
    "time_s": "time|train time|seconds|timing|times|sec|time elapsed",
    "communication_time_s": "communication time|comm time|communication|allreduce time|all reduce time|sync time|synchronization time|comm|nccl time|"
    "gradient sync time|grad sync time|allreduce",
    "compute_time_s": "compute time|computation time|computation|compute|gpu compute time|forward backward time|fwd bwd time",
    "data_time_s": "data time|data loading time|dataload time|data load time|data wait|data wait time|dataloader time|data loading|loading time",
    "latency_s": "latency",
    "tokens_per_s": "tokens per second|tokens sec|tokens s|tokens per sec|tok s|tok sec|tokens second|token throughput|tokens throughput|tps|wps|tgs|tok per sec|"
    "tokens per s|throughput tokens per sec|throughput tokens per second|throughput tokens|training tokens per second|tok per s|throughput tok s",
    "samples_per_s": "samples per second|samples sec|samples s|samples per sec|images per second|images sec|images s|images per sec|img sec|img s|imgs sec|"
    "imgs s|samples second|images second|examples per second|examples sec|sequences per second|sequences sec|seq s|train samples per second|"
    "throughput samples per sec|throughput samples per second|throughput images per sec|sample throughput|sps|fps|examples per sec|samples per s|"
    "img per sec|sample s|training samples per second|throughput samples sec|throughput img s|throughput imgs s|image throughput",
    "steps_per_s": "steps per second|steps sec|steps s|iterations per second|it s|iter s|iters s|iterations sec|steps per sec|train steps per second|its s|"
    "iter sec|iters per sec|it sec|iterations s|batches per second|batches s|batches sec|iters sec|batch s",
    "rate": "throughput|training throughput|speed|training speed|train throughput|processing speed|train speed|effective throughput|end to end throughput|"
    "training rate|measured throughput|system throughput|aggregate throughput|performance",
    "speedup": "speedup|speed up|speedup factor|scaling factor|relative speed|relative speedup|acceleration|speedups|measured speedup|actual speedup|"
    "relative throughput|relative performance|observed speedup|strong scaling speedup|throughput speedup|throughput ratio|speed ratio|"
    "training speedup|scaling speedup|time speedup|x speedup|throughput scaling|speedup ratio|overall speedup|speedup x",
    "efficiency": "efficiency|scaling efficiency|parallel efficiency|scaling eff|eff|scale efficiency|parallelization efficiency|scaling percentage|"
    "weak scaling efficiency|strong scaling efficiency|parallel eff|linear scaling|linearity|of linear|of ideal|of linear scaling|"
    "of ideal scaling|weak scaling|strong scaling|scaling|weak scaling eff|throughput efficiency|efficiency vs linear|efficiency vs ideal",
    "change": "improvement|change|delta|gain|reduction|difference|speed gain|performance gain|throughput gain|relative change|diff|improvements|"
    "throughput improvement|throughput change|time reduction|time saved|time savings|performance improvement|vs baseline|relative improvement|"
    "memory reduction|memory savings|memory saving|memory saved|overhead vs baseline|slowdown",
    "hfu": "hfu|hardware flops utilization|hardware flops utilisation",
    "mfu": "mfu|model flops utilization|model flops utilisation|flops utilization|flops mfu|bf16 mfu|of peak flops",
    "flops_per_s": "tflops|flops|achieved tflops|tflop s|tflops s|throughput tflops|gflops|model tflops|tflops per second|achieved flops|compute throughput|"
    "pflops|throughput per gpu tflop s gpu|effective tflops|tflops achieved|model flops per second",
    "memory_bytes": "memory|mem|gpu memory|vram|peak memory|memory usage|memory allocated|memory reserved|gpu mem|memory used|peak gpu memory|memory footprint|"
    "peak vram|vram usage|gpu memory usage|mem usage|gpu memory used|memory consumption|peak mem|allocated memory|reserved memory|peak gpu mem|"
    "gpu ram|ram|mem allocated|mem reserved|gpu memory allocated|gpu memory reserved|vram used|peak memory allocated|peak memory reserved|"
    "cuda memory|active memory|gpu vram|gpu memory footprint|gpu memory peak|memory peak|mem peak|gpu mem allocated|mem used|gpu max mem|"
    "peak memory usage|peak allocated|peak reserved|memory cost|peak allocated memory|gpu memory consumption|memory per gpu used|peak active memory",
    "utilization": "gpu utilization|gpu util|gpu utilisation|utilization|util|sm utilization|gpu usage|sm util|gpu util pct|gpu load",
    "communication_share": "communication overhead|comm overhead|communication share|communication fraction|comm fraction|sync overhead|communication percent|"
    "comm pct|comm share|allreduce share|communication pct|communication ratio|comm ratio",
    "bandwidth_bytes_per_s": "bandwidth|memory bandwidth|bus bandwidth|algbw|busbw|algo bandwidth|network bandwidth|nccl bandwidth|allreduce bandwidth",
    "power_w": "power|gpu power|power draw|power usage|power consumption|board power",
    "energy_j": "energy|energy consumption|energy used|total energy",
    "cost": "cost|total cost|cloud cost|training cost|estimated cost|price|cost usd",
    "loss": "loss|train loss|training loss|final loss|final train loss|final training loss|lm loss|ending loss|end loss|train loss final",
    "val_loss": "val loss|validation loss|eval loss|test loss|best val loss|final val loss|final validation loss|best validation loss|valid loss|dev loss",
    "perplexity": "perplexity|ppl|val ppl|validation perplexity|test perplexity|val perplexity|eval perplexity|valid ppl|test ppl",
    "accuracy": "accuracy|acc|top 1|top1|top 1 accuracy|top1 accuracy|val acc|val accuracy|test accuracy|validation accuracy|test acc|final accuracy|"
    "train accuracy|final val acc|top 1 acc|training accuracy|final validation accuracy|final test accuracy|best accuracy|val top 1|train acc|"
    "final val accuracy|final acc|best val acc|eval accuracy|acc1|best acc|model accuracy|top 5|top5|top 5 accuracy",
    "repeats": "runs|repeats|trials|num runs|number of runs|repetitions|seeds|n runs|num seeds|replicates|n",
    # Words
    "strategy": "strategy|parallelism|parallel strategy|distributed strategy|parallelization|parallelization strategy|sharding|sharding strategy|engine|"
    "distributed backend|training strategy|distribution strategy|parallel mode|algorithm|approach|technique|distributed|parallelism strategy",
    "precision": "precision|dtype|data type|mixed precision|amp|numeric precision|compute dtype|float type|numerical precision|training precision",
    "model": "model|model name|architecture|network|backbone|arch|model type|models|llm|base model|model size|network architecture|model config",
    "dataset": "dataset|data|data set|corpus|dataset name|task|workload",
    "device": "gpu|device|gpu type|gpu model|gpu name|hardware|accelerator|device name|device type|accelerator type|machine type|gpu shape|instance type|"
    "instance|system|machine|platform|cluster|node type|hw|gpu s|gpu hardware|devices used|compute|shape",
    "backend": "backend|comm backend|communication backend|framework|library|software|implementation|launcher",
    "run": "run|experiment|config|configuration|setup|setting|method|mode|name|variant|case|scenario|id|exp|run name|experiment name|benchmark|test|"
    "training mode|version|settings|optimization|type|job|run id|label|training setup|stage name|solution|exp name|configurations|job id|"
    "experiments|methods|training method|configs|scheme|recipe|training type|option|trial name|test name|training configuration|system config|"
    "model config name|phase",
    "status": "status|result|outcome|verdict|pass",
    "text": "notes|note|comment|comments|description|date|source|link|log|logs|remarks|commit|remark|details|key observation|observation|reference|url|file|"
    "run dir|path|timestamp|explanation|reason|author|wandb|meaning|when to use|best for|use case|why|pros|cons|seed|output|metrics path|"
    "run dir curated|config file|started at|ended at|created at|hostname|host|node name|driver|cuda|cuda version|pytorch version|"
    "torch version|python version|torch|user|analysis|comments notes|interpretation|takeaway|insight|recommendation",
    "metric": "metric|metrics|measure|quantity|measurement|statistic|parameter|aspect|property|indicator|category|feature|item|kpi|field|key",
}  # fmt: skip
NOT_FIGURES = ("strategy", "precision", "model", "dataset", "device", "backend", "run", "status", "text", "metric")
STATISTICS: tuple[tuple[str, Statistic], ...] = (
    (r"\b(?:std|stdev|stddev|sd|standard deviation|std dev)\b", "std"),
    (r"\bp ?50\b", "p50"),
    (r"\bp ?90\b", "p90"),
    (r"\b(?:p ?95|95th(?: percentile)?)\b", "p95"),
    (r"\b(?:p ?99|99th(?: percentile)?)\b", "p99"),
    (r"\b(?:median|med)\b", "median"),
    (r"\b(?:mean|avg|average|averaged)\b", "mean"),
    (r"\b(?:min|minimum)\b", "min"),
    (r"\b(?:max|maximum)\b", "max"),
)
RATE_INSIDE = re.compile(
    rf"(?i)\b(?:tokens?|tok|samples?|images?|imgs?|sequences?|steps?|it)/(?:second|sec|s)(?:/{DEVICE})?(?![a-z/])|\bTFLOPS?(?:/s)?(?:/GPU)?\b"
)
# A statistic before or behind a name that ends in its unit: "step_time_ms mean", "p95 step_time_s".
STATISTIC_AROUND = r"(?i)^(?:mean|median|std|min|max|p50|p95|avg) | (?:mean|median|std|min|max|p50|p95|avg)$"
PER_DEVICE = re.compile(rf"(?:\bper[ -]|/ ?)(?:the )?{DEVICE}\b|\bgpu \d\b|\bsingle gpu\b(?= throughput)|\beach gpu\b")
IN_ALL = re.compile(
    r"\b(?:global|total|aggregate[d]?|overall|all gpus|all devices|cluster|system|combined|across all \w+)\b"
)
# The scope is part of these phrases, and not taken off them.
SCOPED_KINDS = (
    "total_time_s",
    "global_batch",
    "steps",
    "epochs",
    "tokens",
    "samples",
    "parameters",
    "devices",
    "energy_j",
    "cost",
)
OVER = re.compile(r"\b(?:vs\.?|versus|over|relative to|compared (?:to|with)|rel\. to|w\.r\.t\.?) (.*)$")
BASELINE = re.compile(rf"(?:a )?(?:(\d+|one|single)[ -]?x?)?[ -]?(?:{DEVICE}|baseline)s?")
UNITS_IN_NAMES = re.compile(r"[_ ](ms|us|ns|sec|secs|seconds|s|min|minutes|hours|hrs|h|mb|gb|kb|mib|gib|bytes|pct|percent|tflops|w|watts|usd|x|per_sec|per_s|millis)$", re.I)  # fmt: skip
LEADING_WORD = re.compile(
    r"(?:(?:pytorch )?(?:ddp|fsdp\d?|dp|zero[ -]?\d?|deepspeed|horovod|baseline|single[ -]gpu|fp16|bf16|fp32|tf32|amp|\d+[ -]?gpus?)[ -]+)+",
    re.I,
)
DEVICES_HEADING = re.compile(
    rf"(?:(?P<strategy>[a-z][\w .+-]*?)[ ,:(-]*)?(?:[nw] ?= ?)?(?P<count>\d{{1,5}})[ -]*[x×]?[ -]*(?P<what>{DEVICE}|nodes?|(?:nvidia )?(?:tesla )?[avhpltgb]\d{{1,4}}\w*|rtx ?\d+\w*|mi\d+\w*|t4|l4)\)?",
    re.I,
)
_KIND_OF = {phrase: kind for kind, phrases in PHRASES.items() for phrase in phrases.split("|")}


@lru_cache(maxsize=20_000)
def column_of(heading: str) -> TableColumn:
    """What a heading means. `kind` is None where that is not known."""
    printed = plain_text(heading)
    column = TableColumn(printed)
    text, unit = _without_unit(re.sub(STATISTIC_AROUND, "", printed))
    text = _spaced(
        text if text == printed else f"{text} {' '.join(m[0] for m in re.finditer(STATISTIC_AROUND, printed))}"
    )
    remaining, column.over_devices = _without_baseline(text)
    column.statistic, remaining = _without_statistic(remaining)
    column.per_device, phrase = _without_scope(remaining)
    kind = _KIND_OF.get(remaining)
    if kind not in SCOPED_KINDS:
        kind = _KIND_OF.get(phrase) or kind
    if kind is None and (unit is not None or column.statistic is not None):
        kind, unit = _by_unit(phrase, unit)
    if kind is None:
        kind = _without_remark(phrase)
    if kind is None and (m := re.search(r"^(.+?) ?[(\[]([^()\[\]]+)[)\]]$|^(.+?) ?@ ?(.+)$", printed)):
        return _noted(printed, m[1] or m[3], m[2] or m[4])
    if kind is None and (m := LEADING_WORD.match(printed)):
        return _noted(printed, printed[m.end() :], m[0])
    if kind is None and len(printed) > 15 and (m := RATE_INSIDE.search(printed)):
        return _noted(printed, f"throughput ({m[0]})", printed[: m.start()] + printed[m.end() :])
    return _typed(column, kind, unit)


def _noted(printed: str, heading: str, note: str) -> TableColumn:
    """The column of a heading without a part that says which configuration its figures are of."""
    bare = column_of(heading)
    if bare.kind is None or bare.kind in NOT_FIGURES:
        return TableColumn(printed)
    said = described(note)
    return replace(bare, heading=printed, note=note.strip(), devices=said.numbers.get("devices"), words=said.words)


def heading_remarks(heading: str) -> set[Remark]:
    """ "Expected speedup", "Throughput (projected)": what a heading says of its figures."""
    return remarks_of(plain_text(heading)) - {"failed", "not run", "out of memory"}


def devices_heading(heading: str) -> tuple[int, str] | None:
    """ "4 GPUs", "DDP (2 GPUs)", "8xA100": the number of devices and the words before it. Nodes are no devices."""
    m = DEVICES_HEADING.fullmatch(plain_text(heading))
    if m is None or m["what"].lower().startswith("node"):
        return None
    return int(m["count"]), (m["strategy"] or "").strip()


def _without_remark(phrase: str) -> str | None:
    """ "expected speedup", "projected throughput", "measured ...": what is said about the figure is not part of its name."""
    shorter = re.sub(
        r"\b(?:expected|projected|estimated|theoretical|ideal|typical|target|measured|actual|observed|achieved|approx|approximate|predicted|"
        r"training|train|final|best|our|my|relative|gpu|wall|steady state|effective|model|e2e|raw|median|optimal|stated|reported|new|old)\b",
        " ",
        phrase,
    )
    shorter = " ".join(shorter.split())
    return _KIND_OF.get(shorter) if shorter and shorter != phrase else None


def _spaced(text: str) -> str:
    """Lower case words: CamelCase, snake_case, "tokens/sec" and "time / epoch" become words with single spaces."""
    text = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", " ", text).lower()
    text = re.sub(r"[#№]", " number of ", text)
    text = re.sub(r"(?<![a-z])(?:no\.|num\.|nr\.) ?", "number of ", text)
    text = re.sub(r"[_\-–/|.:,;'\"?!*↑↓()\[\]{}=%@]", " ", text)
    return " ".join(text.split()).replace("number of of ", "number of ")


def _without_unit(text: str) -> tuple[str, Unit | None]:
    """A heading without the unit in brackets, after a comma, at the end of a name with underscores, or the whole of it."""
    for m in re.finditer(r"[(\[]([^()\[\]]+)[)\]]", text):
        for part in re.split(r"[,;]", m[1]):
            part = re.sub(r"^(?:in|unit:?) ", "", part.strip())
            if unit := unit_of(part):
                scope = " " + m[1].replace(part, " ").strip(" ,;") if part != m[1].strip() else ""
                return (text[: m.start()] + scope + text[m.end() :]).strip(), unit
    if (tail := re.search(r"(?:,| in| -) ([^,]{1,20})$", text)) and (unit := unit_of(tail[1])):
        return text[: tail.start()], unit
    if found := UNITS_IN_NAMES.search(text):
        unit = unit_of(found[1].replace("_", " ").replace("per sec", "/s").replace("millis", "ms"))
        if unit is not None and unit.dimension != "rate":
            return text[: found.start()], unit
    if text.endswith("%") or text.startswith("% "):
        return text.strip("% "), unit_of("%")
    whole = unit_of(text.replace("_", " "))
    if (whole is not None and whole.dimension in ("rate", "flops")) or (whole and whole.of):
        return text, whole
    head, _, last = text.rpartition(" ")
    if (
        head
        and (unit := unit_of(last))
        and (unit.dimension != "rate" or "/" in last)
        and last.lower() not in ("t", "x", "b", "d", "m", "g")
    ):
        return (head if unit.dimension != "rate" else text), unit
    return text, None


def _without_baseline(text: str) -> tuple[str, int | None]:
    """ "speedup vs 1 gpu" is a speed-up; the devices of its baseline."""
    m = OVER.search(text)
    if m is None or not text[: m.start()].strip():
        return text, None
    base = BASELINE.fullmatch(m[1].strip())
    count = base[1] if base else None
    devices = 1 if count in ("one", "single") else int(count) if count else None
    return text[: m.start()].strip(), devices


def _without_statistic(text: str) -> tuple[Statistic | None, str]:
    first: Statistic | None = None
    for pattern, statistic in STATISTICS:
        shorter, count = re.subn(pattern, " ", text)
        if count and shorter.strip():
            first, text = first or statistic, " ".join(shorter.split())
    return first, text


def _without_scope(text: str) -> tuple[bool | None, str]:
    spaced = text
    shorter, count = PER_DEVICE.subn(" ", spaced)
    if count == 0:
        shorter, count = re.subn(r"(?<=[a-z]) (?:gpu|device)$", " ", spaced) if re.search(r"(?:sec|s|second|throughput|tflops) (?:gpu|device)$", spaced) else (shorter, 0)  # fmt: skip
    if count and shorter.strip():
        return True, " ".join(shorter.split())
    shorter, count = IN_ALL.subn(" ", spaced)
    if count and shorter.strip():
        return False, " ".join(shorter.split())
    return None, text


def _by_unit(phrase: str, unit: Unit | None) -> tuple[str | None, Unit | None]:
    """The kind of a heading whose phrase is "step", "epoch", "peak" or the unit itself, by its unit."""
    if unit is None:
        return None, None
    if unit.dimension == "time" and unit.of:
        return f"{unit.of}_time_s", unit
    if unit.dimension == "time" and phrase in (
        "step",
        "iteration",
        "iter",
        "epoch",
        "total",
        "batch",
        "train",
        "training",
    ):
        return {"epoch": "epoch_time_s", "total": "total_time_s", "train": "time_s", "training": "time_s"}.get(
            phrase, "step_time_s"
        ), unit
    if unit.dimension == "rate" and (
        unit_of(phrase) == unit or phrase in ("", "training", "train", "gpu", "median", "total")
    ):
        return "rate", unit
    if unit.dimension == "memory" and phrase in (
        "peak",
        "gpu",
        "max",
        "allocated",
        "reserved",
        "peak gpu",
        "gpu peak",
        "gpu max",
        "usage",
    ):
        return "memory_bytes", unit
    if unit.dimension == "flops":
        return ("flops_per_s", unit) if unit_of(phrase) == unit else (None, unit)
    return None, unit


RATE_KINDS = {
    "tokens": "tokens_per_s",
    "samples": "samples_per_s",
    "images": "samples_per_s",
    "sequences": "samples_per_s",
    "steps": "steps_per_s",
}
DIMENSIONS = {
    "time": ("step_time_s", "epoch_time_s", "total_time_s", "time_s", "communication_time_s", "compute_time_s", "data_time_s", "latency_s"),
    "rate": ("rate", "tokens_per_s", "samples_per_s", "steps_per_s"),
    "memory": ("memory_bytes",),
    "flops": ("flops_per_s", "rate"),
    "bandwidth": ("bandwidth_bytes_per_s",),
    "power": ("power_w",),
    "energy": ("energy_j",),
    "cost": ("cost",),
    "percent": ("efficiency", "change", "mfu", "hfu", "accuracy", "utilization", "communication_share", "memory_bytes", "speedup",
                "communication_time_s", "compute_time_s", "data_time_s"),
    "times": ("speedup", "efficiency", "change", "rate"),
}  # fmt: skip


def _typed(column: TableColumn, kind: str | None, unit: Unit | None) -> TableColumn:
    """A column with its kind and scale, where kind and unit agree."""
    if kind is None:
        return column
    column.kind = kind
    if unit is not None:
        retyped = kind_with_unit(kind, unit)
        if retyped is None:
            column.kind = None
            return column
        column.kind, column.scale, column.item = retyped, unit.scale, unit.item
        column.per_device = unit.per_device if unit.per_device is not None else column.per_device
    elif kind in ("tokens_per_s", "samples_per_s", "steps_per_s"):
        named = re.search(r"(?i)tok|img|image|seq|step|it|sample", column.heading)
        column.item = (
            {"tok": "tokens", "img": "images", "ima": "images", "seq": "sequences"}.get(named[0].lower()[:3])
            if named
            else None
        )
    if column.kind == "batch" and column.per_device:
        column.kind = "micro_batch"
    if column.kind == "batch" and column.per_device is False:
        column.kind = "global_batch"
    column.unit = None if unit is None else unit.dimension
    if column.kind.endswith("_time_s") or column.kind in SCOPED_KINDS:
        column.per_device = None
    return column


def kind_with_unit(kind: str, unit: Unit) -> str | None:
    """The kind that a unit makes of a kind ("throughput" in tokens/s is `tokens_per_s`); None where the two contradict each other."""
    if kind not in DIMENSIONS.get(unit.dimension, ()):
        return kind if unit.dimension == "percent" and kind in ("loss",) else None
    if kind == "rate" and unit.dimension == "rate":
        return RATE_KINDS.get(unit.item or "", "rate")
    if unit.dimension == "rate" and unit.item and RATE_KINDS[unit.item] != kind:
        return RATE_KINDS[unit.item]
    if unit.dimension == "flops":
        return "flops_per_s"
    if unit.dimension == "percent" and kind == "memory_bytes":
        return "memory_share"
    if unit.dimension == "percent" and kind == "communication_time_s":
        return "communication_share"
    if unit.dimension == "percent" and kind in ("compute_time_s", "data_time_s"):
        return None
    if unit.dimension == "percent" and kind == "speedup":
        return "change"
    if unit.dimension == "times" and kind == "rate":
        return "speedup"
    if unit.dimension == "times" and kind in ("efficiency", "change"):
        return "speedup"
    if unit.dimension == "time" and unit.of and kind in ("time_s", "total_time_s", "latency_s"):
        return f"{unit.of}_time_s"
    return kind
