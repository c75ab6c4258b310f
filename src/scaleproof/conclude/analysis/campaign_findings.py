"""findings.json: every check on a campaign, of its runs, scaling series, traces and A/B pairs."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from scaleproof.conclude.analysis.ab_comparison import Pair, runs_with_ratio, unreadable_runs
from scaleproof.conclude.analysis.measured_cells import measured_cells
from scaleproof.conclude.analysis.scaling import scaling_series
from scaleproof.conclude.checks.all_checks import audit, audit_campaign
from scaleproof.conclude.checks.campaign_parts import Arms
from scaleproof.conclude.checks.traces import traced_cells
from scaleproof.ground.findings.finding import Finding, Findings
from scaleproof.ground.findings.forecast_report import ForecastReport
from scaleproof.ground.findings.registry import by_severity
from scaleproof.ground.records.excluded_nodes import ExcludedNode
from scaleproof.ground.records.profile_schema import Profile
from scaleproof.ground.records.run import LOG, Run, TimedRun, measured_runs, timed_runs


def campaign_findings(
    campaign: str,
    runs: Sequence[Run],
    profiles: Iterable[Profile] = (),
    comparisons: dict[str, list[Pair]] | None = None,
    excluded: Sequence[ExcludedNode] = (),
    audit_log: Callable[[Path], list[Finding]] | None = None,
) -> Findings:
    """Return the findings of all checks on a campaign.

    `profiles`: the profiles of the traced cells; `comparisons`: name -> pairs; `excluded`: nodes on which no further
    runs are made; `audit_log`: returns the findings on a log, and is called with the log of each run of a command.
    """
    findings_on_runs = audit(campaign, runs)
    if audit_log:
        findings = list(findings_on_runs.findings)
        for run in timed_runs(runs):
            if run.metrics.evidence == "printed":
                findings += _log_findings(run, audit_log)
        findings_on_runs = findings_on_runs.model_copy(update={"findings": findings})

    comparisons = comparisons or {}
    # A pair with a damaged record has no ratio; the damaged runs are added, so that they get a finding.
    runs_of_pairs = {name: [*runs_with_ratio(pairs), *unreadable_runs(pairs)] for name, pairs in comparisons.items()}
    arms = []
    for name, pairs in comparisons.items():
        with_ratio = [pair for pair in pairs if pair.ratio is not None]
        of_a_and_b = tuple(pair.runs for pair in with_ratio if not pair.null)
        of_a_twice = tuple(pair.runs for pair in with_ratio if pair.null)
        arms.append(Arms(name, of_a_and_b, of_a_twice))
    series = scaling_series(measured_cells(runs))
    traced = traced_cells(profiles, measured_runs(runs))
    return audit_campaign(findings_on_runs, series, traced, runs_of_pairs, arms, excluded)


def _log_findings(run: TimedRun, audit_log: Callable[[Path], list[Finding]]) -> list[Finding]:
    """Return the findings of `audit_log` on a run's log. Notes, about what a program could print, are left out."""
    findings = [finding for finding in audit_log(run.folder / LOG) if finding.severity != "note"]
    run_and_cell = {"runs": [run.name], "cells": [run.metrics.cell]}
    return [finding.model_copy(update=run_and_cell) for finding in findings]


def with_forecasts(findings: Findings, forecast: ForecastReport) -> Findings:
    """Return the findings of a campaign together with those about its forecasts and sweeps, by severity."""
    return Findings(
        campaign=findings.campaign,
        rules_version=findings.rules_version,
        checks=[*findings.checks, *forecast.checks],
        findings=by_severity([*findings.findings, *forecast.findings]),
    )
