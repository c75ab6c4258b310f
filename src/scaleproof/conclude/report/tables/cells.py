"""The table of all cells as CSV (for programs), Markdown and LaTeX (for people)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from scaleproof.conclude.report.read_results import row_dicts
from scaleproof.conclude.report.tables.table import UNDECIDED, Table, mark_undecided
from scaleproof.ground.columns import CELLS_TABLE, COLUMNS, CONFIGURED, MAIN, bounds_columns, columns_in_group
from scaleproof.ground.records.result_file import Estimated
from scaleproof.ground.records.scaling_report import RankedCell, ScalingPoint, ScalingReport, ScalingSeries

RATIOS = columns_in_group("ratio")
UNKNOWN = "–"


def scaling_rows(cells: pd.DataFrame, report: ScalingReport) -> pd.DataFrame:
    """Return a table with a row per cell, by the number of devices; among cells of one size the fastest comes first.

    Cells without numbers come last of their size. Numbers are plain; value, low and high have columns of their own.
    `cells`: cells.csv.
    """
    series_of = {point.cell: series for series in report.series for point in series.points}
    points = {point.cell: point for point in report.points}
    entries = {entry.cell: entry for ranking in report.ranking for entry in ranking.cells}
    fastest_cells = {ranking.cells[0].cell for ranking in report.ranking if len(ranking.cells) > 1}

    rows = []
    for row in row_dicts(cells):
        cell = row["cell"]
        row |= _report_columns(series_of.get(cell), points.get(cell), entries.get(cell), cell in fastest_cells)
        rows.append(row)
    rows.sort(key=lambda row: (row.get("devices") or 0, -(row.get("tokens_per_s") or 0.0)))  # the fastest first
    return pd.DataFrame(rows)


def _report_columns(
    series: ScalingSeries | None, point: ScalingPoint | None, entry: RankedCell | None, is_fastest: bool
) -> dict[str, Any]:
    """Return the columns that the report gives of a cell; `series`, `point` and `entry` are None without numbers."""
    columns: dict[str, Any] = dict.fromkeys(("series", "kind", "overhead_only", "baseline", "best_single"))
    if series and point:
        columns["series"] = series.name
        columns["kind"] = series.kind
        columns["overhead_only"] = point.overhead_only
        columns["baseline"] = series.baseline if series.kind else None
        columns["best_single"] = point.best_single
    for column in RATIOS:
        # One ratio is of the ranking, all others are of the series.
        holder = entry if column.name == "fastest_over" else point
        ratio = holder.figure(column.name) if holder else None
        columns |= bounds_columns(column.name, ratio) | {f"{column.name}_n": ratio.n if ratio else None}
    columns["letters"] = entry.letters if entry else None
    columns["is_fastest"] = is_fastest
    columns["incomparable"] = ", ".join(point.incomparable) if point else ""
    columns["best_single_incomparable"] = ", ".join(point.best_single_incomparable) if point else ""
    return columns


def cell_texts(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `scaling_rows` as people read them; a cell without numbers says why it has none."""
    texts = [_row_texts(row) for row in row_dicts(rows.assign(letters=letters_of_rows(rows)))]
    return pd.DataFrame([{COLUMNS[name].heading: text[name] for name in CELLS_TABLE} for text in texts])


def letters_of_rows(rows: pd.DataFrame) -> list[str]:
    """Return the letters of each row of `scaling_rows`, beside their size where several sizes have some.

    At each size the letters begin with "a" again, and say nothing of another size.
    """
    pairs = [(row["letters"] or "", row["devices"]) for row in row_dicts(rows)]
    sizes = {devices for letters, devices in pairs if letters}
    return [f"{letters} (of {devices})" if letters and len(sizes) > 1 else letters for letters, devices in pairs]


def _row_texts(row: dict[str, Any]) -> dict[str, str]:
    """Return the texts of one cell by column. `row`: a row of `scaling_rows`."""
    n = row["n"]
    words = {True: "yes", False: "no", None: ""}  # other values are printed as they are
    texts = {}
    for name in CELLS_TABLE:
        value = row[name]
        texts[name] = words[value] if value is None or isinstance(value, bool) else str(value)
    for column in columns_in_group("figure"):
        texts[column.name] = column.text(row[column.name]) if n else UNKNOWN
    if row["overhead_only"]:
        texts["strategy"] += " (overhead only)"
    texts["letters"] = texts["letters"] or UNKNOWN
    texts["n"] = f"{n} of {row['runs']}" if n != row["runs"] else str(n)
    if n:
        return texts | _measured_texts(row)
    texts["tokens_per_s"] = row["failures"].replace("|", "/")  # why it has no rate; "|" ends a cell of Markdown
    return texts | dict.fromkeys((column.name for column in (*RATIOS, *columns_in_group("learnt"))), UNKNOWN)


def _measured_texts(row: dict[str, Any]) -> dict[str, str]:
    """Return the texts of rates, ratios and losses of a cell with numbers, by column. `row`: of `scaling_rows`."""
    texts = {}
    for column in (*columns_in_group("rate"), *RATIOS, *columns_in_group("learnt")):
        name = column.name
        texts[name] = column.estimate(interval_of(row, name)) if column.interval else column.text(row[name])
    texts |= _texts_of_speedups(row)
    if row["is_fastest"]:
        texts["fastest_over"] = "1 (highest)"
    if row["time_to_loss_why"]:
        texts["time_to_loss_s"] = _reason_text(row["time_to_loss_why"])
    if row["task"] == "language-modelling":  # all samples are equally long: tokens/s says it
        texts["samples_per_s"] = UNKNOWN
    return texts


def _texts_of_speedups(row: dict[str, Any]) -> dict[str, str]:
    """Return column -> text of each speed-up and efficiency that a cell does not have; the text says why.

    A baseline is 1 by definition; of two cells that are not comparable no ratio is formed. `row`: of `scaling_rows`.
    """
    texts = {}
    if row["cell"] == row["baseline"]:
        texts["speedup"] = "1 (baseline)"
    if row["cell"] == row["best_single"]:
        texts["speedup_vs_best_single"] = "1 (baseline)"
    if row["incomparable"]:
        text = f"incomparable: {row['incomparable']}"
        texts |= {"speedup": text, "scaling_efficiency": text}
    if row["best_single_incomparable"]:
        texts["speedup_vs_best_single"] = f"incomparable: {row['best_single_incomparable']}"
    return texts


def _reason_text(sentence: str) -> str:
    """Return in words why a cell has no time to the loss ("–": it has no loss). `sentence`: the analysis' reason."""
    if sentence.startswith("reached in the warm-up"):
        return "in the warm-up"
    return UNKNOWN if sentence.startswith("no loss") else "not reached"


def split_constant(texts: pd.DataFrame) -> tuple[pd.DataFrame, list[tuple[str, str]]]:
    """Split off the settings that are the same in all rows of `texts` (of `cell_texts`).

    Returns the table without them and without empty columns, and (heading, value) of each setting that was split off.
    Figures stay, as they may be the same in all cells by chance.
    """
    settings = [*CONFIGURED, "kind", "target_loss"]
    headings_of_settings = [COLUMNS[name].heading for name in CELLS_TABLE if name in settings]
    constants = []
    empty_headings = []
    for heading in texts.columns:
        # Cells without a value do not count.
        known_values = [value for value in texts[heading] if value not in ("", UNKNOWN)]
        if not known_values and heading != COLUMNS["findings"].heading:
            empty_headings.append(heading)
        if heading in headings_of_settings and len(set(known_values)) == 1:
            constants.append((heading, known_values[0]))
    return texts.drop(columns=[*(heading for heading, _ in constants), *empty_headings]), constants


def split_shared_codes(codes_of_rows: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """Return the codes of findings that all rows have, and the others of each row; a single row shares none."""
    first, *others = codes_of_rows or [[]]
    shared = [code for code in first if others and all(code in codes for codes in others)]
    return shared, [[code for code in codes if code not in shared] for codes in codes_of_rows]


def write_tables(cells: pd.DataFrame, report: ScalingReport, folder: Path) -> None:
    """Write scaling.csv, scaling.md and scaling.tex into `folder`. `cells`: cells.csv.

    The LaTeX table has what fits a page of a paper: the settings that differ, the main figures, the findings.
    """
    rows = scaling_rows(cells, report)
    texts, constants = split_constant(cell_texts(rows))
    findings = COLUMNS["findings"].heading
    shared, own_codes = split_shared_codes([text.split() for text in texts[findings]])
    if shared:
        texts[findings] = [" ".join(codes) for codes in own_codes]
        constants.append((findings, " ".join(shared)))
    # An interval that contains 1 marks a ratio as undecided. Not so an efficiency, whose 1 is the ideal.
    ratio_columns = [column for column in RATIOS if column.name != "scaling_efficiency"]
    plain_rows = row_dicts(rows)
    ratios = {column.heading: [interval_of(row, column.name) for row in plain_rows] for column in ratio_columns}
    headings_of_paper = {COLUMNS[name].heading for name in ("strategy", "geometry", *CONFIGURED, *MAIN, "findings")}
    constants_text = ", ".join(f"{heading} {value}" for heading, value in constants)
    below = [f"In all rows: {constants_text}.", _table_note(report) + restated_time_note(cells)]
    Table(
        name="scaling",
        plain=rows,
        human=mark_undecided(texts, ratios),
        caption=report.title,
        label=f"{report.campaign}-cells",
        numeric=[COLUMNS[name].heading for name in MAIN],
        narrow=[heading for heading in texts.columns if heading in headings_of_paper],
        below=below,
        notes=" ".join([*below, UNDECIDED]),
        unit=report.unit,
    ).write(folder)


def restated_time_note(cells: pd.DataFrame) -> str:
    """Return a remark, with a space before it, where the column of times to the target loss only repeats the rates.

    It does so where all cells with the same work take the same number of steps, give or take one. Returns "" where
    they do not, or a cell has no other cell to compare with. `cells`: the rows of cells.csv.
    """
    if "steps_to_loss" not in cells:
        return ""
    timed_cells = cells[cells["steps_to_loss"].notna()]
    work_columns = ["target_loss", "global_batch", "seq_len"]
    if timed_cells.empty or timed_cells[work_columns].isna().any(axis=None):  # so it is for commands
        return ""
    # A group is the cells with the same work; a cell alone has no other to be compared with.
    for _, steps in timed_cells.groupby(work_columns)["steps_to_loss"]:
        if len(steps) == 1 or steps.max() - steps.min() > 1:
            return ""
    return (
        " All cells reach the target loss after about the same number of steps: time to loss says what tokens/s says."
    )


def interval_of(row: dict[str, Any], name: str) -> Estimated | None:
    """Return the quantity `name` of a row of `scaling_rows` with its interval; None where it is unknown."""
    if row.get(name) is None:
        return None
    n = row.get(f"{name}_n", row["n"])  # ratios have an n of their own
    return Estimated(value=row[name], low=row[f"{name}_low"], high=row[f"{name}_high"], n=n)


def _table_note(report: ScalingReport) -> str:
    """Return the note below the table: what its columns mean."""
    baselines = ", ".join(f"{series.name}: {series.baseline}" for series in report.series if series.kind) or "none"
    return (
        "Intervals are 95 % over runs. Strong scaling keeps the global batch, weak scaling the batch per device. "
        f"Speed-up is relative to the same series at its smallest number of devices ({baselines}); rates are all "
        "tokens over all time of the windows. Time to loss: seconds in the window until the smoothed training loss "
        "falls to the target loss; validation follows the window. –: unknown, does not apply, or too few steps "
        "(p95 needs 20). Group: of the cells of one size, those that share a letter cannot be told apart, with 95 % "
        "for all pairs of a size together, each size for itself (3 repeats or more). Fastest over this: the rate of "
        "the fastest cell of that size over this one's, with these intervals; vs fastest 1-device: in one family with "
        "them, so that both hold together."
    )
