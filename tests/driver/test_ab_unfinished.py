"""What `scaleproof ab` says of the rounds that were whole when its minutes were over."""

from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from scaleproof.driver import ab
from scaleproof.ground.records.metrics import Failed, Printed

RATES = {"a-n1x1/rep1": 100, "b-n1x1/rep1": 150, "a-n1x1/rep2": 100, "b-n1x1/rep2": 250, "a-n1x1/rep3": 900}


@pytest.mark.parametrize(("failed", "said"), [(None, " (2 rounds: B at 2x A, unchecked)"), (1, "")])
def test_the_ratio_of_whole_rounds(tmp_path, monkeypatch, failed, said):
    def read_run(place):
        name = f"{place.parent.name}/{place.name}"
        if name == f"b-n1x1/rep{failed}":
            return SimpleNamespace(metrics=Mock(Failed))
        return SimpleNamespace(metrics=Mock(Printed, unit="tokens", window=Mock(tokens_per_s=RATES[name])))

    monkeypatch.setattr(ab, "read_run", read_run)
    assert ab._ratio_so_far(tmp_path) == ""
    for name in RATES:
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / ab.METRICS).touch()
    assert ab._ratio_so_far(tmp_path) == said
