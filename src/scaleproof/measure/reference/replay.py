"""The replay: the first steps of a workload in one plain process, in strict fp32.

It imports nothing of corpus, model, strategy or trainer: what is wrong there cannot
be wrong here as well. The same steps are made again with the rows of each in other
orders: how far apart they come to be is how much training itself amplifies rounding.
"""

import time
import traceback
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from scaleproof.measure.reference.network import build
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
    AS_WRITTEN,
    OTHERWISE,
    Made,
    Rounding,
    TooMuch,
    bytes_of_row,
    free_bytes,
    make_steps,
    mean_loss,
    rows_that_fit,
)

FIRST_ROWS, FIRST_S = 4, 5.0  # samples that are scored before step 0; no further one after as long
FORWARD_PASSES = 3  # a step takes as long as so many of its rows
PATIENCE = 1.5  # a series that takes so many times as long as it may ends within a step


def replay(config: dict[str, Any], tokens: Path) -> Reference:
    """Replay the workload of a cell with the effective configuration `config` on the corpus in the folder `tokens`.

    Where time or memory does not suffice the reference has fewer losses, or none, and says why. Raises UserError where
    a token file is missing or not the one that its tokens.json describes.
    """
    began, plan = time.perf_counter(), PlannedSteps(config, tokens)
    reference = plan.reference()
    return reference.model_copy(update=replayed(plan) | {"seconds": time.perf_counter() - began})


def replayed(plan: PlannedSteps, limit_s: float = LIMIT_S) -> dict[str, Any]:
    """Train as planned for about `limit_s` seconds at most; returns the fields of a Reference that come of it.

    Never raises where the tokens are right: `shortened` says why there are no more steps.
    """
    fields: dict[str, Any] = {}
    try:
        _train(plan, fields, SERIES_PART * limit_s)
    except TooMuch as reason:
        fields["shortened"] = str(reason)
    except Exception as error:  # a device or a library that fails: no run is worse for it
        traceback.print_exc()
        first, *_ = str(error).strip().splitlines() or [""]
        fields["shortened"] = f"it ended with {type(error).__name__}: {first}"
    return fields


def _train(plan: PlannedSteps, fields: dict[str, Any], limit_s: float) -> None:
    """Make all series, each in `limit_s`, and fill `fields` of a Reference. Raises TooMuch, or a library's error."""
    torch.set_float32_matmul_precision("highest")
    on_cpu = plan.config["execution"]["device"] == "cpu" or not torch.cuda.is_available()
    device = torch.device("cpu" if on_cpu else "cuda")
    fields["device"] = "cpu" if on_cpu else torch.cuda.get_device_name(device)
    original = build(plan.workload, plan.work["seed"], plan.train.classes)
    parameters = sum(parameter.numel() for parameter in original.parameters())
    fields["parameters"] = parameters
    fields["decayed"] = sum(parameter.numel() for parameter in original.parameters() if parameter.dim() > 1)
    rows = rows_that_fit(plan.workload, parameters, device)
    if on_cpu and not rows:  # the system would end this process, or another
        free = f"{free_bytes(device) / 1e9:.1f} GB are free"
        raise TooMuch(f"a row may take {bytes_of_row(plan.workload) / 1e9:.1f} GB beside the weights, and {free}")
    fields["first_losses"], row_s = _first_losses(plan, deepcopy(original).to(device))
    tokens_per_step = plan.work["global_batch"] * plan.workload["seq_len"]
    pace = ReplayPace(
        least=min(plan.total_steps, steps_to_replay(parameters, tokens_per_step)),
        most=min(plan.total_steps, MOST_STEPS),
        step_s=FORWARD_PASSES * row_s * plan.work["global_batch"],
        limit_s=limit_s,
    )

    def series(rows: int, rounding: Rounding, goes_on: Callable[[int], bool]) -> tuple[Made, str | None]:
        """One series from the initial weights, and why it ended early; None where it did not."""
        made = Made(rows)
        return made, _make(plan, deepcopy(original).to(device), made, rounding, goes_on, PATIENCE * limit_s)

    first, reason = series(max(1, rows), AS_WRITTEN, pace.goes_on)
    others, reasons = [], [reason, pace.shortened]  # why there are no more steps; None: there are enough
    for rounding in OTHERWISE:
        made, reason = series(first.rows, rounding, lambda steps_made: steps_made < len(first.losses))
        others.append(made)
        reasons.append(reason)
    # All series are cut to the length of the shortest.
    steps = min(len(made.losses) for made in (first, *others))
    for made in (first, *others):
        del made.losses[steps:], made.gradient_norms[steps:]
        if steps < plan.total_steps:
            made.validation_loss = None
    fields |= first.fields() | {
        "repetitions": [Repetition(**made.fields()) for made in others if steps],
        "shortened": next(filter(None, reasons), None),
    }


def _make(
    plan: PlannedSteps, model: nn.Module, made: Made, rounding: Rounding, goes_on: Callable[[int], bool], limit_s: float
) -> str | None:
    """Add to `made` the steps of one series that trains `model`, and its validation loss where it is whole.

    Returns why it ended before `goes_on` ended it, None where it did not. `limit_s`: seconds of the steps, and again of
    the validation.
    """
    try:
        make_steps(model, plan.train, plan.work, made, rounding, goes_on, time.monotonic() + limit_s)
        if len(made.losses) == plan.total_steps and len(plan.scored):
            deadline = time.monotonic() + limit_s
            made.validation_loss = mean_loss(model, plan.validation, plan.scored, made.rows, deadline)
    except TooMuch as reason:
        return str(reason)
    return None


@dataclass
class ReplayPace:
    """How many steps are made: `least` by their FLOPs, up to `most` as time allows; `step_s` is expected of a step."""

    least: int
    most: int
    step_s: float
    limit_s: float
    began: float = field(default_factory=time.monotonic)
    shortened: str | None = None  # why there are fewer than `least`

    def goes_on(self, made: int) -> bool:
        """Whether a further step is begun after `made` steps; notes why where there are fewer than `least`."""
        took = time.monotonic() - self.began
        step_s = took / made if made else self.step_s
        if made < self.least and took + step_s > self.limit_s:
            self.shortened = f"a step takes about {step_s:,.0f} s here, all steps may take {self.limit_s:,.0f} s"
        limit_s = self.limit_s if made < self.least else BUDGET_S
        return made < self.most and took + step_s <= limit_s


def _first_losses(plan: PlannedSteps, model: nn.Module) -> tuple[list[float], float]:
    """Losses of the samples of step 0 with the smallest ids, one by one, and the seconds of the last of them."""
    device, began = next(model.parameters()).device, time.monotonic()
    losses: list[float] = []
    with torch.no_grad():
        for row in plan.train.rows(np.sort(plan.ids(0))[:FIRST_ROWS]):
            started = time.monotonic()
            losses += model(torch.from_numpy(row[None]).to(device)).tolist()
            if time.monotonic() - began > FIRST_S:
                break
    return losses, time.monotonic() - started
