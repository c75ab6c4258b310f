"""Is the energy of a run that of its window?"""

from collections.abc import Iterator

from scaleproof.ground.findings.registry import Flag, of_run
from scaleproof.ground.number_format import fixed, seconds
from scaleproof.ground.records.run import MeasuredRun

AGREEMENT = 0.1  # part by which counter and integral may differ: beyond, the figure is to be withheld
# Part by which energy and mean power x time may differ. NVML renews its counter every 20 to 100 ms and samples are
# 0.1 s apart: 0.2 s at the ends, 10 % of the shortest window; the rest is for power that swings between samples.
OF_MEAN_POWER = 0.25
LONG_ENOUGH_S, SAMPLES = 2.0, 10  # of a window


@of_run.finds("energy-differs", "invalid")
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
                return
            expected = power * wall
            if wall < LONG_ENOUGH_S or gpu.get("samples", 0) < SAMPLES:
                continue
            if abs(joules - expected) > OF_MEAN_POWER * expected:
                product = f"{fixed(power, 0)} W x {seconds(wall, 2)} are {fixed(expected, 0)} J"
                yield Flag(f"a device of rank {rank['rank']}: {fixed(joules, 0)} J; {product}")
                return
