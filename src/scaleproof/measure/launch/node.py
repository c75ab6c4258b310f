"""What srun starts on each node: with REQUEST PORT PROGRAM. It becomes torchrun."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from scaleproof.ground.files import write_json
from scaleproof.measure.launch.allocated import torchrun
from scaleproof.measure.machine.allocation import cancel_own_job, daemon_port
from scaleproof.measure.machine.network import interface, short_host
from scaleproof.measure.machine.provenance import hardware
from scaleproof.measure.trainer.heartbeat import VARIABLE
from scaleproof.measure.trainer.request import Request

NODE = "node.{host}.json"  # what a node says about itself, in the request's folder
TRIES, TRY_SECONDS = 3, 5


def main(request_path: Path, port: int, program: str) -> None:
    """Describe this node, choose its interface, and become torchrun of `program`; `port`: where the nodes meet."""
    request = Request.read(request_path)
    here = short_host(socket.gethostname())
    write_json(request_path.parent / NODE.format(host=here), hardware())
    chosen = interface(request.hosts)
    for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        if chosen and not os.environ.get(variable):  # what the site has set stands
            os.environ[variable] = chosen
    first = request.hosts[0]
    # The launcher asks a run that hangs for its stacks with this signal; torchrun itself must outlive it.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    line = torchrun(request.cell, request_path, first, port, request.run_id, program)
    sys.stdout.flush()
    if here == short_host(first):
        os.execv(line[0], line)
    os.environ.pop(VARIABLE, None)  # the launcher, on the first node, looks at its own node's ranks
    code = subprocess.run(line).returncode
    if code and not answers(first):
        # With --no-kill the job would go on without its batch script until its time limit; Snakemake submits it again.
        print(f"{first}, where this run's launcher was, does not answer: the job is cancelled", flush=True)
        cancel_own_job()
    sys.exit(1 if code else 0)


def answers(host: str) -> bool:
    """Whether the scheduler's daemon on a node can be reached."""
    port = daemon_port()
    for _ in range(TRIES):
        try:
            socket.create_connection((host, port), timeout=TRY_SECONDS).close()
            return True
        except OSError:
            time.sleep(1)
    return False


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
