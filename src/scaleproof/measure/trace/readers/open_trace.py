"""Which reader a file needs; every other file gets one clear message."""

import contextlib
from pathlib import Path

from scaleproof.ground.errors import UserError, describe_first_fault, nearest_path, path_fault
from scaleproof.ground.records.run import CAPTURE
from scaleproof.measure.trace.events import Trace, join_traces
from scaleproof.measure.trace.readers.kineto import read_kineto
from scaleproof.measure.trace.readers.nsys_sqlite import read_sqlite

HEAD_BYTES = 4096  # bytes of a file by which its kind is known
SQLITE = b"SQLite format 3\0"
CAPTURES = "results/<campaign>/traces/<cell>"
ALLOWED = "allowed: .sqlite (nsys export), .json or .json.gz of torch's profiler, text or CSV of nsys stats"


class NoTrace(UserError):
    """Raised where a file is not a trace."""


def read_trace(paths: list[Path]) -> Trace:
    """Return the trace in a capture's files, one of each node (nsys) or rank (torch's profiler). Raises UserError."""
    traces: list[Trace] = []
    for path in paths:
        kind = trace_kind(path)
        if kind == "text":
            raise UserError(f"{path}: a text report has no single events; it is summarised by itself")
        read = read_sqlite if kind == "sqlite" else read_kineto
        next_rank = max((rank for trace in traces for rank in trace.ranks), default=-1) + 1
        try:
            traces.append(read(path, next_rank))
        except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as error:
            again = "capture or export it again; where that changes nothing, report it as a defect of scaleproof"
            raise UserError(f"{path}: not a whole trace: {describe_first_fault(error)}; {again}") from None
    return join_traces(traces)


def traces_at(folder: Path) -> list[Path]:
    """Return the files in a folder that are traces, or the one file that is given. Raises UserError where none is."""
    if not folder.is_dir() or (folder / CAPTURE).is_file():  # of a capture, its reader says that it is given alone
        return [folder]
    traces: list[Path] = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or not path.is_file():
            continue
        with contextlib.suppress(NoTrace):
            # Any JSON file begins as one of torch's profiler: where it is not packed, its events are looked for.
            is_unpacked_json = trace_kind(path) == "kineto" and path.suffix != ".gz"
            if not is_unpacked_json or _has_events(path):
                traces.append(path)
    if not traces:
        raise UserError(
            f"{folder}: no trace in this folder; give {CAPTURES} or files; {ALLOWED}.{_capture_below(folder)}"
        )
    return traces


def _has_events(path: Path) -> bool:
    """Return whether a JSON file is a trace of torch's profiler, by its first megabyte."""
    with path.open("rb") as file:
        return b'"traceEvents"' in file.read(1 << 20)


def _capture_below(folder: Path) -> str:
    """Return a hint with the first capture below `folder`, "" where there is none."""
    for pattern in ("", "traces/", "*/traces/"):
        for capture in folder.glob(f"{pattern}*/{CAPTURE}"):
            return f' Did you mean "{capture.parent}"?'
    return ""


def _read_head(path: Path) -> bytes:
    """Return the first HEAD_BYTES of a file. Raises UserError where it is missing, a folder, or empty."""
    if not path.exists() and not path.is_symlink():
        raise UserError(f"{path}: no such file; {ALLOWED}.{nearest_path(path)}")
    if fault := path_fault(path):
        raise UserError(f"{path}{fault}; {ALLOWED}")
    if (path / CAPTURE).is_file():
        raise UserError(f"{path} is a whole capture, which is summarised alone; give no other file")
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if not head:
        raise UserError(f"{path}: the file is empty, so the capture or the export was cut off; {ALLOWED}")
    return head


def trace_kind(path: Path) -> str:
    """Return the kind of a trace (sqlite, kineto, text). Raises NoTrace for other files, UserError for faulty ones."""
    head = _read_head(path)
    if (path.parent / CAPTURE).is_file():
        raise UserError(f"{path} is a part of a capture; give its folder, {path.parent}")
    if path.suffix in (".nsys-rep", ".qdrep"):
        raise UserError(f"{path}: a report of Nsight Systems; export it first: nsys export --type sqlite {path.name}")
    if path.suffix == ".qdstrm":
        raise UserError(
            f"{path}: what nsys leaves without its importer; make a report of it: QdstrmImporter -i {path.name}"
        )
    if head.startswith(SQLITE) or path.suffix in (".sqlite", ".db"):
        return "sqlite"
    if head.startswith(b"\x1f\x8b") or head.lstrip().startswith(b"{"):
        return "kineto"

    if head.lstrip().startswith(b"[") and b'"ph"' in head:
        fault = "a list of events, as torch.autograd.profiler and other programs write it"
        raise NoTrace(f"{path}: {fault}; {ALLOWED}")
    try:
        text = head.decode("utf-8", errors="strict" if len(head) < HEAD_BYTES else "ignore")
    except UnicodeDecodeError:
        raise NoTrace(f"{path}: this is no trace; {ALLOWED}") from None
    if " ** " in text or "Time (%)" in text or text.startswith(("Processing [", "Generating SQLite", "NOTICE:")):
        return "text"
    raise NoTrace(f"{path}: this is no trace; {ALLOWED}")
