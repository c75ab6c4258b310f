"""`python -m scalebench.launch.node REQUEST PORT PROGRAM`: what srun starts on each node. It becomes the node's torchrun."""

import os
import signal
import socket
import sys
from pathlib import Path

from scalebench.launch.cluster import interface, torchrun
from scalebench.launch.provenance import hardware
from scalebench.record.write import write_json
from scalebench.trainer.pulse import VARIABLE
from scalebench.trainer.request import Request
from scalebench.trainer.world import short

NODE = "node.{host}.json"  # what a node says about itself, in the request's folder


def main(request_path: Path, port: int, program: str) -> None:
    """Describe this node, choose its network interface, and go on as torchrun."""
    request, here = Request.read(request_path), short(socket.gethostname())
    write_json(request_path.parent / NODE.format(host=here), hardware())
    chosen = interface(request.hosts)
    for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        if chosen and not os.environ.get(variable):  # what the site has set stands
            os.environ[variable] = chosen
    if here != short(request.hosts[0]):
        os.environ.pop(VARIABLE, None)  # the launcher, on the first node, looks at its own node's ranks
    # The launcher asks a run that hangs for its stacks with this signal; torchrun itself must outlive it.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    line = torchrun(request.cell, request_path, request.hosts[0], port, request.run_id, program)
    sys.stdout.flush()
    os.execv(line[0], line)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
