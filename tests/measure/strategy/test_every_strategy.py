"""A strategy that campaigns may name is known everywhere; one that nobody knows is an error and not another one."""

from typing import get_args

import pytest

from scaleproof.conclude.report.charts.style import colour
from scaleproof.ground.campaign.strategies import STAGES, StrategyName, is_deepspeed, is_offloaded, without_offload
from scaleproof.ground.facts.memory import state_bytes
from scaleproof.ground.facts.traffic import step_traffic
from scaleproof.measure.strategy import strategy_class


@pytest.mark.parametrize("name", get_args(StrategyName))
def test_a_strategy_is_known_everywhere(name):
    assert strategy_class(name).__module__.startswith("scaleproof.measure.strategy.")
    assert state_bytes(name, "fp32", 1000, 2) > 0
    assert set(step_traffic(name, "fp32", 1, 1000, 500)) == {"reduced", "gathered", "scattered"}
    assert without_offload(name) in STAGES
    assert is_deepspeed(name) == (strategy_class(name).__name__ == "Zero")
    assert colour(name).startswith("#")


def test_no_strategy_is_left_over():
    assert set(STAGES) == {name for name in get_args(StrategyName) if not is_offloaded(name)}


@pytest.mark.parametrize(
    "use",
    [strategy_class, lambda name: step_traffic(name, "fp32", 1, 1, 1), lambda name: state_bytes(name, "fp32", 1, 2)],
)
def test_an_unknown_strategy_is_an_error(use):
    with pytest.raises((ValueError, KeyError), match="tp"):
        use("tp")
