"""Reading what the analysis wrote. An error on a missing, damaged or cut file names the command that rebuilds it."""

import io
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from scaleproof.ground.columns import CELLS_TABLE, COLUMNS, SCALING
from scaleproof.ground.errors import damaged_file, missing_file
from scaleproof.ground.file_kinds import no_utf_8_fault
from scaleproof.ground.files import read_record
from scaleproof.ground.json_faults import fault_of_heading
from scaleproof.ground.records.profile_schema import PROFILE, Profile, TracedStep
from scaleproof.ground.records.scaling_report import ScalingReport, read_scaling_report
from scaleproof.ground.records.traces_report import TracesReport, read_traces_report

# Columns of cells.csv that tables print; other columns of a table come from the report.
PRINTED = tuple(name for name in CELLS_TABLE if COLUMNS[name].file != SCALING)


def read_inputs(
    folder: Path, planned: Collection[str] | None = None
) -> tuple[pd.DataFrame, pd.DataFrame, ScalingReport]:
    """Read runs.csv, cells.csv and scaling_report.json. Raises UserError, also where a table was cut short.

    `planned`: the cells of the campaign, if it is known: tables of others were made before it was edited.
    """
    report = read_scaling_report(folder / "scaling_report.json")
    runs = read_csv(folder / "runs.csv", "cell", "repeat", "status", "sha256")
    has_evidence = report.schema_version != "5.0"  # 5.0 has no column for it
    printed = [name for name in PRINTED if has_evidence or name != "evidence"]
    cells = read_csv(folder / "cells.csv", "cell", "n", "runs", "failures", "findings", *printed)
    if not has_evidence:  # then only the built-in trainer made runs
        cells["evidence"] = "built"
    cells[["failures", "findings"]] = cells[["failures", "findings"]].astype(object).fillna("")
    _check_tables(folder, runs, cells, report)
    if planned is not None:
        _check_cells(folder, {"runs.csv": runs, "cells.csv": cells}, planned)
    return runs, cells, report


def _check_cells(folder: Path, tables: Mapping[str, pd.DataFrame], planned: Collection[str]) -> None:
    """Raise UserError where a table, by its file, has other cells than those that are planned."""
    for file, table in tables.items():
        if others := set(table["cell"]).difference(planned):
            raise damaged_file(folder / file, f"it has {min(others)}, which the campaign lacks")
        if others := set(planned).difference(table["cell"]):
            raise damaged_file(folder / file, f"it lacks {min(others)}, which the campaign has")


def _check_tables(folder: Path, runs: pd.DataFrame, cells: pd.DataFrame, report: ScalingReport) -> None:
    """Raise UserError where a table lacks a run or a cell of the report, or a column has values that it cannot have."""
    reported = {(point.cell, repeat) for point in report.points for repeat in point.repeats}
    tables = {"cells.csv": {cell for cell, _ in reported} - {*cells["cell"][cells["n"].notna()]}}
    rows = zip(runs["cell"].tolist(), runs["repeat"].tolist(), strict=True)
    tables["runs.csv"] = {f"{cell}/rep{repeat}" for cell, repeat in reported - {*rows}}
    for file, absent in tables.items():
        if absent:
            raise damaged_file(folder / file, f"it has no {min(absent)}")
    for file, table in (("runs.csv", runs), ("cells.csv", cells)):
        for name in table:
            fault = COLUMNS[name].fault_of(table[name]) if name in COLUMNS else ""
            if fault:
                raise damaged_file(folder / file, fault)


def read_losses(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read losses.csv and cells.csv of a campaign's folder. Raises UserError, also where a cell has no losses."""
    losses = read_csv(folder / "losses.csv", "cell", "step", "loss")
    cells = read_csv(folder / "cells.csv", "cell", "n")
    if absent := {*cells.loc[cells["n"] > 0, "cell"]} - {*losses["cell"]}:
        raise damaged_file(folder / "losses.csv", f"it has no {min(absent)}")
    return losses, cells


def read_traces(folder: Path) -> tuple[TracesReport, dict[str, pd.DataFrame]]:
    """Read traces.json, and the timeline of each traced cell, from a campaign's folder. Raises UserError."""
    report = read_traces_report(folder / "traces.json")
    cells = [trace.cell for trace in report.traces]
    spans = {cell: read_csv(folder / "traces" / cell / "timeline.csv", "step") for cell in cells}
    return report, spans


def read_profiles(folder: Path, cells: list[str]) -> dict[str, list[TracedStep]]:
    """Read the steps of the profile of each of the traced `cells` from a campaign's folder. Raises UserError."""
    paths = {cell: folder / "traces" / cell / PROFILE for cell in cells}
    return {cell: read_record(path, Profile.model_validate_json).per_step for cell, path in paths.items()}


def read_csv(path: Path, *columns: str) -> pd.DataFrame:
    """Read a table that has these `columns`, among others. Raises UserError where it is missing, damaged or cut off."""
    if not path.is_file():
        raise missing_file(path)
    try:
        content = path.read_bytes()
        if not content.strip():
            raise damaged_file(path, "it is empty")
        # A setting of a command may be called "None", "nan" or 8: words, too. What is unknown is empty.
        words = dict.fromkeys(("cell", "strategy", "failures", "findings"), str)
        data = pd.read_csv(io.BytesIO(content), dtype=words, keep_default_na=False, na_values=[""])
    except UnicodeError:
        raise damaged_file(path, no_utf_8_fault(content)) from None
    except ValueError as error:  # pandas could not parse it
        problem = " ".join(str(error).split()).removeprefix("Error tokenizing data. C error: ")
        raise damaged_file(path, f"no table: {problem[:100]}") from None
    if not content.endswith(b"\n"):
        raise damaged_file(path, "it ends too early")
    names = [str(name) for name in data.columns]
    if any(name.startswith("Unnamed: ") for name in names):
        raise damaged_file(path, "a column has no name")
    if (data.iloc[:, 0].astype(str) == names[0]).any():  # a row that repeats the header
        raise damaged_file(path, "the names of its columns stand in it twice")
    absent = [name for name in columns if name not in data.columns]
    if absent and len(names) == 1:
        raise damaged_file(path, fault_of_heading(names[0]))
    if absent:
        raise damaged_file(path, f"it has no column {', '.join(absent[:5])}")
    return data


def row_dicts(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows as dictionaries, with None where a cell is empty."""
    return frame.astype(object).where(frame.notna(), None).to_dict("records")
