"""All checks on our own runs, and running them. Importing a module of checks registers them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TypeVar

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
    watched_work,
    witnessed,
    work,
)
from scaleproof.conclude.checks.campaign_parts import Arms, ScalingSeries, of_arms, of_excluded_node, of_series
from scaleproof.conclude.checks.copies import HAS_COPY, of_all_runs
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
from scaleproof.ground.findings.shared_codes import RUN_COPIED
from scaleproof.ground.records.excluded_nodes import ExcludedNode
from scaleproof.ground.records.grouping import group_by
from scaleproof.ground.records.metrics import Printed
from scaleproof.ground.records.open_sections import rank_fault
from scaleproof.ground.records.run import STEPS, Run, TimedRun, measured_runs, timed_runs
from scaleproof.ground.records.series import read_series
from scaleproof.ground.records.unreadable import is_readable

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
Subject = TypeVar("Subject")
# What reading a series raises where the files are damaged.
ODD = (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError)


def check_names(*registers: Iterable) -> list[str]:
    """Return the names of the checks in `registers`, of all registers where none is given."""
    return [check.name for check in chain.from_iterable(registers or REGISTERS)]


def audit(campaign: str, runs: Sequence[Run]) -> Findings:
    """Return all findings about the runs of `campaign`, invalid ones first.

    Each run with numbers is checked alone, then all of them together; each damaged record gets a finding of its own.
    """
    measured, findings = _check_each_run(measured_runs(runs), of_run)
    printed_runs = [run for run in timed_runs(runs) if isinstance(run.metrics, Printed)]
    commands, findings_on_commands = _check_each_run(printed_runs, of_printed)
    findings += findings_on_commands
    watched = _watched_runs(commands)
    findings += of_watched.findings_on(watched)

    for run in runs:
        if run.metrics.failure and not is_readable(run):
            findings.append(_unusable_record(run, run.metrics.failure.reason))
    findings += _findings_on_missing_census(runs)

    if measured:
        for check in of_runs:
            findings += _findings_on_all_runs(check, measured)
        findings += of_all_runs.findings_on([runs])  # one subject: all runs, failed ones too
    timed = [*measured, *commands]
    if timed:
        for check_of_timed in of_timed:
            findings += _findings_on_all_runs(check_of_timed, timed)

    # Registers with what their checks looked at; checks that had nothing to look at are not named in the result.
    subjects: list[tuple[Iterable, Sequence]] = [(register, measured) for register in (of_run, of_runs, of_all_runs)]
    subjects += [(of_printed, commands), (of_watched, watched), (of_timed, timed)]
    return Findings(
        campaign=campaign,
        rules_version=RULES_VERSION,
        checks=[name for register, looked_at in subjects if looked_at for name in check_names(register)],
        findings=by_severity(_without_repetitions(_without_consequences(findings))),
    )


def _watched_runs(commands: Sequence[TimedRun]) -> list[WatchedRun]:
    """Return the runs of commands that were watched, each as the WatchedRun that `of_watched` checks."""
    watched = []
    for run in commands:
        metrics = run.metrics
        if isinstance(metrics, Printed) and metrics.watched:
            was_ended = metrics.reading.ended_after_s is not None
            watched.append(WatchedRun(run.name, metrics.watched, cells=(metrics.cell,), was_ended=was_ended))
    return watched


def _check_each_run(runs: list[AnyRun], register: Register[AnyRun]) -> tuple[list[AnyRun], list[Finding]]:
    """Return the runs whose series can be read, and the findings of the checks in `register` on each of them.

    A run that cannot be read gets a finding too, and does not stop the checks of the others. Each check goes over
    AT_A_TIME runs (caches hold what checks share of so many) before the next check does: twice as fast as run by run.
    """
    read_series(runs)
    readable_runs: list[AnyRun] = []
    findings_on_records: list[Finding] = []
    for run in runs:
        if problem := _series_problem(run):
            findings_on_records.append(_unusable_record(run, problem))
        else:
            readable_runs.append(run)

    findings_of_checks: list[tuple[Check[AnyRun], list[Finding]]] = [(check, []) for check in register]
    for start in range(0, len(readable_runs), AT_A_TIME):
        for check, findings in findings_of_checks:
            for run in readable_runs[start : start + AT_A_TIME]:
                own_findings, error = _try_check(check, run)
                findings += [_finding_on_error(check.name, run, error)] if error else own_findings
    return readable_runs, [*findings_on_records, *chain.from_iterable(findings for _, findings in findings_of_checks)]


def _without_repetitions(findings: list[Finding]) -> list[Finding]:
    """Return the findings: first one `record-unusable` for each fault, of however many runs and checks."""
    unusable = [finding for finding in findings if finding.code == RECORD_UNUSABLE.name]
    on_records = []
    for same in group_by(unusable, lambda finding: (finding.evidence, finding.concerns)).values():
        places = {field: chain.from_iterable(getattr(one, field) for one in same) for field in ("cells", "runs")}
        on_records.append(
            same[0].model_copy(update={field: [*dict.fromkeys(names)] for field, names in places.items()})
        )
    return [*on_records, *(finding for finding in findings if finding.code != RECORD_UNUSABLE.name)]


def _without_consequences(findings: list[Finding]) -> list[Finding]:
    """Return the findings less those that follow from another finding: one cause in a run, one finding.

    Of the invalid findings of CAUSES_FIRST on a run only the earliest in that order stays, and names the others; an
    edited record explains all invalid findings on its run. A run that is named as copied is not named as edited.
    """
    copied_runs = {name for finding in findings if finding.code == RUN_COPIED.name for name in finding.runs}
    findings = [one for one in findings if not (one.evidence.endswith(HAS_COPY) and one.runs[0] in copied_runs)]
    edited_runs = {finding.runs[0] for finding in findings if finding.code == EDITED}

    def is_linked(finding: Finding) -> bool:  # a cause or a consequence of other findings on its run
        is_of_one_run = finding.severity == "invalid" and len(finding.runs) == 1
        return is_of_one_run and (finding.code in CAUSES_FIRST or finding.runs[0] in edited_runs)

    linked_codes: dict[str, set[str]] = defaultdict(set)  # run -> codes of its linked findings
    for finding in findings:
        if is_linked(finding):
            linked_codes[finding.runs[0]].add(finding.code)

    findings_left = []
    for finding in findings:
        if is_linked(finding):
            cause, *consequences = sorted(linked_codes[finding.runs[0]], key=_place_among_causes)
            if finding.code != cause:  # the finding on the cause names it
                continue
            if consequences:
                evidence = f"{finding.evidence}{ALSO}{', '.join(consequences)}"
                finding = finding.model_copy(update={"evidence": evidence})
        findings_left.append(finding)
    return findings_left


def _place_among_causes(code: str) -> tuple[int, str]:
    """Return the key by which codes are sorted: codes of CAUSES_FIRST in its order, then the others by name."""
    index = CAUSES_FIRST.index(code) if code in CAUSES_FIRST else len(CAUSES_FIRST)
    return index, code


def _series_problem(run: TimedRun) -> str:
    """Return why the series of a run cannot be used; "" if it can."""
    try:
        return "" if len(run.window["step"]) else f"{STEPS} has no step of the window"
    except UserError as error:
        return str(error)
    except ODD as error:  # the files are damaged
        return describe_first_fault(error)


def _findings_on_missing_census(runs: Sequence[Run]) -> list[Finding]:
    """Return a finding on each run without a census, where another run with its schema version has one."""
    measured = measured_runs(runs)
    versions = {run.metrics.schema_version for run in measured if run.metrics.census}
    incomplete = [run for run in measured if not run.metrics.census and run.metrics.schema_version in versions]
    return [_unusable_record(run, "its record has no census, which others of its version have") for run in incomplete]


def _finding_on_error(check: str, run: TimedRun, error: Exception) -> Finding:
    """Return the finding that says what is at fault where a check broke with `error` on a run.

    It is a file or a field of the run's record that is damaged, or else the check itself. `check`: its name.
    """
    fault = str(error) if isinstance(error, UserError) else rank_fault(run.metrics.ranks)
    if fault:
        return _unusable_record(run, fault)
    return note_on_broken_check(check, error, [run.name], [run.metrics.cell])


def _findings_on_all_runs(check: Check[list[AnyRun]], runs: list[AnyRun]) -> list[Finding]:
    """Return the findings of a check on all runs.

    Where it breaks, each run that breaks it by itself gets a finding, and the rest is checked without these runs. If it
    still breaks, one note says so.
    """
    findings, error = _try_check(check, runs)
    if error is None:
        return findings
    findings_on_odd_runs: dict[str, Finding] = {}  # name of a run that breaks the check by itself -> finding
    for run in runs:
        _, own_error = _try_check(check, [run])
        if own_error:
            findings_on_odd_runs[run.name] = _finding_on_error(check.name, run, own_error)

    other_runs = [run for run in runs if run.name not in findings_on_odd_runs]
    if findings_on_odd_runs and other_runs:
        findings, error = _try_check(check, other_runs)
    if error and other_runs:
        findings = [note_on_broken_check(check.name, error, [run.name for run in other_runs])]
    return [*findings, *findings_on_odd_runs.values()]


def _try_check(check: Check[Subject], subject: Subject) -> tuple[list[Finding], Exception | None]:
    """Return a check's findings on a run, or on all runs, and None; or no findings, and the error that breaks it."""
    try:
        return check(subject), None
    except Exception as error:
        return [], error


def _unusable_record(run: Run, problem: str) -> Finding:
    """Return the finding that a run's record cannot be checked; `problem`: what it lacks, in words."""
    campaign_folder = run.folder.absolute().parent.parent.parent  # of CAMPAIGN/runs/CELL/rep1
    inside = without_place(problem, run.folder)  # one fault of many runs is one text
    inside = without_place(inside, campaign_folder)
    return finding_on_unusable_record(run.name, run.metrics.cell, inside)


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
    # Registers with what their checks look at.
    subjects: list[tuple[Register, Sequence]] = [(of_series, series), (of_trace, traces), (of_arms, arms)]
    subjects.append((of_excluded_node, excluded))
    checks, findings = list(own.checks), list(own.findings)
    for register, looked_at in subjects:
        if looked_at:
            checks += check_names(register)
            findings += register.findings_on(looked_at)

    # Runs of pairs are audited by themselves, and their findings are on the comparison and not on a cell.
    for name, runs_of_pairs in (pairs or {}).items():
        for finding in audit(own.campaign, runs_of_pairs).findings:
            if finding.code != "single-run":  # both arms of a pair run once by design
                findings.append(finding.model_copy(update={"concerns": "comparison", "cells": [name]}))
    return own.model_copy(update={"checks": checks, "findings": by_severity(findings)})
