"""Which network interface leads to the other nodes."""

import os
import socket


def short_host(host: str) -> str:
    """A host's name without its domain."""
    return host.split(".", 1)[0]


def interface(hosts: list[str]) -> str | None:
    """The network interface from which this node reaches the others; None where there are none or they are unknown.

    Not the one of the node's own name, which many systems let point to themselves (127.0.1.1).
    """
    import psutil

    here = short_host(os.uname().nodename)
    others = [host for host in hosts if short_host(host) != here]
    for host in others:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
            try:
                way.connect((host, 9))  # nothing is sent: the system only chooses a way
            except OSError:
                continue
            own = way.getsockname()[0]
        for name, addresses in psutil.net_if_addrs().items():
            if any(address.address == own for address in addresses):
                return name
    return None
