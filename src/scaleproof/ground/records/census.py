"""The census of a run: what each rank really did and was set to, read back. Part of `training_metrics.json`."""

from typing import Any

from pydantic import BaseModel, Field


class CensusPart(BaseModel, extra="forbid"):
    """A section of the census."""


class OptimizerGroup(CensusPart):
    """A parameter group of the optimizer, as it was just after the probed update."""

    kind: str = Field(description="Class of the optimizer.")
    learning_rate: float
    weight_decay: float
    betas: list[float]
    eps: float
    variants: list[str] = Field(
        [],
        description="Options that change the update rule, where they are on: amsgrad, or off: decoupled_weight_decay.",
    )
    elements: int | None = Field(
        None, description="Of the whole tensors that the group updates; null in older files and where nothing says so."
    )


class ProbedStep(CensusPart):
    """One step of one rank, counted by a dispatch mode. Never a step of the window."""

    step: int
    linear_flops: int = Field(
        description="Of products with weights (mm, addmm), forward and backward; 2 a multiply-add."
    )
    batched_flops: int = Field(description="Of batched products (bmm, baddbmm): attention without a fused kernel.")
    attention: dict[str, int] = Field(description="Calls of fused attention kernels, by name.")
    updates: dict[str, int] = Field(description="Calls of fused optimizer kernels, by name.")
    collectives: dict[str, dict[str, Any]] = Field(description="Calls, logical bytes and dtypes, by name.")
    products: str = Field(description="Dtypes of matrix products, joined by +.")
    gradients: str = Field(description="Dtypes of gradients.")
    reduced: str = Field(description="Dtypes of what was reduced between ranks.")
    tokens_checksum: str | None = Field(
        description="Of the tokens that entered the model (rule: reference/samples.py); null under torch.compile."
    )
    groups: list[OptimizerGroup]
    nodes: int | None = Field(None, description="Autograd nodes that the rank's main thread made; null in older files.")
    saved_on_host: bool = Field(
        False, description="What its backward pass needs was kept by the host: on the device it might not have fitted."
    )
    busy_s: float | None = Field(
        None, description="Processor time of the rank's main thread outside of collectives; null beside a GPU."
    )
    idle_s: float | None = Field(
        None, description="Of that thread outside of collectives: neither running nor waiting for a core."
    )
    gradient_norm: float | None = Field(
        None,
        description="2-norm of the rank's gradients before clipping, of its shards under fsdp, of all gradients under "
        "zero1 to zero3; null in fp16 and in older files.",
    )
    scaled_by: float | None = Field(
        None,
        description="Of one small tensor: norm of what entered AdamW's first moment over that of its gradient; null in "
        "fp16, under zero1 to zero3 and in older files.",
    )
    tokens_inside: int | None = Field(
        None, description="Tokens that reached the table of tokens inside the model; null where nobody could look."
    )


class UpdatesInWindow(CensusPart):
    """The updates of the window, as the optimizer was called for them."""

    calls: int = Field(description="Of the optimizer: one a step, under ZeRO one for each of its parts.")
    weighted_rate: float = Field(description="Mean over the calls of (step + 1) x learning rate.")
    decays: int = Field(description="Different sums of the weight decays of a step's calls and groups: 1.")
    settings: list[list[float]] = Field(description="Weight decay, beta1, beta2, eps: all that occurred.")
    moments: list[float] = Field(
        [],
        description="After each call, the 2-norm of a part of AdamW's first moment, of another tensor each time; empty "
        "in older files.",
    )
    conditions: dict[str, list[str]] = Field(
        {}, description="Threads, TF32, dispatch modes and the moments' dtype at each call: all that occurred."
    )
    children: int = Field(
        0, description="Calls before which a process had ended that this one had started after the call before."
    )


class WitnessedSteps(CensusPart):
    """The first steps of the cell made once more from the same state by the same rank, each of them under a probe."""

    seconds: float
    losses: list[float] = Field(description="Of this rank, step by step from step 0 on.")
    gradient_norms: list[float | None] = Field(description="As in a probed step, of each step.")
    scaled_by: list[float | None] = Field(description="As in a probed step, of each step.")
    moments: list[float] = Field(description="As in the window, of all calls of these steps.")
    kinds: list[ProbedStep] = Field(description="Each step that differs in what it ran from the one before it.")
    plain_s: float | None = Field(
        None,
        description="Processor time of the rank's main thread in a step that nobody looked at, median of five after "
        "these; null beside a GPU and in older files.",
    )
    beside: dict[str, float] = Field(
        {},
        description="Seconds of processor time in a step, by file and function beside training: of this package or of "
        "no library; the lesser of two steps, those of 0.1 ms or more. Empty in older files.",
    )


class BareLoop(CensusPart):
    """Steps of a loop that shares no code with the trainer: this rank's share of a step, nothing exchanged."""

    steps: int
    step_s: float = Field(description="Median.")
    cpu_s: float = Field(description="Processor time of the process in a step, median.")


class Census(CensusPart):
    """What one rank did and was set to, before and after the window."""

    before: ProbedStep
    after: ProbedStep | None = Field(description="null under torch.compile.")
    scored_and_trained: list[float] | None = Field(
        None,
        description="Of this rank's samples of the step after the window the loss as it is scored, and as it is "
        "trained on; null under torch.compile, where it is not finite, and in older files.",
    )
    parameters: int = Field(description="Of the wrapped model; whole tensors where they are sharded.")
    trainable: int = Field(description="Of them, those that have gradients.")
    engine: dict[str, Any] | None = Field(None, description="Settings that DeepSpeed's engine reports itself.")
    threads: int = Field(description="Threads of torch, read back after the window.")
    cores: list[int] = Field(description="Cores that the process may use, read back after the window.")
    compiled_graphs: int = Field(description="Graphs that torch.compile made.")
    compiled: str = Field(
        "", description="Modules that torch.compile has compiled, wholly or in a method, and with which of its options."
    )
    modes_in_window: int = Field(description="Dispatch modes (profilers, counters) that were active in the window.")
    nodes_in_window: int | None = Field(
        None, description="Autograd nodes that the rank's main thread made in all steps of the window."
    )
    slowed_by: list[str] = Field(
        [], description="What was on in the window that watches or slows every operation: profilers, tracers, checks."
    )
    collectives_of_step: int | None = Field(
        None, description="Collectives that the rank began in the step before the window; null in older files."
    )
    collectives_in_window: int | None = Field(None, description="Those of all steps of the window.")
    tokens_inside_window: int | None = Field(
        None, description="Tokens that reached the table of tokens inside the model in the window."
    )
    witness: WitnessedSteps | None = Field(None, description="Of the first repeat of a cell alone.")
    control: BareLoop | None = Field(None, description="Of the first repeat of a cell alone.")
    tokens_in_window: str | None = Field(
        None,
        description="Checksum of the tokens that entered the model in the window, step by step (rule: "
        "measure/reference/samples.py); null in older files.",
    )
    updates_in_window: UpdatesInWindow | None = Field(
        None, description="null in older files, and where fp16 skipped updates."
    )
    first_losses: list[float] | None = Field(
        None,
        description="Losses of samples of step 0, those with the smallest ids, by the model as it was built, in fp32; "
        "null in older files.",
    )
    env: dict[str, str | None] = Field(
        description="Thread and device variables, as the rank saw them; its torch, CPU, instructions, and variables "
        "that choose them."
    )
    wrapper: str | None = Field(None, description="Class of what wraps the model; null where nothing does.")
    weights: str | None = Field(
        None, description="Checksum of the bits of all weights after the last step; null where they are sharded."
    )
    coarse: float | None = Field(
        None, description="Part of the fp32 weights after the last step that bf16 holds exactly; null in older files."
    )


class SecondClock(CensusPart):
    """What the launcher, another process with a clock of its own, saw of the run. Seconds."""

    ranks_s: float = Field(description="From the start of the ranks' launcher to its end.")
    window_s: float | None = Field(
        description="From the first look after the warm-up to the first after the last step."
    )
    resolution_s: float = Field(description="The longest time between two looks.")
