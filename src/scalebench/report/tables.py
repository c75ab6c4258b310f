"""The scaling table as CSV (for programs), Markdown and LaTeX (for people)."""

from pathlib import Path
from typing import Any

import pandas as pd

from scalebench.record.write import write_atomic
from scalebench.report.figures import estimate, number, records

# The columns of the public tables that people quote, then what those leave out: n, interval, baseline, findings.
HUMAN = {
    "strategy": "strategy",
    "precision": "precision",
    "model": "model",
    "seq_len": "seq len",
    "geometry": "nodes x devices",
    "micro_batch": "micro batch",
    "accumulation": "accum.",
    "global_batch": "global batch",
    "tokens_per_s": "tokens/s [95 %]",
    "speedup": "speed-up [95 %]",
    "scaling_efficiency": "efficiency",
    "speedup_vs_best_single": "vs best single",
    "tokens_per_s_per_device": "tokens/s/device",
    "step_time_p50_s": "step p50 (ms)",
    "step_time_p95_s": "step p95 (ms)",
    "max_rss_bytes": "peak RSS (MB)",
    "n": "n",
    "findings": "findings",
}


# Columns that say nothing in a table where they never change.
CONFIGURED = ("precision", "model", "seq_len", "micro_batch", "accumulation", "global_batch")


def scaling_rows(cells: pd.DataFrame, report: dict[str, Any]) -> pd.DataFrame:
    """One row a cell, in the order of the campaign, with plain numbers: value, low and high in columns of their own."""
    scaling = {run["cell"]: (series, run) for series in report["series"] for run in series["runs"].values()}
    rows = []
    for row in records(cells):
        series, run = scaling.get(row["cell"], ({}, {}))
        for name in ("speedup", "scaling_efficiency", "speedup_vs_best_single"):
            shown = run.get(name) or {}
            row |= {name: shown.get("value"), f"{name}_low": shown.get("low"), f"{name}_high": shown.get("high")}
        rows.append(row | {"baseline": series.get("baseline")})
    return pd.DataFrame(rows)


def human_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """The table as people read it; a cell without numbers says why, and one with a finding names it."""
    shown = []
    for row in records(rows):
        n = row["n"]
        text = {name: "" if row.get(name) is None else str(row[name]) for name in HUMAN}
        if n:
            text["tokens_per_s"] = estimate(_estimate(row, "tokens_per_s"), digits=4)
            text["tokens_per_s_per_device"] = number(row["tokens_per_s_per_device"], 4)
            text["speedup"] = "1 (baseline)" if row["baseline"] == row["cell"] else estimate(_estimate(row, "speedup"))
            text["scaling_efficiency"] = number(row["scaling_efficiency"])
            text["speedup_vs_best_single"] = number(row["speedup_vs_best_single"])
            for name in ("step_time_p50_s", "step_time_p95_s"):
                text[name] = number(_times(row[name], 1e3))
            text["max_rss_bytes"] = number(row["max_rss_bytes"] / 1e6)
        else:
            text["tokens_per_s"] = row["failures"]
        text["n"] = f"{n} of {row['runs']}" if n != row["runs"] else str(n)
        shown.append({HUMAN[name]: text[name] for name in HUMAN})
    return pd.DataFrame(shown)


def split_constant(human: pd.DataFrame) -> tuple[pd.DataFrame, list[tuple[str, str]]]:
    """The human table without the columns of configuration that never change, and those columns with their value."""
    constant = [HUMAN[name] for name in CONFIGURED if human[HUMAN[name]].nunique() == 1]
    return human.drop(columns=constant), [(c, human[c].iloc[0]) for c in constant]


def write_tables(cells: pd.DataFrame, report: dict[str, Any], folder: Path) -> None:
    """Write scaling.csv, scaling.md and scaling.tex."""
    rows = scaling_rows(cells, report)
    human = human_rows(rows)
    write_atomic(folder / "scaling.csv", rows.to_csv(index=False))
    write_atomic(folder / "scaling.md", human.to_markdown(index=False, disable_numparse=True) + "\n" + _note(report))
    write_atomic(folder / "scaling.tex", _latex(human, report))


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _estimate(row: dict, name: str) -> dict[str, Any] | None:
    if row[name] is None:
        return None
    return {"value": row[name], "low": row[f"{name}_low"], "high": row[f"{name}_high"], "n": row["n"]}


def _note(report: dict) -> str:
    baselines = ", ".join(f"{s['name']}: {s['baseline']}" for s in report["series"])
    return (
        f"\n{report['title']} Strong scaling at a fixed global batch; intervals are 95 % over runs. "
        f"Speed-up is relative to the same strategy at its smallest world size ({baselines}); "
        "rates are all tokens over all time of the windows.\n"
    )


def _latex(human: pd.DataFrame, report: dict) -> str:
    """A booktabs table; `\\usepackage{booktabs}` is all that it needs."""
    escape = str.maketrans({"%": r"\%", "&": r"\&", "_": r"\_", "#": r"\#", "–": "--"})
    lines = [" & ".join(c.translate(escape) for c in human.columns)]
    lines += [" & ".join(str(v).translate(escape) for v in row) for row in human.itertuples(index=False)]
    body = "\n".join(line + r" \\" for line in lines[1:])
    return (
        f"% {report['title']}\n\\begin{{tabular}}{{{'l' * 5}{'r' * (len(human.columns) - 6)}l}}\n\\toprule\n"
        f"{lines[0]} \\\\\n\\midrule\n{body}\n\\bottomrule\n\\end{{tabular}}\n"
    )
