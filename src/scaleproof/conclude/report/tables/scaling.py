"""Strong and weak scaling as tables of their own, one row per size of a series."""

from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd

from scaleproof.conclude.report.sentences.scaling import law_sentences
from scaleproof.conclude.report.tables.table import UNDECIDED, Table, mark_undecided
from scaleproof.ground.columns import COLUMNS, SERIES_FIGURES, SERIES_TABLE, bounds_columns
from scaleproof.ground.records.scaling_report import ScalingPoint, ScalingReport, ScalingSeries

KINDS = ("strong", "weak")
# Heading -> column of the table for people.
HEADINGS = {COLUMNS[name].series_heading: name for name in SERIES_TABLE}
NOTES = (
    "Rating: an efficiency below 0.7 is low, from 0.85 excellent, where the whole interval says so. Wall time of the "
    "job: from the launcher's start to the last result, including start-up and warm-up. Karp-Flatt: the serial "
    "fraction that one speed-up stands for."
)


def series_rows(report: ScalingReport, kind: str) -> pd.DataFrame:
    """Return a table of scaling of a `kind`, strong or weak: one row per size of a series.

    Numbers are plain; value, low and high have columns of their own.
    """
    rows = []
    for series in _series_of_kind(report, kind):
        for point in series.points:
            figures: dict[str, float | None] = {}
            for name in SERIES_FIGURES:
                figures |= bounds_columns(name, point.figure(name))
            row: dict[str, Any] = {
                "series": series.name,
                "cell": point.cell,
                "devices": point.devices,
                "n": point.n,
                **figures,
                "window_wall_time_sec": point.window_wall_time_sec,
                "verdict": point.verdict,
                "incomparable": " ".join(point.incomparable),
                "findings": " ".join(point.findings),
            }
            rows.append(row)
    return pd.DataFrame(rows)


def series_texts(report: ScalingReport, kind: str) -> pd.DataFrame:
    """Return the table of a `kind` as people read it, without empty columns; findings have a column even then."""
    rows = [_size_row(series, point) for series in _series_of_kind(report, kind) for point in series.points]
    table = pd.DataFrame(rows)
    empty_columns = [name for name in table.columns if set(table[name]) <= {"", "–"} and name != "findings"]
    return table.drop(columns=empty_columns)


def _size_row(series: ScalingSeries, point: ScalingPoint) -> dict[str, str]:
    """Return the row of one size of a series: heading -> text."""
    differing_fields = ", ".join(point.incomparable)
    # Key of a column -> text.
    row = {"series": series.name, "devices": str(point.devices), "n": str(point.n)}
    row |= {"verdict": point.verdict or "–", "findings": " ".join(point.findings)}
    for name in SERIES_FIGURES:
        row[name] = COLUMNS[name].estimate(point.figure(name))
        if differing_fields and name != "tokens_per_sec_global":  # a rate needs no baseline, ratios do
            row[name] = "–" if name == "karp_flatt" else f"incomparable: {differing_fields}"
        elif name == "speedup" and point.cell == series.baseline:
            row[name] = "1 (baseline)"
    return {label: row[name] for label, name in HEADINGS.items()}


def write_series(report: ScalingReport, kind: str, folder: Path) -> None:
    """Write scaling of a `kind` as strong or weak .csv, .md and .tex into `folder`; a table without rows says so."""
    rows, texts = series_rows(report, kind), series_texts(report, kind)
    points = list(chain.from_iterable(series.points for series in _series_of_kind(report, kind)))
    speedups = [name for name in SERIES_FIGURES if name.startswith("speedup")]
    ratios = {COLUMNS[name].series_heading: [point.figure(name) for point in points] for name in speedups}
    # Columns for which the page of a paper has no room.
    too_wide = {COLUMNS[name].series_heading for name in ("speedup_by_job_wall_time", "karp_flatt")}
    laws = law_sentences(report, kind)
    Table(
        name=kind,
        plain=pd.DataFrame(columns=["series", "cell", "devices", "n"]) if rows.empty else rows,
        human=mark_undecided(texts, ratios),
        caption=f"{report.title} ({kind} scaling)",
        label=f"{report.campaign}-{kind}",
        numeric=[label for label, name in HEADINGS.items() if not COLUMNS[name].is_text],
        narrow=[label for label in texts.columns if label not in too_wide],
        below=laws,
        notes=" ".join([*laws, NOTES, UNDECIDED]),
        none=f"No series of {kind} scaling.",
        unit=report.unit,
    ).write(folder)


def _series_of_kind(report: ScalingReport, kind: str) -> list[ScalingSeries]:
    return [series for series in report.series if series.kind == kind]
