"""A further value of a key: whatever tells its values apart takes an unknown one for another of them, silently."""

import ast
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel

from scaleproof.ground.campaign.config import Work, Workload
from scaleproof.ground.campaign.corpora import Corpus
from scaleproof.ground.campaign.execution import Execution
from scaleproof.ground.campaign.optimizer import Optimizer, Schedule
from scaleproof.ground.campaign.unmeasured import Tracing

SOURCE = Path(__file__).parents[3] / "src/scaleproof"
# The words that keys allow. Add a further one once you have looked at the files that the failed test names.
VALUES = {
    (Execution, "attention"): "sdpa flash cudnn eager",
    (Execution, "bucket_elements"): "auto",
    (Execution, "compile"): "loss max-autotune reduce-overhead",
    (Execution, "device"): "auto cpu cuda",
    (Execution, "loss"): "plain chunked fused",
    (Execution, "overlap_comm"): "auto",
    (Execution, "reduce_dtype"): "fp32 bf16",
    (Execution, "start"): "fresh forked",
    (Optimizer, "name"): "adamw",
    (Schedule, "name"): "constant linear cosine",
    (Work, "micro_batch"): "derive largest fastest",
    (Workload, "rate_of"): "all device",
    (Workload, "task"): "language-modelling classification",
    (Tracing, "nodes"): "first all",
    (Tracing, "tool"): "auto nsys torch.profiler",
    (Corpus, "document"): "file paragraph line",
    (Corpus, "format"): "text jsonl parquet csv",
    (Corpus, "source"): "python-docs text jsonl parquet csv hub http dataset",
}


def words_of(kind: Any) -> set[str]:
    """The words that a type allows, in any of its alternatives."""
    if get_origin(kind) is Literal:
        return {value for value in get_args(kind) if isinstance(value, str)}
    return {word for part in get_args(kind) for word in words_of(part)}


def files_that_ask(key: str, words: set[str]) -> list[str]:
    """The files in which a constant is one of `words`; of words that many keys have, those that ask for the key."""
    telling, files = words - {"all", "auto", "device"}, []
    for path in SOURCE.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        constants = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        asked = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        if constants & telling or (not telling and key in constants | asked):
            files.append(str(path.relative_to(SOURCE)))
    return sorted(file for file in files if not file.startswith("auditor/"))


@pytest.mark.parametrize(("model", "key"), VALUES, ids=lambda part: part if isinstance(part, str) else part.__name__)
def test_whoever_tells_values_apart_has_seen_each(model: type[BaseModel], key: str):
    known = set(VALUES[model, key].split())
    new = words_of(model.model_fields[key].annotation) - known
    assert not new, f"files that tell values of {key} apart: {files_that_ask(key, known)}"
