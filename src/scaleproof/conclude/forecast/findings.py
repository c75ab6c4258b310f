"""Findings about forecasts and links. A sweep: collectives of a group of devices, timed over message sizes."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from scaleproof.conclude.forecast.collective import judge_node_pairs
from scaleproof.conclude.forecast.ledger import Score
from scaleproof.conclude.forecast.sweep_file import Sweep, pair_rows, unstable_rows, weak_rows
from scaleproof.ground.findings.finding import Finding
from scaleproof.ground.findings.registry import Flag, Register, by_severity
from scaleproof.ground.number_format import fixed, integer, significant, span_text
from scaleproof.ground.records.grouping import group_by, lists_by_key

if TYPE_CHECKING:
    from scaleproof.conclude.forecast.campaign_forecast import ForecastEvidence

of_forecasts: Register[Score] = Register(lambda score: [score.cell], lambda score: [score.cell])
of_sweeps: Register[Sweep] = Register(lambda sweep: [f"sweep {sweep.group}"])
of_calibration: "Register[ForecastEvidence]" = Register(lambda evidence: [evidence.loaded.name])


@of_forecasts.finds("forecast-missed", "note")
def forecasts_hold(score: Score) -> Iterator[Flag]:
    """The measured step is outside the interval that was written before the run: the machine, or the run, is not what
    it was taken for.

    Detected: A forecast with hash and time, made before the cell's first run, does not hold its mean step time.
    Seen: Analytical predictors carry a bias, not noise: SimuMax's 43 published B200 rows err by -5.6 % on average.
    Repair: Look at the waterfall of the run for the part that grew, and sweep the group: a slow link shows there. Run
    again where the machine was busy.
    """
    if not score.inside:
        yield Flag(
            f"{fixed(1e3 * score.measured_s, 1, grouped=True)} ms a step were measured, "
            f"{span_text(*(fixed(1e3 * end, 1, grouped=True) for end in (score.low_s, score.high_s)))} ms were "
            f"forecast ({fixed(100 * score.level, 0)} %, {score.construction})"
        )


@of_sweeps.finds("sweep-slower-than-link", "suspect")
def sweeps_reach_their_link(sweep: Sweep) -> Iterator[Flag]:
    """Collectives reach far less than what the link is said to carry: a wrong route, a cable, a card that is shared, or
    a setting of NCCL.

    Detected: Bus bandwidth of the largest message below 70 % of the link's figure.
    Seen: nccl-tests issues 40, 119 and 293; open_clip issue 325: two nodes slower than one.
    Repair: Look at the pairs of nodes beside the sweep (node_pairs.csv), at topology and interface (scaleproof cluster
    check), and sweep again.
    """
    for row in weak_rows(sweep):
        yield Flag(
            f"{row.collective} of {integer(row.nbytes)} bytes reaches {significant(row.bus_bytes_per_s / 1e9)} GB/s, "
            f"{fixed(100 * (row.of_link or 0), 0)} % of what the link is said to carry"
        )


@of_sweeps.finds("sweep-unstable", "note")
def launches_of_a_sweep_agree(sweep: Sweep) -> Iterator[Flag]:
    """Launches of the same sweep differ: gloo's gather has two states, a neighbour used the link, or routes changed.
    Tables show the median of the launches.

    Detected: Medians of launches differ by more than 10 % at 64 KiB or more.
    Seen: One public H100 project's own figures for one shape differ by 18 % between days.
    Repair: Make more launches (forecast.launches), or measure on a machine that nobody else uses.
    """
    for name, rows in group_by(unstable_rows(sweep), lambda row: row.collective).items():
        largest = max(row.spread for row in rows)
        yield Flag(f"launches of {name} differ by up to {fixed(100 * largest, 0)} %, at {len(rows)} of its sizes")


@of_sweeps.finds("node-slow", "suspect")
def nodes_reach_each_other_equally(sweep: Sweep) -> Iterator[Flag]:
    """All-reduce is slow between this node and every other one: its card, its cable, or its settings. Whatever runs on
    it and on others waits for it.

    Detected: With four nodes or more: all pairs of the node, each in its fastest launch, below 70 % of the median
    node's bus bandwidth, and far below it by the spread of the pairs.
    Seen: nccl issue 318: the first useful measurement is an all-reduce between exactly two nodes; superbenchmark issue
    626.
    Repair: Leave the node out: the sweep's exclude.txt has the line for --scaleproof-exclude-nodes. Tell the site.
    """
    rows = pair_rows(sweep)
    if not rows:
        return
    verdict = judge_node_pairs(rows)
    for node in verdict.slow_nodes:
        speeds = [row.bus_bytes_per_s / 1e9 for row in rows if node in (row.first, row.second)]
        yield Flag(
            f"{node} reaches {significant(min(speeds))} to {significant(max(speeds))} GB/s with the {len(speeds)} "
            f"other nodes; the median node has {significant(verdict.median / 1e9)} GB/s"
        )


@of_sweeps.finds("link-slow", "suspect")
def links_between_nodes_are_equal(sweep: Sweep) -> Iterator[Flag]:
    """All-reduce is slow between these two nodes, and with other nodes both are fast: a route or a cable between them.

    Detected: With four nodes or more: the pair, in its fastest launch, below 70 % of the median node's bus bandwidth,
    and far below it by the spread of the pairs; no other pair of either node is.
    Seen: open_clip issues 325 and 465: two nodes slower than one.
    Repair: Tell the site. Leave out one of the two nodes, or compare only runs that had both or neither.
    """
    rows = pair_rows(sweep)
    if not rows:
        return
    verdict = judge_node_pairs(rows)
    for row in verdict.slow_links:
        yield Flag(
            f"{row.first} and {row.second} reach {significant(row.bus_bytes_per_s / 1e9)} GB/s with each other; "
            f"the median node has {significant(verdict.median / 1e9)} GB/s"
        )


@of_calibration.finds("calibration-stale", "suspect")
def calibration_is_of_one_version(evidence: "ForecastEvidence") -> Iterator[Flag]:
    """Runs that forecasts are made from were made with other versions than the sweep beside them: fitting one version
    says nothing about the next.

    Detected: Versions of torch differ between the sweeps and the runs of a campaign, or among these runs.
    Seen: DeepSpeed, NCCL and torch change bucket sizes and algorithms between minor versions.
    Repair: Repeat what is older: scaleproof retry for runs, scaleproof sweep for links.
    """
    made = [(run.metrics.env.get("torch_version"), run.name) for runs in evidence.runs.values() for run in runs]
    made += [(sweep.versions.get("torch_version"), f"sweep {sweep.group}") for sweep in evidence.sweeps]
    names_of = lists_by_key((version, name) for version, name in made if version not in (None, "", "unknown"))
    if len(names_of) > 1:
        others = {version: " and others" if len(names) > 1 else "" for version, names in names_of.items()}
        texts = [f"{version}: {names[0]}{others[version]}" for version, names in names_of.items()]
        yield Flag(f"torch differs: {'; '.join(sorted(texts))}")


CHECKS = (*of_forecasts, *of_sweeps, *of_calibration)


def forecast_findings(evidence: "ForecastEvidence", scores: list[Score]) -> list[Finding]:
    """Return all findings about the forecasts and sweeps of a campaign, the most severe first."""
    on_sweeps = of_sweeps.findings(evidence.sweeps)
    on_calibration = of_calibration.findings([evidence])
    return by_severity([*of_forecasts.findings(scores), *on_sweeps, *on_calibration])
