"""A strategy that campaigns may name is known everywhere; one that nobody knows is an error and not another one."""

from typing import get_args

import pytest

from scaleproof.auditor.read import words
from scaleproof.conclude.checks import control
from scaleproof.conclude.forecast.memory import MemoryInputs, buffer_bytes
from scaleproof.conclude.report.chart_style import colour
from scaleproof.ground.campaign.strategies import STAGES, StrategyName, is_deepspeed, is_offloaded, without_offload
from scaleproof.ground.facts.memory import state_bytes
from scaleproof.ground.facts.traffic import step_traffic
from scaleproof.measure.doctor import doctor_steps
from scaleproof.measure.strategy import strategy_class

# What has no control (a bare loop), what the doctor does not run beside the others, and of what memory is not forecast.
NO_CONTROL = {"dp", "hsdp", "zero0", "zero3"}
NOT_OF_THE_DOCTOR = {"single", "dp", "hsdp"}
NO_FORECAST_OF_MEMORY = {"hsdp"}


@pytest.mark.parametrize("name", get_args(StrategyName))
def test_a_strategy_is_known_everywhere(name):
    assert strategy_class(name).__module__.startswith("scaleproof.measure.strategy.")
    assert state_bytes(name, "fp32", 1000, 2) > 0
    assert set(step_traffic(name, "fp32", 1, 1000, 500)) == {"reduced", "gathered", "scattered"}
    assert without_offload(name) in STAGES
    assert is_deepspeed(name) == (strategy_class(name).__name__ == "Zero")
    assert colour(name).startswith("#")


@pytest.mark.parametrize("name", STAGES)
def test_what_tells_strategies_apart_by_name_has_each(name):
    """A new strategy: into each of these lists, or above among those that do without."""
    is_in = {
        "conclude/checks/control.py": (name in control.WHOLE + control.SHARDED) != (name in NO_CONTROL),
        "measure/doctor/doctor_steps.py": (name in doctor_steps.STRATEGIES) != (name in NOT_OF_THE_DOCTOR),
        "auditor/read/words.py": name in words.STRATEGIES,
        "conclude/forecast/memory.py": name in NO_FORECAST_OF_MEMORY or has_formula_of_buffers(name),
    }
    unaware = [file for file, is_there in is_in.items() if not is_there]
    assert not unaware, f"{name} is missing in {', '.join(unaware)}"


def has_formula_of_buffers(name):
    held = MemoryInputs(name, "fp32", parameters=1000, block=100, root=50, vocabulary=257, seq_len=8)
    try:
        return buffer_bytes(held, 2) >= 0
    except ValueError:
        return False


def test_no_strategy_is_left_over():
    assert set(STAGES) == {name for name in get_args(StrategyName) if not is_offloaded(name)}


@pytest.mark.parametrize(
    "use",
    [strategy_class, lambda name: step_traffic(name, "fp32", 1, 1, 1), lambda name: state_bytes(name, "fp32", 1, 2)],
)
def test_an_unknown_strategy_is_an_error(use):
    with pytest.raises((ValueError, KeyError), match="tp"):
        use("tp")
