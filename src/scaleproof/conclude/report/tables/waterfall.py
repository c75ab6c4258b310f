"""Where scaling is lost, as a table."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from scaleproof.conclude.report.tables.table import Table
from scaleproof.ground.number_format import number
from scaleproof.ground.records.waterfall_report import WaterfallCell


def waterfall_rows(entries: Sequence[WaterfallCell]) -> pd.DataFrame:
    """Return a table with a row per part of each cell, in plain numbers, with its source, or what it needs."""
    rows = []
    for cell in entries:
        columns_of_cell: dict[str, Any] = {"cell": cell.cell, "baseline": cell.baseline, "kind": cell.kind}
        parts = [
            ("ideal", cell.ideal_ms, cell.baseline),
            *((part.name, part.ms, part.source) for part in cell.parts),
            ("unexplained", cell.unexplained_ms, "the rest"),
            ("measured", cell.measured_ms, "timed runs"),
        ]
        rows += [columns_of_cell | {"part": name, "ms": ms, "source": source} for name, ms, source in parts]
    return pd.DataFrame(rows, columns=["cell", "baseline", "kind", "part", "ms", "source"])


def waterfall_texts(entries: Sequence[WaterfallCell]) -> pd.DataFrame:
    """Return a table with a row per cell and a column per part, in ms; what is unknown is a dash."""
    rows = []
    for cell in entries:
        row = {"cell": cell.cell, "scaling": cell.kind, "ideal (ms)": number(cell.ideal_ms)}
        row |= {part.name: number(part.ms) for part in cell.parts}
        row |= {"unexplained": number(cell.unexplained_ms), "measured (ms)": number(cell.measured_ms)}
        row["compute / transfer"] = number(cell.compute_to_communication)
        rows.append(row)
    return pd.DataFrame(rows).fillna("–")


def write_waterfall(entries: Sequence[WaterfallCell], campaign: str, folder: Path) -> None:
    """Write waterfall.csv, .md and .tex into `folder`, from the entries of a campaign's waterfall.json."""
    texts = waterfall_texts(entries)
    Table(
        name="waterfall",
        plain=waterfall_rows(entries),
        human=texts,
        caption="Where the time of a step is lost (ms).",
        label=f"{campaign}-waterfall",
        numeric=[heading for heading in texts.columns if heading not in ("cell", "scaling")],
        none="No cell beside a baseline.",
    ).write(folder)
