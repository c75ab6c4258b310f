"""What the figures of a column of ratios may mean: times, a change in per cent, or a difference."""

import re

import numpy as np

from scaleproof.auditor.checks import formulas
from scaleproof.auditor.checks.columns import FigureColumn, Figures
from scaleproof.auditor.read.printed_figures import figures_of

SAVING_HEADING = re.compile(r"(?i)\breduc(?:tion|ed)\b|\bsav(?:ed|ings?)\b")


def readings_of(column: FigureColumn) -> dict[str, Figures]:
    """Return each way to read a column of ratios -> its figures.

    A printed 20 is 20 ("1.0 of"), 20 % ("0.01 of": 0.2), 20 % more ("0.01 more": 1.2) or less (0.8). "is": a speed-up,
    which has one reading; DIFFERENCE: in the unit of the source.
    """
    printed = [figures_of(text) for text in column.texts]
    units = [figures[0].unit if figures else None for figures in printed]
    are_ratios = [unit is None or unit.dimension in formulas.RATIO_DIMENSIONS for unit in units]
    low, high = column.figures.low, column.figures.high
    least, most = np.sort(np.abs([low, high]), axis=0)
    difference = {formulas.DIFFERENCE: Figures(np.where(low * high < 0, 0.0, least), most)}  # "+3,530 tok/s", "0.00"

    ratios = Figures(np.where(are_ratios, low, np.nan), np.where(are_ratios, high, np.nan))
    if not np.isfinite(ratios.low).any():
        return difference

    are_times = all(unit is not None and unit.dimension == "times" for unit in units if unit)
    is_speedup = (
        column.kind == "speedup" or formulas.SPEEDUP_HEADING.search(column.heading) or (any(units) and are_times)
    )
    if not column.is_in_percent and is_speedup:
        return {"is": ratios}

    readings = {}
    is_saving = column.is_in_percent and SAVING_HEADING.search(column.heading)
    for scale in _scales_of(column):
        if not is_saving:
            readings[f"{scale} of"] = ratios.scaled(scale)
            readings[f"{scale} more"] = ratios.scaled(scale, 1.0)
        readings[f"{scale} less"] = ratios.scaled(-scale, 1.0)
    if not any(units) and formulas.DIFFERENCE_HEADING.search(column.heading):
        readings |= difference
    if column.kind == "efficiency":  # it is a share, no change
        return {name: figures for name, figures in readings.items() if name.endswith("of")}
    return readings


def _scales_of(column: FigureColumn) -> tuple[float, ...]:
    """Return by what the figures of a column may be multiplied to be ratios: by 1 or 0.01, of a plain 50."""
    if any("%" in text for text in column.texts) or column.meaning.unit == "percent":
        return (1.0,)  # the figures are divided by 100 already, for the "%" of the cells or heading
    return (0.01,) if column.is_in_percent else (1.0, 0.01)
