"""The neutral form of a benchmark result that somebody else's program wrote. `None` means: the files do not say.

Tables are in `reported_tables`. Times are in seconds, memory in bytes, shares are fractions.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from scaleproof.auditor.read.logged_steps import LoggedStep, StepSeries
from scaleproof.auditor.read.reported_tables import PrintedInterval, ReportedTable
from scaleproof.auditor.read.words import is_inference

# Parts of a path that only tell repeats apart: `rep3`, `seed_1.log`, MLPerf's `result_0.txt`, the id of a run.
PART_OF_REPEAT = re.compile(
    r"(?:(?:run|rep|repeat|seed|trial)[_-]?[0-9]*|(?:result|attempt|replicate|repetition)[_-]?[0-9]+|"
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:\.(?:log|txt|out|json|csv))?"
)


@dataclass(slots=True)
class TimedSpan:
    """Something that was timed: an epoch, or all steps of a run."""

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
    samples_per_s: float | None = None


def positive(value: float | None) -> float | None:
    """Return a time or a rate. None where it is 0 or below, which no time and no rate is."""
    return value if value is not None and value > 0 else None


def step_of(
    step: int, seconds: float | None, values: dict[str, float | None], line: int | None, epoch: int | None = None
) -> LoggedStep:
    """Return the step of a line with these figures by kind, in base units: {"loss": 2.3, "tokens_per_s": 1e5}."""
    logged = LoggedStep(step, positive(seconds), values.get("loss"), epoch=epoch, mfu=values.get("mfu"), line=line)
    for kind in ("tokens_per_s", "samples_per_s", "flops_per_s"):
        setattr(logged, kind, positive(values.get(kind)))
    return logged


def span_of(index: int | None, seconds: float | None, values: dict[str, float | None]) -> TimedSpan:
    """Return an epoch, or with `index` None the run, with these figures in base units: {"loss": 2.3}."""
    span = TimedSpan(index, positive(seconds), train_loss=values.get("loss"), val_loss=values.get("val_loss"))
    span.tokens_per_s, span.samples_per_s = positive(values.get("tokens_per_s")), positive(values.get("samples_per_s"))
    return span


@dataclass(slots=True)
class ReportedRun:
    """One run, as its files describe it."""

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
    engine_batch: int | None = None  # micro-batch of the engine's own configuration
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
    logged_steps: StepSeries = field(default_factory=StepSeries)
    rank_losses: dict[int, list[float]] = field(default_factory=dict)  # step -> what each rank printed
    states_time_unit: bool = True  # a CSV log need not say whether its step times are s or ms
    rate_scope: str | None = None  # "global", "rank" or None: whose rate the file says it states
    sampled_every: int | None = None  # only every n-th micro-step is timed
    sampled_from: int = 0
    best_val_loss: float | None = None
    peak_flops: float | None = None  # that the program divided by
    skipped_steps: int | None = None  # after the first steps, in which a loss scaler finds its scale
    nan_steps: list[int] = field(default_factory=list)  # steps whose loss was NaN or infinite
    gradient_norms: int = 0  # that were logged, and those of them that are 0
    zero_gradient_norms: int = 0
    memory_reported_bytes: float | None = None  # by the framework
    memory_used_bytes: float | None = None  # by the driver
    progress_bar: list[tuple[int, float, float]] = field(default_factory=list)  # step, seconds so far, seconds a step
    steps_per_s: list[float] = field(default_factory=list)  # as lines or progress bars print it
    guessed: str | None = None  # how lines of no known program were read; None where the program is known
    quoted: bool = False  # lines of a log in a document, from which others may be left out
    claimed: set[str] = field(default_factory=set)  # fields that a person stated, and the file does not
    copy_of: str | None = None  # the file of which this run's file is a copy, byte for byte
    details: dict[str, Any] = field(default_factory=dict)  # of one format only
    problems: list[str] = field(default_factory=list)  # fields that could not be used

    def see_gradient_norm(self, norm: float | None) -> None:
        """Count a norm of the gradients that a step logged."""
        self.gradient_norms += norm is not None
        self.zero_gradient_norms += norm == 0

    def see_val_loss(self, loss: float | None) -> None:
        """Keep the least loss of a validation so far."""
        self.best_val_loss = min((value for value in (self.best_val_loss, loss) if value is not None), default=None)

    def see_memory(self, reported_bytes: float | None) -> None:
        """Keep the most memory that the framework has reported so far; None stays None."""
        self.memory_reported_bytes = max(self.memory_reported_bytes or 0.0, reported_bytes or 0.0) or None

    @property
    def own_name(self) -> str:
        """The name below the folder that all audited paths lie in: what that is called says nothing of one run."""
        return self.name.removeprefix(self.details.get("shared_folder", ""))

    @property
    def phase(self) -> str:
        """ "inference" where the name of the run says so, and no loss is logged. "" for training."""
        is_training = self.logged_steps.values("loss").size or any(span.train_loss for span in self.timed_spans)
        return "inference" if not is_training and is_inference([re.sub(r"[_./-]", " ", self.own_name)]) else ""

    @property
    def is_timed(self) -> bool:
        """Whether the run says how fast it was. A loss alone does not."""
        of_speed = ("seconds", "tokens_per_s", "samples_per_s", "flops_per_s")
        has_steps = any(self.logged_steps.values(name).size for name in of_speed)
        has_spans = any(span.seconds or span.tokens_per_s or span.samples_per_s for span in self.timed_spans)
        return has_steps or has_spans or bool(self.progress_bar or self.steps_per_s)

    @property
    def seconds(self) -> float | None:
        """Seconds of all spans together. None where there is no span, or one has no time."""
        times = [span.seconds for span in self.timed_spans if span.seconds]
        return sum(times) if times and len(times) == len(self.timed_spans) else None

    @property
    def tokens(self) -> int | None:
        """Tokens of all spans together. None where there is no span, or one has no tokens."""
        counts = [span.tokens for span in self.timed_spans if span.tokens]
        return sum(counts) if counts and len(counts) == len(self.timed_spans) else None

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens per second as stated; of several spans the mean, weighted by time. None where a span has no rate."""
        rates = [span.tokens_per_s for span in self.timed_spans if span.tokens_per_s]
        if not rates or len(rates) < len(self.timed_spans):
            return None
        if len(rates) == 1:
            return rates[0]
        if self.seconds is None:
            return None
        times = [span.seconds or 0.0 for span in self.timed_spans]
        return sum(rate * seconds for rate, seconds in zip(rates, times, strict=True)) / self.seconds

    @property
    def name_without_repeat(self) -> str:
        """The name without what tells repeats apart: "ddp/seed_1/train.log" -> "ddp/train.log"."""
        parts = [part for part in self.name.split("/") if not PART_OF_REPEAT.fullmatch(part.lower())]
        return "/".join(parts) or self.name


@dataclass(slots=True)
class OperatorTable:
    """A table of operators that a profiler exported."""

    name: str
    inclusive_s: float  # device time, nested operators counted again and again
    self_s: float  # device time of the kernels alone; annotations and operators that only launch them left out
    steps: int | None  # that were profiled


@dataclass(slots=True)
class GpuLog:
    """A log of nvidia-smi."""

    name: str
    samples: int  # with a device and a time
    devices: int
    backwards: int  # times at which the clock of one device's samples went backwards


@dataclass(slots=True)
class SpeedupReport:
    """A table of speed-ups that a program derived from several runs: their sizes, spreads and numbers."""

    name: str
    status: str
    rows: dict[int, dict[str, float | int | None]]  # devices -> spread, runs
    mismatches: list[str]


@dataclass(slots=True)
class PublishedClaim:
    """A published sentence: `kind` says how to read `values`."""

    kind: str
    values: dict[str, Any]
    source: str


StatedKind = Literal["speedup", "change", "efficiency", "mfu", "rate", "time", "memory", "share"]


@dataclass(slots=True)
class StatedFigure:
    """A figure that a sentence of a README, a report or a caption states. What it is about is matched by the audit.

    `value` is in base units: a ratio for `speedup`, a fraction for `change` (positive: faster or more),
    `efficiency`, `mfu` and `share`; per second for `rate`; seconds for `time`; bytes for `memory`.
    """

    kind: StatedKind
    value: float
    printed: str  # the number with its unit, as written
    resolution: float  # what one unit of its last digit is worth
    sentence: str
    file: str
    line: int
    devices: int | None = None  # "on 4 GPUs"
    over_devices: int | None = None  # "than on 1", "1 to 4 GPUs", "vs. a single GPU"
    words: dict[str, str] = field(default_factory=dict)  # strategy, precision, model, device that the sentence names
    bound: Literal["<", ">", "~"] | None = None  # "up to 3x" is "<", "more than 3x" is ">", "about 3x" is "~"
    hypothetical: bool = False  # expected, ideal, should, target, ...: not a result
    position: int = 0  # of its number in the sentence

    @property
    def source(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class StatedResult:
    """A change or a product as a text has it, with all that it is made of: "2x (9 s → 4 s)", "4 x 8 = 32".

    `readings`: what it may be, by any meaning of "faster" and in any unit; `right`: how a finding says that.
    """

    source: str  # file:line
    printed: str
    stated: PrintedInterval
    readings: tuple[PrintedInterval, ...]
    right: str


UnreadKind = Literal[
    "damaged",  # it is of a known form, and cut off or inconsistent
    "unknown form",  # text or data that no reader knows
    "limit",  # larger, deeper or more than is read
    "not a result",  # a source, a patch, a test, a fixture, a template
    "binary",
    "picture",
    "PDF",
    "pointer",
    "trace",  # of a profiler: another command's
    "permission",
    "claims file",  # with a mistake in it
    "special",  # a FIFO, a device, a link that leads nowhere or round in a circle
]


# Kinds of files that may have been results.
KINDS_OF_LOST_RESULTS: tuple[UnreadKind, ...] = ("damaged", "limit", "permission", "special", "claims file")


@dataclass(slots=True)
class Unread:
    """A file, or a part of one, that was not read, and why. Only `damaged` says anything about the file."""

    name: str
    reason: str
    kind: UnreadKind = "damaged"


@dataclass
class Evidence:
    """Everything that was found in the audited places."""

    runs: list[ReportedRun] = field(default_factory=list)
    tables: list[ReportedTable] = field(default_factory=list)
    other_tables: list[ReportedTable] = field(default_factory=list)  # without results, or with unknown headings
    stated_figures: list[StatedFigure] = field(default_factory=list)  # of sentences
    stated_results: list[StatedResult] = field(default_factory=list)  # of sentences and cells: changes, products
    operator_tables: list[OperatorTable] = field(default_factory=list)
    gpu_logs: list[GpuLog] = field(default_factory=list)
    scaling_reports: list[SpeedupReport] = field(default_factory=list)
    published_claims: list[PublishedClaim] = field(default_factory=list)  # of claims files
    unread: list[Unread] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)  # files of no known format
    own_runs: list[str] = field(default_factory=list)  # folders of runs of schema 3.0
    completions: list[dict[str, Any]] = field(default_factory=list)
    traces: list[str] = field(default_factory=list)  # of Nsight Systems or torch.profiler: another command's
    traced_folders: list[str] = field(default_factory=list)  # folders of `traces`
    named_files: set[Path] = field(default_factory=set)  # files that were named one by one

    @property
    def settings(self) -> list[ReportedTable]:
        """The tables of batches, lengths, steps or nodes without results."""
        return [table for table in self.other_tables if table.states_settings]
