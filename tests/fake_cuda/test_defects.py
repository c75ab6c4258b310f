"""The critical defects of an earlier review, put back one by one: the tests of steps would see each of them."""

import pytest


def planted(machine, defect: str, strategy: str, **execution) -> dict:
    choices = [{"strategy": strategy, "precision": "bf16"}]
    ((cell,),) = machine.run("steps", choices=choices, planted=defect, **execution)
    return cell


@pytest.mark.parametrize("strategy", ["zero0", "zero1", "zero2", "zero3"])
def test_an_nvtx_without_domains_ends_every_cell_of_deepspeed(machine, strategy):
    with pytest.raises(AssertionError, match="has no attribute 'get_domain'"):
        planted(machine, "nvtx", strategy)


@pytest.mark.parametrize(
    ("defect", "place"),
    [
        ("the look waits", "scaleproof/measure/trainer/timed_loop.py:"),
        ("torch's notice", "played.py:"),
        ("a read", "planted.py:"),
    ],
)
def test_a_wait_is_seen(machine, defect, place):
    waits = planted(machine, defect, "single")["waits"]
    assert [seen for seen in waits if place in seen], waits


def test_replicas_left_to_torch_compute_in_fp16(machine):
    assert planted(machine, "replicas", "dp", geometry="1x2")["made"] == ["float16"]


def test_every_defect_can_still_be_put_back(repository, monkeypatch):
    """`benchmarks/put_back.py` runs the tests that notice, in a copy of the repository for each: not here."""
    monkeypatch.syspath_prepend(repository / "benchmarks")
    from put_back import DEFECTS

    assert len(DEFECTS) > 4
    for defect in DEFECTS:
        assert (repository / defect.file).read_text().count(defect.sound) == 1, defect.name
        for test in defect.tests:
            file, _, name = test.partition("::")
            assert f"def {name.partition('[')[0]}(" in (repository / file).read_text(), defect.name
