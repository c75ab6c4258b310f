"""Reading what the analysis wrote."""

import json
from pathlib import Path
from typing import Any

import pandas as pd


def read_inputs(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, Any]]:
    """runs.csv, cells.csv and scaling_report.json of a campaign's folder."""
    text = {"dtype": {"failures": str, "findings": str}, "keep_default_na": True}
    cells = pd.read_csv(folder / "cells.csv", **text)
    cells[["failures", "findings"]] = cells[["failures", "findings"]].fillna("")
    return pd.read_csv(folder / "runs.csv"), cells, json.loads((folder / "scaling_report.json").read_text())
