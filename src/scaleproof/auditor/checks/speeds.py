"""How fast an external run says it was, in whatever unit its file allows."""

from dataclasses import dataclass
from statistics import fmean

import numpy as np

from scaleproof.auditor.read.logged_steps import Figures
from scaleproof.auditor.read.reported import ReportedRun, TimedSpan


@dataclass(frozen=True)
class Speed:
    """Work per second. Speeds of different units are not compared."""

    value: float
    unit: str


def epochs_apart(run: ReportedRun) -> list[list[TimedSpan]]:
    """The epochs of a file, a list for each run: several may stand one after the other, or have their lines mixed.

    An epoch goes to the run that had the one before it last, else, as some may be missing, to the run that began last
    if it is later than all of that run; any other begins a run, and so does a second one without a number.
    """
    parts: list[list[TimedSpan]] = []
    ended_with: dict[int, list[TimedSpan]] = {}  # number of a run's last epoch -> that run's epochs
    in_latest: set[int | None] = set()  # numbers in the run that began last
    for span in run.timed_spans:
        index = span.index
        part = ended_with.pop(index - 1, None) if index is not None else None
        if part is None:
            is_later = bool(parts) and (index is None or index > (parts[-1][-1].index or 0))
            goes_on = is_later and index not in in_latest
            if not goes_on:
                parts.append([])
                in_latest = set()
            part = parts[-1]
        if part is parts[-1]:
            in_latest.add(index)
        part.append(span)
        if index is not None:
            ended_with[index] = part
    return parts


def epoch_seconds(run: ReportedRun) -> float | None:
    """Mean time of an epoch; None where no epoch has one. Of runs of three epochs and more the first is left out."""
    times: list[float] = []
    for part in epochs_apart(run):
        steady = part[1:] if len(part) >= 3 else part
        times += [span.seconds for span in steady if span.seconds]
    return fmean(times) if times else None


def high_median(values: Figures) -> float:
    """The larger of the two figures in the middle, like `statistics.median_high`; without sorting millions."""
    middle = len(values) // 2
    return float(np.partition(values, middle)[middle])


def speed(run: ReportedRun) -> Speed | None:
    """How fast the run says it was, all ranks together; None where the file does not say.

    In tokens/s, as stated or the median of logged rates; else in FLOP/s; else in tokens/s by the step times; else in
    epochs/s.
    """
    ranks = run.world_size if run.rate_scope == "rank" else 1
    if run.tokens_per_s is not None:
        return Speed(run.tokens_per_s * ranks, "tokens/s") if ranks else None
    rates = run.logged_steps.nonzero("tokens_per_s")
    if rates.size:
        return Speed(high_median(rates) * ranks, "tokens/s") if ranks else None
    flops = run.logged_steps.nonzero("flops_per_s")
    if flops.size and run.world_size:
        return Speed(float(flops[-1]) * run.world_size, "FLOP/s")
    seconds = run.logged_steps.nonzero("seconds")
    tokens = tokens_per_step(run)
    if seconds.size and tokens:
        return Speed(tokens / high_median(seconds), "tokens/s")
    epoch_s = epoch_seconds(run)
    if run.format.startswith("epoch log") and epoch_s:
        return Speed(1 / epoch_s, "epochs/s")
    return None


def tokens_per_step(run: ReportedRun) -> int | None:
    """Tokens of one optimizer step on all ranks: as the file counts them, or global batch x sequence length."""
    stated = run.details.get("tokens_per_step")
    if stated:
        return int(stated)
    return run.global_batch * run.seq_len if run.global_batch and run.seq_len else None
