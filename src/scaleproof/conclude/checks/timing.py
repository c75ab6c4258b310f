"""Do the times, the rates, the energy and the work agree with each other, and was the machine free?"""

from collections.abc import Iterator

from scaleproof.ground.findings.registry import Flag, of_run, of_runs
from scaleproof.ground.findings.shared_codes import RATE_TIMES_TIME
from scaleproof.ground.number_format import fixed, integer, percent, seconds, significant
from scaleproof.ground.records.run import MeasuredRun
from scaleproof.ground.records.steps import rank_totals

SAME = 0.005  # relative difference of figures that are one figure computed twice
# Part of the window that may lie outside of the steps in it. Beside a GPU that is the launch of the first kernel and
# the wait for the last, under a millisecond: 0.4 % of the shortest window.
FILLED = 0.02
FILLED_S = 0.02  # seconds outside of the steps: a rank may lose its processor between two readings of the clock
TURNS = 0.05  # part by which the slowest ranks' steps may exceed the window: as much as one repeat differs from another
SHORTEST_S = 0.25  # of a window; what whole runs vary by is seen by repeating them, not by longer windows
# Part of the samples of a GPU, one each 0.1 s. A clock that is halved in 5 % of the time costs 2.5 % of the rate, which
# campaigns can tell. At its power cap a device is as fast as it is sold: a note.
THROTTLED = 0.05
# Part of a step that may go by waiting for tokens: less than the differences that campaigns ask for; in the published
# demo it is 0.3 %, 1 % at most. A GPU goes on with the launches in its queue: the host's wait need not be its own.
WAITING, WAITING_BESIDE_GPU = 0.02, 0.05


def near(a: float, b: float) -> bool:
    """Return whether `a` and `b` differ by no more than SAME, as one figure computed twice; False with a NaN."""
    return abs(a - b) <= SAME * abs(b)


@of_run.check(RATE_TIMES_TIME)
def rate_times_time(run: MeasuredRun) -> Iterator[Flag]:
    """Flag a run whose tokens/s x wall time is not the number of tokens in its ledger, or in its raw series."""
    window = run.metrics.window
    product = window.tokens_per_s * window.wall_time_s
    counts = {"the ledger": window.tokens, "steps.csv": int(run.window["tokens"].sum())}
    wrong = [f"{source} has {integer(tokens)}" for source, tokens in counts.items() if not near(product, tokens)]
    if wrong:
        yield Flag(
            f"{integer(window.tokens_per_s)} tokens/s x {seconds(window.wall_time_s)} = {integer(product)} tokens, "
            f"but {' and '.join(wrong)}"
        )


@of_run.finds("steps-do-not-fill-window", "invalid")
def steps_fill_window(run: MeasuredRun) -> Iterator[Flag]:
    """The steps of the window do not add up to its time: the timer leaves time out or counts it twice.

    Detected: Sum of the slowest rank's steps against the wall time, 2 % + 0.02 s; its waits for data beyond it.
    Seen: ZeRO on one H100, with a timer that restarted every tenth step.
    Repair: Trust neither step times nor percentiles of this run.
    """
    wall = run.metrics.window.wall_time_s
    total = float(rank_totals(run.steps).max())
    if not abs(total - wall) <= FILLED * wall + FILLED_S:
        yield Flag(
            f"the steps add up to {seconds(total)}, but the window took {seconds(wall)} ({fixed(total / wall, 2)} "
            "times)"
        )
    waited = float(rank_totals(run.steps, "data_wait_s").max())
    if waited > (1 + FILLED) * wall + FILLED_S:
        yield Flag(f"waits for data add up to {seconds(waited)}, but the window took {seconds(wall)}")


@of_run.finds("ranks-slow-by-turns", "suspect")
def ranks_take_turns(run: MeasuredRun) -> Iterator[Flag]:
    """In each step another rank is the slow one, so that maxima over ranks add up to more than the window.

    Detected: Sum of the steps' maxima against the wall time, 5 % + 0.02 s.
    Seen: Disturbed machines.
    Repair: The rate stands; step times overstate. Run on a quiet machine.
    """
    wall = run.metrics.window.wall_time_s
    total = float(run.step_times.sum())
    if total > (1 + TURNS) * wall + FILLED_S:
        yield Flag(f"the slowest rank's steps add up to {seconds(total)} in a window of {seconds(wall)}")


@of_run.finds("window-short", "suspect", shortest_s=SHORTEST_S, shortest_s_too=significant(SHORTEST_S, 6))
def window_is_long_enough(run: MeasuredRun) -> Iterator[Flag]:
    """A window of a few scheduler ticks measures the machine's mood.

    Detected: Less than {shortest_s:g} seconds.
    Seen: marin issue 7981: 25-step windows mislead.
    Repair: Raise work.steps until the window takes {shortest_s_too} s or more.
    """
    wall = run.metrics.window.wall_time_s
    if wall < SHORTEST_S:
        yield Flag(f"the window took {seconds(wall, 2)}")


@of_run.finds("data-wait", "suspect")
def data_never_limits(run: MeasuredRun) -> Iterator[Flag]:
    """Ranks wait for tokens, so that the figures are partly those of a disk or of a reader.

    Detected: The wait for data that every rank measures, as a part of the step: more than 2 %, beside a GPU 5 %.
    Seen: Four workers on four cores beside four GPUs; image pipelines everywhere.
    Repair: Put results/corpora on a faster disk, or free a core for the reader.
    """
    window = run.metrics.window
    share = window.data_wait_mean_s / window.step_time_mean_s
    most = WAITING_BESIDE_GPU if window.clock == "cuda_events" else WAITING
    if share > most:
        wait_ms = window.data_wait_mean_s * 1e3
        step_ms = window.step_time_mean_s * 1e3
        yield Flag(
            f"{percent(share, 1)} of a step ({significant(wait_ms)} of {significant(step_ms)} ms) was waiting for "
            "tokens"
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
    capped: dict[str, MeasuredRun] = {}
    for run in runs:
        for rank in run.metrics.ranks:
            for gpu in rank.get("gpus") or []:
                slowed = {name: share for name, share in (gpu["throttled"] or {}).items() if share > THROTTLED}
                if set(slowed) == {"power_cap"}:
                    capped[run.name] = run
                elif slowed:
                    yield Flag(_slowdown_evidence(rank["rank"], slowed, gpu["sm_clock_mhz_mean"]), [run])
    if capped:
        evidence = f"devices of {len(capped)} of {len(runs)} runs were at their power cap in the window"
        yield Flag(evidence, list(capped.values()), severity="note")


def _slowdown_evidence(rank: int, slowed: dict[str, float], clock_mhz: float | None) -> str:
    """Return a sentence: what slowed a device of `rank` down, in what share of its samples, and its mean clock.

    `slowed`: name of the reason -> share of the samples; `clock_mhz`: None where it is unknown.
    """
    shares = ", ".join(f"{name} {percent(share)}" for name, share in slowed.items())
    clock = "clock unknown" if clock_mhz is None else f"{fixed(clock_mhz, 0)} MHz on average"
    return f"a device of rank {rank} was slowed down in the window: {shares} of the samples, {clock}"


# Part by which counter and integral may differ: by NVML's manual power is within 5 %, for each of the two. Beyond, the
# figure is to be withheld.
AGREEMENT = 0.1
# Part by which energy and mean power x time may differ. NVML renews its counter every 20 to 100 ms and samples are
# 0.1 s apart: 0.2 s at the ends, 10 % of the shortest window; the rest is for power that swings between samples.
OF_MEAN_POWER = 0.25
ENERGY_LONG_ENOUGH_S, SAMPLES = 2.0, 10  # of a window


@of_run.finds("energy-differs", "invalid", only_first=True)
def energy_is_of_the_window(run: MeasuredRun) -> Iterator[Flag]:
    """The energy is not that of the window: joules per token are those of a longer or a shorter time.

    Detected: The energy of each GPU against its mean power x the window's time (25 %, in windows of 2 s or more), and
    its counter against the integral of its power (10 %).
    Seen: Counters that are read before the warm-up.
    Repair: Quote no energy of this run. Look at when the counters are read.
    """
    wall = run.metrics.window.wall_time_s
    for rank in run.metrics.ranks:
        for gpu in rank.get("gpus") or []:
            joules = gpu.get("energy_j")
            power = gpu.get("power_w_mean")
            integral = gpu.get("energy_integral_j")
            if joules is None or power is None or integral is None:
                continue
            if abs(joules - integral) > AGREEMENT * max(joules, integral):
                yield Flag(
                    f"a device of rank {rank['rank']}: {fixed(joules, 0)} J by its counter, {fixed(integral, 0)} J by "
                    "its power"
                )
            expected = power * wall
            if wall < ENERGY_LONG_ENOUGH_S or gpu.get("samples", 0) < SAMPLES:
                continue
            if abs(joules - expected) > OF_MEAN_POWER * expected:
                product = f"{fixed(power, 0)} W x {seconds(wall, 2)} are {fixed(expected, 0)} J"
                yield Flag(f"a device of rank {rank['rank']}: {fixed(joules, 0)} J; {product}")
