"""A figure as `scaleproof why` explains it, in the unit of the work that its runs count."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from scaleproof.ground.number_format import significant, span_text
from scaleproof.verify.raw import RawRun
from scaleproof.verify.recompute import RecomputedQuantity


def unit_of(runs: Sequence[RawRun]) -> str:
    """Return the unit of the work that runs count: that of a command, such as samples, else tokens."""
    return next((str(run.metrics["unit"]) for run in runs if run.ok and "unit" in run.metrics), "tokens")


def in_unit_of(quantity: RecomputedQuantity, runs: Sequence[RawRun]) -> RecomputedQuantity:
    """Return a figure whose formula names the unit of the runs, such as samples, in place of tokens."""
    formula = re.sub(r"(?<![\w-])tokens(?![\w-])", unit_of(runs), quantity.formula)  # no cell's name
    return replace(quantity, formula=formula)


def in_tokens(identity: str, runs: Sequence[RawRun]) -> str:
    """Return the name of a figure as files have it: cells/a/tokens_per_s for cells/a/samples_per_s of runs in samples.

    A rate has one name, whatever a command counts; names of other units stay as they are.
    """
    head, slash, column = identity.rpartition("/")
    return head + slash + re.sub(f"^{re.escape(unit_of(runs))}_per_s", "tokens_per_s", column)


def explain(identity: str, quantity: RecomputedQuantity, folder: Path) -> str:
    """Return a figure with its formula and the files that it is computed from, in lines."""
    basis = f", n={quantity.n}"
    if quantity.low is not None and quantity.high is not None:
        basis = f" (95 % CI {span_text(significant(quantity.low, 7), significant(quantity.high, 7))}{basis})"
    lines = [
        identity,
        f"  value    {significant(quantity.value, 7)}{basis}",
        f"  formula  {quantity.formula}",
        *(f"  from     {folder}/{path}  sha256 {sha256}" for path, sha256 in quantity.sources),
        f"  check    scaleproof verify {folder}",
    ]
    return "\n".join(lines)
