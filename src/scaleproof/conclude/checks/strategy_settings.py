"""Did the strategy get the settings of the cell, and does every key that the campaign varies leave a trace?"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from scaleproof.conclude.checks.census import inventory_of_run, settings_are_the_configured_ones
from scaleproof.ground.campaign.execution import Execution
from scaleproof.ground.campaign.strategies import (
    FSDP,
    MATTERS_TO,
    is_deepspeed,
    is_offloaded,
    without_offload,
    zero_stage,
)
from scaleproof.ground.findings.registry import Flag, of_run, of_runs
from scaleproof.ground.number_format import integer, significant
from scaleproof.ground.records.census import Census
from scaleproof.ground.records.grouping import group_by
from scaleproof.ground.records.run import MeasuredRun

DEEPSPEED_BUCKET = 500_000_000  # elements of a bucket by default (`auto`); a smaller model's bucket holds all of it
DDP_BUCKET = 25 * 2**20 // 4  # elements of fp32 in torch's default
SMALL_BUCKETS = 3  # so many buckets need not be full: torch's first is smaller, and so is the last
BACKENDS = {"cpu": "gloo"}  # name of a device -> its backend; all other names are those of GPUs
OF_GPUS = "nccl"
# What nobody configures, since it slows every step: DDP walks the graph, or copies all gradients; DeepSpeed waits for
# the device to print times.
DDP_USUAL = {"find_unused_parameters": False, "gradient_as_bucket_view": True, "broadcast_buffers": False}


@of_run.check(*settings_are_the_configured_ones.codes)
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
    if not is_deepspeed(strategy):
        return
    if (run.metrics.engine_config or {}).get("wall_clock_breakdown"):
        yield "the engine times its steps (wall_clock_breakdown)"

    zero = _engine_section(run, "zero_optimization")
    devices = {name: (zero.get(name) or {}).get("device") or "none" for name in ("offload_optimizer", "offload_param")}
    offloaded = {name for name, device in devices.items() if device != "none"}
    configured = {"offload_optimizer"} if is_offloaded(strategy) else set()
    if zero and offloaded != configured:
        offloaded_text = ", ".join(sorted(offloaded)) or "nothing"
        options = "offload_optimizer and offload_param"
        yield f"the engine has {offloaded_text} of {options}, strategy {strategy} is configured"

    if zero_stage(strategy) != 0:  # stage 0 has neither buckets nor overlap of its own
        for name, values in _allowed_zero_settings(run).items():
            if name in zero and zero[name] not in values:
                # The least value is the size before it is rounded up.
                yield f"the engine's {name} is {zero[name]}, by the configuration it is {min(values)}"


def _allowed_zero_settings(run: MeasuredRun) -> dict[str, set[int]]:
    """Return the values that settings of ZeRO may have by a run's configuration: name -> the values."""
    execution = run.metrics.config["execution"]
    configured_elements = _bucket_elements(run, DEEPSPEED_BUCKET)
    elements = min(configured_elements, run.metrics.model.parameters)  # a bucket of the model's size holds all of it
    bucket_sizes = {elements, elements + elements % 2}  # some stages round up to an even number
    if configured_elements == execution.get("bucket_elements"):  # configured, and not DeepSpeed's default
        bucket_sizes.add(configured_elements)  # older results have the configured size, larger than the model or not
    overlap = execution.get("overlap_comm", "auto")
    if overlap == "auto":
        overlap = zero_stage(execution["strategy"]) == 3  # DeepSpeed's default
    return {"reduce_bucket_size": bucket_sizes, "allgather_bucket_size": bucket_sizes, "overlap_comm": {overlap}}


def _bucket_elements(run: MeasuredRun, default: int) -> int:
    """Return the number of elements in a bucket of gradients: as configured, or the library's `default`."""
    elements = run.metrics.config["execution"].get("bucket_elements", "auto")
    return default if elements == "auto" else elements


def _ddp_problems(run: MeasuredRun) -> Iterator[str]:
    """Yield in words which options of DDP are not the usual ones. Older runs do not record them."""
    options = _engine_section(run, "ddp")
    for name, usual in DDP_USUAL.items():
        if options.get(name, usual) != usual:
            yield f"DDP has {name} {options[name]}; it is {usual} in every run"


def _fsdp_problems(run: MeasuredRun) -> Iterator[str]:
    """Yield in words that FSDP2 had another number of replicas, or of blocks gathered ahead, than configured.

    With `fsdp_prefetch` 1 torch's own order, one block ahead, is left alone, and recorded as 0 or 1. Older runs lack
    some of these settings.
    """
    execution = run.metrics.config["execution"]
    settings = _engine_section(run, "fsdp")
    recorded_depth = settings.get("forward_prefetch")
    if execution["strategy"] not in FSDP or recorded_depth is None:
        return
    replicas = run.geometry[0] if execution["strategy"] == "hsdp" else 1  # hsdp has a replica on each node
    if settings.get("replicas", replicas) != replicas:
        yield f"fsdp has {settings['replicas']} replicas, by the configuration {replicas}"

    depth = execution.get("fsdp_prefetch", 1)
    expected_depth = 0  # torch's own order is left alone
    if depth > 1:
        expected_depth = min(depth, len(inventory_of_run(run).blocks) - 1)  # no more blocks come after the first
    is_own_order = depth == 1 and recorded_depth <= 1
    if recorded_depth != expected_depth and not is_own_order:
        yield f"fsdp is set to gather {recorded_depth} blocks ahead, by the configuration {expected_depth}"


def _bucket_problems(run: MeasuredRun) -> Iterator[str]:
    """Yield in words that DDP made too few or too many all-reduces in a probed step for the configured bucket.

    There is one all-reduce for each bucket. A bucket is full when a gradient brings it to the configured size, or
    beyond, so that it may be larger by one tensor.
    """
    execution, censuses = run.metrics.config["execution"], run.metrics.census or []
    if execution["strategy"] != "ddp" or run.n_devices < 2 or not censuses:
        return
    inventory = inventory_of_run(run)
    bucket_elements = _bucket_elements(run, DDP_BUCKET)
    least_buckets = inventory.parameters / (bucket_elements + inventory.largest_tensor)
    most_buckets = inventory.parameters / bucket_elements + SMALL_BUCKETS
    collectives = censuses[0].before.collectives  # all ranks have the same
    calls = sum(entry["calls"] for name, entry in collectives.items() if name.startswith("allreduce"))
    if not least_buckets <= calls <= most_buckets:
        yield (
            f"DDP reduced its gradients in {calls} buckets; of {integer(inventory.parameters)} parameters, buckets of "
            f"{integer(bucket_elements)} elements are {significant(least_buckets)} to {significant(most_buckets)}"
        )


def _backend_problems(run: MeasuredRun) -> Iterator[str]:
    """Yield in words the first rank that communicates by another backend than its kind of device should."""
    for rank in run.metrics.ranks:
        backend = BACKENDS.get(rank["device_name"], OF_GPUS)
        if rank.get("backend", backend) != backend:
            yield f"rank {rank['rank']} communicates by {rank['backend']}; on {rank['device_name']} it is {backend}"
            return


def _census(run: MeasuredRun) -> Census:
    """Return the census of rank 0: what it did and was set to. IndexError where a run has none."""
    return (run.metrics.census or [])[0]


def _work_of_step(run: MeasuredRun) -> Any:
    """Return what is larger where a step makes part of its forward pass twice: FLOPs, and calls of attention."""
    step = _census(run).before
    return step.linear_flops, sum(step.attention.values()), step.batched_flops


def _collectives_of_step(run: MeasuredRun) -> Any:
    """Return how often each collective was called in a step, and with how many bytes."""
    return {name: (entry["calls"], entry["bytes"]) for name, entry in _census(run).before.collectives.items()}


def _engine_section(run: MeasuredRun, section: str) -> dict[str, Any]:
    """Return a section of the settings that the strategy's engine reports; empty where it reports none."""
    return (run.metrics.engine_config or {}).get(section, {})


# Key of `execution` -> what of the census it must change, where a census can see it.
TRACES: dict[str, Callable[[MeasuredRun], Any]] = {
    "attention": lambda run: (sorted(_census(run).before.attention), _census(run).before.batched_flops > 0),
    "activation_checkpointing": _work_of_step,
    "fused_optimizer": lambda run: sorted(_census(run).before.updates),
    "bucket_elements": _collectives_of_step,
    "threads_per_device": lambda run: [census.threads for census in run.metrics.census or []],
    "compile": lambda run: (_census(run).compiled_graphs > 0, _census(run).compiled),
    "precision": lambda run: (_census(run).before.products, run.metrics.dtypes.get("float32_matmul")),
    "loss": _work_of_step,
    "overlap_comm": lambda run: _engine_section(run, "zero_optimization").get("overlap_comm"),
    "fsdp_reshard": _collectives_of_step,
    "fsdp_prefetch": lambda run: _engine_section(run, "fsdp").get("forward_prefetch"),
    "reduce_dtype": _collectives_of_step,
}


@of_runs.finds("knob-without-trace", "suspect")
def knobs_leave_traces(runs: list[MeasuredRun]) -> Iterator[Flag]:
    """The campaign varies a key, and nothing that ran is different: the setting was ignored, or it cannot matter here.

    "It makes no difference" would then be said of something that was never tried.

    Detected: The census of runs that differ in one key of `execution` alone: kernels, operations, collectives, threads,
    graphs, dtypes.
    Seen: Buckets larger than the model; options that an engine overrides.
    Repair: Choose values that change something (a bucket smaller than the model), or correct what ignores the key.
    """
    first_runs = {run.metrics.cell: run for run in reversed(runs) if run.metrics.census}  # cell -> its first run
    for key, trace in TRACES.items():
        groups = group_by(first_runs.values(), partial(_text_without_key, key=key)).values()
        varied_groups = [group for group in groups if len({_value(run, key) for run in group}) > 1]
        # In a product of keys some cells have a key that does nothing in them: it is judged in the others, if any.
        concerned_groups = [group for group in varied_groups if _key_matters(key, group[0])]
        for group in concerned_groups or varied_groups:
            yield from _flag_silent_values(key, trace, group)


def _text_without_key(run: MeasuredRun, key: str) -> str:
    """Return a run's configuration without one key of `execution`, as a text, so that it can be compared."""
    config = run.metrics.config
    execution = {name: value for name, value in config["execution"].items() if name != key}
    return repr((config["workload"], config["work"], execution))


def _value(run: MeasuredRun, key: str) -> Any:
    """Return a run's value of a key of `execution`; the key's default where the record is older than the key."""
    return run.metrics.config["execution"].get(key, Execution.model_fields[key].default)


def _flag_silent_values(key: str, trace: Callable[[MeasuredRun], Any], group: list[MeasuredRun]) -> Iterator[Flag]:
    """Flag each run of a `group` that differs in `key` alone from the first, and has the same `trace` of it."""
    reference = group[0]
    reference_value = _value(reference, key)
    for run in group[1:]:
        value = _value(run, key)
        if value != reference_value and trace(reference) == trace(run):
            yield Flag(
                f"execution.{key} is {reference_value} in {reference.metrics.cell} and {value} "
                f"in {run.metrics.cell}, and the census sees no difference",
                about=[reference, run],
            )


def _key_matters(key: str, run: MeasuredRun) -> bool:
    """Return whether a key of `execution` can change anything with the strategy and number of devices of a run."""
    strategies = MATTERS_TO.get(key)
    strategy = without_offload(run.metrics.training_config.strategy)
    return strategies is None or (strategy in strategies and run.n_devices > 1)
