"""Is the world that came up the one that was asked for? Imports no torch."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from scaleproof.ground.campaign.cells import Cell
from scaleproof.measure.machine.network import short_host


class WrongWorld(Exception):
    """Ranks, nodes or devices are not those of the cell: its numbers would be those of another geometry."""


class NotApplicable(Exception):
    """This machine cannot run the cell, which only a rank could find out."""


def check(cell: Cell, places: Sequence[Mapping[str, Any]], hosts: Sequence[str] = ()) -> None:
    """Raise WrongWorld unless the ranks' `places` are the nodes and devices of `cell`, each device once.

    `hosts`: the nodes of the allocation; names are compared up to the first dot, as some systems cut there.
    """
    reason = world_mismatch(cell.execution.geometry.nodes, cell.processes_per_node, places, hosts)
    if reason:
        raise WrongWorld(reason)


def world_mismatch(
    nodes: int, per_node: int, places: Sequence[Mapping[str, Any]], hosts: Sequence[str] = ()
) -> str | None:
    """What is wrong with a world; None where it is `nodes` nodes with `per_node` ranks each, each device used once.

    `places`: of each rank its `host` and `devices`; `hosts`: the nodes of the allocation, empty where none is known.
    """
    if len(places) != nodes * per_node:
        return f"{nodes * per_node} ranks were asked for, {len(places)} came up"
    ranks_on = Counter(short_host(place["host"]) for place in places)
    if len(ranks_on) != nodes:
        return f"{nodes} nodes were asked for, the ranks are on {len(ranks_on)}: {', '.join(sorted(ranks_on))}"
    uneven = {host: count for host, count in ranks_on.items() if count != per_node}
    if uneven:
        numbers = ", ".join(f"{count} on {host}" for host, count in sorted(uneven.items()))
        return f"{per_node} ranks per node were asked for; there are {numbers}"
    foreign = set(ranks_on) - {short_host(host) for host in hosts} if hosts else set()
    if foreign:
        return f"ranks are on {', '.join(sorted(foreign))}, the allocation is {', '.join(hosts)}"
    users_of = Counter(device for place in places for device in place["devices"] if device != "cpu")
    for device, count in users_of.items():
        if count > 1:
            return f"{device} is used by {count} ranks"
    return None
