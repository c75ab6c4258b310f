"""Columns that follow from others: by which formula, most of their rows say; the rest of the rows must follow it, too.

No heading has to be understood for that; only a column in percent must be called a ratio. A ratio of two columns, or of
one column over a baseline row, is one where more rows than chance explains agree with it to the printed digit.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, permutations

import numpy as np

from scaleproof.auditor.checks.columns import FigureColumn, Figures, FigureTable, Floats, Rows
from scaleproof.auditor.checks.rows import TIMES_OF_RUN, name_two_precisions
from scaleproof.auditor.read.headings import NOT_FIGURES
from scaleproof.auditor.read.printed_figures import figures_of, is_nothing

USUAL_BASELINES = ("the first row", "the row that is 1")
ONLY_MEANING = 2  # how far a formula is expected that alone can be meant


def words_of(text: str) -> set[str]:
    """Return the words of a heading in lower case; numbers are words, too."""
    return set(re.findall(r"[a-z]+\d*|\d+", text.lower()))


RATIO_HEADING = re.compile(
    r"(?i)speed[ _-]?up|scal(?:ing|ability)|ratio|\bfaster\b(?! ?-?r-?cnn)|slower|\bgains?\b|improve|reduc|"
    r"overhead|sav(?:ed|ing)|relative|normali[sz]ed|efficien|\bvs\.?\b|×|^x$|\(x\)|\bchange\b|diff|delta|Δ|increase|加速|提升"
)
OVERHEAD_HEADING = re.compile(r"(?i)\boverhead\b|\bslow[ -]?down\b|\bslower\b|\breduction\b|\bsav(?:ed|ings?)\b")
# What the heading of a speed-up may say besides the columns that it is of.
GENERAL_WORDS = words_of(
    "speedup speed up x over vs versus baseline gpu gpus single one 1 first scaling weak strong throughput training "
    "relative factor ratio to the of"
)
_DIFFERENCE = r"\bdiff|\bdelta\b|Δ|\bgap\b|\bsaved\b|\bchange\b|\bvs\.?\b"
DIFFERENCE_HEADING = re.compile(rf"(?i){_DIFFERENCE}")
RATIO_OF_NEIGHBOURS = re.compile(rf"(?i)^ratio$|{_DIFFERENCE}")
OVER_THE_ROW_ABOVE = re.compile(r"(?i)\b(?:previous|prior|preceding|above|incremental|step-?wise)\b")
END_OF_INTERVAL = re.compile(r"(?i)(?:\b|_)(?:low|high|lower|upper|min|max|std|ci|stderr)(?:\b|_)")
SPEEDUP_HEADING = re.compile(r"(?i)speed[ _-]?up|(?:weak|strong) scaling|加速比")
# Kinds whose figures can be divided by each other. Others are so by figures of the same heading's unit.
FAMILIES = {
    "time": ("time_s", "latency_s"),
    "rate": ("_per_s", "rate"),
    "memory": ("memory_bytes",),
    "energy": ("energy_j",),
    "power": ("power_w",),
    "cost": ("cost",),
}
SETTINGS = (
    *NOT_FIGURES,
    *("devices", "nodes", "devices_per_node", "processes", "batch", "micro_batch", "global_batch", "accumulation"),
    *("seq_len", "steps", "epochs", "step", "epoch", "zero_stage", "tensor_parallel", "pipeline_parallel"),
    *("data_parallel", "learning_rate", "repeats", "gradient_norm"),
)
RATIO_DIMENSIONS = ("percent", "times")  # dimensions of ratios: "+3,530 tok/s" is a difference
DIFFERENCE = "difference"
ORDINAL = re.compile(r"(?i)(?:\b|_)(?:rank|layer|index|id|position)s?$")  # "first-layer rank": no quantity
QUALITY = ("accuracy", "loss", "val_loss", "perplexity")  # of what was trained: no speed-up is over it


@lru_cache(maxsize=1_000)
def family(column: FigureColumn) -> str | None:
    """Return the family of a column, such as "time": columns of one family may be divided by each other.

    Where the kind says nothing it is "unknown" and the unit. None for settings, ratios, qualities, and kinds that no
    family has.
    """
    is_setting = (column.kind in SETTINGS or ORDINAL.search(column.heading)) and not column.has_decimals
    is_spread = column.meaning.statistic == "std"
    if is_setting or is_spread or column.kind in QUALITY or is_ratio(column) or column.is_difference:
        return None
    if column.kind is None or column.kind in SETTINGS:  # not understood, or called a setting, but with decimals
        return f"unknown{column.meaning.unit or ''}"
    return next((name for name, ends in FAMILIES.items() if column.kind.endswith(ends)), None)


def is_ratio(column: FigureColumn) -> bool:
    """Whether a column is of ratios or differences, by its kind or heading; no maximum or "p95" is one."""
    is_mean_speedup = column.meaning.statistic == "mean" and SPEEDUP_HEADING.search(column.heading)
    if END_OF_INTERVAL.search(column.heading) or not (column.meaning.statistic is None or is_mean_speedup):
        return False
    if column.kind in ("speedup", "efficiency", "change"):
        return True
    is_of_unknown_kind = column.kind in (None, "metric", "text")
    return is_of_unknown_kind and (is_called_ratio(column) or has_ratios_alone(column))


def is_called_ratio(column: FigureColumn) -> bool:
    return column.kind in ("speedup", "efficiency", "change") or RATIO_HEADING.search(column.heading) is not None


@lru_cache(maxsize=1_000)
def has_ratios_alone(column: FigureColumn) -> bool:
    """Whether all cells of a column are in percent or times, "-5 %": it may be one of ratios, whatever it is called."""
    figures = [figures[0] for text in column.texts if (figures := figures_of(text))]
    are_ratios = [figure.unit is not None and figure.unit.dimension in RATIO_DIMENSIONS for figure in figures]
    return bool(are_ratios) and all(are_ratios)


@dataclass(frozen=True)
class Formula:
    """What a column may be computed by. `values`: of each row; `sources`: the columns that it is formed of.

    `above`, `below`: the cells that are divided, row by row. `expected`: how far the heading or custom suggest it. 0:
    not at all; 1: a usual baseline, or one of two columns is named; ONLY_MEANING: nothing else can be meant.
    """

    name: str
    sources: tuple[str, ...]
    values: Figures
    expected: int
    above: list[str]
    below: list[str]
    is_steady: bool = True  # False: of whole times, which hold start-up and evaluation
    is_difference: bool = False  # in the unit of its source: "507.91 MB" saved

    def of(self, row: int) -> str:
        """Return the formula with the figures of a row: "time over the first row: 90 / 24 = 3.75"."""
        if self.is_difference:
            return f"{self.name}: {self.above[row]} - {self.below[row]}"
        as_printed = np.sqrt(self.values.low[row] * self.values.high[row])  # the ends are ratio / k and ratio x k
        return f"{self.name}: {self.above[row]} / {self.below[row]} = {as_printed:.4g}"


def formulas_of(target: FigureColumn, table: FigureTable) -> Iterator[Formula]:
    """Yield formulas that may give `target`: ratios and differences of columns or to a baseline row, and shares.

    A column in percent that is not called a ratio, "% of peak", may be of anything: only shares of a sum are tried.
    """
    sources = [column for column in table.columns if column is not target and family(column)]
    yield from (_share_of_sum(source) for source in sources)
    if target.is_in_percent and not is_called_ratio(target):
        return
    if not name_two_precisions(target.heading):  # "FP16 over FP32" may be of columns of both precisions
        sources = [column for column in sources if not name_two_precisions(target.heading, column.heading)]
    yield from _ratios_of_two_columns(target, sources)
    others = (column for column in table.columns if column is not target)
    measured = [*sources, *(column for column in others if column.kind in QUALITY or _is_share(column))]
    yield from _differences_of_two_columns(target, measured)

    notes = {column.meaning.note for column in table.columns if column.kind == target.kind}
    is_of_another = len(notes) > 1 and len(sources) == 1  # "Speedup (ours)", "Speedup (theirs)" beside one rate
    meant = [] if is_of_another else columns_of_speedups(target, sources)
    rule_meant = "the row above" if OVER_THE_ROW_ABOVE.search(target.heading) else "the row that is 1"
    counts = (column.figures.middle for column in table.columns if column.kind in ("devices", "processes", "nodes"))
    devices = next((Figures(count, count) for count in counts), table.devices)
    for rule, base in baselines(target, table):
        for source in sources:
            is_meant = source in meant and rule == rule_meant
            yield from _over_rows(source, rule, base, devices, meaning_of_ratio(target) if is_meant else None)
        for source in measured:
            is_only_meaning = measured == [source] and rule == rule_meant
            yield _difference_to_row(target, source, rule, base, is_only_meaning)


def _ratios_of_two_columns(target: FigureColumn, sources: list[FigureColumn]) -> Iterator[Formula]:
    """Yield ratios of two columns; expected if `target` names or follows one of them, or no other pair is alike."""
    # "New speedup" is a ratio of "New eager" and "New compiled": the columns that share its own words.
    own_words = words_of(target.heading) - GENERAL_WORDS
    peers = [column for column in sources if own_words & words_of(column.heading)] or sources
    for above, below in permutations(sources, 2):
        if not _have_one_quantity(above, below):
            continue
        name, headings = f"{above.heading} / {below.heading}", (above.heading, below.heading)
        ratio = above.figures.over(below.figures)
        is_beside_one = target.position in (above.position, below.position)  # the ratio is in brackets: "50 (2x)"
        if target.is_in_brackets and not is_beside_one:
            continue  # it is of its own cell
        of_family = [column for column in peers if _have_one_quantity(column, above)]
        is_only_pair = of_family in ([above, below], [below, above])
        expected = _expectation(target, above, below, is_only_pair) or int(is_beside_one)
        yield Formula(name, headings, ratio, expected, above.texts, below.texts)
        # A ratio that is not called a speed-up may be, in each row, the larger figure over the smaller.
        if SPEEDUP_HEADING.search(target.heading) is None and sources.index(above) < sources.index(below):
            inverse = below.figures.over(above.figures)
            larger = Figures(np.maximum(ratio.low, inverse.low), np.maximum(ratio.high, inverse.high))
            yield Formula(f"{name}, or the other way round", headings, larger, expected, above.texts, below.texts)


def _have_one_quantity(one: FigureColumn, other: FigureColumn) -> bool:
    """Whether two columns can be divided: of one family, or one unknown and headings that end alike: "new TPS"."""
    last_words = {column.heading.lower().rpartition(" ")[2] for column in (one, other)}
    are_called_alike = None in (one.kind, other.kind) and len(last_words) == 1
    is_of_family = family(one) == family(other) or are_called_alike
    have_units = one.has_units == other.has_units  # "1477 MiB/s" over a plain 1333 is no ratio of these numbers
    return is_of_family and have_units and one.meaning.per_device == other.meaning.per_device


def _expectation(target: FigureColumn, one: FigureColumn, other: FigureColumn, is_only_pair: bool) -> int:
    """Return how far a heading suggests that its column is formed of two others: 2 where it names both, 1, or 0.

    It is 1 where it names one, for a ratio of the only pair (of unknown kinds: right before it), and for "Before |
    After | Δ". A speed-up behind two may be over another row: "Forward | Forward and backward | Speedup".
    """
    is_right_behind = {one.position, other.position} == {target.position - 2, target.position - 1}
    is_of_neighbours = is_right_behind and RATIO_OF_NEIGHBOURS.search(target.heading) is not None
    is_of_pair = is_only_pair and is_called_ratio(target) and (is_right_behind or one.kind is not None)
    return columns_named(target.heading, one.heading, other.heading) or int(is_of_neighbours or is_of_pair)


def _differences_of_two_columns(target: FigureColumn, sources: list[FigureColumn]) -> Iterator[Formula]:
    """Yield differences of two columns, 5 of 24 and 19 ms; expected where `target` names one or stands behind them."""
    for one, other in combinations(sources, 2):
        if (one.kind, family(one), one.meaning.per_device) == (other.kind, family(other), other.meaning.per_device):
            headings = (one.heading, other.heading)
            expected = _expectation(target, one, other, is_only_pair=len(sources) == 2)
            figures = _gaps(target, one, other.figures.middle, other.digits)
            yield Formula(" - ".join(headings), headings, figures, expected, one.texts, other.texts, is_difference=True)


def _gaps(target: FigureColumn, source: FigureColumn, other_figures: Floats, digits: Floats) -> Figures:
    """Return how far the figures of a column are from others, row by row, in the unit of `target`.

    A `target` without a unit, "+13.8", has that of the `source` cells: "95.2 ms". `digits`: one unit of the last digit
    of each other figure.
    """
    gap, width = np.abs(source.figures.middle - other_figures), source.digits + digits
    units_of_cells = [figure.unit for text in target.texts for figure in figures_of(text)]
    has_unit = target.meaning.unit is not None or any(units_of_cells)
    unit = 1.0 if has_unit else np.array([source.unit_of_cell(row) for row in range(len(source.texts))])
    return Figures(np.maximum(gap - width, 0.0) / unit, (gap + width) / unit)


def _is_share(column: FigureColumn) -> bool:
    """Whether a column is in percent and is no change of others: "87.2%"."""
    return column.is_in_percent and has_ratios_alone(column) and not is_called_ratio(column)


def _difference_to_row(
    target: FigureColumn, source: FigureColumn, baseline: str, baseline_rows: Rows, nothing_else_is_meant: bool
) -> Formula:
    """Return how far each figure of a column is from the figure of its baseline row: 0.2 s of 1.4 and 1.2 s.

    `baseline`: the name of the baseline, "the first row"; `baseline_rows`: the index of each row's baseline row, or -1.
    The difference is NaN in rows without a baseline.
    """
    has_baseline = baseline_rows >= 0
    figures_at_baseline = np.where(has_baseline, source.figures.middle[baseline_rows], np.nan)
    texts_at_baseline = [source.texts[row] for row in baseline_rows]
    expected = ONLY_MEANING if nothing_else_is_meant else int(baseline in USUAL_BASELINES)
    return Formula(
        name=f"{source.heading} over {baseline}",
        sources=(source.heading,),
        values=_gaps(target, source, figures_at_baseline, digits=np.zeros(len(source.texts))),
        expected=expected,
        above=source.texts,
        below=texts_at_baseline,
        is_difference=True,
    )


def meaning_of_ratio(target: FigureColumn) -> str:
    """Return what a column of ratios is: "speedup", "overhead" (how much longer something takes) or its kind."""
    if SPEEDUP_HEADING.search(target.heading):
        return "speedup"
    return "overhead" if OVERHEAD_HEADING.search(target.heading) else target.kind or "ratio"


def _over_rows(
    source: FigureColumn, rule: str, base: Rows, devices: Figures | None, meant: str | None
) -> Iterator[Formula]:
    """Yield a column over its baseline row, the baseline row over the column, and both x and / devices if known.

    `rule`: what the baseline is called; `base`: for each row its baseline row, -1 without one; `meant`: a
    `meaning_of_ratio`, if nothing but this source can be meant. Example: times 90, 24 give the ratios 1, 0.27 and 1,
    3.75; on 1 and 4 devices also 1, 1.07.
    """
    has_base = np.where(base >= 0, 1.0, np.nan)  # times NaN: no ratio without a baseline row
    at_base = source.figures[base] * Figures(has_base, has_base)
    texts_at_base = [source.texts[i] for i in base]
    name, headings = f"{source.heading} over {rule}", (source.heading,)
    is_steady = source.kind not in TIMES_OF_RUN
    expected_by_rule = int(rule in USUAL_BASELINES)

    for is_over_base in (True, False):
        ratio = source.figures.over(at_base) if is_over_base else at_base.over(source.figures)
        above, below = (source.texts, texts_at_base) if is_over_base else (texts_at_base, source.texts)
        # A speed-up is the baseline's time over the row's, an overhead the other way round.
        is_right_way = is_over_base != (family(source) == "time" and meant != "overhead")
        expected = ONLY_MEANING if meant and is_right_way else expected_by_rule
        # An efficiency is expected to be the ratio over the devices, anything else the ratio itself.
        plain, over_devices = (expected_by_rule, expected) if meant == "efficiency" else (expected, expected_by_rule)
        yield Formula(name, headings, ratio, plain, above, below, is_steady)
        if devices is not None:
            times_devices = devices / devices[base]
            yield Formula(f"{name}, x devices", headings, ratio * times_devices, 0, above, below, is_steady)
            yield Formula(f"{name}, / devices", headings, ratio / times_devices, over_devices, above, below, is_steady)


def _share_of_sum(source: FigureColumn) -> Formula:
    """Return each figure of a column over their sum: 42.1 of 42.1, 71.3, 14.6 and 8.3 ms is 30.9 %."""
    total = float(np.nansum(source.figures.middle))
    figures = source.figures.scaled(1 / total if total > 0 else np.nan)
    texts = [f"{total / source.meaning.scale:.5g}"] * len(source.texts)
    return Formula(f"{source.heading} over its sum", (source.heading,), figures, 0, source.texts, texts)


def columns_of_speedups(target: FigureColumn, sources: list[FigureColumn]) -> list[FigureColumn]:
    """Return the columns that `target` can be a ratio of: the only source, or rates and times (one, if it is named).

    None for a column that is not called a ratio: an "accuracy (%)" is over nothing, "Huang et al." over another paper.
    """
    if not is_called_ratio(target):
        return []
    if len(sources) == 1:
        has_signs = any(re.match("[+−-]", text) for text in target.texts)
        return sources if has_signs or family(sources[0]) in FAMILIES or not target.is_in_percent else []
    if SPEEDUP_HEADING.search(target.heading) is None:
        return []
    speeds = [column for column in sources if family(column) in ("rate", "time")]
    words = [words_of(column.heading) for column in speeds]
    if words_of(target.heading) - GENERAL_WORDS - set().union(*words):
        return []  # the heading has a word of no column: it is a speed-up of something else
    own_words = [words_of_column - words[0].intersection(*words) for words_of_column in words]  # less the common ones
    named = [column for column, own in zip(speeds, own_words, strict=True) if set() < own <= words_of(target.heading)]
    return named if len(named) == 1 else speeds


def columns_named(heading: str, above: str, below: str) -> int:
    """Return how many of two columns a heading names: "DDP speedup" 1 of "time DDP" and "time FSDP", "DDP/FSDP" 2."""
    words = words_of(heading)
    first, second = (words_of(re.sub(r"\(.*?\)", "", column)) for column in (above, below))  # without units
    if not first & second:
        if first and second and first | second <= words:
            return 2
        own = words - GENERAL_WORDS
        return int(bool(own) and (own <= first or own <= second))  # "vs HF" of vLLM and HF
    # Of columns with common words, "time DDP" and "time FSDP", a heading has to have the other words.
    named = sum(bool(distinct) and distinct <= words for distinct in (first - second, second - first))
    # With words of neither column the heading may be of a third thing.
    return named if words - first - second <= GENERAL_WORDS else min(named, 1)


def baselines(target: FigureColumn, table: FigureTable) -> Iterator[tuple[str, Rows]]:
    """Yield each kind of baseline by name, with the baseline row of each row: ("the row above", [-1, 0, 1]).

    -1 stands for no row.
    """
    row_count = len(table.places)
    yield "the row above", np.arange(row_count) - 1
    yield "the first row", np.zeros(row_count, dtype=np.int64)
    yield "the last row", np.full(row_count, row_count - 1)

    marked = [i for i in range(row_count) if is_marked(target, i) and not _lacks_figures(table, target, i)]
    if marked:
        # For each row the nearest marked row at or above it, else the first marked one below.
        last_marked = [max((m for m in marked if m <= i), default=marked[0]) for i in range(row_count)]
        yield "the row that is 1", np.array(last_marked)
        if len(marked) > 1:  # a baseline may stand behind the rows that are over it
            next_marked = [min((m for m in marked if m >= i), default=-1) for i in range(row_count)]
            yield "the next row that is 1", np.array(next_marked)

    # Also whole numbers that are not understood: "linhas_dataset", the rows of a data set.
    are_counts = {column for column in table.columns if column.kind is None and not column.has_decimals}
    settings = [c for c in table.columns if (family(c) is None or c in are_counts) and not is_ratio(c)]
    groupings = {**table.words, **{column.heading: column.texts for column in settings}}
    for heading, texts in groupings.items():
        if 1 < len(set(texts)) < row_count:
            first = [texts.index(text) for text in texts]
            yield f"the first row of its {heading}", np.array(first)
            if len(marked) > 1:
                of_group = {texts[m]: m for m in reversed(marked)}
                yield f"the row of its {heading} that is 1", np.array([of_group.get(text, -1) for text in texts])


def _lacks_figures(table: FigureTable, target: FigureColumn, row: int) -> bool:
    """Whether "-" stands in a row of `target` and of a measured column: it was not measured, and is no baseline."""
    measured = (column.texts[row] for column in table.columns if column is not target and not is_ratio(column))
    return is_nothing(target.texts[row]) and any(map(is_nothing, measured))


def is_marked(column: FigureColumn, row: int) -> bool:
    """Whether a row of a column of ratios says that it is the baseline: by 1, 100 %, no difference, "-" or in words."""
    text, value = column.texts[row], column.figures.middle[row]
    is_exact = value in (0.0, 1.0, 100.0) and not text.startswith(("~", "≈"))  # "~1.0x" is measured
    return is_exact or is_nothing(text) or "baseline" in text.lower()
