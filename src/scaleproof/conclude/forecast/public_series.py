"""How wrong the law is on public series of GPUs and TPUs: the interval of a forecast from the first day on.

191 series of 68 tables of language-model training (BERT, GPT, GNMT, Transformer-XL; V100, A100, H100, TPU v4 to v5p),
each table counted once. `tests/conclude/forecast/test_public_series.py` computes these figures from the series.
"""

from collections.abc import Iterable, Sequence

from scaleproof.conclude.forecast.collective import Group, Level
from scaleproof.conclude.forecast.interval import HalfWidths
from scaleproof.conclude.forecast.law import HeldOut, MeasuredStep, doublings

TABLES = 68


# Half-widths from one measured size: for any number of doublings, of which it says equally little.
FROM_ONE: dict[Level, HalfWidths] = {"node": HalfWidths(0.138, 0.285), "network": HalfWidths(0.044, 0.123)}
# From two or more: for each doubling.
A_DOUBLING: dict[Level, HalfWidths] = {"node": HalfWidths(0.070, 0.130), "network": HalfWidths(0.033, 0.073)}


def half_widths(sizes: Sequence[MeasuredStep], group: Group) -> HalfWidths:
    """Half-widths of the interval of a forecast of `group` from the measured `sizes`, the largest last."""
    if len(sizes) < 2:
        return FROM_ONE[group.level]
    distance = doublings(group.size, sizes[-1].group.size)
    each = A_DOUBLING[group.level]
    return HalfWidths(each.likely * distance, each.nearly_all * distance)


def stretch(series: Iterable[HeldOut]) -> float:
    """By how much wider than public series a campaign needs its intervals; 1 where its own held-out sizes are inside.

    `series`: the largest size of each, forecast from the smaller ones. A slow network shows there: where one of them is
    farther from the law than 95 % of the public series are, so may be the next.
    """
    parts = [abs(size.residual) / half_widths(size.sizes, size.largest.group).nearly_all for size in series]
    return max([1.0, *parts])
