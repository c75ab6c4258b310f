"""`scalebench verify` and `scalebench why`: a whole campaign, and one figure of it."""

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from scalebench.errors import UserError, nearest
from scalebench.verify import reports, tables
from scalebench.verify.manifest import check_manifest
from scalebench.verify.raw import Difference, RawRun, read_runs
from scalebench.verify.recompute import Quantities, Quantity, cell_quantities, ratio_quantities, run_quantities

REPORT = "scaling_report.json"


def folder_of(path: Path) -> Path:
    """The campaign's folder of a report or of the folder itself. Raises UserError."""
    folder = path.parent if path.is_file() else path
    if not (folder / "runs").is_dir():
        raise UserError(f"{path} is no campaign's results: there is no {folder}/runs; give results/<campaign>")
    return folder


def quantities_of(folder: Path, runs: list[RawRun]) -> Quantities:
    """Every figure that can be recomputed."""
    quantities = cell_quantities(runs) | run_quantities(runs)
    try:
        report = json.loads((folder / REPORT).read_bytes())
        return quantities | ratio_quantities(quantities, runs, report)
    except (OSError, ValueError, KeyError, TypeError):
        return quantities  # the check of that file says what is wrong with it


def verify(path: Path, with_manifest: bool = True) -> tuple[list[Difference], int, int]:
    """What differs from the raw files; how many runs were read, how many figures recomputed. Raises UserError."""
    folder = folder_of(path)
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
            return list(csv.DictReader(file))

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
        "tables/scaling.md": lambda: tables.check_markdown(folder, "scaling", cells_of("cells.csv"), quantities),
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
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        return [Difference(file, "", f"not readable: {error!r}"[:160])]


def why(path: Path, identity: str) -> str:
    """Where one figure comes from: value, n, interval, formula, files with their hashes. Raises UserError."""
    folder = folder_of(path)
    runs, _ = read_runs(folder)
    quantities = quantities_of(folder, runs)
    if identity not in quantities:
        examples = ", ".join(list(quantities)[:3])
        raise UserError(f'there is no figure "{identity}".{nearest(identity, quantities)} Figures: {examples}, ...')
    return _explained(identity, quantities[identity], folder)


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
