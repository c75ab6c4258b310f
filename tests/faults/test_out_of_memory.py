"""Memory that runs out where nothing is timed takes no measured window away: real ranks, the error by a stand-in."""

import pytest
from faults import ranks

from scaleproof.conclude.checks.all_checks import audit


def no_memory_on(rank: int):
    """The patch: evaluation raises on one rank."""

    def patch() -> None:
        import os

        import torch

        from scaleproof.measure.strategy.base import Native

        sound = Native.evaluate

        def evaluate(self, tokens):
            if int(os.environ["RANK"]) == rank:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")
            return sound(self, tokens)

        Native.evaluate = evaluate

    return patch


@pytest.fixture(scope="module", autouse=True)
def loaded():
    ranks.load()


def test_a_validation_without_memory_leaves_the_run_as_it_is(tokens, tmp_path, capfd):
    """One of two ranks; the other, which could go on, gives up its part as well."""
    cell = ranks.cell(execution={"strategy": "ddp", "geometry": "1x2"})
    run = ranks.run(cell, tokens, tmp_path / "runs" / "cell" / "rep1", no_memory_on(1))
    assert run.ok
    assert run.metrics.validation is None
    assert run.metrics.window.step_time_n == 24
    assert run.metrics.census[0].after is None
    assert "validation: a device ran out of memory" in capfd.readouterr().out
    ranks.write_reference(cell, tokens, tmp_path / "reference")
    assert [finding for finding in audit("faults", [run]).findings if finding.severity == "invalid"] == []
