"""How the weights are updated, and how the learning rate changes over the steps."""

from typing import Annotated, Literal

from pydantic import Field, Strict

from scaleproof.ground.campaign.field import Section, key

Decay = Annotated[float, Field(ge=0, lt=1)]


class Optimizer(Section):
    """AdamW; the learning rate is the peak of the schedule."""

    name: Literal["adamw"] = key("adamw", "Update rule.", "none")
    learning_rate: float = key(1e-3, "Peak learning rate.", "none", gt=0, le=1000)
    betas: Annotated[tuple[Decay, Decay], Strict(False)] = key(
        (0.9, 0.95), "Decay of the first and second moment.", "none"
    )
    eps: float = key(1e-8, "Added to the root of the second moment.", "none", gt=0, le=1)
    weight_decay: float = key(0.1, "Decoupled weight decay.", "none", ge=0, le=1000)
    max_grad_norm: float = key(1.0, "Clip the global gradient norm at this value; 0 does not clip.", "none", ge=0)


class Schedule(Section):
    """Learning rate against step, over warm-up and window together."""

    name: Literal["constant", "linear", "cosine"] = key("constant", "Shape of the decay after the ramp.", "none")
    ramp_steps: int = key(0, "Steps over which the rate rises linearly from 0.", "optimizer steps", ge=0, le=2 * 10**7)
    final_fraction: float = key(0.1, "Where linear and cosine end.", "part of the peak", ge=0, le=1)
