"""How fast a run says it was, and which run is its baseline: matched by what the files say, never guessed.

A baseline has fewer devices and the same model, data, epochs, batch policy and precision as far as both files state
them, and something must prove that the work is the same: a stated model, equal tokens, or names that differ only in
devices and strategy. Where several configurations fit and nothing tells them apart, the run has no baseline: no ratio
is formed.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import fmean, median_high
from typing import Any

import numpy as np

from scaleproof.auditor.read.logged_steps import Figures
from scaleproof.auditor.read.reported import ReportedRun, TimedSpan
from scaleproof.ground.records.grouping import group_by

NANOGPT = "nanoGPT log"  # format of a run


@dataclass(frozen=True)
class TotalRate:
    """Work per second. Speeds of different units are not compared."""

    value: float
    unit: str


def epochs_of_runs(run: ReportedRun) -> list[list[TimedSpan]]:
    """Sort the epochs of a file by the run that wrote them: 5, 1, 6, 2 are the runs [5, 6] and [1, 2], lines mixed.

    Epoch N continues the run whose last epoch is N - 1. Where no run ends with N - 1, it goes to the run that began
    last, if N is above the number of that run's last epoch (epochs may be missing); else it begins a new run.
    """
    runs: list[list[TimedSpan]] = []
    ended_with: dict[int, list[TimedSpan]] = {}  # number of a run's last epoch -> that run's epochs
    in_latest: set[int | None] = set()  # epoch numbers of the run that began last
    for span in run.timed_spans:
        number = span.index
        epochs = ended_with.pop(number - 1, None) if number is not None else None
        if epochs is None:
            is_later = bool(runs) and (number is None or number > (runs[-1][-1].index or 0))
            if not is_later or number in in_latest:  # no run has one number twice
                runs.append([])
                in_latest = set()
            epochs = runs[-1]
        if epochs is runs[-1]:
            in_latest.add(number)
        epochs.append(span)
        if number is not None:
            ended_with[number] = epochs
    return runs


def epoch_seconds(run: ReportedRun) -> float | None:
    """Return the mean seconds of an epoch; None where no epoch has a time.

    In runs of three epochs or more the first, which holds the warm-up, is left out.
    """
    times: list[float] = []
    for epochs in epochs_of_runs(run):
        steady = epochs[1:] if len(epochs) >= 3 else epochs
        times += [span.seconds for span in steady if span.seconds]
    return fmean(times) if times else None


def high_median(values: Figures) -> float:
    """Return `statistics.median_high`, the larger of two middle values, without sorting: there may be millions."""
    middle = len(values) // 2
    return float(np.partition(values, middle)[middle])


def total_rate(run: ReportedRun) -> TotalRate | None:
    """Return the rate of all ranks together. Returns None where the file does not say.

    The first of these that the file has: tokens/s as stated, the median of logged tokens/s (both times the ranks if
    they are rates of one rank), FLOP/s of the last step times the ranks, tokens/s by the step times, epochs/s. Of
    nanoGPT step times come first: nobody knows whether the tokens/s of its forks are of one rank.
    """
    ranks = run.world_size if run.rate_scope == "rank" else 1  # None where their number is unknown
    if run.tokens_per_s is not None:
        return TotalRate(run.tokens_per_s * ranks, "tokens/s") if ranks else None
    seconds, tokens = run.logged_steps.nonzero("seconds"), tokens_per_step(run)
    by_times = TotalRate(tokens / high_median(seconds), "tokens/s") if seconds.size and tokens else None
    rates = run.logged_steps.nonzero("tokens_per_s")
    if rates.size and not (by_times and run.format == NANOGPT):
        return TotalRate(high_median(rates) * ranks, "tokens/s") if ranks else None
    flops = run.logged_steps.nonzero("flops_per_s")
    if flops.size and run.world_size:
        return TotalRate(float(flops[-1]) * run.world_size, "FLOP/s")
    if by_times:
        return by_times
    epoch_s = epoch_seconds(run)
    if run.format.startswith("epoch log") and epoch_s:
        return TotalRate(1 / epoch_s, "epochs/s")
    return None


def steps_rate(run: ReportedRun) -> float | None:
    """Return steps/s: 4 by a median step of 0.25 s, else as progress bars print it. None where neither is known."""
    seconds = run.logged_steps.nonzero("seconds")
    if seconds.size:
        return 1 / high_median(seconds)
    return median_high(run.steps_per_s) if run.steps_per_s else None


def samples_rate(run: ReportedRun) -> float | None:
    """Return the median samples/s of epochs, else of steps, of one rank or all (few files say which). None without."""
    samples = [span.samples_per_s for span in run.timed_spans if span.samples_per_s]
    samples = samples or run.logged_steps.nonzero("samples_per_s").tolist()
    return median_high(samples) if samples else None


def tokens_per_step(run: ReportedRun) -> int | None:
    """Return the tokens of one optimizer step on all ranks: as stated, else global batch x length; None if unknown."""
    if stated := run.details.get("tokens_per_step"):
        return int(stated)
    return run.global_batch * run.seq_len if run.global_batch and run.seq_len else None


MOST_CONFIGURATIONS = 200  # configurations of one size that are compared one by one
# What a baseline may differ in; some of these differences are findings of their own.
CONDITIONS = (
    *("engine", "precision", "strategy", "zero_stage"),
    *("commit", "launcher", "device", "hosts", "config_sha256", "offload"),
)
WORK = ("model", "dataset", "dataset_samples", "seq_len", "epochs", "parameters")
# Parts of a name that say how many devices and which strategy, not which work; numbers of jobs and experiments.
DEVICE_WORDS = re.compile(
    r"^(\d+|\d*x?gpus?\d*|\d*devices?\d*|\d*nodes?\d*|n\d+(x\d+)?|np?\d+|ws\d+|world\d*|single|multi|dual|quad|distributed|"
    r"baseline|optimized|pytorch|torch|vanilla|plain|ddp\d*|dp\d*|fsdp\d*|zero\d?|deepspeed|one|two|four|eight|exp\d*|experiment\d*|run\d*|rep\d*|job\d*|"
    r"seed\d*|trial\d*|rerun|again|slurm|out|log|logs|csv|json|txt|metrics|training|train|results?|train_log|h100|a100|v100|t4|l4)$"
)


@dataclass(frozen=True)
class Scaling:
    """A run and the runs of one configuration that are its baseline."""

    run: ReportedRun
    bases: tuple[ReportedRun, ...]
    devices: float  # how many times as many

    @property
    def base(self) -> ReportedRun:
        return self.bases[0]

    @property
    def speedups(self) -> tuple[float, float] | None:
        """(lowest, highest) rate over those of its baselines: (3.4, 3.6). None without rates, or in different units."""
        rate = total_rate(self.run)
        base_rates = [base_rate for base in self.bases if (base_rate := total_rate(base)) is not None]
        if rate is None or not base_rates or any(base_rate.unit != rate.unit for base_rate in base_rates):
            return None
        ratios = sorted(rate.value / base_rate.value for base_rate in base_rates)
        return ratios[0], ratios[-1]


@dataclass
class Baselines:
    """The baselines of `runs`, each looked for among the runs of the same format.

    `published`: baselines that somebody published, by the name of the run. `matched`: runs with a baseline.
    `ambiguous`: runs for which several configurations would do, each with one run of each configuration.
    """

    runs: list[ReportedRun]
    published: Mapping[str, ReportedRun]
    matched: list[Scaling] = field(default_factory=list)
    ambiguous: list[tuple[ReportedRun, list[ReportedRun]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Fill `matched` and `ambiguous`; runs that do not say on how many devices they ran stay out of both."""
        sized = (run for run in self.runs if run.world_size)
        for group in group_by(sized, lambda run: run.format).values():
            self._match(group)

    def _match(self, group: list[ReportedRun]) -> None:
        """Enter each run of one format into `matched` or `ambiguous`; into neither where no configuration fits it."""
        configurations = group_by(group, lambda run: (run.world_size, *configuration(run)))
        by_size = sorted(configurations.values(), key=lambda repeats: repeats[0].world_size or 0)
        compared = by_size[: 2 * MOST_CONFIGURATIONS]  # each is compared with each: keep that fast
        for repeats in compared:
            candidates = self._candidates(repeats[0], compared)
            for run in repeats:
                self._add(run, candidates)

    def _candidates(self, run: ReportedRun, configurations: list[list[ReportedRun]]) -> list[list[ReportedRun]]:
        """Return the configurations (lists of repeats) that may be the baseline of `run`.

        Of those that did the same work on fewer devices the ones with the fewest, and of these the most similar ones.
        For a run in fp16 on 4 devices, fp16 on 1 device is preferred to fp32 on 1 and to fp16 on 2.
        """
        smaller = (repeats for repeats in configurations if (repeats[0].world_size or 0) < (run.world_size or 0))
        of_same_work = [repeats for repeats in smaller if same_work(repeats[0], run)][:MOST_CONFIGURATIONS]
        fewest = min((repeats[0].world_size or 0 for repeats in of_same_work), default=0)
        smallest = [repeats for repeats in of_same_work if repeats[0].world_size == fewest]
        distances = [_distance(repeats[0], run) for repeats in smallest]
        return [repeats for repeats, distance in zip(smallest, distances, strict=True) if distance == min(distances)]

    def _add(self, run: ReportedRun, candidates: list[list[ReportedRun]]) -> None:
        """Enter a run: matched with its published baseline, else its only candidate; ambiguous if it has several."""
        base = self.published.get(run.name)
        if base is not None and base.world_size and run.world_size:
            self.matched.append(Scaling(run, (base,), run.world_size / base.world_size))
        elif len(candidates) == 1 and run.world_size and candidates[0][0].world_size:
            self.matched.append(Scaling(run, tuple(candidates[0]), run.world_size / candidates[0][0].world_size))
        elif len(candidates) > 1:
            self.ambiguous.append((run, [repeats[0] for repeats in candidates]))


def configuration(run: ReportedRun) -> tuple[Any, ...]:
    """Return a key that all repeats of one configuration share, on any number of devices."""
    fields = (*WORK, "global_batch", "micro_batch", "accumulation", *CONDITIONS)
    return (*(getattr(run, name) for name in fields), name_of_work(run.name))


def same_work(base: ReportedRun, run: ReportedRun) -> bool:
    """Whether the files prove that two runs did the same work, and nothing in them contradicts it."""
    stated = ((getattr(base, name), getattr(run, name)) for name in WORK)
    if any(a is not None and b is not None and a != b for a, b in stated) or not same_batch_policy(base, run):
        return False
    if base.phase != run.phase:
        return False
    if base.tokens is not None and base.tokens == run.tokens:
        return True
    if name_of_work(base.name) != name_of_work(run.name):  # then both must state model and dataset
        return all(getattr(one, name) is not None for one in (base, run) for name in ("model", "dataset"))
    return True


def same_batch_policy(a: ReportedRun, b: ReportedRun) -> bool:
    """Whether two runs have one global batch (64 on 1 and on 4 devices) or one per device (64, 256), if known."""
    if a.global_batch is None or b.global_batch is None or not (a.world_size and b.world_size):
        return True
    return a.global_batch == b.global_batch or a.global_batch * b.world_size == b.global_batch * a.world_size


@lru_cache(maxsize=10_000)
def name_of_work(name: str) -> tuple[str, ...]:
    """Return the words of a run's name without those for devices, strategy or repeat: what is left names the work."""
    words = re.split(r"[^a-z0-9]+", name.lower())
    return tuple(sorted({word for word in words if word and not DEVICE_WORDS.match(word)}))


def _distance(base: ReportedRun, run: ReportedRun) -> int:
    """Count how different the conditions are: 2 for each that differs, 1 for each that only one run states."""
    values = ((getattr(base, name), getattr(run, name)) for name in CONDITIONS)
    return sum(1 if a is None or b is None else 2 for a, b in values if a != b)


def fields_that_settle(run: ReportedRun, candidates: Iterable[ReportedRun]) -> list[str]:
    """Return the fields that, if `run` stated them, would tell which of the candidates is its baseline: ["model"]."""
    others = list(candidates)
    names = ("model", "dataset", "epochs", "global_batch", "precision", "strategy", "engine", "device")
    unstated = [name for name in names if getattr(run, name) is None]
    return [name for name in unstated if len({getattr(other, name) for other in others}) > 1]
