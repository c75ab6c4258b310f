"""Does every key that the campaign varies leave a trace in what ran?

A trace is what a run's census, the record of what each rank did and was set to, has of one key. The probed step of rank
0 stands for those of all ranks.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from scaleproof.ground.campaign.execution import Execution
from scaleproof.ground.findings.registry import Code, Flag, of_runs
from scaleproof.ground.records.census import ProbedStep
from scaleproof.ground.records.run import MeasuredRun


def _attention(run: MeasuredRun) -> Any:
    """Return the names of the fused attention kernels that ran, and whether attention ran in plain products."""
    step = _step(run)
    return sorted(step.attention), step.batched_flops > 0


def _arithmetic(run: MeasuredRun) -> Any:
    """Return how much a step computed, in products and attention kernels: recomputing makes it more."""
    step = _step(run)
    return step.linear_flops, sum(step.attention.values()), step.batched_flops


def _collectives(run: MeasuredRun) -> Any:
    """Return the number of calls and the bytes of each collective in a step."""
    return {name: (entry["calls"], entry["bytes"]) for name, entry in _step(run).collectives.items()}


def _step(run: MeasuredRun) -> ProbedStep:
    """Return the step of rank 0 that was probed before the window, of a run with a census."""
    return (run.metrics.census or [])[0].before


def _engine(run: MeasuredRun) -> dict[str, Any]:
    """Return the settings that the strategy's wrapper reports of itself; empty where it reports none."""
    return run.metrics.engine_config or {}


# Key of `execution` -> what of the census it must change, where a census can see it.
TRACES: dict[str, Callable[[MeasuredRun], Any]] = {
    "attention": _attention,
    "activation_checkpointing": _arithmetic,
    "fused_optimizer": lambda run: sorted(_step(run).updates),
    "bucket_elements": _collectives,
    "threads_per_device": lambda run: [census.threads for census in run.metrics.census or []],
    "compile": lambda run: (run.metrics.census or [])[0].compiled_graphs > 0,
    "precision": lambda run: (_step(run).products, run.metrics.dtypes.get("float32_matmul")),
    "loss": _arithmetic,
    "overlap_comm": lambda run: _engine(run).get("zero_optimization", {}).get("overlap_comm"),
    "fsdp_reshard": _collectives,
    "fsdp_prefetch": lambda run: _engine(run).get("fsdp", {}).get("forward_prefetch"),
}
ZERO = ("zero1", "zero2", "zero3")
# Keys that say something to some strategies alone, of two devices or more.
MATTERS_TO: dict[str, tuple[str, ...]] = {
    "bucket_elements": ("ddp", *ZERO),
    "overlap_comm": ZERO,
    "fsdp_prefetch": ("fsdp", "hsdp"),
    "fsdp_reshard": ("fsdp", "hsdp"),
}


@of_runs.check(
    Code(
        "knob-without-trace",
        "suspect",
        what="The campaign varies a key, and nothing that ran is different: the setting was ignored, or it "
        "cannot matter here. "
        '"It makes no difference" would then be said of something that was never tried.',
        detected="The census of runs that differ in one key of `execution` alone: kernels, operations, "
        "collectives, threads, "
        "graphs, dtypes.",
        seen="Buckets larger than the model; options that an engine overrides.",
        repair="Choose values that change something (a bucket smaller than the model), or correct what "
        "ignores the key.",
    )
)
def knobs_leave_traces(runs: list[MeasuredRun]) -> Iterator[Flag]:
    """Flag pairs of cells that differ in one key of `execution` alone, and not in what the census saw of it."""
    first_runs = {run.metrics.cell: run for run in reversed(runs) if run.metrics.census}  # the first of each cell
    for key, trace in TRACES.items():
        groups: dict[str, list[MeasuredRun]] = defaultdict(list)  # cells that differ in `key` alone
        for run in first_runs.values():
            groups[_without(run, key)].append(run)
        varied = [group for group in groups.values() if len({_value(run, key) for run in group}) > 1]
        # A campaign that varies strategies as well has cells to which the key says nothing; they are no evidence where
        # others can show a difference.
        concerned = [group for group in varied if _matters(key, group[0])]
        for group in concerned or varied:
            yield from _silent(key, trace, group)


def _without(run: MeasuredRun, key: str) -> str:
    """Return a run's configuration but for one key of `execution`, as a text that can be compared."""
    config = run.metrics.config
    execution = {name: value for name, value in config["execution"].items() if name != key}
    return repr((config["workload"], config["work"], execution))


def _value(run: MeasuredRun, key: str) -> Any:
    """Return the value of a key of `execution`; in records from before the key its default."""
    return run.metrics.config["execution"].get(key, Execution.model_fields[key].default)


def _silent(key: str, trace: Callable[[MeasuredRun], Any], group: list[MeasuredRun]) -> Iterator[Flag]:
    """Flag each run of `group` that has another value of `key` than the first one, but the same `trace`.

    `group`: runs whose configurations differ in `key` alone; `trace`: returns what the census saw of the key in a run.
    """
    reference = group[0]
    for run in group[1:]:
        reference_value, value = _value(reference, key), _value(run, key)
        if value != reference_value and trace(run) == trace(reference):
            yield Flag(
                f"execution.{key} is {reference_value} in {reference.metrics.cell} and {value} "
                f"in {run.metrics.cell}, and the census sees no difference",
                about=[reference, run],
            )


def _matters(key: str, run: MeasuredRun) -> bool:
    """Return whether a key of `execution` can change anything with a run's strategy on as many devices."""
    strategies = MATTERS_TO.get(key)
    strategy = run.metrics.training_config.strategy.removesuffix("-offload")
    return strategies is None or (strategy in strategies and run.n_devices > 1)
