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

    `profiles`: of the traced cells; `comparisons`: name -> pairs; `excluded`: nodes left out; `audit_log`: returns the
    findings on a log, and is called with the log of each run of a command.
    """
    comparisons = comparisons or {}
    series = scaling_series(measured_cells(runs))
    runs_of_pairs = {name: [*runs_with_ratio(pairs), *unreadable_runs(pairs)] for name, pairs in comparisons.items()}
    arms = [_arms_of(name, pairs) for name, pairs in comparisons.items()]  # only pairs with a ratio
    traced = traced_cells(profiles, measured_runs(runs))
    findings_of_runs = audit(campaign, runs)
    if audit_log:
        command_runs = [run for run in timed_runs(runs) if run.metrics.evidence == "printed"]
        of_logs = [finding for run in command_runs for finding in _log_findings(run, audit_log)]
        findings_of_runs = findings_of_runs.model_copy(update={"findings": [*findings_of_runs.findings, *of_logs]})
    return audit_campaign(findings_of_runs, series, traced, runs_of_pairs, arms, excluded)


def _log_findings(run: TimedRun, audit_log: Callable[[Path], list[Finding]]) -> list[Finding]:
    """Return the findings of `audit_log` on the log of a run, but for notes: they are about what could be printed."""
    serious = [finding for finding in audit_log(run.folder / LOG) if finding.severity != "note"]
    of_run = {"runs": [run.name], "cells": [run.metrics.cell]}
    return [finding.model_copy(update=of_run) for finding in serious]


def _arms_of(name: str, pairs: list[Pair]) -> Arms:
    """Return the pairs of the comparison `name` that have a ratio, those of A and B apart from those of A twice."""
    whole = [pair for pair in pairs if pair.ratio is not None]
    of_a_and_b, of_a_twice = (tuple((p.a, p.b) for p in whole if p.null == null) for null in (False, True))
    return Arms(name, of_a_and_b, of_a_twice)


def with_forecasts(findings: Findings, forecast: ForecastReport) -> Findings:
    """Return the findings of a campaign together with those about its forecasts and sweeps, by severity."""
    return Findings(
        campaign=findings.campaign,
        rules_version=findings.rules_version,
        checks=[*findings.checks, *forecast.checks],
        findings=by_severity([*findings.findings, *forecast.findings]),
    )
