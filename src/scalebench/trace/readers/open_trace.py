"""Which reader a file needs; every other file gets one clear message."""

from pathlib import Path

from scalebench.errors import UserError, first_fault, nearest_path, path_fault
from scalebench.record.run import CAPTURE
from scalebench.trace.events import Trace, joined
from scalebench.trace.readers.kineto import read_kineto
from scalebench.trace.readers.nsys_sqlite import read_sqlite

SQLITE = b"SQLite format 3\0"
ALLOWED = "allowed: .sqlite (nsys export), .json or .json.gz of torch's profiler, text or CSV of nsys stats"


def read_trace(paths: list[Path]) -> Trace:
    """The files of one capture as one trace: one per node (nsys) or per rank (torch's profiler). Raises UserError."""
    traces: list[Trace] = []
    for path in paths:
        kind = kind_of(path)
        if kind == "text":
            raise UserError(f"{path}: a text report has no single events; it is summarised by itself")
        read = read_sqlite if kind == "sqlite" else read_kineto
        after = max((rank for t in traces for rank in t.ranks), default=-1) + 1
        try:
            traces.append(read(path, after))
        except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as error:
            raise UserError(f"{path}: not a whole trace: {first_fault(error)}; capture or export it again") from None
    return joined(traces)


def kind_of(path: Path) -> str:
    """sqlite, kineto or text. Raises UserError for anything else."""
    if not path.exists() and not path.is_symlink():
        raise UserError(f"{path}: no such file; {ALLOWED}.{nearest_path(path)}")
    if fault := path_fault(path):
        raise UserError(f"{path}{fault}; {ALLOWED}")
    if (path / CAPTURE).is_file():
        raise UserError(f"{path} is a whole capture, which is summarised alone; give no other file")
    if path.is_dir():
        raise UserError(f"{path}: a folder without a capture, which is results/<campaign>/traces/<cell>; {ALLOWED}")
    with path.open("rb") as file:
        head = file.read(4096)
    if not head:
        raise UserError(f"{path}: the file is empty, so the capture or the export was cut off; {ALLOWED}")
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
    try:
        text = head.decode("utf-8", errors="strict" if len(head) < 4096 else "ignore")
    except UnicodeDecodeError:
        raise UserError(f"{path}: this is no trace; {ALLOWED}") from None
    if " ** " in text or "Time (%)" in text or text.startswith(("Processing [", "Generating SQLite", "NOTICE:")):
        return "text"
    raise UserError(f"{path}: this is no trace; {ALLOWED}")
