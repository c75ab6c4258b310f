"""The table of A/B comparisons as CSV, Markdown and LaTeX: pairs of runs of A and B, and of A twice (A/A: noise)."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from scaleproof.conclude.report.tables.table import Table
from scaleproof.ground.number_format import number, span_text
from scaleproof.ground.records.comparison_report import AbComparison, ComparisonReport

NUMERIC = ("B / A, tokens/s (95 %)", "pairs", "A / A, noise (%)", "detectable (%)")
NOTES = (
    "A pair is two runs one after the other on the same devices, in random order; the interval is over pairs. "
    "Noise: what the mean of as many A/A pairs stays below. Detectable: the effect that so many pairs show 4 times "
    "in 5, as a range, because the spread is only estimated."
)


def comparison_rows(comparisons: Sequence[AbComparison]) -> pd.DataFrame:
    """Return the table of A/B comparisons as people read it, one row per comparison."""
    return pd.DataFrame([_comparison_row(comparison) for comparison in comparisons])


def _comparison_row(comparison: AbComparison) -> dict[str, str]:
    """Return the row of a comparison: heading -> text; without an estimate it says why there is none."""
    estimate = comparison.estimate
    claim: str
    if estimate:
        interval = span_text(number(estimate.low, 4), number(estimate.high, 4))
        ratio = f"{number(estimate.ratio, 4)} ({interval})"
        pairs = str(estimate.n)
        noise = number(100 * estimate.floor, 2)
        detectable = span_text(*(number(100 * bound, 2) for bound in estimate.detectable))
        claim = estimate.claim or "none"
    else:
        ratio = f"{comparison.status}: {comparison.why}"
        pairs = f"0 of {comparison.pairs}"
        noise = detectable = claim = "–"
    return {
        "comparison": comparison.name,
        "A": comparison.a,
        "B": comparison.b,
        "B / A, tokens/s (95 %)": ratio,
        "pairs": pairs,
        "A / A, noise (%)": noise,
        "detectable (%)": detectable,
        "claim": claim,
        "findings": " ".join(sorted(comparison.findings)),
    }


def pair_rows(comparisons: Sequence[AbComparison]) -> list[dict[str, str]]:
    """Return two rows of each comparison, B over A and A over A: the ratios of all its pairs, in the order of runs."""
    rows = []
    for comparison in comparisons:
        estimate = comparison.estimate
        ratios = {"B / A": estimate.ratios, "A / A, noise": estimate.null_ratios} if estimate else {}
        for label, values in ratios.items():
            text = ", ".join(number(value, 4) for value in values)
            rows.append({"comparison": comparison.name, "ratio": label, "of each pair": text})
    return rows


def write_comparison(report: ComparisonReport, folder: Path) -> None:
    """Write comparison.csv (plain numbers), .md and .tex into `folder`."""
    rows = []
    for comparison in report.comparisons:
        row = comparison.model_dump(include={"name", "a", "b", "status", "why", "pairs"})
        if comparison.estimate:
            row |= comparison.estimate.model_dump(exclude={"ratios", "null_ratios"})
        rows.append(row)
    Table(
        name="comparison",
        plain=pd.DataFrame(rows),
        human=comparison_rows(report.comparisons),
        caption=f"A/B comparisons of {report.campaign}.",
        label=f"{report.campaign}-comparison",
        numeric=NUMERIC,
        notes=NOTES,
    ).write(folder)
