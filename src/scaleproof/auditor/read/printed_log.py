"""A log as its figures, for whoever ran the program itself: what `scaleproof audit` reads, in the ground's words."""

import math
from pathlib import Path
from typing import Literal

from scaleproof.auditor.read import logs
from scaleproof.auditor.read.logged_steps import LoggedStep
from scaleproof.auditor.read.logs.dialect import LogReader
from scaleproof.auditor.read.reported import ReportedRun, TimedSpan
from scaleproof.auditor.read.text_files import CONTROL
from scaleproof.ground.records.printed_log import PrintedLog, PrintedSpan, PrintedStep

CHARACTERS_LOOKED_AT = 4 << 20  # of a log, for a program's own lines


def printed_log(path: Path, reader: str = "auto") -> PrintedLog | None:
    """Return the last timed run in a log by the `reader` of that name, "NanoGPT", or "auto". None without any."""
    lines = [CONTROL.sub("", line) for line in path.read_text("utf-8", "replace").split("\n")]
    text = "\n".join(lines)[:CHARACTERS_LOOKED_AT]
    by_name = {kind.__name__: kind for kind in (*logs.READERS, logs.KeyValues)}
    kind = (logs.reader_of(text) or logs.guessing_reader_of(text)) if reader == "auto" else by_name[reader]
    if kind is None:
        return None
    runs = [run for run in logs.read_log(path.name, kind, enumerate(lines, start=1)) if run.is_timed]
    return _as_printed(kind, runs[-1], len(runs)) if runs else None


def _printed_step(step: LoggedStep, nan_steps: set[int]) -> PrintedStep:
    """Return a step in the ground's words; its loss is NaN where the log printed NaN or infinity."""
    loss = math.nan if step.loss is None and step.step in nan_steps else step.loss
    return PrintedStep(step.step, step.line, step.seconds, step.tokens_per_s, step.samples_per_s, loss)


def _printed_span(span: TimedSpan) -> PrintedSpan:
    rates = (span.tokens_per_s, span.samples_per_s)
    return PrintedSpan(span.seconds, span.tokens, *rates, span.optimizer_steps, span.train_loss, span.index)


def _as_printed(kind: type[LogReader], run: ReportedRun, runs: int) -> PrintedLog:
    """Return a run in the ground's words. `runs`: how many the log has."""
    nan_steps = set(run.nan_steps)
    rate_of: dict[str | None, Literal["all", "device"]] = {"global": "all", "rank": "device"}
    tokens = run.details.get("tokens_per_step")
    if tokens is None and run.global_batch and run.seq_len:
        tokens = run.global_batch * run.seq_len

    return PrintedLog(
        reader=kind.__name__,
        guessed=run.guessed is not None,
        steps=[_printed_step(step, nan_steps) for step in run.logged_steps],
        spans=[_printed_span(span) for span in run.timed_spans],
        runs=runs,
        world_size=run.world_size,
        tokens_per_step=tokens,
        samples_per_step=run.global_batch,
        rate_of=rate_of.get(run.rate_scope),
    )
