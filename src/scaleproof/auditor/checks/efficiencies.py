"""Efficiencies of published tables: a speed-up, printed or implied by rates and times, over the devices."""

from collections.abc import Iterator
from dataclasses import dataclass

from scaleproof.auditor.checks.context import AuditContext, of_evidence
from scaleproof.auditor.checks.ratios import (
    APART,
    BEYOND,
    ONE,
    PERCENT,
    base_of,
    in_words,
    is_over_fewest,
    one_figure,
    wrong_baseline,
    wrong_mark,
)
from scaleproof.auditor.checks.rows import STEADY, Ratio, RowSeries, places, series_of
from scaleproof.auditor.read.reported_tables import Quantity, ReportedRow
from scaleproof.ground.findings.finding import Correction
from scaleproof.ground.findings.registry import Code, Flag

NEAR = 0.3  # relative difference within which a ratio without a marked baseline is of the same figures
EXACT = 0.0015  # of one more digit than a round figure needs


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
    """efficiency = speed-up / (devices / devices of the baseline), by the printed speed-up or by any rate or time."""
    for table in context.tables:
        efficiencies = []
        for series in series_of(table):
            of_series = _efficiencies(series)
            flag = _by_all_devices(of_series, series) or _below_one(series) or wrong_mark(series, "efficiency")
            if flag is None and not any(one.speedup for one in of_series) and not series.did_unequal_work:
                flag = wrong_baseline(series, "efficiency")
            if flag is not None:
                yield flag
            else:
                efficiencies += of_series
        wrong = [efficiency for efficiency in efficiencies if not efficiency.follows]
        # Where most are wrong, the table has another definition.
        if (wrong and 2 * len(wrong) <= len(efficiencies)) or len(efficiencies) == len(wrong) == 1:
            yield from map(_wrong_efficiency, wrong)


@dataclass(frozen=True)
class _Efficiency:
    """A printed efficiency beside what it may follow from."""

    row: ReportedRow
    series: RowSeries
    stated: Quantity
    devices: float  # over the baseline's
    speedup: Quantity | None  # that the row prints, where it is right itself
    measured: list[Ratio]  # by the rates and times of the row

    @property
    def follows(self) -> bool:
        """Whether it is the printed speed-up over the devices, else a measured ratio over them."""
        stated = self.stated.interval * self.devices
        if self.speedup is not None:
            return stated.meets(self.speedup.interval)
        # Total times hold start-up and evaluation.
        return any(r.gives(stated, BEYOND - 1 if r.kind in STEADY else APART) for r in self.measured)

    @property
    def is_near(self) -> bool:
        """Whether it is of the size of what the measured figures give: otherwise it may be of something else."""
        stated = self.stated.interval * self.devices
        return any(ratio.gives(stated, NEAR) for ratio in self.measured)

    @property
    def by_all_devices(self) -> bool:
        """Whether the speed-up was divided by all devices, though the baseline has several."""
        speedup = self.speedup.interval if self.speedup else ONE
        return self.stated.interval.meets(speedup / (self.row.devices or 1))

    @property
    def corrected(self) -> Correction | None:
        """The efficiency by the printed speed-up, else by the measured ratios where these agree."""
        if self.speedup is None:
            return one_figure(self.measured, f"against {base_of(self.series)}, / {self.devices:g}", self.devices, "%")
        value = PERCENT * self.speedup.interval.middle / self.devices
        derivation = f"{self.speedup.printed} / {self.devices:g}"
        return Correction(value=round(value, 1), unit="%", derivation=derivation)


def _efficiencies(series: RowSeries) -> list[_Efficiency]:
    """The printed efficiencies of a series that can be held against something; [] where their baseline is not known."""
    by_speedup = is_over_fewest(series, "speedup")
    unmarked = not any(base.usable(kind) for base in series.bases for kind in ("speedup", "efficiency"))
    if not (by_speedup or unmarked or is_over_fewest(series, "efficiency")):
        return _over_one_device(series)
    rows = [(base, 1.0) for base in series.bases] + list(series.larger())
    efficiencies = []
    for row, devices in rows:
        stated = row.usable("efficiency")
        measured = [] if series.did_unequal_work else series.ratios(row, devices)
        speedup = row.usable("speedup") if by_speedup else None
        if speedup is not None and measured and not any(r.gives(speedup.interval, APART) for r in measured):
            speedup = None  # it is wrong itself
        if stated is not None and (speedup is not None or measured):
            one = _Efficiency(row, series, stated, devices, speedup, measured)
            if not unmarked or one.is_near:
                efficiencies.append(one)
    return efficiencies


def _over_one_device(series: RowSeries) -> list[_Efficiency]:
    """The printed efficiencies beside speed-ups over one device, which the table leaves out; [] where no two rows show
    that they are.
    """
    printed = [(row, row.usable("efficiency"), row.usable("speedup")) for row in series.rows]
    beside = [
        _Efficiency(row, series, efficiency, float(row.devices or 1), speedup, [])
        for row, efficiency, speedup in printed
        if efficiency is not None and speedup is not None
    ]
    return beside if sum(one.follows for one in beside) > 1 else []


def _by_all_devices(rows: list[_Efficiency], series: RowSeries) -> Flag | None:
    """The finding that all speed-ups are divided by all devices, though the baseline has several; else None."""
    size = series.bases[0].devices or 1
    stated = [row for row in rows if row.speedup is not None]
    larger = [row for row in stated if row.devices > 1 and row.by_all_devices and not row.follows]
    if size == 1 or not larger or len(larger) < sum(row.devices > 1 for row in stated):
        return None
    corrected = larger[-1].corrected
    below_one = [row for row in stated if row.devices == 1 and row.by_all_devices]
    if below_one:
        return Flag(
            f"{base_of(series)}: speed-up 1 and efficiency {below_one[0].stated.printed}; the speed-ups are divided "
            f"by all devices, the baseline has {size}",
            places(row.row for row in stated),
            "baseline-below-one",
            corrected=corrected,
        )
    if len(larger) == 1:
        return None
    return Flag(
        f"{base_of(series)}: speed-up 1 on {size} devices; the efficiencies of all others are their speed-ups over all "
        f"devices, not over how many times {size} they have",
        places(row.row for row in larger),
        "efficiency-not-in-table",
        corrected=corrected,
    )


def _below_one(series: RowSeries) -> Flag | None:
    """The finding that the smallest rows have 1 / their devices, and the others their ratios over all devices.

    A rounded 50 % on two devices may be one over a single device that the table leaves out.
    """
    size = series.bases[0].devices or 1
    own = [base.usable("efficiency") for base in series.bases]
    if size == 1 or any(one is None or one.resolution > EXACT or not one.interval.contains(1 / size, 0) for one in own):
        return None
    stated = [(row, one, devices) for row, devices in series.larger() if (one := row.usable("efficiency")) is not None]
    follows = [
        any(ratio.gives(one.interval * (devices * size), BEYOND - 1) for ratio in series.ratios(row, devices))
        for row, one, devices in stated
    ]
    if not stated or not all(follows) or series.did_unequal_work:
        return None
    row, one, _ = stated[-1]
    derivation = f"{row.description}: {one.printed} x {size}"
    return Flag(
        f"{base_of(series)}: an efficiency of 1 / {size} over itself; all are divided by all devices",
        places([*series.bases, *(row for row, _, _ in stated)]),
        "baseline-below-one",
        corrected=Correction(value=round(PERCENT * one.value * size, 1), unit="%", derivation=derivation),
    )


def _wrong_efficiency(wrong: _Efficiency) -> Flag:
    """The finding on an efficiency that does not follow."""
    if wrong.speedup is not None:
        follows = f"its speed-up is {wrong.speedup.printed}"
    else:
        follows = "the table gives " + ", ".join(f"{ratio.heading}: {in_words(ratio)}" for ratio in wrong.measured)
    name, stated = wrong.row.description, wrong.stated.printed
    evidence = f"{name}: efficiency {stated}, but {follows} with {wrong.devices:g} times the devices"
    return Flag(evidence, [wrong.row.place], "efficiency-not-in-table", corrected=wrong.corrected)
