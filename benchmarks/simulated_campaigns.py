"""Campaigns with a known truth: runs with simulated rates, from their records to the answer of the page."""

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from scaleproof.conclude.analysis.measured_cells import measured_cells
from scaleproof.conclude.analysis.ranking import answer_question
from scaleproof.conclude.analysis.scaling import scaling_report
from scaleproof.conclude.analysis.simultaneous import Family, compare_all
from scaleproof.conclude.checks.comparability import runs_stay_together
from scaleproof.conclude.checks.repeats import (
    machine_did_not_drift,
    machine_has_one_state,
    repeats_do_not_resemble_the_one_before,
)
from scaleproof.conclude.report.sentences.answer import Answer, answer_campaign
from scaleproof.ground.confidence import CONFIDENCE
from scaleproof.ground.findings.finding import Findings
from scaleproof.ground.records.result_file import Estimated
from scaleproof.ground.records.run import MeasuredRun, read_run
from scaleproof.ground.records.scaling_report import ScalingReport

Random = np.random.Generator
Draw = Callable[[Random, int, int], np.ndarray]  # cells, repeats -> logarithms of rates, truth 0


def _small(random: Random, k: int, n: int) -> np.ndarray:
    return 0.01 * random.standard_normal((k, n))


def _in_order_of_runs(values: np.ndarray, k: int, n: int) -> np.ndarray:
    """Values of runs one after the other (repeat by repeat, cell by cell) as a table of cells and repeats."""
    return values.reshape(n, k).T


def _lasting_states(random: Random, k: int, n: int) -> np.ndarray:
    """Two states of the machine, 10 % apart; after a run it changes with a probability of 10 %."""
    changes = random.random(k * n) < 0.1
    state = (np.cumsum(changes) + random.integers(2)) % 2
    return _in_order_of_runs(0.1 * state, k, n) + _small(random, k, n)


def _resembling(random: Random, k: int, n: int) -> np.ndarray:
    """Each run is like the one before it, with a correlation of 0.7."""
    values = np.empty(k * n)
    last = random.standard_normal()
    for place in range(k * n):
        last = 0.7 * last + math.sqrt(1 - 0.7**2) * random.standard_normal()
        values[place] = last
    return _in_order_of_runs(0.03 * values, k, n)


def _unequal(random: Random, k: int, n: int) -> np.ndarray:
    """Noise of 1 to 10 % over the cells, in random order."""
    sd = random.permutation(np.geomspace(0.01, 0.1, k))
    return random.standard_normal((k, n)) * sd[:, None]


def _one_noisy(random: Random, k: int, n: int) -> np.ndarray:
    """One of the cells is ten times as noisy as the others."""
    sd = np.full(k, 0.01)
    sd[random.integers(k)] = 0.1
    return random.standard_normal((k, n)) * sd[:, None]


# Exchangeable: every cell of a round has the same distribution.
NOISE: dict[str, Draw] = {
    "normal 3 %": lambda r, k, n: 0.03 * r.standard_normal((k, n)),
    "heavy tails (t3)": lambda r, k, n: 0.03 * r.standard_t(3, (k, n)),
    "two states": lambda r, k, n: np.where(r.random((k, n)) < 0.5, 0.1, 0) + _small(r, k, n),
    "two states that last": _lasting_states,
    "10 % of runs 1.5x slower": lambda r, k, n: -np.log(np.where(r.random((k, n)) < 0.1, 1.5, 1)) + _small(r, k, n),
    "drift of 10 % over the rounds": lambda r, k, n: np.linspace(0, 0.1, n)[None, :] + _small(r, k, n),
    "a state for each round 5 %": lambda r, k, n: 0.05 * r.standard_normal((1, n)) + _small(r, k, n),
}
# Not exchangeable; cells that run one after the other are alike in the first.
UNEQUAL: dict[str, Draw] = {
    "like the run before (0.7)": _resembling,
    "noise of 1 to 10 %": _unequal,
    "one cell 10x noisier": _one_noisy,
}
ALL_NOISE = NOISE | UNEQUAL

STRATEGIES = ("ddp", "fsdp", "zero0", "zero1", "zero2", "zero3")
CHECKS = (
    machine_did_not_drift,
    machine_has_one_state,
    repeats_do_not_resemble_the_one_before,
    runs_stay_together,
)


@cache
def _measured(cell: str) -> MeasuredRun:
    """A run of the published demo, whose record the simulated runs have but for their names and rates."""
    (folder,) = sorted(Path(__file__).parents[1].glob(f"results/published/demo*/runs/{cell}/rep1"))[-1:]
    run = read_run(folder)
    assert isinstance(run, MeasuredRun)
    return run


def cell_name(place: int) -> str:
    """Of a row of simulated logarithms: the first is one device, the others are strategies on two."""
    if place == 0:
        return "ddp-n1x1"
    version = (place - 1) // len(STRATEGIES)
    return f"{STRATEGIES[(place - 1) % len(STRATEGIES)]}-n1x2{f'-v{version}' if version else ''}"


def simulated_runs(logs: np.ndarray) -> list[MeasuredRun]:
    """Runs with these logarithms of rates (in thousands of tokens/s): one device, then cells on two."""
    runs = []
    for place, of_cell in enumerate(logs):
        like = _measured("ddp-n1x2" if place else "ddp-n1x1")
        name = cell_name(place)
        execution = like.metrics.config["execution"] | {"strategy": name.partition("-")[0]}
        config = like.metrics.config | {"execution": execution}
        window = like.metrics.window
        for repeat, log in enumerate(of_cell, start=1):
            tokens_per_s = 1000 * math.exp(log)
            changed = window.model_copy(
                update={"tokens_per_s": tokens_per_s, "wall_time_s": window.tokens / tokens_per_s}
            )
            update = {"cell": name, "repeat": repeat, "config": config, "window": changed}
            runs.append(MeasuredRun(like.folder, like.metrics.model_copy(update=update)))
    return runs


def answered(logs: np.ndarray) -> tuple[ScalingReport, Answer]:
    """The report of simulated runs, and its answer, with what the checks find in them."""
    runs = simulated_runs(logs)
    seen = [finding for check in CHECKS for finding in check(runs)]
    findings = Findings(campaign="demo", checks=[check.name for check in CHECKS], findings=seen)
    report = scaling_report("demo", "Simulated", runs, findings)
    return report, answer_campaign(report)


def question_ratio(logs: np.ndarray) -> Estimated:
    """The ratio of the first two cells as the answer to a campaign's question: it was not picked among others."""
    question = {"is": cell_name(1), "better_than": cell_name(0), "by": 0.0}
    answer = answer_question(question, measured_cells(simulated_runs(logs)))
    assert answer
    assert answer.ratio
    return answer.ratio


def family(logs: np.ndarray, matched: bool = True, confidence: float = CONFIDENCE) -> Family:
    """The comparison of cells with these logarithms of rates; repeats that do not match have numbers of their own."""
    offset = 0 if matched else logs.shape[1]
    rates = {str(i): {i * offset + j: math.exp(value) for j, value in enumerate(row)} for i, row in enumerate(logs)}
    compared = compare_all(rates, confidence=confidence)
    assert compared is not None
    return compared
