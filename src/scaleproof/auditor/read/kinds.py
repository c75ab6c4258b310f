"""The kinds of figures that tables state: their base units, the units that they are printed in, what they say."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of figure, as tables have it."""

    unit: str  # the base unit, for people
    printed_in: tuple[str, ...] = ()  # dimensions of the units that it may have
    is_result: bool = False  # a table without any of these is not one of results
    needs_unit: bool = False  # without a unit its ratios hold, the value itself does not
    is_whole: bool = False
    is_share: bool = False  # a fraction (0.71, never 71)


TIME = Kind("s", ("time",), is_result=True, needs_unit=True)
PART_OF_TIME = Kind("s", ("time", "percent"), is_result=True, needs_unit=True)
SHARE = Kind("fraction", ("percent",), is_result=True, is_share=True)
# `batch` and `time_s` are figures whose heading does not say which batch (per device or global) or which time (step,
# epoch, total) is meant.
KINDS = {
    "devices": Kind("devices", is_whole=True),
    "nodes": Kind("nodes", is_whole=True),
    "devices_per_node": Kind("devices", is_whole=True),
    "processes": Kind("processes", is_whole=True),
    "batch": Kind("samples"),
    "micro_batch": Kind("samples per device and micro-step"),
    "global_batch": Kind("samples per step"),
    "global_batch_tokens": Kind("tokens per step"),
    "accumulation": Kind("micro-steps per step"),
    "seq_len": Kind("tokens"),
    "steps": Kind("steps"),
    "epochs": Kind("epochs"),
    "samples": Kind("samples"),
    "tokens": Kind("tokens"),
    "parameters": Kind("parameters"),
    "zero_stage": Kind("stage", is_whole=True),
    "step": Kind("step"),
    "epoch": Kind("epoch"),
    "tensor_parallel": Kind("devices", is_whole=True),
    "pipeline_parallel": Kind("devices", is_whole=True),
    "data_parallel": Kind("replicas"),
    "learning_rate": Kind(""),
    "step_time_s": TIME,
    "epoch_time_s": TIME,
    "total_time_s": TIME,
    "time_s": TIME,
    "device_time_s": Kind("s", ("time",), is_result=True),
    "communication_time_s": PART_OF_TIME,
    "compute_time_s": PART_OF_TIME,
    "data_time_s": Kind("s", ("time", "percent"), needs_unit=True),
    "latency_s": TIME,
    "tokens_per_s": Kind("tokens/s", ("rate",), is_result=True),
    "samples_per_s": Kind("samples/s", ("rate",), is_result=True),
    "steps_per_s": Kind("steps/s", ("rate",), is_result=True),
    "rate": Kind("per second, of what is not said", ("rate", "flops", "times"), is_result=True, needs_unit=True),
    "speedup": Kind("times", ("percent", "times"), is_result=True),
    "efficiency": Kind("fraction", ("percent", "times"), is_result=True, is_share=True),
    "change": Kind("fraction", ("percent", "times"), is_result=True),
    "mfu": SHARE,
    "hfu": SHARE,
    "flops_per_s": Kind("FLOP/s", ("flops",), is_result=True, needs_unit=True),
    "memory_bytes": Kind("bytes", ("memory", "percent"), is_result=True, needs_unit=True),
    "memory_share": Kind("fraction", is_result=True, is_share=True),
    "utilization": SHARE,
    "communication_share": SHARE,
    "bandwidth_bytes_per_s": Kind("bytes/s", ("bandwidth",), is_result=True, needs_unit=True),
    "power_w": Kind("W", ("power",)),
    "energy_j": Kind("J", ("energy",), needs_unit=True),
    "cost": Kind("currency", ("cost",)),
    "price_per_s": Kind("currency/s", ("price", "cost")),
    "gradient_norm": Kind(""),
    "loss": Kind(""),
    "val_loss": Kind(""),
    "perplexity": Kind(""),
    "accuracy": Kind("fraction", ("percent",), is_share=True),
    "repeats": Kind("runs", is_whole=True),
}
RESULTS = {name for name, kind in KINDS.items() if kind.is_result}
SHARES = [name for name, kind in KINDS.items() if kind.is_share]
# What cells with a unit are of, whatever their heading means: "124 s" below "Speed", "356 MWh" below "Total power".
OTHER_KINDS = {("rate", "time"): "time_s", ("power_w", "energy"): "energy_j"}
# Kind of a figure of which only the dimension of its unit is known.
KINDS_OF_UNITS = {"time": "time_s", "rate": "rate", "memory": "memory_bytes", "flops": "flops_per_s"}
