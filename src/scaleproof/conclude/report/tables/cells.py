"""The table of all cells as CSV (for programs), Markdown and LaTeX (for people)."""

from pathlib import Path
from typing import Any

import pandas as pd

from scaleproof.conclude.report.read_results import records
from scaleproof.conclude.report.tables.columns import CONFIGURED, HUMAN, LEARNT, MAIN, PLAIN, RATIOS
from scaleproof.conclude.report.tables.latex import latex
from scaleproof.ground.files import write_atomic
from scaleproof.ground.number_format import estimate, number
from scaleproof.ground.records.result_file import Estimated
from scaleproof.ground.records.scaling_report import ScalingReport


def scaling_rows(cells: pd.DataFrame, report: ScalingReport) -> pd.DataFrame:
    """One row per cell: by the number of devices; of one size the fastest first, and those without numbers last.

    Plain numbers; value, low and high in separate columns.
    """
    scaling = {run["cell"]: (series, run) for series in report["series"] for run in series["runs"].values()}
    entries = {entry["cell"]: entry for group in report["ranking"] for entry in group["cells"]}
    fastest = {group["cells"][0]["cell"] for group in report["ranking"] if len(group["cells"]) > 1}
    rows = []
    for row in records(cells):
        series, run = scaling.get(row["cell"], ({}, {}))
        row |= {"series": series.get("name"), "kind": series.get("kind"), "overhead_only": run.get("overhead_only")}
        row |= {
            "baseline": series.get("baseline") if series.get("kind") else None,
            "best_single": run.get("best_single"),
        }
        entry = entries.get(row["cell"], {})
        for name in ("relative_to_fastest", *RATIOS):
            ratio = (entry if name == "relative_to_fastest" else run).get(name) or {}
            row |= {name: ratio.get("value"), f"{name}_low": ratio.get("low"), f"{name}_high": ratio.get("high")}
            row[f"{name}_n"] = ratio.get("n")
        row["letters"] = entry.get("letters")
        row["is_fastest"] = row["cell"] in fastest
        row["incomparable"] = ", ".join(run.get("incomparable", []))
        row["best_single_incomparable"] = ", ".join(run.get("best_single_incomparable", []))
        rows.append(row)
    return pd.DataFrame(sorted(rows, key=_by_size_and_rate))


def _by_size_and_rate(row: dict[str, Any]) -> tuple[float, float]:
    return row.get("devices") or 0, -(row.get("tokens_per_s") or 0.0)


def human_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """The table as people read it; a cell without numbers says why, and one with a finding names it."""
    texts = [_human(row) for row in records(rows)]
    return pd.DataFrame([{HUMAN[name]: text[name] for name in HUMAN} for text in texts])


def _human(row: dict[str, Any]) -> dict[str, str]:
    """Column -> text of one cell."""
    n = row["n"]
    text = {name: _word(row[name]) for name in HUMAN}
    text |= {name: number(_times(row[name], factor)) if n else "–" for name, factor in PLAIN.items()}
    text["strategy"] += " (overhead only)" if row["overhead_only"] else ""
    text["letters"] = text["letters"] or "–"
    text["n"] = f"{n} of {row['runs']}" if n != row["runs"] else str(n)
    if n:
        return text | _measured(row)
    text["tokens_per_s"] = row["failures"].replace("|", "/")
    return text | dict.fromkeys(("relative_to_fastest", *RATIOS, *LEARNT), "–")


def _measured(row: dict[str, Any]) -> dict[str, str]:
    """Rates, ratios and losses of a cell with numbers."""
    text = {"tokens_per_s": estimate(interval_of(row, "tokens_per_s"), digits=4)}
    relative = estimate(interval_of(row, "relative_to_fastest"))
    text["relative_to_fastest"] = "1 (highest)" if row["is_fastest"] else relative
    for name in RATIOS:
        single = name == "speedup_vs_best_single"
        other = row["best_single_incomparable" if single else "incomparable"]
        itself = row["cell"] == row["best_single" if single else "baseline"]
        if other:
            text[name] = f"incomparable: {other}"
        elif itself and name != "scaling_efficiency":
            text[name] = "1 (baseline)"
        else:
            text[name] = estimate(interval_of(row, name))
    text |= {name: number(row[name], 5) for name in ("validation_loss", "target_loss")}
    why = row["time_to_loss_why"] or ""
    unreached = "in the warm-up" if why.startswith("reached in the warm-up") else "not reached"
    text["time_to_loss_s"] = unreached if why else estimate(interval_of(row, "time_to_loss_s"))
    if row["task"] == "language-modelling":  # all samples have as many tokens: it would say the same twice
        text["samples_per_s"] = "–"
    return text


def split_constant(human: pd.DataFrame) -> tuple[pd.DataFrame, list[tuple[str, str]]]:
    """The table without columns that are empty or never change, and the configured ones of these with their value."""
    candidates = [HUMAN[name] for name in (*CONFIGURED, "kind", "target_loss")]
    constant = [name for name in candidates if len(set(human[name]) - {"", "–"}) == 1]
    empty = [c for c in human.columns if c != HUMAN["findings"] and set(human[c]) <= {"–", ""}]
    everywhere = [(c, next(v for v in human[c] if v not in ("", "–"))) for c in constant if c not in empty]
    return human.drop(columns=list(dict.fromkeys([*constant, *empty]))), everywhere


def write_tables(cells: pd.DataFrame, report: ScalingReport, folder: Path) -> None:
    """Write scaling.csv, scaling.md and scaling.tex."""
    rows = scaling_rows(cells, report)
    human, constant = split_constant(human_rows(rows))
    everywhere = f"In all rows: {', '.join(f'{name} {value}' for name, value in constant)}."
    markdown = human.to_markdown(index=False, disable_numparse=True)
    write_atomic(folder / "scaling.csv", rows.to_csv(index=False))
    write_atomic(folder / "scaling.md", f"{markdown}\n\n{everywhere}\n\n{_note(report)}{restated(cells)}\n")
    few = human[[c for c in human.columns if c in _narrow(human)]]
    numeric = tuple(HUMAN[name] for name in MAIN)
    notes = f"{everywhere} {_note(report)}{restated(cells)}"
    write_atomic(folder / "scaling.tex", latex(few, report["title"], f"{report['campaign']}-cells", notes, numeric))


def _narrow(human: pd.DataFrame) -> set[str]:
    """What fits a page of a paper: what the cells differ in, the main figures, the findings.

    scaling.csv has the rest.
    """
    return {HUMAN[name] for name in ("strategy", "geometry", *CONFIGURED, *MAIN, "findings")} & set(human.columns)


def restated(cells: pd.DataFrame) -> str:
    """That the time to loss says no more than the rate, with a leading space; empty where it does say more."""
    if "steps_to_loss" not in cells:
        return ""
    timed = cells[cells["steps_to_loss"].notna()]
    same = [
        group["steps_to_loss"]
        for _, group in timed.groupby(["target_loss", "global_batch", "seq_len"])
        if len(group) > 1
    ]
    if not same or any(steps.max() - steps.min() > 1 for steps in same) or sum(map(len, same)) < len(timed):
        return ""
    return (
        " All cells reach the target loss after about the same number of steps: time to loss says what tokens/s says."
    )


def interval_of(row: dict[str, Any], name: str) -> Estimated | None:
    """One quantity of a row of `scaling_rows` with its interval; None where it has none."""
    if row.get(name) is None:
        return None
    n = row.get(f"{name}_n", row["n"])
    return Estimated(value=row[name], low=row[f"{name}_low"], high=row[f"{name}_high"], n=n)


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _note(report: ScalingReport) -> str:
    baselines = ", ".join(f"{s['name']}: {s['baseline']}" for s in report["series"] if s["kind"]) or "none"
    return (
        "Intervals are 95 % over runs. Strong scaling keeps the global batch, weak scaling the batch per device. "
        f"Speed-up is relative to the same series at its smallest number of devices ({baselines}); rates are all "
        "tokens over all time of the windows. Time to loss: seconds in the window until the smoothed training loss "
        "falls to the target loss; validation follows the window. –: unknown, does not apply, or too few steps "
        "(p95 needs 20). Group: of the cells of one size, those that share a letter cannot be told apart, with 95 % "
        "for all pairs together (3 repeats or more). Vs fastest: relative to the fastest cell of that size, with "
        "these intervals; vs fastest 1-device: where several cells of one size have it, with such intervals, too."
    )
