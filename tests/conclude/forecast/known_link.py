"""Ranks of sleeping layers on a link of known speed: what test_known_link.py starts in namespaces.

`python known_link.py RANK WORLD MASTER INTERFACE OUT`: times DDP steps of layers that sleep, and all-reduces.
"""

import json
import os
import sys
import time
from pathlib import Path

LAYERS, BYTES, STEPS = 8, 2**20, 8
FORWARD_S, BACKWARD_S = 0.02, 0.06


def main() -> None:
    rank, world, master, interface, out = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:6]
    os.environ |= {"GLOO_SOCKET_IFNAME": interface, "MASTER_ADDR": master, "MASTER_PORT": "29555"}
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    class Sleep(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            ctx.size = weight.numel()
            time.sleep(FORWARD_S)
            return x * 1.0

        @staticmethod
        def backward(ctx, gradient):
            time.sleep(BACKWARD_S)
            return gradient, torch.zeros(ctx.size)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(BYTES // 4))

        def forward(self, x):
            return Sleep.apply(x, self.weight)

    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    sweep = {}
    for nbytes in (2**16, 2**18, 2**20, 2**22):
        tensor = torch.zeros(nbytes // 4)
        times = []
        for _ in range(5):
            dist.barrier()
            began = time.perf_counter()
            dist.all_reduce(tensor)
            times.append(time.perf_counter() - began)
        own = torch.tensor(times, dtype=torch.float64)
        dist.all_reduce(own, op=dist.ReduceOp.MAX)
        sweep[nbytes] = min(own.tolist())
    alone = []
    layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))
    for _ in range(2):
        began = time.perf_counter()
        layers(torch.ones(1, requires_grad=True)).sum().backward()
        alone.append(time.perf_counter() - began)
    model = DistributedDataParallel(layers, bucket_cap_mb=0.5)
    steps = []
    for _ in range(STEPS):
        dist.barrier()
        began = time.perf_counter()
        model(torch.ones(1, requires_grad=True)).sum().backward()
        steps.append(time.perf_counter() - began)
    own = torch.tensor([*steps, *alone], dtype=torch.float64)
    dist.all_reduce(own, op=dist.ReduceOp.MAX)
    if rank == 0:
        result = {
            "alone": own.tolist()[STEPS:],
            "sweep": {str(size): seconds for size, seconds in sweep.items()},
            "steps": own.tolist()[2:STEPS],
        }
        Path(out).write_text(json.dumps(result))
    dist.barrier()
    os._exit(0)


if __name__ == "__main__":
    main()
