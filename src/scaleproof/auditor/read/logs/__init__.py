"""Text logs of training programs: one reader for each program, told apart by their lines."""

import re
from collections.abc import Iterable

from scaleproof.auditor.read.line_wrappers import without_prefix
from scaleproof.auditor.read.logs import step_lines
from scaleproof.auditor.read.logs.dialect import LogReader
from scaleproof.auditor.read.logs.json_lines import DLLogger, HuggingFaceConsole, MLPerf
from scaleproof.auditor.read.logs.key_values import LEAST_LINES, KeyValues
from scaleproof.auditor.read.logs.megatron import GptNeoX, Megatron, Nanotron, NeMo
from scaleproof.auditor.read.logs.rank_blocks import Batches, Composer, RankBlocks
from scaleproof.auditor.read.reported import ReportedRun

__all__ = [
    "LEAST_LINES",
    "READERS",
    "KeyValues",
    "dialect",
    "guessing_reader_of",
    "json_lines",
    "key_values",
    "read_log",
    "reader_of",
]
# The most particular first. KeyValues reads what no other knows, and says that it guessed.
READERS: tuple[type[LogReader], ...] = (
    *(RankBlocks, GptNeoX, Megatron, NeMo, Nanotron, step_lines.TorchTitan, step_lines.LlmC),
    *(step_lines.NanoChat, step_lines.ModdedNanoGPT, step_lines.MaxText, step_lines.NanoGPT, step_lines.Paddle),
    *(Composer, Batches, MLPerf, DLLogger, HuggingFaceConsole, step_lines.TfCnnBenchmarks, step_lines.Keras),
    *(step_lines.TensorFlowEstimator, step_lines.DeepSpeed),
)


def reader_of(text: str) -> type[LogReader] | None:
    """Return the reader for a log of which `text` is a piece. None where no program's lines are in it."""
    return next((reader for reader in READERS if re.search(reader.mark, text)), None)


def guessing_reader_of(text: str) -> type[LogReader] | None:
    """Return the reader of repeated `key: number` lines. None where there are no such lines."""
    return KeyValues if KeyValues.reads(text) else None


def read_log(name: str, kind: type[LogReader], lines: Iterable[tuple[int, str]]) -> list[ReportedRun]:
    """Return the runs of a log (lines with their numbers): one, or several where the steps start again."""
    reader = kind(name)
    looked_at = re.compile(reader.looked_at).search
    for number, printed in lines:
        line = without_prefix(printed)
        if looked_at(line):
            reader.feed(number, line)
    return reader.finish()
