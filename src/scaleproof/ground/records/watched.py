"""`watched.<rank>.json`: what `scaleproof.watch` saw of one rank of somebody's training loop."""

import math
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field, PlainSerializer, ValidationError

from scaleproof.ground.errors import UserError, describe_first_fault
from scaleproof.ground.files import read_regular

PATTERN = "watched.*.json"
VARIABLE = "SCALEPROOF_WATCH"  # the folder of these files; unset: FOLDER in the working folder
FOLDER = "scaleproof-watch"
NEVER_STEPPED = (
    "its step() is not called, or the loop has another optimizer"  # where a model trains, and no step is seen
)
# NaN or infinite where a training diverges: null in files, of which JSON has no such numbers; read as NaN.
Figure = Annotated[
    float,
    BeforeValidator(lambda value: math.nan if value is None else value),
    PlainSerializer(lambda value: value if math.isfinite(value) else None, return_type=float | None),
]


class WatchedSection(BaseModel, extra="forbid", frozen=True):
    """A section of the file."""


class UpdateNorms(WatchedSection):
    """What one update did. Norms are of this rank's tensors: of its shards where parameters are sharded."""

    step: int
    gradient_norm: Figure = Field(description="2-norm of all gradients just before the optimizer's step; null: none.")
    update_norm: Figure = Field(description="2-norm of what the step added to some watched parameters.")
    weight_norm: Figure = Field(description="2-norm of those parameters before the step.")


class ProbedOperations(WatchedSection):
    """Operations of one step, counted by the dispatcher."""

    step: int
    products: str = Field(description="Dtypes of matrix products, joined by +.")
    gradients: str
    attention: dict[str, int] = Field(description="Calls of fused kernels.")
    linear_flops: int
    collectives: dict[str, int] = Field(description="Logical bytes by collective.")


class WatchedRank(WatchedSection):
    """One rank. Lists have an entry for each optimizer step, in order."""

    schema_version: Literal["1.0"] = "1.0"
    rank: int
    world_size: int
    host: str
    device_name: str
    clock: Literal["monotonic", "cuda_events"]
    step_s: list[float] = Field(description="From the end of the step before; the first one from the first batch.")
    samples: list[int] = Field(description="Rows that entered the model in training mode.")
    tokens: list[int] = Field(description="Elements of integer inputs that entered it, padding included; 0: none.")
    batches: list[list[int]] = Field(description="Checksum of the inputs of each forward pass of the step.")
    loader_batches: int | None = Field(None, description="As the loader says, of this rank; null: it does not.")
    losses: list[Figure] | None = Field(description="Mean over the step's forward passes; null where none was seen.")
    looks: list[UpdateNorms]
    probed: ProbedOperations | None = Field(description="null: fewer than three steps, or a compiled model.")
    parameters: int
    trainable: int
    weights: str | None = Field(description="Checksum of all weights at the end; null where they are sharded.")
    parameter_dtypes: str
    memory_bytes: int | None = Field(description="Peak of the CUDA allocator; null on a CPU.")
    threads: int
    cores: list[int]
    wall_s: float = Field(description="Of all steps, by the host's clock.")
    versions: dict[str, str]
    float32_products: str | None = Field(
        None, description="torch.get_float32_matmul_precision() in all steps: highest, high (TF32), joined by +."
    )
    backward: list[int] | None = Field(None, description="Forward passes of which a gradient came back; null: unseen.")
    layer_dtypes: dict[str, int] = Field({}, description="Of what the largest layer returned: dtype -> forward passes.")
    forwards: int | None = Field(None, description="Forward passes in training; null: an older record.")
    evaluated: int = Field(0, description="Steps with a backward pass through the model in evaluation mode.")
    traces: list[int] = Field([], description="Checksums: of all parameters at the start, of one after each step.")
    carried: bool = Field(False, description="In the first steps gradients were those of the step before, and more.")
    left_out: int | None = Field(
        None, description="Parameters with gradients that the optimizer lacks and nothing changed; null: older record."
    )


def watched_folder(place: Path) -> Path | None:
    """Return the folder of watched ranks: `place`, the folder of such a file, or FOLDER inside; None for others."""
    folders = (place.parent if place.match(PATTERN) else place, place / FOLDER)
    return next((folder for folder in folders if any(folder.glob(PATTERN))), None)


def read_watched(folder: Path) -> list[WatchedRank]:
    """Return all ranks below `folder`, in their order. Raises UserError where it has no rank, or a file is damaged."""
    files = sorted(folder.glob(PATTERN))
    if not files:
        raise UserError(f"{folder}: no {PATTERN}; scaleproof.watch writes one for each rank")
    ranks = []
    for file in files:
        try:
            ranks.append(WatchedRank.model_validate_json(read_regular(file)))
        except ValidationError as error:
            raise UserError(f"{file} is not a record of scaleproof.watch: {describe_first_fault(error)}") from None
    return sorted(ranks, key=lambda rank: rank.rank)
