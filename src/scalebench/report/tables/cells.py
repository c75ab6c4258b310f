"""The scaling table as CSV (for programs), Markdown and LaTeX (for people)."""

from pathlib import Path
from typing import Any

import pandas as pd

from scalebench.files import write_atomic
from scalebench.report.number_format import estimate, number, records

# The columns of the public tables that people quote, then what those leave out: interval, baseline, n, findings.
HUMAN = {
    "task": "task",
    "strategy": "strategy",
    "precision": "precision",
    "model": "model",
    "vocab_size": "vocabulary",
    "seq_len": "seq len",
    "corpus": "corpus",
    "tokenizer": "tokenizer",
    "attention": "attention",
    "compile": "compile",
    "activation_checkpointing": "act. ckpt",
    "fused_optimizer": "fused opt.",
    "bucket_elements": "bucket",
    "threads_per_device": "threads/device",
    "seed": "seed",
    "geometry": "nodes x devices",
    "micro_batch": "micro batch",
    "accumulation": "accum.",
    "global_batch": "global batch",
    "tokens_per_s": "tokens/s [95 %]",
    "samples_per_s": "samples/s",
    "n": "n",
    "kind": "scaling",
    "speedup": "speed-up [95 %]",
    "scaling_efficiency": "efficiency [95 %]",
    "speedup_vs_best_single": "vs best single [95 %]",
    "tokens_per_s_per_device": "tokens/s/device",
    "mfu": "MFU",
    "validation_loss": "val. loss",
    "perplexity": "perplexity",
    "accuracy": "accuracy",
    "time_to_loss_s": "time to loss (s) [95 %]",
    "target_loss": "target loss",
    "step_time_p50_s": "step p50 (ms)",
    "step_time_p95_s": "step p95 (ms)",
    "state_bytes": "state (MB)",
    "state_bytes_predicted": "by formula (MB)",
    "max_cuda_mem_allocated_bytes": "peak allocated (MB)",
    "joules_per_token": "mJ/token",
    "startup_s": "start-up (s)",
    "findings": "findings",
}
RATIOS = ("speedup", "scaling_efficiency", "speedup_vs_best_single")
# Columns that the page leaves to the tables' files.
FILES_ONLY = ("kind", "tokens_per_s_per_device", "step_time_p95_s", "perplexity", "startup_s")
LEARNT = ("validation_loss", "target_loss", "time_to_loss_s")
# Columns that say nothing in a table where they never change.
CONFIGURED = tuple(
    name for name in list(HUMAN)[: list(HUMAN).index("tokens_per_s")] if name not in ("strategy", "geometry")
)
# Plain figures: column -> what they are multiplied with for people.
PLAIN = {
    "samples_per_s": 1,
    "tokens_per_s_per_device": 1,
    "mfu": 1,
    "perplexity": 1,
    "accuracy": 1,
    "step_time_p50_s": 1e3,
    "step_time_p95_s": 1e3,
    "state_bytes": 1e-6,
    "state_bytes_predicted": 1e-6,
    "max_cuda_mem_allocated_bytes": 1e-6,
    "joules_per_token": 1e3,
    "startup_s": 1,
}


def scaling_rows(cells: pd.DataFrame, report: dict[str, Any]) -> pd.DataFrame:
    """One row a cell, in the order of the campaign, with plain numbers: value, low and high in columns of their own."""
    scaling = {run["cell"]: (series, run) for series in report["series"] for run in series["runs"].values()}
    rows = []
    for row in records(cells):
        series, run = scaling.get(row["cell"], ({}, {}))
        row |= {"series": series.get("name"), "kind": series.get("kind"), "overhead_only": run.get("overhead_only")}
        row |= {
            "baseline": series.get("baseline") if series.get("kind") else None,
            "best_single": run.get("best_single"),
        }
        for name in RATIOS:
            shown = run.get(name) or {}
            row |= {name: shown.get("value"), f"{name}_low": shown.get("low"), f"{name}_high": shown.get("high")}
            row[f"{name}_n"] = shown.get("n")
        row["incomparable"] = ", ".join(run.get("incomparable", []))
        row["best_single_incomparable"] = ", ".join(run.get("best_single_incomparable", []))
        rows.append(row)
    return pd.DataFrame(rows)


def human_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """The table as people read it; a cell without numbers says why, and one with a finding names it."""
    shown = []
    for row in records(rows):
        n = row["n"]
        text = {name: _word(row[name]) for name in HUMAN}
        text |= {name: number(_times(row[name], factor)) if n else "" for name, factor in PLAIN.items()}
        text["strategy"] += " (overhead only)" if row["overhead_only"] else ""
        if n:
            text["tokens_per_s"] = estimate(_estimate(row, "tokens_per_s"), digits=4)
            for name in RATIOS:
                other = row["best_single_incomparable" if name == "speedup_vs_best_single" else "incomparable"]
                text[name] = f"incomparable: {other}" if other else estimate(_estimate(row, name))
            text["validation_loss"], text["target_loss"] = (
                number(row[k], 5) for k in ("validation_loss", "target_loss")
            )
            text["time_to_loss_s"] = (
                "not reached" if row["time_to_loss_why"] else estimate(_estimate(row, "time_to_loss_s"))
            )
            if row["task"] == "language-modelling":  # all samples have as many tokens: it would say the same twice
                text["samples_per_s"] = ""
            text["speedup"] = "1 (baseline)" if row["baseline"] == row["cell"] else text["speedup"]
        else:
            text |= dict.fromkeys((*RATIOS, *LEARNT), "")
            text["tokens_per_s"] = row["failures"].replace("|", "/")
        text["n"] = f"{n} of {row['runs']}" if n != row["runs"] else str(n)
        shown.append({HUMAN[name]: text[name] for name in HUMAN})
    return pd.DataFrame(shown)


def split_constant(human: pd.DataFrame) -> tuple[pd.DataFrame, list[tuple[str, str]]]:
    """The table without columns that are empty or never change, and the configured ones of these with their value."""
    constant = [
        n for n in (HUMAN[name] for name in (*CONFIGURED, "kind", "target_loss")) if len(set(human[n]) - {""}) == 1
    ]
    empty = [c for c in human.columns if c != HUMAN["findings"] and set(human[c]) <= {"–", ""}]
    said = [(c, next(filter(None, human[c]))) for c in constant if c not in empty]
    return human.drop(columns=list(dict.fromkeys([*constant, *empty]))), said


def write_tables(cells: pd.DataFrame, report: dict[str, Any], folder: Path) -> None:
    """Write scaling.csv, scaling.md and scaling.tex."""
    rows = scaling_rows(cells, report)
    human, constant = split_constant(human_rows(rows))
    everywhere = ", ".join(f"{name} {value}" for name, value in constant)
    write_atomic(folder / "scaling.csv", rows.to_csv(index=False))
    markdown = human.to_markdown(index=False, disable_numparse=True)
    write_atomic(folder / "scaling.md", f"{markdown}\n\nIn all rows: {everywhere}.\n{_note(report)}")
    write_atomic(folder / "scaling.tex", latex(human, report["title"]))


def comparison_rows(report: dict[str, Any]) -> pd.DataFrame:
    """comparison.json as people read it, a row each."""
    rows = []
    for c in report["comparisons"]:
        e = c["estimate"]
        ratio = (
            f"{number(e['ratio'], 4)} [{number(e['low'], 4)}, {number(e['high'], 4)}]"
            if e
            else f"{c['status']}: {c['why']}"
        )
        rows.append(
            {
                "comparison": c["name"],
                "A": c["a"],
                "B": c["b"],
                "B / A, tokens/s [95 %]": ratio,
                "pairs": str(e["n"]) if e else f"0 of {c['pairs']}",
                "A / A, noise (%)": number(100 * e["floor"], 2) if e else "",
                "detectable (%)": number(100 * e["detectable"], 2) if e else "",
                "claim": (e["claim"] or "none") if e else "",
                "findings": " ".join(sorted(c["findings"])),
            }
        )
    return pd.DataFrame(rows)


def write_comparison(report: dict[str, Any], folder: Path) -> None:
    """Write comparison.csv (plain numbers), .md and .tex."""
    plain = [
        {k: c[k] for k in ("name", "a", "b", "status", "why", "pairs")}
        | {k: v for k, v in (c["estimate"] or {}).items() if not isinstance(v, list)}
        for c in report["comparisons"]
    ]
    human = comparison_rows(report)
    write_atomic(folder / "comparison.csv", pd.DataFrame(plain).to_csv(index=False))
    write_atomic(folder / "comparison.md", human.to_markdown(index=False, disable_numparse=True) + "\n")
    write_atomic(folder / "comparison.tex", latex(human, f"A/B comparisons of {report['campaign']}"))


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _estimate(row: dict, name: str) -> dict[str, Any] | None:
    if row[name] is None:
        return None
    return {
        "value": row[name],
        "low": row[f"{name}_low"],
        "high": row[f"{name}_high"],
        "n": row.get(f"{name}_n", row["n"]),
    }


def _note(report: dict) -> str:
    baselines = ", ".join(f"{s['name']}: {s['baseline']}" for s in report["series"] if s["kind"]) or "none"
    return (
        f"\nIntervals are 95 % over runs. Strong scaling keeps the global batch, weak scaling the batch per "
        f"device. Speed-up is relative to the same series at its smallest world size ({baselines}); "
        "rates are all tokens over all time of the windows. Time to loss: seconds in the window until the smoothed training loss "
        "falls to the target loss; validation follows the window. A dash: not known, or too few steps (p95 needs 20).\n"
    )


def latex(human: pd.DataFrame, title: str) -> str:
    """A booktabs table; `\\usepackage{booktabs}` is all that it needs."""
    escape = str.maketrans({"%": r"\%", "&": r"\&", "_": r"\_", "#": r"\#", "–": "--", "\u00a0": "~"})
    lines = [" & ".join(c.translate(escape) for c in human.columns)]
    lines += [" & ".join(str(v).translate(escape) for v in row) for row in human.itertuples(index=False)]
    body = "\n".join(line + r" \\" for line in lines[1:])
    return (
        f"% {title}\n\\begin{{tabular}}{{{'l' * len(human.columns)}}}\n\\toprule\n"
        f"{lines[0]} \\\\\n\\midrule\n{body}\n\\bottomrule\n\\end{{tabular}}\n"
    )
