"""Why a row that breaks the formula of its column may be right all the same."""

import re

import numpy as np

from scaleproof.auditor.checks import formulas
from scaleproof.auditor.checks.columns import FigureColumn, FigureTable
from scaleproof.auditor.checks.formulas import Formula
from scaleproof.auditor.checks.ratios import RATIO_TOLERANCE
from scaleproof.auditor.read.printed_figures import figures_of

Flags = np.typing.NDArray[np.bool_]
STATISTIC_NAME = re.compile(r"(?i)(?:mean|avg|average|median|geomean|min|max|std)\b")
ABOUT_ONE = re.compile(r"[~≈]\s*1(?:\.0+)?\s*[x×]?$")
# A cell that says what it is over, "-2.6% (vs -48%)", or a difference, with its share in brackets: "+201 (+2.4%)".
OWN_MEANING = re.compile(r"\([^)]*\bvs\b|^[+−-][^%x×(]*\([^)]*%")


def is_explained(figures: FigureTable, target: FigureColumn, row: int, formula: Formula, fits: Flags) -> bool:
    """Whether a row that breaks the formula of most rows may be right: as a mean or the like. `fits`: (rows,)."""
    of_formula = (formula.above[row], formula.below[row])
    is_distance = re.fullmatch(r"[+−-][\d.,]+", target.texts[row]) is not None
    is_of_ratios = "%" in "".join(target.texts) or not formula.is_difference
    if (is_distance and is_of_ratios) or OWN_MEANING.search(target.texts[row]):
        return True  # "+1.8" is how far 22.5 GiB is from 20.7
    if all("%" in text for text in (target.texts[row], *of_formula)):
        return True  # a change of percentages may be a difference of points
    if ABOUT_ONE.match(target.texts[row]):
        return True  # it is as fast as something, which need not be a row of the table
    if STATISTIC_NAME.match(figures.names[row]) or _is_of_another_size(figures, fits, row):
        return True
    return _is_turned_round(figures, target, row, formula)


def _is_turned_round(figures: FigureTable, target: FigureColumn, row: int, formula: Formula) -> bool:
    """Whether a row names the column that wins, over which its ratio is the other way round: CPU, "60x faster"."""
    cells = [formulas.words_of(texts[row]) for texts in figures.words.values()]
    columns = [formulas.words_of(heading) for heading in formula.sources]
    names_winner = any(cell and cell <= column for cell in cells for column in columns)
    texts = (formula.above[row], formula.below[row], target.texts[row])
    above, below, stated = (next(iter(figures_of(text)), None) for text in texts)
    if not (names_winner and above and below and stated):
        return False
    return abs(stated.value * above.value - below.value) <= RATIO_TOLERANCE * below.value


def _is_of_another_size(figures: FigureTable, fits: Flags, row: int) -> bool:
    """Whether all rows that agree share one size in a column of words, "257×257", and this row has another."""
    agreeing = np.flatnonzero(fits).tolist()
    if not agreeing:
        return False
    first = agreeing[0]
    numbered = [texts for texts in figures.words.values() if re.search(r"\d", texts[row])]
    shared = (texts for texts in numbered if all(texts[i] == texts[first] for i in agreeing))
    return any(texts[first] != texts[row] and texts.count(texts[first]) > 1 for texts in shared)
