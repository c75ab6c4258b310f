"""Reading a run folder."""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from scalebench.errors import UserError
from scalebench.record.metrics import Metrics
from scalebench.record.steps import read_steps, window_steps

METRICS, STEPS, LAUNCHER, COMPLETE, LOG = (
    "training_metrics.json", "steps.csv", "launcher_metadata.json", "RUN_COMPLETE.txt", "train.log",
)  # fmt: skip
CAPTURE = "capture.json"  # of a traced run, in a folder of its own


@dataclass(frozen=True)
class Run:
    """One run: its folder, its metrics, and its raw series, read when asked for."""

    folder: Path
    metrics: Metrics
    label: str | None = None  # of an arm of a pair: both arms of a null pair have one cell and one number

    @property
    def name(self) -> str:
        return self.label or f"{self.metrics.cell}/rep{self.metrics.repeat}"

    @property
    def ok(self) -> bool:
        return self.metrics.status == "ok"

    @cached_property
    def steps(self) -> np.ndarray:
        """The raw series. Raises UserError where the file is not the one that the metrics were written with."""
        path = self.folder / STEPS
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != self.metrics.files.get(STEPS):
            raise UserError(
                f"{path} is not the file that {METRICS} beside it describes (its sha256 differs); "
                f"make it anew: scalebench retry config/campaigns/{self.metrics.campaign}.yaml --cell {self.metrics.cell}"
            )
        return read_steps(data.decode())

    @cached_property
    def window(self) -> dict[str, np.ndarray]:
        return window_steps(self.steps)


def read_planned(folder: Path, cell: str, repeat: int, fingerprint: str) -> Run:
    """The run in `folder`, which must be the one that was planned there. Raises UserError otherwise."""
    run = read_run(folder)
    found = (run.metrics.cell, run.metrics.repeat, run.metrics.fingerprint)
    if found != (cell, repeat, fingerprint):
        what = f"{run.name}" if found[:2] != (cell, repeat) else "a run of another configuration"
        raise UserError(
            f"{folder / METRICS} is {what}; the campaign plans {cell}/rep{repeat} there. Make it anew with snakemake"
        )
    return run


def read_run(folder: Path) -> Run:
    """The run in `folder`. Raises UserError where its metrics are missing or not of schema 3."""
    path = folder / METRICS
    try:
        return Run(folder, Metrics.model_validate_json(path.read_bytes()))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; there is no run in this folder") from None
    except (ValidationError, json.JSONDecodeError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else None
        place = ".".join(map(str, first["loc"])) if first else ""  # empty where the file is no JSON
        detail = ": ".join(filter(None, [place, first["msg"]])) if first else str(error)
        raise UserError(f"{path} is not a metrics file of schema 3: {detail}") from None
