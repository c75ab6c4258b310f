"""Memory of a run: how near it was to the end of the device."""

from collections.abc import Iterator

from scaleproof.ground.findings.registry import Code, Flag, of_run
from scaleproof.ground.number_format import fixed
from scaleproof.ground.records.run import MeasuredRun

NEAR_FULL = 0.95  # of a device: the allocator gives back and asks again, and throughput falls

NEAR_MEMORY_CLIFF = Code(
    "near-memory-cliff",
    "note",
    what="The allocator holds nearly all of the device, or had to give memory back and ask again: throughput falls "
    "there, and a slightly longer sample is out of memory.",
    detected="Reserved memory above 95 % of the device, or retries of the allocator.",
    seen="OpenTau pull request 273: 7.0 to 4.9 samples/s at 97-98 % reserved; fms-fsdp issue 63.",
    repair="Take a smaller micro-batch: scaleproof frontier says which is the largest and which the fastest.",
)


@of_run.check(NEAR_MEMORY_CLIFF)
def memory_has_room(run: MeasuredRun) -> Iterator[Flag]:
    """Flag a run whose allocator retried, or reserved more than 95 % of a device's memory."""
    memory = run.metrics.memory
    if memory.cuda_alloc_retries:
        yield Flag(f"the allocator retried {memory.cuda_alloc_retries} times in the window")
        return
    totals = [device_bytes(gpu.get("memory", "")) for gpu in run.metrics.hardware.get("gpus") or []]
    known = [total for total in totals if total]
    reserved = memory.max_cuda_reserved_bytes
    if reserved is not None and known and reserved > NEAR_FULL * min(known):
        yield Flag(f"{fixed(100 * reserved / min(known), 1)} % of the device were reserved")


def device_bytes(text: str) -> float:
    """Return in bytes the memory of a GPU that nvidia-smi prints as "81559 MiB"; 0 where `text` is something else."""
    number, _, unit = text.partition(" ")
    return float(number) * 2**20 if number.isdecimal() and unit == "MiB" else 0.0
