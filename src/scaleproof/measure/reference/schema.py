"""`reference/<workload>.json`: what the replay of a workload has computed, and how a run finds its own.

Imports no torch.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, ValidationError

from scaleproof.ground.errors import UserError, damaged_file, describe_first_fault
from scaleproof.ground.files import read_record, read_regular

FOLDER = "reference"  # of a campaign's results
FOLDERS_ABOVE = 5  # folders above a run in which references are looked for, the nearest first
SECOND_READING = "second_reading.json"  # beside the token files
# Keys of `work` that say how a global batch is cut up, not which samples are in it.
HOW_IT_IS_CUT = ("micro_batch", "accumulation")


class Repetition(BaseModel, extra="forbid", frozen=True):
    """The first steps once more, rounded differently: how far the two differ is what rounding explains."""

    losses: list[float] = Field(description="As those of the reference, and as many.")
    gradient_norms: list[float]
    validation_loss: float | None = None


class CorpusReading(BaseModel, extra="forbid", frozen=True):
    """The token files, compared with the documents that they are made of (`corpus_reader`)."""

    documents: int = Field(description="Of the corpus.")
    read: int = Field(description="Documents that were tokenised again.")
    differences: list[str] = Field(
        description="What differs from source, documents and tokenizer, a sentence each; in files of before schema 1.3 "
        "from documents and tokenizer."
    )
    compared: int | None = Field(None, description="Documents compared with their source; null in older files.")
    unread: str | None = Field(None, description="Why not all were; null where all were, and in older files.")
    distinct_tokens: int = Field(description="Entries of the tokenizer that occur in the training split.")
    entropy_bits: float = Field(description="Of the training split's tokens, one by one; in bits a token.")
    repeated_documents: float | None = Field(
        description="Share of the training documents of 64 tokens and more that stand there more than once, the first "
        "not counted; null without such documents."
    )
    validation_in_training: float | None = Field(
        description="Share of the validation documents of 64 tokens and more that are training documents as well."
    )


class Reference(BaseModel, extra="forbid", frozen=True):
    """The replay of one workload: model, corpus, global batch, optimizer, schedule and seed."""

    schema_version: Literal["1.0", "1.1", "1.2", "1.3"] = "1.3"
    workload: str = Field(description="Name of the workload: the model and a hash of what makes its steps.")
    train_sha256: str = Field(description="Of the token file that was read.")
    device: str = Field(description="cpu, or the name of the GPU; always strict fp32.")
    torch_version: str
    parameters: int | None = Field(description="Counted on the replayed model; null where there was none.")
    losses: list[float] = Field(
        description="Mean loss of each step from step 0 on, before its update; in nats. Empty where none was replayed."
    )
    total_steps: int = Field(description="Warm-up and window of a run; the replay may have made fewer.")
    validation_loss: float | None = Field(
        None, description="After the last step; null where the replay ended before it, or nothing is scored."
    )
    validation_checksum: str | None = Field(None, description="Of the validation samples' tokens; null without any.")
    step_checksums: dict[int, str] = Field(description="Of all tokens of some steps, whatever their order.")
    window_chain: str | None = Field(
        None, description="Chain of the tokens of all steps of the window; null in older files."
    )
    first_losses: list[float] = Field(
        [], description="Before step 0, of the samples of step 0 with the smallest ids; empty in older files."
    )
    gradient_norms: list[float] = Field(
        [], description="2-norm of all gradients of each replayed step before clipping; empty in older files."
    )
    decayed: int | None = Field(None, description="Elements of the tensors with weight decay; null in older files.")
    repetitions: list[Repetition] = Field(
        [], description="The replay with the rows of each step in other orders; empty in files of schema 1.0."
    )
    corpus: CorpusReading | None = Field(None, description="The second reading of the corpus; null before schema 1.2.")
    shortened: str | None = Field(
        None, description="Why there are fewer losses than the budget has room for, or none; null where all are there."
    )
    seconds: float


def read_second_reading(tokens: Path) -> CorpusReading | None:
    """Return the second reading of the tokens in a folder, None without one. Raises UserError for a damaged one."""
    path = tokens / SECOND_READING
    return read_record(path, CorpusReading.model_validate_json) if path.is_file() else None


def workload_name(config: Mapping[str, object]) -> str:
    """Return the name of the reference of a cell with the configuration `config`. Cells that train alike share one."""
    workload, work = config["workload"], config["work"]
    assert isinstance(workload, dict)
    assert isinstance(work, dict)
    work = {key: value for key, value in work.items() if key not in HOW_IT_IS_CUT}
    text = json.dumps([workload, work], sort_keys=True, separators=(",", ":"))
    model = workload["model"]
    prefix = model if isinstance(model, str) else "model"
    return f"{prefix}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def find_reference(run_folder: Path, config: Mapping[str, object], train_sha256: str) -> Reference | None:
    """Return the reference for the run in `run_folder`, found in the folders above it, None where there is none.

    `config`: the run's effective configuration; `train_sha256`: of the token file that both must have read. Raises
    UserError where the reference is damaged, or read other tokens.
    """
    if run_folder.is_symlink():
        folder = os.path.realpath(run_folder)
    else:  # most runs: only the parent's real path is looked up, once for all repeats (`_real_path` caches it)
        folder = os.path.join(_real_path(run_folder.parent), run_folder.name)
    name = None
    for _ in range(FOLDERS_ABOVE):
        folder = os.path.dirname(folder)
        references = os.path.join(folder, FOLDER)
        if os.path.isdir(references):
            name = name or f"{workload_name(config)}.json"  # made only here, as it takes longer than looking
            path = Path(references, name)
            if path.is_file():
                reference = read_reference(path)
                if reference.train_sha256 != train_sha256:
                    raise damaged_file(path, "it replays other tokens than those of the runs")
                return reference
    return None


@lru_cache(maxsize=4096)
def _real_path(folder: Path) -> str:
    """Return the real path of a folder. It is cached: it is needed three times a run, and slow to find."""
    return os.path.realpath(folder)


def read_reference(path: Path) -> Reference:
    """Return the reference in the file `path`. Raises UserError where it is damaged."""
    return _read_cached(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=64)
def _read_cached(path: Path, changed: int) -> Reference:
    """Return the reference in the file `path`. `changed`: its time of change (ns), so that a new one is read again."""
    try:
        return Reference.model_validate_json(read_regular(path))
    except ValidationError as error:
        raise UserError(f"{path} is not a reference of schema 1.0 to 1.3: {describe_first_fault(error)}") from None
