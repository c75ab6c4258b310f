"""Two real ranks that are watched, and which faults planted into their loop are shown."""

import json
import subprocess
import sys

import pytest
from command_line import scaleproof

SCRIPT = """
import sys, torch, torch.distributed as dist
import scaleproof
from measure.watch.test_watch import Tiny, batches
dist.init_process_group("gloo")
rank = dist.get_rank()
for fault in sys.argv[1:]:
    torch.manual_seed(1)
    network = Tiny()
    if fault == "flat":
        from torch.distributed.fsdp import FullyShardedDataParallel
        model = FullyShardedDataParallel(network, device_id=torch.device("cpu"), use_orig_params=True)
    else:
        model = torch.nn.parallel.DistributedDataParallel(network)
    if fault == "hook":
        from torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
        model.register_comm_hook(None, noop_hook)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    taken = batches(seed=0 if fault == "data" else rank)
    for step, batch in enumerate(scaleproof.watch(taken, model, optimizer, folder=fault)):
        if fault == "exchange" or (fault == "once warm" and step > 3):
            with model.no_sync():
                model(batch).backward()
        else:
            model(batch).backward()
        optimizer.step()
        if fault != "not cleared":
            optimizer.zero_grad()
        if fault == "once warm" and step == len(taken) - 1:
            for parameter in model.parameters():
                dist.broadcast(parameter.data, 0)
dist.destroy_process_group()
"""
FAULTS = {
    "none": "",
    "flat": "",  # FSDP of torch 1, whose ranks have parts
    "exchange": "ranks-train-apart",
    "hook": "gradients-not-exchanged",
    "once warm": "after 4 of 8 steps, first after step 4, ranks had different weights",
    "data": "ranks-share",
    "not cleared": "gradients-not-cleared",
}


@pytest.fixture(scope="module")
def watched(tmp_path_factory, pytestconfig):
    """A script under torchrun, with a training for each fault: the folder of their records."""
    folder = tmp_path_factory.mktemp("watched")
    (folder / "train.py").write_text(SCRIPT)
    words = ["-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1", "--nproc-per-node=2", "train.py"]
    environment = {"PYTHONPATH": str(pytestconfig.rootpath / "tests"), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *words, *FAULTS], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.mark.parametrize(("fault", "code"), FAULTS.items(), ids=FAULTS)
def test_two_real_ranks(watched, fault, code):
    """What each rank has recorded, and what the command says of it."""
    ranks = [json.loads((watched / fault / f"watched.{rank}.json").read_text()) for rank in range(2)]
    gradients = 4 * ranks[0]["parameters"]
    reduced = sum(size for name, size in ranks[0]["probed"]["collectives"].items() if name.startswith("allreduce"))
    assert ranks[0]["parameters"] == 850
    if fault != "flat":
        assert reduced == (0 if fault in ("exchange", "hook") else gradients)
    answer = scaleproof("watched", fault, cwd=watched)
    assert answer.stdout.startswith(f"{fault}: 2 ranks, 8 optimizer steps")
    assert code in answer.stdout
    assert ("invalid" in answer.stdout or "suspect" in answer.stdout) == (code != "")
    assert answer.returncode == (1 if code else 0), answer.stdout
