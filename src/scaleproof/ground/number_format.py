"""How numbers are written for people: digits, intervals, n."""

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scaleproof.ground.records.result_file import Estimated

PERCENT = re.compile(r"(?<=\d) ?%")
TOO_WIDE = 10.0  # from this ratio of its bounds on an interval is not worth its digits
TOO_WIDE_OF_TWO = 2.0  # the same for an interval over two runs, whose width is chance


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with about `digits` significant digits and thousands separators; a dash for None and NaN."""
    if value is None or math.isnan(value):
        return "–"
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"


def digits_beside_one(*ratios: float) -> int:
    """Return with how many digits, three or more, `number` writes none of these ratios as the 1 that it is not."""

    def is_told(ratio: float, digits: int) -> bool:
        return ratio == 1 or float(number(ratio, digits).replace(",", "")) != 1

    return next((digits for digits in range(3, 16) if all(is_told(ratio, digits) for ratio in ratios)), 16)


def integer(value: float) -> str:
    """Return a whole number, a count or a rate, with thousands separators: "12,345"."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}"


def significant(value: float, digits: int = 3, grouped: bool = False) -> str:
    """Return at most `digits` significant digits, as short as possible: "0.5", "1.23e-05". `grouped`: in thousands."""
    return f"{value:,.{digits}g}" if grouped else f"{value:.{digits}g}"


def fixed(value: float, decimals: int, signed: bool = False, grouped: bool = False) -> str:
    """Return a number with so many decimals: "12.30". `signed`: with a plus, too. `grouped`: in thousands."""
    return f"{value:{'+' if signed else ''}{',' if grouped else ''}.{decimals}f}"


def scientific(value: float, decimals: int = 1, signed: bool = False) -> str:
    """Return a number as a power of ten: "1.5e-07". `signed`: also with a plus."""
    return f"{value:{'+' if signed else ''}.{decimals}e}"


def percent(share: float, decimals: int = 0) -> str:
    """Return a share in percent: "59%". `with_spaces` puts a space before the sign."""
    return f"{share:.{decimals}%}"


def rounded_up_percent(part: float) -> str:
    """Return `part`, a difference that repeats show, rounded up in percent: "5 %", "0.5 %"."""
    if part > 1:
        return "more than 100 %"
    percent = 100 * part
    decimals = 0 if percent >= 1 else 1
    rounded_up = math.ceil(percent * 10**decimals - 1e-9) / 10**decimals  # 5.000000001 is 5
    return f"{rounded_up:.{decimals}f} %"


def about(count: float) -> str:
    """Return a whole number with two digits: "about 150" for 148."""
    return f"about {float(f'{count:.2g}'):,.0f}"


def seconds(time: float, decimals: int = 3) -> str:
    """Return a time in seconds, with as many decimals as the times that it is compared with: "1.234 s"."""
    return f"{time:.{decimals}f} s"


def megabytes(count: float) -> str:
    """Return a number of bytes in units of a million: "12.3 MB"."""
    return f"{count / 1e6:.1f} MB"


def duration_text(seconds: float, digits: int = 3) -> str:
    """Return a time in seconds, minutes or hours: "90 s", "4.6 min", "12 h". `digits`: of minutes and hours."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.{digits if seconds < 5970 else 3}g} min"  # 100 min, not 1e+02
    hours = seconds / 3600
    return f"{hours:.3g} h" if hours < 999.5 else f"{hours:,.0f} h"


def duration_in_words(seconds: float) -> str:
    """Return a time as people say it: 40 seconds, 8 minutes, 2.5 hours, 3 days."""
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= 1.5 * size:
            amount = seconds / size
            number = f"{amount:.1f}".removesuffix(".0") if amount < 10 and unit != "minute" else integer(amount)
            return f"{number} {unit}s"
    count = math.ceil(seconds)
    return "1 second" if count == 1 else f"{count} seconds"


def is_useless(low: float, high: float, n: float) -> bool:
    """Return whether the bounds of an interval over `n` runs say nothing: ten times apart, of two runs twice."""
    return low > 0 and high > (TOO_WIDE_OF_TWO if n <= 2 else TOO_WIDE) * low


def span_text(low: str, high: str) -> str:
    """Return the two ends of an interval as they are printed everywhere: "1.45-1.82"; with signs "-0.02 to 0.05"."""
    return f"{low} to {high}" if {low[:1], high[:1]} & {"-", "+"} else f"{low}-{high}"


def interval_text(low: float | None, high: float | None, n: str | int, digits: int = 3) -> str:
    """Return an interval in words, "95 % CI 1.45-1.82, n=3"; else n, and why there is no interval to print.

    `n`: the number of runs, or several in a text such as "3 and 2"; the smallest counts.
    """
    fewest = min(int(word) for word in str(n).split() if word.isdigit())
    if low is None or high is None:
        return f"n={n}: {'no' if fewest < 2 else 'too few for an'} interval"
    if is_useless(low, high, fewest):
        return f"n={n}: interval too wide to print"
    return f"95 % CI {span_text(number(low, digits), number(high, digits))}, n={n}"


def estimate(interval: "Estimated | None", factor: float = 1.0, digits: int = 3, unit: str = "") -> str:
    """Return an estimate: `value (low-high)`, each times `factor`, with `unit` behind the value.

    Returns a dash for None. `value (n=1)` where a single run gives no interval, `value (n=2: too wide)` where the
    interval is too wide to help.
    """
    if interval is None:
        return "–"
    text = number(interval.value * factor, digits) + unit
    if interval.bounds is None:
        return f"{text} (n={interval.n})"
    if is_useless(*interval.bounds, interval.n):
        return f"{text} (n={interval.n}: too wide)"
    low, high = (number(bound * factor, digits) for bound in interval.bounds)
    return f"{text} ({span_text(low, high)})"


def with_spaces(text: str) -> str:
    """Return a text whose percentages have a space at which no line ends: "59 %", not "59%"."""
    return PERCENT.sub("\u00a0%", text)


UNITS = ("bytes", "kB", "MB", "GB", "TB")


def bytes_text(n_bytes: float) -> str:
    """Return a number of bytes in the unit that suits it, in powers of 1000: "1.5 MB"."""
    amount, power = n_bytes, 0
    while amount >= 999.5 and power < len(UNITS) - 1:  # 999.5 would be printed as 1e+03
        amount, power = amount / 1000, power + 1
    return f"{amount:.3g} {UNITS[power]}"


def times(ratio: float) -> str:
    """Return how many times as much: "1.95x"."""
    return f"{ratio:.3g}x"


def in_unit(text: str, unit: str) -> str:
    """Replace "tokens" by `unit`, the unit of work, in a text about rates: "samples/s" for "tokens/s"."""
    return text if unit == "tokens" else re.sub(r"\btokens(?=/s| over all time)", unit, text)
