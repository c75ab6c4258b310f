"""Speed-ups and efficiencies of published tables, recomputed from the rates and times beside them."""

from collections.abc import Iterator, Mapping

from scaleproof.auditor.checks.context import AuditContext, of_evidence
from scaleproof.auditor.checks.printed import PrintedInterval, interval
from scaleproof.auditor.checks.table_rows import (
    RATES,
    STEADY,
    RowSeries,
    describe,
    figure,
    place,
    places,
    printed,
    series_of,
    speed_ratios,
)
from scaleproof.auditor.read.reported_tables import Quantity, ReportedRow
from scaleproof.ground.findings.finding import Correction
from scaleproof.ground.findings.registry import Code, Flag
from scaleproof.ground.findings.shared_codes import SLOWER_WITH_MORE, SUPER_LINEAR

ONE = PrintedInterval(0.995, 1.005)
BEYOND = 1.03  # speed-up over the ratio of devices that noise may explain
SLOWER = 0.98
APART = 0.05  # relative difference above which a printed ratio is somebody else's

SPEEDUP_NOT_IN_TABLE = Code(
    "speedup-not-in-table",
    "suspect",
    what="A speed-up does not follow from the rates and times of its own table.",
    detected="No rate and no time of the table, against the row that is marked 1, gives the printed speed-up, whatever "
    "their rounding, within 5 %; nor does the speed-up times the devices (weak scaling).",
    seen="Tables retyped by hand; speed-ups of 18.75 to 20.86 that divide 20 epochs by 5.",
    repair="Compute the column from the rates; state the baseline and the clock.",
)


@of_evidence.check(SPEEDUP_NOT_IN_TABLE)
def speedups_follow(context: AuditContext) -> Iterator[Flag]:
    """A printed speed-up follows from a rate or a time of its own table."""
    for table in context.tables:
        for series in series_of(table):
            yield from _speedups(series)


def _speedups(series: RowSeries) -> Iterator[Flag]:
    base = series.baseline
    marked = figure(base, "speedup") if base is not None else None
    if base is None or marked is None or not ONE.meets(interval(marked), 0):
        return
    if unequal_work(series.rows) or _own_baselines(series):
        return  # another check's, or none's
    for row, devices in series.larger():
        stated = figure(row, "speedup")
        ratios = speed_ratios(row, base, devices)
        if stated is None or not ratios or _explained(interval(stated), ratios, devices):
            continue
        # Rates first: a ratio of times is a speed-up only for equal work.
        steady = speed_ratios(row, base, devices, RATES) or speed_ratios(row, base, devices, STEADY) or ratios
        correction = _one_figure(steady, f"against the row marked {printed(marked)}")
        follows = ", ".join(f"{name}: {_ratio(ratio)}" for name, ratio in ratios.items())
        yield Flag(
            f"{describe(row)}: speed-up {printed(stated)} over {describe(base)}, but the table gives {follows}",
            [place(row)],
            corrected=correction,
        )


def _own_baselines(series: RowSeries) -> bool:
    """Whether a larger row is marked 1, too: each number of devices has a baseline of its own, another strategy."""
    marked = [figure(row, "speedup") for row, _ in series.larger()]
    return any(quantity is not None and quantity.value == 1 for quantity in marked)


def _explained(stated: PrintedInterval, ratios: Mapping[str, PrintedInterval], devices: float) -> bool:
    for ratio in ratios.values():
        if stated.meets(ratio, APART):
            return True
        # Weak scaling: as many times the work as devices. Only a plausible speed-up is taken for one.
        if ratio.high <= 1.1 and stated.meets(ratio * devices, APART):
            return True
    return False


def _one_figure(ratios: Mapping[str, PrintedInterval], derivation: str) -> Correction | None:
    """The corrected ratio, where all figures of the row agree on it."""
    values = list(ratios.values())
    if any(not a.meets(b, 0.01) for a in values for b in values):
        return None
    heading = min(ratios, key=lambda name: ratios[name].precision)
    return Correction(value=round(ratios[heading].middle, 4), unit="x", derivation=f"{heading} {derivation}")


def _ratio(ratio: PrintedInterval) -> str:
    return f"{ratio.middle:.3g}x"


def unequal_work(rows: tuple[ReportedRow, ...]) -> bool:
    """Whether the rows state different epochs or steps: a ratio of their total times is then no speed-up."""
    return any(len({row.value(kind) for row in rows}) > 1 for kind in ("epochs", "steps"))


@of_evidence.check(
    Code(
        "efficiency-not-in-table",
        "suspect",
        what="A scaling efficiency is not the speed-up beside it divided by the devices.",
        detected="speed-up / (devices / devices of the baseline) differs from the printed efficiency by more than its "
        "rounding and 2 %.",
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
    """efficiency = speed-up / (devices / devices of the baseline), and that of the baseline is 1."""
    for table in context.tables:
        for series in series_of(table):
            base = series.baseline
            if base is None or not base.devices or _own_baselines(series):
                continue
            rows = [_Efficiency(row, base) for row in series.rows]
            known = [row for row in rows if row.complete]
            if any(row.is_baseline for row in known):
                yield from _efficiencies(known, base)


class _Efficiency:
    """One row: its printed efficiency beside what follows from its speed-up."""

    def __init__(self, row: ReportedRow, base: ReportedRow) -> None:
        self.row = row
        self.efficiency: Quantity | None = figure(row, "efficiency")
        self.speedup: Quantity | None = figure(row, "speedup")
        self.devices = row.devices or 0
        self.base_devices = base.devices or 0

    @property
    def complete(self) -> bool:
        return self.efficiency is not None and self.speedup is not None and self.devices > 0

    @property
    def is_baseline(self) -> bool:
        return self.devices == self.base_devices and self.speedup is not None and self.speedup.value == 1

    @property
    def stated(self) -> PrintedInterval:
        return interval(self.efficiency) if self.efficiency else ONE

    @property
    def stated_speedup(self) -> PrintedInterval:
        return interval(self.speedup) if self.speedup else ONE

    @property
    def right(self) -> PrintedInterval:
        return self.stated_speedup / (self.devices / self.base_devices)

    @property
    def by_all_devices(self) -> PrintedInterval:
        return self.stated_speedup / self.devices


def _efficiencies(rows: list[_Efficiency], base: ReportedRow) -> Iterator[Flag]:
    wrong = [row for row in rows if not row.stated.meets(row.right)]
    if not wrong:
        return
    if (base.devices or 1) > 1 and all(row.stated.meets(row.by_all_devices) for row in rows):
        first = rows[0]
        yield Flag(
            f"{describe(base)}: speed-up 1 and efficiency {printed(first.efficiency or _NONE)}; the speed-ups are "
            f"divided by all devices, the baseline has {base.devices}",
            places(row.row for row in rows),
            "baseline-below-one",
            corrected=_corrected(rows[-1], f"{_over_baseline(rows[-1])}; each efficiency x {base.devices}"),
        )
        return
    larger = [row for row in rows if row.devices > row.base_devices]
    if (base.devices or 1) > 1 and len(larger) > 1 and all(_divided_by_all(row) for row in larger):
        yield Flag(
            f"{describe(base)}: speed-up 1 on {base.devices} devices; the efficiencies of all others are their "
            f"speed-ups over all devices, not over how many times {base.devices} they have",
            places(row.row for row in larger),
            "efficiency-not-in-table",
            corrected=_corrected(larger[-1], _over_baseline(larger[-1])),
        )
        return
    if 2 * len(wrong) > len(rows):
        return  # another definition of efficiency
    for row in wrong:
        yield Flag(
            f"{describe(row.row)}: efficiency {printed(row.efficiency or _NONE)}, but its speed-up is "
            f"{printed(row.speedup or _NONE)} with {row.devices / row.base_devices:g} times the devices",
            [place(row.row)],
            "efficiency-not-in-table",
            corrected=_corrected(row, f"{printed(row.speedup or _NONE)} / {row.devices / row.base_devices:g}"),
        )


def _corrected(row: _Efficiency, derivation: str) -> Correction:
    """The efficiency that follows from the speed-up of a row."""
    return Correction(value=round(100 * row.right.middle, 1), unit="%", derivation=derivation)


def _over_baseline(row: _Efficiency) -> str:
    """How it follows, where the baseline has several devices."""
    return f"of {describe(row.row)}: speed-up / ({row.devices} / {row.base_devices})"


def _divided_by_all(row: _Efficiency) -> bool:
    return row.stated.meets(row.by_all_devices) and not row.stated.meets(row.right, APART)


_NONE = Quantity("efficiency", 0.0, "unknown", "")


@of_evidence.check(SUPER_LINEAR, SLOWER_WITH_MORE)
def table_speedups_are_possible(context: AuditContext) -> Iterator[Flag]:
    """A published speed-up above the ratio of devices, or below one."""
    for table in context.tables:
        for series in series_of(table):
            base = series.baseline
            marked = figure(base, "speedup") if base is not None else None
            if base is None or (marked is not None and not ONE.meets(interval(marked), 0)):
                continue
            for row, devices in series.larger():
                stated = figure(row, "speedup") if marked is not None else None
                ratios = speed_ratios(row, base, devices)
                ratio = interval(stated) if stated is not None else min(ratios.values(), key=_low, default=None)
                if ratio is None:
                    continue
                text = f"{describe(row)}: {_ratio(ratio)} over {describe(base)} with {devices:g} times the devices"
                if stated is not None and ratio.low > BEYOND * devices:
                    yield Flag(text, [place(row)], SUPER_LINEAR.name)
                elif (stated is not None and ratio.high < SLOWER) or _takes_longer(row, base, devices):
                    yield Flag(text, [place(row)], SLOWER_WITH_MORE.name)


def _takes_longer(row: ReportedRow, base: ReportedRow, devices: float) -> bool:
    """Whether equal work took longer on more devices: by the times of an epoch, or of all."""
    work = [(row.value(kind), base.value(kind)) for kind in ("epochs", "steps", "global_batch", "micro_batch", "batch")]
    ratios = speed_ratios(row, base, devices, ("epoch_time_s", "total_time_s"))
    return bool(ratios) and all(a == b for a, b in work) and all(ratio.high < SLOWER for ratio in ratios.values())


def _work_share(row: ReportedRow, base: ReportedRow, kind: str) -> float | None:
    """The work of a row as a share of the baseline's, by its epochs or steps; None where the rows do not say it.

    Steps are work only where both rows state their global batch: with a batch for each device, steps fall with the
    devices while the work stays the same.
    """
    here, there = row.value(kind), base.value(kind)
    if not here or not there:
        return None
    if kind == "epochs":
        return here / there
    batches = (row.value("global_batch"), base.value("global_batch"))
    if batches[0] and batches[1]:
        return here * batches[0] / (there * batches[1])
    devices = (row.devices or 0) / (base.devices or 1)
    return 1.0 if devices and abs(here * devices / there - 1) <= 0.02 else None


def _low(ratio: PrintedInterval) -> float:
    return ratio.low


@of_evidence.check(
    Code(
        "unequal-work",
        "note",
        what="Rows are compared that did different work: other epochs, steps or batches. A ratio of their times is no "
        "speed-up; `invalid` where the printed speed-up is that ratio.",
        detected="Epochs or steps differ between the row that is marked 1 and another, and the printed speed-up is the "
        "ratio of total times.",
        seen="20 epochs on one device, 5 on four: 18.75 to 20.86 were 4.69 to 5.22.",
        repair="Compare rates, or times of equal work.",
    )
)
def work_is_equal(context: AuditContext) -> Iterator[Flag]:
    """A speed-up from total times is over equal work."""
    for table in context.tables:
        for series in series_of(table):
            yield from _unequal(series)


def _unequal(series: RowSeries) -> Iterator[Flag]:
    """Rows with other work than the baseline's; with the right speed-up where the printed one takes it for equal."""
    base = series.baseline
    if base is None:
        return
    for row, _ in series.larger():
        for kind in ("epochs", "steps"):
            here, there = row.value(kind), base.value(kind)
            if not here or not there or here == there:
                continue
            share = _work_share(row, base, kind)
            if share is not None and abs(share - 1) <= 0.02:
                continue
            work = f"{describe(base)}: {there:g} {kind}, {describe(row)}: {here:g}"
            stated, ratio = figure(row, "speedup"), _ratio_of_times(row, base)
            if share and stated and ratio and interval(stated).meets(ratio):
                yield Flag(
                    f"{work}; the printed speed-up {printed(stated)} is the ratio of their total times",
                    [place(row)],
                    severity="invalid",
                    corrected=Correction(
                        value=round((ratio * share).middle, 3),
                        unit="x",
                        derivation=f"{ratio.middle:.4g}x of the times, {share:.4g} of the work",
                    ),
                )
            elif not (row.value("steps") and row.value("epochs")):
                yield Flag(work, [place(row)])


def _ratio_of_times(row: ReportedRow, base: ReportedRow) -> PrintedInterval | None:
    """How many times as long as `row` the baseline took, by their total times."""
    times = [(figure(base, kind), figure(row, kind)) for kind in ("total_time_s", "time_s")]
    return next((interval(before) / interval(now) for before, now in times if before and now), None)
