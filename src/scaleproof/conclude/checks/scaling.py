"""Is a scaling curve possible, and what must a reader know before believing it?

The subject is a series of scaling_report.json (conclude/analysis/scaling.py): its baseline and, for each size, rate,
speed-up and efficiency with their intervals.
"""

from collections.abc import Iterator
from itertools import pairwise

from scaleproof.ground.findings.registry import Flag, Register
from scaleproof.ground.findings.shared_codes import SLOWER_WITH_MORE, SUPER_LINEAR
from scaleproof.ground.number_format import fixed, integer
from scaleproof.ground.records.scaling_report import ScalingPoint, ScalingSeries

ABOVE = 1.02  # caches and clocks give a few parts in a hundred; beyond, an interval above 1 is not noise

of_series: Register[ScalingSeries] = Register(lambda series: [series.name], concerns="scaling")


def _flag(point: ScalingPoint, evidence: str, advice: str | None = None) -> Flag:
    """Return a flag about all runs of the cell at one size of a series."""
    runs = [f"{point.cell}/rep{repeat}" for repeat in point.repeats]
    return Flag(evidence, about=runs, cells=[point.cell], advice=advice)


@of_series.check(SUPER_LINEAR)
def scaling_is_not_super_linear(series: ScalingSeries) -> Iterator[Flag]:
    """Flag each size whose scaling efficiency is above 1 beyond its interval."""
    for point in series.points:
        efficiency = point.scaling_efficiency
        if efficiency is None or efficiency.low is None or efficiency.high is None:
            continue
        if efficiency.above() and efficiency.value > ABOVE:
            interval = f"{fixed(efficiency.low, 3)} to {fixed(efficiency.high, 3)}"
            yield _flag(
                point,
                f"efficiency {fixed(efficiency.value, 3)}, 95 % interval {interval}",
                "More than N times the rate of one Nth: the baseline was disturbed, or its working set does not fit "
                "where that of the larger size does. Run the baseline again before quoting it.",
            )


@of_series.check(SLOWER_WITH_MORE)
def more_devices_are_not_slower(series: ScalingSeries) -> Iterator[Flag]:
    """Flag each size whose rate is below that of the next smaller one, beyond both intervals."""
    for smaller, larger in pairwise(series.points):
        before = smaller.tokens_per_sec_global
        after = larger.tokens_per_sec_global
        if larger.devices > smaller.devices and before.low is not None and after.below(before.low):
            yield _flag(
                larger,
                f"{integer(after.value)} tokens/s on {larger.devices} devices, "
                f"{integer(before.value)} on {smaller.devices}",
                "Communication or a shared resource is the limit; a trace of this cell shows which.",
            )


@of_series.finds("incomparable-baseline", "suspect")
def baseline_is_comparable(series: ScalingSeries) -> Iterator[Flag]:
    """A cell differs from its baseline in something that was not meant to differ, so that no ratio is formed.

    Detected: Provenance of a cell against that of its baseline.
    Seen: One commit for one GPU, another for four.
    Repair: A speed-up over this baseline would measure these as well. Run both again in one environment.
    """
    for point in series.points:
        fields = point.incomparable
        if fields:
            yield _flag(point, f"{', '.join(fields)} differ{'s' if len(fields) == 1 else ''} from {series.baseline}")
