"""AMD's devices: listed, sampled and their cores found, by a stand-in that answers as amdsmi 7.0 does."""

import sys
from types import SimpleNamespace

import pytest
import torch
from fake_cuda.amdsmi import AmdSmi, uuid_of

from scaleproof.ground.campaign.cells import expand_cells
from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.facts.kernel_classes import class_of, collective_of
from scaleproof.ground.facts.peaks import peak
from scaleproof.measure.machine import amd, gpus
from scaleproof.measure.machine.applicable import arch_problem, unsupported_reason
from scaleproof.measure.trainer.monitor import Monitor
from scaleproof.measure.trainer.session import nvml_uuid


@pytest.fixture
def rocm(monkeypatch):
    def played(**answers):
        monkeypatch.setitem(sys.modules, "amdsmi", AmdSmi(**answers))
        monkeypatch.setattr(gpus, "_torch_built_for", lambda name: {"hip": "7.0"}.get(name))
        monkeypatch.setattr("scaleproof.measure.machine.applicable.torch_has_rocm", lambda: True)
        monkeypatch.setattr(torch.version, "hip", "7.0")
        for name in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
            monkeypatch.delenv(name, raising=False)

    played()
    return played


def cell(**execution):
    return expand_cells(Campaign.model_validate({"title": "x", "execution": {"device": "cuda"} | execution}))[0]


def test_devices_are_listed(rocm):
    first, second = gpus.cuda_devices()
    assert (first.name, first.memory, first.capability) == ("AMD Instinct MI300X", 192 * 2**30, (9, 4))
    assert [first.uuid, second.uuid] == ["GPU-cc858db4078d02a6", "GPU-74a1000000000001"]
    assert peak(first.name, "bf16").source.startswith("AMD Instinct MI300X")


@pytest.mark.parametrize(
    ("variables", "last"),
    [
        ({"ROCR_VISIBLE_DEVICES": "1"}, ["1"]),
        ({"HIP_VISIBLE_DEVICES": "0"}, ["6"]),
        ({"HIP_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "0"}, ["1"]),
        ({"ROCR_VISIBLE_DEVICES": "1,0", "CUDA_VISIBLE_DEVICES": "1"}, ["6"]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-74a1000000000001"}, ["1"]),
        ({"ROCR_VISIBLE_DEVICES": ""}, []),
    ],
)
def test_devices_are_hidden_as_rocm_does(rocm, monkeypatch, variables, last):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert [gpu.uuid[-1] for gpu in gpus.cuda_devices()] == last


def test_a_device_is_sampled(rocm):
    with Monitor(torch.device("cuda", 0), ["GPU-cc858db4078d02a6"]) as monitor:
        pass
    (found,) = monitor.result()["gpus"]
    assert (found["power_w_mean"], found["sm_clock_mhz_mean"], found["utilization_mean"]) == (700, 2100, 0.98)
    assert found["throttled"] == {"power_cap": 1.0}
    assert found["energy_counter_j"] == pytest.approx(1000 * 15.25e-6)


def test_what_amdsmi_does_not_tell_is_missing(rocm):
    refused = AmdSmi.AmdSmiException("not supported")
    rocm(get_power_info={"socket_power": "N/A"}, get_clock_info=refused, get_violation_status={"active_ppt_pwr": "N/A"})
    with Monitor(torch.device("cuda", 0), ["GPU-cc858db4078d02a6"]) as monitor:
        pass
    (found,) = monitor.result()["gpus"]
    assert [found[name] for name in ("power_w_mean", "sm_clock_mhz_mean", "throttled", "energy_j")] == [None] * 4
    assert Monitor(torch.device("cuda", 0), ["GPU-another"]).gpus is None, "nobody else's figures"


def test_cores_are_those_of_the_devices_node(rocm, monkeypatch, tmp_path):
    (tmp_path / "node1").mkdir()
    (tmp_path / "node1/cpumap").write_text("00000002,00000000,0000000c\n")
    monkeypatch.setattr(amd, "NODES", tmp_path)
    monkeypatch.setattr(gpus.os, "cpu_count", lambda: 128)
    monkeypatch.setattr(gpus.os, "sched_getaffinity", lambda process: {0, 1, 2, 3, 65})
    assert gpus.cores_near("GPU-cc858db4078d02a6") == [2, 3, 65]
    rocm(topo_get_numa_node_number=AmdSmi.AmdSmiException("not supported"))
    assert gpus.cores_near("GPU-cc858db4078d02a6") == []


def test_torch_names_a_device_by_the_codes_of_its_serial(rocm):
    assert nvml_uuid(SimpleNamespace(name="AMD Instinct MI300X", uuid=uuid_of(0))) == "GPU-cc858db4078d02a6"
    assert nvml_uuid(SimpleNamespace(name="AMD", uuid="00112233-4455-6677-8899-aabbccddeeff")).endswith("eeff")


def test_what_torch_has_no_kernels_for_is_refused(rocm):
    found = gpus.cuda_devices()
    assert unsupported_reason(cell(precision="bf16", geometry="1x2"), found) is None
    assert "neither tf32 nor cuDNN" in unsupported_reason(cell(precision="tf32"), found)
    assert "neither tf32 nor cuDNN" in unsupported_reason(cell(precision="bf16", attention="cudnn"), found)
    assert arch_problem("MI300X", (9, 4), ["gfx90a", "gfx942"]) is None
    assert "no kernels" in arch_problem("MI300X", (9, 4), ["gfx90a", "gfx1100"])


def test_without_amdsmi_no_device_is_visible_and_the_reason_says_what_to_install(rocm, monkeypatch):
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    assert gpus.cuda_devices() == []
    assert "amdsmi lists: pip install" in unsupported_reason(cell(), [])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Cijk_Ailk_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x64_MI16x16x1", "gemm"),
        ("attn_fwd.kd", "attention"),
        ("bwd_kernel_dk_dv.kd", "attention"),
        ("ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", "communication"),
        ("void rcclKernel_AllReduce_RING_SIMPLE_Sum_float(ncclDevComm*)", "communication"),
    ],
)
def test_kernels_have_their_class(name, kind):
    assert class_of(name) == kind
    assert bool(collective_of(name)) == (kind == "communication")
