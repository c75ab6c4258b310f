"""Do the times, the rates, the energy and the work agree with each other, and was the machine free?"""

from collections.abc import Iterator

from scaleproof.ground.findings.registry import Flag, of_run, of_runs
from scaleproof.ground.findings.shared_codes import RATE_TIMES_TIME
from scaleproof.ground.number_format import fixed, integer, percent, seconds, significant
from scaleproof.ground.records.run import MeasuredRun
from scaleproof.ground.records.steps import rank_totals

SAME = 0.005  # the relative tolerance of figures that are one figure computed twice
# This share of the window may lie outside of its steps. Beside a GPU that is the launch of the first kernel and the
# wait for the last, under a millisecond: 0.4 % of the shortest window.
FILLED = 0.02
FILLED_S = 0.02  # and these seconds: a rank may lose its processor between two readings of the clock
TURNS = 0.05  # the slowest ranks' steps may exceed the window by this share: as much as repeats differ
SHORTEST_S = 0.25  # the shortest window; what whole runs vary by is seen by repeating them, not by longer windows
# A GPU may be slowed down in this share of its samples, one each 0.1 s. A clock that is halved in 5 % of the time costs
# 2.5 % of the rate, which campaigns can tell. At its power cap a device is as fast as it is sold: a note.
THROTTLED = 0.05
# This share of a step may go by waiting for tokens: less than the differences that campaigns ask for; in the published
# demo it is 0.3 %, 1 % at most. A GPU goes on with the launches in its queue: the host's wait need not be its own.
WAITING, WAITING_BESIDE_GPU = 0.02, 0.05


def near(a: float, b: float) -> bool:
    """Return whether `a` and `b` differ by no more than SAME, as one figure computed twice; False with a NaN."""
    return abs(a - b) <= SAME * abs(b)


@of_run.check(RATE_TIMES_TIME)
def rate_times_time(run: MeasuredRun) -> Iterator[Flag]:
    """Flag a run whose tokens/s x wall time is not the number of tokens in its ledger, or in its raw series."""
    window = run.metrics.window
    tokens = window.tokens_per_s * window.wall_time_s
    counts = {"the ledger": window.tokens, "steps.csv": int(run.window["tokens"].sum())}
    others = [f"{source} has {integer(count)}" for source, count in counts.items() if not near(tokens, count)]
    if others:
        yield Flag(
            f"{integer(window.tokens_per_s)} tokens/s x {seconds(window.wall_time_s)} = {integer(tokens)} tokens, "
            f"but {' and '.join(others)}"
        )


@of_run.finds("steps-do-not-fill-window", "invalid")
def steps_fill_window(run: MeasuredRun) -> Iterator[Flag]:
    """The steps of the window do not add up to its time: the timer leaves time out or counts it twice.

    Detected: Sum of the slowest rank's steps against the wall time, 2 % + 0.02 s; its waits for data beyond it; a step
    without any wait for its samples, which a clock of nanoseconds never shows.
    Seen: ZeRO on one H100, with a timer that restarted every tenth step.
    Repair: Trust neither step times nor percentiles of this run.
    """
    window_s = run.metrics.window.wall_time_s
    steps_s = float(rank_totals(run.steps).max())
    if not abs(steps_s - window_s) <= FILLED * window_s + FILLED_S:  # flags NaN as well
        times = f"{fixed(steps_s / window_s, 2)} times"
        yield Flag(f"the steps add up to {seconds(steps_s)}, but the window took {seconds(window_s)} ({times})")
    waits_s = float(rank_totals(run.steps, "data_wait_s").max())
    if waits_s > (1 + FILLED) * window_s + FILLED_S:
        yield Flag(f"waits for data add up to {seconds(waits_s)}, but the window took {seconds(window_s)}")
    unmeasured = run.window["step"][run.window["data_wait_s"] == 0]
    if len(unmeasured):
        yield Flag(f"step {unmeasured[0]} waited 0 s for its samples: the wait was not measured")


@of_run.finds("ranks-slow-by-turns", "suspect")
def ranks_take_turns(run: MeasuredRun) -> Iterator[Flag]:
    """In each step another rank is the slow one, so that maxima over ranks add up to more than the window.

    Detected: Sum of the steps' maxima against the wall time, 5 % + 0.02 s.
    Seen: Disturbed machines.
    Repair: The rate stands; step times overstate. Run on a quiet machine.
    """
    window_s = run.metrics.window.wall_time_s
    steps_s = float(run.step_times.sum())
    if steps_s > (1 + TURNS) * window_s + FILLED_S:
        yield Flag(f"the slowest rank's steps add up to {seconds(steps_s)} in a window of {seconds(window_s)}")


@of_run.finds("window-short", "suspect", shortest_s=SHORTEST_S, shortest_s_too=significant(SHORTEST_S, 6))
def window_is_long_enough(run: MeasuredRun) -> Iterator[Flag]:
    """A window of a few scheduler ticks measures the machine's mood.

    Detected: Less than {shortest_s:g} seconds.
    Seen: marin issue 7981: 25-step windows mislead.
    Repair: Raise work.steps until the window takes {shortest_s_too} s or more.
    """
    window_s = run.metrics.window.wall_time_s
    if window_s < SHORTEST_S:
        yield Flag(f"the window took {seconds(window_s, 2)}")


@of_run.finds("data-wait", "suspect")
def data_never_limits(run: MeasuredRun) -> Iterator[Flag]:
    """Ranks wait for tokens, so that the figures are partly those of a disk or of a reader.

    Detected: The wait for data that every rank measures, as a part of the step: more than 2 %, beside a GPU 5 %.
    Seen: Four workers on four cores beside four GPUs; image pipelines everywhere.
    Repair: Put results/corpora on a faster disk, or free a core for the reader.
    """
    window = run.metrics.window
    waiting_share = window.data_wait_mean_s / window.step_time_mean_s
    tolerated_share = WAITING_BESIDE_GPU if window.clock == "cuda_events" else WAITING
    if waiting_share > tolerated_share:
        wait_ms = window.data_wait_mean_s * 1e3
        step_ms = window.step_time_mean_s * 1e3
        yield Flag(
            f"{percent(waiting_share, 1)} of a step ({significant(wait_ms)} of {significant(step_ms)} ms) was waiting "
            "for tokens"
        )


@of_run.finds("cores-shared", "suspect")
def cores_are_not_shared(run: MeasuredRun) -> Iterator[Flag]:
    """Ranks that share a core are not whole devices.

    Detected: Core numbers that every rank is bound to.
    Seen: Four ranks with four workers each on four cores.
    Repair: Ask for fewer ranks, or lower execution.threads_per_device.
    """
    cores = [(rank["host"], core) for rank in run.metrics.ranks for core in rank["cores"]]
    if len(cores) != len(set(cores)):
        yield Flag(f"{len(run.metrics.ranks)} ranks share {len(set(cores))} cores")


@of_runs.finds("device-throttled", "suspect")
def devices_ran_free(runs: list[MeasuredRun]) -> Iterator[Flag]:
    """A GPU slowed itself down because of heat or power, and the figures are those of a slower device.

    Detected: NVML's reasons over the samples of the window, 5 %; power caps alone are one `note` of a campaign.
    Seen: Dense nodes.
    Repair: Other devices, or this one on a cooler day, are faster: compare only runs with equal clocks.
    """
    # At work every GPU of a data centre is at its power cap, so that this alone is one note for all runs.
    capped_runs: dict[str, MeasuredRun] = {}  # by name
    for run in runs:
        for rank in run.metrics.ranks:
            for gpu in rank.get("gpus") or []:
                # Reason of NVML -> share of the samples in which it slowed the GPU down.
                reasons = {name: share for name, share in (gpu["throttled"] or {}).items() if share > THROTTLED}
                if set(reasons) == {"power_cap"}:
                    capped_runs[run.name] = run
                elif reasons:
                    evidence = _slowdown_evidence(rank["rank"], reasons, gpu["sm_clock_mhz_mean"])
                    yield Flag(evidence, about=[run])
    if capped_runs:
        evidence = f"devices of {len(capped_runs)} of {len(runs)} runs were at their power cap in the window"
        yield Flag(evidence, about=list(capped_runs.values()), severity="note")


def _slowdown_evidence(rank: int, reasons: dict[str, float], clock_mhz: float | None) -> str:
    """Return a sentence: what slowed a device of `rank` down, in what share of its samples, and its mean clock.

    `reasons`: name of the reason -> share of the samples; `clock_mhz`: None where it is unknown.
    """
    shares_text = ", ".join(f"{name} {percent(share)}" for name, share in reasons.items())
    clock_text = "clock unknown" if clock_mhz is None else f"{fixed(clock_mhz, 0)} MHz on average"
    return f"a device of rank {rank} was slowed down in the window: {shares_text} of the samples, {clock_text}"


# Counter and integral may differ by this share: by NVML's manual power is within 5 %, for each of the two. Beyond, the
# figure is to be withheld.
AGREEMENT = 0.1
# Energy and mean power x time may differ by this share. NVML renews its counter every 20 to 100 ms and samples are
# 0.1 s apart: 0.2 s at the ends, 10 % of the shortest window; the rest is for power that swings between samples.
OF_MEAN_POWER = 0.25
ENERGY_LONG_ENOUGH_S, SAMPLES = 2.0, 10  # the shortest window in which they are compared, and its fewest samples


@of_run.finds("energy-differs", "invalid", only_first=True)
def energy_is_of_the_window(run: MeasuredRun) -> Iterator[Flag]:
    """The energy is not that of the window: joules per token are those of a longer or a shorter time.

    Detected: The energy of each GPU against its mean power x the window's time (25 %, in windows of 2 s or more), and
    its counter against the integral of its power (10 %).
    Seen: Counters that are read before the warm-up.
    Repair: Quote no energy of this run. Look at when the counters are read.
    """
    window_s = run.metrics.window.wall_time_s
    for rank in run.metrics.ranks:
        device = f"a device of rank {rank['rank']}"
        for gpu in rank.get("gpus") or []:
            counter_j = gpu.get("energy_j")
            power_w = gpu.get("power_w_mean")
            integral_j = gpu.get("energy_integral_j")
            if counter_j is None or power_w is None or integral_j is None:  # the GPU or an older record lacks it
                continue

            if abs(counter_j - integral_j) > AGREEMENT * max(counter_j, integral_j):
                yield Flag(f"{device}: {fixed(counter_j, 0)} J by its counter, {fixed(integral_j, 0)} J by its power")

            expected_j = power_w * window_s
            is_measured_well = window_s >= ENERGY_LONG_ENOUGH_S and gpu.get("samples", 0) >= SAMPLES
            if is_measured_well and abs(counter_j - expected_j) > OF_MEAN_POWER * expected_j:
                product = f"{fixed(power_w, 0)} W x {seconds(window_s, 2)} are {fixed(expected_j, 0)} J"
                yield Flag(f"{device}: {fixed(counter_j, 0)} J; {product}")
