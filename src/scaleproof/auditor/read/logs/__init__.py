"""Text logs of training programs: one reader for each program, told apart by their lines."""

import re
from collections.abc import Iterable
from pathlib import Path

from scaleproof.auditor.read import text_files
from scaleproof.auditor.read.logs.base import LogReader
from scaleproof.auditor.read.logs.json_lines import DLLogger, HuggingFaceConsole, MLPerf
from scaleproof.auditor.read.logs.key_values import LEAST, KeyValues
from scaleproof.auditor.read.logs.megatron import GptNeoX, Megatron
from scaleproof.auditor.read.logs.rank_blocks import RankBlocks
from scaleproof.auditor.read.logs.step_lines import (
    Keras,
    LlmC,
    MaxText,
    ModdedNanoGPT,
    NanoChat,
    NanoGPT,
    Paddle,
    TfCnnBenchmarks,
    TorchTitan,
)
from scaleproof.auditor.read.reported import ReportedRun

__all__ = [
    "LEAST",
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
FEW = 8  # lines that are read one by one
# The most particular first. KeyValues reads what no other knows, and says that it guessed.
READERS: tuple[type[LogReader], ...] = (
    RankBlocks,
    GptNeoX,
    Megatron,
    TorchTitan,
    LlmC,
    NanoChat,
    ModdedNanoGPT,
    MaxText,
    NanoGPT,
    Paddle,
    MLPerf,
    DLLogger,
    HuggingFaceConsole,
    TfCnnBenchmarks,
    Keras,
)


def reader_of(text: str) -> type[LogReader] | None:
    """The reader for a log of which `text` is a piece; None where no program's lines are in it."""
    return next((reader for reader in READERS if re.search(reader.mark, text)), None)


def guessing_reader_of(text: str) -> type[LogReader] | None:
    """The reader of repeated `key: number` lines, where there are such lines."""
    return KeyValues if KeyValues.reads(text) else None


def read_log_file(name: str, kind: type[LogReader], path: Path, encoding: str) -> list[ReportedRun]:
    """Return the runs of a log in a file. Where `kind` has a usual line, such lines are read many at a time."""
    if kind.usual is None:
        return read_log(name, kind, enumerate(text_files.lines(path, encoding), start=1))
    reader = kind(name)
    looked_at = re.compile(kind.looked_at).search
    unusual = re.compile(rf"\n(?!{re.escape(kind.opening)})")
    number = 1
    for block in text_files.blocks(path, encoding):
        start = 0
        while start < len(block):
            first_end = block.index("\n", start) + 1
            end = first_end
            if block.startswith(kind.opening, start):
                end = m.end() if (m := unusual.search(block, start)) else len(block)
            # The first line is read alone: its time has what the lines before it say.
            for piece in (block[start:first_end], block[first_end:end]):
                count = piece.count("\n")
                if count < FEW or not reader.feed_usual(number, piece):
                    for offset, line in enumerate(piece.split("\n")):
                        if looked_at(line):
                            reader.feed(number + offset, line)
                number += count
            start = end
    return reader.finish()


def read_log(name: str, kind: type[LogReader], lines: Iterable[tuple[int, str]]) -> list[ReportedRun]:
    """Return the runs of a log (lines with their numbers): one, or several where the steps start again."""
    reader = kind(name)
    looked_at = re.compile(kind.looked_at).search
    for number, line in lines:
        if looked_at(line):
            reader.feed(number, line)
    return reader.finish()
