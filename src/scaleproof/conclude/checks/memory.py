"""Memory of a run: how near it was to the end of the device, and its state against the formula."""

from collections.abc import Iterator

from scaleproof.ground.campaign.strategies import LOW, is_deepspeed, is_offloaded
from scaleproof.ground.findings.registry import Flag, of_run
from scaleproof.ground.number_format import fixed, integer, megabytes
from scaleproof.ground.records.run import MeasuredRun

# Measured state may be so many times the ZeRO paper's formula; a workspace of cuBLAS, 32 MiB on Hopper, counts too.
STATE = 1.3
LEAST_STATE = 0.8  # with less than this share of it something was not counted: without gradients it is 0.75
PEAK = 0.95  # a peak may be this share of the memory of a process by another count: some pages are counted late
NEAR_FULL = 0.95  # beyond this share of a device the allocator gives back and asks again, and throughput falls


@of_run.finds("near-memory-cliff", "note", only_first=True)
def memory_has_room(run: MeasuredRun) -> Iterator[Flag]:
    """The allocator holds nearly all of the device, or had to give memory back and ask again: throughput falls there,
    and a slightly longer sample is out of memory.

    Detected: Reserved memory above 95 % of the device, or retries of the allocator.
    Seen: OpenTau pull request 273: 7.0 to 4.9 samples/s at 97-98 % reserved; fms-fsdp issue 63.
    Repair: Take a smaller micro-batch: scaleproof frontier says which is the largest and which the fastest.
    """
    memory = run.metrics.memory
    if memory.cuda_alloc_retries:
        yield Flag(f"the allocator retried {memory.cuda_alloc_retries} times in the window")

    sizes = [device_bytes(gpu.get("memory", "")) for gpu in run.metrics.hardware.get("gpus") or []]
    smallest_size = min((size for size in sizes if size), default=None)  # bytes
    reserved_bytes = memory.max_cuda_reserved_bytes
    if smallest_size and reserved_bytes is not None and reserved_bytes > NEAR_FULL * smallest_size:
        yield Flag(f"{fixed(100 * reserved_bytes / smallest_size, 1)} % of the device were reserved")


def device_bytes(text: str) -> float:
    """Return in bytes the memory of a GPU that nvidia-smi prints as "81559 MiB"; 0 where `text` is something else."""
    number, _, unit = text.partition(" ")
    return float(number) * 2**20 if number.isdecimal() and unit == "MiB" else 0.0


@of_run.finds("state-differs", "note")
def state_is_the_formulas(run: MeasuredRun) -> Iterator[Flag]:
    """Weights, gradients and optimizer state take more memory than the formula says; or, `suspect`, less than they can.

    Detected: Measured state of the largest rank over the ZeRO paper's formula: 1.3; or 0.8, where nothing is offloaded;
    on CPUs the memory of the process against its state; the most that a rank took against what it took in the end.
    Seen: Buckets and buffers of an engine, which are large beside a small model.
    Repair: Plan memory by the measured figure; smaller buckets help.
    """
    memory = run.metrics.memory
    ratio = memory.state_bytes / memory.state_bytes_predicted if memory.state_bytes_predicted else 0.0  # 0: unknown
    # Where the optimizer is offloaded, gradients leave the device within the step: a smaller state is no fault there.
    if 0 < ratio < LEAST_STATE and not is_offloaded(run.metrics.training_config.strategy):
        yield Flag(
            f"{megabytes(memory.state_bytes)} were counted, {megabytes(memory.state_bytes_predicted)} by the "
            f"formula ({fixed(ratio, 2)}x)",
            severity="suspect",
            advice="Do not plan memory by this figure: part of the state was not counted, or is not there.",
        )

    if run.is_on_cpus and memory.max_rss_bytes < memory.state_bytes:
        yield Flag(
            f"the process took {megabytes(memory.max_rss_bytes)} at most, its state {megabytes(memory.state_bytes)}",
            severity="suspect",
            advice="One of the two is not in bytes, or not of this run.",
        )

    for rank in run.metrics.ranks:
        peak_bytes = rank.get("max_rss_bytes")  # by getrusage
        end_bytes = rank.get("rss_bytes")  # by psutil
        if peak_bytes and end_bytes and peak_bytes < PEAK * end_bytes:
            yield Flag(
                f"rank {rank['rank']} took {megabytes(peak_bytes)} at most, and {megabytes(end_bytes)} at the end of "
                "the window",
                severity="suspect",
                advice="One of the two is not in bytes, or not of this run.",
            )
            break  # the first such rank is enough

    if ratio > STATE:
        yield Flag(
            f"{megabytes(memory.state_bytes)} are kept, {megabytes(memory.state_bytes_predicted)} by the formula "
            f"({fixed(ratio, 2)}x): {_describe_extra_memory(run)}"
        )


def _describe_extra_memory(run: MeasuredRun) -> str:
    """Return in words what a strategy keeps in memory beside the state that the formula of the ZeRO paper has."""
    training = run.metrics.training_config
    if not is_deepspeed(training.strategy):
        return "buckets and buffers"
    if is_offloaded(training.strategy) and run.is_on_cpus:
        return "what is offloaded stays in the same memory where the device is a CPU; buckets of the engine"

    zero = (run.metrics.engine_config or {}).get("zero_optimization", {})
    bucket_elements, threshold = zero.get("reduce_bucket_size"), zero.get("param_persistence_threshold")
    if zero.get("stage") != 3 or bucket_elements is None or threshold is None:
        return "buckets of the engine"
    is_full_precision = training.precision not in LOW
    bucket_megabytes = bucket_elements * (4 if is_full_precision else 2) / 1e6
    copy = ", and a second copy of the device's part of the weights" if is_full_precision else ""
    return (
        f"stage 3 of DeepSpeed also keeps a gradient bucket ({fixed(bucket_megabytes, 1)} MB), on every device all "
        f"parameters of fewer than {integer(threshold)} elements{copy}"
    )
