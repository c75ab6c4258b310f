"""The strategies, from simple to involved: what each shards, and which of them DeepSpeed runs; and the precisions."""

from typing import Literal

StrategyName = Literal[
    "single",
    "dp",
    "ddp",
    "fsdp",
    "hsdp",
    "zero0",
    "zero1",
    "zero2",
    "zero3",
    "zero1-offload",
    "zero2-offload",
    "zero3-offload",
]
PrecisionName = Literal["fp32", "tf32", "bf16", "fp16"]
LOW = {"bf16": "bfloat16", "fp16": "float16"}  # precisions of 16 bits -> the dtype of their products, as torch names it
# Name -> stage of sharding, as the ZeRO paper counts: 1 the optimizer's state, 2 gradients too, 3 weights too. From
# simple to involved: what must be understood, configured and debugged before it runs.
STAGES = {"single": 0, "dp": 0, "ddp": 0, "fsdp": 3, "hsdp": 3, "zero0": 0, "zero1": 1, "zero2": 2, "zero3": 3}
SIMPLEST_FIRST = tuple(STAGES)
SHARDING = tuple(name for name, stage in STAGES.items() if stage)
FSDP = ("fsdp", "hsdp")
SHARDING_ZERO = ("zero1", "zero2", "zero3")
# Keys of `execution` that say something to some strategies alone, of two devices or more.
MATTERS_TO: dict[str, tuple[str, ...]] = {
    "bucket_elements": ("ddp", *SHARDING_ZERO),
    "overlap_comm": SHARDING_ZERO,
    "fsdp_prefetch": FSDP,
    "fsdp_reshard": FSDP,
    "reduce_dtype": ("ddp", *FSDP),
}
_OFFLOAD = "-offload"  # ends the name of a strategy whose optimizer is on the CPU


def is_offloaded(strategy: str) -> bool:
    """Return whether the optimizer's state and step are on the CPU."""
    return strategy.endswith(_OFFLOAD)


def without_offload(strategy: str) -> str:
    """Return the strategy that shards alike and keeps its optimizer on the devices: "zero1" for "zero1-offload"."""
    return strategy.removesuffix(_OFFLOAD)


def zero_stage(strategy: str) -> int | None:
    """Return the stage of DeepSpeed ZeRO, 1 for "zero1-offload"; None for strategies that DeepSpeed does not run."""
    return STAGES.get(without_offload(strategy)) if is_deepspeed(strategy) else None


def is_deepspeed(strategy: str) -> bool:
    return strategy.startswith("zero")


def simplicity(strategy: str) -> tuple[int, bool]:
    """Return a key that sorts simple strategies first, each before its offloaded form, and unknown ones last."""
    name = without_offload(strategy)
    return SIMPLEST_FIRST.index(name) if name in STAGES else len(STAGES), is_offloaded(strategy)
