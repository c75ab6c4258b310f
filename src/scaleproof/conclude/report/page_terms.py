"""Terms and columns of the page, explained on it: only those that this page has."""

import re
from collections.abc import Iterable

from scaleproof.conclude.report.page_inputs import PageInputs
from scaleproof.conclude.report.page_tables import PageTable
from scaleproof.ground.words import LEARNT, MEASURED, PAIRS, TRACED

Terms = list[tuple[str, str]]
# Parts of a cell's name: prefix -> what the number behind it is.
PARTS = {
    "n": "nodes x devices per node",
    "gb": "samples per step, the global batch",
    "mb": "samples per device and pass, the micro-batch",
    "ga": "micro-batches per step, gradient accumulation",
    "sl": "tokens per sample, sequence length",
    "t": "cores per device",
}


def terms(inputs: PageInputs) -> Terms:
    """Return the words that the page uses with their definitions, the parts of its cells' names first."""
    names = [*inputs.cells["cell"], *(arm for c in inputs.comparisons for arm in (c.a, c.b))]
    explained = {"cell": _cell(names)} | MEASURED
    if inputs.comparisons:
        explained |= PAIRS
    if inputs.traces or inputs.waterfall:
        explained |= TRACED
    if inputs.cells["validation_loss"].notna().any():
        explained |= LEARNT
    return list(explained.items())


def columns(tables: Iterable[PageTable]) -> Terms:
    """Return the columns of `tables` that have a definition, with it, each once."""
    explained: Terms = []
    for column in (column for table in tables for column in table.columns if column.definition):
        if column.label not in dict(explained):
            explained.append((column.label, column.definition))
    return explained


def _cell(names: list[str]) -> str:
    """Return what a cell is, with the parts that the names of these cells have: "n1x2 (nodes x devices per node)"."""
    tokens: dict[str, str] = {}
    for name in names:
        for token in name.split("-"):
            match = re.fullmatch(r"([a-z]+)(\d[\dx]*)", token)
            if match and match[1] in PARTS:
                tokens.setdefault(match[1], token)
    parts = [f"{tokens[prefix]} ({text})" for prefix, text in PARTS.items() if prefix in tokens]
    return f"One configuration of the campaign, named after the keys that differ: {', '.join(['strategy', *parts])}."
