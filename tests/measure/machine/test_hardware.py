"""What a node says of itself, read from texts as the commands print them."""

import sys
from pathlib import Path

from scaleproof.measure.machine import provenance

SMI = """0, NVIDIA H100 80GB HBM3, GPU-11111111-2222, 550.54.15, 81559 MiB, \
1980 MHz, 1980 MHz, 700.00 W, 700.00 W, Enabled, Disabled, 00000000:04:00.0
1, NVIDIA H100 80GB HBM3, GPU-33333333-4444, 550.54.15, 81559 MiB, \
1980 MHz, 1980 MHz, 500.00 W, 700.00 W, Enabled, Disabled, 00000000:05:00.0
"""
TOPO = (
    "\t\x1b[4mGPU0\tGPU1\tCPU Affinity\x1b[0m\nGPU0\t X \tNV18\t0-7\nGPU1\tNV18\t X \t0-7\n\nLegend:\n\n  X    = Self\n"
)
IBSTAT = """CA 'mlx5_0'
\tCA type: MT4129
\tNumber of ports: 1
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 400
\t\tLink layer: InfiniBand
"""


def test_gpus():
    first, second = provenance.parse_gpu_table(SMI)
    assert (first["uuid"], first["driver"], first["ecc"]) == ("GPU-11111111-2222", "550.54.15", "Enabled")
    assert (second["power_cap"], second["power_cap_default"]) == ("500.00 W", "700.00 W")
    assert provenance.parse_gpu_table("") == []


def test_topology():
    assert provenance.parse_topology(TOPO) == ["GPU0 GPU1 CPU Affinity", "GPU0 X NV18 0-7", "GPU1 NV18 X 0-7"]


def test_the_head_of_the_matrix_is_no_row_of_it(monkeypatch):
    """What a command prints loses the blanks in front of its first line."""
    monkeypatch.setattr(provenance, "run_command", lambda *words: TOPO.strip())
    monkeypatch.setattr(provenance, "ask_nvidia_smi", lambda: [{"index": str(i), "uuid": f"GPU-{i}"} for i in range(2)])
    assert provenance.links_between(["GPU-0", "GPU-1"]) == {(0, 1): "NV18"}


def test_what_joins_devices_is_known_in_the_order_of_the_ranks(monkeypatch):
    """CUDA may number devices, or a user may list them, in another order than nvidia-smi."""
    matrix = "GPU0 X NV18 PHB\nGPU1 NV18 X SYS\nGPU2 PHB SYS X"
    monkeypatch.setattr(provenance, "run_command", lambda *words: matrix)
    monkeypatch.setattr(provenance, "ask_nvidia_smi", lambda: [{"index": str(i), "uuid": f"GPU-{i}"} for i in range(3)])
    assert provenance.links_between(["GPU-2", "GPU-0", "GPU-1"]) == {(0, 1): "PHB", (0, 2): "SYS", (1, 2): "NV18"}
    assert provenance.links_between(["GPU-1"]) == {}
    assert provenance.links_between(["GPU-1", "MIG-7"]) == {}, "a part of a device has no link of its own"
    monkeypatch.setattr(provenance, "run_command", lambda *words: "")
    assert provenance.links_between(["GPU-2", "GPU-0"]) == {}


def test_infiniband():
    (port,) = provenance.parse_infiniband_ports(IBSTAT)
    assert port == {"adapter": "mlx5_0", "port": "1", "state": "Active", "rate": "400", "link_layer": "InfiniBand"}


def test_networks(tmp_path):
    for name, speed in (("eth0", "25000\n"), ("lo", "-1\n"), ("down", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "speed").write_text(speed)
    assert provenance.read_network_speeds(tmp_path) == {"eth0": 25000}


def test_all_of_it_is_asked_of_the_commands_that_are_there(monkeypatch, tmp_path):
    """Stand-ins for the vendors' commands: they know the fields that the real ones know."""
    known = dict(zip(provenance.GPU_FIELDS.values(), SMI.splitlines()[0].split(", "), strict=True))
    smi = f"""#!{sys.executable}
import sys
if "topo" in sys.argv: print({TOPO!r})
elif len(sys.argv) == 1: print("| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: 12.4 |")
else:
    (query,) = [a.split("=")[1] for a in sys.argv if a.startswith("--query-gpu")]
    assert "--format=csv,noheader" in sys.argv
    print(", ".join({known!r}[field] for field in query.split(",")))
"""
    for name, text in (("nvidia-smi", smi), ("ibstat", f"#!{sys.executable}\nprint({IBSTAT!r})")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("SCALEPROOF_IMAGE", "sha256:0123")
    monkeypatch.setenv("APPTAINER_NAME", "/home/someone/scaleproof.sif")
    monkeypatch.setenv("LOADEDMODULES", f"gcc/13:{Path.home()}/modules/mine")
    found = provenance.ask_node_commands()
    assert found["gpus"] == provenance.parse_gpu_table(SMI)[:1]
    assert found["gpu_topology"] == provenance.parse_topology(TOPO)
    assert found["cuda_driver"] == "12.4"
    assert found["infiniband"][0]["rate"] == "400"
    assert found["container"] == "sha256:0123"
    assert found["modules"] == ["gcc/13", "~/modules/mine"]


def test_what_is_not_there_is_left_out(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("LOADEDMODULES", "gcc/13:cuda/12.8")
    monkeypatch.setenv("APPTAINER_NAME", "/home/someone/scaleproof.sif")
    found = provenance.ask_node_commands()
    assert "gpus" not in found
    assert "infiniband" not in found
    assert found["modules"] == ["gcc/13", "cuda/12.8"]
    assert found["container"] == "scaleproof.sif"


def test_a_field_that_the_driver_has_dropped_takes_no_others_along(monkeypatch):
    """nvidia-smi refuses the whole query for one unknown field."""

    def smi(*command):
        fields = command[1].removeprefix("--query-gpu=").split(",")
        return "" if "clocks.applications.graphics" in fields else ", ".join(f"<{f}>" for f in fields)

    monkeypatch.setattr(provenance, "run_command", smi)
    (gpu,) = provenance.ask_nvidia_smi()
    assert gpu["uuid"] == "<uuid>"
    assert gpu["bus"] == "<pci.bus_id>"
    assert "clock_sm_application" not in gpu
