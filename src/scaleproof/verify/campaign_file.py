"""A campaign file held against runs: the runs must have been made with its settings."""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

from scaleproof import __version__
from scaleproof.ground.campaign.cells import arms_of, expand_cells
from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.campaign.yaml_loader import load_campaign
from scaleproof.ground.comparison import dotted_items
from scaleproof.ground.errors import UserError, shortened
from scaleproof.ground.records.metrics import VERSION
from scaleproof.verify.manifest import CAMPAIGN
from scaleproof.verify.raw import Difference, RawRun, read_runs

SEARCHED = ("work.micro_batch", "work.accumulation")  # where trials have found them, the file has a word


def are_of_this_version(runs: Collection[RawRun]) -> bool:
    """Return whether this version of scaleproof has made all runs: others have other defaults, and other words."""
    return {run.metrics["env"].get(VERSION) for run in runs} == {__version__}


def campaign_beside(folder: Path) -> Campaign | None:
    """Return the campaign of a publication; None for other results, or a file of another version."""
    try:
        return load_campaign(folder / CAMPAIGN)[0] if (folder / CAMPAIGN).exists() else None
    except UserError:  # check_campaign_file says so
        return None


def check_campaign_file(
    path: Path, folder: Path, runs: list[RawRun], at_fault: Collection[str] = ()
) -> Iterator[Difference]:
    """Yield the keys, cells and repeats of the campaign file `path` that are not those of `runs`, in `folder`.

    Title, charts and whatever else changes no run are not compared. Of runs of another version of scaleproof, whose
    defaults may have been others, only keys that stand in the file are. Cells `at_fault` may be without runs.
    """
    file, text = path.name, path.read_text(encoding="utf-8", errors="replace")
    same_version = are_of_this_version(runs)
    try:
        campaign = load_campaign(path)[0]
        cells = {cell.slug: cell for cell in expand_cells(campaign)}
        compared = {c.name: {cell.slug: cell for cell in arms_of(campaign, c)} for c in campaign.compare}
    except UserError as error:
        if same_version:
            yield Difference(file, "", shortened(str(error).removeprefix(f"{path}:"), 300))
        return
    measured = Counter(run.cell for run in runs)
    for slug in sorted(measured.keys() - cells.keys()):
        yield Difference(file, "cells", f"has no cell {slug}, of which there are runs")
    for slug in sorted(cells.keys() - measured.keys() - set(at_fault)):
        yield Difference(file, "cells", f"has the cell {slug}, of which there is no run")
    repeats, most = campaign.most_repeats, max(measured.values(), default=0)
    if campaign.repeat_until is None and most not in (0, repeats) and not at_fault:
        yield Difference(file, "repeats", f"is {repeats}; there are {most} runs of a cell")
    planned = [(cells[run.cell], run) for run in runs if run.cell in cells]
    for name, arm_cells in compared.items():
        pairs, _ = read_runs(folder, f"compare/{name}/pair*/[ab]")
        planned += [(arm_cells[run.cell], run) for run in pairs if run.cell in arm_cells]
    reported: set[str] = set()
    for cell, run in planned:
        recorded_values = dict(dotted_items(run.metrics["config"]))
        for key, value in dotted_items(cell.config):
            recorded = recorded_values.get(key, value)
            if recorded == value or (cell.searched and key in SEARCHED):
                continue
            last_name = key.rpartition(".")[2]
            is_compared = same_version or re.search(rf"\b{last_name}\b", text)
            if is_compared and key not in reported:
                reported.add(key)
                yield Difference(file, key, f"is {shortened(value)}; {run.name} was made with {shortened(recorded)}")
