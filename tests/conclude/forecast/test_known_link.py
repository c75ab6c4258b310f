"""A network of known speed: namespaces joined by a bridge, each limited by `tc tbf`, and layers that sleep.

Compute and bandwidth are both known, and sleeping costs no core, so four ranks run on two. Needs root and the kernel's
token-bucket filter; skipped with the reason elsewhere.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conclude.forecast.known_link import BACKWARD_S, BYTES, FORWARD_S, LAYERS
from patience import HANGS

from scaleproof.conclude.forecast.collective import CollectiveTimes, Group, Network
from scaleproof.conclude.forecast.timeline import Layer, Layers, Sharing, step_timeline

MEGABITS = 200
PREFIX = "sbfc"  # of all names that are made here, and removed at the end


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")


def _missing() -> str | None:
    """Why there can be no such network here; None where there can."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "namespaces need root"
    absent = [tool for tool in ("ip", "tc") if not shutil.which(tool)]
    if absent:
        return f"{absent[0]} is not installed"
    try:
        with network(1):
            return None
    except OSError as error:
        return f"this kernel or container has no namespaces with tbf: {error}"


@contextlib.contextmanager
def network(ranks: int) -> Iterator[None]:
    """Namespaces sbfc0, sbfc1, ... with the addresses 10.213.7.1, ... on a bridge, both ends of each link limited."""
    limit = ("tbf", "rate", f"{MEGABITS}mbit", "burst", "32kb", "latency", "400ms")
    try:
        _run("ip", "link", "add", f"{PREFIX}br", "type", "bridge")
        _run("ip", "link", "set", f"{PREFIX}br", "up")
        for rank in range(ranks):
            space, outer, inner = f"{PREFIX}{rank}", f"{PREFIX}o{rank}", f"{PREFIX}i{rank}"
            _run("ip", "netns", "add", space)
            _run("ip", "link", "add", outer, "type", "veth", "peer", "name", inner, "netns", space)
            _run("ip", "link", "set", outer, "master", f"{PREFIX}br", "up")
            _run("ip", "-n", space, "addr", "add", f"10.213.7.{rank + 1}/24", "dev", inner)
            _run("ip", "-n", space, "link", "set", inner, "up")
            _run("ip", "-n", space, "link", "set", "lo", "up")
            _run("tc", "qdisc", "add", "dev", outer, "root", *limit)
            _run("tc", "-n", space, "qdisc", "add", "dev", inner, "root", *limit)
        yield
    finally:
        for rank in range(ranks):
            subprocess.run(["ip", "link", "del", f"{PREFIX}o{rank}"], capture_output=True)
            subprocess.run(["ip", "netns", "del", f"{PREFIX}{rank}"], capture_output=True)
        subprocess.run(["ip", "link", "del", f"{PREFIX}br"], capture_output=True)


def measured(ranks: int, out: Path) -> dict:
    """Seconds of all-reduces by bytes, and of DDP steps, in a world of `ranks`."""
    program = str(Path(__file__).with_name("known_link.py"))
    with network(ranks):
        started = [
            subprocess.Popen(
                [
                    *("ip", "netns", "exec", f"{PREFIX}{rank}", sys.executable, program),
                    *(str(rank), str(ranks), "10.213.7.1", f"{PREFIX}i{rank}", str(out)),
                ],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for rank in range(ranks)
        ]
        texts = [process.communicate(timeout=HANGS)[0] for process in started]
    assert out.exists(), texts
    return json.loads(out.read_text())


@pytest.mark.timeout(240)
def test_a_step_of_sleeping_layers_on_a_limited_link(tmp_path):
    ranks = 4 if len(os.sched_getaffinity(0)) >= 4 else 2
    reason = _missing()
    if reason:
        pytest.skip(reason)
    seen = measured(ranks, tmp_path / "result.json")
    sizes = tuple(int(size) for size in seen["sweep"])
    group = Group(1, ranks)
    table = CollectiveTimes("all_reduce", group, sizes, tuple(seen["sweep"].values()))
    ideal = 2 * (ranks - 1) / ranks * 2**22 / (MEGABITS * 1e6 / 8)
    forward_and_backward = min(
        seen["alone"]
    )  # as a forecast has it: measured; sleeping takes a little longer than said
    if forward_and_backward > 1.1 * LAYERS * (FORWARD_S + BACKWARD_S) or table.at(2**22) > 1.15 * ideal:
        pytest.skip(f"this machine is too busy: neither sleep nor link take what they should ({seen})")
    assert table.at(2**22) >= ideal * 0.95
    link = Network((table,))
    model = Layers(
        tuple(Layer(BYTES // 4, 1 / LAYERS) for _ in range(LAYERS)), Layer(0, 0.0), FORWARD_S / (FORWARD_S + BACKWARD_S)
    )
    line = step_timeline(
        model,
        Sharing("ddp", 1, bucket_bytes=0.5 * 2**20),
        forward_and_backward,
        0.0,
        lambda name, nbytes: link.seconds(name, nbytes, group),
    )
    step = min(seen["steps"])  # whatever else this machine does can only add to sleeping and to a limited link
    assert line.end == pytest.approx(step, rel=0.05)
    alone = forward_and_backward + line.communication
    assert alone / step > 1.1  # without overlap the same numbers are off
    print(f"{ranks} ranks: measured {step:.4f} s, timeline {line.end:.4f} s, without overlap {alone:.4f} s")
