"""Strong and weak scaling as tables of their own: one row per size of a series."""

from pathlib import Path

import pandas as pd

from scaleproof.conclude.report.sentences.scaling_laws import law_sentences
from scaleproof.conclude.report.tables.latex import latex
from scaleproof.ground.files import write_atomic
from scaleproof.ground.number_format import estimate
from scaleproof.ground.records.scaling_report import ScalingPoint, ScalingReport, ScalingSeries

KINDS = ("strong", "weak")
RATIOS = ("tokens_per_sec_global", "speedup", "scaling_efficiency", "speedup_by_job_wall_time", "karp_flatt")
# Column of people's table -> quantity of scaling_report.json.
QUANTITIES = {
    "tokens/s [95 %]": "tokens_per_sec_global",
    "speed-up by tokens/s [95 %]": "speedup",
    "efficiency [95 %]": "scaling_efficiency",
    "speed-up by wall time of the job [95 %]": "speedup_by_job_wall_time",
    "Karp-Flatt [95 %]": "karp_flatt",
}
NOTES = (
    "Rating: an efficiency below 0.7 is low, from 0.85 excellent, where the whole interval says so. Wall time of the "
    "job: from the launcher's start to the last result, including start-up and warm-up. Karp-Flatt: the serial "
    "fraction that one speed-up stands for."
)


def series_rows(report: ScalingReport, kind: str) -> pd.DataFrame:
    """Plain numbers: value, low and high in columns of their own; one row per size."""
    rows = []
    for series in _of_kind(report, kind):
        for point in series["runs"].values():
            row = {"series": series["name"], "cell": point["cell"], "devices": point["devices"], "n": point["n"]}
            for name in RATIOS:
                ratio = point[name] or {}
                row |= {name: ratio.get("value"), f"{name}_low": ratio.get("low"), f"{name}_high": ratio.get("high")}
            row |= {"window_wall_time_sec": point["window_wall_time_sec"], "verdict": point["verdict"]}
            row |= {"incomparable": " ".join(point["incomparable"]), "findings": " ".join(point["findings"])}
            rows.append(row)
    return pd.DataFrame(rows)


def series_human(report: ScalingReport, kind: str) -> pd.DataFrame:
    """The table as people read it; columns without any entry are left out."""
    rows = [_human(series, point) for series in _of_kind(report, kind) for point in series["runs"].values()]
    frame = pd.DataFrame(rows)
    return frame.drop(columns=[c for c in frame.columns if set(frame[c]) <= {"", "–"} and c != "findings"])


def _human(series: ScalingSeries, point: ScalingPoint) -> dict[str, str]:
    other, baseline = ", ".join(point["incomparable"]), point["cell"] == series["baseline"]

    def ratio(name: str) -> str:
        if other:
            return f"incomparable: {other}"
        return "1 (baseline)" if baseline and name == "speedup" else estimate(point[name])

    return {
        "series": series["name"],
        "devices": str(point["devices"]),
        "tokens/s [95 %]": estimate(point["tokens_per_sec_global"], digits=4),
        "n": str(point["n"]),
        "speed-up by tokens/s [95 %]": ratio("speedup"),
        "efficiency [95 %]": ratio("scaling_efficiency"),
        "rating": point["verdict"] or "–",
        "speed-up by wall time of the job [95 %]": ratio("speedup_by_job_wall_time"),
        "Karp-Flatt [95 %]": "–" if other else estimate(point["karp_flatt"]),
        "findings": " ".join(point["findings"]),
    }


def write_series(report: ScalingReport, kind: str, folder: Path) -> None:
    """Write strong or weak .csv, .md and .tex; a table without rows says so."""
    rows = series_rows(report, kind)
    if rows.empty:
        none = f"No series of {kind} scaling."
        rows = pd.DataFrame(columns=["series", "cell", "devices", "n"])
        write_atomic(folder / f"{kind}.csv", rows.to_csv(index=False))
        write_atomic(folder / f"{kind}.md", none + "\n")
        write_atomic(folder / f"{kind}.tex", f"% {none}\n")
        return
    write_atomic(folder / f"{kind}.csv", rows.to_csv(index=False))
    human = series_human(report, kind)
    markdown = human.to_markdown(index=False, disable_numparse=True)
    write_atomic(folder / f"{kind}.md", "\n\n".join([markdown, *law_sentences(report, kind)]) + "\n")
    caption, label = f"{report['title']} ({kind} scaling)", f"{report['campaign']}-{kind}"
    narrow = human.drop(columns=["speed-up by wall time of the job [95 %]", "Karp-Flatt [95 %]"], errors="ignore")
    tex = latex(narrow, caption, label, " ".join([*law_sentences(report, kind), NOTES]), ("n", "devices", *QUANTITIES))
    write_atomic(folder / f"{kind}.tex", tex)


def _of_kind(report: ScalingReport, kind: str) -> list[ScalingSeries]:
    return [s for s in report["series"] if s["kind"] == kind]
