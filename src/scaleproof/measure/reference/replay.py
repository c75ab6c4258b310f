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

FIRST_ROWS = 4  # samples that are scored before step 0
FIRST_S = 5.0  # seconds after which no further sample is scored
FORWARD_PASSES = 3  # a step takes as long as so many forward passes
PATIENCE = 1.5  # a replay that takes so many times its limit ends within a step


def replay(config: dict[str, Any], tokens: Path) -> Reference:
    """Replay a cell with the configuration `config` on the corpus in the folder `tokens`, and return its reference.

    Where time or memory does not suffice the reference has fewer losses, or none, and says why. Raises UserError where
    a token file is missing or not the one that its tokens.json describes.
    """
    began = time.perf_counter()
    plan = PlannedSteps(config, tokens)
    reference = plan.reference()
    return reference.model_copy(update=replay_fields(plan) | {"seconds": time.perf_counter() - began})


def replay_fields(plan: PlannedSteps, limit_s: float = LIMIT_S) -> dict[str, Any]:
    """Train as planned for at most about `limit_s` seconds, and return the fields of a Reference that this gives.

    Never raises where the tokens are right: the field `shortened` says why there are no more steps.
    """
    fields: dict[str, Any] = {}  # also of a replay that ends early
    try:
        _add_replays(fields, plan, SERIES_PART * limit_s)
    except CutShort as reason:
        fields["shortened"] = str(reason)
    except Exception as error:  # of a device or a library: a reference without losses does no harm to runs
        traceback.print_exc()
        first, *_ = str(error).strip().splitlines() or [""]
        fields["shortened"] = f"it ended with {type(error).__name__}: {first}"
    return fields


def _add_replays(fields: dict[str, Any], plan: PlannedSteps, limit_s: float) -> None:
    """Train the first steps in the written order of rows and in OTHER_ORDERS, and add the results to `fields`.

    `limit_s`: seconds for each order. Raises CutShort, or a library's error, after adding what is known so far.
    """
    torch.set_float32_matmul_precision("highest")
    on_cpu = plan.config["execution"]["device"] == "cpu" or not torch.cuda.is_available()
    device = torch.device("cpu" if on_cpu else "cuda")
    fields["device"] = "cpu" if on_cpu else torch.cuda.get_device_name(device)

    network = build_network(plan.workload, plan.work["seed"], plan.train_split.classes)
    parameters = sum(parameter.numel() for parameter in network.parameters())
    fields["parameters"] = parameters
    fields["decayed"] = sum(parameter.numel() for parameter in network.parameters() if parameter.dim() > 1)
    rows_at_once = rows_that_fit(plan.workload, parameters, device)
    if on_cpu and not rows_at_once:  # the system would kill a process; a GPU raises, so that one row is tried there
        free = f"{free_bytes(device) / 1e9:.1f} GB are free"
        raise CutShort(f"a row may take {bytes_of_row(plan.workload) / 1e9:.1f} GB beside the weights, and {free}")

    fields["first_losses"], row_s = _score_first_samples(plan, deepcopy(network).to(device))
    tokens_per_step = plan.work["global_batch"] * plan.workload["seq_len"]
    pace = ReplayPace(
        fewest_steps=min(plan.total_steps, steps_to_replay(parameters, tokens_per_step)),
        most_steps=min(plan.total_steps, MOST_STEPS),
        step_s=FORWARD_PASSES * row_s * plan.work["global_batch"],
        limit_s=limit_s,
    )
    fields |= _train_in_all_orders(plan, network, pace, max(1, rows_at_once), device)


def _train_in_all_orders(
    plan: PlannedSteps, network: nn.Module, pace: "ReplayPace", rows_at_once: int, device: torch.device
) -> dict[str, Any]:
    """Train a copy of `network` for each order of rows, and return their steps as fields of a Reference.

    The steps are those that all orders have made. `rows_at_once`: how many rows go through the model together.
    """
    reasons: list[str | None] = []  # why an order has no more steps; None: it has enough

    def train(rows_at_once: int, rounding: Rounding, goes_on: GoesOn) -> TrainedSteps:
        """Train from the initial weights, and add to `reasons` why training ended early."""
        trained = TrainedSteps(rows_at_once)
        model = deepcopy(network).to(device)
        reasons.append(_train_and_validate(plan, model, trained, rounding, goes_on, PATIENCE * pace.limit_s))
        return trained

    first = train(rows_at_once, ROWS_AS_WRITTEN, pace.goes_on)
    reasons.append(pace.shortened)
    # As many steps as the first, with as many rows at once as memory has allowed it.
    others = [train(first.rows, rounding, lambda n_steps: n_steps < len(first.losses)) for rounding in OTHER_ORDERS]

    # All orders are cut to the steps that each has made. Validations count only after the run's last step.
    n_steps = min(len(trained.losses) for trained in (first, *others))
    for trained in (first, *others):
        del trained.losses[n_steps:], trained.gradient_norms[n_steps:]
        if n_steps < plan.total_steps:
            trained.validation_loss = None
    repetitions = [Repetition(**other.fields()) for other in others] if n_steps else []
    first_reason = next((reason for reason in reasons if reason), None)
    return first.fields() | {"repetitions": repetitions, "shortened": first_reason}


def _train_and_validate(
    plan: PlannedSteps, model: nn.Module, trained: TrainedSteps, rounding: Rounding, goes_on: GoesOn, limit_s: float
) -> str | None:
    """Train the steps of one replay, and validate after the run's last step. Both are added to `trained`.

    Returns why training ended before `goes_on` said so, else None. `limit_s`: seconds for the steps, and as many for
    the validation.
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
    """How many steps are trained: `fewest_steps`, and up to `most_steps` as time allows."""

    fewest_steps: int
    most_steps: int
    step_s: float  # expected for a step
    limit_s: float  # for the fewest steps together
    began: float = field(default_factory=time.monotonic)
    shortened: str | None = None  # why there are fewer than `fewest_steps`

    def goes_on(self, n_steps: int) -> bool:
        """Return whether to begin another step after `n_steps` steps.

        The fewest steps may take `limit_s` seconds: if they would take longer, `shortened` says so. More steps are made
        as long as all together take at most BUDGET_S.
        """
        passed_s = time.monotonic() - self.began
        step_s = passed_s / n_steps if n_steps else self.step_s
        has_too_few = n_steps < self.fewest_steps
        if has_too_few and passed_s + step_s > self.limit_s:
            self.shortened = f"a step takes about {step_s:,.0f} s here, all steps may take {self.limit_s:,.0f} s"
        limit_s = self.limit_s if has_too_few else BUDGET_S
        return n_steps < self.most_steps and passed_s + step_s <= limit_s


def _score_first_samples(plan: PlannedSteps, model: nn.Module) -> tuple[list[float], float]:
    """Return the losses of the samples of step 0 with the smallest ids, and the seconds that the last one took.

    They are at most FIRST_ROWS samples; none is begun once FIRST_S seconds have passed. From the seconds the time of a
    step is estimated: of the last one, because the first also waits for the device's start.
    """
    device = next(model.parameters()).device
    began = time.monotonic()
    losses: list[float] = []
    with torch.no_grad():
        for row in plan.train_split.rows(np.sort(plan.ids_of_step(0))[:FIRST_ROWS]):
            started = time.monotonic()
            losses += model(torch.from_numpy(row[None]).to(device)).tolist()  # the model returns the loss of each row
            if time.monotonic() - began > FIRST_S:
                break
    return losses, time.monotonic() - started  # of the last sample alone
