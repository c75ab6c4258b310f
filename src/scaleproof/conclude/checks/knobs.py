"""Does every key that the campaign varies leave a trace in what ran?"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from scaleproof.ground.campaign.execution import Execution
from scaleproof.ground.findings.registry import Flag, of_runs
from scaleproof.ground.records.run import MeasuredRun


def _attention(run: MeasuredRun) -> Any:
    step = _step(run)
    return sorted(step.attention), step.batched_flops > 0


def _recomputation(run: MeasuredRun) -> Any:
    return _step(run).linear_flops, sum(_step(run).attention.values()), _step(run).batched_flops


def _collectives(run: MeasuredRun) -> Any:
    return {name: (entry["calls"], entry["bytes"]) for name, entry in _step(run).collectives.items()}


def _compiled(run: MeasuredRun) -> Any:
    census = (run.metrics.census or [])[0]
    return census.compiled_graphs > 0, census.compiled


def _step(run: MeasuredRun) -> Any:
    return (run.metrics.census or [])[0].before


def _engine(run: MeasuredRun) -> dict[str, Any]:
    return run.metrics.engine_config or {}


# Key of `execution` -> what of the census it must change, where a census can see it.
TRACES: dict[str, Callable[[MeasuredRun], Any]] = {
    "attention": _attention,
    "activation_checkpointing": _recomputation,
    "fused_optimizer": lambda run: sorted(_step(run).updates),
    "bucket_elements": _collectives,
    "threads_per_device": lambda run: [census.threads for census in run.metrics.census or []],
    "compile": _compiled,
    "precision": lambda run: (_step(run).products, run.metrics.dtypes.get("float32_matmul")),
    "loss": _recomputation,
    "overlap_comm": lambda run: _engine(run).get("zero_optimization", {}).get("overlap_comm"),
    "fsdp_reshard": _collectives,
    "fsdp_prefetch": lambda run: _engine(run).get("fsdp", {}).get("forward_prefetch"),
    "reduce_dtype": _collectives,
}
ZERO = ("zero1", "zero2", "zero3")
# Keys that say something to some strategies alone, of two devices or more.
MATTERS_TO: dict[str, tuple[str, ...]] = {
    "bucket_elements": ("ddp", *ZERO),
    "overlap_comm": ZERO,
    "fsdp_prefetch": ("fsdp", "hsdp"),
    "fsdp_reshard": ("fsdp", "hsdp"),
    "reduce_dtype": ("ddp", "fsdp", "hsdp"),
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
    first_runs = {run.metrics.cell: run for run in reversed(runs) if run.metrics.census}  # of each cell
    for key, trace in TRACES.items():
        groups: dict[str, list[MeasuredRun]] = defaultdict(list)
        for run in first_runs.values():
            groups[_without(run, key)].append(run)
        varied = [group for group in groups.values() if len({_value(run, key) for run in group}) > 1]
        # In a product of keys some cells have a key that says nothing to them; it is tried in the others.
        concerned = [group for group in varied if _matters(key, group[0])]
        for group in concerned or varied:
            yield from _silent(key, trace, group)


def _without(run: MeasuredRun, key: str) -> str:
    """Return a run's configuration but for one key of `execution`, as a text that can be compared."""
    config = run.metrics.config
    execution = {name: value for name, value in config["execution"].items() if name != key}
    return repr((config["workload"], config["work"], execution))


def _value(run: MeasuredRun, key: str) -> Any:
    return run.metrics.config["execution"].get(key, Execution.model_fields[key].default)


def _silent(key: str, trace: Callable[[MeasuredRun], Any], group: list[MeasuredRun]) -> Iterator[Flag]:
    """Flag each run of `group` that has another value of `key` than the first one, but the same `trace`.

    `group`: runs whose configurations differ in `key` alone; `trace`: returns what the census saw of the key in a run.
    """
    reference = group[0]
    for run in group[1:]:
        a, b = _value(reference, key), _value(run, key)
        if a != b and trace(reference) == trace(run):
            yield Flag(
                f"execution.{key} is {a} in {reference.metrics.cell} and {b} "
                f"in {run.metrics.cell}, and the census sees no difference",
                about=[reference, run],
            )


def _matters(key: str, run: MeasuredRun) -> bool:
    """Return whether a key of `execution` can change anything with a run's strategy on as many devices."""
    strategies = MATTERS_TO.get(key)
    strategy = run.metrics.training_config.strategy.removesuffix("-offload")
    return strategies is None or (strategy in strategies and run.n_devices > 1)
