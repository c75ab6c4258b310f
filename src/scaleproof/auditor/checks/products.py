"""Products of columns that are one number in all rows: rate x time is the work, FLOP/s over rate the FLOPs of a sample.

The number itself need not be known, nor what exactly a column is of: devices and batch are factors where most of the
rows say so.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product

import numpy as np

from scaleproof.auditor.checks.columns import FigureColumn, Figures, FigureTable, figure_tables, groups_of
from scaleproof.auditor.checks.context import AuditContext, of_evidence
from scaleproof.auditor.checks.identities import ROWS_FOR_EACH_ODD_ONE, totals_follow
from scaleproof.auditor.read.headings import OF_STATED_WORK
from scaleproof.auditor.read.surroundings import works_of
from scaleproof.auditor.read.units import RESULTS
from scaleproof.ground.findings.registry import Flag
from scaleproof.ground.number_format import number

CONSTANT = 0.01  # relative difference of products that are one number, beside their rounding
STANDS_OUT = 0.05  # relative difference of a row that stands out
SHARE_STANDS_OUT = 0.12  # relative difference of an MFU that stands out: it may be of other steps than the rate
FEWEST = 3  # rows that show what the number is
# Decimal logarithm of how unlikely it is that rows agree by chance; twice that for all but rate x time.
EVIDENCE = 2.0
EVIDENCE_OF_ONE = 1.5  # of a product that is 1
LONG = 1e9  # from which on a product is printed as a power of ten
VARIED = 1.05  # largest over smallest figure of a column whose products say anything

RATES = ("tokens_per_s", "samples_per_s", "rate")
TIMES = ("step_time_s", "epoch_time_s", "total_time_s", "time_s", "latency_s")
DEVICES = ("devices", "processes")
REPLICAS = ("data_parallel",)
STAGES = ("tensor_parallel", "pipeline_parallel")
PARALLEL = (*REPLICAS, *STAGES)
OTHER_PARALLEL = re.compile(r"(?i)(?:cp|ep|context|expert)\b.*")  # of which the devices are a multiple, too
BATCHES = ("global_batch", "batch", "micro_batch")
COUNTS = ("steps", "epochs")
SIZES = (*DEVICES, *BATCHES, "nodes", "devices_per_node")  # what may differ between rows of one configuration
PRECISIONS = (2, 4, 8, 16)  # ratios of the peaks of one device
CERTAIN = 6.0  # evidence that one of two columns is the inverse of what it is called
EXACT = 0.002  # relative difference of a ratio that one column was computed by, beside its rounding
ALIKE = 1.25  # ratio of columns that may have been measured alike
ROWS_OF_RATIO = 5  # that have this ratio
MOST_COLUMNS = 12  # of a table whose columns are compared whatever they mean
CERTAIN_OF_SPEEDUP = 2.5  # evidence for the same where one of the two is called a speed-up
# Two kinds and the exponent of the second: where this product is constant, one of the columns is the other's inverse.
INVERTED = (
    (TIMES, TIMES, 1, CERTAIN),
    (RATES, TIMES, -1, CERTAIN),
    (RATES, RATES, 1, CERTAIN),
    (("speedup",), TIMES, -1, CERTAIN_OF_SPEEDUP),
    (("speedup",), RATES, 1, CERTAIN_OF_SPEEDUP),
)
# Kinds of two columns, the exponent of the second, and kinds that may be factors or divisors besides.
IDENTITIES: tuple[tuple[tuple[str, ...], tuple[str, ...], int, tuple[tuple[str, ...], ...]], ...] = (
    (RATES, TIMES, 1, (DEVICES, BATCHES)),
    (("steps_per_s",), TIMES, 1, ()),
    (RATES, RATES, -1, (DEVICES,)),
    (("flops_per_s",), RATES, -1, (DEVICES,)),
    (("flops_per_s",), TIMES, 1, (DEVICES, BATCHES)),
    (("mfu", "hfu"), ("flops_per_s",), -1, (DEVICES,)),
    (("mfu", "hfu"), RATES, -1, ()),
    (("mfu",), ("hfu",), -1, ()),
    (TIMES, TIMES, -1, (COUNTS,)),
    (("energy_j",), ("power_w",), -1, ((*TIMES, "device_time_s"), DEVICES)),
    (("cost",), TIMES, -1, (DEVICES,)),
    (("energy_j",), ("cost",), -1, ()),
    (("speedup", "efficiency"), TIMES, 1, (DEVICES,)),
    (("speedup", "efficiency"), RATES, -1, (DEVICES,)),
    (COUNTS, BATCHES, 1, (DEVICES,)),
    (BATCHES, BATCHES, -1, ((*DEVICES, *REPLICAS), ("accumulation",))),
    ((*DEVICES, "nodes"), REPLICAS, -1, ()),
)


@dataclass(frozen=True)
class Factor:
    """A column in a product, with its exponent."""

    column: FigureColumn
    exponent: int

    @cached_property
    def figures(self) -> Figures:
        low, high = self.column.figures.low, self.column.figures.high
        if self.is_exact:
            low = high = self.column.figures.middle
        own = Figures(np.where(low > 0, low, np.nan), high)
        return own if self.exponent == 1 else Figures(np.ones_like(low), np.ones_like(low)) / own

    @property
    def is_exact(self) -> bool:
        """Whether its figures are counts, which have no rounding."""
        return self.column.kind in (*DEVICES, *BATCHES, *COUNTS, *PARALLEL, "accumulation", "nodes")

    @property
    def varies(self) -> float:
        """Largest over smallest figure."""
        middle = self.figures.middle[np.isfinite(self.figures.middle)]
        return float(middle.max() / middle.min()) if middle.size else 1.0


@dataclass(frozen=True)
class Agreement:
    """A product in a group of rows. `rows`: their indices in the table. `stated`: what a text says that it is."""

    factors: tuple[Factor, ...]
    rows: list[int]
    stated: float | None = None

    @cached_property
    def figures(self) -> Figures:
        value = self.factors[0].figures
        for factor in self.factors[1:]:
            value = value * factor.figures
        return value[np.array(self.rows)]

    @cached_property
    def usual(self) -> Figures:
        """The product that is stated, else the one that most of the rows have, once for each row."""
        ones = np.ones(len(self.rows))
        if self.stated is not None:
            return Figures(self.stated * ones, self.stated * ones)
        best = max(range(len(self.rows)), key=lambda i: self._same_as(i).sum())
        return Figures(self.figures.low[best] * ones, self.figures.high[best] * ones)

    def _same_as(self, row: int) -> np.typing.NDArray[np.bool_]:
        ones = np.ones(len(self.rows))
        one = Figures(self.figures.low[row] * ones, self.figures.high[row] * ones)
        return self.figures.distance(one) <= CONSTANT

    @cached_property
    def fits(self) -> np.typing.NDArray[np.bool_]:
        return self.figures.distance(self.usual) <= CONSTANT

    @cached_property
    def stands_out(self) -> np.typing.NDArray[np.bool_]:
        """(rows,) whether the product is another number than in most rows. Shares (MFU) have a wider limit."""
        distance = self.figures.distance(self.usual)
        of_shares = any(factor.column.kind in ("mfu", "hfu") for factor in self.factors)
        # Not a wider one where all rows but one agree to their digits: these are of the same steps as the rate.
        near = distance <= STANDS_OUT
        tight = (~near).sum() == 1 and (distance[near] <= EXACT).all()
        tight = tight and (self.figures.width[near] <= 2 * CONSTANT).all()
        return distance > (SHARE_STANDS_OUT if of_shares and not tight else STANDS_OUT)

    @cached_property
    def lone_rows(self) -> list[int]:
        """The rows that stand out by themselves: those of another model agree with each other."""
        odd = self.stands_out
        return [i for i in np.flatnonzero(odd).tolist() if (self._same_as(i) & odd).sum() < FEWEST]

    def is_multiple(self, i: int) -> bool:
        """Whether a row's product is a whole multiple of the usual one, or 1 over it: its batch or devices may be."""
        factor = float(self.figures.middle[i] / self.usual.middle[i])
        factor = max(factor, 1 / factor)
        kinds = {one.column.kind for one in self.factors}
        may_be = round(factor) in PRECISIONS if kinds == {"mfu", "flops_per_s"} else "device_time_s" not in kinds
        return not self._is_count and may_be and abs(factor / round(factor) - 1) <= 2 * CONSTANT

    @cached_property
    def evidence(self) -> float:
        """-log10 of the probability that the rows that fit agree by chance, by how far their first figures vary."""
        fitting = self.factors[0].figures.middle[np.array(self.rows)][self.fits]
        if not fitting.size:
            return 0.0  # no product is a number
        agreeing = len({f"{value:.3g}" for value in fitting}) - 1 + self._is_count
        varied = max(factor.varies for factor in self.factors) if self._is_count else fitting.max() / fitting.min()
        if agreeing < 1 or varied < VARIED:
            return 0.0
        farthest = float(self.figures.distance(self.usual)[self.fits].max())
        width = float(np.median(self.figures.width[self.fits])) + 2 * farthest + 1e-4
        return -agreeing * float(np.log10(min(1.0, width / np.log(varied))))

    @property
    def _is_count(self) -> bool:
        """Whether it is 1, and of counts alone: global batch = batch x devices x accumulated steps; or the share of a
        node that a replica, its tensor and its pipeline stages take: nodes = replicas x tensor x pipeline / devices.
        """
        usual = float(self.usual.middle[0])
        of_nodes = self.factors[0].column.kind == "nodes" and abs(usual * round(1 / usual) - 1) <= CONSTANT
        return (abs(usual - 1) <= CONSTANT or of_nodes) and all(factor.is_exact for factor in self.factors)

    @property
    def most_fit(self) -> bool:
        """Whether two rows fit for each one that is far off, and none is in between. A stated number is one of them."""
        far = int((self.figures.distance(self.usual) > 2 * STANDS_OUT).sum())
        witnesses = int(self.fits.sum()) + (self.stated is not None)
        return witnesses >= ROWS_FOR_EACH_ODD_ONE * max(far, 1) and far == self.stands_out.sum()

    @property
    def is_exact_but_once(self) -> bool:
        """Whether all rows but one agree to the printed digits, in a ratio that is not about 1 or in a product that is,
        and that one is far off, by no whole factor: another number of bytes, devices or samples may be meant.
        """
        usual = abs(float(np.log(self.usual.middle[0])))
        meant = usual <= EXACT if len(self.factors) > 2 else usual > np.log(ALIKE)
        if not meant or self.stands_out.sum() != 1 or self.fits.sum() != len(self.rows) - 1 or self.evidence < CERTAIN:
            return False
        i = int(np.flatnonzero(self.stands_out)[0])
        exact = self.figures.distance(self.usual)[self.fits] <= EXACT
        precise = self.figures.width[self.fits] <= 2 * CONSTANT
        return bool(exact.all() and precise.all()) and self.most_fit and not self.is_multiple(i)

    @property
    def holds(self) -> bool:
        if self._is_count:
            return self.evidence >= EVIDENCE_OF_ONE and self.fits.sum() >= ROWS_FOR_EACH_ODD_ONE * self.stands_out.sum()
        kinds = {factor.column.kind for factor in self.factors}
        certain = len(self.factors) == 2 and bool(kinds & {*RATES, "flops_per_s"}) and bool(kinds & {*TIMES})
        enough = EVIDENCE_OF_ONE if kinds == {"mfu", "flops_per_s"} else EVIDENCE if certain else 2 * EVIDENCE
        fewest = FEWEST - (self.evidence >= 2 * EVIDENCE / (1 + certain))  # two that agree to their digits suffice
        return self.evidence >= enough and self.fits.sum() >= max(fewest, ROWS_FOR_EACH_ODD_ONE * len(self.lone_rows))


@of_evidence.finds("row-stands-out", "suspect")
def products_agree(context: AuditContext) -> Iterator[Flag]:
    """In one row of a table a product is another number than in all other rows: rate x time, although they did the same
    work, or FLOP/s over rate of one model. One of the figures is wrong.

    Detected: Three rows or more of one configuration, whose products agree within 1 % more closely than chance
    explains, and twice as many as are more than 5 % off (MFU: 12 %, unless the others agree to their digits). Devices
    and batch may be factors; replicas x tensor x pipeline stages are the devices. Two rows suffice for MFU over rate,
    and for the time of a stated amount of work, where only the size differs.
    Seen: One rate gives 6,245 images an epoch, all others 5,596 to 5,606.
    Repair: Look at the raw file of that row.
    """
    known = {row for finding in totals_follow(context) for row in finding.runs}
    for table in context.evidence.tables:
        works = works_of(table)
        for figures in figure_tables(table):
            flags = [flag for flag in _outliers(figures, works) if not known & set(flag.about)]
            yield from flags or _without_meaning(figures, known)
            yield from _inverted(figures)


def _without_meaning(figures: FigureTable, known: set[str]) -> Iterator[Flag]:
    """The one row in which columns, of which one is not understood, have another ratio, or are no product."""
    columns = [column for column in figures.columns if column.has_decimals]
    rows = list(range(len(figures.places)))
    if figures.on_side or len(rows) <= ROWS_OF_RATIO or len(columns) > MOST_COLUMNS:
        return
    pairs = [(Factor(one, 1), Factor(other, -1)) for one, other in combinations(columns, 2)]
    triples = [
        (Factor(one, 1), Factor(a, -1), Factor(b, -1))
        for one in columns
        for a, b in combinations(figures.columns, 2)
        if one not in (a, b)
    ]
    for factors in (*pairs, *triples):
        agreement = Agreement(factors, rows)
        if any(factor.column.kind is None for factor in factors) and agreement.is_exact_but_once:
            (i,) = np.flatnonzero(agreement.stands_out).tolist()
            if _is_alike(figures, agreement, i) and figures.places[i] not in known:
                yield _flag(figures, agreement, i)
                return


def _inverted(figures: FigureTable) -> Iterator[Flag]:
    """Two times, or a time and a rate, of which one falls as the other rises, or the other way round."""
    for first, second, exponent, certain in INVERTED:
        for one, other in product(_of(figures, first), _of(figures, second)):
            agreement = Agreement((Factor(one, 1), Factor(other, exponent)), list(range(len(figures.places))))
            in_order = one is not other and figures.columns.index(one) < figures.columns.index(other)
            if (in_order or first != second) and agreement.evidence >= certain and not agreement.stands_out.any():
                sign = " x " if exponent == 1 else " / "
                examples = [f"{one.texts[i]}{sign}{other.texts[i]}" for i in np.flatnonzero(agreement.fits)[:2]]
                yield Flag(
                    f"{one.heading}{sign}{other.heading} is {agreement.usual.middle[0]:.4g} in all "
                    f"{agreement.fits.sum()} rows ({', '.join(examples)}): one of the two is the inverse "
                    "of what it is called",
                    figures.places,
                )


def _outliers(figures: FigureTable, works: set[float]) -> Iterator[Flag]:
    """The rows that stand out by any identity; each once."""
    flagged: set[int] = set()
    stages = tuple(Factor(column, -1) for kind in STAGES for column in _of(figures, (kind,)))
    for first, second, exponent, besides in IDENTITIES:
        for one, other in product(_of(figures, first), _of(figures, second)):
            if one is other or (first == second and _are_alike(one, other)):
                continue
            headings = [*figures.words, *(column.heading for column in figures.columns)]
            if second == REPLICAS and any(map(OTHER_PARALLEL.fullmatch, headings)):
                continue
            more = [stages] if second == REPLICAS else [*_factors(figures, besides, (one, other))]
            factors = [(Factor(one, 1), Factor(other, exponent), *others) for others in more]
            by_group = [[Agreement(of, rows) for of in factors] for rows in groups_of(figures, FEWEST)]
            of_groups = [max(group, key=lambda a: (a.holds, -len(a.lone_rows), a.evidence)) for group in by_group]
            of_work = works if (first, second) == (RATES, TIMES) else ()
            stated = (Agreement(of, list(range(len(figures.places))), work) for of in factors for work in of_work)
            of_groups += [agreement for agreement in stated if agreement.fits.any()]
            for usual in sorted(of_groups, key=lambda a: (-a.evidence, a.stands_out.sum())):
                if not (usual.holds or (_is_one_number(figures, usual) and usual.most_fit)):
                    continue
                for i in usual.lone_rows:
                    row = usual.rows[i]
                    explained = usual.is_multiple(i) and not _has_usual_size(figures, usual, i)
                    if row in flagged or explained or not _is_alike(figures, usual, row):
                        continue
                    if not any(_explains(a, row) for group in by_group for a in group):
                        flagged.add(row)
                        yield _flag(figures, usual, i)


def _is_one_number(figures: FigureTable, agreement: Agreement) -> bool:
    """Whether a product is one number whatever the figures are: rate x time of a step or an epoch that is stated; and
    where rows differ in size alone, MFU over the rate of one device, or rate x time of a stated amount of work.
    """
    one, other = (factor.column for factor in agreement.factors[:2])
    if agreement.stated:
        return other.kind in ("epoch_time_s", "step_time_s") and one.kind != "rate"
    of_one_model = one.kind in ("mfu", "hfu") and other.kind in RATES and other.meaning.per_device is True
    of_one_work = OF_STATED_WORK.fullmatch(other.heading) is not None
    settings = [c.texts for c in figures.columns if c.kind not in (*SIZES, *RESULTS)]
    alike = all(len(set(texts)) == 1 for texts in (*figures.words.values(), *settings))
    return (of_one_model or of_one_work) and alike


def _are_alike(one: FigureColumn, other: FigureColumn) -> bool:
    """Whether two columns are of one quantity, of two programs or variants: their ratio is no constant."""
    a, b = one.meaning, other.meaning
    if "latency_s" in (a.kind, b.kind):
        return True  # of what, nothing says
    return (a.kind, a.per_device, a.item) == (b.kind, b.per_device, b.item)


def _of(figures: FigureTable, kinds: tuple[str, ...]) -> list[FigureColumn]:
    return [c for c in figures.columns if c.kind in kinds and c.meaning.statistic in (None, "mean")]


def _factors(
    figures: FigureTable, besides: tuple[tuple[str, ...], ...], used: tuple[FigureColumn, ...]
) -> Iterator[tuple[Factor, ...]]:
    """Each choice of further factors: of each of `besides` none, or a column, or one over it."""
    choices: list[list[Factor | None]] = []
    for kinds in besides:
        columns = [column for column in _of(figures, kinds) if column not in used]
        choices.append([None, *(Factor(column, exponent) for column in columns for exponent in (1, -1))])
    for chosen in product(*choices):
        yield tuple(factor for factor in chosen if factor is not None)


def _is_alike(figures: FigureTable, usual: Agreement, row: int) -> bool:
    """Whether a row has no word, as of a precision or a model, that others share and the rows that fit do not have."""
    fitting = [usual.rows[i] for i in np.flatnonzero(usual.fits)]
    of_any_model = usual.stated is not None or all(factor.is_exact for factor in usual.factors)
    settings = [] if of_any_model else figures.model_sizes
    if usual.factors[0].column.kind == "flops_per_s":  # the FLOPs of a step are of a model: of its size and length
        settings = [c.texts for c in figures.columns if c.kind not in (*SIZES, *PARALLEL, *RESULTS)]
    if any(texts[row] not in [texts[i] for i in fitting] for texts in settings):
        return False
    for texts in figures.words.values():
        others = [texts[i] for i in fitting]
        if texts[row] not in others and (len(set(others)) < len(others) or texts.count(texts[row]) > 1):
            return False
    return True


def _has_usual_size(figures: FigureTable, usual: Agreement, i: int) -> bool:
    """Whether neither batch nor devices make a product a multiple: both are stated, and factors of it or the same as in
    the rows that fit.
    """
    factors = [factor.column for factor in usual.factors]
    fitting = [usual.rows[k] for k in np.flatnonzero(usual.fits)]
    sizes = [_of(figures, kinds) for kinds in (("global_batch",), (*DEVICES, "nodes"))]
    return all(sizes) and all(
        column in factors or {column.texts[row] for row in fitting} == {column.texts[usual.rows[i]]}
        for columns in sizes
        for column in columns
    )


def _explains(agreement: Agreement, row: int) -> bool:
    """Whether a row follows from another product of the same columns that several rows have."""
    shows = row in agreement.rows and agreement.fits.sum() >= FEWEST and agreement.evidence > 0
    return shows and bool(agreement.fits[agreement.rows.index(row)])


def _flag(figures: FigureTable, usual: Agreement, i: int) -> Flag:
    """The finding on the row at index i of an agreement."""
    row = usual.rows[i]
    terms = [factor.column.texts[row] for factor in usual.factors]
    signs = [" x " if factor.exponent == 1 else " / " for factor in usual.factors]
    printed = "".join(sign + term for sign, term in zip(signs, terms, strict=True)).removeprefix(" x ")
    headings = ", ".join(factor.column.heading for factor in usual.factors)
    product_of_row, expected = (
        f"{values.middle[i]:.4g}" if values.middle[i] >= LONG else number(float(values.middle[i]), 4)
        for values in (usual.figures, usual.usual)
    )
    return Flag(
        f"{figures.names[row]}: {printed} = {product_of_row} ({headings}); in {usual.fits.sum()} other rows {expected}",
        [figures.places[row]],
    )
