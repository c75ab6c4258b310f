"""What the launcher hands to every rank. Imports no torch."""

import json
import os
import time
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.command import Setting
from scaleproof.ground.campaign.config import SECTIONS, shape_of
from scaleproof.ground.campaign.model_shapes import EncoderShape
from scaleproof.ground.campaign.transformers_model import TransformersModel
from scaleproof.ground.records.corpus_files import read_tokens
from scaleproof.ground.records.run_sections import TrainingConfig
from scaleproof.measure.corpus.reader import LABELS, samples_in

FAILURE = "failure.{rank}.json"  # written by a rank that fails, into the request's folder
VARIABLE = "SCALEPROOF_HEARTBEAT"  # the file's path
PHASES = 3  # marks per step: samples taken, gradients computed, weights updated


@dataclass(frozen=True)
class PlannedRun:
    """A run to make: of which cell of which campaign, on which tokens, and how long it may take."""

    cell: Cell
    campaign: str
    tokens: Path  # folder of tokens.json; without meaning for a command
    time_limit: float  # seconds
    repeat: int = 1
    witness_steps: int = 0  # steps to make once more after the run, each looked at


@dataclass(frozen=True)
class Request:
    """A run to make, as the ranks read it: the cell, its tokens, the folder for results, and its provenance."""

    campaign: str
    slug: str
    repeat: int
    sections: dict[str, Any]  # the sections of the cell's configuration
    tokens: str  # folder of tokens.json
    out: str  # folder that the results are written into
    run_id: str
    started: float  # seconds since the epoch, of the launcher
    time_limit: float  # seconds for the whole run
    provenance: dict[str, Any]  # git, env, host, hardware, scheduler, command line: as in the metrics
    hosts: list[str] = field(default_factory=list)  # the nodes of the run, in an allocation
    gpus: int = 0  # CUDA devices that the launcher saw on its node
    witness_steps: int = 0
    settings: dict[str, Any] = field(default_factory=dict)  # a command's settings: name -> label and text

    @classmethod
    def for_cell(cls, cell: Cell, tokens: Path, out: Path, *, provenance: dict[str, Any], **names: Any) -> "Request":
        """Return the request for a run of `cell` that starts now. `names`: the other fields; repeat is 1 by default."""
        sections = {name: getattr(cell, name).model_dump(mode="json") for name in SECTIONS}  # read back by `cell`
        sections["execution"]["geometry"] = str(cell.execution.geometry)
        return cls(
            slug=cell.slug,
            sections=sections,
            settings=cell.settings,
            tokens=str(tokens),
            out=str(out),
            started=time.time(),
            provenance=provenance,
            **{"repeat": 1} | names,
        )

    @cached_property
    def cell(self) -> Cell:
        """The cell, read back from `sections` and `settings`."""
        sections: dict[str, Any] = {name: model.model_validate(self.sections[name]) for name, model in SECTIONS.items()}
        settings = {name: Setting(*labelled) for name, labelled in self.settings.items()}
        return Cell(self.slug, **sections, settings=settings)

    @cached_property
    def description(self) -> dict[str, Any]:
        """What tokens.json of the corpus says."""
        return dict(read_tokens(Path(self.tokens)))

    def known(self) -> dict[str, Any]:
        """Return the fields of the metrics that are known before the run; the metrics of a failed run have them too."""
        names: dict[str, Any] = {
            "run_id": self.run_id,
            "campaign": self.campaign,
            "cell": self.slug,
            "repeat": self.repeat,
            "fingerprint": self.cell.fingerprint,
            "config": self.cell.config,
            **self.provenance,
        }
        if self.cell.command is not None:
            return names | {"evidence": "printed", "data": None, "training_config": None}

        entries = {split: self.description[split] for split in ("train", "val")}
        labels = {split: entry[LABELS] for split, entry in entries.items() if LABELS in entry}
        data = {name: value for name, value in self.description.items() if name not in entries}
        data |= {f"{split}_sha256": entry["sha256"] for split, entry in entries.items()}
        data |= {f"{split}_labels_sha256": entry["sha256"] for split, entry in labels.items()}
        return names | {"data": data, "training_config": self._training_section()}

    def _training_section(self) -> TrainingConfig:
        """Return the section `training_config` of the metrics: settings, and names and sizes of model and data."""
        cell = self.cell
        shape = shape_of(cell.workload.model)
        if isinstance(shape, EncoderShape):
            family = "encoder"
            size = (
                f"num_layers={shape.layers}, n_heads={shape.heads}, d_model={shape.d_model}, "
                f"dim_feedforward={shape.feed_forward}"
            )
        elif isinstance(shape, TransformersModel):
            family = shape.slug()
            size = str(shape.file)
        else:
            family = "gpt2"
            size = f"n_layer={shape.layers}, n_head={shape.heads}, n_embd={shape.width}"
        return TrainingConfig.for_cell(
            cell,
            model_name=cell.workload.model if isinstance(cell.workload.model, str) else family,
            model_size=size,
            dataset_name=self.description["corpus"],
            dataset_subset_sizes={
                split: samples_in(self.description[split], cell.workload) for split in ("train", "val")
            },
        )

    def write(self, path: Path) -> None:
        """Write the request into the file `path`, for the ranks."""
        path.write_text(json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def read(cls, path: Path) -> "Request":
        """Return the request in the file `path`."""
        return cls(**json.loads(path.read_text()))


def open_heartbeat(local_rank: int) -> np.ndarray:
    """Return this rank's mark in the launcher's file: one int64, the number of phases done (PHASES in each step)."""
    path = os.environ.get(VARIABLE)
    if not path:  # started by hand: nobody looks
        return np.zeros(1, dtype=np.int64)
    return np.memmap(path, dtype=np.int64, mode="r+")[local_rank : local_rank + 1]
