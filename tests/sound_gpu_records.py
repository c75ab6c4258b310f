"""What sound records of GPUs have more than those of CPUs."""

from collections.abc import Callable

import numpy as np

from scaleproof.ground.facts.peaks import peak as peak_of
from scaleproof.ground.records.run import MeasuredRun

CUDA_SDPA = {"_scaled_dot_product_flash_attention": 2, "_scaled_dot_product_flash_attention_backward": 2}
SOUND = {  # of a GPU in the window, in joules nothing yet
    "samples": 40,
    "utilization_mean": 0.93,
    "sm_clock_mhz_mean": 1755.0,
    "sm_clock_mhz_min": 1740.0,
    "power_w_mean": 301.0,
    "throttled": {},
    **dict.fromkeys(("energy_j", "energy_counter_j", "energy_integral_j"), 0.0),
}
CPUS = 8  # of the machine, of which no rank of a GPU is bound to one
GPU = {  # as nvidia-smi prints it
    "name": "NVIDIA H100 80GB HBM3",
    "memory": "81559 MiB",
    "driver": "580.82.07",
    "power_cap": "700.00 W",
    "clock_sm_application": "1980 MHz",
    "ecc": "Enabled",
    "mig": "Disabled",
}


def on_gpus(run: MeasuredRun, chance: np.random.Generator | None = None) -> Callable[[dict], None]:
    """What the record of a complete run has more where each rank trains on an H100 of its own.

    `chance`: with as much noise as NVML has, and power caps that are active in half of the runs.
    """
    window, per_token = run.metrics.window, run.metrics.model.flops_per_token
    peak = peak_of(GPU["name"], run.metrics.config["execution"]["precision"])
    assert peak

    def change(data: dict) -> None:
        for number, rank in enumerate(data["ranks"]):
            # The counter is read a tenth of a second early or late; power moves by some watts between samples.
            error = float(chance.uniform(-0.1, 0.1)) / max(2.0, window.wall_time_s) if chance else 0.0
            joules = 300.0 * window.wall_time_s * (1 + error) + number
            capped = {"power_cap": float(chance.uniform(0.5, 1))} if chance and chance.random() < 0.5 else {}
            energy = {"energy_j": joules, "energy_counter_j": joules, "energy_integral_j": 1.01 * joules}
            gpu = SOUND | {"throttled": capped} | energy
            cuda = {"allocated": 9_000_000_000 + number, "reserved": 9_500_000_000 + number, "retries": 0}
            rank |= {"cores": [], "near_cores": list(range(CPUS)), "cores_busy_s": 0}
            rank |= {"devices": [f"GPU-{number:08x}"], "device_name": GPU["name"], "gpus": [gpu], "cuda_memory": cuda}
        data["window"]["clock"] = "cuda_events"
        data["hardware"]["gpus"] = [dict(GPU) for _ in data["ranks"]]
        joules = sum(rank["gpus"][0]["energy_j"] for rank in data["ranks"])
        data["energy"] = {"joules": joules, "joules_per_token": joules / window.tokens, "withheld": None}
        most = data["ranks"][-1]["cuda_memory"]
        data["memory"] |= {
            "max_cuda_mem_allocated_bytes_global": most["allocated"],
            "max_cuda_mem_reserved_bytes_global": most["reserved"],
            "cuda_alloc_retries": 0,
        }
        share = window.tokens_per_s_per_device / peak.flops
        data["utilization"] |= {
            "peak_flops_per_sec": peak.flops,
            "peak_source": peak.source,
            "mfu": per_token * share,
            "mfu_causal": run.metrics.model.flops_per_token_causal * share,
        }
        for census in data["census"]:
            for step in (census["before"], census["after"]):
                step |= {"attention": CUDA_SDPA, "busy_s": None, "idle_s": None}
            census["cores"] = list(range(CPUS))

    return change
