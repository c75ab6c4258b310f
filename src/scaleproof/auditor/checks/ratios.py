"""Speed-ups, printed or implied by rates and times: of tables, of reports and of runs."""

from collections.abc import Iterator
from dataclasses import dataclass

from scaleproof.auditor.checks.context import AuditContext, listed, of_evidence
from scaleproof.auditor.checks.rows import MEASURED, RATES, STEADY, Ratio, RowSeries, comparable, hull, ratios_of
from scaleproof.auditor.checks.scaling import rates_over_baselines
from scaleproof.auditor.read.reported import ReportedRun
from scaleproof.auditor.read.reported_tables import PrintedInterval, ReportedRow
from scaleproof.ground.findings.finding import Correction
from scaleproof.ground.findings.registry import Flag
from scaleproof.ground.findings.shared_codes import SLOWER_WITH_MORE, SUPER_LINEAR
from scaleproof.ground.number_format import number, times

ONE = PrintedInterval(0.995, 1.005)
BEYOND = 1.03  # speed-up over the ratio of devices that noise may explain
SLOWER = 0.98
SAME = 0.01  # relative difference of figures that are one
FEWEST = 2  # larger sizes whose ratios show what they are over
OTHER = 1.1  # times by which what they are over is another figure than the baseline's
APART = 0.05  # relative difference above which a printed ratio is somebody else's
PERCENT = 100.0


def speedups_follow(context: AuditContext) -> Iterator[Flag]:
    """A printed speed-up follows from a rate or a time of its own table."""
    for series in context.series:
        if series.did_unequal_work:
            continue
        if wrong := wrong_mark(series, "speedup"):
            yield wrong
        elif is_over_fewest(series, "speedup"):
            wrong = wrong_baseline(series, "speedup")
            yield from [wrong] if wrong else _speedups(series)


def is_over_fewest(series: RowSeries, kind: str) -> bool:
    """Whether printed ratios ("speedup" or "efficiency") are over the rows with the fewest devices, all marked 1.

    A second speed-up of 1 means that each number of devices has a baseline of its own, another strategy.
    """
    marked = [base.usable(kind) for base in series.bases]
    if any(quantity is None or not ONE.low <= quantity.value <= ONE.high for quantity in marked):
        return False
    return kind != "speedup" or all((row.value(kind) or 0) != 1 for row, _ in series.larger())


def wrong_baseline(series: RowSeries, kind: str) -> Flag | None:
    """The finding that a figure of the baseline is wrong: the printed ratios ("speedup" or "efficiency") of all larger
    rows are over one other figure. Where a second figure of the rows gives these ratios, three sizes must say so.
    """
    base = series.baseline
    if base is None or not is_over_fewest(series, kind):
        return None
    if not all(comparable(row, base, devices) for row, devices in series.larger()):
        return None
    # As speed-ups: an efficiency times the devices.
    printed = [
        (row, n, stated.interval * (n if kind == "efficiency" else 1.0))
        for row, n in series.larger()
        if (stated := row.usable(kind)) is not None
    ]
    # Without `series.weak`, for which the wrong figure may have voted.
    all_ratios = [(ratio, stated) for row, n, stated in printed for ratio in ratios_of(row, (base,), n)]
    supported = any(ratio.readings[0].meets(stated, APART) for ratio, stated in all_ratios)
    for measured in MEASURED if len({n for _, n, _ in printed}) >= FEWEST + supported else ():
        own = base.usable(measured)
        off = [ratio.readings[0] / stated for ratio, stated in all_ratios if ratio.kind == measured]
        if own is None or len(off) < len(printed):
            continue
        factor = PrintedInterval(max(one.low for one in off), min(one.high for one in off))
        times_off = max(factor.middle, 1 / factor.middle)
        whole = round(times_off) if supported else base.devices or 1  # of another number of devices, or batch
        if factor.low > factor.high * (1 + SAME) or times_off < OTHER or abs(times_off / whole - 1) <= APART:
            continue
        figure, unit = own.figure_and_unit
        right = figure * factor.middle if measured in RATES else figure / factor.middle
        return Flag(
            f"{base.description}: {own.heading} {own.printed}, but the ratio of each of the {len(printed)} larger rows "
            f"is over {number(right, 4)}{unit}",
            [base.place],
            f"{kind}-not-in-table",
        )
    return None


def wrong_mark(series: RowSeries, kind: str) -> Flag | None:
    """The finding that the baseline's own ratio ("speedup" or "efficiency") is not 1, though two larger rows or more,
    and all that print one, have theirs over its figures.
    """
    base, own = series.bases[0], series.bases[0].usable(kind)
    if series.baseline is None or own is None or own.interval.contains(1.0, APART):
        return None
    follows = [
        any(r.gives(one.interval * (n if kind == "efficiency" else 1.0), SAME) for r in series.ratios(row, n))
        for row, n in series.larger()
        if comparable(row, base, n) and (one := row.usable(kind)) is not None
    ]
    if len(follows) < FEWEST or not all(follows):
        return None
    evidence = f"{base.description}: {own.heading} {own.printed}, but all {len(follows)} others are over this row"
    return Flag(evidence, [base.place], f"{kind}-not-in-table")


def _speedups(series: RowSeries) -> Iterator[Flag]:
    """Printed speed-ups of a series that no rate and no time of its rows gives."""
    for row, devices in series.larger():
        stated = row.usable("speedup")
        ratios = series.ratios(row, devices)
        if stated is None or not ratios or any(ratio.gives(stated.interval, APART) for ratio in ratios):
            continue
        follows = ", ".join(f"{ratio.heading}: {in_words(ratio)}" for ratio in ratios)
        in_percent = stated.interval / PERCENT
        if any(ratio.gives(in_percent, APART) or ratio.gives(in_percent + 1, APART) for ratio in ratios):
            follows += "; the figure is in percent"
        yield Flag(
            f"{row.description}: speed-up {stated.printed} over {base_of(series)}, but the table gives {follows}",
            [row.place],
            corrected=_speedup_of(row, series, devices),
        )


def _speedup_of(row: ReportedRow, series: RowSeries, devices: float) -> Correction | None:
    """The speed-up by the rates, else by the steady times, else by any; None where these do not agree on one figure."""
    for kinds in (RATES, STEADY, MEASURED):
        ratios = series.ratios(row, devices, kinds)
        if ratios:
            return one_figure(ratios, f"against {base_of(series)}")
    return None


def one_figure(ratios: list[Ratio], derivation: str, devices: float = 1.0, unit: str = "x") -> Correction | None:
    """The most precise ratio (over `devices`, for an efficiency) as a correction; None where ratios do not agree."""
    values = [ratio.readings[0] for ratio in ratios]
    if not all(ratio.certain for ratio in ratios) or any(not a.meets(b, 0.01) for a in values for b in values):
        return None
    best = min(ratios, key=lambda ratio: ratio.readings[0].precision)
    value = best.readings[0].middle / devices
    rounded = round(PERCENT * value, 1) if unit == "%" else round(value, 4)
    return Correction(value=rounded, unit=unit, derivation=f"{best.heading} {derivation}")


def base_of(series: RowSeries) -> str:
    """The baseline of a series, for people."""
    more = len(series.bases) - 1
    return series.bases[0].description + (f" and {more} more of its size" if more else "")


def in_words(ratio: Ratio) -> str:
    return " or ".join(times(reading.middle) for reading in ratio.readings)


@dataclass(frozen=True)
class _Speedup:
    """How many times as fast something is with `devices` times the devices, with all that the figures may mean."""

    ratio: PrintedInterval
    devices: float
    slower: bool  # whether it can be said of it that more devices made it slower
    evidence: str
    about: list[str | ReportedRun]


def _speedups_of_tables(context: AuditContext) -> Iterator[_Speedup]:
    """The speed-up of each larger row: as stated, if the table does not contradict it, else by its rates and times."""
    for series in context.series:
        by_speedup = is_over_fewest(series, "speedup")
        if not by_speedup and any(base.usable("speedup") for base in series.bases):
            continue  # they are over another baseline
        is_wrong = any(wrong_baseline(series, kind) for kind in ("speedup", "efficiency"))
        for row, devices in series.larger():
            stated = row.usable("speedup") if by_speedup else None
            ratios = [] if is_wrong else series.ratios(row, devices)
            if stated is not None and (not ratios or any(r.gives(stated.interval, APART) for r in ratios)):
                ratio = stated.interval
                slower, sign = ratio.high < SLOWER, stated.printed.endswith(("x", "×", "X", "%"))
                text = stated.printed if sign else f"{stated.printed}x"
            elif ratios and not series.is_mixed and all(comparable(row, base, devices) for base in series.bases):
                ratio = hull(r.hull for r in ratios)
                slower = _takes_longer(row, series, devices)
                text = " and ".join(dict.fromkeys(times(r.readings[0].middle) for r in ratios))
            else:
                continue
            evidence = f"{row.description}: {text} over {base_of(series)} with {devices:g} times the devices"
            yield _Speedup(ratio, devices, slower, evidence, [row.place])


def _takes_longer(row: ReportedRow, series: RowSeries, devices: float) -> bool:
    """Whether every rate and every time of an epoch or a whole run says that more devices were slower."""
    epochs = series.ratios(row, devices, ("epoch_time_s", "total_time_s"))
    ratios = [ratio.readings[0] for ratio in (*series.ratios(row, devices, RATES), *epochs)]
    return bool(ratios) and all(ratio.high < SLOWER for ratio in ratios)


def _speedups_of_runs(context: AuditContext) -> Iterator[_Speedup]:
    """The speed-up of each run over its baseline; not `slower` where its rate is that of one rank."""
    explained = {name for flag in rates_over_baselines(context) for name in flag.about} if context.scalings else set()
    for scaling in context.scalings:
        if scaling.speedups:
            low, high = scaling.speedups
            ratio = f"{low:.3f}" if f"{low:.3f}" == f"{high:.3f}" else f"{low:.3f} to {high:.3f}"
            names = listed(base.name for base in scaling.bases)
            evidence = f"{ratio} times as fast as {names} with {scaling.devices:g} times the devices"
            slower = high < SLOWER and scaling.run.name not in explained
            yield _Speedup(PrintedInterval(low, high), scaling.devices, slower, evidence, [scaling.run, scaling.base])


@of_evidence.check(SUPER_LINEAR, SLOWER_WITH_MORE)
def speedups_are_possible(context: AuditContext) -> Iterator[Flag]:
    """No speed-up is above N with N times the devices, or below 1, under every reading of its figures."""
    for speedup in (*_speedups_of_tables(context), *_speedups_of_runs(context)):
        if speedup.ratio.low > BEYOND * speedup.devices:
            yield Flag(speedup.evidence, speedup.about, SUPER_LINEAR.name)
        elif speedup.slower:
            yield Flag(speedup.evidence, speedup.about, SLOWER_WITH_MORE.name)


def _work_share(row: ReportedRow, base: ReportedRow, kind: str) -> float | None:
    """The work of a row over the baseline's, by `kind`, "epochs" or "steps"; None where the rows do not say it.

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
    fall_with_devices = devices and abs(here * devices / there - 1) <= 0.02
    return 1.0 if fall_with_devices else None


@of_evidence.finds("unequal-work", "note")
def work_is_equal(context: AuditContext) -> Iterator[Flag]:
    """Rows are compared that did different work: other epochs, steps or batches. A ratio of their times is no speed-up;
    `invalid` where the printed speed-up is that ratio.

    Detected: Epochs or steps differ between the row that is marked 1 and another, and the printed speed-up is the ratio
    of total times.
    Seen: 20 epochs on one device, 5 on four: 18.75 to 20.86 were 4.69 to 5.22.
    Repair: Compare rates, or times of equal work.
    """
    for series in context.series:
        yield from _unequal(series)


def _unequal(series: RowSeries) -> Iterator[Flag]:
    """Rows that did other work than the baseline; with the right speed-up where the printed one takes it for equal."""
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
            work = f"{base.description}: {there:g} {kind}, {row.description}: {here:g}"
            stated, ratio = row.usable("speedup"), _ratio_of_times(row, base)
            if share and stated and ratio and stated.interval.meets(ratio):
                derivation = f"{ratio.middle:.4g}x of the times, {share:.4g} of the work"
                corrected = Correction(value=round((ratio * share).middle, 3), unit="x", derivation=derivation)
                evidence = f"{work}; the printed speed-up {stated.printed} is the ratio of their total times"
                yield Flag(evidence, [row.place], severity="invalid", corrected=corrected)
            elif not (row.value("steps") and row.value("epochs")):
                yield Flag(work, [row.place])


def _ratio_of_times(row: ReportedRow, base: ReportedRow) -> PrintedInterval | None:
    """How many times as long as `row` the baseline took, by their total times; None where one has none."""
    for kind in ("total_time_s", "time_s"):
        base_time, time = base.usable(kind), row.usable(kind)
        if base_time and time:
            return base_time.interval / time.interval
    return None
