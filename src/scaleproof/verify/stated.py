"""Tables held against records and reports: settings, numbers of runs, environments, comparisons, parts of a step.

A report is a JSON file of results, which is checked by itself; its tables, as CSV, Markdown and LaTeX, must repeat it.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scaleproof.ground.columns import COLUMNS, SERIES_FIGURES
from scaleproof.ground.comparison import dotted_items
from scaleproof.ground.records.metrics import current_names
from scaleproof.verify.contents import csv_of, json_of, text_of
from scaleproof.verify.printed import numbers, stands_for
from scaleproof.verify.raw import Difference, RawRun
from scaleproof.verify.recompute import by_cell
from scaleproof.verify.tables import is_figure, markdown_table

ENVIRONMENT = "environment.json"
RATIOS = (*SERIES_FIGURES, "speedup_vs_best_single")  # figures of a size in scaling_report.json, as in its tables
# Column of runs.csv that no other table has -> where the metrics have it.
OF_RUN = {
    "skipped_steps": ("window", "skipped_optimizer_steps"),
    "first_step_s": ("startup", "first_step_sec"),
    "max_cuda_mem_reserved_bytes": ("memory", "max_cuda_mem_reserved_bytes_global"),
}
PARTS = ("low", "high", "n")
LAWS = ("strong", "weak")  # kinds of scaling, each with a table
JOINED = ("incomparable", "best_single_incomparable", "findings")  # lists of words, in one column
# Heading of tables/comparison.md -> fields of an estimate in comparison.json, and the printed figure over the stored.
OF_PAIRS: dict[str, tuple[tuple[str, ...], float]] = {
    "B / A": (("ratio", "low", "high"), 1.0),
    "pairs": (("n",), 1.0),
    "A / A, noise": (("floor",), 100.0),
    "detectable": (("detectable_low", "detectable_high"), 100.0),
}


def settings_of(run: RawRun) -> dict[str, object]:
    """Return column -> value of the configuration of a run, with its numbers of nodes and devices."""
    by_key = dict(dotted_items(run.metrics["config"]))
    settings = {column.name: by_key[column.setting] for column in COLUMNS.values() if column.setting in by_key}
    if settings.get("vocab_size") == "derive":  # as many as the corpus has
        del settings["vocab_size"]
    evidence = run.metrics.get("evidence", "built")
    return settings | {"nodes": run.nodes, "devices": run.devices, "evidence": evidence}


def check_settings(file: str, rows: Sequence[Mapping[str, str]], runs: Sequence[RawRun]) -> Iterator[Difference]:
    """Yield where a table of runs or cells states another setting, time, commit or number of runs than their records.

    `rows`: with the columns `cell` and, of runs, `repeat`.
    """
    cells = by_cell(list(runs))
    for row in rows:
        group = [run for run in cells.get(row["cell"], []) if row.get("repeat") in (None, str(run.metrics["repeat"]))]
        if not group:
            continue
        first = group[0]
        expected = settings_of(first)
        if "repeat" in row:
            names = ("timestamp_utc", "git_commit", "fingerprint")
            expected |= {name: first.metrics[name] for name in names}
            expected["metrics"] = f"{row['metrics'].split('runs/')[0]}{first.path}"  # in the folder that it states
            for name, (section, key) in OF_RUN.items():
                expected[name] = (first.metrics.get(section) or {}).get(key)
        else:
            expected["runs"] = len(group)
        yield from _differing_texts(file, row["cell"], row, expected, "its runs have")


def check_table_of_points(folder: Path, file: str, report: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield the entries of a table of cells that scaling_report.json has otherwise under the same name.

    Figures that have bounds stand there as name, name_low, name_high and name_n.
    """
    entries = {entry["cell"]: entry for ranking in report["ranking"] for entry in ranking["cells"]}
    fastest = {ranking["cells"][0]["cell"] for ranking in report["ranking"] if len(ranking["cells"]) > 1}
    separator = ", " if file == "tables/scaling.csv" else " "
    stated: dict[str, dict[str, Any]] = {}  # cell -> column -> value
    for series in report["series"]:
        kind = series["kind"]
        for point in series["runs"].values():
            cell = point["cell"]
            values = point | {"series": series["name"], "kind": kind, "baseline": kind and series["baseline"]}
            entry = entries[cell]
            values |= {"letters": entry["letters"], "is_fastest": cell in fastest}
            values["fastest_over_n"] = (entry["relative_to_fastest"] or {}).get("n")
            lists = {name: separator.join(values[name]) for name in JOINED}
            figures = {name: values[name] or {} for name in RATIOS}
            parts = {f"{name}_{part}": figure.get(part) for name, figure in figures.items() for part in PARTS}
            stated[cell] = values | lists | parts | {name: figure.get("value") for name, figure in figures.items()}
            if file == "tables/scaling.csv":  # which has the codes of notes as well
                del stated[cell]["findings"]
    rows = csv_of(folder / file)
    kind = Path(file).stem
    cells = [point["cell"] for one in report["series"] if one["kind"] == kind for point in one["runs"].values()]
    if kind in LAWS and sorted(row["cell"] for row in rows) != sorted(cells):
        yield Difference(file, "", "its cells are not those of scaling_report.json")
    for row in rows:
        yield from _differing_texts(file, row["cell"], row, stated.get(row["cell"], {}), "scaling_report.json has")


def check_comparison_table(folder: Path) -> Iterator[Difference]:
    """Yield the entries of tables/comparison.csv and .md that do not repeat comparison.json."""
    entries = {entry["name"]: entry for entry in json_of(folder / "comparison.json")["comparisons"]}
    csv_file, markdown_file = "tables/comparison.csv", "tables/comparison.md"
    rows = csv_of(folder / csv_file)
    if [row["name"] for row in rows] != list(entries):
        yield Difference(csv_file, "", "its comparisons are not those of comparison.json")
        return
    for row in rows:
        entry = entries[row["name"]]
        values = {**entry, **(entry["estimate"] or {})}
        figures = {name: value for name, value in values.items() if not isinstance(value, list | dict)}
        yield from _differing_texts(csv_file, row["name"], row, figures, "comparison.json has")
    for printed in markdown_rows(folder / markdown_file):
        entry = entries.get(printed["comparison"])
        if entry is None or (printed["A"], printed["B"]) != (entry["a"], entry["b"]):
            yield Difference(markdown_file, printed["comparison"], f"is of {printed['A']} and {printed['B']}")
        elif entry["estimate"]:
            yield from _check_printed_pairs(markdown_file, printed, entry["estimate"])


def _check_printed_pairs(file: str, row: Mapping[str, str], estimate: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield where a row of the table of comparisons prints other figures, or another claim, than their estimate."""
    if row["claim"] != (estimate["claim"] or "none"):
        yield Difference(file, f"{row['comparison']}, claim", f"is {row['claim']}, not {estimate['claim']}")
    for heading, text in row.items():
        fields, factor = OF_PAIRS.get(re.sub(r",? *(?:\(%\)|\w+/s \[95 %\])$", "", heading), ((), 1.0))
        for name, printed in zip(fields, numbers(text), strict=False):
            if not stands_for(printed, factor * estimate[name]):
                problem = f"is {printed}, comparison.json has {factor * estimate[name]:.6g}"
                yield Difference(file, f"{row['comparison']}, {heading}", problem)


def check_waterfall_table(folder: Path) -> Iterator[Difference]:
    """Yield the entries of tables/waterfall.csv and .md that do not repeat waterfall.json."""
    entries = json_of(folder / "waterfall.json")["cells"]
    parts = {(entry["cell"], name): values for entry in entries for name, values in _waterfall_parts(entry).items()}
    file = "tables/waterfall.csv"
    for row in csv_of(folder / file):
        values = parts.get((row["cell"], row["part"]), dict.fromkeys(("kind", "baseline", "ms", "source")))
        yield from _differing_texts(file, f"{row['cell']}, {row['part']}", row, values, "waterfall.json has")
    kinds = {entry["cell"]: entry["kind"] for entry in entries}
    yield from _check_waterfall_markdown(folder, kinds, {key: values["ms"] for key, values in parts.items()})


def _waterfall_parts(entry: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return part of a step -> its columns in waterfall.csv. `entry`: of a cell in waterfall.json."""
    parts = [(part["name"], part["ms"], part["source"]) for part in entry["parts"]]
    parts += [("ideal", entry["ideal_ms"], entry["baseline"]), ("measured", entry["measured_ms"], "timed runs")]
    parts += [("unexplained", entry["unexplained_ms"], "the rest")]
    parts += [("compute / transfer", entry["compute_to_communication"], "")]
    of_cell = {"kind": entry["kind"], "baseline": entry["baseline"]}
    return {name: {**of_cell, "ms": ms, "source": source} for name, ms, source in parts}


def _check_waterfall_markdown(
    folder: Path, kinds: Mapping[str, str], milliseconds: Mapping[tuple[str, str], float | None]
) -> Iterator[Difference]:
    """Yield the entries of tables/waterfall.md that print other milliseconds. Keys of these: cell and part."""
    file = "tables/waterfall.md"
    for printed in markdown_rows(folder / file):
        cell = printed.pop("cell")
        if printed.pop("scaling") != kinds.get(cell):
            yield Difference(file, cell, "is not in waterfall.json with that kind of scaling")
            continue
        for heading, text in printed.items():
            ms = milliseconds.get((cell, heading.removesuffix(" (ms)")))
            if not _prints(text, ms):
                yield Difference(file, f"{cell}, {heading}", f"is {text}, waterfall.json has {ms}")


def _prints(text: str, ms: float | None) -> bool:
    """Return whether an entry prints this figure first; none where it is unknown."""
    figures = numbers(text)
    return not figures if ms is None else bool(figures) and stands_for(figures[0], ms)


def check_environment(folder: Path, runs: Sequence[RawRun]) -> Iterator[Difference]:
    """Yield the fields of environment.json, of a publication, that are not those of the records of its runs."""
    stated = json_of(folder / ENVIRONMENT)
    of_packages = {name.removeprefix("env."): value for name, value in stated.items() if name.startswith("env.")}
    others = {name: value for name, value in stated.items() if not name.startswith("env.")}
    current = others | {f"env.{name}": value for name, value in current_names(of_packages).items()}
    expected = environment_of([run for run in runs if run.ok])
    for name in sorted(current.keys() | expected.keys()):
        if current.get(name) != expected.get(name):
            problem = f"is {str(current.get(name))[:80]}, the runs have {str(expected.get(name))[:80]}"
            yield Difference(ENVIRONMENT, name, problem)


def environment_of(runs: Sequence[RawRun]) -> dict[str, Any]:
    """Return the environment of all runs: of each key the value that all have, or a list of the different ones."""
    environment: dict[str, Any] = {}
    for section in ("env", "host", "hardware"):
        for key in runs[0].metrics[section]:
            values = [run.metrics[section].get(key) for run in runs]
            unique = list({json.dumps(value, sort_keys=True): value for value in values}.values())
            environment[f"{section}.{key}"] = unique[0] if len(unique) == 1 else unique
    commits = sorted({run.metrics["git_commit"] for run in runs})
    return environment | {"git_commit": commits[0] if len(commits) == 1 else commits}


def markdown_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of the first table of a Markdown file, as heading -> text; none where it has no table."""
    header, rows = markdown_table(text_of(path))
    return [dict(zip(header, row, strict=True)) for row in rows]


def _is_text_of(text: str, value: object) -> bool:
    """Return whether the text of a CSV field is `value`; an empty field is None, or an empty text."""
    if value is None or value == "":
        return not text
    if isinstance(value, int | float) and not isinstance(value, bool):
        return is_figure(text, value)
    return text == str(value)


def _differing_texts(
    file: str, where: str, row: Mapping[str, str], expected: Mapping[str, object], source: str
) -> Iterator[Difference]:
    """Yield the columns of a row of a CSV file whose text is not the expected value. `source`: of it, with a verb."""
    for name, value in expected.items():
        if name in row and not _is_text_of(row[name], value):
            yield Difference(file, f"{where}, {name}", f"is {row[name] or 'empty'}, {source} {value}")
