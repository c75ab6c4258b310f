"""What checks on other people's results share: the register, how fast a run says it was, what is compared with what."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from statistics import fmean
from typing import Any

from scaleproof.auditor.checks import matching
from scaleproof.auditor.checks.baselines import Baselines, Scaling, TotalRate, total_rate
from scaleproof.auditor.checks.columns import FigureTable, figure_tables
from scaleproof.auditor.checks.rows import RowSeries, series_of
from scaleproof.auditor.read.printed_figures import plain_text
from scaleproof.auditor.read.reported import Evidence, PublishedClaim, ReportedRun, TimedSpan
from scaleproof.auditor.read.reported_tables import ReportedTable
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.finding import Finding
from scaleproof.ground.findings.registry import Check, Flag, Register
from scaleproof.ground.records.grouping import group_by

SAME_TOLERANCE = 0.01  # relative difference of figures that are one figure, rounded
ROWS_PER_ODD_ROW = 2  # that show what the figures of a table mean, for each one that contradicts
MOST_LISTED = 12  # names in one finding's evidence
RATIOS = ("speedup", "efficiency", "change")  # kinds of figures that follow from others
MARK_OF_RATIO = re.compile("(?i)[%x×]|times|percent|pct")
RELATIVE_ERROR = re.compile(r"(?i)rel(?:ative|\.)? (?:err(?:or|\.)?|diff(?:erence|\.)?)")


@dataclass
class AuditContext:
    """The evidence of one audit."""

    evidence: Evidence
    _named: dict[str, list[ReportedRun]] = field(default_factory=dict)  # part of a name -> its runs
    _findings: dict[str, list[Finding]] = field(default_factory=dict)  # name of a check -> what it found
    _figures: dict[int, list[FigureTable]] = field(default_factory=dict)  # id of a table -> its columns

    def __post_init__(self) -> None:
        if self.evidence.runs:
            # A run that does not state its devices takes their number from the table row that has its figures.
            for run, devices in matching.devices_from_tables(self.evidence):
                run.world_size = devices

    @cached_property
    def has(self) -> set[str]:
        """What checks may need: the kinds of all figures in tables, and words for what else there is.

        "runs": runs or files beside them; "sentences": sentences with figures; "several tables": two or more; "marks of
        ratios": a cell with "%" or "x", or a column that may be of ratios; "related figures": a table so large, or with
        so many figures in a row, that one figure may follow from others; "relative errors": a column of them.
        """
        evidence, tables = self.evidence, self.evidence.tables
        of_runs = (evidence.runs, evidence.operator_tables, evidence.gpu_logs, evidence.scaling_reports)
        beside_runs = (evidence.traced_folders, evidence.published_claims, evidence.unread)
        sources = {
            "runs": any(of_runs) or any(beside_runs),
            "sentences": bool(evidence.stated_figures or evidence.stated_results),
            "several tables": len(tables) > 1,
            "marks of ratios": any(map(_may_have_ratios, self.all_tables)),
            "related figures": any(map(_has_related_figures, self.all_tables)),
            "relative errors": any(map(has_relative_errors, tables)),
        }
        return {kind for table in tables for kind in table.kinds()} | {
            name for name, is_there in sources.items() if is_there
        }

    @cached_property
    def runs(self) -> list[ReportedRun]:
        """The runs that are checked: all but quotations in documents, which may leave out lines."""
        return [run for run in self.evidence.runs if not run.quoted]

    @property
    def all_tables(self) -> list[ReportedTable]:
        """All tables, also those without results or with unknown headings: their columns may follow from others."""
        return [*self.evidence.tables, *self.evidence.other_tables]

    @cached_property
    def tables(self) -> list[ReportedTable]:
        """The tables that are checked: those whose headings are understood."""
        return [table for table in self.evidence.tables if table.checked]

    @cached_property
    def runs_table(self) -> ReportedTable:
        """The runs as rows of one table, so that checks of rows are made on runs, too."""
        return ReportedTable("", 0, "runs", [], [matching.row_of(run) for run in self.runs])

    @property
    def tables_and_runs(self) -> list[ReportedTable]:
        return [*self.tables, self.runs_table]

    @cached_property
    def series(self) -> list[RowSeries]:
        """Of all tables the configurations that have rows with different numbers of devices."""
        return [series for table in self.tables for series in series_of(table)]

    @cached_property
    def baselines(self) -> Baselines:
        return Baselines(self.runs, self._published_baselines)

    @property
    def scalings(self) -> list[Scaling]:
        """Each run with more devices beside the runs that are its baseline."""
        return self.baselines.matched if self.runs else []

    @cached_property
    def _published_baselines(self) -> dict[str, ReportedRun]:
        """Name of a run -> the baseline of its published speed-up, where both names mean exactly one run."""
        baselines: dict[str, ReportedRun] = {}
        for claim in self.claims("speedup"):
            runs, bases = self.runs_named(claim.values["of"]), self.runs_named(claim.values["over"])
            if len(runs) == len(bases) == 1:
                (run,), (base,) = runs, bases
                if run.world_size and base.world_size and run.world_size > base.world_size:
                    baselines[run.name] = base
        return baselines

    def figures_of(self, table: ReportedTable) -> list[FigureTable]:
        """Return `figure_tables` of a table, formed once for all checks."""
        if id(table) not in self._figures:
            self._figures[id(table)] = list(figure_tables(table))
        return self._figures[id(table)]

    def claims(self, *kinds: str) -> Iterator[PublishedClaim]:
        """Yield claims of these kinds: of claims files, and what tables and sentences say about runs beside them."""
        return (claim for claim in self._claims if claim.kind in kinds)

    @cached_property
    def _compared_in_tables(self) -> set[frozenset[str]]:
        """Pairs of names of runs whose figures stand in one table."""
        return set(matching.pairs_in_tables(self.evidence))

    @cached_property
    def _claims(self) -> list[PublishedClaim]:
        """All claims, those of claims files first. Those of tables and sentences are about runs: without runs none."""
        if not self.evidence.runs:
            return self.evidence.published_claims
        of_tables = matching.claims_from_tables(self.evidence)
        return [*self.evidence.published_claims, *of_tables, *matching.claims_from_sentences(self.evidence)]

    def is_published(self, a: ReportedRun, b: ReportedRun) -> bool:
        """Whether somebody published a comparison of the two: a claim "a 3.9x over b", or a table or report of both."""
        if frozenset((a.name, b.name)) in self._compared_in_tables:
            return True
        for claim in self.claims("speedup", "change"):
            compared = {run.name for run in self.runs_named(claim.values["of"])}
            bases = {run.name for run in self.runs_named(claim.values["over"])}
            if (a.name in compared and b.name in bases) or (b.name in compared and a.name in bases):
                return True
        # A scaling report has a row for each number of devices, and compares them all.
        sizes = {a.world_size, b.world_size}
        return any(sizes <= report.rows.keys() for report in self.evidence.scaling_reports)

    def runs_named(self, part: str) -> list[ReportedRun]:
        """Return the runs that a published claim means by `part`: those so called, else those with it in their name."""
        if part not in self._named:
            exact = [run for run in self.runs if part in (run.name, run.name_without_repeat)]
            files = [run for run in self.runs if run.name.endswith(f"/{part}")]
            self._named[part] = exact or files or [run for run in self.runs if part in run.name]
        return self._named[part]

    def findings_of(self, check: Check["AuditContext"]) -> list[Finding]:
        """Return what a check finds, or the note that it broke. It is made once, for the audit and for other checks."""
        if check.name not in self._findings:
            self._findings[check.name] = check.findings_on(self)
        return self._findings[check.name]

    def total_rate_of(self, part: str) -> TotalRate | None:
        """Return the mean rate of the runs that `part` names; None where one has no rate, or their units differ."""
        runs = self.runs_named(part)
        rates = [rate for run in runs if (rate := total_rate(run)) is not None]
        if not rates or len(rates) < len(runs) or len({rate.unit for rate in rates}) > 1:
            return None
        return TotalRate(fmean(rate.value for rate in rates), rates[0].unit)


def has_relative_errors(table: ReportedTable) -> bool:
    """Whether a table has a name, two figures and their relative error in each row, and no more."""
    header = table.grid.header if table.grid else []
    return len(header) == 4 and RELATIVE_ERROR.fullmatch(plain_text(header[3])) is not None


def _may_have_ratios(table: ReportedTable) -> bool:
    """Whether a column may be of ratios, by its heading, or a cell may state one: "2.1x", "50 %"."""
    cells = (cell for row in table.rows for cell in row.texts.values())
    return any(column.kind in (None, "metric", "text") for column in table.columns) or any(
        map(MARK_OF_RATIO.search, cells)
    )


def _has_related_figures(table: ReportedTable) -> bool:
    """Whether a table has enough for a figure to follow from others: three rows or columns, or two figures in a row."""
    rows = table.grid.rows if table.grid else table.rows
    columns = [column for column in table.columns if column.kind not in RATIOS]
    in_rows = ([figure for figure in row.figures if figure.kind not in ("devices", *RATIOS)] for row in table.rows)
    is_large = max(len(rows), len(columns)) > 2
    # Figures that the table or the text above it states for all rows suffice, too; devices and ratios do not count.
    return is_large or bool(table.figures or table.above) or any(len(figures) > 1 for figures in in_rows)


of_evidence: Register[AuditContext] = Register(lambda context: [])


def first_of_each_run(context: AuditContext, find: Callable[[ReportedRun, TimedSpan], Flag | None]) -> Iterator[Flag]:
    """Yield the first finding that `find` has on the epochs of each run, so that each run is named once."""
    for run in context.runs:
        flags = (find(run, span) for span in run.timed_spans)
        yield from islice(filter(None, flags), 1)


def near(a: float, b: float, tolerance: float = SAME_TOLERANCE) -> bool:
    """Whether `a` differs from `b` by no more than `tolerance`, relative to `b`."""
    return abs(a - b) <= tolerance * abs(b)


def differences(a: ReportedRun, b: ReportedRun, names: Iterable[str]) -> dict[str, tuple[Any, Any]]:
    """Return field -> (value of a, value of b) of the named fields that both runs state, but differently."""
    pairs = {name: (getattr(a, name), getattr(b, name)) for name in names}
    return {name: pair for name, pair in pairs.items() if None not in pair and pair[0] != pair[1]}


def rows_that_follow(count: int) -> str:
    """Return "1 other row follows this", of the rows of a table that fulfil what one of them does not."""
    return f"{plural(count, 'other row')} {'follows' if count == 1 else 'follow'} this"


def listed(items: Iterable[Any], most: int = MOST_LISTED, separator: str = ", ") -> str:
    """Join the first `most` items as texts, and say how many more there are: "a, b and 3 more"."""
    texts = [str(item) for item in items]
    more = f" and {len(texts) - most:,} more" if len(texts) > most else ""
    return separator.join(texts[:most]) + more


def digits_of(value: float | None) -> int:
    """Return how many significant digits Python writes of a number: 4 of 10.83; 0 of 0 and of None."""
    mantissa = repr(float(value or 0)).partition("e")[0]
    return len(mantissa.replace(".", "").strip("0"))


def grouped_by(runs: Iterable[ReportedRun], *fields: str) -> dict[tuple[Any, ...], list[ReportedRun]]:
    """Return values of the named fields -> the runs that have these values: {("ddp", 4): [run, ...]}."""
    return group_by(runs, lambda run: tuple(getattr(run, name) for name in fields))
