"""The neutral form of a benchmark result that somebody else's program wrote. `None` everywhere means: the files do not say."""

import re
from dataclasses import dataclass, field
from typing import Any

REPEAT = re.compile(r"(run|rep|repeat|seed|trial)[_-]?[0-9]*")


@dataclass(slots=True)
class TimedSpan:
    """Something that was timed as a whole: an epoch, or all steps of a run. Times in seconds."""

    index: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    tokens_per_s: float | None = None  # as the file states it
    micro_steps: int | None = None
    optimizer_steps: int | None = None
    step_mean_s: float | None = None
    step_p50_s: float | None = None
    step_p95_s: float | None = None
    train_loss: float | None = None
    val_loss: float | None = None


@dataclass(slots=True)
class LoggedStep:
    """One line of a step log, as its program printed it."""

    step: int
    seconds: float | None = None
    loss: float | None = None
    tokens_per_s: float | None = None
    epoch: int | None = None
    mfu: float | None = None  # 1 is the peak
    flops_per_s: float | None = None  # of one device


@dataclass(slots=True)
class ReportedRun:
    """One run, as its files tell it."""

    name: str
    format: str
    files: list[str] = field(default_factory=list)
    run_id: str | None = None
    # Protocol
    world_size: int | None = None
    micro_batch: int | None = None
    accumulation: int | None = None
    global_batch: int | None = None
    seq_len: int | None = None
    strategy: str | None = None
    engine: str | None = None
    engine_batch: int | None = None  # micro-batch that the engine was told
    precision: str | None = None
    zero_stage: int | None = None
    offload: str | None = None  # "cpu", "nvme"
    model: str | None = None
    parameters: float | None = None
    dataset: str | None = None
    dataset_samples: int | None = None
    epochs: int | None = None
    device: str | None = None
    commit: str | None = None
    launcher: str | None = None
    hosts: str | None = None
    config_sha256: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    debug_settings: dict[str, str] = field(default_factory=dict)  # profilers and debugging that were on
    # Figures
    timed_spans: list[TimedSpan] = field(default_factory=list)
    logged_steps: list[LoggedStep] = field(default_factory=list)
    rank_losses: dict[int, list[float]] = field(default_factory=dict)  # step -> what each rank printed
    rate_scope: str | None = None  # "global", "rank" or None: whose tokens/s the file says it states
    sampled_every: int | None = None  # only every n-th micro-step is timed
    sampled_from: int = 0
    best_val_loss: float | None = None
    peak_flops: float | None = None  # that the program divided by
    skipped_steps: int | None = None
    memory_reported_bytes: float | None = None  # bytes, by the framework
    memory_used_bytes: float | None = None  # bytes, by the driver
    progress_bar: list[tuple[int, float, float]] = field(
        default_factory=list
    )  # bar: step, seconds so far, seconds a step
    details: dict[str, Any] = field(default_factory=dict)  # of one format only
    problems: list[str] = field(default_factory=list)  # fields that could not be used

    @property
    def samples_per_micro_step(self) -> int | None:
        """Samples of one micro-step on all ranks."""
        return self.micro_batch * self.world_size if self.micro_batch and self.world_size else None

    @property
    def seconds(self) -> float | None:
        times = [w.seconds for w in self.timed_spans]
        return sum(times) if times and all(times) else None

    @property
    def tokens(self) -> int | None:
        counts = [w.tokens for w in self.timed_spans]
        return sum(counts) if counts and all(counts) else None

    @property
    def tokens_per_s(self) -> float | None:
        """tokens/s as stated; over several windows all tokens over all time."""
        rates = [w.tokens_per_s for w in self.timed_spans]
        if not rates or not all(rates):
            return None
        if len(rates) == 1:
            return rates[0]
        if self.seconds is None:
            return None
        return sum(w.tokens_per_s * w.seconds for w in self.timed_spans) / self.seconds

    @property
    def name_without_repeat(self) -> str:
        """The name without what tells repeats apart."""
        parts = [p for p in self.name.split("/") if not REPEAT.fullmatch(p.lower())]
        return "/".join(parts) or self.name


@dataclass(slots=True)
class OperatorTable:
    """A table of operators that a profiler exported. Times in seconds."""

    name: str
    inclusive_s: float  # device time, nested operators counted again and again
    self_s: float  # device time of each operator alone
    steps: int | None  # that were profiled


@dataclass(slots=True)
class GpuLog:
    """A log of nvidia-smi."""

    name: str
    samples: int
    devices: int
    backwards: int  # times at which the clock of one device's samples went backwards


@dataclass(slots=True)
class ScalingReport:
    """A table of speed-ups that a program derived from several runs."""

    name: str
    status: str
    rows: dict[int, dict[str, float | int | None]]  # devices -> rate, spread, runs, speedup, efficiency
    mismatches: list[str]


@dataclass(slots=True)
class PublishedClaim:
    """A published sentence: `kind` says how to read `values`."""

    kind: str
    values: dict[str, Any]
    source: str


@dataclass(slots=True)
class Unread:
    """A file, or a part of one, that could not be read, and why."""

    name: str
    reason: str


@dataclass
class Evidence:
    """Everything that was found in the audited places."""

    runs: list[ReportedRun] = field(default_factory=list)
    operator_tables: list[OperatorTable] = field(default_factory=list)
    gpu_logs: list[GpuLog] = field(default_factory=list)
    scaling_reports: list[ScalingReport] = field(default_factory=list)
    published_claims: list[PublishedClaim] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)  # files of no known format
    own_runs: list[str] = field(default_factory=list)  # folders of runs of schema 3.0
    completions: list[dict[str, Any]] = field(default_factory=list)
    traces: list[str] = field(default_factory=list)  # of Nsight Systems: another command's
    traced_folders: list[str] = field(default_factory=list)  # folders of `traces`
    named_files: set = field(default_factory=set)  # files that were named one by one
