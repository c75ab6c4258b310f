"""Exposed communication of a trace against a second way to know it: the step with and without synchronisation.

Two ranks of DDP make blocks of steps in turn, in one process each: as they are, and inside of `no_sync`, where nothing
is exchanged. Both under torch's profiler, so that it slows both down alike. What a step loses by synchronising is held
against the exposed communication that the trace of the synchronising steps shows. Wanted: within a quarter of the
step, since on a CPU gloo's threads also slow down the operators that they share a core with, and copying into buckets
goes away too.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
from side_by_side import quietly

TOLERANCE = 0.25  # of the step
BLOCKS, STEPS = 6, 8


def rank(folder: Path) -> None:
    """One rank's part: blocks of steps, and a trace of each."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    from scaleproof.ground.campaign.cells import expand_cells
    from scaleproof.ground.campaign.config import Campaign
    from scaleproof.measure.model.build import build_model
    from scaleproof.measure.strategy import strategy_class
    from scaleproof.measure.trainer.session import Session

    data = {
        "title": "exposed",
        "workload": {"model": {"layers": 4, "width": 256, "heads": 4, "context": 128}, "seq_len": 64},
        "work": {"global_batch": 4},
        "execution": {"strategy": "ddp", "geometry": "1x2", "device": "cpu"},
    }
    cell = expand_cells(Campaign.model_validate(data))[0]
    session = Session(cell, timeout_s=120)
    ddp = strategy_class("ddp")(cell, build_model(cell), session.device)
    tokens = torch.randint(0, 2048, (2, 65))
    for step in range(4):
        ddp.micro_step(tokens, boundary=True)
        ddp.update(step)
    for block in range(BLOCKS):
        # micro_step(boundary=False) is the same forward and backward inside of no_sync
        torch.distributed.barrier()
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            for step in range(STEPS):
                with torch.profiler.record_function("step"):
                    ddp.micro_step(tokens, boundary=block % 2 == 0)
                    ddp.update(step)
        profiler.export_chrome_trace(str(folder / f"block{block}-rank{session.rank}.json"))
    session.leave()


def main() -> None:
    from scaleproof.ground.records.profile_schema import mean_of_field
    from scaleproof.measure.trace.summarise import summarise_files

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        quietly([*launcher, __file__, name], env=os.environ | {"OMP_NUM_THREADS": "1"})
        with_ = []
        without = []
        exposed = []
        for block in range(BLOCKS):
            profile = summarise_files([folder / f"block{block}-rank{r}.json" for r in (0, 1)], ranks=2)
            walls = [row.wall_ms for row in profile.per_step]
            (without if block % 2 else with_).append(float(np.median(walls)))
            if block % 2 == 0:
                exposed.append(mean_of_field(profile, "exposed_ms"))
    synchronised, alone, traced = (float(np.median(v)) for v in (with_, without, exposed))
    print(json.dumps({"with": with_, "without": without, "exposed": exposed}))
    difference = synchronised - alone
    print(
        f"a step takes {synchronised:.1f} ms with and {alone:.1f} ms without synchronisation: {difference:.1f} ms; "
        f"exposed by the trace: {traced:.1f} ms"
    )
    ratio = abs(difference - traced) / synchronised
    print(f"they differ by {ratio:.0%} of the step (wanted: at most {TOLERANCE:.0%})")
    sys.exit(ratio > TOLERANCE)


if __name__ == "__main__":
    rank(Path(sys.argv[1])) if "RANK" in os.environ else main()
