"""The JSON files of a campaign, held against recomputed figures, their own schemas and each other.

And what they leave out, or state twice.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from scaleproof.ground.columns import COLUMNS, SERIES_FIGURES
from scaleproof.ground.findings.finding import Findings
from scaleproof.ground.records.claims import ClaimsReport
from scaleproof.ground.records.comparison_report import ComparisonReport
from scaleproof.ground.records.scaling_report import ScalingReport
from scaleproof.ground.records.traces_report import TracesReport
from scaleproof.ground.records.waterfall_report import WaterfallReport
from scaleproof.verify.contents import DAMAGES, REPORT, csv_of, json_of, points_of, schema_of
from scaleproof.verify.raw import Difference, check_values
from scaleproof.verify.recompute import Quantities

POINT = (*SERIES_FIGURES, "speedup_vs_best_single")  # the figures of a size in scaling_report.json
NAMES = ("id", "cell", "text", "rank")  # of an entry in a list: no other entry has the same
MODELS: dict[str, type[BaseModel]] = {
    REPORT: ScalingReport,
    "comparison.json": ComparisonReport,
    "waterfall.json": WaterfallReport,
    "traces.json": TracesReport,
    "claims.json": ClaimsReport,
    "findings.json": Findings,
}
SAME_FIELDS = {"comparison.json": "1.2"}  # an earlier schema with all fields of today's
TABLES = (
    *("runs.csv", "cells.csv", "losses.csv"),
    *("tables/scaling.csv", "tables/strong.csv", "tables/weak.csv", "tables/comparison.csv"),
)
KEYS_OF_ROWS = ("cell", "repeat", "step", "name")  # of a row in a CSV file


def check_scaling_report(
    report: dict[str, Any], quantities: Quantities, at_fault: Collection[str] = ()
) -> Iterator[Difference]:
    """Yield where values or intervals in scaling_report.json, its ranking included, are not the recomputed ones.

    Where cells are `at_fault`, figures that cannot be recomputed are not reported: they may need these cells' runs.
    """

    def check(where: str, stated: dict[str, Any] | None, cell: str, column: str) -> Iterator[Difference]:
        """Yield where `stated`, which the report has at `where`, is not the recomputed figure of a cell in `column`."""
        if quantity := quantities.get(f"cells/{cell}/{column}"):
            fields = {name: getattr(quantity, name) for name in ("value", "n", "low", "high")}
            known = {name: value for name, value in fields.items() if value is not None}  # there may be no bounds
            yield from check_values(REPORT, where, stated, known)
        elif stated and not at_fault:
            yield Difference(REPORT, where, "cannot be recomputed from the raw files")

    for _, point in points_of(report):
        for name in POINT:
            yield from check(f"{point['cell']}, {name}", point[name], point["cell"], COLUMNS[name].figure or name)
    for ranking in report["ranking"]:
        entries = ranking["cells"]
        # The fastest of those compared comes first; cells with too few repeats come last. Those of other code stand
        # before them, and in older reports among those compared.
        rates = [-entry["tokens_per_sec_global"]["value"] for entry in entries]
        reasons = [entry["incomparable"] for entry in entries]
        keys = [("repeats" in why, bool(why), rate) for why, rate in zip(reasons, rates, strict=True)]
        older_keys = [(is_short, rate) for is_short, _, rate in keys]
        if keys != sorted(keys) and (reasons[0] or older_keys != sorted(older_keys)):
            yield Difference(REPORT, f"ranking on {ranking['devices']} devices", "is not in the order of its rates")
        for entry in entries:
            cell = entry["cell"]
            where = f"ranking, {cell}"
            relative = entry["relative_to_fastest"]
            yield from check(where, entry["tokens_per_sec_global"], cell, "tokens_per_s")
            yield from check(f"{where}, relative_to_fastest", relative, cell, "relative_to_fastest")


def check_finding_codes(folder: Path) -> Iterator[Difference]:
    """Yield where a row of cells.csv has a code of no finding on its cell, or lacks that of a finding on its runs."""
    findings = json_of(folder / "findings.json")["findings"]
    for row in csv_of(folder / "cells.csv"):
        findings_on_cell = [finding for finding in findings if row["cell"] in finding["cells"]]
        allowed = {finding["code"] for finding in findings_on_cell}
        required = {finding["code"] for finding in findings_on_cell if is_of_runs(finding)}
        stated = set(row["findings"].split())
        unknown, left_out = sorted(stated - allowed), sorted(required - stated)
        if unknown:
            yield Difference("cells.csv", row["cell"], f"findings.json has no {', '.join(unknown)} for it")
        if left_out:
            yield Difference("cells.csv", row["cell"], f"lacks {', '.join(left_out)}, which findings.json has")


def codes_above_note(findings: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, None]]:
    """Return cell -> the codes of its findings above a note, each once.

    Findings on its runs come before findings on its scaling. The codes are the keys of a dict, as an ordered set.
    """
    codes: dict[str, dict[str, None]] = {}
    for finding in sorted(findings, key=lambda finding: finding.get("concerns", "runs") == "scaling"):  # False first
        if finding["severity"] != "note" and is_of_runs(finding):
            for cell in finding["cells"]:
                codes.setdefault(cell, {})[finding["code"]] = None
    return codes


def is_of_runs(finding: Mapping[str, Any]) -> bool:
    """Return whether a finding is on the campaign's own runs of cells, or their scaling, not on A/B pairs or traces."""
    return finding.get("concerns", "runs") in ("runs", "scaling")


def check_campaign_name(folder: Path) -> Iterator[Difference]:
    """Yield each file of another campaign than scaling_report.json, and the report's first path outside its results."""
    report = json_of(folder / REPORT)
    expected = report.get("campaign")
    if expected is None:  # the check of fields says so
        return
    if "results" in report:  # older reports do not say where they are
        folder_of_runs = f"{report['results']}/{expected}/runs/".lstrip("/")
        paths = [path for _, point in points_of(report) for path in point["metrics_paths"]]
        # An absolute path is that of results that were moved or measured elsewhere: not compared.
        paths_elsewhere = [path for path in paths if not path.startswith(("/", folder_of_runs))]
        if paths_elsewhere:
            yield Difference(REPORT, "results", f"is {report['results']}, and there is {paths_elsewhere[0]}")
    for path in sorted(folder.glob("[!.]*.json")):
        stated = json_of(path)
        if isinstance(stated, dict) and stated.get("campaign", expected) != expected:
            yield Difference(path.name, "campaign", f"is {stated['campaign']}, not {expected}")


def check_forecasts(folder: Path) -> Iterator[Difference]:
    """Yield each of forecasts/*.json whose content is not what was sealed before the runs that it predicts."""
    for path in sorted(folder.glob("forecasts/[!.]*.json")):
        file = path.relative_to(folder).as_posix()
        data = json_of(path)
        seal, stated_seal = forecast_seal(data), data.get("sha256", "missing")
        if seal != stated_seal:
            yield Difference(file, "sha256", f"is {str(stated_seal)[:12]}, its content gives {seal[:12]}")


def forecast_seal(data: Mapping[str, object]) -> str:
    """Return the seal of a file of forecasts: the sha256 over its content without the seal itself."""
    content = {key: value for key, value in data.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def check_left_out(folder: Path) -> Iterator[Difference]:
    """Yield each field that a file of results with today's schema lacks, and a schema later than today's."""
    for file, model in MODELS.items():
        content = json_of(folder / file) if (folder / file).exists() else {}
        try:
            yield from _faults_of_fields(file, model, content) if content else ()
        except DAMAGES as error:
            error.add_note(file)
            raise


def _faults_of_fields(file: str, model: type[BaseModel], content: dict[str, Any]) -> Iterator[Difference]:
    """Yield what a file's content lacks of its model, and a schema later than today's. Raises one of DAMAGES."""
    today = model.model_fields["schema_version"].default
    if not re.fullmatch(r"\d+\.\d+", str(content["schema_version"])):
        raise ValueError(f"schema_version cannot be {content['schema_version']!r}; {today} is the latest known")
    if schema_of(content) > schema_of({"schema_version": today}):
        yield Difference(file, "schema_version", f"is {content['schema_version']}, and {today} is the latest known")
    if content["schema_version"] in (today, SAME_FIELDS.get(file)):
        complete = model.model_validate(content).model_dump(mode="json")  # with defaults for absent fields
        for path in _paths_left_out(content, complete):
            yield Difference(file, path, "is not there")


def _paths_left_out(content: Any, complete: Any, parent: str = "") -> Iterator[str]:
    """Yield the key path of each field that JSON leaves out. `complete`: the same JSON with all of its fields."""
    if isinstance(complete, dict):
        for name, complete_part in complete.items():
            if name in content:
                yield from _paths_left_out(content[name], complete_part, f"{parent}{name}, ")
            else:
                yield f"{parent}{name}"
    elif isinstance(complete, list):
        for index, complete_part in enumerate(complete):
            yield from _paths_left_out(content[index], complete_part, f"{parent}{index}, ")


def check_repeated(folder: Path) -> Iterator[Difference]:
    """Yield entries that stand twice in a file of results: by NAMES in JSON, by KEYS_OF_ROWS in CSV files."""
    for file in (*MODELS, *TABLES):
        with suppress(FileNotFoundError, *DAMAGES):  # the check of this file says so
            for name in _names_repeated(folder / file):
                yield Difference(file, name, "stands there twice")


def _names_repeated(path: Path) -> list[str]:
    """Return the names that stand more than once in a file of results; rows are told apart as "ddp-n1x2 3"."""
    if path.suffix == ".json":
        return list(_names_stated_twice(json_of(path)))
    return _repeated(" ".join(row[key] for key in KEYS_OF_ROWS if key in row) for row in csv_of(path))


def _repeated(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once; the empty name does not count."""
    return [name for name, count in Counter(filter(None, names)).items() if count > 1]


def _names_stated_twice(content: object) -> Iterator[str]:
    """Yield the names that two entries of one list have, wherever the list stands in a JSON content."""
    if isinstance(content, dict):
        for part in content.values():
            yield from _names_stated_twice(part)
    elif isinstance(content, list):
        objects = [entry for entry in content if isinstance(entry, dict)]
        for key in NAMES:
            yield from _repeated(str(entry[key]) for entry in objects if key in entry)
        for entry in content:
            yield from _names_stated_twice(entry)
