"""Speed-ups, printed or implied by rates and times: of tables, of reports and of runs."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from scaleproof.auditor.checks import rows
from scaleproof.auditor.checks.context import SAME_TOLERANCE, AuditContext, listed, of_evidence
from scaleproof.auditor.checks.rows import MEASURED, ONE, RATES, STEADY, Ratio, RowSeries
from scaleproof.auditor.checks.scaling import NOISE_FACTOR, rates_over_baselines
from scaleproof.auditor.read.reported import ReportedRun
from scaleproof.auditor.read.reported_tables import PrintedInterval, ReportedRow
from scaleproof.ground.findings.finding import Correction, Severity
from scaleproof.ground.findings.registry import Flag
from scaleproof.ground.findings.shared_codes import SLOWER_WITH_MORE, SUPER_LINEAR
from scaleproof.ground.number_format import number, span_text, times

SLIGHTLY_ABOVE = 1.05  # speed-up over the devices, up to which caches, clocks or a slow baseline explain it
SLOWER_RATIO = 0.98  # speed-up below which more devices made it slower
FEWEST_SIZES = 2  # larger sizes whose ratios show what they are over
OTHER_FIGURE_FACTOR = 1.1  # from which on the ratios are over another figure than the baseline's
RATIO_TOLERANCE = 0.05  # relative difference of a printed ratio and one that it follows from


def speedups_follow(context: AuditContext) -> Iterator[Flag]:
    """Flag printed speed-ups that no rate and no time of their own table gives."""
    for series in context.series:
        if series.did_unequal_work:
            continue  # a ratio of times is no speed-up there
        if flag := wrong_mark(series, "speedup") or wrong_baseline(series, "speedup"):
            yield flag
        elif is_over_fewest(series, "speedup"):
            yield from _unsupported_speedups(series)


def is_over_fewest(series: RowSeries, kind: str) -> bool:
    """Whether the printed ratios are over the rows with the fewest devices: all of these print 1.

    Of speed-ups no larger row may print 1, too; efficiencies may all be 1.
    """
    of_bases = [base.usable(kind) for base in series.bases]
    if any(quantity is None or not ONE.low <= quantity.value <= ONE.high for quantity in of_bases):
        return False
    return kind != "speedup" or all((row.value(kind) or 0) != 1 for row, _ in series.larger())


def wrong_baseline(series: RowSeries, kind: str) -> Flag | None:
    """Flag a baseline whose rate or time may be wrong: all larger rows print ratios over one other figure.

    Example: rates 100, 250, 500 and speed-ups 1, 2, 4 on 1, 2, 4 devices: the baseline's was 125. A note: they may be
    over a run that the table does not have, as without compilation or start-up. `kind`: "speedup" or
    "efficiency". Where figures of another kind give a printed ratio, three sizes must show it, else two.
    """
    base = series.baseline
    if base is None or not is_over_fewest(series, kind):
        return None
    if not all(rows.comparable(row, base, devices) for row, devices in series.larger()):
        return None

    printed = list(_printed_as_speedups(series, kind))
    # Not `series.ratios`, which uses votes of the printed speed-ups: the wrong figure may have swayed them.
    ratios = [(ratio, stated) for row, devices, stated in printed for ratio in rows.ratios_of(row, (base,), devices)]
    is_supported = any(ratio.readings[0].meets(stated, RATIO_TOLERANCE) for ratio, stated in ratios)
    sizes = {devices for _, devices, _ in printed}
    if len(sizes) < FEWEST_SIZES + is_supported:
        return None

    for measured in MEASURED:
        of_base = base.usable(measured)
        times_off = [ratio.readings[0] / stated for ratio, stated in ratios if ratio.kind == measured]
        if of_base is None or len(times_off) < len(printed):
            continue
        # Where some figure gives the ratios, any whole factor is harmless (another batch), else that of the devices.
        factor = _common_factor(times_off, None if is_supported else base.devices or 1)
        if factor is None:
            continue

        figure, unit = of_base.figure_and_unit
        right = figure * factor if measured in RATES else figure / factor
        over = f"the ratio of each of the {len(printed)} larger rows is over {number(right, 4)}{unit}"
        evidence = f"{base.description}: {of_base.heading} {of_base.printed}, but {over}"
        return Flag(evidence, [base.place], f"{kind}-not-in-table", severity="note")
    return None


def _printed_as_speedups(series: RowSeries, kind: str) -> Iterator[tuple[ReportedRow, float, PrintedInterval]]:
    """Yield (row, devices over the baseline's, printed speed-up) of larger rows: 50 % on 4 times the devices is 2."""
    for row, devices in series.larger():
        stated = row.usable(kind)
        if stated is not None:
            yield row, devices, stated.interval * (devices if kind == "efficiency" else 1.0)


def _common_factor(factors: list[PrintedInterval], harmless: int | None) -> float | None:
    """Return the factor that lies in all intervals. Returns None if none does, or it is about 1 or `harmless`.

    `harmless`: a factor that another number of devices or another batch explains; None: any whole number.
    """
    common = PrintedInterval(max(factor.low for factor in factors), min(factor.high for factor in factors))
    times_off = max(common.middle, 1 / common.middle)
    if common.low > common.high * (1 + SAME_TOLERANCE) or times_off < OTHER_FIGURE_FACTOR:
        return None
    is_harmless = abs(times_off / (harmless or round(times_off)) - 1) <= RATIO_TOLERANCE
    return None if is_harmless else common.middle


def wrong_mark(series: RowSeries, kind: str) -> Flag | None:
    """Flag a baseline whose own printed ratio is not 1, though all other ratios are over it.

    Example: speed-ups 2, 2, 4 beside rates 100, 200, 400. `kind`: "speedup" or "efficiency".
    """
    base, mark = series.bases[0], series.bases[0].usable(kind)
    if series.baseline is None or mark is None or mark.interval.contains(1.0, 2 * SAME_TOLERANCE):
        return None
    follows = [
        any(ratio.gives(stated, SAME_TOLERANCE) for ratio in series.ratios(row))
        for row, devices, stated in _printed_as_speedups(series, kind)
        if rows.comparable(row, base, devices)
    ]
    if len(follows) < FEWEST_SIZES or not all(follows):
        return None
    evidence = f"{base.description}: {mark.heading} {mark.printed}, but all {len(follows)} others are over this row"
    return Flag(evidence, [base.place], f"{kind}-not-in-table")


def _unsupported_speedups(series: RowSeries) -> Iterator[Flag]:
    """Flag printed speed-ups of a series that no rate and no time of its rows gives: 3.5 beside rates 100 and 320."""
    for row, _ in series.larger():
        stated = row.usable("speedup")
        if stated is None:
            continue
        ratios = [ratio for ratio in series.ratios(row) if not rows.name_two_precisions(stated.heading, ratio.heading)]
        if not ratios or any(ratio.gives(stated.interval, RATIO_TOLERANCE) for ratio in ratios):
            continue
        follows = ", ".join(f"{ratio.heading}: {ratio.in_words}" for ratio in ratios)
        share = stated.interval / 100
        # A printed 250 may be percent: 2.5 times as fast, or 3.5, which is 250 % faster.
        if any(ratio.gives(as_ratio, RATIO_TOLERANCE) for ratio in ratios for as_ratio in (share, share + 1)):
            follows += "; the figure is in percent"
        evidence = f"{row.description}: speed-up {stated.printed} over {series.base_name}"
        about = row.places_of([stated])
        yield Flag(f"{evidence}, but the table gives {follows}", about, corrected=_right_speedup(row, series))


def _right_speedup(row: ReportedRow, series: RowSeries) -> Correction | None:
    """Return the speed-up by the rates, else by steady times, else by any time; None if these do not agree on one."""
    for kinds in (RATES, STEADY, MEASURED):
        if ratios := series.ratios(row, kinds):
            return one_figure(ratios, f"against {series.base_name}")
    return None


def one_figure(ratios: list[Ratio], derivation: str, devices: float = 1.0, unit: str = "x") -> Correction | None:
    """Return the most precise of `ratios` as a correction: the figure that a table should have printed.

    None where the ratios do not agree within 1 %, or one of them can be read in two ways. `unit`: "x" for a speed-up,
    "%" for an efficiency, which is the ratio over `devices`. `derivation`: what follows the ratio's heading in the
    correction, such as "against ddp-n1x1".
    """
    values = [ratio.readings[0] for ratio in ratios]
    if not all(ratio.certain for ratio in ratios) or any(not a.meets(b, 0.01) for a in values for b in values):
        return None
    best = min(ratios, key=lambda ratio: ratio.readings[0].precision)
    value = best.readings[0] * ((100 if unit == "%" else 1) / devices)
    return Correction(value=value.in_known_digits, unit=unit, derivation=f"{best.heading} {derivation}")


@dataclass(frozen=True)
class _Speedup:
    """How many times as fast a row or run is with `times_devices` times the devices of its baseline."""

    ratio: PrintedInterval  # holds all that the figures may mean
    times_devices: float
    is_slower: bool  # whether more devices made it slower, under every reading of the figures
    evidence: str
    about: list[str | ReportedRun]
    has_other_batch: bool = False  # which may explain it


def _speedups_of_tables(context: AuditContext) -> Iterator[_Speedup]:
    """Yield the speed-up of each larger row: as printed, unless the table contradicts it, else by rates and times."""
    for series in context.series:
        is_over_bases = is_over_fewest(series, "speedup")
        if not is_over_bases and any(base.usable("speedup") for base in series.bases):
            continue  # the printed speed-ups are over another baseline
        base_is_wrong = any(wrong_baseline(series, kind) for kind in ("speedup", "efficiency"))
        for row, devices in series.larger():
            stated = row.usable("speedup") if is_over_bases else None
            ratios = [] if base_is_wrong else series.ratios(row)  # [] also where the row has no rate and no time
            is_supported = stated is not None and any(ratio.gives(stated.interval, RATIO_TOLERANCE) for ratio in ratios)
            batches = _larger_batches(row, series, devices)

            if stated is not None and (is_supported or not ratios):
                speedup = stated.interval
                is_slower = speedup.high < SLOWER_RATIO
                text = stated.printed + ("" if stated.printed.endswith(("x", "×", "X", "%")) else "x")
            elif ratios and (batches or _did_comparable_work(row, series, devices)):
                speedup = rows.hull_of(ratios)
                is_slower = not batches and _takes_longer(row, series)
                text = " and ".join(dict.fromkeys(times(ratio.readings[0].in_known_digits) for ratio in ratios))
            else:
                continue  # no figure of the row is surely a speed-up

            evidence = f"{row.description}: {text} over {series.base_name} with {devices:g} times the devices"
            yield _Speedup(speedup, devices, is_slower, evidence + batches, [row.place], bool(batches))


def _did_comparable_work(row: ReportedRow, series: RowSeries, devices: float) -> bool:
    """Whether the rates and times of a larger row may be held against those of all baselines."""
    if any(row.value("batch") != base.value("batch") for base in series.bases):
        return False  # a "batch" may be that of one device: a larger one explains a larger ratio
    return not series.is_mixed and all(rows.comparable(row, base, devices) for base in series.bases)


def _larger_batches(row: ReportedRow, series: RowSeries, devices: float) -> str:
    """Return, of a row that differs from the baseline in a larger batch of a device alone, that it does; else ""."""
    base = series.bases[0]
    if series.is_mixed or not rows.comparable(row, base, devices, batches=False):
        return ""
    for kind, expected in (("micro_batch", 1.0), ("batch", devices)):
        here, there = row.figure(kind), base.figure(kind)
        if here and there and here.value > expected * there.value:
            return f"; its {here.heading} is {here.printed}, there {there.printed}"
    return ""


def _takes_longer(row: ReportedRow, series: RowSeries) -> bool:
    """Whether every rate and every time of an epoch or a whole run says that a row is slower; False without any."""
    speedups = [ratio.readings[0] for ratio in series.ratios(row, (*RATES, "epoch_time_s", "total_time_s"))]
    return bool(speedups) and all(speedup.high < SLOWER_RATIO for speedup in speedups)


def _speedups_of_runs(context: AuditContext) -> Iterator[_Speedup]:
    """Yield the speed-up of each run over its baseline; it is not `is_slower` if its rate is known to be wrong."""
    if not context.scalings:  # saves the search for wrong rates
        return
    with_wrong_rate = {name for flag in rates_over_baselines(context) for name in flag.about}
    for scaling in context.scalings:
        if scaling.speedups:
            low, high = scaling.speedups  # over the fastest and the slowest repeat of the baseline
            ratio = f"{low:.3f}" if f"{low:.3f}" == f"{high:.3f}" else span_text(f"{low:.3f}", f"{high:.3f}")
            names = listed(base.name for base in scaling.bases)
            evidence = f"{ratio} times as fast as {names} with {scaling.devices:g} times the devices"
            is_slower = high < SLOWER_RATIO and scaling.run.name not in with_wrong_rate
            about: list[str | ReportedRun] = [scaling.run, scaling.base]
            yield _Speedup(PrintedInterval(low, high), scaling.devices, is_slower, evidence, about)


@of_evidence.check(SUPER_LINEAR, SLOWER_WITH_MORE)
def speedups_are_possible(context: AuditContext) -> Iterator[Flag]:
    """Flag speed-ups above N with N times the devices, and those below 1, under every reading of their figures."""
    for speedup in (*_speedups_of_tables(context), *_speedups_of_runs(context)):
        if speedup.ratio.low > NOISE_FACTOR * speedup.times_devices:
            is_slight = speedup.has_other_batch or speedup.ratio.low <= SLIGHTLY_ABOVE * speedup.times_devices
            severity: Severity | None = "note" if is_slight else None
            yield Flag(speedup.evidence, speedup.about, SUPER_LINEAR.name, severity)
        elif speedup.is_slower:
            yield Flag(speedup.evidence, speedup.about, SLOWER_WITH_MORE.name)


def _work_ratio(row: ReportedRow, base: ReportedRow, kind: str) -> float | None:
    """Return the work of a row over the baseline's, by `kind`, "epochs" or "steps"; None where the rows do not say it.

    Steps are multiplied by the global batch. Without it they say nothing, unless they fall as the devices rise: then
    each device has a batch of its own and the work is the same. Example: 5 epochs over 20 are 0.25; 250 steps on 4
    devices over 1,000 on one are 1.
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
    `invalid` where the printed speed-up is that ratio and its row did less work.

    Detected: Epochs or steps differ between the row that is marked 1 and another, and the printed speed-up is the ratio
    of total times.
    Seen: 20 epochs on one device, 5 on four: 18.75 to 20.86 were 4.69 to 5.22.
    Repair: Compare rates, or times of equal work.
    """
    for series in context.series:
        yield from _rows_of_other_work(series)


def _rows_of_other_work(series: RowSeries) -> Iterator[Flag]:
    """Flag rows that did other work than the baseline; `invalid` where their printed speed-up ignores that."""
    base = series.baseline
    if base is None:
        return
    for row, kind in product((row for row, _ in series.larger()), ("epochs", "steps")):
        here, there = row.value(kind), base.value(kind)
        if not here or not there or here == there:
            continue
        work_ratio = _work_ratio(row, base, kind)
        if work_ratio is not None and abs(work_ratio - 1) <= 0.02:
            continue  # other batches make the same work of it

        evidence = f"{base.description}: {there:g} {kind}, {row.description}: {here:g}"
        stated, time_ratio = row.usable("speedup"), _ratio_of_times(row, base)
        if work_ratio and stated and time_ratio and stated.interval.meets(time_ratio):
            derivation = f"{time_ratio.middle:.4g}x of the times, {work_ratio:.4g} of the work"
            corrected = Correction(value=round((time_ratio * work_ratio).middle, 3), unit="x", derivation=derivation)
            evidence += f"; the printed speed-up {stated.printed} is the ratio of their total times"
            if work_ratio < 1:  # more work makes no speed-up look larger: larger batches need more epochs to a target
                yield Flag(evidence, [row.place], severity="invalid", corrected=corrected)
            else:
                yield Flag(evidence, [row.place])
        elif not (row.value("steps") and row.value("epochs")):  # of both, one may differ by the batch alone
            yield Flag(evidence, [row.place])


def _ratio_of_times(row: ReportedRow, base: ReportedRow) -> PrintedInterval | None:
    """Return the total time of the baseline over that of `row`: 4 of 400 and 100 s. None where one has none."""
    for kind in ("total_time_s", "time_s"):
        base_time, time = base.usable(kind), row.usable(kind)
        if base_time and time:
            return base_time.interval / time.interval
    return None
