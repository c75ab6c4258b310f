"""A campaign held against its results: runs must be made with its settings, reports must answer it."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from scaleproof import __version__
from scaleproof.ground.campaign.cells import Cell, arms_of, expand_cells
from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.campaign.yaml_loader import load_campaign
from scaleproof.ground.configurations import dotted_items
from scaleproof.ground.errors import UserError, shortened
from scaleproof.ground.records.metrics import VERSION
from scaleproof.verify.contents import REPORT
from scaleproof.verify.manifest import CAMPAIGN, demands_in
from scaleproof.verify.raw import Difference, RawRun, check_values, read_runs

ASKS = "the manifest has"
SEARCHED = ("work.micro_batch", "work.accumulation")  # the file has a word for them where trials are to find them


def are_of_this_version(runs: Collection[RawRun]) -> bool:
    """Return whether this version of scaleproof has made all runs: others have other defaults, and other words."""
    return {run.metrics["env"].get(VERSION) for run in runs} == {__version__}


def campaign_beside(folder: Path) -> Campaign | None:
    """Return the campaign of a publication; None for other results, or a file that this version cannot read."""
    try:
        return load_campaign(folder / CAMPAIGN)[0] if (folder / CAMPAIGN).exists() else None
    except UserError:  # check_campaign_file says so
        return None


def target_loss_of(folder: Path) -> float | str | None:
    """Return the target loss that the campaign of results names, or "derive"; None where nobody knows."""
    asks = demands_in(folder) or campaign_beside(folder)
    return asks.target_loss if asks else None


def check_demands(folder: Path, report: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield where `report`, scaling_report.json, has another title, question, rule or margin than the campaign."""
    demands = demands_in(folder)
    if not demands:
        return
    yield from check_values(REPORT, "", report, {"title": demands.title}, ASKS)
    if not report["snakemake"]:
        yield Difference(REPORT, "snakemake", "is missing: the options by which the campaign goes on")

    for section, expected in demands.model_dump(include={"question", "repeats"}).items():
        stated = report.get(section)
        if stated and expected:
            common = {key: value for key, value in expected.items() if key in stated}  # the report may lack some
            yield from check_values(REPORT, section, stated, common, ASKS)
        elif stated:
            yield Difference(REPORT, section, "is one that nobody asked")
        elif expected:
            yield Difference(REPORT, section, "is missing, and was asked")

    for ranking in report["ranking"]:
        if advice := ranking["recommendation"]:
            where = f"ranking on {ranking['devices']} devices, margin"
            yield from check_values(REPORT, where, advice.get("margin"), demands.margin, ASKS)


def check_campaign_file(
    path: Path, folder: Path, runs: list[RawRun], at_fault: Collection[str] = ()
) -> Iterator[Difference]:
    """Yield the keys, cells and repeats of the campaign file `path` that are not those of its `runs`, in `folder`.

    Title, charts and other keys that change no run are not compared. Cells `at_fault` may be without runs.
    """
    file = path.name
    try:
        campaign, _ = load_campaign(path)
        cells = {cell.slug: cell for cell in expand_cells(campaign)}
        # Name of an A/B comparison -> its cells, by slug.
        compared = {c.name: {cell.slug: cell for cell in arms_of(campaign, c)} for c in campaign.compare}
    except UserError as error:  # a file for another version of scaleproof may not be valid in this one: not reported
        if are_of_this_version(runs):
            yield Difference(file, "", shortened(str(error).removeprefix(f"{path}:"), 300))
        return

    run_counts = Counter(run.cell for run in runs)
    for slug in sorted(run_counts.keys() - cells.keys()):
        yield Difference(file, "the campaign", f"has no cell {slug}, of which there are runs")
    for slug in sorted(cells.keys() - run_counts.keys() - set(at_fault)):
        yield Difference(file, "the campaign", f"has the cell {slug}, of which there is no run")
    repeats = campaign.most_repeats
    most_runs = max(run_counts.values(), default=0)
    has_fixed_repeats = campaign.repeat_until is None and not at_fault
    if has_fixed_repeats and most_runs not in (0, repeats):
        yield Difference(file, "repeats", f"is {repeats}; there are {most_runs} runs of a cell")

    planned = [(cells[run.cell], run) for run in runs if run.cell in cells]
    for name, arm_cells in compared.items():
        runs_of_pairs, _ = read_runs(folder, f"compare/{name}/pair*/[ab]")
        planned += [(arm_cells[run.cell], run) for run in runs_of_pairs if run.cell in arm_cells]
    yield from _check_keys(path, planned, are_of_this_version(runs))


def _check_keys(path: Path, planned: list[tuple[Cell, RawRun]], same_version: bool) -> Iterator[Difference]:
    """Yield each key, once, whose value in a run's record is not the one that the campaign file `path` plans.

    Another version may have had other defaults: for its runs only keys that stand in the file are compared.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    reported_keys: set[str] = set()
    for cell, run in planned:
        recorded_values = dict(dotted_items(run.metrics["config"]))
        for key, value in dotted_items(cell.config):
            recorded_value = recorded_values.get(key, value)  # a key that the record lacks is not compared
            is_searched = cell.searched and key in SEARCHED  # trials have found the largest micro-batch
            if recorded_value == value or is_searched or key in reported_keys:
                continue
            *_, last_name = key.split(".")
            if same_version or re.search(rf"\b{last_name}\b", text):
                reported_keys.add(key)
                problem = f"is {shortened(value)}; {run.name} was made with {shortened(recorded_value)}"
                yield Difference(path.name, key, problem)
