"""What a sentence says of two rows of a table: "FSDP uses 60 % less memory than DDP".

It is wrong only where no column of its quantity, direction, way to count per cents or pair of its rows gives it.
"""

import re
from collections.abc import Iterator, Sequence, Set
from itertools import product

from scaleproof.auditor.checks.columns import FigureColumn, FigureTable
from scaleproof.auditor.checks.matching import stated_interval
from scaleproof.auditor.checks.named_cells import END_OF_CLAUSE, named_columns, named_rows, occurs, units_of, words_of
from scaleproof.auditor.read.printed_figures import NUMBER
from scaleproof.auditor.read.reported import StatedFigure
from scaleproof.auditor.read.reported_tables import PrintedInterval, exact
from scaleproof.auditor.read.sentences import PERCENT, TIMES
from scaleproof.ground.findings.registry import Flag

UNLIKE = 0.1  # relative difference of a ratio that no rounding and no mean of several runs explains
MOST_PAIRS = 64  # of rows that are compared
# Words that add no quantity and no condition to a comparison of rows by their speed: "DDP is 1.8x faster than DP".
PLAIN = re.compile(
    r"an?|the|its?|is|was|are|were|be|ha(?:s|ve|d)|by|in|on|at|with|for|using|and|of|to|as|than|over|vs|versus|that|we|"
    r"compared|relative|gets?|gives?|delivers?|shows?|uses?|needs?|takes?|runs?|train(?:s|ing)?|achieves|reaches|"
    r"reduces?|cuts|saves|lowers?|faster|slower|quicker|less|more|higher|fewer|times?|x|fold|percent|speed(?:up)?|up|"
    r"throughput|steps?|gpus?|devices?|nodes?|ranks?"
)
OF_SPEED = re.compile(r"(?i)fast|slow|quick|speed|throughput")
FIGURE = re.compile(rf"{NUMBER}(?:{PERCENT}|{TIMES})?")
THAN = re.compile(
    r"(?: [a-z/]+){0,5} (?:than|over|vs\.?|versus|compared (?:to|with)|relative to)(?: the)? ([^.,;:()]+)"
)


def flag_on_comparison(stated: StatedFigure, tables: Sequence[FigureTable]) -> Iterator[Flag]:
    """Flag "FSDP is 1.8x faster than DDP" if no column of its quantity gives it: 150 and 100 tokens/s."""
    if stated.kind not in ("speedup", "change") or stated.bound is not None:
        return
    figure = FIGURE.search(stated.printed)
    texts = {text for table in tables for column in table.columns for text in column.texts}
    if figure is None or any(figure[0].replace(" ", "") in text.replace(" ", "") for text in texts):
        return  # a cell states it
    contradicting: list[tuple[str, str]] = []  # (what a column says of both rows, place)
    for table in tables:
        first_rows, second_rows = _compared_rows(stated, table)
        pairs = list(product(sorted(first_rows), sorted(second_rows)))
        if not 0 < len(pairs) <= MOST_PAIRS or not _speaks_of_table_alone(stated.sentence, table):
            continue
        relevant = _relevant_columns(stated, table)
        unknown = [column for column in table.columns if column.kind is None and None in units_of(column)[0]]
        for column in (*relevant, *(column for column in unknown if column not in relevant)):
            ratios = [_ratio(column, *pair) for pair in pairs]
            known = [ratio for ratio in ratios if ratio is not None]
            if len(known) < len(pairs) or _may_give(stated, column, pairs, PrintedInterval.around(known)):
                return  # this column may give the stated figure
            if column in relevant:
                one, other = pairs[0]
                both = f"{table.names[one]} {column.texts[one]} and {table.names[other]} {column.texts[other]}"
                contradicting.append((f"{column.heading} is {both}", table.places[one]))
    if contradicting:
        evidence, place = contradicting[0]
        yield Flag(f"“{stated.printed}”, but {evidence}", [stated.source, place])


def _compared_rows(stated: StatedFigure, table: FigureTable) -> tuple[Set[int], Set[int]]:
    """Return the rows of a table that a sentence compares: those named before its figure, and those behind "than".

    Returns empty sets where either names none, or both name one row.
    """
    sentence, start = stated.sentence, stated.position
    figure = FIGURE.match(sentence, start)
    baseline = THAN.match(sentence, figure.end()) if figure else None
    if baseline is None or table.is_transposed:
        return set(), set()
    ends = [m.end() for m in END_OF_CLAUSE.finditer(sentence) if m.end() <= start]
    subject = sentence[max(ends, default=0) : start]
    all_rows = set(range(len(table.places)))
    # The devices of one hold for the other where this names none: "FSDP is 2x faster than DDP on 4 GPUs".
    rows = named_rows([subject], table, of_settings=[baseline[1]])
    baselines = named_rows([baseline[1]], table, of_settings=[subject])
    own = [named_rows([text], table) for text in (subject, baseline[1])]
    is_clear = all_rows not in own and not rows & baselines and len(rows) == len(baselines)
    return (rows, baselines) if is_clear else (set(), set())


def _speaks_of_table_alone(sentence: str, table: FigureTable) -> bool:
    """Whether a sentence has no word that the table lacks: "3 % worse on GLUE", "4x faster on CPU" may be of others."""
    texts = (text for column in table.words.values() for text in column)
    known = words_of(" ".join((*texts, *table.words, *(column.heading for column in table.columns))))
    return all(PLAIN.fullmatch(word) or not word[0].isalpha() or occurs(word, known) for word in words_of(sentence))


def _relevant_columns(stated: StatedFigure, table: FigureTable) -> list[FigureColumn]:
    """Return the columns that a sentence compares by: times and rates if it is of speed, else those that it names."""
    if stated.kind == "speedup" or OF_SPEED.search(stated.printed):
        return [column for column in table.columns if units_of(column)[0] <= {"time", "rate"}]
    named = named_columns([stated.sentence], table.columns)
    return named if len(named) < len(table.columns) else []


def _ratio(column: FigureColumn, first: int, second: int) -> PrintedInterval | None:
    """Return a column's figure in one row over that in another. None unless both are above 0."""
    low, high = column.figures.low, column.figures.high
    if not (low[first] > 0 and low[second] > 0):
        return None
    one, other = (PrintedInterval(float(low[row]), float(high[row])) for row in (first, second))
    return one / other


def _may_give(
    stated: StatedFigure, column: FigureColumn, pairs: Sequence[tuple[int, int]], ratio: PrintedInterval
) -> bool:
    """Whether a column may give a figure: as a ratio or change of either row to the other, or in points."""
    possible, inverse = stated_interval(stated), exact(1.0) / ratio
    if stated.kind == "speedup":
        return any(possible.meets(reading, UNLIKE) for reading in (ratio, inverse, ratio + -1.0, inverse + -1.0))
    changes = [
        PrintedInterval(0.0 if low < 0 < high else min(abs(low), abs(high)), max(abs(low), abs(high)))
        for low, high in ((reading.low - 1, reading.high - 1) for reading in (ratio, inverse))
    ]
    points = [abs(float(column.figures.middle[one] - column.figures.middle[other])) for one, other in pairs]
    is_in_points = any(possible.contains(gap * factor, UNLIKE) for gap in points for factor in (1.0, 0.01))
    return is_in_points or any(possible.meets(reading, UNLIKE) for reading in changes)
