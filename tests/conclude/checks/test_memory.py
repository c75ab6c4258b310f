"""A run near the end of its device's memory is named; one with room is not."""

import pytest
from synthetic import cells, write_run

from scaleproof.conclude.checks.memory import memory_has_room


@pytest.mark.parametrize(
    ("reserved", "retries", "fires"),
    [(79 * 2**30, 0, True), (60 * 2**30, 0, False), (60 * 2**30, 2, True), (None, None, False)],
)
def test_a_nearly_full_device_or_a_retry_is_near_the_cliff(tmp_path, reserved, retries, fires):
    run = write_run(tmp_path, cells()[0])
    memory = run.metrics.memory.model_copy(update={"max_cuda_reserved_bytes": reserved, "cuda_alloc_retries": retries})
    run.metrics.memory = memory
    run.metrics.hardware["gpus"] = [{"memory": "81920 MiB"}]
    assert [finding.code for finding in memory_has_room(run)] == (["near-memory-cliff"] if fires else [])
