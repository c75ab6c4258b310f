"""Do the times, the rates and the work agree with each other, and was the machine free?"""

from scalebench.audit.finding import Finding, about
from scalebench.record.run import Run

SAME = 0.005  # relative difference of figures that are one figure computed twice
FILLED = 0.02  # part of the window that may lie outside of the steps in it
STEPS_AND_RATE = 0.05  # ranks wait for each other at different steps, so these two agree less closely
BUSY = 0.25  # part of the machine's CPU time that others may take before a run


def rate_times_time(runs: list[Run]) -> list[Finding]:
    """tokens/s x wall time = tokens: those of the ledger, and those of the raw series."""
    found = []
    for run in runs:
        window = run.metrics.window
        product = window.tokens_per_sec_global * window.wall_time_sec
        counts = {"the ledger": window.tokens_processed_global, "steps.csv": int(run.window["tokens"].sum())}
        wrong = [
            f"{source} has {tokens:,}" for source, tokens in counts.items() if abs(product - tokens) > SAME * tokens
        ]
        if wrong:
            found.append(
                about(
                    run,
                    "rate-times-time",
                    "invalid",
                    f"{window.tokens_per_sec_global:,.0f} tokens/s x {window.wall_time_sec:.3f} s = {product:,.0f} tokens, "
                    f"but {' and '.join(wrong)}",
                    "The rate is not the work over the time; do not quote it.",
                )
            )
    return found


def steps_fill_window(runs: list[Run]) -> list[Finding]:
    """The steps of the slowest rank add up to the wall time of the window: none is left out, none is counted twice."""
    found = []
    for run in runs:
        wall = run.metrics.window.wall_time_sec
        series = run.steps[run.steps["phase"] == "window"]
        total = float(series.groupby("rank")["step_time_s"].sum().max())
        if abs(total - wall) > FILLED * wall:
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


def step_time_times_rate(runs: list[Run]) -> list[Finding]:
    """Mean step time x tokens/s = tokens per step: a timer that restarts too rarely or too often breaks this."""
    found = []
    for run in runs:
        window = run.metrics.window
        per_step = window.tokens_processed_global / window.step_time_n
        product = window.step_time_mean_sec * window.tokens_per_sec_global
        if abs(product - per_step) > STEPS_AND_RATE * per_step:
            found.append(
                about(
                    run,
                    "step-time-times-rate",
                    "invalid",
                    f"mean step {window.step_time_mean_sec * 1e3:.1f} ms x {window.tokens_per_sec_global:,.0f} tokens/s = "
                    f"{product:,.0f} tokens, but a step has {per_step:,.0f}",
                    "Step time and throughput come from different clocks or different steps; one of them is wrong.",
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
