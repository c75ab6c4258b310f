"""`scalebench verify` and `scalebench why`: a whole campaign, and one figure of it."""

import csv
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from scalebench.errors import UserError, damaged, first_fault, missing, nearest, nearest_path, path_fault
from scalebench.verify import reports, tables
from scalebench.verify.manifest import check_manifest
from scalebench.verify.raw import DAMAGES, Difference, RawRun, read_runs
from scalebench.verify.recompute import Quantities, Quantity, cell_quantities, ratio_quantities, run_quantities

REPORT = "scaling_report.json"


def folder_of(path: Path) -> Path:
    """The campaign's folder of a report or of the folder itself. Raises UserError."""
    folder = path.parent if path.is_file() else path
    if not (folder / "runs").is_dir():
        what = _not_results(path, folder)
        raise UserError(f"{path} is no campaign's results: {what}; give results/<campaign>.{_campaign_hint(path)}")
    return folder


def _not_results(path: Path, folder: Path) -> str:
    """Why neither a path nor the folder around it are results."""
    if fault := path_fault(path):
        return fault.removesuffix(nearest_path(path)).strip(" :.")
    if path.is_file() and not path.stat().st_size:
        return "it is an empty file"
    return f"there is no folder {folder / 'runs'}"


def _campaign_hint(path: Path) -> str:
    """The folder of results that is meant: around the path, or of a campaign file; else those that are there."""
    around = [parent for parent in path.parents if (parent / "runs").is_dir()]
    around += [Path("results", path.stem)] if Path("results", path.stem, "runs").is_dir() else []
    if around:
        return f' Did you mean "{around[0]}"?'
    if not os.path.lexists(path):
        return nearest_path(path)
    within = path if path.is_dir() and any(path.glob("*/runs")) else Path("results")
    there = sorted(str(runs.parent) for runs in within.glob("*/runs"))
    return f" Results there: {', '.join(there[:10])}" if there else ""


def quantities_of(folder: Path, runs: list[RawRun]) -> Quantities:
    """Every figure that can be recomputed."""
    quantities = cell_quantities(runs) | run_quantities(runs)
    try:
        return quantities | _ratios(folder, runs, quantities)
    except (OSError, *DAMAGES):
        return quantities  # the check of that file says what is wrong with it


def _ratios(folder: Path, runs: list[RawRun], quantities: Quantities) -> Quantities:
    report = json.loads((folder / REPORT).read_bytes())
    return ratio_quantities(quantities, runs, report)


def _check_no_pipe(folder: Path) -> None:
    """Raises UserError for a pipe or socket in the folder: reading it would wait for ever."""
    for place in folder.rglob("*"):
        if place.is_fifo() or place.is_socket():
            raise UserError(f"{place}{path_fault(place)}")


def verify(path: Path, with_manifest: bool = True) -> tuple[list[Difference], int, int]:
    """What differs from the raw files; how many runs were read, how many figures recomputed. Raises UserError."""
    folder = folder_of(path)
    _check_no_pipe(folder)
    runs, differences = read_runs(folder)
    if not runs and not differences:
        raise UserError(f"{folder}/runs has no run")
    quantities = quantities_of(folder, runs)
    if with_manifest:
        differences += check_manifest(folder)
    for file, check in _checks(folder, runs, quantities).items():
        differences += _guarded(file, check)
    return list(dict.fromkeys(differences)), len(runs), len(quantities)


def _checks(folder: Path, runs: list[RawRun], quantities: Quantities) -> dict[str, Callable[[], Iterator[Difference]]]:
    """File -> its check. Files that a campaign need not have are checked where they are."""

    def data(name: str) -> Any:
        return json.loads((folder / name).read_bytes())

    def rows(name: str) -> list[dict[str, str]]:
        with (folder / name).open(newline="", encoding="utf-8") as file:
            lines = csv.DictReader(file)
            made = []
            for row in lines:
                if None in row or None in row.values():
                    raise ValueError(f"{name}, line {lines.line_num}: not as many values as names; cut off?")
                made.append(row)
            return made

    def cells_of(name: str) -> list[str]:
        return [row["cell"] for row in rows(name)]

    checks: dict[str, Callable[[], Iterator[Difference]]] = {
        "runs.csv": lambda: tables.check_runs_table(folder, runs, quantities),
        "cells.csv": lambda: tables.check_cells_table(folder, "cells.csv", runs, quantities),
        REPORT: lambda: reports.check_scaling_report(data(REPORT), quantities),
        "findings.json": lambda: reports.check_finding_codes(folder, rows("cells.csv"), data(REPORT)),
        "report.html": lambda: reports.check_page(folder, quantities, runs),
        "charts": lambda: reports.check_charts(folder, quantities),
        "forecasts": lambda: reports.check_forecasts(folder),
        "tables/scaling.csv": lambda: tables.check_cells_table(folder, "tables/scaling.csv", runs, quantities),
        "tables/scaling.md": lambda: tables.check_markdown(
            folder, "scaling", cells_of("tables/scaling.csv"), quantities
        ),
        "tables/scaling.tex": lambda: tables.check_latex(folder, "scaling"),
    }
    for kind in ("strong", "weak"):
        if (folder / f"tables/{kind}.csv").exists() and (folder / f"tables/{kind}.md").exists():
            checks |= _series(folder, kind, runs, quantities, cells_of)
    if (folder / "comparison.json").exists():
        checks["comparison.json"] = lambda: reports.check_comparison(folder)
    if (folder / "waterfall.json").exists():
        checks["waterfall.json"] = lambda: reports.check_waterfall(folder, quantities)
    return checks


def _series(
    folder: Path, kind: str, runs: list[RawRun], quantities: Quantities, cells_of: Callable[[str], list[str]]
) -> dict[str, Callable[[], Iterator[Difference]]]:
    file = f"tables/{kind}.csv"
    return {
        file: lambda: tables.check_cells_table(folder, file, runs, quantities),
        f"tables/{kind}.md": lambda: tables.check_markdown(folder, kind, cells_of(file), quantities),
        f"tables/{kind}.tex": lambda: tables.check_latex(folder, kind),
    }


def _guarded(file: str, check: Callable[[], Iterator[Difference]]) -> list[Difference]:
    """One damaged file does not hide what is wrong with the others."""
    try:
        return list(check())
    except FileNotFoundError as error:
        return [Difference(file, "", f"{Path(error.filename).name} is missing")]
    except DAMAGES as error:
        return [Difference(file, "", f"not readable: {first_fault(error)}")]


def why(path: Path, identity: str) -> str:
    """Where one figure comes from: value, n, interval, formula, files with their hashes. Raises UserError."""
    folder = folder_of(path)
    _check_no_pipe(folder)
    runs, _ = read_runs(folder)
    quantities = quantities_of(folder, runs)
    if identity not in quantities:
        same = [name for name in quantities if identity in name.split("/")]
        if not same:
            _check_report(folder, runs, quantities)
        examples = ", ".join(same[:8] or list(quantities)[:3])
        if same:
            raise UserError(f'there is no figure "{identity}"; it is a part of several names. Figures: {examples}')
        raise UserError(f'there is no figure "{identity}".{nearest(identity, quantities)} Figures: {examples}, ...')
    return _explained(identity, quantities[identity], folder)


def _check_report(folder: Path, runs: list[RawRun], quantities: Quantities) -> None:
    """Raises UserError where the report that names ratios is missing or damaged: a figure may be unknown for that."""
    try:
        _ratios(folder, runs, quantities)
    except FileNotFoundError:
        raise missing(folder / REPORT) from None
    except (OSError, *DAMAGES) as error:
        raise damaged(folder / REPORT, first_fault(error)) from None


def _explained(identity: str, quantity: Quantity, folder: Path) -> str:
    interval = "" if quantity.low is None else f", 95 % CI {quantity.low:.7g} to {quantity.high:.7g}"
    lines = [
        f"{identity}",
        f"  value    {quantity.value:.7g}{interval}, n={quantity.n}",
        f"  formula  {quantity.formula}",
        *(f"  from     {folder}/{path}  sha256 {sha256}" for path, sha256 in quantity.sources),
        f"  check    scalebench verify {folder}",
    ]
    return "\n".join(lines)
