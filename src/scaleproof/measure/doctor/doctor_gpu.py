"""Are this machine's GPUs fit to measure? Checks of `scaleproof doctor` that need one; each figure is judged apart."""

import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from scaleproof.ground.facts.peaks import peak
from scaleproof.ground.verdict import Verdict, judged, not_here
from scaleproof.measure.doctor.doctor import Look
from scaleproof.measure.doctor.doctor_links import check_copies, check_pairs, time_on_device_s
from scaleproof.measure.doctor.random_tokens import write_random_tokens
from scaleproof.measure.machine.applicable import arch_problem
from scaleproof.measure.machine.gpus import Gpu, driver_library

MOST_CLOCKS_APART = 0.02  # CUDA's events and the host's clock: a launch and a wait, some 20 us, around tens of ms
MOST_ENERGY_APART = 0.10  # the energy counter and the integral of power: by NVML's manual 5 % for each
# Least and most of the published peak: a T4 at its power cap is near the least; consumer cards boost beyond their data
# sheets.
MATMUL_SHARES = (0.4, 1.1)
LAG_CYCLES = 2_000_000  # clock cycles that the device spins before each micro-batch: about a millisecond
PROHIBITED = "prohibited"  # the compute mode in which nobody may use the device
COMPUTE_MODES = ("default", "exclusive thread", PROHIBITED, "exclusive process")  # as NVML numbers them
FLASH = ("flash", "cudnn", "fmha")  # words in names of attention kernels that make no matrix of all pairs
SPIN_CYCLES = 10**7  # clock cycles: some milliseconds of any device
PRODUCT_ROWS = 8192  # matrices of so many rows put any device at its peak


def checks_of_gpus(gpus: list[Gpu], lost: str = "") -> list[Look]:
    """Return the checks of `gpus`.

    Without GPUs each check is `not here`. If GPUs are `lost` (the reason), the first check fails.
    """
    once: dict[str, Callable[[], Verdict]] = {  # name -> check, made once for the machine
        "architecture": check_architecture,
        "UUIDs": check_uuids,
        "event clock": check_event_clock,
        "attention kernel": check_attention,
        "read-ahead": check_read_ahead,
        "torch.compile": check_compiled,
        "pairs of devices": check_pairs,
    }
    each: dict[str, Callable[[], Verdict]] = {  # name -> check, made on each device
        "clocks and power": check_readable,
        "energy": check_energy,
        "matmul rate": check_matmul,
        "copy bandwidth": check_copies,
    }
    if gpus:
        looks = [Look(name, "gpu", look) for name, look in once.items()]
        for name, look in each.items():
            for index in range(len(gpus)):
                full_name = f"{name}: device {index}" if len(gpus) > 1 else name
                looks.append(Look(full_name, "gpu", partial(_verdict_on_device, index, look)))
        return looks

    reason = f"none, because {lost}" if lost else "no CUDA device is visible, or the installed torch has no CUDA"
    absent = dict.fromkeys(once | each, partial(not_here, reason))
    if lost:
        advice = "no GPU of this machine can be measured until that is mended"
        absent["architecture"] = partial(judged, False, reason, advice)
    return [Look(name, "gpu", look) for name, look in absent.items()]


def _verdict_on_device(index: int, look: Callable[[], Verdict]) -> Verdict:
    """Return the verdict of `look`, run while device number `index` is torch's current one."""
    import torch

    with torch.cuda.device(index):
        return look()


def check_architecture() -> Verdict:
    """Judge whether the installed torch has kernels for the first device."""
    import torch

    name = torch.cuda.get_device_name(0)
    problem = arch_problem(name, torch.cuda.get_device_capability(0), torch.cuda.get_arch_list())
    return judged(problem is None, problem or f"torch {torch.__version__} has kernels for {name}", "see docs/gpu.md")


def check_uuids() -> Verdict:
    """Judge whether NVML knows torch's devices by their UUIDs, and programs may use them."""
    import torch

    from scaleproof.measure.trainer.session import nvml_uuid

    nvml = driver_library()
    nvml.nvmlInit()
    uuids = [nvml_uuid(torch.cuda.get_device_properties(index)) for index in range(torch.cuda.device_count())]
    unknown_uuids: list[str] = []
    modes: list[str] = []
    for uuid in uuids:
        try:
            modes.append(_compute_mode(nvml, nvml.nvmlDeviceGetHandleByUUID(uuid)))
        except nvml.NVMLError:
            unknown_uuids.append(uuid)
    return judge_uuids(uuids, unknown_uuids, modes)


def _compute_mode(nvml: Any, handle: object) -> str:
    """Return how many processes may use a device at once: one of COMPUTE_MODES, or "unknown"."""
    try:
        return COMPUTE_MODES[nvml.nvmlDeviceGetComputeMode(handle)]
    except (nvml.NVMLError, IndexError, AttributeError):  # MIG instances and AMD's devices have no compute mode
        return "unknown"


def judge_uuids(uuids: list[str], unknown_uuids: list[str], modes: Sequence[str] = ()) -> Verdict:
    """Judge whether NVML knows all of torch's devices, and no compute mode forbids their use.

    `unknown_uuids`: the `uuids` that NVML does not know. `modes`: the compute modes of the others.
    """
    advice = "power, energy and clocks of these devices will be missing in the record"
    if PROHIBITED in modes:
        advice = "no program may use a device in this mode: nvidia-smi -c DEFAULT, or leave it out"
    evidence = f"torch and NVML agree on {len(uuids)}"
    if unknown_uuids:
        evidence = f"NVML does not know {', '.join(unknown_uuids)}"
    if modes:
        evidence += f"; compute mode {', '.join(sorted(set(modes)))}"
    are_known = not unknown_uuids and len(set(uuids)) == len(uuids)
    is_sound = are_known and PROHIBITED not in modes
    return judged(is_sound, evidence, advice, uuids=uuids, compute_modes=list(modes))


def check_readable() -> Verdict:
    """Judge whether power, clock, load and throttling can be read, as by the monitor of timed windows."""
    return judge_readable(_monitor_during(0.3, lambda: None)[0])


def judge_readable(sample: dict[str, Any]) -> Verdict:
    """Judge whether a device's `sample` (key -> value) has values for power, clock, load and throttling."""
    key_of_figure = {"power": "power_w_mean", "clock": "sm_clock_mhz_mean", "utilization": "utilization_mean"}
    keys = key_of_figure | {"throttling": "throttled"}
    missing_names = [name for name, key in keys.items() if sample[key] is None]
    if missing_names:
        evidence = f"not readable: {', '.join(missing_names)}"
    else:
        evidence = ", ".join(f"{name} {sample[key]:.4g}" for name, key in key_of_figure.items())
    advice = "runs are measured, but throttling and energy stay unknown"
    return judged(not missing_names, evidence, advice, **{key: sample[key] for key in key_of_figure.values()})


def check_energy() -> Verdict:
    """Judge whether energy counter and integral of power agree over some seconds of matrix products."""
    product = _make_product(PRODUCT_ROWS)
    _keep_busy(product, 2.0)  # some devices report the mean power of the last second
    sample, *_ = _monitor_during(2.5, lambda: _keep_busy(product, 2.5))
    return judge_energy(sample["energy_counter_j"], sample["energy_integral_j"])


def judge_energy(counter_j: float | None, integral_j: float | None) -> Verdict:
    """Judge whether two figures of the same energy agree. A figure that the device does not give is None."""
    if counter_j is None or integral_j is None:
        return not_here("this device has no energy counter, or no power reading")
    apart = abs(counter_j - integral_j) / max(counter_j, integral_j)
    evidence = f"counter {counter_j:.0f} J, integral of power {integral_j:.0f} J ({apart:.1%} apart)"
    advice = "energy of runs will be withheld where they differ by more than 10 %: use windows of 10 s or longer"
    return judged(apart <= MOST_ENERGY_APART, evidence, advice, counter_j=counter_j, integral_j=integral_j)


def check_event_clock() -> Verdict:
    """Judge whether CUDA's events and the host's clock agree on the time of 50 kernels that only spin."""
    import torch

    spin = partial(torch.cuda._sleep, SPIN_CYCLES)  # private, and the only kernel of known length that torch has
    time_on_device_s(spin)  # the first call loads the kernel
    began = time.perf_counter()
    events_s = time_on_device_s(spin, calls=50)
    wall_s = time.perf_counter() - began
    return judge_event_clock(events_s, wall_s)


def judge_event_clock(events_s: float, wall_s: float) -> Verdict:
    """Judge whether two times of the same kernels agree: by CUDA's events, and by the host's clock (`wall_s`)."""
    apart = abs(events_s - wall_s) / wall_s
    evidence = f"events say {events_s:.4f} s, the host's clock {wall_s:.4f} s ({apart:.2%} apart)"
    advice = "step times from events are not to be trusted on this device"
    return judged(apart <= MOST_CLOCKS_APART, evidence, advice, events_s=events_s, wall_s=wall_s)


def check_attention() -> Verdict:
    """Judge whether causal attention runs a fused kernel. Attention with a mask is measured beside it."""
    import torch
    from torch.nn import functional

    shape = (8, 12, 1024, 64)
    dtype = torch.bfloat16 if torch.cuda.get_device_capability(0) >= (8, 0) else torch.float16
    q, k, v = (torch.randn(shape, device="cuda", dtype=dtype) for _ in range(3))
    mask = torch.ones(1024, 1024, dtype=torch.bool, device="cuda").tril()
    causal = _find_longest_kernel(lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=True))
    masked = _find_longest_kernel(lambda: functional.scaled_dot_product_attention(q, k, v, attn_mask=mask))
    return judge_attention(causal, masked)


def judge_attention(causal: tuple[str, float], masked: tuple[str, float]) -> Verdict:
    """Judge whether causal attention runs a fused kernel.

    `causal`, `masked`: kernel and microseconds of causal attention, and of attention with a mask, which is not judged.
    """
    causal_kernel, causal_us = causal
    masked_kernel, masked_us = masked
    is_fused = any(word in causal_kernel.lower() for word in FLASH)
    evidence = f"causal: {causal_kernel[:80]}, {causal_us:.0f} us; with a mask {masked_us:.0f} us"
    advice = "no fused kernel for causal attention: this device or this torch is slow with attention: sdpa"
    values = {"causal": causal_kernel, "causal_us": causal_us, "masked": masked_kernel, "masked_us": masked_us}
    return judged(is_fused, evidence, advice, **values)


def _find_longest_kernel(call: Callable[[], Any], calls: int = 20) -> tuple[str, float]:
    """Return the name of the longest kernel of `call`, and the microseconds of all kernels in one call, as a mean."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
    rows = [event for event in profiler.key_averages() if event.self_device_time_total > 0]
    longest = max(rows, key=lambda event: event.self_device_time_total)
    return longest.key, sum(event.self_device_time_total for event in rows) / calls


def check_matmul() -> Verdict:
    """Judge the rate of large matrix products in half precision by the device's published peak."""
    import torch

    has_bf16 = torch.cuda.get_device_capability() >= (8, 0)
    precision, rows = ("bf16", PRODUCT_ROWS) if has_bf16 else ("fp16", PRODUCT_ROWS // 2)
    product = _make_product(rows)
    _keep_busy(product, 0.5)  # warm-up
    calls = 20
    flops_per_s = calls * 2 * rows**3 / time_on_device_s(product, calls)
    name = torch.cuda.get_device_name()
    device_peak = peak(name, precision)
    return judge_matmul(name, precision, flops_per_s, device_peak.flops if device_peak else None)


def judge_matmul(name: str, precision: str, flops_per_s: float, peak_flops_per_s: float | None) -> Verdict:
    """Judge whether the rate in `precision` (bf16, fp16) is a plausible share of the device's published peak."""
    text = f"{flops_per_s / 1e12:.0f} TFLOP/s in {precision}"
    if peak_flops_per_s is None:
        evidence = f"{text}; no published peak for {name}, so that MFU is not given"
        return judged(True, evidence, "", flops=flops_per_s)
    share = flops_per_s / peak_flops_per_s
    low, high = MATMUL_SHARES
    advice = "the device is slowed down (nvidia-smi -q -d PERFORMANCE), shared, or not the one that its name says"
    if share > high:
        advice = "the table of peaks (ground/facts/peaks.py) has another device's figure: MFU would be wrong"
    evidence = f"{text}, {share:.0%} of the published peak"
    return judged(low <= share <= high, evidence, advice, flops=flops_per_s, share=share)


def check_read_ahead() -> Verdict:
    """Judge whether micro-batches that are read ahead while the device is busy arrive unchanged."""
    import torch

    from scaleproof.ground.campaign.batch import Batch
    from scaleproof.measure.corpus.reader import SamplePlan, TokenFile
    from scaleproof.measure.doctor.doctor_ranks import READ_AHEAD, count_differing
    from scaleproof.measure.trainer.batches import Batches

    with tempfile.TemporaryDirectory(prefix="scaleproof-doctor-") as folder:
        tokens = write_random_tokens(Path(folder), vocab_size=512, train=500_000, val=1_000)
        file = TokenFile(tokens, "train", 128)
        batch = Batch(micro=8, accumulation=2, n_devices=1, global_=16)
        plan = SamplePlan(file.n_samples, batch.global_, seed=1)
        batches = Batches(file, plan, batch, shares=range(1), device=torch.device("cuda", 0))
        differing = count_differing(batches, lambda: torch.cuda._sleep(LAG_CYCLES), READ_AHEAD)
    return judge_read_ahead(differing, READ_AHEAD)


def judge_read_ahead(differing: int, count: int) -> Verdict:
    """Judge whether all `count` micro-batches reached the device unchanged. `differing`: how many did not."""
    advice = "samples reach the device changed: no result of this machine counts; please report it with doctor.json"
    evidence = f"{differing} of {count} micro-batches differ from the plan while the device lags behind"
    return judged(differing == 0, evidence, advice, differing=differing)


def check_compiled() -> Verdict:
    """Judge whether torch.compile works on the first device, with the right result."""
    import torch

    from scaleproof.measure.machine.applicable import gpu_compile_problem
    from scaleproof.measure.machine.gpus import cuda_devices

    if problem := gpu_compile_problem(cuda_devices()[0]):
        return not_here(problem)
    began = time.perf_counter()
    values = torch.randn(256, 256, device="cuda")
    function = torch.compile(lambda matrix: torch.nn.functional.gelu(matrix @ matrix).sum())
    error = abs(float(function(values)) / float(torch.nn.functional.gelu(values @ values).sum()) - 1)
    seconds = time.perf_counter() - began
    evidence = f"compiled in {seconds:.0f} s; its result is {error:.1e} off"
    return judged(error < 1e-2, evidence, "compile: true is not usable")


def _make_product(rows: int) -> Callable[[], Any]:
    """Return a function that multiplies two square matrices of so many rows, in bf16, or in fp16 before Ampere."""
    import torch

    dtype = torch.bfloat16 if torch.cuda.get_device_capability() >= (8, 0) else torch.float16
    a, b = (torch.randn(rows, rows, device="cuda", dtype=dtype) for _ in range(2))
    out = torch.empty(rows, rows, device="cuda", dtype=dtype)
    return lambda: torch.mm(a, b, out=out)


def _keep_busy(call: Callable[[], Any], seconds: float) -> None:
    """Call `call` for some seconds. The host waits for the device every ten calls, so as not to run ahead."""
    import torch

    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for _ in range(10):
            call()
        torch.cuda.synchronize()


def _monitor_during(seconds: float, work: Callable[[], None]) -> list[dict[str, Any]]:
    """Monitor torch's current device during `work`, for at least `seconds`, and return the monitor's figures."""
    import torch

    from scaleproof.measure.trainer.monitor import Monitor
    from scaleproof.measure.trainer.session import nvml_uuid

    current = torch.cuda.current_device()
    monitor = Monitor(torch.device("cuda", current), [nvml_uuid(torch.cuda.get_device_properties(current))])
    until = time.perf_counter() + seconds
    with monitor:
        work()
        time.sleep(max(0.0, until - time.perf_counter()))
    samples = monitor.result()["gpus"]
    if not samples:
        raise RuntimeError("NVML does not answer about this device")
    return samples
