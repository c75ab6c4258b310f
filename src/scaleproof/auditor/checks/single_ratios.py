"""Single ratios beside a baseline: some figure of their row over some other figure of the table must give them."""

import re
from collections.abc import Iterator, Set
from itertools import product

import numpy as np

from scaleproof.auditor.checks import formulas
from scaleproof.auditor.checks.columns import FigureColumn, Figures, FigureTable
from scaleproof.auditor.checks.context import listed
from scaleproof.auditor.checks.ratios import RATIO_TOLERANCE
from scaleproof.auditor.read.printed_figures import NUMBER, number
from scaleproof.auditor.read.reported_tables import ABOUT, resolution_of
from scaleproof.auditor.read.sentences import VERBS, WAYS
from scaleproof.ground.findings.registry import Flag

MOST_ROWS = 8  # of more, some two figures give nearly every ratio
MARK = re.compile(r"(?i).*\b(?:baseline|reference)\b.*|[-–—]+|1(?:\.0+)? ?[x×]?|\+?0(?:\.0+)? ?%|100(?:\.0+)? ?%")
BASELINE = re.compile(
    r"(?i)\b(?:baseline|before|original|(?:py)?torch|eager|naive|vanilla|reference|default|serial|sequential|cpu|fp32|"
    r"cublas|standard|old)\b"
)
# What a ratio may be of that the columns must name.
QUANTITY = re.compile(
    r"(?i)memory|vram|accura|loss|quality|util|param|flop|power|energy|cost|size|storage|bandwidth|hit|success|accept|"
    r"score|ppl|perplex|retain|token|mfu|hfu|comput"
)
WAY = re.compile(rf"(?i)\b(?:{WAYS}|{VERBS}|overhead|over)\b")
STATED = re.compile(rf"(?P<about>[~≈]?) ?(?P<sign>[+−-]?)(?P<n>{NUMBER}) ?(?P<unit>x\b|×|%)")
RANGE = re.compile(r"\d ?[-–] ?$|[<>≤≥] ?$")


def ratios_of_nothing(table: FigureTable) -> Iterator[Flag]:
    """Flag a cell that states a ratio which no two figures of the table give: "2.4x" of 100 and 180 tokens/s."""
    sources = [column for column in table.columns if formulas.family(column) in formulas.FAMILIES]
    if len(table.places) > MOST_ROWS or not sources:
        return

    headings = " ".join(column.heading.lower() for column in sources)
    ratios = [column for column in table.columns if formulas.is_ratio(column)]
    # A ratio in brackets behind a figure that is not understood is of that figure.
    not_understood = {column.position for column in table.columns if column not in (*sources, *ratios)}
    columns_of_ratios = {column.heading: column.texts for column in ratios if column.position not in not_understood}
    # A column of words may state ratios, too: "2.4x faster".
    for heading, texts in (columns_of_ratios | table.words).items():
        are_ratios = heading in columns_of_ratios or formulas.RATIO_HEADING.search(heading) is not None
        stated = _stated_ratios(texts, are_ratios, table.is_transposed)
        base = _baseline_of(texts, stated.keys())
        wrong = _rows_of_no_ratio(table, sources, heading, stated, base)
        if len(wrong) != 1 or "efficien" in heading.lower():
            continue  # several may be of something that the table leaves out; efficiencies are over the devices, too
        row = wrong[0]
        quantities = QUANTITY.findall(f"{heading} {texts[row]}".lower())
        if all(quantity in headings for quantity in quantities) and not _has_other_baseline(table, row, base):
            rows = [row] if base is None else [row, base]
            pairs = [f"{column.heading} {' and '.join(column.texts[i] for i in rows)}" for column in sources]
            evidence = f"{table.names[row]}: {heading} {texts[row]}, but no two figures of the table give it"
            yield Flag(f"{evidence}: {listed(pairs)}", [table.places[row]])


def _rows_of_no_ratio(
    table: FigureTable, sources: list[FigureColumn], heading: str, stated: dict[int, Figures], base: int | None
) -> list[int]:
    """Return the rows whose `stated` ratio no two figures give; [] where it is not known what the ratios are over."""
    is_speedup = formulas.SPEEDUP_HEADING.search(heading) is not None
    if base is None and not (is_speedup and _are_variant_and_baseline(sources)):
        return []
    others = ((i, _least_gap(table, sources, i, ratio, is_speedup)) for i, ratio in stated.items() if i != base)
    return [i for i, gap in others if gap > RATIO_TOLERANCE]


def _stated_ratios(texts: list[str], are_ratios: bool, is_transposed: bool) -> dict[int, Figures]:
    """Return row -> the ratio that its cell states. Percentages in a transposed table may be shares of one another."""
    may_be_ratio = {i: text for i, text in enumerate(texts) if not (is_transposed and "%" in text)}
    of_cells = {i: _ratio_in(text, are_ratios) for i, text in may_be_ratio.items()}
    return {i: ratio for i, ratio in of_cells.items() if ratio is not None}


def _baseline_of(texts: list[str], stated: Set[int]) -> int | None:
    """Return the one row marked as baseline ("1x", "-"), else row 0 if all others, and only they, are `stated`."""
    marked = [i for i, text in enumerate(texts) if MARK.fullmatch(text)]
    if not marked and stated == set(range(1, len(texts))) and stated:
        return 0
    return marked[0] if len(marked) == 1 else None


def _has_other_baseline(table: FigureTable, row: int, base: int | None) -> bool:
    """Whether `base` shares a setting or word with further rows that `row` lacks: then `row` has another baseline."""
    no_ratios = [column for column in table.columns if not formulas.is_ratio(column)]
    settings = [column.texts for column in no_ratios if formulas.family(column) not in formulas.FAMILIES]
    groups = (texts for texts in (*settings, *table.words.values()) if base is not None)
    return any(texts[row] != texts[base or 0] and texts.count(texts[base or 0]) > 1 for texts in groups)


def _are_variant_and_baseline(columns: list[FigureColumn]) -> bool:
    """Whether there are two columns of one quantity, one of which is called the baseline: "PyTorch ms", "Triton ms"."""
    is_pair = len(columns) == 2 and formulas.family(columns[0]) == formulas.family(columns[1])
    return is_pair and any(BASELINE.search(column.heading) for column in columns)


def _ratio_in(text: str, is_in_column_of_ratios: bool) -> Figures | None:
    """Return what the ratio in a cell may be, as times: 1.72 or 0.28 of "72% improvement". Returns None without one.

    Without a sign it may be a share, too: 0.72 of "72%".
    """
    m = STATED.search(text)
    if m is None or RANGE.search(text[: m.start("n")]):
        return None
    if not is_in_column_of_ratios:
        is_of_figure_before = re.search(r"\d", text[: m.start()]) is not None  # "2.45 s (+11%)"
        if is_of_figure_before or not (m["sign"] or WAY.search(text)):
            return None
    value = number(m["n"]) or np.nan
    around = max(resolution_of(m["n"]), ABOUT * value if m["about"] else 0.0)
    printed = Figures(np.array([value - around]), np.array([value + around]))
    if m["unit"] != "%":
        return printed
    readings = [printed.scaled(0.01, 1.0), printed.scaled(-0.01, 1.0), *([] if m["sign"] else [printed.scaled(0.01)])]
    # (readings, 1): each of them may be meant.
    return Figures(np.stack([reading.low for reading in readings]), np.stack([reading.high for reading in readings]))


def _least_gap(table: FigureTable, sources: list[FigureColumn], row: int, stated: Figures, is_speedup: bool) -> float:
    """Return how far a stated ratio is from the nearest ratio of a figure of its row and any other figure.

    Returns -1 without any. `sources`: the columns of these figures. The devices, the batch and other settings may be
    factors of the ratio.
    """
    settings = [column for column in table.columns if column.kind in formulas.SETTINGS]
    sizes = [column.figures.middle for column in settings if not column.has_decimals]
    sizes += [table.devices.middle] if table.devices is not None else []
    gaps = [np.empty(0)]
    for one, other in product(sources, repeat=2):
        if formulas.family(one) == formulas.family(other):
            others = np.array([i for i in range(len(one.texts)) if i != row or one is not other], dtype=np.int64)
            of_row, of_others = one.figures[np.full(len(others), row)], other.figures[others]
            ratios = [of_row.over(of_others), of_others.over(of_row)]
            if is_speedup and one is other:  # a speed-up is a rate over the others, or the other times over the row's
                ratios = ratios[1:] if formulas.family(one) == "time" else ratios[:1]
            with np.errstate(divide="ignore", invalid="ignore"):
                size_ratios = [size[row] / size[others] for size in sizes]
            # The plain ratio, times a ratio of sizes (devices, batch), or divided by one.
            for factor in (np.ones(len(others)), *size_ratios, *(1 / size_ratio for size_ratio in size_ratios)):
                gaps += [stated.distance(Figures(r.low * factor, r.high * factor)).ravel() for r in ratios]
    all_gaps = np.concatenate(gaps)
    finite = all_gaps[np.isfinite(all_gaps)]
    return float(finite.min()) if finite.size else -1.0
