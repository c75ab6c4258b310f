"""Reading what the analysis wrote."""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from scalebench.errors import UserError


def read_inputs(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, Any]]:
    """runs.csv, cells.csv and scaling_report.json of a campaign's folder. Raises UserError where one is missing."""
    for name in ("runs.csv", "cells.csv", "scaling_report.json"):
        _there(folder / name)
    text = {"dtype": {"failures": str, "findings": str}, "keep_default_na": True}
    cells = pd.read_csv(folder / "cells.csv", **text)
    cells[["failures", "findings"]] = cells[["failures", "findings"]].fillna("")
    return pd.read_csv(folder / "runs.csv"), cells, json.loads((folder / "scaling_report.json").read_text())


def read_losses(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """losses.csv and cells.csv of a campaign's folder. Raises UserError where one is missing."""
    return pd.read_csv(_there(folder / "losses.csv")), pd.read_csv(_there(folder / "cells.csv"))


def read_comparisons(folder: Path) -> list[dict[str, Any]]:
    """The entries of comparison.json. Raises UserError where it is missing."""
    return json.loads(_there(folder / "comparison.json").read_text())["comparisons"]


def read_traces(folder: Path) -> tuple[dict[str, Any], dict[str, pd.DataFrame]]:
    """traces.json, and the timeline of each traced cell. Raises UserError where one is missing."""
    report = json.loads(_there(folder / "traces.json").read_text())
    spans = {t["cell"]: pd.read_csv(_there(folder / "traces" / t["cell"] / "timeline.csv")) for t in report["traces"]}
    return report, spans


def read_profiles(folder: Path, cells: list[str]) -> dict[str, list[dict[str, Any]]]:
    """The rows `per_step` of the profile_summary.json of each traced cell. Raises UserError where one is missing."""
    paths = {cell: folder / "traces" / cell / "profile_summary.json" for cell in cells}
    return {cell: json.loads(_there(path).read_text())["per_step"] for cell, path in paths.items()}


def read_waterfall(folder: Path) -> list[dict[str, Any]]:
    """The entries of waterfall.json. Raises UserError where it is missing."""
    return json.loads(_there(folder / "waterfall.json").read_text())["cells"]


def _there(path: Path) -> Path:
    if not path.is_file():
        raise UserError(f"{path}: no such file; make it with: snakemake --cores 2 {path}")
    return path
