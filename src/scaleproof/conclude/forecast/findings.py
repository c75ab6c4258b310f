"""Findings about forecasts and links. A sweep: collectives of a group of devices, timed over message sizes."""

from collections.abc import Iterator

from scaleproof.conclude.forecast.campaign_forecast import ForecastEvidence
from scaleproof.conclude.forecast.codes import (
    CALIBRATION_STALE,
    FORECAST_MISSED,
    LINK_SLOW,
    NODE_SLOW,
    SWEEP_SLOWER_THAN_LINK,
    SWEEP_UNSTABLE,
)
from scaleproof.conclude.forecast.collective import judge
from scaleproof.conclude.forecast.ledger import Score
from scaleproof.conclude.forecast.sweep_file import Sweep, pair_rows, unstable_rows, weak_rows
from scaleproof.ground.findings.finding import Finding
from scaleproof.ground.findings.registry import Flag, Register, by_severity
from scaleproof.ground.number_format import fixed, integer, significant

of_forecasts: Register[Score] = Register(lambda score: [score.cell], lambda score: [score.cell])
of_sweeps: Register[Sweep] = Register(lambda sweep: [f"sweep {sweep.group}"])
of_calibration: Register[ForecastEvidence] = Register(lambda evidence: [evidence.loaded.name])


@of_forecasts.check(FORECAST_MISSED)
def forecasts_hold(score: Score) -> Iterator[Flag]:
    """The measured step is within the interval of its forecast."""
    if not score.inside:
        yield Flag(
            f"{fixed(1e3 * score.measured_s, 1, grouped=True)} ms a step were measured, "
            f"{fixed(1e3 * score.low_s, 1, grouped=True)} to {fixed(1e3 * score.high_s, 1, grouped=True)} ms were "
            f"forecast ({fixed(100 * score.level, 0)} %, {score.construction})"
        )


@of_sweeps.check(SWEEP_SLOWER_THAN_LINK)
def sweeps_reach_their_link(sweep: Sweep) -> Iterator[Flag]:
    """The largest message of each collective reaches 70 % of the link's figure, where that was given."""
    for row in weak_rows(sweep):
        yield Flag(
            f"{row.collective} of {integer(row.nbytes)} bytes reaches {significant(row.bus_bytes_per_s / 1e9)} GB/s, "
            f"{fixed(100 * (row.of_link or 0), 0)} % of what the link is said to carry"
        )


@of_sweeps.check(SWEEP_UNSTABLE)
def launches_of_a_sweep_agree(sweep: Sweep) -> Iterator[Flag]:
    """Launches agree within 10 % at sizes that are more than latency."""
    by_name: dict[str, list[float]] = {}
    for row in unstable_rows(sweep):
        by_name.setdefault(row.collective, []).append(row.spread)
    for name, spreads in by_name.items():
        yield Flag(
            f"launches of {name} differ by up to {fixed(100 * max(spreads), 0)} %, at {len(spreads)} of its sizes"
        )


@of_sweeps.check(NODE_SLOW)
def nodes_reach_each_other_equally(sweep: Sweep) -> Iterator[Flag]:
    """No node is slow with all others, where four or more were measured in pairs."""
    rows = pair_rows(sweep)
    if rows:
        verdict = judge(rows)
        for node in verdict.slow_nodes:
            speeds = [row.bus_bytes_per_s / 1e9 for row in rows if node in (row.first, row.second)]
            yield Flag(
                f"{node} reaches {significant(min(speeds))} to {significant(max(speeds))} GB/s with the {len(speeds)} "
                f"other nodes; the median node has {significant(verdict.median / 1e9)} GB/s"
            )


@of_sweeps.check(LINK_SLOW)
def links_between_nodes_are_equal(sweep: Sweep) -> Iterator[Flag]:
    """No two nodes are slow with each other alone, where four or more were measured in pairs."""
    rows = pair_rows(sweep)
    if rows:
        verdict = judge(rows)
        for row in verdict.slow_links:
            yield Flag(
                f"{row.first} and {row.second} reach {significant(row.bus_bytes_per_s / 1e9)} GB/s with each other; "
                f"the median node has {significant(verdict.median / 1e9)} GB/s"
            )


@of_calibration.check(CALIBRATION_STALE)
def calibration_is_of_one_version(evidence: ForecastEvidence) -> Iterator[Flag]:
    """Runs and sweeps are of one version of torch."""
    versions: dict[str, list[str]] = {}  # version -> names of what was made with it
    for runs in evidence.runs.values():
        for run in runs:
            versions.setdefault(run.metrics.env.get("torch_version") or "unknown", []).append(run.name)
    for sweep in evidence.sweeps:
        versions.setdefault(sweep.versions.get("torch_version") or "unknown", []).append(f"sweep {sweep.group}")
    versions.pop("unknown", None)
    if len(versions) > 1:
        texts = [
            f"{version}: {names[0]}" + (" and others" if len(names) > 1 else "") for version, names in versions.items()
        ]
        yield Flag(f"torch differs: {'; '.join(sorted(texts))}")


CHECKS = (*of_forecasts, *of_sweeps, *of_calibration)


def findings_of(evidence: ForecastEvidence, scores: list[Score]) -> list[Finding]:
    """All findings about the forecasts and sweeps of a campaign, the most severe first."""
    return by_severity(
        [
            *of_forecasts.findings(scores),
            *of_sweeps.findings(evidence.sweeps),
            *of_calibration.findings([evidence]),
        ]
    )
