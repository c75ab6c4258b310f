"""From the records of watched ranks to the rows of steps.csv."""

import math
from collections.abc import Sequence
from itertools import islice

import numpy as np

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.errors import plural
from scaleproof.ground.records.printed_log import PrintedLog
from scaleproof.ground.records.steps import ROW
from scaleproof.ground.records.watched import NEVER_STEPPED, WatchedRank
from scaleproof.measure.command.figures import LONGER, NoFigures, TimedWork, count_lost_at_end


def figures_of_watched_run(ranks: Sequence[WatchedRank], cell: Cell) -> TimedWork:
    """Return the figures of a run of `cell` from the records of its watched `ranks`: a row for each step and rank.

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
    forwards = max(rank.forwards or 0 for rank in ranks)
    if not steps and forwards:
        raise NoFigures(
            f"scaleproof.watch saw {forwards} forward passes in training, and no step of the optimizer: {NEVER_STEPPED}"
        )
    if steps <= warmup:
        raise NoFigures(
            f"scaleproof.watch saw {plural(steps, 'step')}, and {warmup} are warm-up; {LONGER}, or lower "
            "work.warmup_steps (of ab: --warmup-steps)"
        )
    has_tokens = all(sum(rank.tokens) for rank in ranks)  # else the column `tokens` has samples
    rows = _rows_of_watched(ranks, steps, warmup, has_tokens)

    return TimedWork(
        log=PrintedLog("scaleproof.watch", world_size=ranks[0].world_size),
        unit="tokens" if has_tokens else "samples",
        rows=rows,
        window=[],
        per_step=float(rows["tokens"][rows["phase"] == "window"].sum()) / (steps - warmup),
        losses_lost=count_lost_at_end(ranks[0].losses or []),
    )


def _rows_of_watched(ranks: Sequence[WatchedRank], steps: int, warmup: int, has_tokens: bool) -> np.ndarray:
    """Return the rows of steps.csv of the first `steps` steps of watched `ranks`: a rank may have made more.

    `has_tokens`: their work is tokens; else it is samples. Waiting for data is not known, and written as 0; a loss that
    was not seen is NaN.
    """
    rows = []
    for rank in ranks:
        losses = rank.losses or [math.nan] * len(rank.step_s)
        amounts = rank.tokens if has_tokens else rank.samples
        series = islice(zip(rank.step_s, losses, rank.samples, amounts, strict=False), steps)
        for step, (seconds, loss, samples, amount) in enumerate(series):
            phase = "warmup" if step < warmup else "window"
            rows.append((phase, step, rank.rank, seconds, 0.0, loss, samples, amount))
    return np.sort(np.array(rows, ROW), order=["step", "rank"])
