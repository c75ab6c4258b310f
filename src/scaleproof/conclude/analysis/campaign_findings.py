"""findings.json: every check on a campaign, of its runs, scaling series, traces and A/B pairs."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from scaleproof.conclude.analysis.ab_comparison import Pair, damaged_of, runs_of
from scaleproof.conclude.analysis.measured_cells import measured_cells
from scaleproof.conclude.analysis.scaling import scaling_series
from scaleproof.conclude.checks.all_checks import audit, audit_campaign
from scaleproof.conclude.checks.arms import Arms
from scaleproof.conclude.checks.traces import traced_cells
from scaleproof.ground.findings.finding import Finding, Findings
from scaleproof.ground.findings.forecast_report import ForecastReport
from scaleproof.ground.findings.registry import by_severity
from scaleproof.ground.records.excluded_nodes import ExcludedNode
from scaleproof.ground.records.profile_schema import Profile
from scaleproof.ground.records.run import LOG, Run, TimedRun, measured, timed


def campaign_findings(
    campaign: str,
    runs: Sequence[Run],
    profiles: Iterable[Profile] = (),
    comparisons: dict[str, list[Pair]] | None = None,
    excluded: Sequence[ExcludedNode] = (),
    audit_log: Callable[[Path], list[Finding]] | None = None,
) -> Findings:
    """The findings of all checks on a campaign.

    `profiles`: of the traced cells; `comparisons`: name -> pairs; `excluded`: nodes left out.
    `audit_log`: what is wrong in a log, as of anybody's program; asked of each run of a command.
    """
    series = scaling_series(measured_cells(runs))
    runs_of_pairs = {name: [*runs_of(of_name), *damaged_of(of_name)] for name, of_name in (comparisons or {}).items()}
    traced = traced_cells(profiles, measured(runs))
    arms = [_arms(name, of_name) for name, of_name in (comparisons or {}).items()]
    of_runs = audit(campaign, runs)
    if audit_log:
        of_commands = [run for run in timed(runs) if run.metrics.evidence == "printed"]
        of_logs = [finding for run in of_commands for finding in _in_log(run, audit_log)]
        of_runs = of_runs.model_copy(update={"findings": [*of_runs.findings, *of_logs]})
    return audit_campaign(of_runs, series, traced, runs_of_pairs, arms, excluded)


def _in_log(run: TimedRun, audit_log: Callable[[Path], list[Finding]]) -> list[Finding]:
    """What is wrong in the log of a run. Notes are left out: they are about what its author could print besides."""
    serious = [finding for finding in audit_log(run.folder / LOG) if finding.severity != "note"]
    of_run = {"runs": [run.name], "cells": [run.metrics.cell]}
    return [finding.model_copy(update=of_run) for finding in serious]


def _arms(name: str, pairs: list[Pair]) -> Arms:
    """The pairs of a comparison as the checks see them: A and B, then A twice; those without numbers are left out."""
    of_kind = {
        null: tuple((pair.a, pair.b) for pair in pairs if pair.null == null and pair.ratio is not None)
        for null in (False, True)
    }
    return Arms(name, of_kind[False], of_kind[True])


def with_forecasts(findings: Findings, forecast: ForecastReport) -> Findings:
    """The findings with those about forecasts and sweeps."""
    return Findings(
        campaign=findings.campaign,
        rules_version=findings.rules_version,
        checks=[*findings.checks, *forecast.checks],
        findings=by_severity([*findings.findings, *forecast.findings]),
    )
