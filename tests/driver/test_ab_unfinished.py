"""What `scaleproof ab` says of the rounds that were whole when its minutes were over."""

from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from scaleproof.driver import ab
from scaleproof.ground.records.metrics import Failed, Printed
from scaleproof.ground.records.run import Run, TimedRun

# Rates in tokens/s: B is faster by its medians and slower by its time, which the page goes by.
RATES = {"a-n1x1": [100, 100, 100, 900], "b-n1x1": [125, 110, 25]}


@pytest.mark.parametrize(("failed", "said"), [(None, " (3 rounds: B at 0.525x A, unchecked)"), ("rep1", "")])
def test_the_ratio_of_whole_rounds_is_that_of_the_page(tmp_path, monkeypatch, failed, said):
    def read_run(place):
        rate = RATES[place.parent.name][int(place.name.removeprefix("rep")) - 1]
        window = SimpleNamespace(tokens=100.0, wall_time_s=100 / rate, tokens_per_s=rate)
        if place.name == failed:
            return Run(place, Mock(Failed))
        return TimedRun(place, Mock(Printed, unit="tokens", window=window))

    monkeypatch.setattr(ab, "read_run", read_run)
    assert ab._ratio_so_far(tmp_path) == ""
    for cell, rates in RATES.items():
        for repeat in range(len(rates)):
            folder = tmp_path / cell / f"rep{repeat + 1}"
            folder.mkdir(parents=True)
            (folder / ab.METRICS).touch()
    assert ab._ratio_so_far(tmp_path) == said
