"""Charts of lines: step time and throughput against what a campaign sweeps, losses against step and seconds."""

# All charts of the catalog have the same parameters; these two do not use `runs` and `report`.

import pandas as pd
from matplotlib.axes import Axes

from scaleproof.conclude.report.chart_style import fastest_cells, line_styles, runs_text, write_empty
from scaleproof.ground.number_format import significant
from scaleproof.ground.records.scaling_report import ScalingReport

# Columns that follow from the swept one, so that they do not make another line.
BATCH = ("micro_batch", "accumulation", "global_batch")
NAMED = (
    *("strategy", "precision", "model", "seq_len", "geometry", "threads_per_device", "attention", "compile"),
    *("activation_checkpointing", "fused_optimizer", "bucket_elements", "vocab_size", "corpus", "tokenizer", "seed"),
)


def batch_size(panels: list[Axes], runs: pd.DataFrame, cells: pd.DataFrame, report: ScalingReport) -> None:
    """Draw step time and rate against the global batch where it varies, else against the micro-batch."""
    measured = cells[cells["n"] > 0]
    swept = "global_batch" if measured["global_batch"].nunique() > 1 else "micro_batch"
    _draw_sweep(panels, measured, swept, f"{swept.replace('_', ' ')} (samples)", BATCH)


def seq_len(panels: list[Axes], runs: pd.DataFrame, cells: pd.DataFrame, report: ScalingReport) -> None:
    _draw_sweep(panels, cells[cells["n"] > 0], "seq_len", "sequence length (tokens)", ("seq_len",))


def _draw_sweep(panels: list[Axes], measured: pd.DataFrame, swept: str, unit: str, follows: tuple[str, ...]) -> None:
    """Draw step time and rate of the `measured` cells against the column `swept`, a line for each other setting.

    `panels`: the axes of time and of rate. `unit`: the label below. `follows`: columns that change with the swept
    column, and so make no line of their own.
    """
    settings = [name for name in (*NAMED, *BATCH) if name not in follows]
    differing = [name for name in settings if measured[name].nunique() > 1] or ["strategy"]  # groupby needs a key
    groups = [group.sort_values(swept) for _, group in measured.groupby(differing, sort=False)]
    lines = [group for group in groups if group[swept].nunique() > 1]  # the cells of each line; it needs two points
    if not lines:
        for axes in panels:
            write_empty(axes, f"one {swept.replace('_', ' ')} alone")
        return

    time, rate = panels
    looks = line_styles([group["strategy"].iloc[0] for group in lines])
    for group, look in zip(lines, looks, strict=True):
        label = " ".join(str(group[name].iloc[0]) for name in differing)
        p05, p50, p95 = (1e3 * group[f"step_time_p{percent}_s"] for percent in ("05", "50", "95"))  # ms
        time.plot(group[swept], p50, label=label, lw=1.4, **look)
        time.fill_between(group[swept], p05, p95, color=look["color"], alpha=0.12, lw=0)
        rates = group["tokens_per_s"]
        low, high = (group[f"tokens_per_s_{bound}"].fillna(rates) for bound in ("low", "high"))
        rate.errorbar(group[swept], rates, yerr=[rates - low, high - rates], capsize=4, lw=1.4, **look)

    ticks = sorted(set(pd.concat(lines)[swept]))
    for axes, name in ((time, "step time (ms), 5-95 %"), (rate, "tokens/s, 95 % interval")):
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [significant(tick, 6) for tick in ticks])
        axes.minorticks_off()
        axes.set_xlabel(unit)
        axes.set_ylabel(name)
        axes.set_ylim(bottom=0)
    time.set_title("Step time")
    rate.set_title(f"Throughput ({runs_text(measured['n'])})")


AGAINST = {"step": "optimizer step, warm-up included", "seconds": "time in the window (s)"}
# Of a program that may print one step of twenty.
PRINTED = {"step": "printed line, warm-up included", "seconds": "summed times of printed lines (s)"}
AGAINST_WHAT = {"step": "steps", "seconds": "time"}
MARKS, LEAST_APART = 8, 8  # marks along a line, and points between two


def losses(axes: Axes, against: str, table: pd.DataFrame, cells: pd.DataFrame) -> None:
    """Draw the mean smoothed loss of the fastest cells, `against` "step" or "seconds".

    The chart against steps has validation losses, too. The chart against seconds has the target where all cells with a
    target have the same. `table`, `cells`: losses.csv and cells.csv.
    """
    if table.empty:
        write_empty(axes, "no measured runs")
        return
    measured, title = fastest_cells(cells)
    rows = measured.to_dict("records")
    for i, (row, style) in enumerate(zip(rows, line_styles(list(measured["strategy"])), strict=True)):
        points = table[(table["cell"] == row["cell"]) & table[against].notna()]
        # (first point, distance): another first point for each line, so that lines on one another show their marks.
        marks = (i, max(LEAST_APART, len(points) // MARKS))
        axes.plot(points[against], points["smoothed"], markevery=marks, label=row["cell"], lw=1.4, ms=5, **style)
        if against == "step" and pd.notna(row["validation_loss"]):
            axes.plot(points["step"].iloc[-1], row["validation_loss"], "D", mfc="none", ms=8, color=style["color"])
    targets = measured["target_loss"].dropna().unique()
    if against == "seconds" and len(targets) == 1:
        axes.axhline(targets[0], color="0.5", lw=1, ls="--", zorder=0, label="target")
    axes.set_xlabel((PRINTED if (measured["evidence"] == "printed").any() else AGAINST)[against])
    unit = " (nats)" if (measured["evidence"] == "built").all() else ""  # a program's loss may be anything
    axes.set_ylabel(f"training loss, smoothed{unit}")
    axes.set_title(f"Loss and {AGAINST_WHAT[against]} ({title})")
