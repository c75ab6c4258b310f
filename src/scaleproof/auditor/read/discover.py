"""From files and folders to evidence. Contents decide what a file is; its name only what it cannot be."""

import contextlib
import csv
import re
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from scaleproof.auditor.read import csv_logs, logs, monitor_logs, published_claims, text_files, tracker_series
from scaleproof.auditor.read.archives import unpack
from scaleproof.auditor.read.attach import GENERIC, Reading, add_run, settle
from scaleproof.auditor.read.documents import quoted_blocks, read_document_file
from scaleproof.auditor.read.file_kinds import DOCUMENTS, PLAIN, SETTINGS, suffix_by_contents
from scaleproof.auditor.read.json_files import read_json
from scaleproof.auditor.read.json_text import begins_like_json
from scaleproof.auditor.read.logs.dialect import LogReader
from scaleproof.auditor.read.reported import KINDS_OF_LOST_RESULTS, Evidence, ReportedRun, Unread
from scaleproof.auditor.read.run_fields import figure
from scaleproof.auditor.read.table_files import (
    read_csv_table,
    read_notebook_file,
    read_plain_text,
    read_spreadsheet,
)
from scaleproof.auditor.read.text_files import UnreadableFile, printable
from scaleproof.ground.errors import LFS, POINTER, UserError
from scaleproof.ground.files import DISK_FULL
from scaleproof.ground.findings.finding import read_findings
from scaleproof.ground.records.comparison_report import read_comparison
from scaleproof.ground.records.run import LAUNCHER, METRICS, METRICS_SEAL, STEPS
from scaleproof.ground.records.scaling_report import read_scaling_report
from scaleproof.ground.records.steps import COLUMNS

MOST_QUOTED = 3  # runs between two fences; more are lines of several ranks or programs
LONGER_OPENING = 2 << 20  # characters of a text in which a program's lines are looked for
# A file that breaks a reader in one of these ways is reported like one that cannot be read.
BREAKS: tuple[type[Exception], ...] = (
    *(ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError),
    *(RecursionError, StopIteration, csv.Error, AssertionError),
)
# Of a campaign of ours, beside its MANIFEST.
OWN_REPORTS: dict[str, Callable[[Path], object]] = {
    "findings.json": read_findings,
    "scaling_report.json": read_scaling_report,
    "comparison.json": read_comparison,
}
MANIFEST = "manifest.json"
START_OF_OWN_SERIES = ",".join((COLUMNS or ())[:3])
MARK_OF_COMPLETION = re.compile(r"RUN_COMPLETE .*\bworld_size=")
MARKS_OF_TRACES = (b"(nvtx_sum):", b"(cuda_gpu_kern_sum):", b"(osrt_sum):", b"(cuda_api_sum):", text_files.SQLITE)
# A text without any of these words in its first 64 KiB has no result that a reader would understand.
RESULT_WORDS = re.compile(
    r"(?i)speed|through|/s|s/it|sec|time|epoch|step|iter|loss|tok|im(?:a)?ge?s|effic|mem|gpu|mfu|flop|util|"
    r"latency|batch|rank|mib|DLLL|MLLOG"
)


def gather(paths: list[Path], given: dict[str, dict[str, int]] | None = None) -> Evidence:
    """Read every file below `paths`. `given`: facts by a part of a run's name, "" for all runs.

    What a file says itself counts more than a claims file beside it, that more than `given`, that more than the run's
    name.
    Raises UserError where a path does not exist, is the operating system's, or all of them are empty files; all else is
    evidence or `unread`.
    """
    reading = Reading(Evidence(named_files=set(paths)))
    with contextlib.ExitStack() as unpacked:
        for root in paths:
            text_files.check_root(root)
        text_files.check_some_text(paths)
        note_own_run = partial(_note_own_run, reading.evidence)
        for root in paths:
            for path in text_files.files_below(root, reading.evidence.unread, note_own_run):
                _take(reading, root, path, _name(root, path, len(paths) > 1), unpacked)
        if reading.evidence.runs or len(reading.evidence.tables) > 1:
            settle(reading, given or {})
    if not has_result(reading.evidence):  # settings count as files only where they are all that was found
        reading.evidence.ignored += reading.settings
    return reading.evidence


def has_result(evidence: Evidence) -> bool:
    """Whether there is a result, or a file that should have been one."""
    tables = (evidence.tables, evidence.settings, evidence.operator_tables)
    results = (evidence.runs, *tables, evidence.gpu_logs, evidence.scaling_reports)
    is_stated = any(not stated.hypothetical for stated in evidence.stated_figures)
    return any(results) or is_stated or any(file.kind in KINDS_OF_LOST_RESULTS for file in evidence.unread)


def _note_own_run(evidence: Evidence, folder: Path, names: list[str]) -> bool:
    """Note a folder that is a run of this program, damaged or not; return whether it is. `names`: of its files."""
    is_own = METRICS in names and STEPS in names and _head_matches(folder / METRICS, rb'"schema_version": *"3\.')
    is_own = is_own or (LAUNCHER in names and _head_matches(folder / LAUNCHER, METRICS_SEAL.encode()))
    if is_own:
        evidence.own_runs.append(str(folder))
    return is_own


def _head_matches(path: Path, pattern: bytes) -> bool:
    """Whether `pattern` is in the beginning of a file. False where it cannot be read."""
    try:
        return bool(re.search(pattern, text_files.head(path)))
    except UnreadableFile:
        return False


def _name(root: Path, path: Path, several: bool) -> str:
    """Return the name of a file in reports: its path below `root`, or below its parent with `several` roots."""
    if not root.is_dir():
        folder = root.absolute().parent.name
        return printable(f"{folder}/{path.name}" if path.name in GENERIC and folder else path.name)  # "a/results.json"
    return printable(str(path.relative_to(root.parent if several else root)))


def _take(reading: Reading, root: Path, path: Path, name: str, unpacked: contextlib.ExitStack) -> None:
    """Read one file below `root`, and note whatever is wrong with it. `unpacked` removes unpacked archives at last."""
    unread = reading.evidence.unread
    relative = path.relative_to(root) if root.is_dir() else Path(path.name)
    if kind_and_reason := text_files.unread_by_name(path, relative):
        kind, reason = kind_and_reason
        if path not in reading.evidence.named_files or kind in ("picture", "PDF", "binary"):
            unread.append(Unread(name, reason, kind))
            return

    try:
        if text_files.is_archive(path):
            _take_archive(reading, path, name, unpacked)
        else:
            _read(reading, path, name)
    except UnreadableFile as error:
        unread.append(Unread(name, str(error), error.kind))
    except PermissionError as error:
        unread.append(Unread(name, error.strerror or str(error), "permission"))
    except OSError as error:
        no_room = f"no room in {tempfile.gettempdir()} to unpack it; set TMPDIR to a folder with room"
        unread.append(Unread(name, no_room if error.errno in DISK_FULL else error.strerror or str(error), "special"))
    except BREAKS as error:
        reason = f"not what such a file has, or a reader of scaleproof is wrong ({type(error).__name__})"
        unread.append(Unread(name, reason, "damaged" if path.name in GENERIC else "unknown form"))


def _take_archive(reading: Reading, path: Path, name: str, unpacked: contextlib.ExitStack) -> None:
    """Read the files of an archive under its name, one level deep."""
    folder = Path(unpacked.enter_context(tempfile.TemporaryDirectory(prefix="scaleproof-")))
    for left_out in unpack(path, folder):
        reading.evidence.unread.append(Unread(f"{name}!", left_out, "limit"))
    for member in text_files.files_below(folder, reading.evidence.unread, lambda folder, names: False):
        member_name = f"{name}!/{printable(str(member.relative_to(folder)))}"
        if text_files.is_archive(member):
            reading.evidence.unread.append(Unread(member_name, "an archive inside an archive is not opened", "limit"))
        else:
            _take(reading, folder, member, member_name, unpacked)


def _read(reading: Reading, path: Path, name: str) -> None:
    """Read one file by what it begins with; note it as ignored if there is no result in it.

    Raises UnreadableFile, also for one without content that is named like a result, or was named to the audit.
    """
    evidence = reading.evidence
    start = text_files.head(path)
    is_named = path.name in GENERIC or path in evidence.named_files  # somebody says that it is a result
    was_read = True
    if not start.strip(b"\0 \t\r\n"):
        if is_named:
            raise UnreadableFile("it is empty")
        was_read = False
    elif start.startswith(LFS.encode()):
        raise UnreadableFile(POINTER, "Git LFS pointer")
    elif tracker_series.PREFIX in path.name and tracker_series.MARK in start[:200]:
        was_read = _read_event_file(reading, path, name)
    elif any(mark in start for mark in MARKS_OF_TRACES):
        evidence.traces.append(name)
        evidence.traced_folders.append(str(path.parent))
    elif path.suffix.lower() == ".xlsx":
        was_read = read_spreadsheet(evidence, path, name)
    elif (encoding := text_files.encoding(start)) is None:
        if is_named:
            raise UnreadableFile("it is binary", "binary")
        was_read = False
    else:
        if path.name in OWN_REPORTS and (path.parent / MANIFEST).is_file():
            _refuse_damaged(path)
        opening = text_files.decoded(start, encoding)
        if is_own_series := bool(START_OF_OWN_SERIES) and opening.startswith(START_OF_OWN_SERIES):
            _refuse_own_series(path, evidence)
        was_read = not is_own_series and _read_text(reading, path, name, encoding, opening, len(start))
        if not was_read and path.name == METRICS:
            raise UnreadableFile("it is not a metrics file of any known schema")
    if not was_read:
        evidence.ignored.append(name)


def _refuse_damaged(path: Path) -> None:
    """Raise UnreadableFile for a report of our own that is none any more, though it may be JSON."""
    try:
        OWN_REPORTS[path.name](path)
    except UserError as error:
        raise UnreadableFile(f"it{str(error).removeprefix(str(path))}") from None


def _refuse_own_series(path: Path, evidence: Evidence) -> None:
    """Raise UnreadableFile for a series of our own whose run is not here, or that was named instead of its folder."""
    if not (path.parent / METRICS).is_file():
        raise UnreadableFile(f"the series of a run whose {METRICS} is not here: the run was lost or taken away")
    if path in evidence.named_files and path.name != METRICS:
        raise UnreadableFile(f"the series of a run; name the run's folder, {path.parent}", "not a result")


def _read_event_file(reading: Reading, path: Path, name: str) -> bool:
    """Add the run of a TensorBoard event file. Return whether it has figures of one."""
    series = tracker_series.SeriesReader(name, "TensorBoard event file")
    for step, tag, value in tracker_series.scalars(path):
        series.add(step, tag, value)
    if run := series.finish():
        add_run(reading, run, path)
    return run is not None


def _read_text(reading: Reading, path: Path, name: str, encoding: str, opening: str, size: int) -> bool:
    """Read a text by the readers in order, the most particular first. Return whether anything was read.

    `opening`: its beginning, of `size` bytes. What begins like JSON, and is none, may still be a log or a table.
    """
    suffix = path.suffix.lower() or suffix_by_contents(opening)
    if suffix in (".txt", ".text") and suffix_by_contents(opening) == ".csv":  # columns divided by commas, tabs or bars
        suffix = ".csv"
    if suffix in text_files.SCRIPTS or suffix in SETTINGS:
        return _read_settings(reading, path, name, encoding, opening)
    if suffix == ".ipynb":
        return _read_notebook(reading, path, name, encoding)
    if _is_json(suffix, opening) and not logs.reader_of(opening[:20_000]):
        text = opening if size < text_files.HEAD else None  # None: it has to be read
        is_named = path.name in GENERIC or path in reading.evidence.named_files
        was_read = read_json(reading, path, name, encoding, opening, text, is_named)
        if was_read or suffix in (".json", ".jsonl"):
            return was_read
    if suffix in DOCUMENTS:
        return _read_document(reading, path, name, encoding, DOCUMENTS[suffix])
    if _read_settings(reading, path, name, encoding, opening):
        return True
    if _read_rows(reading, path, name, encoding, opening, suffix):
        return True
    # A name without suffix, given to the audit, may be a document: "README".
    is_text = not path.suffix and path in reading.evidence.named_files and opening.lstrip()[:1] not in ("{", "[")
    return is_text and _read_document(reading, path, name, encoding, "markdown")


def _is_json(suffix: str, opening: str) -> bool:
    """Whether a file is to be JSON: by its name, or because it begins so. A log may begin with a bracket, too."""
    if opening.lstrip()[:1] not in ("{", "["):
        return False
    return suffix in (".json", ".jsonl") or begins_like_json(opening)


def _read_document(reading: Reading, path: Path, name: str, encoding: str, kind: str) -> bool:
    """Read tables, sentences, and runs quoted between fences, which are not checked. Return whether there was any."""
    text = text_files.beginning(path, encoding)
    was_read = read_document_file(reading.evidence, text, name, kind)
    if path.stat().st_size > text_files.LARGEST_TEXT:
        reason = f"only its first {text_files.LARGEST_TEXT >> 20} MiB were read, as of any text for people"
        reading.evidence.unread.append(Unread(name, reason, "limit"))
    if kind != "markdown":
        return was_read

    for block in quoted_blocks(list(enumerate(text.splitlines(), start=1))):
        first_line, _ = block[0]
        runs = _printed_runs(f"{name}#line {first_line}", block)
        if not runs or len(runs) > MOST_QUOTED:
            continue
        for run in runs:
            run.quoted = True
            add_run(reading, run, path)
        # The figures of the run are no sentences of the document.
        lines = {number for number, _ in block}
        stated = reading.evidence.stated_figures
        stated[:] = [figure for figure in stated if figure.file != name or figure.line not in lines]
        was_read = True
    return was_read


def _printed_runs(name: str, lines: list[tuple[int, str]]) -> list[ReportedRun]:
    """Return the runs in lines that a program printed. [] where there are too few lines of its log."""
    text = "\n".join(line for _, line in lines)
    kind = logs.reader_of(text) or logs.guessing_reader_of(text)
    if kind is None or (len(lines) < logs.LEAST_LINES and not kind.one_line_is_enough):
        return []
    return [run for run in logs.read_log(name, kind, lines) if run.timed_spans or run.logged_steps or run.steps_per_s]


def _read_notebook(reading: Reading, path: Path, name: str, encoding: str) -> bool:
    """Read tables, sentences, and a run for each cell that printed a log. Return whether there was any."""
    was_read, printed = read_notebook_file(reading.evidence, text_files.full_text(path, encoding), name)
    for number, lines in enumerate(printed, start=1):
        for run in _printed_runs(f"{name}#cell {number}", lines):
            add_run(reading, run, path)
            was_read = True
    return was_read


def _read_settings(reading: Reading, path: Path, name: str, encoding: str, opening: str) -> bool:
    """Note what a claims file, a mark of completion, a configuration or a script says. Return whether it is one."""
    folder = str(path.parent)
    if published_claims.is_claims_file(opening):
        claims = published_claims.read_claims_file(text_files.full_text(path, encoding), reading.evidence)
        reading.claims_of_folders.append((folder, claims))
        return True
    if MARK_OF_COMPLETION.search(opening):
        reading.evidence.completions.append(_completion_mark(opening, name, folder))
        return True
    if path.suffix.lower() not in (*text_files.SCRIPTS, *SETTINGS) or len(opening) >= text_files.HEAD:
        return False
    reading.settings.append(name)
    return True


def _completion_mark(opening: str, name: str, folder: str) -> dict[str, Any]:
    """Return what a launcher wrote when a run was complete: its world size, rate and wall time, None where unsaid."""
    pairs = dict(re.findall(r"(\w+)=(\S+)", opening))
    keys = {"world": "world_size", "rate": "tokens_per_sec", "wall": "total_wall_time_sec"}
    return {"name": name, "folder": folder} | {field: figure(pairs.get(key)) for field, key in keys.items()}


def _read_rows(reading: Reading, path: Path, name: str, encoding: str, opening: str, suffix: str) -> bool:
    """Read a CSV file, a table or report in plain text, or a log. Return whether it is one."""
    if not RESULT_WORDS.search(opening):
        return False
    for header_line, header in enumerate(opening.splitlines()[:5]):  # comments may stand above the headings
        if _read_csv(reading, path, name, encoding, header, header_line):
            return True

    program = logs.reader_of(opening)
    longer_opening = ""
    if program is None and len(opening) >= text_files.HEAD // 2:  # a program may print much before its first step
        with path.open(encoding=encoding, errors="replace") as file:
            longer_opening = text_files.CONTROL.sub("", file.read(LONGER_OPENING))
        program = logs.reader_of(longer_opening)
    if suffix in (".csv", ".tsv"):
        return program is None and read_csv_table(reading.evidence, path, name, encoding)
    has_report = suffix in PLAIN and program is None and read_plain_text(reading.evidence, path, name, encoding)
    kind = program or logs.guessing_reader_of(opening) or logs.guessing_reader_of(longer_opening)
    return (kind is not None and _read_log(reading, path, name, encoding, kind)) or has_report


def _read_log(reading: Reading, path: Path, name: str, encoding: str, kind: type[LogReader]) -> bool:
    """Read a log by a kind of reader. Return False for one of an unknown program with too few lines alike."""
    runs = logs.read_log(name, kind, enumerate(text_files.lines(path, encoding), start=1))
    if kind is logs.KeyValues:
        printed = [lines for run in runs for lines in (run.logged_steps, run.timed_spans, run.steps_per_s)]
        if max(map(len, printed), default=0) < logs.LEAST_LINES:
            return False
    for run in runs:
        add_run(reading, run, path)
    return True


def _read_csv(reading: Reading, path: Path, name: str, encoding: str, header: str, header_line: int) -> bool:
    """Read a CSV file of a known kind. Return False where it is none of them."""
    evidence = reading.evidence
    if not any(delimiter in header for delimiter in csv_logs.DELIMITERS) and not header.startswith("#"):
        return False

    def lines_below() -> Iterator[str]:
        return islice(text_files.lines(path, encoding), header_line + 1, None)

    if tracker_series.is_tracker_csv(header):
        series = tracker_series.read_tracker_csv(name, header, lines_below(), header_line + 2)
        for run in series:
            add_run(reading, run, path)
        return bool(series)
    if monitor_logs.is_gpu_log(header):
        evidence.gpu_logs.append(monitor_logs.read_gpu_log(name, header, lines_below()))
    elif monitor_logs.is_operator_table(header):
        evidence.operator_tables.append(monitor_logs.read_operators(name, header, lines_below()))
    elif layout := csv_logs.layout_of(header):
        first_rows = list(islice(csv_logs.records_of(lines_below(), layout.delimiter), csv_logs.ROWS_LOOKED_AT))
        csv_logs.settle_keys(layout, first_rows)
        # Steps that are no sequence (100, 50, 100) are lengths of runs, one a row.
        has_row_for_each_run = len(first_rows) > 1 and not csv_logs.continues_from_row_to_row(layout, first_rows)
        if not (has_row_for_each_run and read_csv_table(evidence, path, name, encoding, steps=True)):
            runs = csv_logs.read_log(name, layout, lines_below(), header_line + 2)
            # A log without figures still counts as one run.
            for run in [run for run in runs if run.timed_spans or run.logged_steps] or runs[:1]:
                add_run(reading, run, path)
    else:
        return False
    return True
