"""The sections of `training_metrics.json` (metrics.py): window, validation, memory, energy and their kin."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.strategies import is_deepspeed
from scaleproof.ground.facts.counts import Inventory

FailureClass = Literal[
    "oom",
    "host_oom",
    "nan",
    "timeout",
    "crash",
    "hang",
    "node_fail",
    "wrong_world",
    "not_applicable",
    "unreadable",
    "no_figures",
]
LONGEST_S = 1e9  # 30 years: no run is as long
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0, lt=1e30)]  # far above any figure, so that no product of them overflows


class RecordSection(BaseModel, extra="forbid", populate_by_name=True, serialize_by_alias=True, allow_inf_nan=False):
    """A section of the file. Fields are set by their names, read and written by their aliases."""


class Failure(RecordSection):
    """Why a run has no numbers."""

    failure_class: FailureClass = Field(alias="class")
    reason: str = Field(description="One sentence.")
    rank: int | None = Field(None, description="The rank that failed first, where known.")
    log_tail: list[str] = Field([], description="The last lines of the log.")


class TrainingConfig(RecordSection):
    """The run in the words of the 2.0 files."""

    model_name: str
    model_size: str
    seq_len: int
    micro_batch: int = Field(alias="micro_batch_size_per_gpu", description="Samples per device, CPU devices included.")
    accumulation: int = Field(alias="grad_accum_steps")
    global_batch: int = Field(alias="global_batch_size")
    lr: float
    optimizer: str
    precision: str
    strategy: str
    deepspeed_enabled: bool
    zero_stage: int | None
    dataset_name: str
    dataset_subset_sizes: dict[str, int] = Field(description="Samples of each split at this seq_len.")

    @classmethod
    def for_cell(cls, cell: Cell, **names: Any) -> "TrainingConfig":
        """Return the section for a run of `cell`. `names`: the fields that say model and data in words."""
        strategy, batch = cell.execution.strategy, cell.batch
        is_zero = is_deepspeed(strategy)
        return cls(
            seq_len=cell.workload.seq_len,
            micro_batch=batch.micro,
            accumulation=batch.accumulation,
            global_batch=batch.global_,
            lr=cell.work.optimizer.learning_rate,
            optimizer=cell.work.optimizer.name,
            precision=cell.execution.precision,
            strategy=strategy,
            deepspeed_enabled=is_zero,
            zero_stage=int(strategy.removeprefix("zero")[0]) if is_zero else None,
            **names,
        )


class TokenLedger(RecordSection):
    """Work that was counted on the ranks, beside the work that was planned."""

    samples_consumed: Count
    samples_planned: Count
    tokens_consumed: Count
    tokens_planned: Count
    consumed_sha256: str = Field(
        description="Digest of the sample ids that ranks consumed, step by step, order within a step aside."
    )
    planned_sha256: str
    samples_shared: Count = Field(
        description="Samples of a step that more than one micro-batch consumed; 0 in sound work."
    )
    samples_by_rank: list[int]

    @property
    def equal(self) -> bool:
        """Whether the ranks consumed what was planned: the same samples in each step, and as many tokens."""
        return self.consumed_sha256 == self.planned_sha256 and self.tokens_consumed == self.tokens_planned


class AnyWindow(RecordSection):
    """The timed steps of a run of any evidence level. Rates are all work over all time."""

    wall_time_s: Positive = Field(alias="wall_time_sec", description="Of all timed steps together.")
    tokens: int = Field(gt=0, alias="tokens_processed_global", description="Or other units of work: `unit`.")
    tokens_per_s: Positive = Field(alias="tokens_per_sec_global")
    tokens_per_s_per_device: Positive = Field(alias="tokens_per_sec_per_device")
    step_time_n: int = Field(gt=0)
    step_time_mean_s: Positive = Field(alias="step_time_mean_sec")
    step_time_p50_s: Positive = Field(alias="step_time_p50_sec")
    step_time_p95_s: Positive | None = Field(alias="step_time_p95_sec", description="null below 20 steps.")
    step_time_p99_s: Positive | None = Field(alias="step_time_p99_sec", description="null below 100 steps.")
    step_time_min_s: Positive = Field(alias="step_time_min_sec")
    step_time_max_s: Positive = Field(alias="step_time_max_sec")
    train_loss_mean: float | None = Field(alias="train_loss_avg_global", description="null: no loss was printed.")
    train_loss_first: float | None
    train_loss_last: float | None


class Window(AnyWindow):
    """The timed steps of a run of the trainer. A step's time is the maximum over ranks."""

    wall_time_s: Positive = Field(
        alias="wall_time_sec", description="Longest rank's time from the first step's start to the last step's end."
    )
    optimizer_steps: Count = Field(description="Updates that the optimizer itself has counted.")
    skipped_optimizer_steps: int = Field(description="Steps without an update: fp16 overflow.")
    micro_steps: Count
    tokens: int = Field(
        gt=0, alias="tokens_processed_global", description="From the ledger, not from the configuration."
    )
    data_wait_mean_s: float = Field(
        alias="dataload_time_mean_sec", description="Per step: the longest rank's wait for data."
    )
    train_loss_mean: float = Field(alias="train_loss_avg_global")
    train_loss_first: float
    train_loss_last: float
    clock: Literal["monotonic", "cuda_events"]


class PrintedWindow(AnyWindow):
    """The timed steps of somebody's program, as it printed them, as they were watched, or as whole runs were timed."""

    clock: Literal["printed", "launcher", "monotonic", "cuda_events"] = Field(
        description="printed: the program's own. launcher: whole runs of two lengths, the shorter one taken off. "
        "Otherwise that of scaleproof.watch."
    )


class Validation(RecordSection):
    """What the model knows of held-out samples after the last step. Not in the window."""

    samples: int
    samples_sha256: str = Field(description="Digest of the sample ids that the ranks scored, order aside.")
    tokens_checksum: str | None = Field(None, description="Of the tokens that entered the model.")
    targets: int = Field(description="Predictions that the loss is a mean over: tokens, or samples.")
    loss: float = Field(description="Mean cross-entropy over all targets, in nats.")
    perplexity: float | None = Field(description="exp(loss); null for classes.")
    accuracy: float | None = Field(description="Part of the targets that the model thinks likeliest; null for tokens.")
    wall_time_s: float = Field(alias="wall_time_sec")
    rank_losses: list[float] | None = Field(
        None, description="Of each rank: sum of the cross-entropy over its targets."
    )


class Utilization(RecordSection):
    """Model FLOPs utilization: how much of the device's peak the model's arithmetic is."""

    convention: str = Field(description="What counts as the model's arithmetic.")
    flops_per_s_per_device: float = Field(alias="flops_per_sec_per_device", description="Full attention.")
    peak_flops_per_s: float | None = Field(
        alias="peak_flops_per_sec", description="Dense peak of the device for the precision; null where unknown."
    )
    peak_source: str | None
    mfu: float | None = Field(description="Full attention, as the literature prints it.")
    mfu_causal: float | None = Field(description="Only the half of the attention that a causal model needs.")
    hfu: float | None = Field(
        description="With the forward pass that activation checkpointing repeats; null without it."
    )


class Energy(RecordSection):
    """Of all devices over the window."""

    joules: float | None = Field(
        description="By the devices' counters; null where there are none or they cannot be trusted."
    )
    joules_per_token: float | None
    withheld: str | None = Field(description="Why there is no figure.")


class Startup(RecordSection):
    """Time outside the window."""

    launch_s: float = Field(
        alias="launch_sec", description="From the launcher's start to the first line of the rank's program."
    )
    setup_s: float = Field(alias="setup_sec", description="Imports, process group, model, data.")
    warmup_s: float = Field(
        alias="warmup_sec", description="Warm-up steps, with whatever is compiled, allocated or connected in them."
    )
    first_step_s: float = Field(
        alias="first_step_sec", description="The first of them, in which torch.compile compiles; as in steps.csv."
    )
    launcher_epoch_s: float | None = Field(None, description="Time of day at the launcher's start.")
    program_epoch_s: float | None = Field(
        None, description="Time of day at the first line of rank 0's program. Those of each rank stand in `ranks`."
    )


class Memory(RecordSection):
    """Peaks over the window, maximum over ranks; null where the device does not count."""

    max_cuda_allocated_bytes: Count | None = Field(alias="max_cuda_mem_allocated_bytes_global")
    max_cuda_reserved_bytes: Count | None = Field(alias="max_cuda_mem_reserved_bytes_global")
    cuda_alloc_retries: Count | None
    state_bytes: Count = Field(
        description="Alive on a device just before an update: weights, gradients, optimizer state, buffers. Maximum."
    )
    state_bytes_predicted: float = Field(
        description="Of weights, gradients and optimizer state, by the ZeRO paper's model."
    )
    max_rss_bytes: Count = Field(
        description="Peak resident memory of a rank's process over its whole life, imports included."
    )


class Model(RecordSection):
    parameters: Count = Field(description="Counted on the built model.")
    matmul_parameters: Count
    flops_per_token: Count
    flops_per_token_causal: Count | None
    inventory: Inventory | None = Field(
        None, description="Its tensors, counted on the network; null for a shape, of which formulas say it."
    )


class LogReading(RecordSection):
    """How the figures of a program were read from what it printed."""

    reader: str = Field(description="The reader of its log, `patterns`, `progress` or `whole program`.")
    guessed: bool = Field(description="Whether its lines are those of no known program.")
    steps: Count = Field(description="Lines with a step that were read, those before the window included.")
    first_step: int | None = Field(description="Number of the first step of the window, as it was printed.")
    last_step: int | None
    first_line_s: float | None = Field(description="Launcher's seconds until the line of the window's first step.")
    last_line_s: float | None
    world_size: int | None = Field(description="As the program printed it.")
    per_step: float | None = Field(description="Work of a step in `unit`, as given or as printed.")
    counts_to: int | None = Field(
        None, description="Of `progress`: the number up to which its lines count, such as 94 in `step 5/94`."
    )
    losses_lost: int = Field(0, description="Lines, up to the last one with a loss, whose loss is NaN or infinite.")
    ended_after_s: float | None = Field(
        None, description="Launcher's seconds until it ended the program, as `work.seconds` says; null: by itself."
    )


class Program(RecordSection):
    """The program of a run: what was started, and from which files."""

    command: str = Field(description="As it was started; places of this machine are removed.")
    files: dict[str, str] = Field(description="sha256 of each file of its command line that was there.")
    git_commit: str = Field(description="Of the folder that it was started in.")
    git_dirty: bool | None
    versions: dict[str, str] = Field(description="Of packages in the interpreter that it names.")
