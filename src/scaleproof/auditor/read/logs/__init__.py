"""Text logs of training programs: one reader for each program, told apart by their lines."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from scaleproof.auditor.read import text_files
from scaleproof.auditor.read.logs import step_lines
from scaleproof.auditor.read.logs.base import LogReader
from scaleproof.auditor.read.logs.json_lines import DLLogger, HuggingFaceConsole, MLPerf
from scaleproof.auditor.read.logs.key_values import LEAST_LINES, KeyValues
from scaleproof.auditor.read.logs.megatron import GptNeoX, Megatron
from scaleproof.auditor.read.logs.rank_blocks import RankBlocks
from scaleproof.auditor.read.reported import ReportedRun

__all__ = [
    "LEAST_LINES",
    "READERS",
    "KeyValues",
    "base",
    "guessing_reader_of",
    "json_lines",
    "key_values",
    "read_log",
    "read_log_file",
    "reader_of",
]
FEW_LINES = 8  # that are read one by one
# The most particular first. KeyValues reads what no other knows, and says that it guessed.
READERS: tuple[type[LogReader], ...] = (
    *(RankBlocks, GptNeoX, Megatron, step_lines.TorchTitan, step_lines.LlmC, step_lines.NanoChat),
    *(step_lines.ModdedNanoGPT, step_lines.MaxText, step_lines.NanoGPT, step_lines.Paddle),
    *(MLPerf, DLLogger, HuggingFaceConsole, step_lines.TfCnnBenchmarks, step_lines.Keras),
)


def reader_of(text: str) -> type[LogReader] | None:
    """Return the reader for a log of which `text` is a piece. None where no program's lines are in it."""
    return next((reader for reader in READERS if re.search(reader.mark, text)), None)


def guessing_reader_of(text: str) -> type[LogReader] | None:
    """Return the reader of repeated `key: number` lines. None where there are no such lines."""
    return KeyValues if KeyValues.reads(text) else None


def read_log_file(name: str, kind: type[LogReader], path: Path, encoding: str) -> list[ReportedRun]:
    """Return the runs of a log in a file. Where `kind` has a `step_line`, such lines are read many at a time."""
    if kind.step_line is None:
        return read_log(name, kind, enumerate(text_files.lines(path, encoding), start=1))
    reader = kind(name)
    number = 1
    for block in text_files.blocks(path, encoding):
        for piece in _pieces(block, kind.start_of_step_line):
            count = piece.count("\n")
            if count < FEW_LINES or not reader.feed_step_lines(number, piece):
                _feed(reader, enumerate(piece.split("\n"), start=number))
            number += count
    return reader.finish()


def _pieces(block: str, start_of_step_line: str) -> Iterator[str]:
    """Cut lines into single ones, and pieces of many that begin like the line of a step but for the first of these."""
    last_step_line = re.compile(rf"\n(?!{re.escape(start_of_step_line)})")
    start = 0
    while start < len(block):
        end = block.index("\n", start) + 1
        yield block[start:end]
        if block.startswith(start_of_step_line, start) and (m := last_step_line.search(block, start)):
            if m.end() > end:
                yield block[end : m.end()]
            end = m.end()
        start = end


def read_log(name: str, kind: type[LogReader], lines: Iterable[tuple[int, str]]) -> list[ReportedRun]:
    """Return the runs of a log (lines with their numbers): one, or several where the steps start again."""
    reader = kind(name)
    _feed(reader, lines)
    return reader.finish()


def _feed(reader: LogReader, lines: Iterable[tuple[int, str]]) -> None:
    looked_at = re.compile(reader.looked_at).search
    for number, line in lines:
        if looked_at(line):
            reader.feed(number, line)
