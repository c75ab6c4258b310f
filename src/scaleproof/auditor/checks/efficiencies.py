"""Efficiencies of published tables: a speed-up, printed or implied by rates and times, over the devices."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from scaleproof.auditor.checks.columns import Figures, FigureTable
from scaleproof.auditor.checks.context import ROWS_PER_ODD_ROW, SAME_TOLERANCE, AuditContext, of_evidence
from scaleproof.auditor.checks.ratios import RATIO_TOLERANCE, is_over_fewest, one_figure, wrong_baseline, wrong_mark
from scaleproof.auditor.checks.rows import ONE, STEADY, Ratio, RowSeries, places, series_of
from scaleproof.auditor.checks.scaling import NOISE_FACTOR
from scaleproof.auditor.read.reported_tables import PrintedInterval, Quantity, ReportedRow, ReportedTable
from scaleproof.ground.findings.finding import Correction
from scaleproof.ground.findings.registry import Code, Flag

SAME_FIGURES_TOLERANCE = 0.3  # relative difference of a ratio without a marked baseline from one of the same figures
THREADS = re.compile(r"(?i)(?:num(?:ber of)?[ _]|n[ _]?|#[ _]?)?(threads|cores|cpus)")  # a heading that counts them
# "Efficiency: speed-up / number of threads"
OVER_COUNT = re.compile(
    r"(?i)speed-?ups?(?: ?\([^)]*\))? ?(?:/|÷|over|divided by) ?(?:the )?(?:(?:number|#) ?of )?"
    r"(threads|cores|cpus|gpus|devices|process(?:es|ors)|ranks|workers)\b"
)
QUOTIENT = re.compile(r"[^=/]+= ?([^=/]+?) ?[/÷] ?([^=/]+?)")  # "Ep = Sp/p"
EXACT_RESOLUTION = 0.0015  # of an efficiency that is printed with one more digit than a round one needs


@of_evidence.check(
    Code(
        "efficiency-not-in-table",
        "suspect",
        what="A scaling efficiency is not the speed-up, stated or by rates and times, over the devices.",
        detected="speed-up / (devices / devices of the baseline) differs from the printed efficiency by more than its "
        "rounding and 2 %; the speed-up is the printed one, or that of rates and times where none is or it is wrong "
        "itself. A note where that is so in most rows, and no text above defines it: it may be another one.",
        seen="a text classifier with DDP on 4 GPUs: one chart divides by the index of the bar.",
        repair="Divide by how many times the devices of the baseline there are.",
    ),
    Code(
        "baseline-below-one",
        "invalid",
        what="The baseline of a table has a speed-up or an efficiency other than 1 over itself: everything is divided "
        "by a wrong number of devices.",
        detected="The row with speed-up 1 has the printed efficiency 1 / (its devices), and so the others.",
        seen="a table whose smallest row, on two devices, has an efficiency of 50 %.",
        repair="Divide by devices / devices of the baseline.",
    ),
)
def efficiencies_follow(context: AuditContext) -> Iterator[Flag]:
    """Flag efficiencies that are not a speed-up, printed or by a rate or time, over how many times the devices."""
    for table in context.tables:
        efficiencies = []
        for series in series_of(table):
            of_series = _printed_efficiencies(series)
            # A fault of the baseline explains all efficiencies of a series.
            flag = _divided_by_all_devices(of_series, series) or _baseline_over_its_devices(series)
            flag = flag or wrong_mark(series, "efficiency")
            if flag is None and not any(row.speedup for row in of_series) and not series.did_unequal_work:
                flag = wrong_baseline(series, "efficiency")
            if flag is not None:
                yield flag
            else:
                efficiencies += of_series

        yield from _wrong_efficiencies(efficiencies, table, most_rows=0.5)
        yield from _efficiencies_by_threads(table)
    defining = (table for table in context.all_tables if any("=" in column.heading for column in table.columns))
    for figures in (figures for table in defining for figures in context.figures_of(table)):
        yield from _efficiencies_by_their_heading(figures)


def _wrong_efficiencies(
    efficiencies: list["_Efficiency"], table: ReportedTable, most_rows: float, counted: str = "devices"
) -> Iterator[Flag]:
    """Flag wrong efficiencies. Where they are more than `most_rows` of all, the table may have another definition.

    Then only those beside a speed-up are noted, unless the text above the table says that they are over its sizes.
    """
    wrong = [efficiency for efficiency in efficiencies if not efficiency.is_right]
    is_proven = len(wrong) <= most_rows * len(efficiencies) or len(efficiencies) == 1 or _is_over_its_column(table)
    for one in wrong:
        flag = _wrong_efficiency(one)
        flag = replace(flag, evidence=flag.evidence.replace("devices", counted))
        if is_proven:
            yield flag
        elif one.speedup is not None:
            yield replace(flag, severity="note", corrected=None)


def _is_over_its_column(table: ReportedTable) -> bool:
    """Whether the text above a table says that efficiencies are speed-ups over one of its columns: "Threads"."""
    definition = OVER_COUNT.search(" . ".join((table.caption, *(table.grid.before if table.grid else ()))))
    return definition is not None and any(definition[1].lower() in column.heading.lower() for column in table.columns)


def _efficiencies_by_threads(table: ReportedTable) -> Iterator[Flag]:
    """Flag efficiencies that are not the speed-up over the threads or cores, as those of two rows or more for each are.

    Only these rows, or the text, show that the efficiency is by threads: more of them need not be more hardware.
    """
    headings = (column.heading for column in table.columns if column.kind is None)
    heading = next((heading for heading in headings if THREADS.fullmatch(heading.strip())), None)
    if heading is None or any(row.devices or row.value("nodes") for row in table.rows):
        return
    counted = [(row, int(text)) for row in table.rows if (text := row.texts.get(heading, "")).isdigit()]
    by_threads = replace(table, rows=[row.with_devices(count) for row, count in counted if count])
    efficiencies = [one for series in series_of(by_threads) for one in _printed_efficiencies(series)]
    larger = [one for one in efficiencies if one.times_devices > 1]
    yield from _wrong_efficiencies(larger, table, 1 / (1 + ROWS_PER_ODD_ROW), heading.strip().lower())


def _efficiencies_by_their_heading(figures: FigureTable) -> Iterator[Flag]:
    """Flag efficiencies that are not the quotient that their heading is: "Ep = Sp/p" beside columns "Sp" and "p".

    An efficiency is over a count, and 1 where that and the speed-up are.
    """
    named = {column.heading.partition("=")[0].strip().lower(): column for column in figures.columns}
    for column in figures.columns:
        definition = QUOTIENT.fullmatch(column.heading.strip().lower())
        above, below = (named.get(name) for name in definition.groups()) if definition else (None, None)
        if above is None or below is None or below.has_decimals or column.is_in_percent:
            continue
        counts = below.figures.middle
        of_one = [one.figures.middle[counts == 1] for one in (above, column)]
        if not all(ones.size and (np.abs(ones - 1) <= SAME_TOLERANCE).all() for ones in of_one):
            continue
        quotients = Figures(above.figures.low / counts, above.figures.high / counts)
        distances = column.figures.distance(quotients)
        wrong = np.flatnonzero(distances > SAME_TOLERANCE).tolist()
        if (distances <= SAME_TOLERANCE).sum() < ROWS_PER_ODD_ROW * max(len(wrong), 1):
            continue
        for i in wrong:
            quotient = f"{above.texts[i]} / {below.texts[i]}"
            right = Correction(value=round(float(quotients.middle[i]), 3), unit="", derivation=quotient)
            evidence = f"{figures.names[i]}: {column.heading}: {column.texts[i]}, but {quotient} = {right.value:g}"
            yield Flag(evidence, [figures.places[i]], "efficiency-not-in-table", corrected=right)


@dataclass(frozen=True)
class _Efficiency:
    """A printed efficiency beside what shows whether it is right."""

    row: ReportedRow
    series: RowSeries
    stated: Quantity
    times_devices: float  # devices of the row over those of the baseline
    speedup: Quantity | None  # that the row prints, where it is right itself
    measured: list[Ratio]  # speed-ups by the rates and times of the row

    @property
    def as_speedup(self) -> PrintedInterval:
        """The speed-up that it means: 4, of 50 % on 8 times the devices."""
        return self.stated.interval * self.times_devices

    @property
    def is_right(self) -> bool:
        """Whether it means the printed speed-up or, without one, any measured one: 86 % on 8 devices is 6.9x."""
        if self.speedup is not None:
            return self.as_speedup.meets(self.speedup.interval)
        # Total times hold start-up and evaluation: their speed-ups are less exact.
        tolerances = [NOISE_FACTOR - 1 if ratio.kind in STEADY else RATIO_TOLERANCE for ratio in self.measured]
        pairs = zip(self.measured, tolerances, strict=True)
        return any(ratio.gives(self.as_speedup, tolerance) for ratio, tolerance in pairs)

    @property
    def is_near_measured(self) -> bool:
        return any(ratio.gives(self.as_speedup, SAME_FIGURES_TOLERANCE) for ratio in self.measured)

    @property
    def is_over_all_devices(self) -> bool:
        """Whether the speed-up was divided by all devices, though the baseline has several."""
        speedup = self.speedup.interval if self.speedup else ONE  # a baseline's is 1
        return self.stated.interval.meets(speedup / (self.row.devices or 1))

    @property
    def supporting(self) -> list[Ratio]:
        """The measured speed-ups that fit the efficiency, if none fits the printed speed-up: that is wrong then."""
        if self.speedup is None or any(ratio.gives(self.speedup.interval, SAME_TOLERANCE) for ratio in self.measured):
            return []
        return [ratio for ratio in self.measured if ratio.gives(self.as_speedup, SAME_TOLERANCE)]

    @property
    def corrected(self) -> Correction | None:
        """The right speed-up where `supporting` shows it wrong, else the right efficiency; None if figures disagree."""
        if self.supporting:
            return one_figure(self.supporting, f"against {self.series.base_name}")
        divided = f"/ {self.times_devices:g}"
        if self.speedup is None:
            return one_figure(self.measured, f"against {self.series.base_name}, {divided}", self.times_devices, "%")
        value = 100 * self.speedup.interval.middle / self.times_devices
        return Correction(value=round(value, 1), unit="%", derivation=f"{self.speedup.printed} {divided}")


def _printed_efficiencies(series: RowSeries) -> list[_Efficiency]:
    """Return the printed efficiencies of rows that have a speed-up, or a rate or time that gives one."""
    has_speedups = is_over_fewest(series, "speedup")
    is_unmarked = not any(base.usable(kind) for base in series.bases for kind in ("speedup", "efficiency"))
    if not (has_speedups or is_unmarked or is_over_fewest(series, "efficiency")):  # the smallest row is no baseline
        return _efficiencies_without_baseline_row(series)
    rows = [*((base, 1.0) for base in series.bases), *series.larger()]
    beside_speedups = (_efficiency_of(row, times_devices, series, has_speedups) for row, times_devices in rows)
    efficiencies = [efficiency for efficiency in beside_speedups if efficiency is not None]
    # Where no baseline row prints 1 or 100 %, an efficiency far from all measured ones may be over another baseline.
    return [efficiency for efficiency in efficiencies if not is_unmarked or efficiency.is_near_measured]


def _efficiency_of(row: ReportedRow, times_devices: float, series: RowSeries, has_speedups: bool) -> _Efficiency | None:
    """Return the printed efficiency of a row beside its speed-ups; None without an efficiency or any speed-up."""
    stated = row.usable("efficiency")
    speedup = row.usable("speedup") if has_speedups else None
    measured = [] if series.did_unequal_work else series.ratios(row)
    if speedup and measured and not any(ratio.gives(speedup.interval, RATIO_TOLERANCE) for ratio in measured):
        speedup = None  # it is wrong itself, and says nothing of the efficiency
    if stated is None or (speedup is None and not measured):
        return None
    return _Efficiency(row, series, stated, times_devices, speedup, measured)


def _efficiencies_without_baseline_row(series: RowSeries) -> list[_Efficiency]:
    """Return printed efficiencies beside speed-ups over a single device that has no row; [] unless two or more fit."""
    efficiencies = []
    for row in series.rows:
        stated, speedup = row.usable("efficiency"), row.usable("speedup")
        if stated is not None and speedup is not None:
            efficiencies.append(_Efficiency(row, series, stated, float(row.devices or 1), speedup, []))
    return efficiencies if sum(efficiency.is_right for efficiency in efficiencies) >= 2 else []


def _divided_by_all_devices(efficiencies: list[_Efficiency], series: RowSeries) -> Flag | None:
    """Flag a series whose efficiencies are speed-ups over all devices, though the baseline has several devices.

    Example: a speed-up of 1.9 on 4 devices over a baseline of 2 is 95 %, printed is 1.9 / 4 = 47.5 %.
    """
    size = series.bases[0].devices or 1
    with_speedup = [one for one in efficiencies if one.speedup is not None]
    larger = [one for one in with_speedup if one.times_devices > 1]
    if size == 1 or not larger or not all(one.is_over_all_devices and not one.is_right for one in larger):
        return None

    corrected = larger[-1].corrected
    bases = [one for one in with_speedup if one.times_devices == 1 and one.is_over_all_devices]
    base = f"{series.base_name}: speed-up 1"
    if bases:  # a baseline's own printed efficiency, 1 / its devices, shows it
        evidence = f"{base} and efficiency {bases[0].stated.printed}; the speed-ups are divided by all devices, "
        evidence += f"the baseline has {size}"
        return Flag(evidence, places(one.row for one in with_speedup), "baseline-below-one", corrected=corrected)
    if len(larger) == 1:
        return None  # a single row may be wrong in another way
    evidence = f"{base} on {size} devices; the efficiencies of all others are their speed-ups over all devices, "
    evidence += f"not over how many times {size} they have"
    return Flag(evidence, places(one.row for one in larger), "efficiency-not-in-table", corrected=corrected)


def _baseline_over_its_devices(series: RowSeries) -> Flag | None:
    """Flag a series without speed-ups whose efficiencies are over all devices: its baseline's is 1 / its devices.

    Example: rates 100 and 190 on 2 and 4 devices, efficiencies 50.0 % and 47.5 %. None where a row does not fit, or the
    baseline's is a round "50 %": that may be an efficiency over a single device that has no row.
    """
    size = series.bases[0].devices or 1
    if size == 1 or series.did_unequal_work:
        return None
    for base in series.bases:
        mark = base.usable("efficiency")
        if mark is None or mark.resolution > EXACT_RESOLUTION or not mark.interval.contains(1 / size, 0):
            return None

    larger = [(row, stated) for row, _ in series.larger() if (stated := row.usable("efficiency")) is not None]
    for row, stated in larger:
        as_speedup = stated.interval * (row.devices or 1)
        if not any(ratio.gives(as_speedup, NOISE_FACTOR - 1) for ratio in series.ratios(row)):
            return None
    if not larger:
        return None

    row, stated = larger[-1]
    derivation = f"{row.description}: {stated.printed} x {size}"  # over devices / size, rather than over devices
    corrected = Correction(value=round(100 * stated.value * size, 1), unit="%", derivation=derivation)
    evidence = f"{series.base_name}: an efficiency of 1 / {size} over itself; all are divided by all devices"
    about = places([*series.bases, *(row for row, _ in larger)])
    return Flag(evidence, about, "baseline-below-one", corrected=corrected)


def _wrong_efficiency(wrong: _Efficiency) -> Flag:
    """Flag an efficiency that does not mean the speed-up of its row: 96 % beside 6.9x with 8 times the devices."""
    if wrong.speedup is not None:
        right = f"its speed-up is {wrong.speedup.printed}"
    else:
        right = "the table gives " + ", ".join(f"{ratio.heading}: {ratio.in_words}" for ratio in wrong.measured)
    evidence = f"{wrong.row.description}: efficiency {wrong.stated.printed}, but {right}"
    evidence += f" with {wrong.times_devices:g} times the devices"
    evidence += "".join(f"; {ratio.heading} gives {ratio.in_words}, as that does" for ratio in wrong.supporting)
    return Flag(evidence, wrong.row.places_of([wrong.stated]), "efficiency-not-in-table", corrected=wrong.corrected)
