"""Rows of a published table as the checks see them: which are comparable, which is the baseline, what was measured.

A printed 2.97 was between 2.96 and 2.98, whether it was rounded or cut off. An identity between printed figures is
broken only where no figures in these intervals fulfil it.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from scaleproof.auditor.read.headings import PRECISION
from scaleproof.auditor.read.printed_figures import KINDS
from scaleproof.auditor.read.reported_tables import PrintedInterval, Quantity, ReportedRow, ReportedTable
from scaleproof.ground.number_format import times

ONE = PrintedInterval(0.995, 1.005)  # what a printed 1 may be
SLOWEST_RANKS_TOLERANCE = 0.10  # by which the slowest ranks' steps exceed the window; 4 % on a machine in use
RATES = ("tokens_per_s", "samples_per_s", "steps_per_s", "rate", "flops_per_s")
RATE_UNITS = {"tokens_per_s": "tokens/s", "samples_per_s": "samples/s"}  # of rates that count something
TIMES = ("step_time_s", "epoch_time_s", "total_time_s", "time_s")
TIMES_OF_RUN = ("total_time_s", "time_s")  # that may hold start-up and evaluation
MEASURED = (*RATES, *TIMES)
PER_STEP = ("step_time_s", "steps_per_s")
MOST_NOT_RISING = 1.1  # rate of one device over the baseline's, or time of weak scaling, which does not rise
STEADY = (*RATES, "step_time_s", "epoch_time_s")  # without start-up, evaluation and checkpoints
# What says which work a row did. Where one of these differs, two rows are not one configuration at two sizes.
WORK_WORDS = ("strategy", "precision", "model", "dataset", "device", "backend", "phase")
WORK_FIGURES = ("seq_len", "parameters", "zero_stage", "tensor_parallel", "pipeline_parallel")
EQUAL_SETTINGS = (*WORK_FIGURES, "micro_batch", "accumulation", "samples", "epochs", "tokens")  # of comparable rows
# Words that only say how large a configuration is; figures with their units.
SIZE_WORD = re.compile(
    r"[\d.]+(?:%|x|k|m?s)?|x|\d*x?gpus?\d*|\d*x?(?:devices?|nodes?|workers?|ranks?|processes|accelerators?|cards?)\d*|"
    r"single|multi|one|two|four|eight|sixteen|s|ms|sec|seconds|with|on|and|the|per|total|n|np|ws"
)
STRATEGY_WORDS = frozenset(
    ("baseline", "data", "ddp", "deepspeed", "distributed", "dp", "fsdp", "fsdp2", "horovod", "parallel", "pytorch")
)
MOST_ROWS = 300  # of a table that are held against each other
RESOLUTION = re.compile(r"(?<!\d)(\d{2,}) ?[x×] ?(\d{2,})(?!\d)")  # "257 × 257": of a grid, an image
SETTING = re.compile(r"(?<![\d.])\d+(?![\d.])")  # a whole number; results have decimals


@dataclass(frozen=True)
class RowSeries:
    """Rows of a table that differ in the number of devices: one configuration at several sizes."""

    table: ReportedTable
    rows: tuple[ReportedRow, ...]

    @cached_property
    def bases(self) -> tuple[ReportedRow, ...]:
        """The rows with the fewest devices; several where a size was measured several times."""
        return tuple(row for row in self.rows if row.devices == self.fewest_devices)

    @cached_property
    def fewest_devices(self) -> int | None:
        return self.rows[0].devices

    @cached_property
    def did_unequal_work(self) -> bool:
        """Whether the rows state different epochs or steps: a ratio of their total times is then no speed-up."""
        return any(len({row.value(kind) for row in self.rows}) > 1 for kind in ("epochs", "steps"))

    @property
    def is_mixed(self) -> bool:
        """Whether the smallest rows have another strategy than the largest: they are another program, perhaps."""
        return self.bases[0].words.get("strategy") != self.rows[-1].words.get("strategy")

    @property
    def baseline(self) -> ReportedRow | None:
        """The one row with the fewest devices. It is None where there are several."""
        return self.bases[0] if len(self.bases) == 1 else None

    @property
    def base_name(self) -> str:
        """The baseline in words: "1 GPU", or "1 GPU and 2 more of its size" where it was measured several times."""
        more = len(self.bases) - 1
        return self.bases[0].description + (f" and {more} more of its size" if more else "")

    def larger(self) -> Iterator[tuple[ReportedRow, float]]:
        """Yield (row, how many times the baseline's devices) for each row that has more devices than the baseline."""
        for row in self.rows[len(self.bases) :]:
            yield row, self.times_devices(row)

    def times_devices(self, row: ReportedRow) -> float:
        """Return how many times the devices of the baseline a row has."""
        return (row.devices or 1) / (self.fewest_devices or 1)

    def ratios(self, row: ReportedRow, kinds: Iterable[str] = MEASURED) -> "list[Ratio]":
        """Return how many times as fast a row is as the smallest ones, by each of these kinds of figures."""
        return ratios_of(row, self.bases, self.times_devices(row), kinds, self.weak)

    def steadiest_ratios(self, row: ReportedRow) -> "list[Ratio]":
        """Return the ratios by figures without start-up and evaluation, else, where a row has none of these, by all."""
        return self.ratios(row, STEADY) or self.ratios(row)

    @cached_property
    def weak(self) -> frozenset[str]:
        """Kinds of figures that are of weak scaling, or rates of one device, by the printed speed-ups of most rows."""
        votes: Counter[str] = Counter()  # kind -> rows that say so, less those that say the opposite
        for row, devices in self.larger():
            stated = row.usable("speedup")
            if stated is None:
                continue
            for ratio in ratios_of(row, self.bases, devices):
                if not ratio.certain:  # two readings: the ratio as it stands, and `devices` times the ratio
                    as_strong, as_weak = (stated.interval.meets(reading) for reading in ratio.readings)
                    votes[ratio.kind] += as_weak - as_strong
        return frozenset(kind for kind, vote in votes.items() if vote > 0)


def series_of(table: ReportedTable) -> list[RowSeries]:
    """Return the configurations of which a table has measured rows of two sizes or more; their smallest rows first."""
    groups: dict[tuple[Any, ...], list[ReportedRow]] = defaultdict(list)
    rows = [row for row in table.rows[:MOST_ROWS] if row.measured]
    if rows and not any(row.devices for row in rows) and all(row.value("nodes") for row in rows):
        rows = [row.with_devices(row.value("nodes") or 1) for row in rows]  # nodes count as devices: the same ratios
    for row in rows:
        if row.devices:
            groups[work_of(row, table)].append(row)
    _add_single_device_rows(groups)
    series = (RowSeries(table, tuple(sorted(rows, key=lambda row: row.devices or 0))) for rows in groups.values())
    return [one for one in series if len(one.bases) < len(one.rows)]


def _add_single_device_rows(groups: dict[tuple[Any, ...], list[ReportedRow]]) -> None:
    """Add rows of one device, which need no strategy, to groups without any that are equal but for the strategy."""
    single = {
        _without_strategy(key): rows
        for key, rows in groups.items()
        if key[0] in (None, "single") and all(row.devices == 1 for row in rows)  # key[0]: the strategy
    }
    for key, rows in groups.items():
        if all(row.devices != 1 for row in rows):
            groups[key] = [*single.get(_without_strategy(key), []), *rows]


def _without_strategy(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a key of `work_of` without the strategy, its first element, and names of strategies in its last one."""
    _, *others, text = key
    return (*others, text - STRATEGY_WORDS)


def work_of(row: ReportedRow, table: ReportedTable) -> tuple[Any, ...]:
    """Return the key of a row's configuration, strategy first, texts last. Rows with one key differ in size alone."""
    words = tuple(row.words.get(word) or table.words.get(word) for word in WORK_WORDS)
    figures = tuple(row.value(kind) for kind in WORK_FIGURES)
    return (*words, *figures, other_text(row, table))


def other_text(row: ReportedRow, table: ReportedTable) -> frozenset[str]:
    """Return the words of a row beyond its figures, size and device: {"compiled"} of "compiled, 4x A100"."""
    figure_columns = {column.heading for column in table.columns if column.kind in KINDS}
    texts = [text for heading, text in row.texts.items() if heading not in figure_columns]
    # "257 × 257" becomes one word, "DataParallel" two: both of these are in STRATEGY_WORDS.
    text = RESOLUTION.sub(r"\1x\2", " ".join(texts).lower()).replace("dataparallel", "data parallel")
    words = (re.sub(r"^\d+x(?=[a-z])", "", word) for word in re.split(r"[^a-z0-9.]+", text))  # "4xa100" -> "a100"
    device = row.words.get("device", "").lower().split()
    return frozenset(word for word in words if word and word not in device and not SIZE_WORD.fullmatch(word))


def name_two_precisions(*headings: str) -> bool:
    """Whether headings name different precisions, as "Weak scaling - FP32" and "Throughput - mixed precision" do."""
    return len(set(PRECISION.findall(" ".join(headings).lower()))) > 1


def multiplies(*factors: Quantity) -> bool:
    """Whether figures can be multiplied: means of one run can, medians and percentiles cannot."""
    return all(factor.statistic in (None, "mean") for factor in factors)


@dataclass(frozen=True)
class Ratio:
    """How many times as fast a row is as its baseline, by one figure that both have.

    `readings` has an interval for each meaning that the figure may have: a rate of all devices or of one of them, times
    of equal work (strong scaling) or of as many times the work as devices (weak scaling). `kind`: of the figure.
    """

    heading: str
    kind: str
    readings: tuple[PrintedInterval, ...]

    @property
    def certain(self) -> bool:
        """Whether the figure has one meaning."""
        return len(self.readings) == 1

    @property
    def in_words(self) -> str:
        """Its readings: "3.6x or 0.9x"."""
        return " or ".join(times(reading.in_known_digits) for reading in self.readings)

    def gives(self, stated: PrintedInterval, relative: float) -> bool:
        """Whether a stated ratio follows from the figure under one of its readings."""
        return any(stated.meets(reading, relative) for reading in self.readings)


def ratios_of(
    row: ReportedRow,
    bases: Iterable[ReportedRow],
    devices: float,
    kinds: Iterable[str] = MEASURED,
    weak: frozenset[str] = frozenset(),
) -> list[Ratio]:
    """Return how many times as fast a row with `devices` times the devices is as `bases`, by each kind of figure.

    A kind that the row or one of `bases` lacks is left out. Of several baselines the ratio is the range over all: 390
    tokens/s over 100 and over 104 is 3.75 to 3.9. `weak`: kinds that are known to be of weak scaling.
    """
    bases = tuple(bases)
    ratios = []
    kinds_of_row = {figure.kind for figure in row.figures}
    for kind in (kind for kind in kinds if kind in kinds_of_row):  # few of all
        over_each = [ratio for base in bases if (ratio := _ratio(row, base, kind, devices, kind in weak)) is not None]
        have_same_readings = len({len(ratio.readings) for ratio in over_each}) == 1
        if len(over_each) == len(bases) and have_same_readings:
            readings = zip(*(ratio.readings for ratio in over_each), strict=True)  # each reading over all baselines
            ratios.append(Ratio(over_each[0].heading, kind, tuple(map(PrintedInterval.around, readings))))
    return ratios


def hull_of(ratios: Iterable[Ratio]) -> PrintedInterval:
    """Return the interval from the lowest to the highest value of ratios under any reading."""
    return PrintedInterval.around(reading for ratio in ratios for reading in ratio.readings)


def _ratio(row: ReportedRow, base: ReportedRow, kind: str, devices: float, weak: bool) -> Ratio | None:
    """Return the ratio of a row over one baseline by one kind of figure.

    Returns None where one of the two rows has no such figure. `devices`: those of the row over the baseline's; `weak`:
    whether the kind is known to be of weak scaling, or of one device. Example: 95 s on 4 times the devices after 100 s
    are 1.05 times as fast, or 4.2 if each device did that work.
    """
    here, there = row.usable(kind), base.usable(kind)
    if here is None or there is None or not here.is_like(there):
        return None

    plain = here.interval / there.interval if kind in RATES else there.interval / here.interval
    counts_work = kind in RATES and kind != "steps_per_s"  # steps/s and times need the work of a step to be compared
    work_ratio = None if counts_work else _work_ratio_in_time(row, base, kind, devices)
    if counts_work and here.per_device is not None:  # the heading says whose rate it is
        readings = [plain * (devices if here.per_device else 1.0)]
    elif work_ratio is not None:
        readings = [plain * work_ratio]  # the work is known
    elif weak:
        readings = [plain * devices]  # weak scaling, or a rate of one device
    elif plain.high <= MOST_NOT_RISING:  # strong scaling that failed, weak scaling, or a rate of one device
        readings = [plain, plain * devices]
    else:
        readings = [plain]
    return Ratio(here.heading or kind, kind, tuple(readings))


def _work_ratio_in_time(row: ReportedRow, base: ReportedRow, kind: str, devices: float) -> float | None:
    """Return the work that a row did in a time of this kind over the work of the baseline.

    Returns None where the rows do not say it. `devices`: those of the row over the baseline's. Example: steps of 256
    and of 64 samples give 4.
    """
    steps = 1.0 if kind in PER_STEP else _multiple(row, base, "steps")
    batch = _multiple(row, base, "global_batch")
    micro_batch = _multiple(row, base, "micro_batch")
    if batch is None and micro_batch is not None and kind in PER_STEP:
        batch = micro_batch * devices * (_multiple(row, base, "accumulation") or 1.0)
    return None if batch is None or steps is None else batch * steps


def _multiple(row: ReportedRow, base: ReportedRow, kind: str) -> float | None:
    """Return a row's figure as a multiple of the baseline's. Returns None where one of them has none, or 0."""
    here, there = row.value(kind), base.value(kind)
    return here / there if here and there else None


def comparable(row: ReportedRow, base: ReportedRow, devices: float, batches: bool = True) -> bool:
    """Whether two rows state the same settings, so that their figures differ by `devices` times the devices alone.

    Batches and nodes may be equal or grow with the devices; whole numbers in unknown columns, "seed 3", are settings.
    `batches`: whether those count.
    """
    ignored = () if batches else ("micro_batch", "batch", "global_batch")
    if any(row.value(kind) != base.value(kind) for kind in EQUAL_SETTINGS if kind not in ignored):
        return False
    growing = (kind for kind in ("batch", "global_batch", "nodes") if kind not in ignored)
    if any(_multiple(row, base, kind) not in (None, 1.0, devices) for kind in growing):
        return False
    understood = {quantity.heading for quantity in (*row.figures, *base.figures)}
    other_columns = (row.texts.keys() | base.texts.keys()) - understood
    cells = ((row.texts.get(name, ""), base.texts.get(name, "")) for name in other_columns)
    return not any(here != there and SETTING.search(f"{here} {there}") for here, there in cells)


def places(rows: Iterable[ReportedRow]) -> list[str]:
    """Return where rows stand, as findings name them: ["README.md:12"]; two rows of one line once."""
    return list(dict.fromkeys(row.place for row in rows))
