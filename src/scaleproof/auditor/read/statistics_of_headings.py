"""Which statistic of a figure a heading names: "p95", "mean", "Std. Dev"."""

import re

from scaleproof.auditor.read.reported_tables import Statistic

STATISTICS: tuple[tuple[str, Statistic], ...] = (
    (
        r"\b(?:std (?:dev|deviation|error|err)|st dev|standard (?:deviation|error)|std|stdev|stddev|stderr|sd|sem|"
        r"variance|coefficient of variation|cv|iqr)\b",
        "std",
    ),
    (r"\bp ?50\b", "p50"),
    (r"\bp ?90\b", "p90"),
    (r"\b(?:p ?95|95th(?: percentile)?)\b", "p95"),
    (r"\b(?:p ?99|99th(?: percentile)?)\b", "p99"),
    (r"\b(?:median|med)\b", "median"),
    (r"\b(?:mean|avg|average|averaged)\b", "mean"),
    (r"\b(?:min|minimum)\b", "min"),
    (r"\b(?:max|maximum)\b", "max"),
)
# What stands behind a mean: "tok/s (mean ± std)", "Throughput [95 % CI]". The figure is still the mean. "Time +/-" is a
# spread or a difference, and no time.
WITH_SPREAD = re.compile(
    r"(?i)\s*(?:[(\[]\s*)?(?:±|\+/-|\+-)\s*(?:std|stdev|std\.? dev\.?|sd|sem|ci|\d+ ?%? ?ci|error)(?:\s*[)\]])?|"
    r"\s*[(\[]\s*\d+ ?%(?: (?:ci|confidence(?: interval)?))?\s*[)\]]|\s*[(\[]\s*(?:\d+ ?%? ?)?ci\s*[)\]]"
)


def without_statistic(text: str) -> tuple[Statistic | None, str]:
    """Return the statistic that a heading names (the first of several, or None), and the heading without it."""
    first: Statistic | None = None
    for pattern, statistic in STATISTICS:
        shorter, count = re.subn(pattern, " ", text)
        if count and shorter.strip():
            first, text = first or statistic, " ".join(shorter.split())
    return first, text
