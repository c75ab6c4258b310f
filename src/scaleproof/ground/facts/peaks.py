"""Dense peak throughput of devices, by the arithmetic of the run. A device that is not listed has no peak."""

import math
import re
from dataclasses import dataclass
from functools import lru_cache

from scaleproof.ground.errors import UserError, did_you_mean

TERA = 1e12


@dataclass(frozen=True)
class DevicePeak:
    """FLOP/s without sparsity, and where the figure is published."""

    flops: float
    source: str


FORMATS = ("fp32", "tf32", "bf16", "fp16")
Figures = tuple[float | None, float | None, float | None, float | None]
# Parts of a device, and chips of the same name with less power, have figures of their own.
PARTS = re.compile(r"\bMIG\b|Laptop|Mobile|Max-Q|\bvGPU\b|\bGRID\b")
HALF = "half of the figures with sparsity"
# Name as the driver gives it -> TFLOP/s of FORMATS (fp32 outside of tensor cores), data sheet. The first match counts.
# Figures "with sparsity" are twice these. None: the device has no such format. RTX devices: fp32 accumulation.
DEVICES: tuple[tuple[str, Figures, str], ...] = (
    (r"GB300", (80, 1250, 2500, 2500), f"NVIDIA GB300 NVL72 data sheet, per GPU, {HALF}"),
    (r"B300", (75, 1125, 2250, 2250), f"NVIDIA HGX B300 data sheet, per GPU, {HALF}"),
    (r"GB200", (80, 1250, 2500, 2500), f"NVIDIA GB200 NVL72 data sheet, per GPU, {HALF}"),
    (r"B200", (75, 1125, 2250, 2250), f"NVIDIA DGX B200 data sheet, per GPU, {HALF}"),
    (r"H200.*NVL", (60, 417.5, 835.5, 835.5), f"NVIDIA H200 data sheet, NVL, {HALF}"),
    (r"H200", (67, 494.5, 989, 989), f"NVIDIA H200 data sheet, SXM, {HALF}"),
    (r"H100.*NVL", (60, 417.5, 835, 835), f"NVIDIA H100 NVL data sheet, {HALF}"),
    (r"H[18]00.*PCIe", (51, 378, 756, 756), f"NVIDIA H100 data sheet, PCIe, {HALF}"),
    (r"\bH[18]00\b", (67, 494.5, 989, 989), f"NVIDIA H100 data sheet, SXM, {HALF}"),
    (r"\bH20\b", (44, 74, 148, 148), "NVIDIA H20 product brief"),
    (r"\bA[18]00(?!\d)", (19.5, 156, 312, 312), "NVIDIA A100 data sheet"),
    (r"\bA40\b", (37.4, 74.8, 149.7, 149.7), "NVIDIA A40 data sheet"),
    (r"\bA30\b", (10.3, 82, 165, 165), "NVIDIA A30 data sheet"),
    (r"\bA10G\b", (31.5, 35, 70, 70), "NVIDIA A10G data sheet"),
    (r"\bA10\b", (31.2, 62.5, 125, 125), "NVIDIA A10 data sheet"),
    (r"L40S", (91.6, 183, 362, 362), "NVIDIA L40S data sheet"),
    (r"\bL40\b", (90.5, 90.5, 181, 181), "NVIDIA L40 data sheet"),
    (r"\bL4\b", (30.3, 60, 121, 121), f"NVIDIA L4 data sheet, {HALF}"),
    (r"V100S", (16.4, None, None, 130), "NVIDIA V100S data sheet, PCIe"),
    (r"V100.*SXM", (15.7, None, None, 125), "NVIDIA V100 data sheet, SXM2"),
    (r"V100", (14, None, None, 112), "NVIDIA V100 data sheet, PCIe"),
    (r"\bT4\b", (8.1, None, None, 65), "NVIDIA T4 data sheet"),
    (r"MI3(?:00|25)X", (163.4, 653.7, 1307.4, 1307.4), "AMD Instinct MI300X and MI325X data sheets"),
    (r"MI300A", (122.6, 490.3, 980.6, 980.6), "AMD Instinct MI300A data sheet"),
    (r"RTX PRO 6000 Blackwell Workstation", (126, 252, 503.8, 503.8), "NVIDIA RTX Blackwell PRO architecture paper"),
    (r"RTX 6000 Ada", (91.1, 182.1, 364.2, 364.2), "NVIDIA Ada professional architecture paper"),
    (r"RTX A6000", (38.7, 77.4, 154.8, 154.8), "NVIDIA GA102 architecture paper"),
    (r"RTX 5090(?! D)", (104.8, 104.8, 209.5, 209.5), "NVIDIA RTX Blackwell architecture paper"),
    (r"RTX 4090(?! D)", (82.6, 82.6, 165.2, 165.2), "NVIDIA Ada architecture paper"),
    (r"RTX 3090 Ti", (40, 40, 80, 80), "NVIDIA GA102 architecture paper"),
    (r"RTX 3090", (35.6, 35.6, 71, 71), "NVIDIA GA102 architecture paper"),
)


MEMORY_IN_NAME = re.compile(r"^(?!.*\bG[BH]\d).*?(\d+) ?GB\b")  # in the name of a superchip it is the processor's


@dataclass(frozen=True)
class NamedDevice:
    """A device that is not here, as somebody calls it: "H100 80GB". `memory`: bytes; None where the name has none."""

    name: str
    memory: float | None


def named_device(name: str) -> NamedDevice | None:
    """Return the device of a name, in capitals or not; None where its peaks are not known."""
    known_name = next((words for words in (name, name.upper()) if peak(words, "fp16")), None)
    if known_name is None or re.search(PARTS.pattern, name, re.IGNORECASE):
        return None
    memory = MEMORY_IN_NAME.match(known_name)
    return NamedDevice(known_name, 1e9 * int(memory[1]) if memory else None)


def device_names() -> list[str]:
    """Return a name for each row of DEVICES, as people write it: of H[18]00 the first, H100."""
    names = []
    for pattern, *_ in DEVICES:
        without_bounds = re.sub(r"\\b|\(\?!.*?\)", "", pattern)
        first_ones = re.sub(r"\[(.).*?\]|\(\?:(\w+).*?\)", r"\1\2", without_bounds)
        names.append(first_ones.replace(".*", " "))
    return names


def mfu(flops_per_s: float, device_name: str, precision: str) -> float | None:
    """Return the model FLOPs utilization: the part of a device's peak that a model reaches; None: unknown peak.

    As in PaLM, appendix B. `flops_per_s`: FLOPs of a token (facts.counts) x tokens per second of one device.
    `device_name`: as the driver gives it; `precision`: fp32, tf32, bf16 or fp16. Raises UserError for other values.
    """
    known = peak(device_name, precision)
    if not isinstance(flops_per_s, float | int) or not 0 <= flops_per_s < math.inf:
        raise UserError(f"flops_per_s cannot be {flops_per_s!r}; allowed: a number from 0")
    return flops_per_s / known.flops if known else None


@lru_cache
def peak(device_name: str, precision: str) -> DevicePeak | None:
    """Return the dense peak of a device for a precision of FORMATS.

    Returns None for unlisted devices and absent formats. `device_name`: as the driver gives it. Raises UserError for
    another precision.
    """
    if precision not in FORMATS:
        hint = did_you_mean(precision, FORMATS)
        raise UserError(f'no peak for precision "{precision}"; allowed: {", ".join(FORMATS)}.{hint}')
    if not isinstance(device_name, str):
        raise UserError(f"a device is named as by its driver, 'NVIDIA H100 80GB HBM3', not {device_name!r}")
    if PARTS.search(device_name):
        return None
    for pattern, figures, source in DEVICES:
        if re.search(pattern, device_name):
            value = figures[FORMATS.index(precision)]
            return None if value is None else DevicePeak(value * TERA, source)
    return None
