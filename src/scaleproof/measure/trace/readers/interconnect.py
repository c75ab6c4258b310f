"""What a distributed run says about its own wires: NCCL's debug log and topology file, `nvidia-smi topo -m`, `ibstat`.

All are optional. What a text does not say is left out, never guessed.
"""

import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from typing import Any

from scaleproof.ground.errors import UserError, path_fault
from scaleproof.measure.machine.provenance import parse_link_matrix

# NCCL 2.8 to 2.27, `NCCL_DEBUG=INFO` with the subsystems INIT,ENV,GRAPH,NET.
VERSION = re.compile(r"NCCL version (\S+)")
NETWORK = re.compile(r"NCCL INFO Using network (\S+)")
CHANNEL = re.compile(r"NCCL INFO Channel (\d+)(?:/\d+)? : (\d+)\S* -> (\d+)\S* (?:\[(?:send|receive)\] )?via (\S+)")
TREES = re.compile(r"NCCL INFO Trees (?:\[\d+\])")
RINGS = re.compile(r"NCCL INFO Channel \d+/\d+ :(?: +\d+)+\s*$", re.MULTILINE)
IB = re.compile(r"NET/IB : (?:Using )?\[\d+\](\S+?):\d+/(?:IB|RoCE)")
IB_SPEED = re.compile(r"NET/IB: \[\d+\] (\S+?):\S* .*?speed=(\d+)")
LINKS = {
    "NV": "NVLink",
    "PIX": "one PCIe bridge",
    "PXB": "several PCIe bridges",
    "PHB": "a PCIe host bridge",
    "NODE": "bridges of one NUMA node",
    "SYS": "the link between sockets",
}


def read_nccl_log(path: Path) -> dict[str, Any]:
    """Return what a log of NCCL says: version, network, channels, transports, ... Raises UserError for other files."""
    text = _text_of(path)
    if "NCCL INFO" not in text and "NCCL version" not in text:
        raise UserError(f"{path}: no log of NCCL (it has no line with NCCL INFO); take one with NCCL_DEBUG=INFO")

    connections = CHANNEL.findall(text)  # (number of a channel, rank, another rank, transport)
    transports = Counter(_short_transport(via) for *_, via in connections)
    version, network = VERSION.search(text), NETWORK.search(text)
    facts: dict[str, Any] = {
        "transports": dict(sorted(transports.items())),
        "version": version[1] if version else None,
        "network": network[1] if network else None,
        "channels": len({int(number) for number, *_ in connections}),
        "graphs": [name for name, pattern in (("trees", TREES), ("rings", RINGS)) if pattern.search(text)],
        "nics": sorted({*IB.findall(text), *(name for name, _ in IB_SPEED.findall(text))}),
    }
    return {name: fact for name, fact in facts.items() if fact}


def read_topology(path: Path) -> dict[str, Any]:
    """Return what an `nccl_topo.xml` says: GPUs, mean NVLinks per GPU, network cards (Gb/s). Raises UserError."""
    try:
        root = ElementTree.fromstring(_text_of(path))
    except ElementTree.ParseError as error:
        raise UserError(f"{path}: not a topology file of NCCL ({error}); take one with NCCL_TOPO_DUMP_FILE") from None
    if root.tag != "system":
        raise UserError(f"{path}: not a topology file of NCCL: its first element is {root.tag}, not system")
    cards = [card for card in root.iter("net") if card.get("speed")]  # `speed` is in Mb/s
    gpus = list(root.iter("gpu"))
    link_counts = [int(link.get("count", 1)) for gpu in gpus for link in gpu.iter("nvlink")]
    return {
        "gpus": len(gpus),
        "nvlinks_per_gpu": sum(link_counts) / max(1, len(gpus)),
        "nics": [{"name": card.get("name"), "gbit_s": int(card.attrib["speed"]) / 1000} for card in cards],
    }


def read_matrix(path: Path) -> dict[str, int]:
    """Return kind of link -> number of pairs of GPUs, by `nvidia-smi topo -m`. Raises UserError for another file."""
    rows = parse_link_matrix(_text_of(path))
    if not rows:
        raise UserError(f"{path}: not an answer of nvidia-smi topo -m: no line begins with GPU0")
    pair_counts: Counter[str] = Counter()
    for number, cells in enumerate(rows):
        later_gpus = cells[number + 1 : len(rows)]  # so that each pair counts once
        pair_counts.update(_link_in_words(cell) for cell in later_gpus)
    return dict(pair_counts)


def read_ibstat(path: Path) -> list[dict[str, Any]]:
    """Return name of the adapter, state and rate (Gb/s) of each port that `ibstat` printed. Raises UserError."""
    # The text before the first adapter, then alternately an adapter's name and the text about it.
    texts = re.split(r"^CA '([^']+)'", _text_of(path), flags=re.MULTILINE)
    if len(texts) < 3:
        raise UserError(f"{path}: not an answer of ibstat: it names no adapter (CA)")
    ports = []
    for name, text in zip(texts[1::2], texts[2::2], strict=True):
        for state, rate in re.findall(r"State: (\S+).*?Rate: (\d+)", text, re.DOTALL):
            ports.append({"name": name, "state": state, "gbit_s": int(rate)})
    return ports


READERS = {
    "nccl log": read_nccl_log,
    "nccl topology": read_topology,
    "nvidia-smi topo": read_matrix,
    "ibstat": read_ibstat,
}


ALLOWED = "a log of NCCL (NCCL_DEBUG=INFO), nccl_topo.xml, the text of nvidia-smi topo -m or of ibstat"


def read_interconnect(path: Path) -> tuple[str, Any]:
    """Return which of READERS a file about links is for, and its content. Raises UserError for other files."""
    text = _text_of(path)
    if text.lstrip().startswith("<"):
        kind = "nccl topology"
    elif "NCCL" in text:
        kind = "nccl log"
    elif re.search(r"^CA '", text, re.MULTILINE):
        kind = "ibstat"
    elif re.search(r"^\s*GPU0", text, re.MULTILINE):
        kind = "nvidia-smi topo"
    else:
        raise UserError(f"{path}: says nothing of links; allowed: {ALLOWED}")
    return kind, READERS[kind](path)


def _short_transport(via: str) -> str:
    """Shorten a channel's transport: P2P/CUMEM/read -> P2P, NET/IB/0/GDRDMA -> NET/IB (GPU direct)."""
    words = via.split("/")
    name = "/".join(words[:2]) if words[0] == "NET" else words[0]
    return f"{name} (GPU direct)" if "GDRDMA" in words else name


def _link_in_words(cell: str) -> str:
    """Return a cell of the matrix in words: NV12 -> NVLink x12. An unknown cell is returned as it is."""
    for key, meaning in LINKS.items():
        if cell.startswith(key):
            return f"{meaning} x{cell.removeprefix(key)}" if key == "NV" else meaning
    return cell


def _text_of(path: Path) -> str:
    """Return the text of a file. Raises UserError where the file is missing or empty."""
    if not path.is_file():
        raise UserError(f"{path}{path_fault(path) or ' is a folder; a file is expected'}")
    text = path.read_text(encoding="utf-8", errors="replace")
    if not text.strip():
        raise UserError(f"{path}: the file is empty; allowed: {ALLOWED}")
    return text
