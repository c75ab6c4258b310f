"""Dense peak throughput of devices, by the arithmetic of the run. A device that is not listed has no peak, not another's."""

import re
from dataclasses import dataclass

TERA = 1e12


@dataclass(frozen=True)
class Peak:
    """FLOP/s without sparsity, and where the figure is published."""

    flops: float
    source: str


# name as the driver gives it -> (fp32 outside of tensor cores, TF32, bf16, fp16) in TFLOP/s, data sheet. First match counts.
# Marketing figures "with sparsity" are twice these. None: the device has no such format.
DEVICES: tuple[tuple[str, tuple[float | None, float | None, float | None, float | None], str], ...] = (
    (r"GB200|B200", (75, 1125, 2250, 2250), "NVIDIA DGX B200 data sheet, per GPU, half of the figures with sparsity"),
    (r"H200", (67, 494.5, 989, 989), "NVIDIA H200 data sheet, SXM, half of the figures with sparsity"),
    (r"H100.*NVL", (60, 417.5, 835, 835), "NVIDIA H100 NVL data sheet, half of the figures with sparsity"),
    (r"H100.*PCIe", (51, 378, 756, 756), "NVIDIA H100 data sheet, PCIe, half of the figures with sparsity"),
    (r"H100", (67, 494.5, 989, 989), "NVIDIA H100 data sheet, SXM, half of the figures with sparsity"),
    (r"A100", (19.5, 156, 312, 312), "NVIDIA A100 data sheet"),
    (r"L40S", (91.6, 183, 362, 362), "NVIDIA L40S data sheet"),
    (r"\bL4\b", (30.3, 60, 121, 121), "NVIDIA L4 data sheet, half of the figures with sparsity"),
    (r"V100.*SXM", (15.7, None, None, 125), "NVIDIA V100 data sheet, SXM2"),
    (r"V100", (14, None, None, 112), "NVIDIA V100 data sheet, PCIe"),
    (r"\bT4\b", (8.1, None, None, 65), "NVIDIA T4 data sheet"),
    (r"RTX 4090", (82.6, 82.6, 165.2, 165.2), "NVIDIA Ada architecture paper, fp32 accumulation"),
    (r"RTX 3090", (35.6, 35.6, 71, 71), "NVIDIA GA102 architecture paper, fp32 accumulation"),
)
FORMATS = ("fp32", "tf32", "bf16", "fp16")


def peak(device_name: str, precision: str) -> Peak | None:
    """The peak of a device for a precision; None where the device is not listed or has no such format."""
    for pattern, figures, source in DEVICES:
        if re.search(pattern, device_name):
            value = figures[FORMATS.index(precision)]
            return None if value is None else Peak(value * TERA, source)
    return None
