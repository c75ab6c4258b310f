"""Four ranks of gloo, each on a node of its own by name, measure all pairs: `python four_nodes.py FOLDER`."""

import json
import multiprocessing
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from scaleproof.conclude.forecast.sweep_program import time_node_pairs

NODES = ["n1", "n2", "n3", "n4"]


def rank_on_its_node(rank: int, folder: Path) -> None:
    store = dist.FileStore(str(folder / "store"), len(NODES))
    dist.init_process_group("gloo", store=store, rank=rank, world_size=len(NODES))
    settings = {"pair_nbytes": 4096, "warmup": 1, "calls": 3, "limit_s": 1.0}
    pairs = time_node_pairs(rank, NODES, torch.device("cpu"), settings)
    (folder / f"{rank}.json").write_text(json.dumps(pairs))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    context = multiprocessing.get_context("fork")  # torch is imported once for all
    ranks = [context.Process(target=rank_on_its_node, args=(rank, Path(sys.argv[1]))) for rank in range(len(NODES))]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(120)
    sys.exit(max(process.exitcode or 0 for process in ranks))
