"""Where a campaign has measured the same work twice, among its cells and in its A/B pairs, with different results."""

import pandas as pd

from scaleproof.conclude.report.read_results import records
from scaleproof.conclude.report.sentences.ratios import runs_text
from scaleproof.ground.confidence import of_interval, ratio
from scaleproof.ground.number_format import interval_text, number
from scaleproof.ground.records.comparison_report import AbComparison

RATE = "tokens_per_s"


def drift_sentences(comparison: AbComparison, cells: pd.DataFrame) -> list[str]:
    """Return a sentence for each arm (A or B) whose rate differs from that of a cell which does the same work.

    They differ where Welch's 95 % interval of their ratio excludes 1. `cells`: cells.csv. Intervals of rates do not
    cover what changed on the machine between the two places; the ratios of pairs do not contain it.
    """
    if not comparison.arms:
        return []
    rows = {row["cell"]: row for row in records(cells) if row["n"]}
    sentences = []
    for arm, measured in ((comparison.a, comparison.arms.a), (comparison.b, comparison.arms.b)):
        here = measured.tokens_per_s
        for cell in measured.same_work:
            row = rows.get(cell)
            if row is None:
                continue
            there = of_interval(row[RATE], row[f"{RATE}_low"], row[f"{RATE}_high"], int(row["n"]))
            relative = ratio(of_interval(here.value, here.low, here.high, here.n), there)
            if relative.low is None or relative.high is None or relative.low <= 1 <= relative.high:
                continue
            interval = interval_text(relative.low, relative.high, runs_text(here.n, there.n))
            sentences.append(_sentence(arm, here.value, cell, there.value, relative.value, interval))
    return sentences


def _sentence(arm: str, here: float, cell: str, there: float, relative: float, interval: str) -> str:
    """Return the sentence on an arm that ran at `here` tokens/s, and a cell that ran at `there`.

    `relative`: here/there. `interval`: of that, as text.
    """
    other, cause = " and", "the machine changed in between"
    if arm.partition("-n")[0] != cell.partition("-n")[0]:  # names begin with the strategy and the geometry
        other = f"; {cell}, which does the same work on one device, ran"
        cause += ", or the strategy costs as much"
    elif arm != cell:  # named after other keys
        other = f", and as {cell}"
    return (
        f"Do not compare rates of the pairs with those of the cells: {arm} ran at {number(here, 4)} tokens/s in these "
        f"pairs{other} at {number(there, 4)} among the cells: {number(relative)}x ({interval}); {cause}. B / A is of "
        "runs side by side, so it does not contain that."
    )
