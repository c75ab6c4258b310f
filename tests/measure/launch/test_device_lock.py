"""Two runs on one machine: the second waits for the first, and says for whom."""

import pytest
from synthetic import cells

from scaleproof.measure.launch.device_lock import devices_of, hold_devices
from scaleproof.measure.machine.gpus import Gpu


class StillWaiting(Exception):
    pass


@pytest.mark.fault(
    "two snakemakes on one machine", "the second run waits, and says for whom; runs that wait take turns as they came"
)
def test_the_second_run_waits_and_says_for_whom(tmp_path, capsys, monkeypatch):
    pauses = []
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise StillWaiting

    with hold_devices(["core-0", "core-1"], "demo ddp-n1x2/rep1", tmp_path):
        with pytest.raises(StillWaiting), hold_devices(["core-1", "core-2"], "other", tmp_path, pause):
            pytest.fail("both hold core-1")
        with hold_devices(["core-2"], "elsewhere", tmp_path):  # was given back, and nobody has it
            pass
    error = capsys.readouterr().err
    assert error.count("waiting for demo ddp-n1x2/rep1 (process") == 1
    assert ", in ~/project), which uses core-1" in error, "the folder, without the user's name"
    with hold_devices(["core-0", "core-1"], "the next", tmp_path):
        pass


def test_runs_have_devices_in_order_of_arrival(tmp_path, capsys):
    def give_up(_: float) -> None:
        raise StillWaiting

    def third_arrives(_: float) -> None:
        first.__exit__(None, None, None)  # the device is free now, but not for who came later
        with pytest.raises(StillWaiting), hold_devices(["core-0"], "third", tmp_path, give_up):
            pytest.fail("the second came before")

    (tmp_path / "core-0.00000000000000000001-1.place").touch()  # of a process that was killed while it waited
    first = hold_devices(["core-0"], "first", tmp_path, give_up)
    first.__enter__()
    with hold_devices(["core-0"], "second", tmp_path, third_arrives):
        pass
    assert "which uses core-0; 1 other came before" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["core-0.lock"]


def test_the_wait_ends_when_the_first_run_does(tmp_path):
    first = hold_devices(["core-0"], "first", tmp_path)
    first.__enter__()
    with hold_devices(["core-0"], "second", tmp_path, lambda seconds: first.__exit__(None, None, None)):
        pass


def test_gpus_are_locked_by_their_names_and_cpus_as_a_whole():
    gpus = [Gpu("H100", uuid, 1, (9, 0)) for uuid in ("GPU-b", "GPU-a", "GPU-c")]
    two = cells()[1]
    assert devices_of(two, gpus) == ["GPU-a", "GPU-b"]
    on_cpu = cells(execution={"device": "cpu"})[1]
    assert devices_of(on_cpu, gpus) == devices_of(two, [])
    assert devices_of(two, [])[0].startswith("core-")


def test_jobs_that_share_a_node_do_not_wait_for_each_other(monkeypatch):
    """Waiting would take the time of the second one's allocation, in which nothing runs."""
    monkeypatch.setattr("scaleproof.measure.launch.device_lock.shared_nodes_job", lambda: "25_2")
    assert devices_of(cells()[1], []) == ["job-25_2"]
    assert devices_of(cells()[1], [Gpu("H100", "GPU-a", 1, (9, 0))]) == ["GPU-a"]
