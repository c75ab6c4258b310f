"""What checks on other people's results share: which runs are compared with which, and how fast a run says it was."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Any

from scalebench.audit.external.pages import PAGES
from scalebench.audit.finding import Correction, Finding, Severity
from scalebench.importers.reported import Evidence, ReportedRun, TimedSpan

SAME = 0.01  # relative difference of figures that are one figure, rounded
DISTINCT = 200  # baselines, or arms, that differ from each other and are compared one by one
SHOWN = 12  # names in one finding's evidence


def named(
    code: str, severity: Severity, about: Iterable[Any], evidence: str, corrected: Correction | str | None = None
) -> Finding:
    """A finding about claims, or about anything that has a name; what to do stands on the page of its code."""
    return Finding(
        code=code,
        severity=severity,
        cells=[],
        runs=[a if isinstance(a, str) else a.name for a in about],
        evidence=evidence,
        advice=PAGES[code].repair,
        corrected=corrected,
    )


def near(a: float, b: float, tolerance: float = SAME) -> bool:
    return abs(a - b) <= tolerance * abs(b)


@dataclass(frozen=True)
class Speed:
    """Work per second. Speeds of different units are not compared."""

    value: float
    unit: str


def epochs_apart(claim: ReportedRun) -> list[list[TimedSpan]]:
    """The windows of a claim by run: epochs that follow each other are of one run, an epoch that was there begins another."""
    runs: list[list[TimedSpan]] = []
    ends: dict[int | None, list[TimedSpan]] = {}  # last epoch of a run -> the run
    last: set[int | None] = set()  # epochs of the run that began last
    for window in claim.timed_spans:
        index = window.index
        home = ends.pop(index - 1, None) if index is not None else None
        if home is None and runs and index not in last and (index is None or index > (runs[-1][-1].index or 0)):
            home = runs[-1]
        if home is None:
            home = []
            runs.append(home)
            last = set()
        if home is runs[-1]:
            last.add(index)
        home.append(window)
        ends[index] = home
    return runs


def epoch_seconds(claim: ReportedRun) -> float | None:
    """Mean time of an epoch. Of three epochs and more the first is left out, of each run in the file."""
    times = []
    for run in epochs_apart(claim):
        kept = run[1:] if len(run) >= 3 else run
        times += [w.seconds for w in kept if w.seconds]
    return fmean(times) if times else None


def speed(claim: ReportedRun) -> Speed | None:
    """How fast the run says it was, all ranks together: tokens/s, else FLOP/s, else epochs/s; the middle of logged rates. None where it does not say."""
    if claim.tokens_per_s is not None:
        return Speed(claim.tokens_per_s, "tokens/s")
    rates = [row.tokens_per_s for row in claim.logged_steps if row.tokens_per_s]
    if rates:
        middle = sorted(rates)[len(rates) // 2]
        if claim.rate_scope == "rank":
            return Speed(middle * claim.world_size, "tokens/s") if claim.world_size else None
        return Speed(middle, "tokens/s")
    flops = [row.flops_per_s for row in claim.logged_steps if row.flops_per_s]
    if flops and claim.world_size:
        return Speed(flops[-1] * claim.world_size, "FLOP/s")
    seconds, tokens = [row.seconds for row in claim.logged_steps if row.seconds], claim.details.get("tokens_per_step")
    if seconds and tokens:
        return Speed(tokens / sorted(seconds)[len(seconds) // 2], "tokens/s")
    if claim.format.startswith("epoch log") and (seconds := epoch_seconds(claim)):
        return Speed(1 / seconds, "epochs/s")
    return None


CONDITIONS = ("engine", "precision", "strategy", "zero_stage", "commit", "launcher", "device", "hosts", "config_sha256", "offload")  # fmt: skip


def differences(a: ReportedRun, b: ReportedRun, names: Iterable[str]) -> dict[str, tuple[Any, Any]]:
    """Of the named conditions those that both files tell, and tell differently."""
    pairs = {n: (getattr(a, n), getattr(b, n)) for n in names}
    return {n: pair for n, pair in pairs.items() if None not in pair and pair[0] != pair[1]}


@dataclass
class AuditContext:
    """The evidence of one audit."""

    evidence: Evidence
    claims: list[ReportedRun] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.runs = self.evidence.runs

    @cached_property
    def families(self) -> list[list[ReportedRun]]:
        """Claims about the same work with different numbers of devices, which somebody may put into one scaling table."""
        grouped: dict[Any, list[ReportedRun]] = defaultdict(list)
        for claim in self.runs:
            if claim.world_size:
                work = (claim.format, claim.model, claim.dataset, claim.seq_len, claim.epochs, claim.dataset_samples)
                grouped[work].append(claim)
        return [group for group in grouped.values() if len({c.world_size for c in group}) > 1]

    @cached_property
    def scalings(self) -> list[tuple[ReportedRun, ReportedRun]]:
        """(baseline, run): each claim with more devices beside the baseline that was published, else the most similar with the fewest."""
        found, published = [], self._published
        for family in self.families:
            fewest = min(c.world_size for c in family)
            distinct: dict[Any, ReportedRun] = {}  # thousands of repeats are a handful of baselines
            for claim in family:
                if claim.world_size == fewest:
                    distinct.setdefault(identity(claim), claim)
            baselines, nearest = list(distinct.values())[:DISTINCT], {}
            for claim in family:
                if claim.name in published:
                    found.append((published[claim.name], claim))
                elif claim.world_size > fewest:
                    who = (claim.world_size, identity(claim))
                    if who not in nearest:
                        fitting = [b for b in baselines if _same_scaling(b, claim)]
                        nearest[who] = min(
                            fitting, key=lambda b, c=claim: len(differences(b, c, CONDITIONS)), default=None
                        )
                    if nearest[who]:
                        found.append((nearest[who], claim))
        return found

    @cached_property
    def _published(self) -> dict[str, ReportedRun]:
        """Baselines that published speed-ups name, by the name of the run."""
        baselines = {}
        for s in self.evidence.published_claims:
            if s.kind == "speedup":
                runs, over = self.of(s.values["of"]), self.of(s.values["over"])
                if (
                    len(runs) == len(over) == 1
                    and over[0].world_size
                    and (runs[0].world_size or 0) > over[0].world_size
                ):
                    baselines[runs[0].name] = over[0]
        return baselines

    def of(self, part: str) -> list[ReportedRun]:
        """The claims that a published sentence means by a name: that name, or else those whose names contain it."""
        exact = [c for c in self.runs if c.name == part or c.name_without_repeat == part]
        return exact or [c for c in self.runs if part in c.name]

    def speed_of(self, part: str) -> Speed | None:
        """Mean speed of the runs behind a name."""
        speeds = [speed(c) for c in self.of(part)]
        if not speeds or any(s is None for s in speeds) or len({s.unit for s in speeds}) > 1:
            return None
        return Speed(fmean(s.value for s in speeds), speeds[0].unit)


def identity(claim: ReportedRun) -> tuple:
    return (claim.global_batch, claim.micro_batch, claim.accumulation, *(getattr(claim, n) for n in CONDITIONS))


def _same_scaling(a: ReportedRun, b: ReportedRun) -> bool:
    """Strong scaling (one global batch) or weak (one batch per device), where the files tell the batch."""
    if a.global_batch is None or b.global_batch is None:
        return True
    return a.global_batch == b.global_batch or a.global_batch * b.world_size == b.global_batch * a.world_size


def listed(items: Iterable[Any]) -> str:
    """Some of many things in a sentence."""
    items = [str(i) for i in items]
    more = f" and {len(items) - SHOWN:,} more" if len(items) > SHOWN else ""
    return ", ".join(items[:SHOWN]) + more


Check = Callable[[AuditContext], list[Finding]]
