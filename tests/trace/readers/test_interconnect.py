"""Texts about wires, written as NCCL, nvidia-smi and ibstat write them."""

import pytest

from scalebench.errors import UserError
from scalebench.trace.readers.interconnect import read_proof

LOG = """node1:100:100 [0] NCCL INFO Bootstrap : Using ib0:10.0.0.1<0>
node1:100:100 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB ib0:10.0.0.1<0>
node1:100:100 [0] NCCL INFO Using network IB
NCCL version 2.27.5+cuda12.9
node1:100:140 [0] NCCL INFO Channel 00/02 :    0   1   2   3   4   5   6   7
node1:100:140 [0] NCCL INFO Trees [0] 1/4/-1->0->-1 [1] 1/-1/-1->0->4
node1:100:150 [0] NCCL INFO Channel 00/0 : 7[3] -> 0[0] [receive] via NET/IB/0/GDRDMA
node1:100:150 [0] NCCL INFO Channel 01/0 : 7[3] -> 0[0] [receive] via NET/IB/0
node1:100:150 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
node1:100:150 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via SHM/direct/direct
"""
TOPOLOGY = """<system version="1"><cpu numaid="0">
<pci busid="1"><gpu dev="0" sm="70" rank="0"><nvlink target="2" count="2" tclass="0x0"/></gpu></pci>
<pci busid="2"><gpu dev="1" sm="70" rank="1"><nvlink target="1" count="2" tclass="0x0"/></gpu></pci>
<nic><net name="mlx5_0" dev="0" speed="100000" port="1"/></nic></cpu></system>
"""
MATRIX = """\t\x1b[4mGPU0\tGPU1\tGPU2\tmlx5_0\tCPU Affinity\x1b[0m
GPU0\t X \tNV2\tSYS\tPIX\t0-15
GPU1\tNV2\t X \tPHB\tSYS\t0-15
GPU2\tSYS\tPHB\t X \tSYS\t16-31
mlx5_0\tPIX\tSYS\tSYS\t X
"""
IBSTAT = """CA 'mlx5_0'
\tCA type: MT4115
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 100
"""


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        (
            LOG,
            "nccl log",
            {
                "transports": {"NET/IB": 1, "NET/IB (GPU direct)": 1, "P2P": 1, "SHM": 1},
                "version": "2.27.5+cuda12.9",
                "network": "IB",
                "channels": 2,
                "graphs": ["trees", "rings"],
                "nics": ["mlx5_0"],
            },
        ),
        (TOPOLOGY, "nccl topology", {"gpus": 2, "nvlinks_per_gpu": 2, "nics": [{"name": "mlx5_0", "gbit_s": 100.0}]}),
        (MATRIX, "nvidia-smi topo", {"NVLink x2": 1, "the link between sockets": 1, "a PCIe host bridge": 1}),
        (IBSTAT, "ibstat", [{"name": "mlx5_0", "state": "Active", "gbit_s": 100}]),
    ],
)
def test_each_text_is_recognised_and_read(tmp_path, text, kind, said):
    path = tmp_path / "proof"
    path.write_text(text)
    assert read_proof(path) == (kind, said)


def test_what_a_log_does_not_say_is_left_out(tmp_path):
    path = tmp_path / "nccl.log"
    path.write_text("NCCL version 2.21.5\n")
    assert read_proof(path) == ("nccl log", {"version": "2.21.5"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("<system", "not a topology file of NCCL"),
        ("<html></html>", "its first element is html"),
        ("Dear NCCL,", "no log of NCCL"),
        ("hello", "no line begins with GPU0"),
    ],
)
def test_other_files_get_one_message(tmp_path, text, message):
    path = tmp_path / "proof"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        read_proof(path)


def test_a_traced_run_keeps_what_is_said_and_a_profile_tells_it(tmp_path, monkeypatch):
    from scalebench.trace.capture.capture import _proof

    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    said = tmp_path / "bin/ibstat"
    said.write_text(f"#!/bin/sh\n/bin/cat <<'X'\n{IBSTAT}X\n")
    said.chmod(0o755)
    variables = _proof(tmp_path)
    assert variables["NCCL_DEBUG_FILE"] == f"{tmp_path}/nccl.%h.%p.log"
    assert read_proof(tmp_path / "ibstat.txt")[1][0]["gbit_s"] == 100
    assert not (tmp_path / "nvidia_topo.txt").exists(), "there is no nvidia-smi here"
