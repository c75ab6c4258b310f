"""From what `scaleproof.watch` saw inside of a program to the rows of steps.csv."""

import math
from collections.abc import Sequence

import numpy as np

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.errors import plural
from scaleproof.ground.records.evidence import WorkUnit
from scaleproof.ground.records.printed_log import PrintedLog
from scaleproof.ground.records.steps import ROW
from scaleproof.ground.records.watched import WatchedRank
from scaleproof.measure.command.figures import NoFigures, TimedWork, lost

READER = "scaleproof.watch"


def watched_figures(ranks: Sequence[WatchedRank], cell: Cell) -> TimedWork:
    """The figures of a run of `cell` that was watched, for each step and rank.

    Raises NoFigures where ranks are missing, or no step is left after the warm-up.
    """
    devices = cell.execution.geometry.n_devices
    if len(ranks) != devices:
        raise NoFigures(
            f"{plural(len(ranks), 'rank')} left a record of scaleproof.watch, and the geometry is "
            f"{cell.execution.geometry}; use {{devices}} in workload.command"
        )
    warmup = cell.work.warmup_steps
    steps = min(len(rank.step_s) for rank in ranks)
    if steps <= warmup:
        raise NoFigures(f"{plural(steps, 'step')} were watched, and work.warmup_steps leaves out {warmup} of them")
    rows = np.array([row for rank in ranks for row in _rows(rank, warmup)], ROW)
    has_tokens = all(sum(rank.tokens) for rank in ranks)
    if not has_tokens:  # the column then holds the work in samples
        rows["tokens"] = rows["samples"]
    window = rows[rows["phase"] == "window"]
    log = PrintedLog(READER, world_size=ranks[0].world_size)
    per_step = float(window["tokens"].sum()) / (steps - warmup)
    unit: WorkUnit = "tokens" if has_tokens else "samples"
    losses_lost = lost(ranks[0].losses or [])
    return TimedWork(log, unit, np.sort(rows, order=["step", "rank"]), [], per_step, losses_lost=losses_lost)


def _rows(rank: WatchedRank, warmup: int) -> list[tuple[str, int, int, float, float, float, int, int]]:
    """The steps of a rank as rows of steps.csv; waiting for data is not known, a loss only where it was seen."""
    losses = rank.losses or [math.nan] * len(rank.step_s)
    series = zip(rank.step_s, losses, rank.samples, rank.tokens, strict=True)
    return [
        ("warmup" if step < warmup else "window", step, rank.rank, seconds, 0.0, loss, samples, tokens)
        for step, (seconds, loss, samples, tokens) in enumerate(series)
    ]
