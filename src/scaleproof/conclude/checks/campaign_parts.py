"""Beside the runs of a campaign: is a scaling curve possible, did both arms of each pair run, which nodes failed?"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from scaleproof.ground.errors import plural
from scaleproof.ground.findings.registry import Flag, Register
from scaleproof.ground.findings.shared_codes import SLOWER_WITH_MORE, SUPER_LINEAR
from scaleproof.ground.number_format import fixed, number, span_text
from scaleproof.ground.records.excluded_nodes import ExcludedNode
from scaleproof.ground.records.run import Run
from scaleproof.ground.records.scaling_report import ScalingPoint, ScalingSeries

# Caches and clocks give a few percent; a larger efficiency is no noise if its whole interval is above 1.
ABOVE = 1.02

of_series: Register[ScalingSeries] = Register(lambda series: [series.name], concerns="scaling")


def _flag(point: ScalingPoint, evidence: str, advice: str | None = None) -> Flag:
    """Return a flag about all runs of the cell at one size of a series."""
    runs = [f"{point.cell}/rep{repeat}" for repeat in point.repeats]
    return Flag(evidence, about=runs, cells=[point.cell], advice=advice)


@of_series.check(SUPER_LINEAR)
def scaling_is_not_super_linear(series: ScalingSeries) -> Iterator[Flag]:
    """Flag each size whose scaling efficiency is above 1 with its whole interval, and above ABOVE itself."""
    for point in series.points:
        efficiency = point.scaling_efficiency
        if efficiency is None or efficiency.low is None or efficiency.high is None:  # a baseline, or no interval
            continue
        if efficiency.above() and efficiency.value > ABOVE:  # its whole interval is above 1
            interval = span_text(fixed(efficiency.low, 3), fixed(efficiency.high, 3))
            yield _flag(
                point,
                f"efficiency {fixed(efficiency.value, 3)} (95 % CI {interval})",
                "More than N times the rate of one Nth: the baseline was disturbed, or its working set does not fit "
                "where that of the larger size does. Run the baseline again before quoting it.",
            )


@of_series.check(SLOWER_WITH_MORE)
def more_devices_are_not_slower(series: ScalingSeries) -> Iterator[Flag]:
    """Flag each size whose rate is below the rate of the next smaller size, beyond both intervals."""
    for smaller, larger in pairwise(series.points):
        smaller_rate, larger_rate = smaller.tokens_per_sec_global, larger.tokens_per_sec_global
        has_more_devices = larger.devices > smaller.devices
        if has_more_devices and smaller_rate.low is not None and larger_rate.below(smaller_rate.low):
            yield _flag(
                larger,
                f"{number(larger_rate.value / smaller_rate.value)}x the rate of {smaller.cell}",
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
        fields = point.incomparable  # the names of the fields of its provenance that differ
        if fields:
            verb = "differs" if len(fields) == 1 else "differ"
            yield _flag(point, f"{', '.join(fields)} {verb} from {series.baseline}")


@dataclass(frozen=True)
class Arms:
    """The runs of the A/B comparison `name`: `pairs` of A and B, and `null_pairs` of A and A, which show the noise."""

    name: str
    pairs: tuple[tuple[Run, Run], ...]
    null_pairs: tuple[tuple[Run, Run], ...] = ()


of_arms: Register[Arms] = Register(lambda arms: [arms.name], lambda arms: [arms.name], concerns="comparison")


@of_arms.finds("arms-mixed-up", "invalid")
def pairs_have_both_arms(arms: Arms) -> Iterator[Flag]:
    """Both runs of a pair have one configuration where they should differ, or two where they should not: the ratio is
    not that of the two arms.

    Detected: Fingerprints of the configurations of both runs of each pair.
    Seen: A/B scripts that pass the same option to both arms.
    Repair: Remove the runs of this comparison and run it again.
    """
    equal_pairs = [pair for pair in arms.pairs if len(_fingerprints([pair])) == 1]
    unequal_null_pairs = [pair for pair in arms.null_pairs if len(_fingerprints([pair])) > 1]
    problems = []
    if equal_pairs:
        problems.append(f"{len(equal_pairs)} of {len(arms.pairs)} pairs have one configuration")
    if unequal_null_pairs:
        problems.append(f"{len(unequal_null_pairs)} of {len(arms.null_pairs)} pairs of A and A have two")
    if problems:
        runs = [run for pair in (*equal_pairs, *unequal_null_pairs) for run in pair]
        yield Flag("; ".join(problems), about=runs, cells=[arms.name])
    elif len(_fingerprints([*arms.pairs, *arms.null_pairs])) > 2:
        yield Flag("its runs have more than two configurations")


def _fingerprints(pairs: list[tuple[Run, Run]]) -> set[str]:
    return {run.metrics.fingerprint for pair in pairs for run in pair}


of_excluded_node: Register[ExcludedNode] = Register(lambda excluded: [excluded.node])


@of_excluded_node.finds("node-excluded", "note")
def nodes_were_left_out(excluded: ExcludedNode) -> Iterator[Flag]:
    """Jobs kept failing on a node, and the driver asked for it no more.

    The runs are from the other nodes: where hardware differs between nodes, from fewer kinds of it.

    Detected: Two failed jobs on one node, of which one ended well on another, or the state NODE_FAIL twice.
    Seen: A node without the shared file system, to which the queue sends job after job because it is always free.
    Repair: The logs of these jobs are in results/job-logs/. Tell the site.
    """
    # `jobs`: number of a job, a text -> how the job ended. Sorted as integers are.
    numbers = sorted(excluded.jobs, key=lambda number: (len(number), number))
    jobs_text = ", ".join(f"{number} {excluded.jobs[number]}" for number in numbers)
    failed = plural(len(excluded.jobs), "job")
    yield Flag(f"the driver left this node out after {failed} had failed there ({jobs_text})")
