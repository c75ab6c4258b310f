"""Terms and columns of the page, explained on it: only those that this page has."""

import re
from collections.abc import Iterable

from scaleproof.conclude.report.page_inputs import PageInputs
from scaleproof.conclude.report.page_tables import PageTable

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
ALWAYS = {
    "run, n": "One measurement of a cell in processes of its own; n is how many of them have numbers.",
    "device, rank": "A GPU; on a CPU a process bound to cores of its own. A rank is a process of the training.",
    "step, window": "A step is one optimizer step with all of its micro-batches; the window is the timed steps.",
    "baseline": "The same series at its smallest number of devices.",
    "95 % CI": "An interval over runs of this session: 1.62x (95 % CI 1.20-2.19, n=3) in text, 1.62 [1.20, 2.19] in a "
    "table. ~ beside a ratio: the interval contains 1, so a difference is undecided. Corrected, or simultaneous: "
    "of each size such intervals hold together with 95 %, by Tukey's range over its cells and the single devices that "
    "they are held against; other sizes have 95 % of their own.",
    "finding": "What a check has found. invalid: the number is wrong or answers another question; suspect: it may be; "
    "note: worth knowing.",
}
PAIRS = {
    "pair": "A and B one after the other on the same devices, in "
    "random order. A/A pairs run A twice: what they differ by is noise.",
}
TRACED = {
    "exposed": "Communication while nothing is computed on the same rank. It is transfer, or waiting for a rank that "
    "came later; computing, exposed communication and idle time add up to the step.",
    "waterfall": "From the ideal step to the measured one, which is the window over its number of steps. Parts from a "
    "trace are its shares of the traced step times that step, so they differ from the trace's own milliseconds.",
}
LEARNT = {"nats": "Unit of a loss: cross-entropy with the natural logarithm; e to its power is the perplexity."}


def terms(inputs: PageInputs) -> Terms:
    """The words that the page uses, with the parts of its cells' names first."""
    names = [*inputs.cells["cell"], *(arm for c in inputs.comparisons for arm in (c.a, c.b))]
    explained = {"cell": _cell(names)} | ALWAYS
    explained |= PAIRS if inputs.comparisons else {}
    explained |= TRACED if inputs.traces or inputs.waterfall else {}
    explained |= LEARNT if inputs.cells["validation_loss"].notna().any() else {}
    return list(explained.items())


def columns(tables: Iterable[PageTable]) -> Terms:
    """The columns of the page's tables that have a definition, each once."""
    explained: Terms = []
    for column in (column for table in tables for column in table.columns if column.definition):
        if column.label not in dict(explained):
            explained.append((column.label, column.definition))
    return explained


def _cell(names: list[str]) -> str:
    """What a cell is, with the parts that the names of these cells have: "n1x2 (nodes x devices per node)"."""
    tokens: dict[str, str] = {}
    for name in names:
        for token in name.split("-"):
            match = re.fullmatch(r"([a-z]+)(\d[\dx]*)", token)
            if match and match[1] in PARTS:
                tokens.setdefault(match[1], token)
    parts = [f"{tokens[prefix]} ({text})" for prefix, text in PARTS.items() if prefix in tokens]
    return f"One configuration of the campaign, named after the keys that differ: {', '.join(['strategy', *parts])}."
