"""Are this machine's GPUs fit to measure? Checks of `scaleproof doctor` that need one; each figure is judged apart."""

import re
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

from scaleproof.ground.facts.peaks import peak
from scaleproof.ground.verdict import Verdict, judged, not_here
from scaleproof.measure.doctor.doctor import Look
from scaleproof.measure.doctor.random_tokens import write_random_tokens
from scaleproof.measure.machine.applicable import arch_problem
from scaleproof.measure.machine.gpus import Gpu, driver_library

MOST_CLOCKS_APART = 0.02  # CUDA's events and the host's clock: a launch and a wait, some 20 us, around tens of ms
MOST_ENERGY_APART = 0.10  # the energy counter and the integral of power: by NVML's manual 5 % for each
# Of the published peak: a T4 at its power cap is near the lower bound; consumer cards boost beyond their data sheets.
MATMUL_SHARES = (0.4, 1.1)
MIN_H2D_GB_S = 5.0  # from pinned memory: PCIe 3.0 gives 12 with 16 lanes, 6 with 8
# Programs get 75 to 90 % of it (NVIDIA's sample p2pBandwidthLatencyTest).
NVLINK_GB_S = 25.0  # of one link in one direction, NVLink 2 to 4 (NVIDIA V100, A100, H100 data sheets)
MIN_PAIR_GB_S = 2.0  # without NVLink: copies that go through the host's memory share its PCIe with themselves
LAG_CYCLES = 2_000_000  # of the device before each micro-batch is taken: about a millisecond
PROHIBITED = "prohibited"  # nobody may use the device
COMPUTE_MODES = ("default", "exclusive thread", PROHIBITED, "exclusive process")  # as NVML numbers them
FLASH = ("flash", "cudnn", "fmha")  # in names of attention kernels that make no matrix of all pairs
SPIN_CYCLES = 10**7  # some milliseconds of any device
PRODUCT = 8192  # rows of the matrices in a product: enough for any device to be at its peak
COPIED = 1 << 28  # bytes


def checks_of_gpus(gpus: list[Gpu], lost: str = "") -> list[Look]:
    """Return the checks of `gpus`; without any, each is `not here`, but the first fails where some are `lost` (why)."""
    once: dict[str, Callable[[], Verdict]] = {
        "architecture": check_architecture,
        "UUIDs": check_uuids,
        "event clock": check_event_clock,
        "attention kernel": check_attention,
        "read-ahead": check_read_ahead,
        "torch.compile": check_compiled,
        "pairs of devices": check_pairs,
    }
    each: dict[str, Callable[[], Verdict]] = {
        "clocks and power": check_readable,
        "energy": check_energy,
        "matmul rate": check_matmul,
        "copy bandwidth": check_copies,
    }
    if gpus:
        of_each = [
            Look(f"{name}: device {index}" if len(gpus) > 1 else name, "gpu", partial(_verdict_on_device, index, look))
            for name, look in each.items()
            for index in range(len(gpus))
        ]
        return [*(Look(name, "gpu", look) for name, look in once.items()), *of_each]
    why = f"none, because {lost}" if lost else "no CUDA device is visible, or the installed torch has no CUDA"
    absent = dict.fromkeys(once | each, partial(not_here, why))
    if lost:
        advice = "no GPU of this machine can be measured until that is mended"
        absent["architecture"] = partial(judged, False, why, advice)
    return [Look(name, "gpu", look) for name, look in absent.items()]


def _verdict_on_device(index: int, look: Callable[[], Verdict]) -> Verdict:
    """Return the verdict of `look`, run while device number `index` is torch's current one."""
    import torch

    with torch.cuda.device(index):
        return look()


def check_architecture() -> Verdict:
    """Judge whether the installed torch has kernels for the first device."""
    import torch

    name, capability = torch.cuda.get_device_name(0), torch.cuda.get_device_capability(0)
    problem = arch_problem(name, capability, torch.cuda.get_arch_list())
    return judged(problem is None, problem or f"torch {torch.__version__} has kernels for {name}", "see docs/gpu.md")


def check_uuids() -> Verdict:
    """Judge whether NVML knows each of torch's devices by its UUID, and whether programs may use them."""
    import torch

    from scaleproof.measure.trainer.session import nvml_uuid

    nvml = driver_library()
    nvml.nvmlInit()
    names = [nvml_uuid(torch.cuda.get_device_properties(index)) for index in range(torch.cuda.device_count())]
    unknown, modes = [], []
    for uuid in names:
        try:
            modes.append(_compute_mode(nvml, nvml.nvmlDeviceGetHandleByUUID(uuid)))
        except nvml.NVMLError:
            unknown.append(uuid)
    return judge_uuids(names, unknown, modes)


def _compute_mode(nvml: Any, handle: object) -> str:
    """Return how many processes may use a device at once: one of COMPUTE_MODES, or "unknown"."""
    try:
        return COMPUTE_MODES[nvml.nvmlDeviceGetComputeMode(handle)]
    except (nvml.NVMLError, IndexError, AttributeError):  # neither a part of a device nor one of AMD's has one
        return "unknown"


def judge_uuids(names: list[str], unknown: list[str], modes: Sequence[str] = ()) -> Verdict:
    """Judge whether NVML knows torch's devices `names` (all but `unknown`), and none of `modes` forbids their use."""
    advice = "power, energy and clocks of these devices will be missing in the record"
    if PROHIBITED in modes:
        advice = "no program may use a device in this mode: nvidia-smi -c DEFAULT, or leave it out"
    mode = f"; compute mode {', '.join(sorted(set(modes)))}" if modes else ""
    evidence = f"NVML does not know {', '.join(unknown)}" if unknown else f"torch and NVML agree on {len(names)}"
    sound = not unknown and len(set(names)) == len(names) and PROHIBITED not in modes
    return judged(sound, evidence + mode, advice, uuids=names, compute_modes=list(modes))


def check_readable() -> Verdict:
    """Judge whether power, clock, load and throttling can be read, by a sample of the monitor of windows."""
    return judge_readable(_monitor_during(0.3, lambda: None)[0])


def judge_readable(sample: dict[str, Any]) -> Verdict:
    """Judge whether the monitor's `sample` of a device has a value for power, clock, load and throttling."""
    names = {"power": "power_w_mean", "clock": "sm_clock_mhz_mean", "utilization": "utilization_mean"}
    missing = [name for name, key in (names | {"throttling": "throttled"}).items() if sample[key] is None]
    text = ", ".join(f"{name} {sample[key]:.4g}" for name, key in names.items() if name not in missing)
    advice = "runs are measured, but throttling and energy stay unknown"
    evidence = f"not readable: {', '.join(missing)}" if missing else text
    return judged(not missing, evidence, advice, **{key: sample[key] for key in names.values()})


def check_energy() -> Verdict:
    """Judge whether the energy counter agrees with the integral of power, over some seconds of matrix products."""
    product = _make_product(PRODUCT)
    _keep_busy(product, 2.0)  # before: some devices tell the mean power of the last second
    (sample, *_) = _monitor_during(2.5, lambda: _keep_busy(product, 2.5))
    return judge_energy(sample["energy_counter_j"], sample["energy_integral_j"])


def judge_energy(counter: float | None, integral: float | None) -> Verdict:
    """Judge whether energy by the device's counter and by its power agree; joules, None where it does not say."""
    if counter is None or integral is None:
        return not_here("this device has no energy counter, or no power reading")
    off = abs(counter - integral) / max(counter, integral)
    evidence = f"counter {counter:.0f} J, integral of power {integral:.0f} J ({off:.1%} apart)"
    advice = "energy of runs will be withheld where they differ by more than 10 %: use windows of 10 s or longer"
    return judged(off <= MOST_ENERGY_APART, evidence, advice, counter_j=counter, integral_j=integral)


def check_event_clock() -> Verdict:
    """Judge whether CUDA's events and the host's clock agree on the time of kernels that spin for some cycles."""
    import torch

    spin = partial(torch.cuda._sleep, SPIN_CYCLES)  # private, and the only kernel of known length that torch has
    _time_on_device_s(spin)  # the first call loads the kernel
    began = time.perf_counter()
    return judge_event_clock(_time_on_device_s(spin, 50), time.perf_counter() - began)


def judge_event_clock(events_s: float, wall_s: float) -> Verdict:
    """Judge whether two times of the same kernels agree: by CUDA's events and by the host's clock, in seconds."""
    off = abs(events_s - wall_s) / wall_s
    evidence = f"events say {events_s:.4f} s, the host's clock {wall_s:.4f} s ({off:.2%} apart)"
    advice = "step times from events are not to be trusted on this device"
    return judged(off <= MOST_CLOCKS_APART, evidence, advice, events_s=events_s, wall_s=wall_s)


def check_attention() -> Verdict:
    """Judge the kernel that runs for causal attention; the one with a mask is measured beside it."""
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
    """Judge whether causal attention runs a fused kernel; `masked` is only told. Both: (kernel, microseconds)."""
    (causal_kernel, causal_us), (masked_kernel, masked_us) = causal, masked
    fused = any(part in causal_kernel.lower() for part in FLASH)
    evidence = f"causal: {causal_kernel[:80]}, {causal_us:.0f} us; with a mask {masked_us:.0f} us"
    advice = "no fused kernel for causal attention: this device or this torch is slow with attention: sdpa"
    values = {"causal": causal_kernel, "causal_us": causal_us, "masked": masked_kernel, "masked_us": masked_us}
    return judged(fused, evidence, advice, **values)


def _find_longest_kernel(call: Callable[[], Any], calls: int = 20) -> tuple[str, float]:
    """Return the name of the kernel that takes longest in `call`, and the microseconds of all kernels in one call."""
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
    """Judge the rate of large matrix products in half precision against the device's published peak."""
    import torch

    has_bf16 = torch.cuda.get_device_capability() >= (8, 0)
    precision, size = ("bf16", PRODUCT) if has_bf16 else ("fp16", PRODUCT // 2)
    product = _make_product(size)
    _keep_busy(product, 0.5)  # warm-up
    calls = 20
    rate = calls * 2 * size**3 / _time_on_device_s(product, calls)
    name = torch.cuda.get_device_name()
    known = peak(name, precision)
    return judge_matmul(name, precision, rate, known.flops if known else None)


def judge_matmul(name: str, precision: str, rate: float, published: float | None) -> Verdict:
    """Judge whether `rate` is a plausible share of the `published` peak (None where it is unknown); both in FLOP/s."""
    text = f"{rate / 1e12:.0f} TFLOP/s in {precision}"
    if published is None:
        return judged(True, f"{text}; no published peak for {name}, so that MFU is not given", "", flops=rate)
    share = rate / published
    low, high = MATMUL_SHARES
    advice = "the device is slowed down (nvidia-smi -q -d PERFORMANCE), shared, or not the one that its name says"
    if share > high:
        advice = "the table of peaks (ground/facts/peaks.py) has another device's figure: MFU would be wrong"
    return judged(low <= share <= high, f"{text}, {share:.0%} of the published peak", advice, flops=rate, share=share)


def check_copies() -> Verdict:
    """Judge whether copies from pinned host memory are fast enough, by two measured rates."""
    import torch

    host = torch.empty(COPIED, dtype=torch.uint8, pin_memory=True)
    device, other = (torch.empty(COPIED, dtype=torch.uint8, device="cuda") for _ in range(2))
    from_host = _measure_copy_gb_s(lambda: device.copy_(host, non_blocking=True))
    in_device = 2 * _measure_copy_gb_s(lambda: other.copy_(device))  # each byte is read and written
    return judge_copies(from_host, in_device)


def _measure_copy_gb_s(copy: Callable[[], Any]) -> float:
    """Measure a copy of COPIED bytes in GB/s, the mean of ten."""
    copy()
    return 10 * COPIED / 1e9 / _time_on_device_s(copy, 10)


def judge_copies(from_host: float, in_device: float) -> Verdict:
    """Judge copies `from_host`; those `in_device`, of bytes read plus written, are only told. Both in GB/s."""
    advice = "the link to the host is slow (nvidia-smi -q | grep -A3 'Link Width'): offload and input will be, too"
    evidence = f"{from_host:.1f} GB/s from the host, {in_device:.0f} GB/s in device memory (read and written)"
    return judged(from_host >= MIN_H2D_GB_S, evidence, advice, h2d_gb_s=from_host, d2d_gb_s=in_device)


def check_pairs() -> Verdict:
    """Judge whether copies from each device to each later one are as fast as the link between them."""
    import torch

    from scaleproof.measure.machine.provenance import links_between
    from scaleproof.measure.trainer.session import nvml_uuid

    count = torch.cuda.device_count()
    if count < 2:
        return not_here("one device has no pair")
    buffers = [torch.empty(COPIED, dtype=torch.uint8, device=torch.device("cuda", index)) for index in range(count)]
    rates = {}
    for first, second in combinations(range(count), 2):
        with torch.cuda.device(first):  # whose stream copies: the events of another would not wait for it
            rates[first, second] = _measure_copy_gb_s(partial(buffers[second].copy_, buffers[first]))
    names = [nvml_uuid(torch.cuda.get_device_properties(index)) for index in range(count)]
    return judge_pairs(rates, links_between(names))


def judge_pairs(rates: dict[tuple[int, int], float], links: dict[tuple[int, int], str]) -> Verdict:
    """Judge whether each pair of devices copies (`rates`, GB/s) as fast as its link (`links`, as nvidia-smi has it)."""
    slow = []
    for (first, second), rate in rates.items():
        link = links.get((first, second), "unknown link")
        least = least_rate(link)
        if rate < least:
            slow.append(f"{rate:.1f} GB/s between devices {first} and {second} ({link}), which give {least:g} or more")
    span = f"{min(rates.values()):.1f} to {max(rates.values()):.1f} GB/s between {len(rates)} pairs"
    joined = ", ".join(sorted(set(links.values()))) or "unknown"
    advice = "look at nvidia-smi nvlink -s, and at access control services of the PCIe bridges (ACS)"
    values = {f"{first}-{second}": rate for (first, second), rate in rates.items()}
    return judged(not slow, "; ".join(slow) or f"{span}, joined by {joined}", advice, gb_s=values)


def least_rate(link: str) -> float:
    """Return the GB/s that a sound `link` reaches, in one direction: "NV4" half of 4 NVLinks', any other PCIe's."""
    match = re.fullmatch(r"NV(\d+)", link)
    return NVLINK_GB_S * int(match[1]) / 2 if match else MIN_PAIR_GB_S


def check_read_ahead() -> Verdict:
    """Judge whether 400 micro-batches, read ahead while the device is kept busy, arrive as the plan has them."""
    import torch

    from scaleproof.ground.campaign.batch import Batch
    from scaleproof.measure.corpus.reader import SamplePlan, TokenFile
    from scaleproof.measure.doctor.doctor_ranks import READ_AHEAD, count_differing
    from scaleproof.measure.trainer.batches import Batches

    with tempfile.TemporaryDirectory(prefix="scaleproof-doctor-") as folder:
        tokens = write_random_tokens(Path(folder), vocab_size=512, train=500_000, val=1_000)
        file = TokenFile(tokens, "train", 128)
        batch = Batch(micro=8, accumulation=2, n_devices=1, global_=16)
        plan, device = SamplePlan(file.n_samples, batch.global_, seed=1), torch.device("cuda", 0)
        batches = Batches(file, plan, batch, range(1), device)
        differing = count_differing(batches, lambda: torch.cuda._sleep(LAG_CYCLES), READ_AHEAD)
    return judge_read_ahead(differing, READ_AHEAD)


def judge_read_ahead(differing: int, count: int) -> Verdict:
    """Judge whether all micro-batches reached the device unchanged; `differing` of `count` did not."""
    advice = "samples reach the device changed: no result of this machine counts; please report it with doctor.json"
    evidence = f"{differing} of {count} micro-batches differ from the plan while the device lags behind"
    return judged(differing == 0, evidence, advice, differing=differing)


def check_compiled() -> Verdict:
    """Judge whether torch.compile works on the first device, and its result is right."""
    import torch

    from scaleproof.measure.machine.applicable import gpu_compile_problem
    from scaleproof.measure.machine.gpus import cuda_devices

    problem = gpu_compile_problem(cuda_devices()[0])
    if problem:
        return not_here(problem)
    began = time.perf_counter()
    values = torch.randn(256, 256, device="cuda")
    function = torch.compile(lambda matrix: torch.nn.functional.gelu(matrix @ matrix).sum())
    off = abs(float(function(values)) / float(torch.nn.functional.gelu(values @ values).sum()) - 1)
    seconds = time.perf_counter() - began
    evidence = f"compiled in {seconds:.0f} s; its result is {off:.1e} off"
    return judged(off < 1e-2, evidence, "compile: true is not usable")


def _make_product(size: int) -> Callable[[], Any]:
    """Return a function that multiplies two square matrices of `size` in the device's fastest common format."""
    import torch

    dtype = torch.bfloat16 if torch.cuda.get_device_capability() >= (8, 0) else torch.float16
    a, b = (torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(2))
    out = torch.empty(size, size, device="cuda", dtype=dtype)
    return lambda: torch.mm(a, b, out=out)


def _time_on_device_s(call: Callable[[], Any], calls: int = 1) -> float:
    """Return the seconds that torch's current device takes for what `call` asks it to do, called `calls` times."""
    import torch

    from scaleproof.measure.machine.accelerator import seconds_of

    return seconds_of(call, torch.device("cuda", torch.cuda.current_device()), calls)


def _keep_busy(call: Callable[[], Any], seconds: float) -> None:
    """Keep the device at work with `call` for some seconds; the host waits every few calls, so as not to run ahead."""
    import torch

    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for _ in range(10):
            call()
        torch.cuda.synchronize()


def _monitor_during(seconds: float, work: Callable[[], None]) -> list[dict[str, Any]]:
    """Return what the monitor says of the current device while `work` runs, and until `seconds` are over."""
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
