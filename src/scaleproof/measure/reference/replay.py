"""The replay: the first steps of a workload in one plain process, in strict fp32.

It imports nothing of corpus, model, strategy or trainer: what is wrong there cannot
be wrong here as well. The same steps are made again with the rows of each in other
orders: how far apart they come to be is how much training itself amplifies rounding.
"""

import time
import traceback
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from scaleproof.measure.reference.network import build_network
from scaleproof.measure.reference.planned import (
    BUDGET_S,
    LIMIT_S,
    MOST_STEPS,
    SERIES_PART,
    PlannedSteps,
    steps_to_replay,
)
from scaleproof.measure.reference.schema import Reference, Repetition
from scaleproof.measure.reference.training import (
    OTHER_ORDERS,
    ROWS_AS_WRITTEN,
    CutShort,
    GoesOn,
    Rounding,
    TrainedSteps,
    bytes_of_row,
    free_bytes,
    make_steps,
    mean_loss,
    rows_that_fit,
)

FIRST_ROWS, FIRST_S = 4, 5.0  # samples that are scored before step 0; no further one after as long
FORWARD_PASSES = 3  # a step takes as long as so many of its rows
PATIENCE = 1.5  # a replay that takes so many times its limit ends within a step


def replay(config: dict[str, Any], tokens: Path) -> Reference:
    """Return the reference of a cell with the configuration `config`, replayed on the corpus in the folder `tokens`.

    Where time or memory does not suffice the reference has fewer losses, or none, and says why. Raises UserError where
    a token file is missing or not the one that its tokens.json describes.
    """
    began, plan = time.perf_counter(), PlannedSteps(config, tokens)
    reference = plan.reference()
    return reference.model_copy(update=replay_fields(plan) | {"seconds": time.perf_counter() - began})


def replay_fields(plan: PlannedSteps, limit_s: float = LIMIT_S) -> dict[str, Any]:
    """Train as planned for about `limit_s` seconds at most; return the fields of a Reference that this gives.

    Never raises where the tokens are right: `shortened` says why there are no more steps.
    """
    fields: dict[str, Any] = {}  # also of a replay that ends early
    try:
        _add_replays(fields, plan, SERIES_PART * limit_s)
    except CutShort as reason:
        fields["shortened"] = str(reason)
    except Exception as error:  # a device or a library that fails: no run is worse for it
        traceback.print_exc()
        first, *_ = str(error).strip().splitlines() or [""]
        fields["shortened"] = f"it ended with {type(error).__name__}: {first}"
    return fields


def _add_replays(fields: dict[str, Any], plan: PlannedSteps, limit_s: float) -> None:
    """Train the first steps with rows as written and in OTHER_ORDERS; add to `fields` the steps that all have made.

    `limit_s`: seconds of each. Raises CutShort, or a library's error, after adding what is known so far.
    """
    torch.set_float32_matmul_precision("highest")
    on_cpu = plan.config["execution"]["device"] == "cpu" or not torch.cuda.is_available()
    device = torch.device("cpu" if on_cpu else "cuda")
    fields["device"] = "cpu" if on_cpu else torch.cuda.get_device_name(device)
    original = build_network(plan.workload, plan.work["seed"], plan.train_split.classes)
    parameters = sum(parameter.numel() for parameter in original.parameters())
    fields["parameters"] = parameters
    fields["decayed"] = sum(parameter.numel() for parameter in original.parameters() if parameter.dim() > 1)
    rows = rows_that_fit(plan.workload, parameters, device)
    if on_cpu and not rows:  # the system would end this process, or another
        free = f"{free_bytes(device) / 1e9:.1f} GB are free"
        raise CutShort(f"a row may take {bytes_of_row(plan.workload) / 1e9:.1f} GB beside the weights, and {free}")
    fields["first_losses"], row_s = _score_first_samples(plan, deepcopy(original).to(device))
    tokens_per_step = plan.work["global_batch"] * plan.workload["seq_len"]
    pace = ReplayPace(
        fewest_steps=min(plan.total_steps, steps_to_replay(parameters, tokens_per_step)),
        most_steps=min(plan.total_steps, MOST_STEPS),
        step_s=FORWARD_PASSES * row_s * plan.work["global_batch"],
        limit_s=limit_s,
    )

    def train(rows: int, rounding: Rounding, goes_on: GoesOn) -> tuple[TrainedSteps, str | None]:
        """Train from the initial weights; return the steps, and why they ended early (None: they did not)."""
        steps, model = TrainedSteps(rows), deepcopy(original).to(device)
        return steps, _train_and_validate(plan, model, steps, rounding, goes_on, PATIENCE * limit_s)

    first, reason = train(max(1, rows), ROWS_AS_WRITTEN, pace.goes_on)
    others, reasons = [], [reason, pace.shortened]  # why one has no more steps; None: it has enough
    for rounding in OTHER_ORDERS:
        other, reason = train(first.rows, rounding, lambda n_steps: n_steps < len(first.losses))
        others.append(other)
        reasons.append(reason)
    n_steps = min(len(trained.losses) for trained in (first, *others))
    for trained in (first, *others):
        del trained.losses[n_steps:], trained.gradient_norms[n_steps:]
        if n_steps < plan.total_steps:
            trained.validation_loss = None
    fields |= first.fields() | {
        "repetitions": [Repetition(**other.fields()) for other in others if n_steps],
        "shortened": next(filter(None, reasons), None),
    }


def _train_and_validate(
    plan: PlannedSteps, model: nn.Module, trained: TrainedSteps, rounding: Rounding, goes_on: GoesOn, limit_s: float
) -> str | None:
    """Train the steps of one replay into `trained`, and validate if all were trained.

    Returns why training ended before `goes_on` said so, else None. `limit_s`: seconds of the steps, and again of the
    validation.
    """
    try:
        make_steps(model, plan.train_split, plan.work, trained, rounding, goes_on, time.monotonic() + limit_s)
        if len(trained.losses) == plan.total_steps and len(plan.scored_ids):
            deadline = time.monotonic() + limit_s
            trained.validation_loss = mean_loss(model, plan.validation_split, plan.scored_ids, trained.rows, deadline)
    except CutShort as reason:
        return str(reason)
    return None


@dataclass
class ReplayPace:
    """How many steps are trained: `fewest_steps`, and up to `most_steps` as time allows; `step_s`: expected for one."""

    fewest_steps: int
    most_steps: int
    step_s: float
    limit_s: float
    began: float = field(default_factory=time.monotonic)
    shortened: str | None = None  # why there are fewer than `fewest_steps`

    def goes_on(self, n_steps: int) -> bool:
        """Return whether to begin a step after `n_steps` steps; if these are too few, note in `shortened` why.

        The fewest steps may take `limit_s` seconds; further ones are made as long as all take BUDGET_S.
        """
        took = time.monotonic() - self.began
        step_s = took / n_steps if n_steps else self.step_s
        if n_steps < self.fewest_steps and took + step_s > self.limit_s:
            self.shortened = f"a step takes about {step_s:,.0f} s here, all steps may take {self.limit_s:,.0f} s"
        limit_s = self.limit_s if n_steps < self.fewest_steps else BUDGET_S
        return n_steps < self.most_steps and took + step_s <= limit_s


def _score_first_samples(plan: PlannedSteps, model: nn.Module) -> tuple[list[float], float]:
    """Return the losses of the samples of step 0 with the smallest ids, one by one, and the seconds of the last."""
    device, began = next(model.parameters()).device, time.monotonic()
    losses: list[float] = []
    with torch.no_grad():
        for row in plan.train_split.rows(np.sort(plan.ids_of_step(0))[:FIRST_ROWS]):
            started = time.monotonic()
            losses += model(torch.from_numpy(row[None]).to(device)).tolist()
            if time.monotonic() - began > FIRST_S:
                break
    return losses, time.monotonic() - started
