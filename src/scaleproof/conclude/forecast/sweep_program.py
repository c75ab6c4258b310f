"""The program of one rank of a sweep, which times collectives over message sizes: started by torchrun with a REQUEST.

The request says what to run and where; settings and result are files in its folder `out`.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scaleproof.conclude.forecast.collective import tournament_rounds
from scaleproof.ground.records.grouping import group_by
from scaleproof.measure.machine.network import short_host
from scaleproof.measure.trainer.__main__ import main
from scaleproof.measure.trainer.request import Request

SETTINGS, RESULT = "sweep-settings.json", "sweep-result.json"
ELEMENT = 4  # bytes: gradients travel in fp32


def time_collectives(request: Request) -> Any:
    """Time every collective at every size, then node pairs, and return the rank's session.

    Rank 0 writes the times of the slowest ranks.
    """
    # Imported in here, so that a library that cannot be loaded is reported as the failure of this launch.
    from scaleproof.ground.files import write_json
    from scaleproof.measure.machine import accelerator
    from scaleproof.measure.trainer.session import Session

    settings = json.loads((Path(request.out) / SETTINGS).read_text())  # collectives, sizes in bytes, when to stop
    session = Session(request.cell, timeout_s=request.time_limit, hosts=request.hosts, gpus=request.gpus)
    calls = []
    for name in settings["collectives"]:
        for nbytes in settings["sizes"]:
            operation, message_bytes = prepare_call(name, nbytes, session.world_size, session.device)
            times = seconds_of_calls(operation, session.device, settings)
            calls.append({"collective": name, "nbytes": message_bytes, "seconds": times})
            accelerator.release_memory(session.device)

    places = session.gather(session.place)  # of each rank: a dict with its host, devices, ...
    # Short name of a host -> its name by the scheduler, which results use.
    scheduler_names = {short_host(host): host for host in request.hosts}
    hosts = [scheduler_names.get(short_host(place["host"]), place["host"]) for place in places]
    own_pairs = time_node_pairs(session.rank, hosts, session.device, settings)
    pairs = [pair for pairs_of_rank in session.gather(own_pairs) for pair in pairs_of_rank]
    if session.rank == 0:
        write_json(Path(request.out) / RESULT, {"ranks": places, "calls": calls, "pairs": pairs})
    return session


def time_node_pairs(rank: int, hosts: list[str], device: Any, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Time all-reduce between the ranks of every two nodes; pairs that share no node run at the same time.

    `rank`: of this process. `hosts`: the node of each rank. Returns the pairs whose first rank this is, so that each
    pair is returned by one rank; [] on one node.
    """
    import torch.distributed as dist

    ranks_of_node = group_by(range(len(hosts)), hosts.__getitem__)
    nodes = list(ranks_of_node)
    timed_pairs = []
    for simultaneous in tournament_rounds(len(nodes)):  # pairs (a, b) of indices of nodes
        ranks_of_pairs = [sorted([*ranks_of_node[nodes[a]], *ranks_of_node[nodes[b]]]) for a, b in simultaneous]
        groups = [dist.new_group(members) for members in ranks_of_pairs]  # each rank creates all groups, in one order
        for (a, b), members, group in zip(simultaneous, ranks_of_pairs, groups, strict=True):
            if rank not in members:  # the pair of other nodes
                continue
            operation, message_bytes = prepare_call("all_reduce", settings["pair_nbytes"], len(members), device, group)
            times = seconds_of_calls(operation, device, settings, group)
            if rank == members[0]:
                timed_pairs.append({"nodes": [nodes[a], nodes[b]], "nbytes": message_bytes, "seconds": times})
        dist.barrier()  # the next round begins when all nodes are free
        for group in groups:
            dist.destroy_process_group(group)
    return timed_pairs


def prepare_call(
    name: str, nbytes: int, world_size: int, device: Any, group: Any = None
) -> tuple[Callable[[], None], int]:
    """Return a function that calls the collective `name` once, and the bytes of its whole message.

    These are `nbytes`, rounded so that each rank has an equal share. `group`: of `world_size` ranks; None for all
    ranks.
    """
    import torch
    import torch.distributed as dist

    share = max(1, nbytes // ELEMENT // world_size)
    whole = torch.ones(share * world_size, device=device)
    part = torch.ones(share, device=device)
    operations: dict[str, Callable[[], None]] = {
        "all_reduce": lambda: dist.all_reduce(whole, group=group),
        "broadcast": lambda: dist.broadcast(whole, group=group, group_src=0),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part, group=group),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole, group=group),
    }
    return operations[name], whole.numel() * ELEMENT


def seconds_of_calls(
    operation: Callable[[], None], device: Any, settings: dict[str, Any], group: Any = None
) -> list[float]:
    """Return the seconds of each counted call of `operation`, by the slowest rank (of `group`, else of all ranks).

    The first `warmup` calls of `settings` do not count, nor does the call after them, which tells how many calls fit
    into `limit_s` seconds. That many are counted, but at least 3 and at most `calls`.
    """
    import torch
    import torch.distributed as dist

    for _ in range(settings["warmup"]):
        operation()
    # One call tells how many fit into the time.
    fitting_calls = int(settings["limit_s"] / max(_call_seconds(operation, device, group), 1e-9))
    call_count = torch.tensor([max(3, min(settings["calls"], fitting_calls))], device=device)
    dist.broadcast(call_count, group=group, group_src=0)  # all ranks must make as many calls as the first rank
    own_seconds = [_call_seconds(operation, device, group) for _ in range(int(call_count.item()))]
    slowest = torch.tensor(own_seconds, device=device, dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX, group=group)
    return [float(seconds) for seconds in slowest.tolist()]


def _call_seconds(operation: Callable[[], None], device: Any, group: Any) -> float:
    """Return the seconds of one call on this rank, after a barrier; by CUDA events on a GPU."""
    import torch.distributed as dist

    from scaleproof.measure.machine.accelerator import seconds_of

    dist.barrier(group)
    return seconds_of(operation, device)


if __name__ == "__main__":
    main(Path(sys.argv[1]), time_collectives)
