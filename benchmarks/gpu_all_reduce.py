"""All-reduce between the devices of this machine: `gpu_all_reduce.py DEVICES cuda|cpu NBYTES`, as a sweep times it."""

import statistics
import sys
import tempfile
from pathlib import Path

from scaleproof.conclude.forecast.sweep import CALLS, LIMIT_S, WARMUP, run_launch
from scaleproof.ground.campaign.cells import expand_cells
from scaleproof.ground.campaign.config import Campaign
from scaleproof.measure.launch.device_lock import devices_of, hold_devices
from scaleproof.measure.machine.gpus import cuda_devices

TIME_S = 60.0


def main(devices: int, device: str, nbytes: int) -> None:
    execution = {"strategy": "ddp", "geometry": f"1x{devices}", "device": device}
    cell = expand_cells(Campaign.model_validate({"title": "all-reduce", "execution": execution}))[0]
    settings: dict[str, object] = {
        "collectives": ["all_reduce"],
        "sizes": [nbytes],
        "pair_nbytes": nbytes,
        "warmup": WARMUP,
        "calls": CALLS,
        "limit_s": LIMIT_S,
    }
    lock = hold_devices(devices_of(cell, cuda_devices()), "the all-reduce of gpu-check")
    with tempfile.TemporaryDirectory() as folder, lock:
        made = run_launch("gpu_check", cell, Path(folder), settings, TIME_S, None)
    (call,) = made.calls
    seconds = statistics.median(call.seconds)
    # Every byte crosses the slowest link 2 (n - 1) / n times, whatever the algorithm (nccl-tests).
    bus = 2 * (devices - 1) / devices * call.nbytes / seconds / 1e9
    print(
        f"all-reduce of {call.nbytes / 2**20:.0f} MiB on {devices} devices: {seconds * 1e3:.2f} ms "
        f"(median of {len(call.seconds)}), bus bandwidth {bus:.1f} GB/s"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
