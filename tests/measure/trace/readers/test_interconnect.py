"""Texts about links between devices, written as NCCL, nvidia-smi and ibstat write them."""

import pytest

from scaleproof.ground.errors import UserError
from scaleproof.measure.trace.readers.interconnect import read_interconnect

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
    path = tmp_path / "evidence"
    path.write_text(text)
    assert read_interconnect(path) == (kind, said)


def test_what_a_log_does_not_say_is_left_out(tmp_path):
    path = tmp_path / "nccl.log"
    path.write_text("NCCL version 2.21.5\n")
    assert read_interconnect(path) == ("nccl log", {"version": "2.21.5"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("<system", "not a topology file of NCCL"),
        ("<html></html>", "its first element is html"),
        ("Dear NCCL,", "no log of NCCL"),
        ("hello", "says nothing of links"),
    ],
)
def test_other_files_get_one_message(tmp_path, text, message):
    path = tmp_path / "evidence"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        read_interconnect(path)


def test_a_traced_run_keeps_what_is_said_and_a_profile_tells_it(tmp_path, monkeypatch):
    from scaleproof.measure.trace.capture.capture import record_interconnect

    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    said = tmp_path / "bin/ibstat"
    said.write_text(f"#!/bin/sh\n/bin/cat <<'X'\n{IBSTAT}X\n")
    said.chmod(0o755)
    variables = record_interconnect(tmp_path)
    assert variables["NCCL_DEBUG_FILE"] == f"{tmp_path}/nccl.%h.%p.log"
    assert read_interconnect(tmp_path / "ibstat.txt")[1][0]["gbit_s"] == 100
    assert not (tmp_path / "nvidia_topo.txt").exists(), "there is no nvidia-smi here"


def test_the_evidence_of_a_capture_reaches_its_profile(tmp_path):
    from scaleproof.ground.files import sha256_of, write_json
    from scaleproof.ground.records.profile_schema import read_profile
    from scaleproof.ground.records.run import CAPTURE
    from scaleproof.measure.trace.capture.capture_schema import RAW, Captured
    from scaleproof.measure.trace.summarise import summarise_capture

    raw = tmp_path / RAW
    raw.mkdir()
    contents = {"nccl.node1.7.log": LOG, "nccl_topo.xml": TOPOLOGY, "ibstat.txt": IBSTAT, "nvidia_topo.txt": "hello"}
    events = '{"ph": "X", "cat": "user_annotation", "name": "step", "pid": 1, "tid": 1, "ts": 1, "dur": 5}'
    contents["rank0.json"] = f'{{"traceEvents": [{events}], "distributedInfo": {{"rank": 0}}}}'
    for name, text in contents.items():
        (raw / name).write_text(text)
    places = [{"host": "node1", "devices": ["GPU-a", "GPU-b"], "device_name": "NVIDIA L4"}]
    captured = Captured(
        status="ok",
        timestamp_utc="now",
        campaign="c",
        cell="dp-n1x2",
        fingerprint="f",
        strategy="dp",
        tool="torch.profiler",
        tool_version=None,
        tool_reason=None,
        nodes="first",
        world_size=1,
        steps=1,
        ranks=places,
        env={},
        scheduler=None,
        code_sha256="0",
        total_wall_time_sec=1.0,
        training_config={"seq_len": 8, "micro_batch_size_per_gpu": 1, "grad_accum_steps": 1},
        files={name: sha256_of(raw / name) for name in contents},
    )
    write_json(tmp_path / CAPTURE, captured.model_dump(mode="json"))
    summarise_capture(tmp_path)
    profile = read_profile(tmp_path)
    assert profile.interconnect["nccl.node1.7.log"]["content"]["network"] == "IB"
    assert profile.interconnect["nccl_topo.xml"]["kind"] == "nccl topology"
    assert "says nothing of links" in profile.interconnect["nvidia_topo.txt"]["content"]
    assert "rank0.json" not in profile.interconnect
    assert (profile.world_size, profile.n_devices) == (1, 2), "a rank of nn.DataParallel has several devices"
    former = profile.model_dump(mode="json")
    former["proof"] = former.pop("interconnect")
    write_json(tmp_path / "profile_summary.json", former)
    assert read_profile(tmp_path).interconnect == profile.interconnect


@pytest.mark.parametrize("name", ["interconnect", "proof"])
def test_the_key_is_read_under_its_new_and_its_former_name(name):
    from scaleproof.ground.campaign.config import Tracing

    assert Tracing.model_validate({name: True}).interconnect is True
