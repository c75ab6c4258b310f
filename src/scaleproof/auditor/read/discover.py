"""From files and folders to evidence. Contents decide what a file is; its name only what it cannot be."""

import contextlib
import csv
import re
import tempfile
from functools import partial
from itertools import islice
from pathlib import Path

from scaleproof.auditor.read import (
    csv_logs,
    csv_runs,
    file_names,
    logs,
    monitor_logs,
    published_claims,
    text_files,
    tracker_files,
    tracker_series,
)
from scaleproof.auditor.read.archives import unpack
from scaleproof.auditor.read.attach import GENERIC, Reading, add_run, settle
from scaleproof.auditor.read.documents import quoted_blocks, read_document_file, tables_not_read
from scaleproof.auditor.read.file_kinds import DOCUMENTS, PLAIN, SETTINGS, fault_of_binary, suffix_by_contents
from scaleproof.auditor.read.grids import Line
from scaleproof.auditor.read.json_files import note_broken_lines, read_dicts, read_json
from scaleproof.auditor.read.json_text import begins_like_json
from scaleproof.auditor.read.logs.dialect import LogReader
from scaleproof.auditor.read.reported import KINDS_OF_LOST_RESULTS, Evidence, ReportedRun, Unread
from scaleproof.auditor.read.table_files import read_csv_table, read_notebook_file, read_plain_text, read_spreadsheet
from scaleproof.auditor.read.text_files import TextFile, UnreadableFile
from scaleproof.ground.files import DISK_FULL
from scaleproof.ground.pointers import pointer_fault
from scaleproof.ground.records.run import METRICS

NO_TEXT = ("picture", "PDF", "binary")
MOST_QUOTED = 3  # runs between two fences; more are lines of several ranks or programs
LONGER_OPENING = 2 << 20  # characters of a text in which a program's lines are looked for
# A file that breaks a reader in one of these ways is reported like one that cannot be read.
BREAKS: tuple[type[Exception], ...] = (
    *(ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError),
    *(RecursionError, StopIteration, AssertionError),
)
DAY = re.compile(r"(?m)^\W{0,3}(20\d\d)[-/](\d\d)[-/](\d\d)[ T,]")  # of the first line with a time stamp
MARK_OF_COMPLETION = re.compile(r"RUN_COMPLETE .*\bworld_size=")
MARKS_OF_TRACES = (b"(nvtx_sum):", b"(cuda_gpu_kern_sum):", b"(osrt_sum):", b"(cuda_api_sum):", b"%),Total Time (ns),")
# A text without any of these words in its first 64 KiB has no result that a reader would understand.
RESULT_WORDS = re.compile(
    r"(?i)speed|through|/s|s/it|sec|time|epoch|step|iter|loss|tok|im(?:a)?ge?s|effic|mem|gpu|mfu|flop|util|"
    r"latency|batch|rank|mib|per.s|\b[a-z]ps\b|device|DLLL|MLLOG|zeit|temps|tiempo|tempo"
)


def gather(paths: list[Path], given: dict[str, dict[str, int]] | None = None) -> Evidence:
    """Read every file below `paths`. `given`: facts by a part of a run's name, "" for all runs.

    A fact of a run is taken from the first of these that states it: its file, a claims file beside that, `given`, the
    name of the run. Raises UserError where a path does not exist or is the operating system's, and where all paths are
    empty files; everything else is evidence or `unread`.
    """
    for root in paths:
        text_files.check_root(root)
    text_files.check_some_text(paths)

    reading = Reading(Evidence(named_files=set(paths)))
    with contextlib.ExitStack() as unpacked:
        note_own_run = partial(text_files.note_own_run, reading.evidence)
        for root in paths:
            name = partial(file_names.name_of, root, len(paths) > 1)
            for path in text_files.files_below(root, reading.evidence.unread, note_own_run, name):
                _take(reading, root, path, name(path), unpacked)
        own_runs = {Path(run).resolve(): run for run in reading.evidence.own_runs}
        reading.evidence.own_runs = list(own_runs.values())  # each once, however many of `paths` hold it
        if reading.stores:
            tracker_files.add_runs(reading)
        shared_folder = file_names.shared_folder(paths)
        for run in reading.evidence.runs:
            run.details["shared_folder"] = shared_folder
        tables = reading.evidence.tables
        if reading.evidence.runs or len(tables) > 1 or (tables and reading.claims_of_folders):  # else nothing to join
            settle(reading, given or {})

    if not has_result(reading.evidence):  # settings count as files only where they are all that was found
        reading.evidence.ignored += reading.settings
    return reading.evidence


def has_result(evidence: Evidence) -> bool:
    """Whether there is a result, or a file that should have been one."""
    tables = (evidence.tables, evidence.settings, evidence.operator_tables)
    results = (evidence.runs, *tables, evidence.gpu_logs, evidence.scaling_reports)
    has_stated_figure = any(not stated.hypothetical for stated in evidence.stated_figures)
    has_lost_result = any(file.kind in KINDS_OF_LOST_RESULTS for file in evidence.unread)
    return any(results) or has_stated_figure or has_lost_result


def _take(reading: Reading, root: Path, path: Path, name: str, unpacked: contextlib.ExitStack) -> None:
    """Read one file below `root`, and note what is wrong with it. `unpacked` removes unpacked archives at the end."""
    unread = reading.evidence.unread
    relative = path.relative_to(root) if root.is_dir() else Path(path.name)
    if kind_and_reason := text_files.unread_by_name(path, relative):
        kind, reason = kind_and_reason
        if path not in reading.evidence.named_files or kind in NO_TEXT:  # a named text is read all the same
            unread.append(Unread(name, reason, kind))
            return
    if (place := path.resolve()) in reading.places:  # read before: in two named folders, or by a link to it
        return
    reading.places.add(place)
    try:
        if text_files.is_archive(path):
            _take_archive(reading, path, name, unpacked)
        elif not _read(reading, path, name):
            reading.evidence.ignored.append(name)
    except UnreadableFile as error:
        unread.append(Unread(name, str(error), error.kind))
    except OSError as error:
        no_room = f"no room in {tempfile.gettempdir()} to unpack it; set TMPDIR to a folder with room"
        reason = no_room if error.errno in DISK_FULL else error.strerror or str(error)
        unread.append(Unread(name, reason, "permission" if isinstance(error, PermissionError) else "special"))
    except (OverflowError, csv.Error) as error:
        unread.append(Unread(name, f"a value in it is too large: {error}", "unknown form"))
    except BREAKS as error:
        reason = f"not what such a file has, or a reader of scaleproof is wrong ({type(error).__name__})"
        unread.append(Unread(name, reason, "damaged" if path.name in GENERIC else "unknown form"))


def _take_archive(reading: Reading, path: Path, name: str, unpacked: contextlib.ExitStack) -> None:
    """Read the files of an archive under its name, one level deep. Runs of our own are read there as files, too."""
    folder = Path(unpacked.enter_context(tempfile.TemporaryDirectory(prefix="scaleproof-")))
    name_of = partial(file_names.name_in_archive, name, folder)
    for reason in unpack(path, folder):
        reading.evidence.unread.append(Unread(f"{name}!", reason, "limit"))

    for member in text_files.files_below(folder, reading.evidence.unread, lambda folder, names: False, name_of):
        if text_files.is_archive(member):
            reason = "an archive inside an archive is not opened"
            reading.evidence.unread.append(Unread(name_of(member), reason, "limit"))
        else:
            _take(reading, folder, member, name_of(member), unpacked)


def _read(reading: Reading, path: Path, name: str) -> bool:
    """Read one file by what it begins with. Return whether a result was in it.

    Raises UnreadableFile, also for a file without content that is named like a result, or was named to the audit.
    """
    evidence = reading.evidence
    start = text_files.head(path)
    is_named = tracker_series.PREFIX in path.name or path.name in GENERIC or path in evidence.named_files
    if not start.strip(b"\0 \t\r\n"):
        if is_named:
            raise UnreadableFile("it holds nothing but bytes of value 0" if b"\0" in start else "it is empty")
        return False

    if b"\n\n" not in start and (pointer := pointer_fault(start)):  # a pointer has no empty line
        raise UnreadableFile(pointer, "pointer")
    if tracker_series.PREFIX in path.name and tracker_series.MARK in start[:200]:
        return tracker_files.read_event_file(reading, path, name)
    if text_files.is_nsys_export(path, start) or any(mark in start for mark in MARKS_OF_TRACES):
        evidence.traces.append(name)
        evidence.traced_folders.append(text_files.folder_of(path))
        return True
    if path.suffix.lower() == ".xlsx" and start.startswith(b"PK"):
        return read_spreadsheet(evidence, path, name)

    encoding = text_files.encoding(start)
    if encoding is None:
        if is_named:
            raise fault_of_binary(path, start)
        return False
    file = TextFile(
        path=path,
        name=name,
        encoding=encoding,
        opening=text_files.cleaned(start.decode(encoding, errors="replace")),
        is_whole=len(start) < text_files.HEAD,
        was_given=path in evidence.named_files,
        is_named=is_named,
    )
    was_read = _read_text_or_refuse(reading, file)
    evidence.unread += tables_not_read(file.opening, name) if was_read or is_named else []
    fault = text_files.fault_of_bytes(path, encoding) if was_read or is_named else ""
    evidence.unread += [Unread(name, fault)] if fault else []
    return was_read


def _read_text_or_refuse(reading: Reading, file: TextFile) -> bool:
    """Read a text. Return whether a result was in it. Raises UnreadableFile for a broken or stray file of our own."""
    text_files.check_own_report(file)
    text_files.check_conflict(file)
    was_read = not text_files.is_own_series(file) and _read_text(reading, file)
    if not was_read and file.path.name == METRICS:
        raise UnreadableFile("it is not a metrics file of any known schema")
    return was_read


def _read_text(reading: Reading, file: TextFile) -> bool:
    """Read a text by the readers in order, the most particular first. Return whether anything was read."""
    if "metrics" in file.path.parts and tracker_files.read_metric(reading, file):
        return True
    suffix = _suffix_of(file)
    if suffix in text_files.SCRIPTS or suffix in SETTINGS:
        return _read_settings(reading, file)
    if suffix == ".ipynb":
        return _read_notebook(reading, file)
    if _is_json(suffix, file.opening) and not logs.reader_of(file.opening[:20_000]):
        was_read = read_json(reading, file)
        if was_read or suffix in (".json", ".jsonl"):
            return was_read
    if suffix in DOCUMENTS:
        return _read_document(reading, file, DOCUMENTS[suffix])
    if _read_settings(reading, file) or _read_rows(reading, file, suffix) or read_dicts(reading, file):
        return True

    # A text that is given to the audit may be a document: "README", "results.txt".
    may_be_document = file.was_given and suffix in ("", ".txt", ".text") and file.opening.lstrip()[:1] not in ("{", "[")
    return may_be_document and _read_document(reading, file, "markdown")


def _suffix_of(file: TextFile) -> str:
    """Return the suffix of a text's name, or by its contents where it has none or says `.txt` of CSV, LaTeX or HTML."""
    suffix = file.path.suffix.lower()
    if not suffix:
        return suffix_by_contents(file.opening)
    by_contents = suffix_by_contents(file.opening) if suffix in (".txt", ".text", ".xlsx") else ""
    return by_contents if by_contents in (".csv", ".tex", ".html") else suffix


def _is_json(suffix: str, opening: str) -> bool:
    """Whether a file should be JSON, by its name or its beginning. A log may begin with a bracket, too."""
    is_named_so = suffix in (".json", ".jsonl")
    begins_so = opening.lstrip().startswith(("{", "[", "/", "#") if is_named_so else ("{", "["))  # "//": comments
    return begins_so and (is_named_so or begins_like_json(opening))


def _read_document(reading: Reading, file: TextFile, kind: str) -> bool:
    """Read tables, sentences and quoted runs of a document. Return whether it has any."""
    text = text_files.beginning(file.path, file.encoding)
    was_read = read_document_file(reading.evidence, text, file.name, kind)
    if file.path.stat().st_size > text_files.LARGEST_TEXT:
        reason = f"only its first {text_files.LARGEST_TEXT >> 20} MiB were read, as of any text for people"
        reading.evidence.unread.append(Unread(file.name, reason, "limit"))
    if kind != "markdown":
        return was_read

    for block in quoted_blocks(list(enumerate(text.splitlines(), start=1))):
        was_read |= _read_quoted_block(reading, file, block)
    return was_read


def _read_quoted_block(reading: Reading, file: TextFile, block: list[Line]) -> bool:
    """Add the runs that a document quotes between fences; no check judges them. Return whether there are any."""
    first_line, _ = block[0]
    runs = _printed_runs(f"{file.name}#line {first_line}", block)
    if not runs or len(runs) > MOST_QUOTED:
        return False
    for run in runs:
        run.quoted = True
        add_run(reading, run, file.path)

    # Remove the figures of the run that were read as sentences of the document before.
    block_lines = {number for number, _ in block}
    stated = reading.evidence.stated_figures
    stated[:] = [figure for figure in stated if figure.file != file.name or figure.line not in block_lines]
    return True


def _printed_runs(name: str, lines: list[Line]) -> list[ReportedRun]:
    """Return the runs in lines that a program printed. [] where its log has too few lines."""
    text = "\n".join(line for _, line in lines)
    kind = logs.reader_of(text) or logs.guessing_reader_of(text)
    if kind is None or (len(lines) < logs.LEAST_LINES and not kind.one_line_is_enough):
        return []
    return [run for run in logs.read_log(name, kind, lines) if run.timed_spans or run.logged_steps or run.steps_per_s]


def _read_notebook(reading: Reading, file: TextFile) -> bool:
    """Read tables, sentences, and a run for each cell that printed a log. Return whether there was any."""
    text = text_files.full_text(file.path, file.encoding)
    was_read, lines_by_cell = read_notebook_file(reading.evidence, text, file.name)
    for number, lines in enumerate(lines_by_cell, start=1):
        for run in _printed_runs(f"{file.name}#cell {number}", lines):
            add_run(reading, run, file.path)
            was_read = True
    if file.was_given and not was_read and not any(lines_by_cell):
        raise UnreadableFile("no cell of it has an output of text; run it, and save it with them", "not a result")
    return was_read


def _read_settings(reading: Reading, file: TextFile) -> bool:
    """Note what a claims file, a mark of completion, a configuration or a script says. Return whether it is one."""
    folder = text_files.folder_of(file.path)
    if published_claims.is_claims_file(file.opening):
        reading.settings.append(file.name)
        facts = published_claims.read_claims_file(file.path, reading.evidence)
        reading.claims_of_folders.append((folder, file.name, facts))
        return True
    if MARK_OF_COMPLETION.search(file.opening):
        reading.evidence.completions.append(published_claims.completion_mark(file.opening, file.name, folder))
        return True

    has_suffix_of_settings = file.path.suffix.lower() in (*text_files.SCRIPTS, *SETTINGS)
    if not has_suffix_of_settings or len(file.opening) >= text_files.HEAD:  # a text of settings is shorter
        return False
    reading.settings.append(file.name)
    return True


def _read_rows(reading: Reading, file: TextFile, suffix: str) -> bool:
    """Read a CSV file, a table or report in plain text, or a log. Return whether it is one.

    Tried in this order: a CSV file with headings of a known kind; if it is .csv or .tsv only a table, else a report and
    a log, of the program whose lines are in the text or of `key: number` lines. A text may be report and log at once;
    with lines of a program it is neither table nor report.
    """
    if not RESULT_WORDS.search(file.opening):
        return False
    program = logs.reader_of(file.opening)
    for header_line, header in enumerate(file.opening.splitlines()[:5]):  # comments may stand above the headings
        if program is None and _read_csv(reading, file, header, header_line):
            return True

    longer_opening = ""
    # A program may print much before its first step. An opening of HEAD bytes may be half as many characters.
    if program is None and len(file.opening) >= text_files.HEAD // 2:
        with file.path.open(encoding=file.encoding, errors="replace") as text:
            longer_opening = text_files.cleaned(text.read(LONGER_OPENING))
        program = logs.reader_of(longer_opening)
    if suffix in (".csv", ".tsv") and program is None:
        return read_csv_table(reading.evidence, file)

    has_report = suffix in PLAIN and program is None and read_plain_text(reading.evidence, file)
    kind = program or logs.guessing_reader_of(file.opening) or logs.guessing_reader_of(longer_opening)
    has_log = kind is not None and _read_log(reading, file, kind)
    return has_log or has_report


def _read_log(reading: Reading, file: TextFile, kind: type[LogReader]) -> bool:
    """Read a log by a kind of reader. Return False for a log of an unknown program with too few lines alike."""
    runs = logs.read_log(file.name, kind, enumerate(file.lines(), start=1))
    if kind is logs.KeyValues:
        figures_by_run = [figures for run in runs for figures in (run.logged_steps, run.timed_spans, run.steps_per_s)]
        if max(map(len, figures_by_run), default=0) < logs.LEAST_LINES:
            return False
    day = DAY.search(file.opening)
    for run in runs:
        run.details["day"] = "-".join(day.groups()) if day else None
        note_broken_lines(file.name, run.details.get("broken_lines", []), reading.evidence.unread)
        add_run(reading, run, file.path)
    return True


def _read_csv(reading: Reading, file: TextFile, header: str, header_line: int) -> bool:
    """Read a CSV file of a known kind, or a log of `nvidia-smi dmon` ("# gpu sm"). Return whether it is one."""
    evidence = reading.evidence
    if not any(delimiter in header for delimiter in csv_logs.DELIMITERS) and not header.startswith("#"):
        return False

    lines_below = file.lines(header_line + 1)
    if tracker_series.is_tracker_csv(header):
        runs = tracker_series.read_tracker_csv(file.name, header, lines_below, header_line + 2)  # counted from 1
        for run in runs:
            add_run(reading, run, file.path)
        return bool(runs)
    if monitor_logs.is_gpu_log(header):
        evidence.gpu_logs.append(monitor_logs.read_gpu_log(file.name, header, lines_below))
        return True
    if monitor_logs.is_operator_table(header):
        evidence.operator_tables.append(monitor_logs.read_operators(file.name, header, lines_below))
        return True
    layout = csv_logs.layout_of(header)
    if layout is None:
        return False
    _read_csv_log(reading, file, layout, header_line)
    return True


def _read_csv_log(reading: Reading, file: TextFile, layout: csv_logs.Layout, header_line: int) -> None:
    """Read a CSV file that has columns of a log: as a table where each row is a run of its own, else as a log."""
    first_rows = list(
        islice(csv_logs.records_of(file.lines(header_line + 1), layout.delimiter), csv_logs.ROWS_LOOKED_AT)
    )
    csv_logs.settle_layout(layout, first_rows)
    # Steps that are no sequence (100, 50, 100) are lengths of runs, one a row.
    has_row_for_each_run = len(first_rows) > 1 and not csv_logs.continues_from_row_to_row(layout, first_rows)
    if has_row_for_each_run and read_csv_table(reading.evidence, file, has_lengths_of_runs=True):
        return

    runs = csv_runs.read_log(file.name, layout, file.lines(header_line + 1), header_line + 2)  # its number from 1
    # A log without figures still counts as one run.
    for run in [run for run in runs if run.timed_spans or run.logged_steps] or runs[:1]:
        add_run(reading, run, file.path)
