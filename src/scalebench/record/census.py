"""The census of a run: what each rank really did and was set to, read back. Part of `training_metrics.json`."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class CensusPart(BaseModel):
    """A section of the census."""

    model_config = ConfigDict(extra="forbid")


class OptimizerGroup(CensusPart):
    """A parameter group of the optimizer, as it was just after the probed update."""

    kind: str = Field(description="Class of the optimizer.")
    learning_rate: float
    weight_decay: float
    betas: list[float]
    eps: float


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
    saved_on_host: bool = Field(
        False, description="What its backward pass needs was kept by the host: on the device it might not have fitted."
    )
    busy_s: float | None = Field(
        None, description="Processor time of the rank's main thread outside of collectives; null beside a GPU."
    )
    idle_s: float | None = Field(
        None, description="Of that thread outside of collectives: neither running nor waiting for a core."
    )


class Census(CensusPart):
    """What one rank did and was set to, before and after the window."""

    before: ProbedStep
    after: ProbedStep | None = Field(description="null under torch.compile.")
    parameters: int = Field(description="Of the wrapped model; whole tensors where they are sharded.")
    trainable: int = Field(description="Of them, those that have gradients.")
    engine: dict[str, Any] | None = Field(None, description="Settings that DeepSpeed's engine reports itself.")
    threads: int = Field(description="Threads of torch, read back after the window.")
    cores: list[int] = Field(description="Cores that the process may use, read back after the window.")
    compiled_graphs: int = Field(description="Graphs that torch.compile made.")
    modes_in_window: int = Field(description="Dispatch modes (profilers, counters) that were active in the window.")
    env: dict[str, str | None] = Field(description="Thread and device variables, as the rank saw them.")


class SecondClock(CensusPart):
    """What the launcher, another process with a clock of its own, saw of the run. Seconds."""

    ranks_s: float = Field(description="From the start of the ranks' launcher to its end.")
    window_s: float | None = Field(
        description="From the first look after the warm-up to the first after the last step."
    )
    resolution_s: float = Field(description="Time between two looks.")
