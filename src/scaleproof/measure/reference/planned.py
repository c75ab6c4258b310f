"""What a reference says without any training: which tokens make which step, and how many are replayed.

Imports no torch.
"""

from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from scaleproof.measure.reference.samples import SplitSamples, chained_checksum, checksum, step_ids, validation_ids
from scaleproof.measure.reference.schema import Reference, read_second_reading, workload_name

MOST_STEPS, LEAST_STEPS = 30, 3
REPLAYS = 3  # the steps as written, then twice with the rows of each step in another order
BUDGET_FLOPS = 3e11  # for the steps of one replay: about ten seconds of a core ...
BUDGET_S = 10.0  # ... in which a faster device may make more steps
LIMIT_S = 600.0  # for all replays: fewer than LEAST_STEPS are better than a wait
SERIES_PART = 0.2  # share of the limit for the steps of one replay; the rest is for start and validation


def steps_to_replay(parameters: int, tokens_per_step: int) -> int:
    """Return how many steps fit into the budget of FLOPs, at about 6 x parameters FLOPs a token."""
    affordable = int(BUDGET_FLOPS / (6 * parameters * tokens_per_step))
    return max(LEAST_STEPS, min(MOST_STEPS, affordable))


def expected_s(parameters: int, tokens_per_step: int, total_steps: int, step_s: float) -> float:
    """Return the expected seconds of all replays of a run of `total_steps` steps. `step_s`: seconds of a step."""
    least = min(total_steps, steps_to_replay(parameters, tokens_per_step))
    most = min(total_steps, MOST_STEPS)
    # The least number of steps is due in any case; more of them, up to the most, only within BUDGET_S.
    series_s = max(least * step_s, min(most * step_s, BUDGET_S))
    return REPLAYS * min(series_s, SERIES_PART * LIMIT_S)


@dataclass(frozen=True)
class PlannedSteps:
    """The steps of a cell with the effective configuration `config` on the corpus in the folder `tokens`."""

    config: dict[str, Any]
    tokens: Path

    @property
    def workload(self) -> dict[str, Any]:
        """The section `workload` of the configuration: model, corpus, tokenizer, length of a sample."""
        return dict(self.config["workload"])

    @property
    def work(self) -> dict[str, Any]:
        """The section `work` of the configuration: batches, steps, optimizer, seed."""
        return dict(self.config["work"])

    @cached_property
    def train_split(self) -> SplitSamples:
        """The samples of the training split. Raises UserError where a file is not as tokens.json describes it."""
        return self._samples("train")

    @cached_property
    def validation_split(self) -> SplitSamples:
        """The samples of the validation split. Raises UserError, as `train_split` does."""
        return self._samples("val")

    def _samples(self, split: str) -> SplitSamples:
        """Return the samples of a split, with labels for classification. Raises UserError, as `train_split` does."""
        labelled = self.workload["task"] == "classification"
        return SplitSamples(self.tokens, split, self.workload["seq_len"], labelled)

    @cached_property
    def scored_ids(self) -> np.ndarray:
        """The ids of the samples that the validation scores, none without a validation."""
        return validation_ids(self.validation_split.count, self.work["validation_samples"])

    @property
    def total_steps(self) -> int:
        """How many steps the run has: warm-up and window."""
        return int(self.work["warmup_steps"] + self.work["steps"])

    def ids_of_step(self, step: int) -> np.ndarray:
        """Return the ids of the samples that a step trains on."""
        return step_ids(self.train_split.count, self.work["global_batch"], self.work["seed"], step)

    def reference(self, shortened: str | None = None) -> Reference:
        """Return what runs are checked by without a replay: checksums of the tokens that each step must have read.

        A replay of the training adds losses. `shortened`: why there is no replay.
        """
        total = self.total_steps
        replayable_steps = range(min(total, MOST_STEPS))
        step_after_window = total  # a run makes it under a probe
        steps_with_checksum = sorted({*replayable_steps, total - 1, step_after_window})
        window = range(self.work["warmup_steps"], total)
        return Reference(
            workload=workload_name(self.config),
            train_sha256=self.train_split.sha256,
            device="none",
            torch_version=version("torch"),
            parameters=None,
            losses=[],
            total_steps=total,
            validation_checksum=checksum(self.validation_split.rows(self.scored_ids)) if len(self.scored_ids) else None,
            step_checksums={
                step: checksum(self.train_split.rows(self.ids_of_step(step))) for step in steps_with_checksum
            },
            window_chain=chained_checksum(self.train_split, self.work["global_batch"], self.work["seed"], window),
            corpus=read_second_reading(self.tokens),
            shortened=shortened,
            seconds=0.0,
        )
