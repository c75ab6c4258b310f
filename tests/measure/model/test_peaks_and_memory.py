"""Peaks of known devices alone; the memory model of the ZeRO paper."""

import pytest

from scaleproof.ground.facts.memory import state_bytes
from scaleproof.ground.facts.peaks import DEVICES, mfu, named_device, peak


@pytest.mark.parametrize(
    ("name", "precision", "teraflops"),
    [
        ("NVIDIA H100 80GB HBM3", "bf16", 989),
        ("NVIDIA H100 NVL", "fp16", 835),
        ("NVIDIA H100 PCIe", "tf32", 378),
        ("NVIDIA H200", "fp32", 67),
        ("NVIDIA A100-SXM4-40GB", "bf16", 312),
        ("Tesla V100-SXM2-16GB", "fp16", 125),
        ("Tesla V100-PCIE-32GB", "fp16", 112),
        ("Tesla T4", "fp16", 65),
        ("NVIDIA L4", "bf16", 121),
        ("NVIDIA L40S", "bf16", 362),
        ("NVIDIA H200 NVL", "bf16", 835.5),
        ("NVIDIA GH200 480GB", "bf16", 989),
        ("NVIDIA GB200", "bf16", 2500),
        ("NVIDIA GB200", "tf32", 1250),
        ("NVIDIA B200", "bf16", 2250),
        ("NVIDIA B300 SXM6 AC", "bf16", 2250),
        ("NVIDIA GB300", "fp16", 2500),
        ("NVIDIA H20", "bf16", 148),
        ("NVIDIA GeForce RTX 4090", "bf16", 165.2),
        ("NVIDIA H800", "bf16", 989),
        ("NVIDIA A800-SXM4-80GB", "bf16", 312),
        ("NVIDIA A10", "bf16", 125),
        ("NVIDIA A10G", "bf16", 70),
        ("NVIDIA A30", "tf32", 82),
        ("NVIDIA A40", "fp32", 37.4),
        ("NVIDIA L40", "bf16", 181),
        ("Tesla V100S-PCIE-32GB", "fp16", 130),
        ("NVIDIA GeForce RTX 3090 Ti", "bf16", 80),
        ("NVIDIA GeForce RTX 3090", "bf16", 71),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "bf16", 503.8),
        ("NVIDIA RTX 6000 Ada Generation", "bf16", 364.2),
        ("AMD Instinct MI300X", "bf16", 1307.4),
        ("AMD Instinct MI325X OAM", "tf32", 653.7),
        ("AMD Instinct MI300A", "fp16", 980.6),
    ],
)
def test_known_devices(name, precision, teraflops):
    found = peak(name, precision)
    assert found.flops == teraflops * 1e12
    assert found.source.startswith("AMD" if "Instinct" in name else "NVIDIA")


def test_mfu_is_of_a_known_peak_or_unknown():
    assert mfu(989e12 / 2, "NVIDIA H200", "bf16") == 0.5
    assert mfu(1e12, "NVIDIA Nonesuch", "bf16") is None


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        ("cpu", "fp32"),
        ("NVIDIA Nonesuch 9000", "bf16"),
        ("Tesla V100-SXM2-16GB", "bf16"),
        ("Tesla T4", "tf32"),
        ("", "fp16"),
        ("NVIDIA A100-SXM4-40GB MIG 3g.20gb", "bf16"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "fp16"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "bf16"),
        ("NVIDIA GeForce RTX 4090 D", "bf16"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "bf16"),
        ("NVIDIA RTX A1000", "bf16"),
        ("GRID A100-10C", "bf16"),
    ],
)
def test_an_unknown_device_has_no_peak(name, precision):
    assert peak(name, precision) is None


@pytest.mark.parametrize(("strategy", "gigabytes"), [("zero1", 31.4), ("zero2", 16.6), ("zero3", 1.88)])
def test_the_papers_example(strategy, gigabytes):
    """7.5 billion parameters, 64 devices, mixed precision: figure 1 of Rajbhandari et al. 2020."""
    assert state_bytes(strategy, "fp16", 7_500_000_000, 64) / 1e9 == pytest.approx(gigabytes, rel=0.01)


def test_replicas_hold_everything_and_shards_a_part():
    assert state_bytes("ddp", "fp32", 1000, 8) == state_bytes("zero0", "bf16", 1000, 8) == 16_000
    assert state_bytes("fsdp", "bf16", 1000, 8) == state_bytes("zero3", "fp32", 1000, 8) == 2000
    assert state_bytes("zero1", "fp32", 1000, 8) == 8000 + 1000
    assert state_bytes("zero3", "fp32", 1000, 1) == 16_000
    assert state_bytes("zero2-offload", "fp16", 1000, 4) == 2000 + 500


@pytest.mark.parametrize(("pattern", "figures"), [(pattern, figures) for pattern, figures, _ in DEVICES])
def test_formats_of_a_device_go_together(pattern, figures):
    """Of all that have tensor cores for it, TF32 has half of BF16's throughput, which is FP16's."""
    _, tf32, bf16, fp16 = figures
    if bf16 is not None:
        assert bf16 == fp16, pattern
        assert tf32 == pytest.approx(bf16 / 2, rel=0.02), pattern


@pytest.mark.parametrize(
    ("name", "memory"),
    [
        ("NVIDIA H100 80GB HBM3", 80e9),
        ("a100 40 gb", 40e9),
        ("Tesla V100-SXM2-16GB", 16e9),
        ("NVIDIA H200", None),
        ("NVIDIA GH200 480GB", None),  # of the processor
    ],
)
def test_the_memory_of_a_named_device_is_in_its_name(name, memory):
    assert named_device(name).memory == memory


@pytest.mark.parametrize("name", ["H1000", "80GB", "NVIDIA A100-SXM4-40GB MIG 3g.20gb", "RTX 4090 Laptop", ""])
def test_a_device_without_peaks_is_not_known_by_its_name(name):
    assert named_device(name) is None
