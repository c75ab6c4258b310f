"""Kinds of figures, and the units that they are printed in: what one of them is worth in the base unit."""

import re
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of figure, as tables have it."""

    printed_in: tuple[str, ...] = ()  # dimensions of the units that it may have
    is_result: bool = False  # a table without any of these is not one of results
    needs_unit: bool = False  # without a unit its ratios hold, the value itself does not
    is_whole: bool = False
    is_share: bool = False  # a fraction (0.71, never 71)


NUMBER = Kind()
COUNT = Kind(is_whole=True)
TIME = Kind(("time",), is_result=True, needs_unit=True)
PART_OF_TIME = Kind(("time", "percent"), is_result=True, needs_unit=True)
RATE = Kind(("rate",), is_result=True)
RATIO = Kind(("percent", "times"), is_result=True)
SHARE = Kind(("percent",), is_result=True, is_share=True)
# `batch` and `time_s` are figures whose heading does not say which batch (per device or global) or which time (step,
# epoch, total) is meant; `rate` is of what is not said.
KINDS = {
    **dict.fromkeys(("devices", "nodes", "devices_per_node", "processes", "zero_stage", "repeats"), COUNT),
    **dict.fromkeys(("tensor_parallel", "pipeline_parallel"), COUNT),
    **dict.fromkeys(("batch", "micro_batch", "global_batch", "global_batch_tokens", "accumulation", "seq_len"), NUMBER),
    **dict.fromkeys(("steps", "epochs", "samples", "tokens", "parameters", "step", "epoch", "data_parallel"), NUMBER),
    **dict.fromkeys(("learning_rate", "gradient_norm", "loss", "val_loss", "perplexity"), NUMBER),
    **dict.fromkeys(("step_time_s", "epoch_time_s", "total_time_s", "time_s", "latency_s"), TIME),
    "device_time_s": Kind(("time",), is_result=True),
    **dict.fromkeys(("communication_time_s", "compute_time_s"), PART_OF_TIME),
    "data_time_s": Kind(("time", "percent"), needs_unit=True),
    **dict.fromkeys(("tokens_per_s", "samples_per_s", "steps_per_s"), RATE),
    "rate": Kind(("rate", "flops", "times"), is_result=True, needs_unit=True),
    **dict.fromkeys(("speedup", "change"), RATIO),
    "efficiency": Kind(("percent", "times"), is_result=True, is_share=True),
    **dict.fromkeys(("mfu", "hfu", "utilization", "communication_share"), SHARE),
    "memory_share": Kind(is_result=True, is_share=True),
    "accuracy": Kind(("percent",), is_share=True),
    "flops_per_s": Kind(("flops",), is_result=True, needs_unit=True),
    "memory_bytes": Kind(("memory", "percent"), is_result=True, needs_unit=True),
    "bandwidth_bytes_per_s": Kind(("bandwidth",), is_result=True, needs_unit=True),
    "power_w": Kind(("power",)),
    "energy_j": Kind(("energy",), needs_unit=True),
    "cost": Kind(("cost",)),
    "price_per_s": Kind(("price", "cost")),
}
RESULTS = {name for name, kind in KINDS.items() if kind.is_result}
SHARES = [name for name, kind in KINDS.items() if kind.is_share]
# What cells with a unit are of, whatever their heading means: "124 s" below "Speed", "356 MWh" below "Total power".
OTHER_KINDS = {("rate", "time"): "time_s", ("power_w", "energy"): "energy_j"}
# Kind of a figure by the dimension of its unit, where nothing else is known.
KINDS_OF_UNITS = {"time": "time_s", "rate": "rate", "memory": "memory_bytes", "flops": "flops_per_s"}
KINDS_OF_UNITS |= {"bandwidth": "bandwidth_bytes_per_s"}


KI, MI = 2.0**10, 2.0**20
GI, TI = 2.0**30, 2.0**40


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit as it is printed: what it measures, how large it is, and of what."""

    dimension: str  # time, rate, memory, flops, bandwidth, power, energy, cost, price, percent or times
    scale: float  # printed number x scale = base unit
    item: str | None = None  # of rates: "tokens", "samples", "images", "steps", ...
    per_device: bool | None = None
    of: str | None = None  # of times: "step", "epoch", "device" (hours of all devices together)


TIMES = {
    1e-9: ("ns", "nanosecond", "nanoseconds"),
    1e-6: ("us", "µs", "μs", "usec", "microsecond", "microseconds"),
    1e-3: ("ms", "msec", "msecs", "millisecond", "milliseconds"),
    1.0: ("s", "sec", "secs", "second", "seconds"),
    60.0: ("min", "mins", "minute", "minutes", "m"),
    3600.0: ("h", "hr", "hrs", "hour", "hours"),
    86400.0: ("d", "day", "days"),
}
# "MB" is read as MiB: frameworks divide by 1024 and print MB.
MEMORIES = {
    1.0: ("b", "byte", "bytes"),
    KI: ("kb", "kib"),
    MI: ("mb", "mib", "megabytes"),
    GI: ("gb", "gib", "g", "gigabytes"),
    TI: ("tb", "tib"),
}
ITEMS = {
    "tokens": ("tokens", "token", "tok", "toks", "t", "tkn"),
    "samples": ("samples", "sample", "smp", "samp", "examples", "example", "ex", "records"),
    "images": ("images", "image", "img", "imgs", "im", "pictures", "frames"),
    "sequences": ("sequences", "sequence", "seq", "seqs", "sentences", "sent", "seqs"),
    "steps": ("steps", "step", "iterations", "iteration", "iters", "iter", "it", "its", "batches", "batch", "updates"),
}
FLOPS = {"g": 1e9, "t": 1e12, "p": 1e15, "": 1.0}
PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}
UNITS_BY_NAME = {
    "tgs": Unit("rate", 1.0, "tokens", True),
    "sps": Unit("rate", 1.0, "samples"),
    "gbps": Unit("bandwidth", 1e9 / 8),
    "kw": Unit("power", 1e3),
    **dict.fromkeys(("tps", "wps"), Unit("rate", 1.0, "tokens")),
    **dict.fromkeys(("ips", "fps"), Unit("rate", 1.0, "images")),
    **dict.fromkeys(("%", "percent", "pct"), Unit("percent", 0.01)),
    **dict.fromkeys(("x", "×", "times"), Unit("times", 1.0)),
    **dict.fromkeys(("w", "watt", "watts"), Unit("power", 1.0)),
    **dict.fromkeys(("$", "usd"), Unit("cost", 1.0)),
}
_JOULES = {"j": 1.0, "kj": 1e3, "mj": 1e6, "wh": 3600.0, "kwh": 3.6e6, "mwh": 3.6e9}
UNITS_BY_NAME |= {name: Unit("energy", joules) for name, joules in _JOULES.items()}
DEVICE = r"(?:gpus?|devices?|accelerators?|cards?|chips?|ranks?|workers?|tpus?|npus?|hpus?|xpus?|gcds?|process(?:es)?)"
# Also of rates "per H100" or "/A100".
NAMED_DEVICE = r"(?:[abhlv]\d{2,3}[a-z]?|g[bh]200|gb300|t4|l4|mi\d{3}[ax]?)"
_TIME = {name: scale for scale, names in TIMES.items() for name in names}
_MEMORY = {name: scale for scale, names in MEMORIES.items() for name in names}
_ITEM = {name: item for item, names in ITEMS.items() for name in names}


def counted_item(text: str) -> str:
    """Return what a number counts whose unit is all of `text`: "tokens", "sequences"; "" for any other text."""
    word = text.strip().lower()
    return _ITEM.get(word, "") if word.endswith("s") and len(word) > 4 else ""


def unit_of(text: str) -> Unit | None:
    """Return the unit that all of `text` is: "img/s", "s/epoch", "k tokens/sec/GPU"; None for any other text."""
    text = re.sub(r"\s+", " ", text.strip().strip(".,;:").lower())
    text = text.replace("\\%", "%").replace("⋅", "/").replace("·", "/")
    if not text or len(text) > 40:
        return None
    if text in UNITS_BY_NAME:
        return UNITS_BY_NAME[text]
    bare, per_device = _without_device(text)
    if unit := UNITS_BY_NAME.get(bare):
        return replace(unit, per_device=per_device or unit.per_device)
    readers = (_time_or_memory, _flops, _rate, _time_per_step_or_epoch, _price_per_hour)
    return next(filter(None, (reader(bare, per_device) for reader in readers)), None)


def _without_device(text: str) -> tuple[str, bool | None]:
    """Return a unit without "/GPU" or "each", and True where it had one, else None: ("ms", True) of "ms/gpu"."""
    bare, count = re.subn(rf"\s*(?:/|\bper\b)\s*(?:{DEVICE}|{NAMED_DEVICE})(?![a-z0-9])", "", text)
    if count:
        return bare.strip(), True
    bare, count = re.subn(r"\s*\b(?:each)\b", "", text)
    return bare.strip(), True if count else None


def _time_or_memory(text: str, per_device: bool | None) -> Unit | None:
    """Return a unit of time ("ms") or memory ("GiB"). None for others."""
    if text in _TIME:
        return Unit("time", _TIME[text], None, per_device)
    if text in _MEMORY:
        return Unit("memory", _MEMORY[text], None, per_device)
    return None


def _flops(text: str, per_device: bool | None) -> Unit | None:
    """Return a unit of FLOP/s, also without its "/s": "TFLOPS" -> x 1e12. None for others."""
    m = re.fullmatch(r"(|g|t|p|giga|tera|peta) ?(?:flops?(?:/s(?:ec)?)?|flop per second)", text)
    return Unit("flops", FLOPS[m[1][:1]], None, per_device) if m else None


def _rate(text: str, per_device: bool | None) -> Unit | None:
    """Return a rate ("k tokens/s", "images/min") or a bandwidth ("GB/s"). None for other units."""
    patterns = (
        r"(k|m|b)? ?([a-z]+) ?(?:/|\bper\b) ?(s|secs?|seconds?|min|minutes?|h|hr|hours?|day)",
        r"(k|m|b)([a-z]{2,}) ?(?:/|\bper\b) ?(s|secs?|seconds?)",  # "ktok/s"
    )
    for pattern in patterns:
        m = re.fullmatch(pattern, text)
        if m and m[2] in _ITEM:
            return Unit("rate", PREFIXES[m[1] or ""] / _TIME[m[3]], _ITEM[m[2]], per_device)
    if m := re.fullmatch(r"(k|m|g|t)?i?b ?/ ?s(?:ec)?", text):
        return Unit("bandwidth", PREFIXES[m[1] or ""], None, per_device)
    if text in ("/s", "/sec", "per second", "per sec"):
        return Unit("rate", 1.0, None, per_device)
    return None


def _time_per_step_or_epoch(text: str, per_device: bool | None) -> Unit | None:
    """Return the time of a step or an epoch ("ms/step"), or of a device ("GPU-hours"); None for others ("s/img")."""
    m = re.fullmatch(r"([a-zµμ]+) ?(?:/|\bper\b) ?(step|iteration|iter|it|batch|epoch)", text)
    if m and m[1] in _TIME:
        return Unit("time", _TIME[m[1]], None, per_device, of="epoch" if m[2] == "epoch" else "step")
    m = re.fullmatch(rf"(?:{DEVICE}|{NAMED_DEVICE})[ /-]?(h|hrs?|hours?|days?)", text)
    return Unit("time", _TIME[m[1]], of="device") if m else None


def _price_per_hour(text: str, per_device: bool | None) -> Unit | None:
    """Return the price of an hour: "$/hr", "USD per hour". None for other units."""
    is_price = re.fullmatch(r"(?:\$|usd|price|cost) ?(?:/|-|\bper\b)? ?(?:h|hr|hour)", text)
    return Unit("price", 1 / _TIME["h"], None, per_device) if is_price else None
