"""`reference/<workload>.json`: what the replay of a workload has computed, and how a run finds its own.

Imports no torch.
"""

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from scalebench.errors import UserError

FOLDER = "reference"  # of a campaign's results
# Keys of `work` that say how a global batch is cut up, not which samples are in it.
HOW_IT_IS_CUT = ("micro_batch", "accumulation")


class Reference(BaseModel):
    """The replay of one workload: model, corpus, global batch, optimizer, schedule and seed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal["1.0"] = "1.0"
    workload: str = Field(description="Name of the workload: the model and a hash of what makes its steps.")
    train_sha256: str = Field(description="Of the token file that was read.")
    device: str = Field(description="cpu, or the name of the GPU; always strict fp32.")
    torch_version: str
    parameters: int = Field(description="Counted on the replayed model.")
    losses: list[float] = Field(description="Mean loss of each step from step 0 on, before its update; in nats.")
    total_steps: int = Field(description="Warm-up and window of a run; the replay may have made fewer.")
    validation_loss: float | None = Field(
        None, description="After the last step; null where the replay ended before it, or nothing is scored."
    )
    validation_checksum: str | None = Field(None, description="Of the validation samples' tokens; null without any.")
    step_checksums: dict[int, str] = Field(description="Of all tokens of some steps, whatever their order.")
    seconds: float


def workload_name(config: dict[str, Any]) -> str:
    """Name of the reference of a cell with the effective configuration `config`; equal for cells that train alike."""
    work = {key: value for key, value in config["work"].items() if key not in HOW_IT_IS_CUT}
    text = json.dumps([config["workload"], work], sort_keys=True, separators=(",", ":"))
    model = config["workload"]["model"]
    prefix = model if isinstance(model, str) else "model"
    return f"{prefix}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def reference_of(run_folder: Path, config: dict[str, Any], train_sha256: str) -> Reference | None:
    """The reference of the run in `run_folder`, from the results that it is part of; None where there is none.

    Raises UserError where the file is damaged.
    """
    name = f"{workload_name(config)}.json"
    for folder in run_folder.resolve().parents[:5]:
        path = folder / FOLDER / name
        if path.is_file():
            reference = read_reference(path)
            return reference if reference.train_sha256 == train_sha256 else None
    return None


def read_reference(path: Path) -> Reference:
    """The reference in `path`. Raises UserError where it is none."""
    return _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=64)
def _read(path: Path, changed: int) -> Reference:
    try:
        return Reference.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{path} is not a reference of schema 1.0: {key}: {first['msg']}") from None
