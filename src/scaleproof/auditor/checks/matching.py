"""Published figures and the runs or rows that they are about: matched by their values, never guessed.

A table cell or a sentence is about a run where its figure is the run's, to the printed digit, and no other run has it.
What matches nothing is left alone.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

from scaleproof.auditor.checks.baselines import epoch_seconds, total_rate
from scaleproof.auditor.checks.rows import RowSeries, ratios_of, series_of
from scaleproof.auditor.read.reported import Evidence, PublishedClaim, ReportedRun, StatedFigure
from scaleproof.auditor.read.reported_tables import WORDS, PrintedInterval, Quantity, ReportedRow, ReportedTable, exact
from scaleproof.ground.number_format import percent
from scaleproof.ground.records.grouping import lists_by_key

SEARCHABLE_PRECISION = 2e-3  # largest relative width of a printed figure by which a run can be found
SEARCH_TOLERANCE = 1e-3  # relative difference of a figure and the one that was looked for
MOST_PAIRED_RUNS = 200  # that pairs are formed of
MOST_PAIRED_ROWS = 40  # of one table, likewise
SETTING_KINDS = (
    *("batch", "micro_batch", "global_batch", "accumulation", "seq_len"),
    *("zero_stage", "epochs", "steps", "parameters"),
)
RUN_KINDS = ("tokens_per_s", "epoch_time_s", "total_time_s", "time_s")


@dataclass(frozen=True)
class FigureSource:
    """A figure and, in `name`, where it stands, or of which rows or runs it is a ratio."""

    value: PrintedInterval
    name: str
    devices: int | None = None

    def middle(self) -> float:
        return self.value.middle


class FigureIndex:
    """Figures by kind, found by value."""

    def __init__(self, figures: Iterable[tuple[str, FigureSource]]) -> None:
        by_kind = lists_by_key(figures)
        self._sources = {kind: sorted(sources, key=FigureSource.middle) for kind, sources in by_kind.items()}

    def find(self, kind: str, target: PrintedInterval, relative: float = SEARCH_TOLERANCE) -> Iterator[FigureSource]:
        """Yield the figures of a kind that may be `target`, give or take a relative difference, the smallest first."""
        sources = self._sources.get(kind, [])
        # Only figures near `target` are tested: a quarter larger or smaller is another one, however coarsely printed.
        first = bisect_left(sources, target.low * 0.8, key=FigureSource.middle)
        last = bisect_right(sources, target.high * 1.25, key=FigureSource.middle)
        yield from (source for source in sources[first:last] if target.meets(source.value, relative))


def figures_of(run: ReportedRun) -> dict[str, float]:
    """Return what a run says of its speed: {"tokens_per_s": 390.0, "epoch_time_s": 61.2}; no kind that it lacks."""
    figures: dict[str, float] = {}
    rate = total_rate(run)
    if rate is not None and rate.unit == "tokens/s":
        figures["tokens_per_s"] = rate.value
    if epoch_s := epoch_seconds(run):
        figures["epoch_time_s"] = epoch_s
    if run.seconds:
        figures["total_time_s"] = run.seconds
    return figures


def row_of(run: ReportedRun) -> ReportedRow:
    """Return a run as a row of a table: its words and settings, its figures of speed, its MFU."""
    words = {name: str(word) for name in (*WORDS, "phase") if (word := getattr(run, name, None))}
    settings = {kind: value for kind in SETTING_KINDS if (value := getattr(run, kind, None)) is not None}
    if run.world_size:
        settings["devices"] = run.world_size
    figures = [Quantity(kind, value, f"{value:.5g}", kind) for kind, value in (settings | figures_of(run)).items()]
    shares = run.logged_steps.values("mfu")
    if shares.size:
        # The share that is most impossible: checks look for those below 0 and above 1.
        share = shares.min() if shares.min() < 0 and shares.max() <= 1 else shares.max()
        figures.append(Quantity("mfu", share, percent(share, 1), "MFU", statistic="max"))
    return ReportedRow(run.name, 0, run.name_without_repeat, figures, words)


def runs_index(runs: Iterable[ReportedRun]) -> FigureIndex:
    """Return an index of the rates and times of runs; a time is found by its kind, "epoch_time_s", and as "time_s"."""
    figures = []
    for run in runs:
        for kind, value in figures_of(run).items():
            source = FigureSource(exact(value), run.name, run.world_size)
            figures.append((kind, source))
            if kind.endswith("_time_s"):
                figures.append(("time_s", source))
    return FigureIndex(figures)


def run_of(row: ReportedRow, index: FigureIndex) -> str | None:
    """Return the name of the one run that has any precise figure of the row; None where no run or several do."""
    names: set[str] = set()
    for kind in RUN_KINDS:
        quantity = row.usable(kind)
        if quantity is not None and quantity.interval.precision <= SEARCHABLE_PRECISION:
            names |= {source.name for source in index.find(kind, quantity.interval, SEARCH_TOLERANCE / 4)}
    return names.pop() if len(names) == 1 else None


def runs_in_tables(evidence: Evidence, runs: Sequence[ReportedRun]) -> Iterator[tuple[ReportedTable, dict[int, str]]]:
    """Yield each table whose headings are understood, with id(row) -> name of the run that the row is.

    Rows that are none of `runs`, or may be several, are left out.
    """
    if not runs:
        return
    index = runs_index(runs)
    for table in evidence.tables:
        if table.checked:
            yield table, {id(row): name for row in table.rows if (name := run_of(row, index)) is not None}


def claims_from_tables(evidence: Evidence) -> Iterator[PublishedClaim]:
    """Yield the printed speed-ups of tables whose rows are runs, as claims about these runs."""
    for table, run_names in runs_in_tables(evidence, evidence.runs):
        if len(run_names) > 1:
            for series in series_of(table):
                yield from _series_claims(series, run_names)


def claims_from_sentences(evidence: Evidence) -> Iterator[PublishedClaim]:
    """Yield each change that a sentence states, e.g. "12.3 % faster", and that exactly one pair of runs has."""
    rates = {run.name: rate.value for run in evidence.runs if (rate := total_rate(run)) and rate.unit == "tokens/s"}
    if not 0 < len(rates) <= MOST_PAIRED_RUNS:
        return
    for stated in evidence.stated_figures:
        if stated.kind == "change" and not stated.hypothetical:
            yield from _change_claim(stated, rates)


def _series_claims(series: RowSeries, run_names: dict[int, str]) -> Iterator[PublishedClaim]:
    """Yield the printed speed-ups of a series as claims about its runs; `run_names`: id(row) -> name of its run."""
    base_name = run_names.get(id(series.baseline))  # None, too, where the series has several baselines
    for row, _ in series.larger():
        stated, name = row.usable("speedup"), run_names.get(id(row))
        if stated is None or name is None or base_name is None or name == base_name:
            continue
        yield PublishedClaim("speedup", {"value": stated.value, "of": name, "over": base_name}, row.place)


def _change_claim(stated: StatedFigure, rates: dict[str, float]) -> Iterator[PublishedClaim]:
    """Yield a stated change as a claim about the one pair of runs that has it; nothing where no pair or several do.

    `rates`: name of a run -> its tokens/s. "12.3 % faster" with 1,123, 1,000 and 500 is of the first two.
    """
    target = stated_interval(stated)
    if target.precision > 0.05 or stated.value <= 0:
        return
    pairs = [(fast, slow) for fast, slow in permutations(rates, 2) if target.contains(rates[fast] / rates[slow] - 1, 0)]
    if len(pairs) == 1:
        fast, slow = pairs[0]
        yield PublishedClaim("change", {"value": stated.value, "of": fast, "over": slow}, stated.source)


def pairs_in_tables(evidence: Evidence) -> Iterator[frozenset[str]]:
    """Yield pairs of names of runs, {"ddp", "fsdp"}, whose figures stand in one table: somebody compares them."""
    for table, run_names in runs_in_tables(evidence, evidence.runs):
        names = {run_names[id(row)] for row in table.rows[:MOST_PAIRED_ROWS] if id(row) in run_names}
        yield from map(frozenset, combinations(sorted(names), 2))


def devices_from_tables(evidence: Evidence) -> Iterator[tuple[ReportedRun, int]]:
    """Yield (run, devices) for each run without a world size whose figures stand in a row that states the devices."""
    unknown = {run.name: run for run in evidence.runs if run.world_size is None}
    for table, run_names in runs_in_tables(evidence, evidence.runs if unknown else []):
        for row in table.rows:
            if row.devices and row.measured and (name := run_names.get(id(row))) in unknown:
                yield unknown[name], row.devices


def evidence_index(evidence: Evidence, wrong: Container[str]) -> FigureIndex:
    """Return an index of the speed-ups and efficiencies that tables print, and of the ratios of rows and of runs.

    `wrong`: places of rows whose printed ratios are left out.
    """
    return FigureIndex([*_table_figures(evidence.tables, wrong), *_run_ratios(evidence.runs)])


def _table_figures(tables: Iterable[ReportedTable], wrong: Container[str]) -> Iterator[tuple[str, FigureSource]]:
    """Yield (kind, source) for each printed speed-up and efficiency, and each ratio of two rows as a "speedup"."""
    for table in tables:
        for row in table.rows:
            for quantity in row.figures:
                if quantity.kind in ("speedup", "efficiency") and row.place not in wrong:
                    name = f"{row.place} {quantity.heading} {quantity.printed}"
                    yield quantity.kind, FigureSource(quantity.interval, name, row.devices)
        rows = [row for row in table.rows if row.measured][:MOST_PAIRED_ROWS]
        for a, b in permutations(rows, 2):
            for ratio in ratios_of(a, [b], (a.devices or 1) / (b.devices or 1)):
                name = f"{a.place} over {b.description} by {ratio.heading}"
                yield from (("speedup", FigureSource(reading, name, a.devices)) for reading in ratio.readings)


def _run_ratios(runs: list[ReportedRun]) -> Iterator[tuple[str, FigureSource]]:
    """Yield ("speedup", source) for each ratio of the rates, or the times, of two runs."""
    figures = {run.name: figures_of(run) for run in runs[:MOST_PAIRED_RUNS]}
    for a, b in permutations(figures, 2):
        for kind in figures[a].keys() & figures[b].keys():
            yield "speedup", FigureSource(exact(figures[a][kind] / figures[b][kind]), f"{a} and {b}")


def match(stated: StatedFigure, index: FigureIndex) -> FigureSource | None:
    """Return a row or pair of runs that gives a stated figure on its number of devices, if known; None without any."""
    sources = index.find(stated.kind, stated_interval(stated))
    devices = {stated.devices, None, 0}
    return next((source for source in sources if not stated.devices or source.devices in devices), None)


def stated_interval(stated: StatedFigure) -> PrintedInterval:
    """Return what the figure of a sentence may have been before it was rounded; its sign is dropped."""
    value = abs(stated.value)
    return PrintedInterval(max(0.0, value - stated.resolution), value + stated.resolution)
