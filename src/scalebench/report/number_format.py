"""How numbers are written for people: digits, intervals, n."""

import math
from typing import Any

import pandas as pd


def number(value: float | None, digits: int = 3) -> str:
    """`value` with about `digits` significant digits and thousands separators; a dash where there is none."""
    if value is None or math.isnan(value):
        return "–"
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"


def estimate(shown: dict[str, Any] | None, factor: float = 1.0, digits: int = 3) -> str:
    """`value [low, high]`, or `value (n=1)` where a single run gives no interval."""
    if shown is None:
        return "–"
    text = number(shown["value"] * factor, digits)
    if shown["low"] is None:
        return f"{text} (n={shown['n']:.0f})"
    return f"{text} [{number(shown['low'] * factor, digits)},\u00a0{number(shown['high'] * factor, digits)}]"


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as dictionaries, with None where a cell is empty."""
    return frame.astype(object).where(frame.notna(), None).to_dict("records")
