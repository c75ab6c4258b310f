"""A run of somebody's program: its record, and what becomes of those that fail."""

import re
import shlex
import sys

import pytest
import small_programs
from patience import HANGS

from scaleproof.auditor.read.printed_log import printed_log
from scaleproof.cli.run import _rate_text
from scaleproof.conclude.checks.all_checks import audit
from scaleproof.ground.campaign.cells import expand_cells
from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.records.metrics import Printed
from scaleproof.ground.records.run import TimedRun, read_run
from scaleproof.measure.launch.run import run_cell
from scaleproof.measure.trainer.request import PlannedRun

PYTHON = shlex.quote(sys.executable)


def run(folder, command: str, limit: float = HANGS, work: dict | None = None, **workload):
    (cell,) = expand_cells(
        Campaign.model_validate({"title": "x", "workload": {"command": command} | workload, "work": work or {}})
    )
    run_cell(PlannedRun(cell, "mine", folder, limit), folder / "rep1", read=printed_log)
    return read_run(folder / "rep1")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return small_programs.write(tmp_path)


def test_the_record_of_a_run(here):
    made = run(here, f"{PYTHON} nanogpt.py --ms 4")
    assert type(made) is TimedRun
    metrics = made.metrics
    assert isinstance(metrics, Printed)
    assert (metrics.evidence, metrics.unit, metrics.reading.reader) == ("printed", "tokens", "NanoGPT")
    assert metrics.window.tokens_per_s == pytest.approx(256 / made.step_times.mean())
    assert list(metrics.program.files) == ["nanogpt.py"]
    assert metrics.program.versions["python"]
    # The launcher's clock saw the same steps: it received each line when it was printed.
    assert metrics.second_clock.window_s == pytest.approx(metrics.window.wall_time_s, rel=0.5)
    assert set(metrics.files) == {"steps.csv", "train.log"}
    assert "others_cpu" in metrics.host
    assert "clock" not in _rate_text(metrics)


def test_two_lengths_take_the_start_off(here):
    made = run(here, f"{PYTHON} silent.py {{steps}}", work={"steps": [10, 510]}, figures="whole")
    window = made.metrics.window
    assert (made.metrics.unit, window.tokens, window.clock) == ("steps", 500, "launcher")
    assert "clock" not in _rate_text(made.metrics), "the campaign asked for it"
    assert window.wall_time_s == pytest.approx(500 * 0.002, rel=0.9)


def test_steps_that_are_only_counted_are_timed_by_the_launcher(here):
    made = run(here, f"{PYTHON} counting.py 60 20")
    metrics, window = made.metrics, made.metrics.window
    assert (metrics.unit, metrics.reading.reader, metrics.reading.counts_to) == ("items", "progress", 60)
    assert (window.tokens, window.clock) == (49, "launcher")  # 59 between lines, 10 of them warm-up
    assert window.wall_time_s == pytest.approx(49 * 0.02, rel=0.9)
    assert window.wall_time_s >= 49 * 0.02
    assert metrics.reading.per_step is None
    assert _rate_text(metrics).endswith(
        "items/s by the launcher's clock: no time and no rate in its log is read (key: figures)"
    )


def test_lines_that_come_too_fast_are_no_measurement(here):
    made = run(here, f"{PYTHON} counting.py 30 1")
    assert "too short for the launcher's clock" in made.metrics.failure.reason


# What torchrun prints: the exception of a rank, then its own.
TORCHRUN = '-c \'import sys; print("[rank1]: RuntimeError: no such data"); sys.exit("errors.ChildFailedError: ")\''


@pytest.mark.parametrize(
    ("command", "kind", "reason"),
    [
        ("nanogpt.py --end 3 --steps 2", "crash", "the command ended with exit code 3 after printing: "),
        (
            "-c 'raise SystemExit(\"no GPU here\")'",
            "crash",
            "the command ended with exit code 1 after printing: no GPU here",
        ),
        ("nanogpt.py --no-tokens", "no_figures", "a campaign file: workload.per_step"),
        (
            "silent.py 1",
            "no_figures",
            "it printed 1 line (the last: done); steps are read from 3 lines on; a program that",
        ),
        ("-c 'import no_such_module'", "crash", "with exit code 1: ModuleNotFoundError: No module named"),
        ("-c 'raise MemoryError'", "oom", "after printing MemoryError"),
        (TORCHRUN, "crash", "the command ended with exit code 1: RuntimeError: no such data"),
    ],
)
def test_a_run_that_fails_says_why(here, command, kind, reason):
    made = run(here, f"{PYTHON} {command}")
    failure = made.metrics.failure
    assert failure.failure_class == kind
    assert reason in failure.reason
    assert made.metrics.evidence == "printed"


def test_a_program_that_goes_on_for_ever_is_stopped(here):
    made = run(here, f"{PYTHON} nanogpt.py --ms 100 --steps 100000", limit=1.0)
    assert made.metrics.failure.failure_class == "timeout"


def test_a_program_that_goes_on_for_ever_can_be_ended(here):
    """Its figures are of what it printed until then, and the record says so; no failure."""
    made = run(here, f"{PYTHON} nanogpt.py --ms 20 --steps 100000", work={"seconds": 2.0})
    metrics = made.metrics
    assert isinstance(metrics, Printed)
    assert 2.0 < metrics.reading.ended_after_s < HANGS
    assert 10 < metrics.reading.steps < 120
    assert metrics.window.tokens_per_s == pytest.approx(256 / made.step_times.mean())
    assert "Interrupt" not in (here / "rep1/train.log").read_text()
    assert metrics.config["work"]["seconds"] == 2.0


@pytest.mark.parametrize(
    ("command", "kind", "reason"),
    [
        ("nanogpt.py --steps 3 --end 3", "crash", "exit code 3"),  # by itself, before the time was over
        ("-c 'import time; time.sleep(99)'", "no_figures", "ended after 1.5 s (work.seconds), and it printed nothing"),
    ],
)
def test_an_end_that_is_given_hides_no_failure(here, command, kind, reason):
    made = run(here, f"{PYTHON} {command}", work={"seconds": 1.5})
    assert made.metrics.failure.failure_class == kind
    assert reason in made.metrics.failure.reason


@pytest.mark.parametrize(
    ("command", "most_s", "ending"),
    [
        ("nanogpt.py --ms 20 --no-tokens --steps 100000", 8.0, "not how much work a step is"),
        ("counting.py 1 1", 8.0, "; steps are read from 3 lines on"),  # ends by itself
        ("-c 'import time; print(1, flush=True); time.sleep(99)'", 99.0, "it had printed 1 line"),  # some may come
    ],
)
def test_a_run_whose_log_lacks_what_only_the_campaign_can_say_ends_early(here, command, most_s, ending):
    made = run(here, f"{PYTHON} {command}", work={"seconds": 10.0})
    assert ending in made.metrics.failure.reason
    early = re.search(r"it was ended after ([\d.]+) s, and", made.metrics.failure.reason)
    assert bool(early) == ("how much work" in ending)
    assert not early or float(early[1]) < most_s


def test_a_program_that_ends_by_itself_was_not_ended(here):
    made = run(here, f"{PYTHON} nanogpt.py", work={"seconds": 800.0})
    assert made.metrics.reading.ended_after_s is None


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("no-such-program --fast", "no-such-program: there is no such program here"),
        ("python nanogtp.py", 'nanogtp.py: there is no such file in . (Did you mean "nanogpt.py"?)'),
        ("bash go.sh", "go.sh: there is no such file in"),
        ("python -m nanogtp", 'nanogtp: python has no such module. Did you mean "nanogpt"?'),
    ],
)
def test_what_is_not_there_is_a_row_in_the_words_of_validate(here, command, reason):
    made = run(here, command)
    assert made.metrics.status == made.metrics.failure.failure_class == "not_applicable"
    assert made.metrics.failure.reason.startswith(reason), made.metrics.failure


def test_a_program_that_has_no_interpreter_is_a_row_too(here):
    (here / "go.sh").write_text("#!/no/such/interpreter\n")
    (here / "go.sh").chmod(0o755)
    failure = run(here, "./go.sh").metrics.failure
    assert failure.failure_class == "not_applicable"
    assert "names an interpreter in its first line that is not here: /no/such/interpreter" in failure.reason


WATCHED = """
import torch
from torch import nn
import scaleproof

network = nn.Sequential(nn.Embedding(50, 8), nn.Linear(8, 50))
optimizer = torch.optim.SGD(network.parameters(), lr={rate})
for batch in scaleproof.watch(list(torch.randint(50, (12, 4, 16))), network, optimizer):
    nn.functional.cross_entropy(network(batch).flatten(0, 1), batch.flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(("rate", "codes"), [(0.1, []), (0.0, ["weights-not-updated"])])
def test_a_program_with_the_two_lines_is_watched(here, rate, codes):
    """Its figures are those of our clock and counts, whatever it prints, and so is the level of its record."""
    (here / "watched.py").write_text(WATCHED.format(rate=rate))
    made = run(here, f"{PYTHON} watched.py", work={"warmup_steps": 3})
    metrics = made.metrics
    assert (metrics.evidence, metrics.unit, metrics.window.clock) == ("watched", "tokens", "monotonic")
    assert (metrics.window.tokens, metrics.window.step_time_n) == (9 * 64, 9)
    assert metrics.window.wall_time_s == pytest.approx(sum(metrics.watched[0].step_s[3:]))
    assert metrics.reading.reader == "scaleproof.watch"
    found = audit("mine", [made]).findings
    assert [finding.code for finding in found if finding.severity == "invalid"] == codes
    assert [finding.cells for finding in found if finding.code in codes] == [[metrics.cell]] * len(codes)
