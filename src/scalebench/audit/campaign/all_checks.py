"""All checks on our own runs, and running them. Importing a module of checks registers them."""

from collections.abc import Iterable, Sequence

from scalebench.audit.campaign import comparability, convergence, execution, timing, work  # noqa: F401
from scalebench.audit.campaign.scaling import Series, of_series
from scalebench.audit.campaign.traces import TracedCell, of_trace
from scalebench.audit.finding import Finding, Findings
from scalebench.audit.registry import by_severity, codes_of, of_run, of_runs, rules_version
from scalebench.record.run import Run, measured

CODES = codes_of(of_run, of_runs, of_series, of_trace)
REGISTERS = (of_run, of_runs, of_series, of_trace)


def check_names(*registers: Iterable) -> list[str]:
    """Names of the checks of some registers: all where none are named."""
    return [check.name for register in registers or REGISTERS for check in register]


def audit(campaign: str, runs: Sequence[Run]) -> Findings:
    """All findings about the runs that have numbers, invalid ones first. Nothing is checked where no run has any."""
    with_numbers = measured(runs)
    findings: list[Finding] = []
    if with_numbers:
        findings = [*of_run.findings(with_numbers), *of_runs.findings([with_numbers])]
    return Findings(
        campaign=campaign,
        rules_version=rules_version(CODES),
        checks=check_names(of_run, of_runs) if with_numbers else [],
        findings=by_severity(findings),
    )


def audit_campaign(
    campaign: str,
    runs: Sequence[Run],
    series: Sequence[Series] = (),
    traces: Sequence[TracedCell] = (),
    pairs: dict[str, list[Run]] | None = None,
) -> Findings:
    """All findings of a campaign: findings.json. `pairs`: the runs of each A/B comparison by its name.

    `checks` names those that had something to look at.
    """
    of_pairs = [
        finding.model_copy(update={"concerns": "comparison", "cells": [name]})
        for name, pair_runs in (pairs or {}).items()
        for finding in audit(campaign, pair_runs).findings
        if finding.code != "single-run"  # both arms of a pair run once by design
    ]
    own = audit(campaign, runs)
    return own.model_copy(
        update={
            "checks": [
                *own.checks,
                *(check_names(of_series) if series else ()),
                *(check_names(of_trace) if traces else ()),
            ],
            "findings": by_severity(
                [*own.findings, *of_series.findings(series), *of_trace.findings(traces), *of_pairs]
            ),
        }
    )
