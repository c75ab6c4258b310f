"""Do all ranks have the same model in the end?"""

from collections import defaultdict
from collections.abc import Iterator

from scaleproof.ground.findings.registry import Flag, of_run
from scaleproof.ground.records.open_sections import Rank
from scaleproof.ground.records.run import MeasuredRun
from scaleproof.measure.machine.network import short_host


@of_run.finds("replicas-differ", "invalid")
def replicas_are_equal(run: MeasuredRun) -> Iterator[Flag]:
    """Ranks that hold the whole model have different weights after the last step: they did not train one model
    together.

    Detected: A checksum of the bits of all weights on each rank, at the end of the run, between ranks with one kind of
    device, of CPUs one model. Where weights are sharded (fsdp, zero3) there is nothing to compare.
    Seen: Parameters that a wrapper leaves out of the reduction; ranks that skip an update; a process group that each
    rank has to itself.
    Repair: Look at what one rank does and the others do not: reduction, learning rate, skipped updates.
    """
    by_device: dict[str, dict[int, str]] = defaultdict(dict)
    for rank, census in enumerate(run.metrics.census or []):
        if census.weights is not None:
            by_device[_kind_of_device(run, run.metrics.ranks[rank])][rank] = census.weights
    for checksums in by_device.values():  # of the weights, by rank
        first, *others = checksums
        different = [rank for rank in others if checksums[rank] != checksums[first]]
        if different:
            ranks = ", ".join(map(str, different))
            yield Flag(f"after the last step the weights of rank {ranks} are not those of rank {first}")
            return


def _kind_of_device(run: MeasuredRun, rank: Rank) -> str:
    """Return the name of a rank's GPU, or the model of its CPU; where nodes do not record theirs, the host's name.

    Two models of CPU may round one sum in two ways.
    """
    device, host = str(rank["device_name"]), str(rank["host"])
    if device != "cpu":
        return device
    node = run.metrics.hardware.get("nodes", {}).get(short_host(host), {})
    return str(node.get("cpu_model", host))
