"""The learning-rate schedule and the groups of the optimizer."""

import pytest

from scaleproof.ground.campaign.config import Work
from scaleproof.measure.strategy.base import learning_rate, make_optimizer


def work(**schedule):
    data = {"steps": 90, "warmup_steps": 10, "optimizer": {"learning_rate": 1.0}, "schedule": schedule}
    return Work.model_validate(data)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ({}, {0: 1.0, 50: 1.0, 99: 1.0}),
        ({"ramp_steps": 4}, {0: 0.25, 1: 0.5, 3: 1.0, 4: 1.0, 99: 1.0}),
        ({"name": "linear", "final_fraction": 0.0}, {0: 1.0, 50: 0.5, 100: 0.0}),
        ({"name": "cosine", "final_fraction": 0.1}, {0: 1.0, 50: 0.55, 100: 0.1}),
        ({"name": "linear", "ramp_steps": 20, "final_fraction": 0.5}, {9: 0.5, 20: 1.0, 60: 0.75, 100: 0.5}),
    ],
)
def test_learning_rate(schedule, expected):
    for step, rate in expected.items():
        assert learning_rate(work(**schedule), step) == pytest.approx(rate), step


def test_only_matrices_decay():
    from synthetic import cells

    from scaleproof.measure.model.build import build_model

    cell = cells()[0]
    model = build_model(cell)
    decaying, still = make_optimizer(model, cell).param_groups
    assert decaying["weight_decay"] == 0.1
    assert still["weight_decay"] == 0.0
    assert all(p.dim() == 2 for p in decaying["params"])
    assert all(p.dim() == 1 for p in still["params"])
    assert len(decaying["params"]) + len(still["params"]) == len(list(model.parameters()))


def test_settings_are_those_of_the_cell():
    from synthetic import cells

    from scaleproof.measure.model.build import build_model

    settings = {"learning_rate": 0.01, "betas": [0.8, 0.99], "eps": 1e-6, "weight_decay": 0.2}
    cell = cells(work={"optimizer": settings})[0]
    decaying, still = make_optimizer(build_model(cell), cell).param_groups
    for group in (decaying, still):
        assert (group["lr"], group["betas"], group["eps"]) == (0.01, (0.8, 0.99), 1e-6)
    assert decaying["weight_decay"] == 0.2
