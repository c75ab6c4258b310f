"""Which network interface leads to the other nodes."""

import os
import socket


def short_host(host: str) -> str:
    """Return a host's name without its domain."""
    return host.split(".", 1)[0]


def interface_to(hosts: list[str]) -> str | None:
    """Return the network interface by which this node reaches the other `hosts`. Returns None where none is known.

    The interface of this node's own name will not do: on many systems that name means 127.0.1.1.
    """
    import psutil

    here = short_host(os.uname().nodename)
    others = [host for host in hosts if short_host(host) != here]
    for host in others:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
            try:
                route.connect((host, 9))  # nothing is sent: the system only chooses a way
            except OSError:
                continue
            own_address, _ = route.getsockname()  # address, port
        for name, addresses in psutil.net_if_addrs().items():
            if any(address.address == own_address for address in addresses):
                return name
    return None


def loopback_problem() -> str | None:
    """Return why ranks on this machine cannot meet. Returns None where they can.

    Without a loopback interface, as in a container with `--network none` and no `lo`, they would try for minutes.
    """
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), timeout=5).close()
    except OSError as error:
        reason = error.strerror or str(error)
        return f"127.0.0.1 cannot be reached ({reason}): the loopback interface is down (ip link set lo up)"
    return None
