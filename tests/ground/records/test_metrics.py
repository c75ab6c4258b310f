"""A run has numbers or a reason why it has none, and its type says which."""

import json

import pytest
from pydantic import ValidationError
from synthetic import cells, write_failure, write_run

from scaleproof.ground.records.metrics import Failed, Measured, parse_metrics
from scaleproof.ground.records.run import METRICS, MeasuredRun, measured_runs, read_run


def test_runs_with_numbers_are_told_by_their_type(tmp_path):
    sound, failed = write_run(tmp_path, cells()[0]), write_failure(tmp_path, cells()[1])
    assert isinstance(read_run(sound.folder).metrics, Measured)
    assert isinstance(read_run(failed.folder).metrics, Failed)
    assert measured_runs([failed, sound]) == [sound]
    assert isinstance(sound, MeasuredRun)
    assert not isinstance(failed, MeasuredRun)


def test_a_run_with_numbers_has_all_of_them(tmp_path):
    data = json.loads((write_run(tmp_path, cells()[0]).folder / METRICS).read_text())
    del data["ledger"]
    with pytest.raises(ValidationError, match="ledger"):
        parse_metrics(json.dumps(data))
