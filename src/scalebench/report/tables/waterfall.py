"""The loss of scaling as a table."""

from pathlib import Path
from typing import Any

import pandas as pd

from scalebench.files import write_atomic
from scalebench.report.number_format import number
from scalebench.report.tables.cells import latex

HIDES = 3.0  # computation over communication from which the latter is usually hidden


def waterfall_rows(found: list[dict[str, Any]]) -> pd.DataFrame:
    """Plain numbers: a row for each part of each cell, with what it was measured by or what would measure it."""
    rows = []
    for cell in found:
        base = {name: cell[name] for name in ("cell", "baseline", "kind")}
        steps = [
            ("ideal", cell["ideal_ms"], cell["baseline"]),
            *((p["name"], p["ms"], p["source"]) for p in cell["parts"]),
        ]
        steps += [("unexplained", cell["unexplained_ms"], "the rest"), ("measured", cell["measured_ms"], "timed runs")]
        rows += [base | {"part": name, "ms": ms, "source": source} for name, ms, source in steps]
    return pd.DataFrame(rows, columns=["cell", "baseline", "kind", "part", "ms", "source"])


def waterfall_human(found: list[dict[str, Any]]) -> pd.DataFrame:
    """A row a cell, a column a part; what is unknown is a dash."""
    rows = []
    for cell in found:
        row = {"cell": cell["cell"], "scaling": cell["kind"], "ideal (ms)": number(cell["ideal_ms"])}
        row |= {part["name"]: number(part["ms"]) for part in cell["parts"]}
        row |= {"unexplained": number(cell["unexplained_ms"]), "measured (ms)": number(cell["measured_ms"])}
        row["compute / communication"] = number(cell["compute_to_communication"])
        rows.append(row)
    return pd.DataFrame(rows).fillna("")


def sentence(cell: dict[str, Any]) -> str:
    """Where most of what a cell lost went, as far as it is known."""
    loss = cell["measured_ms"] - cell["ideal_ms"]
    if loss <= 0:
        return f"{cell['cell']} loses nothing against its ideal step of {number(cell['ideal_ms'])} ms."
    known = [part for part in cell["parts"] if part["ms"] is not None and part["ms"] > 0]
    told = f"{cell['cell']}: a step takes {number(cell['measured_ms'])} ms, ideal are {number(cell['ideal_ms'])}"
    if known:
        most = max(known, key=lambda part: part["ms"])
        told += f"; the largest known loss is {most['name']} with {number(most['ms'])} ms"
    unknown = [part["name"] for part in cell["parts"] if part["ms"] is None]
    rest = f", with {', '.join(unknown)} in it, which nothing measured" if unknown else ""
    told += f"; {number(cell['unexplained_ms'])} ms are unexplained{rest}"
    ratio = cell["compute_to_communication"]
    if ratio is not None:
        told += f". Computing takes {number(ratio)} times as long as communicating; {HIDES:g} times is usually enough to hide the latter"
    return told + "."


def write_waterfall(found: list[dict[str, Any]], folder: Path) -> None:
    """Write waterfall.csv, .md and .tex from the entries of waterfall.json."""
    write_atomic(folder / "waterfall.csv", waterfall_rows(found).to_csv(index=False))
    human = waterfall_human(found)
    none = "No cell beside a baseline.\n"
    markdown = none if human.empty else human.to_markdown(index=False, disable_numparse=True) + "\n"
    write_atomic(folder / "waterfall.md", markdown)
    write_atomic(folder / "waterfall.tex", f"% {none}" if human.empty else latex(human, "Loss of scaling"))
