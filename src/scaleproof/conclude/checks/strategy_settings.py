"""Did the wrapper of the strategy get the settings of the cell: buckets, overlap, offload, prefetch, backend?"""

from collections.abc import Iterator
from typing import Any

from scaleproof.conclude.checks.census import SETTINGS_DIFFER, geometry_of, inventory_of_run, parameters_of
from scaleproof.ground.findings.registry import Flag, of_run
from scaleproof.ground.number_format import integer, significant
from scaleproof.ground.records.run import MeasuredRun

DEEPSPEED_BUCKET = 500_000_000  # elements: its default, which `auto` is, but for models that are smaller
DDP_BUCKET = 25 * 2**20 // 4  # elements of fp32: torch's default
SMALL_BUCKETS = 3  # beside the full ones: torch's first is smaller, and so is the last
BACKENDS = {"cpu": "gloo"}  # of the devices' names; every other is a GPU
OF_GPUS = "nccl"
# What nobody configures, since it slows every step: DDP walks the graph, or copies all gradients; DeepSpeed waits for
# the device to print times.
DDP_USUAL = {"find_unused_parameters": False, "gradient_as_bucket_view": True, "broadcast_buffers": False}


@of_run.check(SETTINGS_DIFFER)
def the_wrapper_has_the_settings(run: MeasuredRun) -> Iterator[Flag]:
    """Flag a run whose strategy's wrapper reports other settings than its cell has, or acted otherwise when probed."""
    problems = [
        *_deepspeed_problems(run),
        *_ddp_problems(run),
        *_fsdp_problems(run),
        *_bucket_problems(run),
        *_backend_problems(run),
    ]
    if problems:
        yield Flag("; ".join(problems))


def _deepspeed_problems(run: MeasuredRun) -> Iterator[str]:
    """Yield in words which of DeepSpeed's effective settings of ZeRO are not the configured ones."""
    execution = run.metrics.config["execution"]
    strategy = execution["strategy"]
    if not strategy.startswith("zero"):
        return
    if (run.metrics.engine_config or {}).get("wall_clock_breakdown"):
        yield "the engine times its steps (wall_clock_breakdown)"
    zero = (run.metrics.engine_config or {}).get("zero_optimization", {})
    offloaded = _offloaded(zero)
    expected = {"offload_optimizer"} if strategy.endswith("-offload") else set()
    if zero and offloaded != expected:
        actual = ", ".join(sorted(offloaded)) or "nothing"
        yield f"the engine has {actual} of offload_optimizer and offload_param, strategy {strategy} is configured"
    if strategy.startswith("zero0"):  # has neither buckets nor overlap of its own
        return
    configured = _bucket(run, DEEPSPEED_BUCKET)
    elements = min(configured, run.metrics.model.parameters)  # a bucket of the model's size holds all of it
    buckets = {elements, elements + elements % 2}  # some stages round up to an even number
    if configured == execution.get("bucket_elements"):
        buckets.add(configured)  # older results have it as it was configured, larger than the model or not
    overlap = execution.get("overlap_comm", "auto")
    if overlap == "auto":
        overlap = strategy.startswith("zero3")  # DeepSpeed's default
    allowed: dict[str, set[int]] = {
        "reduce_bucket_size": buckets,
        "allgather_bucket_size": buckets,
        "overlap_comm": {overlap},
    }
    for name, values in allowed.items():
        if name in zero and zero[name] not in values:
            yield f"the engine's {name} is {zero[name]}, by the configuration it is {min(values)}"


def _bucket(run: MeasuredRun, default: int) -> int:
    """Return the number of elements in a bucket of gradients: as configured, or the library's `default`."""
    elements = run.metrics.config["execution"].get("bucket_elements", "auto")
    return default if elements == "auto" else elements


def _offloaded(zero: dict[str, Any]) -> set[str]:
    """Return the keys of what ZeRO's settings `zero` keep on the host: optimizer state, parameters or none."""
    names = ("offload_optimizer", "offload_param")
    return {name for name in names if (zero.get(name) or {}).get("device", "none") not in (None, "none")}


def _ddp_problems(run: MeasuredRun) -> Iterator[str]:
    """Yield in words which options of DDP are not those of every run. Older runs do not record them."""
    options = (run.metrics.engine_config or {}).get("ddp", {})
    for name, value in DDP_USUAL.items():
        if options.get(name, value) != value:
            yield f"DDP has {name} {options[name]}; it is {value} in every run"


def _fsdp_problems(run: MeasuredRun) -> Iterator[str]:
    """Yield in words where FSDP2's replicas, or the blocks that it gathers ahead, are not the configured ones.

    With `fsdp_prefetch` 1 torch's own order is left alone, one block ahead, and recorded as 0 or 1. Older runs lack
    some of these settings.
    """
    execution = run.metrics.config["execution"]
    settings = (run.metrics.engine_config or {}).get("fsdp", {})
    recorded = settings.get("forward_prefetch")
    if execution["strategy"] not in ("fsdp", "hsdp") or recorded is None:
        return
    nodes, _ = geometry_of(run)
    replicas = nodes if execution["strategy"] == "hsdp" else 1
    if settings.get("replicas", replicas) != replicas:
        yield f"fsdp has {settings['replicas']} replicas, by the configuration {replicas}"
    depth = execution.get("fsdp_prefetch", 1)
    expected = min(depth, len(inventory_of_run(run).blocks) - 1) if depth > 1 else 0
    is_own_order = depth == 1 and recorded <= 1
    if recorded != expected and not is_own_order:
        yield f"fsdp is set to gather {recorded} blocks ahead, by the configuration {expected}"


def _bucket_problems(run: MeasuredRun) -> Iterator[str]:
    """Yield in words that DDP made too few or too many all-reduces in a probed step for the configured bucket.

    There is one all-reduce for each bucket, and a bucket is full when a gradient brings it to the configured size, or
    beyond: it may be larger by one tensor.
    """
    execution, censuses = run.metrics.config["execution"], run.metrics.census or []
    if execution["strategy"] != "ddp" or run.n_devices < 2 or not censuses:
        return
    size = _bucket(run, DDP_BUCKET)
    parameters = parameters_of(run)
    collectives = censuses[0].before.collectives  # of rank 0, as of every rank
    calls = sum(entry["calls"] for name, entry in collectives.items() if name.startswith("allreduce"))
    least = parameters / (size + inventory_of_run(run).largest_tensor)
    most = parameters / size + SMALL_BUCKETS
    if not least <= calls <= most:
        yield (
            f"DDP reduced its gradients in {calls} buckets; of {integer(parameters)} parameters, buckets of "
            f"{integer(size)} elements are {significant(least)} to {significant(most)}"
        )


def _backend_problems(run: MeasuredRun) -> Iterator[str]:
    """Yield in words the first rank whose process group has another backend than its kind of device."""
    for rank in run.metrics.ranks:
        backend = BACKENDS.get(rank["device_name"], OF_GPUS)
        if rank.get("backend", backend) != backend:
            yield f"rank {rank['rank']} communicates by {rank['backend']}; on {rank['device_name']} it is {backend}"
            return
