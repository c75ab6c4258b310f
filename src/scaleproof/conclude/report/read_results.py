"""Reading what the analysis wrote. An error on a missing, damaged or cut file names the command that rebuilds it."""

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from scaleproof.ground.columns import CELLS_TABLE, COLUMNS, SCALING
from scaleproof.ground.errors import UserError, damaged, first_fault, missing
from scaleproof.ground.files import read_record

OURS = "where that changes nothing, it is a defect of scaleproof: report it, with the file"
# Columns of cells.csv that tables print; the others of a table come from the report.
PRINTED = tuple(name for name in CELLS_TABLE if COLUMNS[name].file != SCALING)


def read_inputs(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, Any]]:
    """runs.csv, cells.csv and scaling_report.json of a campaign's folder. Raises UserError.

    Both tables must have all that the report speaks of: a table that was cut short would silently say less.
    """
    report = read_json(folder / "scaling_report.json", "series", "ranking")
    runs = read_csv(folder / "runs.csv", "cell", "repeat", "status", "sha256")
    cells = read_csv(folder / "cells.csv", "cell", "n", "runs", "failures", "findings", *PRINTED)
    cells[["failures", "findings"]] = cells[["failures", "findings"]].astype(object).fillna("")
    try:
        points = [point for series in report["series"] for point in series["runs"].values()]
        reported = {(point["cell"], repeat) for point in points for repeat in point["repeats"]}
    except (LookupError, TypeError, AttributeError) as error:
        raise damaged(folder / "scaling_report.json", first_fault(error)) from None
    if not {cell for cell, _ in reported} <= set(cells["cell"]) or cells["n"].isna().any():
        raise damaged(folder / "cells.csv", "it ends too early")
    if not reported <= set(zip(runs["cell"].tolist(), runs["repeat"].tolist(), strict=True)):
        raise damaged(folder / "runs.csv", "it ends too early")
    for file, table in (("runs.csv", runs), ("cells.csv", cells)):
        if faults := [why for name in table if (why := COLUMNS[name].fault(table[name]) if name in COLUMNS else "")]:
            raise damaged(folder / file, faults[0])
    return runs, cells, report


def read_losses(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """losses.csv and cells.csv of a campaign's folder. Raises UserError."""
    losses, cells = read_csv(folder / "losses.csv", "cell", "step", "loss"), read_csv(folder / "cells.csv", "cell", "n")
    if not set(cells.loc[cells["n"] > 0, "cell"]) <= set(losses["cell"]):
        raise damaged(folder / "losses.csv", "it ends too early")
    return losses, cells


def read_comparisons(folder: Path) -> list[dict[str, Any]]:
    """The entries of comparison.json. Raises UserError."""
    return read_json(folder / "comparison.json", "comparisons")["comparisons"]


def read_traces(folder: Path) -> tuple[dict[str, Any], dict[str, pd.DataFrame]]:
    """traces.json, and the timeline of each traced cell. Raises UserError."""
    report = read_json(folder / "traces.json", "traces")
    spans = {t["cell"]: read_csv(folder / "traces" / t["cell"] / "timeline.csv", "step") for t in report["traces"]}
    return report, spans


def read_profiles(folder: Path, cells: list[str]) -> dict[str, list[dict[str, Any]]]:
    """The rows `per_step` of the profile_summary.json of each traced cell. Raises UserError."""
    paths = {cell: folder / "traces" / cell / "profile_summary.json" for cell in cells}
    return {cell: read_json(path, "per_step")["per_step"] for cell, path in paths.items()}


def read_waterfall(folder: Path) -> list[dict[str, Any]]:
    """The entries of waterfall.json. Raises UserError."""
    return read_json(folder / "waterfall.json", "cells")["cells"]


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """While what a file of results holds is written in another form: raises UserError where it holds something else.

    An error of ours looks the same here, so that the message leaves room for it.
    """
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise UserError(f"{damaged(path, first_fault(error))}; {OURS}") from error


def read_json(path: Path, *keys: str) -> dict[str, Any]:
    """An object with these keys. Raises UserError."""
    data = read_record(path, lambda content: json.loads(content, parse_constant=_no_number))
    if not isinstance(data, dict) or not set(keys) <= set(data):
        raise damaged(path, f"it has no {', '.join(keys)}")
    return data


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no number of JSON")


def read_csv(path: Path, *columns: str) -> pd.DataFrame:
    """A table with these columns. Raises UserError."""
    try:
        content = _existing(path).read_bytes()
        data = pd.read_csv(io.BytesIO(content), dtype={"failures": str, "findings": str})
    except ValueError as error:  # of pandas and of the encoding
        raise damaged(path, " ".join(str(error).split())[:100]) from None
    if not content.endswith(b"\n"):
        raise damaged(path, "it ends too early")
    names = [str(name) for name in data.columns]
    if any(name.startswith("Unnamed: ") for name in names):
        raise damaged(path, "a column has no name")
    if (data.iloc[:, 0].astype(str) == names[0]).any():
        raise damaged(path, "the names of its columns stand in it twice")
    if absent := [name for name in columns if name not in data.columns]:
        raise damaged(path, f"it has no column {', '.join(absent[:5])}")
    return data


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise missing(path)
    return path


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as dictionaries, with None where a cell is empty."""
    return frame.astype(object).where(frame.notna(), None).to_dict("records")
