"""May these runs be compared: did they train alike, in the same surroundings, often enough?"""

from collections import defaultdict
from collections.abc import Iterator
from statistics import median
from typing import Any

import numpy as np

from scalebench.audit.finding import Finding, about
from scalebench.record.run import MeasuredRun
from scalebench.record.steps import loss_series

# Relative difference of losses, step by step, that order of summation alone can explain; seen values are far below.
TOLERANCE = {"fp32": 2e-4, "tf32": 2e-3, "bf16": 1e-2, "fp16": 1e-2}
# A classifier's loss is the mean of a few samples, not of thousands of tokens: the rounding of low precision is not averaged away.
OF_CLASSES = {"fp32": 2e-4, "tf32": 5e-3, "bf16": 3e-2, "fp16": 3e-2}
SMALL = 1.0  # nats; differences of losses below it, which classifiers reach, are not relative to them but to it
APART = 1.25  # ratio of a run's rate and the middle one of its cell
COMPARED_STEPS = 100  # later, rounding has been amplified by training itself
SETTINGS = ("driver", "power_cap", "clock_sm_application", "ecc", "mig")  # of a GPU, as nvidia-smi prints them
# Keys of `work` that leave samples and updates as they are.
CHANGES_NO_SAMPLE = {"micro_batch", "accumulation", "validation_samples"}


def losses_agree(runs: list[MeasuredRun]) -> list[Finding]:
    """Runs with the same workload, global batch and seed have the same loss at each step, whatever their world size."""
    found = []
    for alike in train_alike(runs):
        reference = loss_series(alike[0].steps)[:COMPARED_STEPS]
        for run in alike[1:]:
            series = loss_series(run.steps)[:COMPARED_STEPS]
            tolerance = max(allowed(r) for r in (alike[0], run))
            n = min(len(series), len(reference))
            difference = np.nan_to_num(np.abs(series[:n] - reference[:n]) / np.maximum(np.abs(reference[:n]), SMALL))
            if len(series) != len(reference) or difference.max() > tolerance:
                step = int(difference.argmax())
                found.append(
                    Finding(
                        code="losses-differ",
                        severity="invalid",
                        cells=sorted({alike[0].metrics.cell, run.metrics.cell}),
                        runs=[alike[0].name, run.name],
                        evidence=f"at step {step} the loss is {series[step]:.6g} in {run.name} and {reference[step]:.6g} in "
                        f"{alike[0].name}, {difference[step]:.1e} apart; {tolerance:.0e} is allowed",
                        advice="The same samples must make the same step; these runs did not do the same work, so their "
                        "times cannot be compared.",
                    )
                )
    return found


def surroundings_agree(runs: list[MeasuredRun]) -> list[Finding]:
    """All runs of a campaign have the same code, versions, environment variables and hardware."""
    seen: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        for field, value in surroundings(run):
            seen[field].add(str(value))
    different = {field: sorted(values) for field, values in seen.items() if len(values) > 1}
    if not different:
        return []
    return [
        Finding(
            code="surroundings-differ",
            severity="suspect",
            cells=sorted({r.metrics.cell for r in runs}),
            runs=[r.name for r in runs],
            evidence="; ".join(f"{field}: {' | '.join(values)}" for field, values in different.items()),
            advice="Something other than the compared keys changed between runs; run all cells again in one environment.",
        )
    ]


def runs_stay_together(runs: list[MeasuredRun]) -> list[Finding]:
    """Repeats of a cell have nearly the same rate: one that was starved, or not, is shown, never dropped in silence."""
    found = []
    for alike in _groups(runs, lambda r: r.metrics.cell):
        rates = [run.metrics.window.tokens_per_s for run in alike]
        middle = median(rates)
        for run, rate in zip(alike, rates, strict=True):
            if max(rate / middle, middle / rate) > APART:
                loads = ", ".join(f"{rank['cpu_load']:.2f}" for rank in run.metrics.ranks if "cpu_load" in rank)
                used = f"; its processes used {loads} cores" if loads else ""
                evidence = (
                    f"{rate:,.0f} tokens/s, where the middle of {len(alike)} runs of this cell is {middle:,.0f}{used}"
                )
                advice = "Something disturbed this run or the others: make the cell anew on a quiet machine (scalebench retry FILE --cell)."
                found.append(about(run, "run-stands-out", "suspect", evidence, advice))
    return found


def repeated_enough(runs: list[MeasuredRun]) -> list[Finding]:
    """An interval needs two runs; one run says nothing about its own spread."""
    alone = [alike[0] for alike in _groups(runs, lambda r: r.metrics.cell) if len(alike) == 1]
    if not alone:
        return []
    return [
        Finding(
            code="single-run",
            severity="note",
            cells=[run.metrics.cell for run in alone],
            runs=[run.name for run in alone],
            evidence="n=1: there is no interval",
            advice="Raise `repeats`; 5 or more make intervals useful.",
        )
    ]


def allowed(run: MeasuredRun) -> float:
    """Difference of losses that order of summation alone can explain."""
    of_classes = run.metrics.config["workload"]["task"] == "classification"
    return (OF_CLASSES if of_classes else TOLERANCE)[run.metrics.training_config.precision]


def train_alike(runs: list[MeasuredRun]) -> Iterator[list[MeasuredRun]]:
    """Runs that should make the same steps, in groups; the smallest world, which is what others are held against, first."""
    for alike in _groups(runs, _training_identity):
        yield sorted(alike, key=lambda r: (len(r.metrics.ranks), r.metrics.cell, r.metrics.repeat))


def _groups(runs: list[MeasuredRun], key: Any) -> Iterator[list[MeasuredRun]]:
    grouped: dict[Any, list[MeasuredRun]] = defaultdict(list)
    for run in runs:
        grouped[key(run)].append(run)
    return iter(grouped.values())


def _training_identity(run: MeasuredRun) -> str:
    config = run.metrics.config
    work = {k: v for k, v in config["work"].items() if k not in CHANGES_NO_SAMPLE}
    return repr((config["workload"], work, run.metrics.data["train_sha256"]))


def surroundings(run: MeasuredRun) -> Iterator[tuple[str, Any]]:
    """What was around a run and is never part of what a campaign compares: field and value."""
    metrics = run.metrics
    hardware, gpus = metrics.hardware, metrics.hardware.get("gpus", [])
    yield "code", metrics.code_sha256
    yield from metrics.env.items()
    yield "cpu_model", hardware["cpu_model"]
    yield "cpu_count", hardware["cpu_count"]
    yield "memory_gib", round(hardware["memory_bytes"] / 2**30)  # nodes of one kind differ by some pages
    yield from ((name, hardware[name]) for name in ("cuda_driver", "container", "modules") if name in hardware)
    yield from ((f"gpu {name}", sorted({gpu[name] for gpu in gpus})) for name in SETTINGS if gpus)
    yield "device", sorted({r["device_name"] for r in metrics.ranks})
    yield "os", metrics.host["os"]
    yield "launcher", (metrics.scheduler or {}).get("type", "local")
