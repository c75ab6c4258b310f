"""Strong and weak scaling as tables of their own: one row a size of a series, and the law of each series."""

from pathlib import Path
from typing import Any

import pandas as pd

from scalebench.files import write_atomic
from scalebench.report.number_format import estimate, number
from scalebench.report.tables.cells import latex

KINDS = ("strong", "weak")
LAWS = {"amdahl": "Amdahl's law", "gustafson": "Gustafson's law"}


def series_rows(report: dict[str, Any], kind: str) -> pd.DataFrame:
    """Plain numbers: value, low and high in columns of their own; a row a size."""
    rows = []
    for series in _of_kind(report, kind):
        for point in series["runs"].values():
            row = {"series": series["name"], "cell": point["cell"], "devices": point["devices"], "n": point["n"]}
            for name in (
                "tokens_per_sec_global",
                "speedup",
                "scaling_efficiency",
                "speedup_by_job_wall_time",
                "karp_flatt",
            ):
                shown = point[name] or {}
                row |= {name: shown.get("value"), f"{name}_low": shown.get("low"), f"{name}_high": shown.get("high")}
            row |= {"window_wall_time_sec": point["window_wall_time_sec"], "verdict": point["verdict"]}
            row |= {"incomparable": " ".join(point["incomparable"]), "findings": " ".join(point["findings"])}
            rows.append(row)
    return pd.DataFrame(rows)


def series_human(report: dict[str, Any], kind: str) -> pd.DataFrame:
    """The table as people read it."""
    rows = []
    for series in _of_kind(report, kind):
        for point in series["runs"].values():
            other, base = ", ".join(point["incomparable"]), point["cell"] == series["baseline"]

            def shown(name: str, point: dict = point, other: str = other) -> str:
                return f"incomparable: {other}" if other else estimate(point[name])

            rows.append(
                {
                    "series": series["name"],
                    "devices": str(point["devices"]),
                    "tokens/s [95 %]": estimate(point["tokens_per_sec_global"], digits=4),
                    "n": str(point["n"]),
                    "speed-up by tokens/s [95 %]": "1 (baseline)" if base else shown("speedup"),
                    "efficiency [95 %]": "" if base else shown("scaling_efficiency"),
                    "in words": point["verdict"] or "",
                    "speed-up by wall time of the job [95 %]": "" if base else shown("speedup_by_job_wall_time"),
                    "Karp-Flatt [95 %]": "" if base or other else estimate(point["karp_flatt"]),
                    "findings": " ".join(point["findings"]),
                }
            )
    frame = pd.DataFrame(rows)
    return frame.drop(columns=[c for c in frame.columns if set(frame[c]) <= {"", "–"} and c != "findings"])


def law_sentences(report: dict[str, Any], kind: str) -> list[str]:
    """A sentence a series: the fitted law, or why there is none."""
    found = []
    for series in _of_kind(report, kind):
        law, name = series["law"], series["name"]
        if law["undefined"]:
            found.append(f"{name}: no fit of {LAWS[law['law']]} ({law['undefined']}).")
            continue
        fraction = law["fraction"]
        bounds = f" (95 % interval {number(fraction['low'])} to {number(fraction['high'])}, {fraction['n']} repeats)"
        text = f"{name}: by {LAWS[law['law']]} a serial fraction of {number(fraction['value'])}{bounds if fraction['low'] is not None else ' (n=1)'}"
        told = law["limit"] is not None and fraction["low"] is not None and fraction["low"] > 0
        found.append(text + (f"; no speed-up above {number(law['limit'])} at any size, if it holds." if told else "."))
    return found


def write_series(report: dict[str, Any], kind: str, folder: Path) -> None:
    """Write strong or weak .csv, .md and .tex; a table without rows says so."""
    rows = series_rows(report, kind)
    write_atomic(folder / f"{kind}.csv", rows.to_csv(index=False))
    if rows.empty:
        none = f"No series of {kind} scaling."
        write_atomic(folder / f"{kind}.md", none + "\n")
        write_atomic(folder / f"{kind}.tex", f"% {none}\n")
        return
    human = series_human(report, kind)
    markdown = human.to_markdown(index=False, disable_numparse=True)
    write_atomic(folder / f"{kind}.md", "\n\n".join([markdown, *law_sentences(report, kind)]) + "\n")
    write_atomic(folder / f"{kind}.tex", latex(human, f"{report['title']} ({kind} scaling)"))


def _of_kind(report: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [s for s in report["series"] if s["kind"] == kind]
