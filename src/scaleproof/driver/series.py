"""Comparisons of `scaleproof ab` that share one error budget: the file of their series."""

import json
from pathlib import Path
from typing import Any

from scaleproof.conclude.analysis.stopping import next_level
from scaleproof.ground.errors import UserError, describe_first_fault
from scaleproof.ground.files import write_json


def read_series(path: Path) -> dict[str, dict[str, Any]]:
    """Read the comparisons in the file of a series, by campaign, in the order in which they were begun.

    {"ab-1f2e": {"level": 0.025, "decided": True}} has the level of significance, and whether the comparison claimed a
    difference. Returns {} without a file. Raises UserError where the file holds anything else.
    """
    if not path.is_file():
        return {}
    try:
        entries = json.loads(path.read_bytes()).items()
        return {name: {"level": float(one["level"]), "decided": bool(one["decided"])} for name, one in entries}
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        cure = "remove it, and the series begins anew"
        raise UserError(f"{path} is no series of comparisons ({describe_first_fault(error)}); {cure}") from None


def level_in_series(path: Path, campaign: str) -> float:
    """Return the level of significance of the comparison `campaign` in the series `path`. A new one is added to it.

    The level is noted before the comparison begins, so that a comparison that is given up has spent it.
    """
    entries = read_series(path)
    if campaign not in entries:
        level = next_level([entry["decided"] for entry in entries.values()])
        entries[campaign] = {"level": level, "decided": False}
        write_json(path, entries)
    return float(entries[campaign]["level"])
