"""Profiles and logs of monitors beside runs, files that could not be read, and runs that failed."""

from collections import Counter
from collections.abc import Iterator

from scaleproof.auditor.checks.context import AuditContext, listed, near, of_evidence
from scaleproof.auditor.read.reported import BROKEN, OperatorTable
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.finding import Correction
from scaleproof.ground.findings.registry import FILE_UNREADABLE, Code, Flag

TIMES_OWN = 1.5  # inclusive over own time of a profile


@of_evidence.check(
    Code(
        "inclusive-times-summed",
        "note",
        what="Inclusive times hold the time of nested operators; their sum counts it several times. `note` where "
        "nobody has published the sum.",
        detected="The sum of inclusive device times exceeds that of own times by half; `invalid` where a claim equals "
        "it.",
        seen="GPT-2 on L4: 125 s published, 21.8 s of device time.",
        repair="Add the column of own times.",
    ),
    Code(
        "profiles-of-different-length",
        "suspect",
        what="Sums over profiles of different numbers of steps are not comparable.",
        detected="ProfilerStep counts differ between profiles.",
        seen="GPT-2 on L4: 15 and 10 steps.",
        repair="Divide by the profiled steps.",
    ),
)
def profiles_are_read_right(context: AuditContext) -> Iterator[Flag]:
    """Inclusive times, which count nested operators repeatedly, are not added up; profiles have one length."""
    for table in context.evidence.operator_tables:
        if table.self_s and table.inclusive_s > TIMES_OWN * table.self_s:
            yield _inclusive_times(context, table)
    steps = {table.name: table.steps for table in context.evidence.operator_tables if table.steps}
    if len(set(steps.values())) > 1:
        lengths = Counter(steps.values())
        evidence = listed(f"{plural(lengths[n], 'profile')} of {plural(n, 'step')}" for n in sorted(lengths))
        yield Flag(f"{evidence}; divide each sum by its steps", list(steps), "profiles-of-different-length")


def _inclusive_times(context: AuditContext, table: OperatorTable) -> Flag:
    """The finding on a profile's inclusive times: `invalid`, with the right sum, where a claim is their sum."""
    claims = [
        claim
        for claim in context.claims("total_time")
        if claim.values["of"] in table.name and near(claim.values["value"], table.inclusive_s, 0.02)
    ]
    evidence = (
        f"the inclusive times add up to {table.inclusive_s:,.1f} s, the operators' own to {table.self_s:,.1f} s "
        f"({table.inclusive_s / table.self_s:.1f} times)"
    )
    if not claims:
        return Flag(evidence, [table], "inclusive-times-summed")
    evidence += f"; {claims[0].source} states {claims[0].values['value']:,.1f} s"
    correction = Correction(
        value=round(table.self_s, 1), unit="s", derivation="device time, the sum of the column of own times"
    )
    return Flag(evidence, [table], "inclusive-times-summed", severity="invalid", corrected=correction)


@of_evidence.check(
    Code(
        "pollers-overlap",
        "suspect",
        what="Pollers of earlier runs still write into this file and load this run.",
        detected="Samples of one device whose time goes backwards.",
        seen="ZeRO stages and precisions on one H100: the wrapper was killed, its nvidia-smi lived on.",
        repair="Stop the process that polls, not its wrapper; one file for each run.",
    )
)
def one_poller(context: AuditContext) -> Iterator[Flag]:
    for log in context.evidence.gpu_logs:
        # Two, or one in a hundred, may have another cause.
        if log.backwards > max(2, 0.01 * log.samples):
            yield Flag(
                f"{log.samples:,} samples of {plural(log.devices, 'device')}; time goes backwards "
                f"{plural(log.backwards, 'time')}",
                [log],
            )


@of_evidence.check(FILE_UNREADABLE)
def files_were_read(context: AuditContext) -> Iterator[Flag]:
    """Files that could not be read are named."""
    for unread in context.evidence.unread:
        if unread.kind in BROKEN:
            yield Flag(unread.reason, [unread])


@of_evidence.check(
    Code(
        "run-failed",
        "note",
        what="A run without numbers.",
        detected="Its status says so.",
        seen="",
        repair="See its reason; keep it as a row of the table.",
    )
)
def runs_have_numbers(context: AuditContext) -> Iterator[Flag]:
    failed = [run for run in context.runs if run.details.get("status") == "failed"]
    if failed:
        yield Flag(f"failed: {listed(run.name for run in failed)}", failed)
