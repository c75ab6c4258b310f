"""Which files below a folder are looked into, and which are not: sources, tests, pictures, models, devices."""

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath

from scaleproof.auditor.read.reported import Unread, UnreadKind
from scaleproof.auditor.read.text_files import printable
from scaleproof.ground.errors import UserError, link_fault, path_fault

SKIPPED_FOLDERS = {"node_modules", "__pycache__", "site-packages", "dist-packages", "venv", "env", ".venv"}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SYSTEM_FOLDERS = ("/proc", "/sys", "/dev", "/run")
SOURCES = _words(
    ".py .pyx .pyi .sh .bash .zsh .c .cc .cpp .cxx .h .hpp .cu .cuh .js .mjs .ts .tsx .jsx .go .rs .java "
    ".kt .scala .rb .pl .lua .jl .r .m .swift .f90 .cs .php .sql .css .scss .cmake .mk .patch .diff .j2 "
    ".jinja .jinja2 .tmpl .template .tpl .in .ps1 .bat .asm .s .proto .ptx .mako .dockerfile .bib .bst "
    ".cls .sty .lock .pot .po"
)
SOURCE_NAMES = ("Dockerfile", "Makefile", "Snakefile", "CMakeLists.txt", "LICENSE", "requirements.txt")
# Sources that a run's settings are read from.
SCRIPTS = _words(".sh .bash .slurm .sbatch .sub .pbs .job .lsf")
PICTURES = _words(".png .jpg .jpeg .gif .svg .webp .bmp .tif .tiff .ico .eps .mp4 .mov .avi .webm .ai")
BINARIES = _words(
    ".pt .pth .bin .safetensors .npz .npy .pkl .pickle .h5 .hdf5 .ckpt .whl .so .o .a .dll .exe .onnx .pb "
    ".tflite .parquet .arrow .feather .lmdb .idx .model .gguf .ggml .mdb .class .jar .pyc .ttf .woff "
    ".woff2 .otf .mp3 .wav .flac .docx .pptx .doc .ppt .xls .odt .npk .rec .tfrecord .zst .xz .bz2 .7z "
    ".rar .ncu-rep .qdstrm"
)
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".gz")
# Folders whose files are examples of what a program reads or prints, not results.
NO_RESULTS = _words(
    "tests test fixtures fixture testdata test_data test-data __tests__ unittests unit_tests templates "
    "golden mocks mock"
)
TEST_FILE = re.compile(
    r"(?i)(?:test_.*|.*_test|conftest)\.(?:py|json|txt|log|csv|ya?ml)|.*\.(?:example|sample|template)(?:\.\w+)?"
)


def check_root(root: Path) -> None:
    """Check a folder or file that is to be audited.

    Raises UserError for what is missing, a link that leads nowhere, and for the file system itself: nobody's results
    are all of `/`.
    """
    if not os.path.exists(root):
        raise UserError(f"{printable(str(root))}{path_fault(root)}")
    resolved = os.path.realpath(root)
    if resolved == "/" or f"{resolved}/".startswith(tuple(f"{folder}/" for folder in SYSTEM_FOLDERS)):
        raise UserError(
            f"{printable(str(root))}: this is a part of the operating system; name the folder of the results"
        )


def check_some_text(roots: list[Path]) -> None:
    """Check that some file has a byte. Raises UserError where all that was named are empty files."""
    if all(root.is_file() and not root.stat().st_size for root in roots):
        names = ", ".join(printable(str(root)) for root in roots)
        verb = "is" if len(roots) == 1 else "are"
        raise UserError(f"{names} {verb} empty; a table, a log or a record of results is expected (docs/audit.md)")


def files_below(root: Path, unread: list[Unread], own_run: Callable[[Path, list[str]], bool]) -> Iterator[Path]:
    """Yield files below a folder in order, not of links nor of an `own_run`; note in `unread` what is unreadable."""
    if not root.is_dir():
        yield root
        return

    def note(path: Path, reason: str, kind: UnreadKind = "special") -> None:
        name = str(root) if path == root else os.path.relpath(path, root)
        unread.append(Unread(printable(name), reason, kind))

    def note_closed_folder(error: OSError) -> None:
        note(Path(error.filename), error.strerror or str(error), "permission")

    for folder, folders_below, names in os.walk(root, onerror=note_closed_folder):
        here = Path(folder)
        folders_below[:] = sorted(  # in place: os.walk goes on with these
            name for name in folders_below if not name.startswith(".") and not _is_skipped(here / name)
        )
        for name in folders_below:
            if (here / name).is_symlink():
                note(here / name, "a link to a folder; it is not followed")
        if not _is_of_tests(here.relative_to(root)) and own_run(here, names):
            continue
        for name in sorted(names):
            if reason := _why_no_file(here / name):
                note(here / name, reason)
            else:
                yield here / name


def _is_skipped(folder: Path) -> bool:
    """Whether a folder has packages of others: `node_modules`, a virtual environment."""
    return folder.name in SKIPPED_FOLDERS or (folder / "pyvenv.cfg").is_file()


def _why_no_file(path: Path) -> str | None:
    """Return why a path is no file to read: a FIFO, a device, a link that leads nowhere. None for a file."""
    try:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            mode = path.stat().st_mode
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOENT) and path.is_symlink():
            return link_fault(path).removeprefix(" is ")
        return f"a link that cannot be followed: {error.strerror}"
    if stat.S_ISREG(mode):
        return None
    if stat.S_ISDIR(mode):
        return "a link to a folder; it is not followed"
    return "it is not a regular file (a FIFO, a socket or a device)"


def unread_by_name(path: Path, relative: PurePath) -> tuple[UnreadKind, str] | None:
    """The kind of a file with nothing to read, and why, e.g. "a.png"; else None. `relative`: below the named folder."""
    suffix = path.suffix.lower()
    if suffix in PICTURES:
        return "picture", "figures in pictures are not read"
    if suffix == ".pdf":
        return "PDF", "PDF is not read; its source (LaTeX, Markdown) is"
    if suffix in BINARIES:
        return "binary", f"a {suffix} file"
    if suffix in SOURCES - SCRIPTS or path.name in SOURCE_NAMES:
        return "not a result", "program text"
    if _is_of_tests(relative.parent) or TEST_FILE.fullmatch(path.name):
        return "not a result", "in a folder of tests, fixtures or templates, or named like one"
    return None


def _is_of_tests(folder: PurePath) -> bool:
    return any(part.lower() in NO_RESULTS for part in folder.parts)


def is_archive(path: Path) -> bool:
    return path.name.lower().endswith(ARCHIVES)
