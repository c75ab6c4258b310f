"""Do the times, the rates and the work agree with each other, and was the machine free?"""

import math

import numpy as np

from scalebench.audit.finding import Finding, about
from scalebench.record.run import Run
from scalebench.record.steps import rank_totals

SAME = 0.005  # relative difference of figures that are one figure computed twice
FILLED = 0.02  # part of the window that may lie outside of the steps in it
TURNS = 0.05  # part by which the slowest ranks' steps may exceed the window
SHORTEST = 1.0  # seconds of a window
THROTTLED = 0.05  # part of the samples of a GPU
WAITING = 0.02  # part of a step that may go by waiting for tokens
BUSY = 0.25  # part of the machine's CPU time that others may take before a run


def near(a: float, b: float) -> bool:
    """The same figure computed twice; never true of what is not a number."""
    return abs(a - b) <= SAME * abs(b)


def rate_times_time(runs: list[Run]) -> list[Finding]:
    """tokens/s x wall time = tokens: those of the ledger, and those of the raw series."""
    found = []
    for run in runs:
        window = run.metrics.window
        product = window.tokens_per_s * window.wall_time_s
        counts = {"the ledger": window.tokens, "steps.csv": int(run.window["tokens"].sum())}
        wrong = [f"{source} has {tokens:,}" for source, tokens in counts.items() if not near(product, tokens)]
        if wrong:
            found.append(
                about(
                    run,
                    "rate-times-time",
                    "invalid",
                    f"{window.tokens_per_s:,.0f} tokens/s x {window.wall_time_s:.3f} s = {product:,.0f} tokens, "
                    f"but {' and '.join(wrong)}",
                    "The rate is not the work over the time; do not quote it.",
                )
            )
    return found


def steps_fill_window(runs: list[Run]) -> list[Finding]:
    """The steps of the slowest rank add up to the wall time of the window: none is left out, none is counted twice."""
    found = []
    for run in runs:
        wall = run.metrics.window.wall_time_s
        total = float(rank_totals(run.steps).max())
        if not abs(total - wall) <= FILLED * wall:
            found.append(
                about(
                    run,
                    "steps-do-not-fill-window",
                    "invalid",
                    f"the steps add up to {total:.3f} s, but the window took {wall:.3f} s ({total / wall:.2f} times)",
                    "The step timer misses time or counts it twice; trust neither step times nor their percentiles.",
                )
            )
    return found


def figures_are_the_series(runs: list[Run]) -> list[Finding]:
    """Step statistics and rate of the summary, computed anew from the raw series."""
    found = []
    for run in runs:
        window, times, losses = run.metrics.window, run.window["step_time_s"], run.window["loss"]
        anew = {
            "step_time_mean_s": times.mean(),
            "step_time_p50_s": np.median(times),
            "step_time_min_s": times.min(),
            "step_time_max_s": times.max(),
            "tokens_per_s": run.window["tokens"].sum() / window.wall_time_s,
            "train_loss_first": losses[0],
            "train_loss_last": losses[-1],
        }
        wrong = [
            f"{name} is {getattr(window, name):.6g}, the series gives {value:.6g}"
            for name, value in anew.items()
            if not near(getattr(window, name), value)
        ]
        total, scored = run.metrics.total_wall_time_s, run.metrics.validation
        if total is not None and not total >= window.wall_time_s:
            wrong.append(f"the whole run took {total:.6g} s, less than its window of {window.wall_time_s:.6g} s")
        if scored and scored.perplexity is not None and not near(scored.perplexity, math.exp(scored.loss)):
            wrong.append(
                f"perplexity is {scored.perplexity:.6g}, that of a loss of {scored.loss:.6g} is {math.exp(scored.loss):.6g}"
            )
        if wrong:
            found.append(
                about(
                    run,
                    "figures-differ-from-series",
                    "invalid",
                    "; ".join(wrong),
                    "The summary was not made from this series; one of the two is wrong, so quote neither.",
                )
            )
    return found


def ranks_take_turns(runs: list[Run]) -> list[Finding]:
    """The slowest rank of each step, added up, is little more than the window: otherwise ranks are slow by turns."""
    found = []
    for run in runs:
        wall, total = run.metrics.window.wall_time_s, float(run.window["step_time_s"].sum())
        if total > (1 + TURNS) * wall:
            found.append(
                about(
                    run,
                    "ranks-slow-by-turns",
                    "suspect",
                    f"the slowest rank's steps add up to {total:.3f} s in a window of {wall:.3f} s",
                    "Another rank is the slow one in each step, as on a disturbed machine; the rate stands, step times overstate.",
                )
            )
    return found


def window_is_long_enough(runs: list[Run]) -> list[Finding]:
    """A window of a few scheduler ticks measures the machine's mood."""
    return [
        about(
            run,
            "window-short",
            "suspect",
            f"the window took {run.metrics.window.wall_time_s:.2f} s",
            f"Raise work.steps until it takes {SHORTEST:g} s or more.",
        )
        for run in runs
        if run.metrics.window.wall_time_s < SHORTEST
    ]


def data_never_limits(runs: list[Run]) -> list[Finding]:
    """The ranks do not wait for their tokens: the time from asking for them to having them is a small part of a step."""
    found = []
    for run in runs:
        window = run.metrics.window
        share = window.data_wait_mean_s / window.step_time_mean_s
        if share > WAITING:
            found.append(
                about(
                    run,
                    "data-wait",
                    "suspect",
                    f"{share:.1%} of a step ({window.data_wait_mean_s * 1e3:.3g} of {window.step_time_mean_s * 1e3:.3g} ms) "
                    "was waiting for tokens",
                    "The rate is in part that of reading: put results/corpora on a faster disk, or free a core for the reader.",
                )
            )
    return found


def machine_was_free(runs: list[Run]) -> list[Finding]:
    """Others took little CPU time just before the run, and no two ranks share a core."""
    found = []
    for run in runs:
        busy = run.metrics.host["cpu_busy_before"]
        if busy > BUSY:
            found.append(
                about(
                    run,
                    "machine-busy",
                    "suspect",
                    f"other programs used {busy:.0%} of the CPU time just before the run",
                    "Close them and run the cell again: they take time from some runs and not from others.",
                )
            )
        places = [(rank["host"], core) for rank in run.metrics.ranks for core in rank["cores"]]
        if len(places) != len(set(places)):
            found.append(
                about(
                    run,
                    "cores-shared",
                    "suspect",
                    f"{len(run.metrics.ranks)} ranks share {len(set(places))} cores",
                    "Devices that share a core are not whole devices; ask for fewer, or lower execution.threads_per_device.",
                )
            )
    return found


def devices_ran_free(runs: list[Run]) -> list[Finding]:
    """No GPU was slowed down by heat or by its power supply for more than a moment; a power cap is told, not blamed."""
    found = []
    for run in runs:
        for rank in run.metrics.ranks:
            for gpu in rank.get("gpus") or []:
                slowed = {name: share for name, share in gpu["throttled"].items() if share > THROTTLED}
                if not slowed:
                    continue
                shares = ", ".join(f"{name} {share:.0%}" for name, share in slowed.items())
                severity = "note" if set(slowed) == {"power_cap"} else "suspect"
                advice = "Other devices, or this one on a cooler day, are faster: compare only runs with equal clocks."
                clock = (
                    "clock unknown"
                    if gpu["sm_clock_mhz_mean"] is None
                    else f"{gpu['sm_clock_mhz_mean']:.0f} MHz on average"
                )
                evidence = (
                    f"a device of rank {rank['rank']} was slowed down in the window: {shares} of the samples, {clock}"
                )
                found.append(about(run, "device-throttled", severity, evidence, advice))
    return found
