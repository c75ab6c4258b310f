"""Logs of containers and systems, whose lines hold those of a program."""

import json

import pytest

from scaleproof.auditor.read.discover import gather

WRAPPERS = (
    lambda line: {"log": f"{line}\n", "stream": "stderr", "time": "2026-11-23T10:00:00Z"},
    lambda line: {"_HOSTNAME": "gpu7", "MESSAGE": line, "PRIORITY": "6"},
    lambda line: {"insertId": "a1", "textPayload": line},
)


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_log_of_a_container_is_read_as_its_program_wrote_it(tmp_path, wrapper):
    entry = ':::MLLOG {{"time_ms": {}, "key": "run_{}", "value": null}}'
    lines = (entry.format(2000, "start"), "an ä and a \\", entry.format(9500, "stop"))
    (tmp_path / "train.log").write_text("".join(json.dumps(wrapper(line)) + "\n" for line in lines))
    (run,) = gather([tmp_path]).runs
    assert run.timed_spans[0].seconds == 7.5


@pytest.mark.parametrize(
    ("prefix", "is_read"),
    [
        ("INFO|2020-05-19T07:21:05|/opt/run.py|27| ", True),
        ("2026-01-02T03:04:05.1234567Z ", True),
        ("2026-01-02T03:04:05.12+01:00 stdout F ", True),
        ("validation of 2026-01-02T03:04:05Z ", False),
    ],
)
def test_known_lines_are_read_behind_the_prefix_of_a_launcher(tmp_path, prefix, is_read):
    lines = [f"{n}0\timages/sec: 31.{n} +/- 0.4 (jitter = 0.7)\t8.3\n" for n in range(1, 5)]
    (tmp_path / "train.log").write_text("".join(prefix + line for line in lines))
    steps = [step.samples_per_s for run in gather([tmp_path]).runs for step in run.logged_steps]
    assert steps == ([31.1, 31.2, 31.3, 31.4] if is_read else [])


def test_a_text_beside_figures_of_json_lines_is_no_wrapper(tmp_path):
    entries = [{"log": "fine", "step": n, "loss": 2.1, "tokens_per_s": 100 + n} for n in range(5)]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, entries)))
    (run,) = gather([tmp_path]).runs
    assert [step.tokens_per_s for step in run.logged_steps] == [100, 101, 102, 103, 104]


def test_an_entry_that_another_rank_interrupted_is_named(tmp_path):
    entry = ':::MLLOG {{"time_ms": {}, "key": "{}", "value": {}}}'
    start, stop = (entry.format(at, f"run_{word}", "null") for at, word in ((2000, "start"), (9500, "stop")))
    batch = entry.format(1000, "global_batch_size", 512)
    for name, text in (("torn.log", batch[:30] + start + "\n" + stop), ("whole.log", batch + start + " \n" + stop)):
        (tmp_path / name).write_text(text + "\n")
    evidence = gather([tmp_path])
    assert [(run.global_batch, run.timed_spans[0].seconds) for run in evidence.runs] == [(None, 7.5), (512, 7.5)]
    assert [file.name for file in evidence.unread] == ["torn.log:1"]
