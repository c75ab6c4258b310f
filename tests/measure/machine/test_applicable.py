"""What cannot run here is known before anything starts, with the reason."""

import os
import re
import sys
from types import SimpleNamespace

import pytest

from scaleproof.ground.campaign.cells import expand_cells
from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.errors import UserError
from scaleproof.measure.machine import applicable, gpus
from scaleproof.measure.machine.applicable import LEGACY_INDEX, arch_problem, reason_of_all, unsupported_reason
from scaleproof.measure.machine.gpus import Gpu

H100 = Gpu("NVIDIA H100 80GB HBM3", "GPU-h", 80 * 2**30, (9, 0))
V100 = Gpu("Tesla V100-SXM2-16GB", "GPU-v", 16 * 2**30, (7, 0))


def cell(**execution):
    return expand_cells(Campaign.model_validate({"title": "x", "execution": execution}))[0]


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
        ({"attention": "cudnn"}, [], "cuDNN's attention needs a CUDA device"),
        ({"attention": "flash"}, [], None),
        ({"attention": "flash"}, [H100], "flash attention is for bf16 and fp16; the precision is fp32"),
        ({"attention": "flash", "device": "cuda"}, [], "flash attention is for bf16 and fp16; the precision is fp32"),
        ({"attention": "flash", "device": "cuda", "precision": "bf16"}, [H100], None),
        ({"attention": "cudnn", "precision": "fp16"}, [V100], "compute capability 7.0; cudnn needs 8.0"),
        ({"attention": "cudnn", "precision": "bf16"}, [H100], None),
        ({"reduce_dtype": "bf16", "precision": "bf16"}, [], "by NCCL alone"),
        ({"reduce_dtype": "bf16", "precision": "bf16"}, [H100], None),
    ],
)
def test_reasons(execution, gpus, reason):
    found = unsupported_reason(cell(**execution), gpus)
    assert found == reason if reason is None else reason in found


@pytest.mark.parametrize(
    ("line", "vendor", "why"),
    [
        ("hip = '6.3.4'", None, "built for AMD's, which amdsmi lists: pip install"),
        ("xpu = '20250101'", "Intel", "built for GPUs of Intel, which are not supported"),
        ("hip = None", None, "0 are visible"),
    ],
)
def test_a_torch_for_other_gpus_says_so(tmp_path, monkeypatch, line, vendor, why):
    (tmp_path / "version.py").write_text(f"cuda = None\n{line}\n")
    found = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(gpus.importlib.util, "find_spec", lambda name: found)
    assert why in unsupported_reason(cell(device="cuda"), [])
    assert gpus.unsupported_vendor() == vendor
    (tmp_path / "version.py").unlink()  # a file of torch's name, which is not torch
    assert gpus.unsupported_vendor() is None
    assert gpus.cuda_devices() == []


def test_cells_of_which_none_can_run_have_a_reason():
    single = cell(strategy="single", geometry="1x2")
    assert reason_of_all([single]) == f"{single.slug}: single is one device without a wrapper; 1x2 has 2"
    assert reason_of_all([single, cell()]) is None


def test_compile_needs_a_compiler(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert "C++ compiler" in unsupported_reason(cell(compile=True), [])


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        (None, "abc"),
        ("", ""),
        ("0,2", "ac"),
        ("2,0", "ca"),
        ("GPU-b", "b"),
        ("0,7,1", "a"),
        ("GPU-x,0", ""),
        ("NoDevFiles", ""),
        ("-1", ""),
    ],
)
def test_visible_devices(variable, expected):
    found = [Gpu("", f"GPU-{letter}", 0, (9, 0)) for letter in "abc"]
    assert "".join(g.uuid[-1] for g in gpus._visible_gpus(found, variable)) == expected


def test_devices_without_importing_torch():
    import subprocess
    import sys

    code = (
        "import sys; from scaleproof.measure.machine import gpus; gpus.cuda_devices(); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(
    ("gpu", "cuda", "reason"),
    [
        (V100, "13.0", r"V100.*7\.0; this torch is built with CUDA 13\.0, which starts at 7\.5.*whl/cu126"),
        (V100, "12.6", None),
        (V100, None, None),
        (Gpu("NVIDIA L4", "GPU-l", 1, (8, 9), "535.104.05"), "13.0", r"driver is 535.*needs 580"),
        (Gpu("NVIDIA L4", "GPU-l", 1, (8, 9), "580.65.06"), "13.0", None),
        (Gpu("NVIDIA L4", "GPU-l", 1, (8, 9), "535.104.05"), "12.6", None),
    ],
)
def test_old_devices_and_drivers_name_the_index_to_use(monkeypatch, gpu, cuda, reason):
    monkeypatch.setattr("scaleproof.measure.machine.applicable.torch_cuda_version", lambda: cuda)
    problem = unsupported_reason(cell(), [gpu])
    assert (problem is None) if reason is None else re.search(reason, problem)


def test_a_driver_with_the_package_for_forward_compatibility_is_asked(monkeypatch):
    """Libraries of a newer CUDA beside an older driver, as in NVIDIA's containers, work on devices of data centres."""
    asked = []

    def answers(command, **_):
        asked.append(command[-1])
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr("scaleproof.measure.machine.applicable.torch_cuda_version", lambda: "13.0")
    monkeypatch.setattr(applicable.subprocess, "run", answers)
    applicable.torch_can_use_devices.cache_clear()
    old, new = (Gpu("NVIDIA L4", "GPU-l", 1, (8, 9), driver) for driver in ("535.104.05", "580.65.06"))
    assert unsupported_reason(cell(), [new]) is None
    assert asked == [], "it takes seconds"
    assert unsupported_reason(cell(), [old]) is None
    assert "is_available()" in asked[0]
    applicable.torch_can_use_devices.cache_clear()


def test_devices_that_a_cell_does_not_use_do_not_keep_it_from_running(monkeypatch):
    """A small card for the screen beside the one for work."""
    monkeypatch.setattr("scaleproof.measure.machine.applicable.torch_cuda_version", lambda: "13.0")
    screen = Gpu("NVIDIA GeForce GTX 1050", "GPU-s", 2**31, (6, 1))
    assert unsupported_reason(cell(precision="bf16"), [H100, screen]) is None
    assert "compute capability 6.1" in unsupported_reason(cell(precision="bf16", geometry="1x2"), [H100, screen])


def test_ranks_count_devices_as_nvml_does(monkeypatch):
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")  # so that what is set below is undone
    monkeypatch.delenv("CUDA_DEVICE_ORDER")
    monkeypatch.setattr(gpus, "torch_cuda_version", lambda: "13.0")
    monkeypatch.setitem(sys.modules, "pynvml", Nvml())
    gpus.cuda_devices()
    assert os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


def test_documents_and_campaigns_for_old_devices_name_the_same_index(repository):
    named = [repository / "docs/gpu.md", *(repository / "config/campaigns").glob("v100*.yaml")]
    assert len(named) == 3
    assert all(LEGACY_INDEX in path.read_text() for path in named)


@pytest.mark.parametrize(
    ("capability", "architectures", "runs"),
    [
        ((9, 0), ["sm_75", "sm_80", "sm_90"], True),
        ((8, 9), ["sm_80"], True),
        ((8, 0), ["sm_86"], False),
        ((7, 0), ["sm_75", "compute_90"], False),
        ((12, 0), ["sm_90", "compute_90"], True),
        ((12, 0), ["sm_90a"], False),
        ((9, 0), ["sm_90a"], True),
        ((10, 3), ["sm_100f"], True),
        ((10, 0), ["compute_90a"], False),
        ((9, 0), ["compute_90a"], True),
        ((12, 0), ["compute_100f"], False),
        ((10, 3), ["compute_100f"], True),
    ],
)
def test_kernels_of_other_devices(capability, architectures, runs):
    assert (arch_problem("GPU", capability, architectures) is None) == runs


@pytest.mark.parametrize(
    ("missing", "reason"),
    [("triton", "not installed"), ("cc", "a C compiler"), ("header", "Python's headers"), (None, None)],
)
def test_compiling_on_a_gpu_needs_tools_of_the_host(monkeypatch, tmp_path, missing, reason):
    spec = None if missing == "triton" else object()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec)
    monkeypatch.setattr("scaleproof.measure.machine.applicable.torch_cuda_version", lambda: None)
    monkeypatch.setattr("shutil.which", lambda name: None if missing == "cc" else "/usr/bin/cc")
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    if missing != "header":
        (tmp_path / "Python.h").touch()
    problem = unsupported_reason(cell(compile=True), [H100])
    assert (problem is None) if reason is None else reason in problem


def test_triton_starts_after_the_v100(monkeypatch):
    monkeypatch.setattr("scaleproof.measure.machine.applicable.torch_cuda_version", lambda: "12.6")
    assert "starts at 7.5; Tesla V100" in unsupported_reason(cell(compile=True, precision="fp16"), [V100])


class Nvml:
    """One device of 80 GB with an instance that does not say how large it is."""

    class NVMLError(Exception):
        pass

    def __getattr__(self, name):
        return {
            "nvmlInit": lambda: None,
            "nvmlShutdown": lambda: None,
            "nvmlDeviceGetCount": lambda: 1,
            "nvmlDeviceGetHandleByIndex": lambda index: "whole",
            "nvmlSystemGetDriverVersion": lambda: "580.1",
            "nvmlDeviceGetName": lambda handle: "NVIDIA A100" if handle == "whole" else "NVIDIA A100 MIG 3g.20gb",
            "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": lambda handle: "whole",
        }[name]

    def nvmlDeviceGetUUID(self, handle):
        return "GPU-1" if handle == "whole" else handle

    def nvmlDeviceGetHandleByUUID(self, uuid):
        if uuid != "MIG-7":
            raise self.NVMLError
        return uuid

    def nvmlDeviceGetMemoryInfo(self, handle):
        if handle != "whole":
            raise self.NVMLError
        return type("Info", (), {"total": 80})

    def nvmlDeviceGetCudaComputeCapability(self, handle):
        if handle != "whole":
            raise self.NVMLError
        return 8, 0


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        ("MIG-7", [Gpu("NVIDIA A100 MIG 3g.20gb", "MIG-7", None, (8, 0), "580.1")]),
        ("MIG-8", []),
        ("0", [Gpu("NVIDIA A100", "GPU-1", 80, (8, 0), "580.1")]),
    ],
)
def test_a_part_of_a_device_is_a_device(monkeypatch, variable, expected):
    import sys

    monkeypatch.setitem(sys.modules, "pynvml", Nvml())
    monkeypatch.setattr(gpus, "torch_has_cuda", lambda: True)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    assert gpus.cuda_devices() == expected


class CutNvml(Nvml):
    """The same device in MIG mode."""

    def nvmlDeviceGetHandleByUUID(self, uuid):
        return "whole" if uuid == "GPU-1" else super().nvmlDeviceGetHandleByUUID(uuid)

    def nvmlDeviceGetMigMode(self, handle):
        if handle != "whole":
            raise self.NVMLError
        return 1, 1

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle, index):
        return f"MIG-{7 + index}"


@pytest.mark.parametrize("variable", [None, "0", "GPU-1", "MIG-7"])
def test_of_a_device_that_is_cut_cuda_sees_the_first_part(monkeypatch, variable):
    """What is planned and locked is what ranks will use, not the whole of its memory."""
    monkeypatch.setitem(sys.modules, "pynvml", CutNvml())
    monkeypatch.setattr(gpus, "torch_has_cuda", lambda: True)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if variable:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    assert gpus.cuda_devices() == [Gpu("NVIDIA A100 MIG 3g.20gb", "MIG-7", None, (8, 0), "580.1")]


class LostNvml(Nvml):
    """Three devices, of which the second one is lost."""

    def __getattr__(self, name):
        return {"nvmlDeviceGetCount": lambda: 3, "nvmlDeviceGetHandleByIndex": self.by_index}.get(
            name
        ) or super().__getattr__(name)

    def by_index(self, index):
        if index == 1:
            raise self.NVMLError("GPU is lost")
        return "whole"


def test_a_lost_device_is_named_unless_it_is_left_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", LostNvml())
    monkeypatch.setattr(gpus, "torch_has_cuda", lambda: True)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,2")
    assert len(gpus.cuda_devices()) == 2
    assert len(gpus.usable_gpus(gpus.cuda_devices)[0]) == 2
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    with pytest.raises(UserError, match=r"GPU 1 of this machine does not answer \(GPU is lost\)"):
        gpus.cuda_devices()
    found, why = gpus.usable_gpus(gpus.cuda_devices)
    assert (found, "GPU 1 of this machine" in why) == ([], True)


def test_a_driver_that_stops_answering_is_no_traceback(monkeypatch):
    nvml = LostNvml()
    nvml.nvmlDeviceGetCount = nvml.nvmlShutdown = lambda: nvml.by_index(1)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setattr(gpus, "torch_has_cuda", lambda: True)
    with pytest.raises(UserError, match="do not answer"):
        gpus.cuda_devices()
