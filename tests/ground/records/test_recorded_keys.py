"""A key of a campaign is one of the record's configuration: what reads it there, checks and verify, has its type."""

from scaleproof.ground.campaign.config import Work, Workload
from scaleproof.ground.campaign.execution import Execution
from scaleproof.ground.records.open_sections import RecordedExecution, RecordedWork, RecordedWorkload

OF_THE_MACHINE = {"device", "start"}  # what ran is recorded of each rank
OF_COMMANDS = {"command", "figures", "per_step", "rate_of"}  # a record of its own
DERIVED = {"vocab_multiple"}  # vocab_size has it in it
WHILE_IT_RUNS = {"fewer_steps", "seconds"}


def test_every_key_that_says_what_is_trained_is_recorded():
    """A new key: into the class in ground/records/open_sections.py, or above."""
    assert set(Execution.model_fields) - OF_THE_MACHINE == set(RecordedExecution.__annotations__)
    assert set(Work.model_fields) - WHILE_IT_RUNS == set(RecordedWork.__annotations__)
    recorded = set(RecordedWorkload.__annotations__) - {"model_shape"}
    assert set(Workload.model_fields) - OF_COMMANDS - DERIVED == recorded
