"""All checks on our own runs, and running them. Importing a module of checks registers them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeGuard, TypeVar

from scaleproof.conclude.checks import (  # noqa: F401
    census,
    clock,
    comparability,
    control,
    cpu_time,
    execution,
    memory,
    printed,
    published,
    repeats,
    replayed,
    step_series,
    strategy_settings,
    timing,
    witnessed,
    work,
)
from scaleproof.conclude.checks.campaign_parts import Arms, ScalingSeries, of_arms, of_excluded_node, of_series
from scaleproof.conclude.checks.copies import of_all_runs
from scaleproof.conclude.checks.traces import TracedCell, of_trace
from scaleproof.conclude.checks.watched import WatchedRun, of_watched
from scaleproof.ground.errors import UserError, describe_first_fault, without_place
from scaleproof.ground.findings.finding import Finding, Findings
from scaleproof.ground.findings.registry import (
    AT_A_TIME,
    FILE_UNREADABLE,
    RECORD_UNUSABLE,
    Check,
    Register,
    by_severity,
    codes_of,
    finding_on_unusable_record,
    note_on_broken_check,
    of_printed,
    of_run,
    of_runs,
    of_timed,
    rules_version,
)
from scaleproof.ground.records.excluded_nodes import ExcludedNode
from scaleproof.ground.records.metrics import Failed, Printed, Timed
from scaleproof.ground.records.open_sections import rank_fault
from scaleproof.ground.records.run import STEPS, Run, TimedRun, measured_runs, timed_runs
from scaleproof.ground.records.series import read_series
from scaleproof.ground.records.unreadable import UNREADABLE

REGISTERS = (
    *(of_run, of_runs, of_timed, of_printed, of_watched, of_all_runs),
    *(of_series, of_trace, of_arms, of_excluded_node),
)
CODES = codes_of(*REGISTERS)
CODES |= {code.name: code for code in (RECORD_UNUSABLE, FILE_UNREADABLE)}
RULES_VERSION = rules_version(CODES, {check.function.__module__ for register in REGISTERS for check in register})
# On one run, the first of these that is found explains the ones after it, which it names: one cause, one finding.
EDITED = "record-edited"
CAUSES_FIRST = (
    EDITED,
    *("model-differs", "settings-differ", "precision-differs", "traffic-differs", "operations-differ"),
    *("updates-differ-from-steps", "ledger-differs-from-plan", "tokens-differ-from-reference", "replicas-differ"),
    *("losses-differ-from-reference", "window-differs-from-witness", "validation-differs-from-reference"),
)
ALSO = "; found with it: "  # before the codes that a finding explains
AnyRun = TypeVar("AnyRun", bound=TimedRun)
# What reading a series raises where the files are damaged.
ODD = (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError)


def check_names(*registers: Iterable) -> list[str]:
    """Return the names of the checks in `registers`, of all registers where none is given."""
    return [check.name for register in registers or REGISTERS for check in register]


def audit(campaign: str, runs: Sequence[Run]) -> Findings:
    """Return all findings about the runs of `campaign`, invalid ones first.

    Each run with numbers is checked alone, then all of them together; each damaged record is a finding of its own.
    """
    with_numbers, findings = _check_each_run(measured_runs(runs), of_run)
    of_programs = [run for run in timed_runs(runs) if isinstance(run.metrics, Printed)]
    commands, findings_on_commands = _check_each_run(of_programs, of_printed)
    findings += findings_on_commands
    watched = _watched_runs(commands)
    findings += of_watched.findings_on(watched)
    findings += [_unusable_record(run, run.metrics.failure.reason) for run in runs if _is_damaged(run.metrics)]
    findings += [
        _unusable_record(run, "its record has no census, which others of its version have")
        for run in _runs_without_census(runs)
    ]
    if with_numbers:
        findings += [finding for check in of_runs for finding in _findings_on_all_runs(check, with_numbers)]
        findings += of_all_runs.findings_on([runs])  # failed ones as well
    if any_level := [*with_numbers, *commands]:
        findings += [finding for check in of_timed for finding in _findings_on_all_runs(check, any_level)]
    # What checks looked at.
    subjects: list[tuple[Iterable, Sequence]] = [(kind, with_numbers) for kind in (of_run, of_runs, of_all_runs)]
    subjects += [(of_printed, commands), (of_watched, watched), (of_timed, any_level)]
    return Findings(
        campaign=campaign,
        rules_version=RULES_VERSION,
        checks=[name for register, runs_of_kind in subjects if runs_of_kind for name in check_names(register)],
        findings=by_severity(_without_consequences(_without_repetitions(findings))),
    )


def _watched_runs(commands: Sequence[TimedRun]) -> list[WatchedRun]:
    """Return the runs of commands that were watched, in the form that checks of them take."""
    return [
        WatchedRun(run.name, run.metrics.watched, (run.metrics.cell,), run.metrics.reading.ended_after_s is not None)
        for run in commands
        if isinstance(run.metrics, Printed) and run.metrics.watched
    ]


def _check_each_run(runs: list[AnyRun], register: Register[AnyRun]) -> tuple[list[AnyRun], list[Finding]]:
    """Return the runs whose series can be read, and the findings of the checks in `register` on each of them.

    Each run that cannot be read is a finding, too: it stops no check of the others. AT_A_TIME runs are checked at a
    time, since their checks share what is kept in caches; it takes half of the time of run by run.
    """
    read_series(runs)
    problems = [_series_problem(run) for run in runs]
    sound = [run for run, problem in zip(runs, problems, strict=True) if not problem]
    unusable = [_unusable_record(run, problem) for run, problem in zip(runs, problems, strict=True) if problem]
    checks: list[tuple[Check[AnyRun], list[Finding]]] = [(check, []) for check in register]
    for first in range(0, len(sound), AT_A_TIME):
        for check, findings in checks:
            for run in sound[first : first + AT_A_TIME]:
                findings += _findings_on_one_run(check, run)
    return sound, unusable + [finding for _, findings in checks for finding in findings]


def _without_repetitions(findings: list[Finding]) -> list[Finding]:
    """Return the findings, `record-unusable` ones first and each of them once, though several checks hit one fault."""
    unusable = {(*f.runs, f.evidence): f for f in findings if f.code == RECORD_UNUSABLE.name}
    return [*unusable.values(), *(f for f in findings if f.code != RECORD_UNUSABLE.name)]


def _without_consequences(findings: list[Finding]) -> list[Finding]:
    """Return the findings less those that follow from another one: one cause in a run, one finding.

    Of the invalid findings of CAUSES_FIRST on a run only the earliest in that order stays, and names the others; an
    edited record explains all of its run.
    """
    edited = {finding.runs[0] for finding in findings if finding.code == EDITED}

    def is_linked(finding: Finding) -> bool:  # a cause or a consequence of other findings on its run
        of_one_run = finding.severity == "invalid" and len(finding.runs) == 1
        return of_one_run and (finding.code in CAUSES_FIRST or finding.runs[0] in edited)

    codes: dict[str, set[str]] = defaultdict(set)  # run -> codes of its linked findings
    for finding in findings:
        if is_linked(finding):
            codes[finding.runs[0]].add(finding.code)
    findings_left = []
    for finding in findings:
        if is_linked(finding):
            cause, *others = sorted(codes[finding.runs[0]], key=_place_among_causes)
            if finding.code != cause:
                continue
            if others:
                finding = finding.model_copy(update={"evidence": f"{finding.evidence}{ALSO}{', '.join(others)}"})
        findings_left.append(finding)
    return findings_left


def _place_among_causes(code: str) -> tuple[int, str]:
    """Return by which codes are sorted: those of CAUSES_FIRST in its order, then the others by name."""
    return (CAUSES_FIRST.index(code) if code in CAUSES_FIRST else len(CAUSES_FIRST)), code


def _series_problem(run: TimedRun) -> str:
    """Return why the series of a run cannot be used; "" if it can."""
    try:
        return "" if len(run.window["step"]) else f"{STEPS} has no step of the window"
    except UserError as error:
        return str(error)
    except ODD as error:  # the files are damaged
        return describe_first_fault(error)


def _runs_without_census(runs: Sequence[Run]) -> list[Run]:
    """Return the runs without a census, beside others of their version that have one."""
    metrics = [run.metrics for run in measured_runs(runs)]
    with_census = {one.schema_version for one in metrics if one.census}
    return [run for run in measured_runs(runs) if not run.metrics.census and run.metrics.schema_version in with_census]


def _is_damaged(metrics: Timed | Failed) -> TypeGuard[Failed]:
    """Return whether a run's record could not be read: it then stands as a failed run of this class."""
    return isinstance(metrics, Failed) and metrics.failure.failure_class == UNREADABLE


def _findings_on_one_run(check: Check[AnyRun], run: AnyRun) -> list[Finding]:
    """Return the findings of a check on one run; where the check breaks, one finding that says what is at fault."""
    try:
        return check(run)
    except Exception as error:
        return [_finding_on_error(check.name, run, error)]


def _finding_on_error(check: str, run: TimedRun, error: Exception) -> Finding:
    """Return the finding that says what is at fault where a check broke with `error` on a run.

    It is a file or a field of the run's record that is damaged, or else the check itself. `check`: its name.
    """
    fault = str(error) if isinstance(error, UserError) else rank_fault(run.metrics.ranks)  # of a file, or of a field
    return _unusable_record(run, fault) if fault else note_on_broken_check(check, error, [run.name], [run.metrics.cell])


def _findings_on_all_runs(check: Check[list[AnyRun]], runs: list[AnyRun]) -> list[Finding]:
    """Return the findings of a check on all runs.

    Where it breaks, each run that breaks it by itself gets a finding, and the rest is checked without these runs. If it
    still breaks, one note says so.
    """
    findings, error = _try_check(check, runs)
    if error is None:
        return findings
    odd: dict[str, Finding] = {}  # by the names of their runs
    for run in runs:
        _, own_error = _try_check(check, [run])
        if own_error:
            odd[run.name] = _finding_on_error(check.name, run, own_error)
    rest = [run for run in runs if run.name not in odd]
    if odd and rest:
        findings, error = _try_check(check, rest)
    if error and rest:
        findings = [note_on_broken_check(check.name, error, [run.name for run in rest])]
    return [*findings, *odd.values()]


def _try_check(check: Check[list[AnyRun]], runs: list[AnyRun]) -> tuple[list[Finding], Exception | None]:
    """Return a check's findings on `runs` and None, or no findings and the error that it breaks with."""
    try:
        return check(runs), None
    except Exception as error:
        return [], error


def _unusable_record(run: Run, problem: str) -> Finding:
    """Return the finding that a run's record cannot be checked; `problem`: what it lacks, in words."""
    return finding_on_unusable_record(run.name, run.metrics.cell, without_place(problem, run.folder.parents[2]))


def audit_campaign(
    own: Findings,
    series: Sequence[ScalingSeries] = (),
    traces: Sequence[TracedCell] = (),
    pairs: dict[str, list[Run]] | None = None,
    arms: Sequence[Arms] = (),
    excluded: Sequence[ExcludedNode] = (),
) -> Findings:
    """Return all findings of a campaign, the content of findings.json.

    `own`: the findings about its runs (of `audit`); `series`: its scaling series; `traces`: its profiles; `pairs`: name
    of an A/B comparison -> its runs; `arms`: which runs are its pairs; `excluded`: nodes that the driver left out.

    The result's `checks` names the checks that had something to look at.
    """
    of_pairs = [
        finding.model_copy(update={"concerns": "comparison", "cells": [name]})
        for name, pair_runs in (pairs or {}).items()
        for finding in audit(own.campaign, pair_runs).findings
        if finding.code != "single-run"  # both arms of a pair run once by design
    ]
    parts: list[tuple[Register, Sequence]] = [(of_series, series), (of_trace, traces), (of_arms, arms)]
    parts.append((of_excluded_node, excluded))
    checks = [name for register, subjects in parts if subjects for name in check_names(register)]
    findings = [finding for register, subjects in parts for finding in register.findings_on(subjects)]
    return own.model_copy(
        update={"checks": [*own.checks, *checks], "findings": by_severity([*own.findings, *findings, *of_pairs])}
    )
