"""Figures as they are printed: which values a text may stand for."""

import re

NUMBER = re.compile(r"(?:(?<![\w.])-)?(?<![\w.])\d(?:[\d,]*\d)?(?:\.\d+)?(?:[eE][-+]?\d+)?")


def numbers(text: str) -> list[str]:
    """Return the numbers of a text as printed; of a range, such as 1.05-1.40, both; none of names, such as n1x2."""
    return NUMBER.findall(text.replace("\u00a0", " "))


def stands_for(printed: str, value: float) -> bool:
    """Return whether `printed`, such as "14,130" or "1.5e-3", is `value` rounded to the digits that are printed."""
    plain = printed.replace(",", "").lower()
    mantissa, _, exponent = plain.partition("e")
    decimals = len(mantissa.partition(".")[2])
    unit = 10.0 ** (int(exponent or 0) - decimals)  # of the last digit
    return abs(float(plain) - value) <= 0.5 * unit * (1 + 1e-6) + 1e-9 * abs(value)  # a half may be rounded either way
