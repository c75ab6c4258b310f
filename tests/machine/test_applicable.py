"""What cannot run here is known before anything starts, with the reason."""

import pytest

from scalebench.campaign.cells import expand
from scalebench.campaign.config import Campaign
from scalebench.machine import gpus
from scalebench.machine.applicable import unsupported_reason
from scalebench.machine.gpus import Gpu

H100 = Gpu("NVIDIA H100 80GB HBM3", "GPU-h", 80 * 2**30, (9, 0))
V100 = Gpu("Tesla V100-SXM2-16GB", "GPU-v", 16 * 2**30, (7, 0))


def cell(**execution):
    return expand(Campaign.model_validate({"title": "x", "execution": execution}))[0]


@pytest.mark.parametrize(
    ("execution", "gpus", "reason"),
    [
        ({}, [], None),
        ({"geometry": "1x2"}, [], None),
        ({"precision": "bf16"}, [], None),
        ({"strategy": "dp", "geometry": "1x2"}, [], "does nothing on a CPU"),
        ({"precision": "fp16"}, [], "fp16 training needs a CUDA device"),
        ({"precision": "tf32"}, [], "tf32 training needs a CUDA device"),
        ({"device": "cuda"}, [], "1 on each node; 0 are visible"),
        ({"geometry": "2x1"}, [], "2 nodes need a cluster; there is 1 here"),
        ({"geometry": "1x4"}, [H100] * 2, "4 on each node; 2 are visible"),
        ({"geometry": "1x4", "device": "cpu"}, [H100] * 2, None),
        ({"strategy": "dp"}, [H100], "does nothing with one device"),
        ({"strategy": "dp", "geometry": "1x2"}, [H100] * 2, None),
        ({"strategy": "dp", "geometry": "1x2", "compile": True}, [H100] * 2, "torch.compile cannot follow"),
        ({"precision": "fp16"}, [V100], None),
        ({"precision": "bf16"}, [V100], "compute capability 7.0; bf16 needs 8.0"),
        ({"precision": "tf32"}, [V100], "tf32 needs 8.0"),
        ({"precision": "tf32"}, [H100], None),
    ],
)
def test_reasons(execution, gpus, reason):
    found = unsupported_reason(cell(**execution), gpus)
    assert found == reason if reason is None else reason in found


def test_compile_needs_a_compiler(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert "C++ compiler" in unsupported_reason(cell(compile=True), [])


@pytest.mark.parametrize(
    ("variable", "expected"),
    [(None, "abc"), ("", ""), ("0,2", "ac"), ("2,0", "ca"), ("GPU-b", "b"), ("0,7,1", "a"), ("GPU-x,0", "")],
)
def test_visible_devices(variable, expected):
    found = [Gpu("", f"GPU-{letter}", 0, (9, 0)) for letter in "abc"]
    assert "".join(g.uuid[-1] for g in gpus._visible(found, variable)) == expected


def test_devices_without_importing_torch():
    import subprocess
    import sys

    code = (
        "import sys; from scalebench.machine.gpus import cuda_devices; cuda_devices(); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
