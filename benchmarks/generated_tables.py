"""Random published tables: sound ones in every form, and the same with one planted fault, for auditor.py."""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

Values = dict[str, Any]  # of one row, in base units

# Column -> its headings, with the printed unit's size in the base unit.
HEADINGS: dict[str, list[tuple[str, float]]] = {
    "devices": [("GPUs", 1), ("# GPUs", 1), ("Num GPUs", 1), ("world_size", 1), ("Devices", 1), ("n_gpus", 1)],
    "strategy": [("Strategy", 1), ("Method", 1), ("Framework", 1)],
    "precision": [("Precision", 1), ("dtype", 1)],
    "global_batch": [("Global batch", 1), ("Global batch size", 1), ("global_batch_size", 1)],
    "seq_len": [("Seq len", 1), ("Sequence length", 1), ("seq_len", 1)],
    "epochs": [("Epochs", 1), ("num_epochs", 1)],
    "steps": [("Steps", 1), ("Iterations", 1)],
    "step_time_s": [
        ("Step time (ms)", 1e-3),
        ("Time/step (s)", 1),
        ("step_time_ms", 1e-3),
        ("Iteration time (ms)", 1e-3),
    ],
    "epoch_time_s": [("Epoch time (s)", 1), ("Time per epoch (min)", 60), ("epoch_time_s", 1)],
    "total_time_s": [("Total time (s)", 1), ("Training time (min)", 60), ("Total training time (h)", 3600)],
    "tokens_per_s": [("Total tokens/s", 1), ("Total throughput (tokens/s)", 1), ("Global throughput (tok/s)", 1)],
    "tokens_per_s_each": [("Tokens/s/GPU", 1), ("tokens/s per GPU", 1), ("tok/s/GPU", 1)],
    "speedup": [("Speedup", 1), ("Speed-up", 1), ("Speedup vs 1 GPU", 1)],
    "efficiency": [("Efficiency", 1), ("Scaling efficiency (%)", 0.01), ("Parallel efficiency", 1)],
    "mfu": [("MFU (%)", 0.01), ("MFU", 0.01)],
    "loss": [("Final loss", 1), ("Val loss", 1)],
    "accuracy": [("Accuracy (%)", 0.01)],
    "memory": [("Peak memory (GB)", 1e9)],
}
FORMS = ("markdown", "csv", "tsv", "json", "pandas", "latex", "html")
DIGITS = {"speedup": (2, 3), "efficiency": (2, 3), "mfu": (1, 2), "loss": (3, 4), "accuracy": (1, 2), "memory": (1, 2)}


@dataclass
class Table:
    """A generated table: columns in order, rows of true values, how each column is printed."""

    columns: list[str]
    headings: dict[str, tuple[str, float]]
    digits: dict[str, int]
    rows: list[Values]
    form: str
    thousands: str = ""
    comma: bool = False  # decimal comma
    suffixes: dict[str, str] = field(default_factory=dict)

    def cell(self, column: str, row: Values) -> str:
        value = row[column]
        if isinstance(value, str):
            return value
        number = value / self.headings[column][1]
        if column in ("devices", "global_batch", "seq_len", "epochs", "steps"):
            text = f"{number:,.0f}" if self.thousands and column == "steps" else f"{number:.0f}"
        else:
            text = f"{number:,.{self.digits[column]}f}" if self.thousands else f"{number:.{self.digits[column]}f}"
        if self.comma and column not in ("devices", "global_batch", "seq_len", "epochs", "steps"):
            text = text.translate(str.maketrans(",.", ".,"))
        return text + self.suffixes.get(column, "")

    def grid(self) -> list[list[str]]:
        return [
            [self.headings[c][0] for c in self.columns],
            *([self.cell(c, row) for c in self.columns] for row in self.rows),
        ]

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        name, text = WRITE[self.form](self.grid())
        (folder / name).write_text(text)


def _markdown(grid: list[list[str]]) -> tuple[str, str]:
    lines = [f"| {' | '.join(row)} |" for row in grid]
    lines.insert(1, "|" + "---|" * len(grid[0]))
    return "README.md", "# Results\n\nScaling of our training run.\n\n" + "\n".join(lines) + "\n\nMore text.\n"


def _separated(name: str, mark: str) -> Callable[[list[list[str]]], tuple[str, str]]:
    def write(grid: list[list[str]]) -> tuple[str, str]:
        rows = [mark.join(f'"{c}"' if mark in c else c for c in row) for row in grid]
        return name, "\n".join(rows) + "\n"

    return write


def _json(grid: list[list[str]]) -> tuple[str, str]:
    def value(cell: str) -> Any:
        try:
            return float(cell) if "." in cell else int(cell)
        except ValueError:
            return cell

    head, *rows = grid
    return "results.json", json.dumps([{h: value(c) for h, c in zip(head, row, strict=True)} for row in rows], indent=1)


def _pandas(grid: list[list[str]]) -> tuple[str, str]:
    widths = [max(len(row[i]) for row in grid) + 2 for i in range(len(grid[0]))]
    lines = ["".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in grid]
    return "README.md", "# Results\n\n```\n" + "\n".join(lines) + "\n```\n"


def _latex(grid: list[list[str]]) -> tuple[str, str]:
    rows = [
        " & ".join(c.replace("%", r"\%").replace("#", r"\#").replace("_", r"\_") for c in row) + r" \\" for row in grid
    ]
    rows.insert(1, r"\midrule")
    body = "\n".join(rows)
    columns = "l" * len(grid[0])
    return (
        "table.tex",
        f"\\begin{{table}}\n\\caption{{Results}}\n\\begin{{tabular}}{{{columns}}}\n\\toprule\n{body}\n\\bottomrule\n\\end{{tabular}}\n\\end{{table}}\n",
    )


def _html(grid: list[list[str]]) -> tuple[str, str]:
    rows = [
        "<tr>" + "".join(f"<{tag}>{c}</{tag}>" for c in row) + "</tr>"
        for tag, row in (("th" if i == 0 else "td", r) for i, r in enumerate(grid))
    ]
    return "results.html", "<html><body><h1>Results</h1><table>\n" + "\n".join(rows) + "\n</table></body></html>\n"


WRITE: dict[str, Callable[[list[list[str]]], tuple[str, str]]] = {
    "markdown": _markdown,
    "csv": _separated("results.csv", ","),
    "tsv": _separated("results.tsv", "\t"),
    "json": _json,
    "pandas": _pandas,
    "latex": _latex,
    "html": _html,
}


def sound_table(chance: random.Random, needed: tuple[str, ...] = (), form: str | None = None) -> Table:
    """A table of one scaling experiment whose figures agree with each other; `needed` columns are in it."""
    sizes = sorted(chance.sample([1, 2, 4, 8, 16, 32, 64], chance.randint(3, 5)))
    if "base2" in needed:
        sizes = [n for n in sizes if n > 1] if sizes[0] == 1 else sizes
        sizes = sizes if len(sizes) >= 3 else [2, 4, 8]
    elif chance.random() < 0.8:
        sizes = [1, *sizes[1:]] if sizes[0] != 1 else sizes
    weak = chance.random() < 0.3
    batch, seq_len = chance.choice([32, 64, 128, 256]), chance.choice([128, 512, 1024])
    serial, base_step = chance.uniform(0.005, 0.12), chance.uniform(0.05, 3.0)
    steps, epochs = chance.randint(37, 5000), chance.choice([1, 3, 10, 20])
    strategy, precision = chance.choice(["DDP", "FSDP", "ZeRO-2"]), chance.choice(["bf16", "fp16", "fp32"])
    rows = []
    for n in sizes:
        share = n / sizes[0]
        slow = 1 + serial * (share - 1) if weak else (serial * (share - 1) + 1) / share
        step = base_step * slow * chance.uniform(0.995, 1.005)
        work = batch * (share if weak else 1)
        rate = work * seq_len / step
        row: Values = {
            "devices": n,
            "strategy": strategy,
            "precision": precision,
            "global_batch": work,
            "seq_len": seq_len,
        }
        row |= {
            "epochs": epochs,
            "steps": steps,
            "step_time_s": step,
            "epoch_time_s": step * steps,
            "tokens_per_s": rate,
        }
        row |= {"total_time_s": step * steps * epochs * chance.uniform(1.0, 1.04), "tokens_per_s_each": rate / n}
        row |= {"mfu": 0.55 * chance.uniform(0.9, 1) / (slow * (1 if weak else share)), "loss": chance.uniform(2.5, 4)}
        row |= {"accuracy": chance.uniform(0.5, 0.95), "memory": chance.uniform(5, 70) * 1e9}
        rows.append(row)
    for row in rows:
        row["speedup"] = row["tokens_per_s"] / rows[0]["tokens_per_s"]
        row["efficiency"] = row["speedup"] / (row["devices"] / sizes[0])
    return _laid_out(rows, chance, [c for c in needed if c in HEADINGS], form)


def _laid_out(rows: list[Values], chance: random.Random, needed: list[str], form: str | None) -> Table:
    optional = [c for c in HEADINGS if c != "devices" and c not in needed and chance.random() < 0.45]
    if "epochs" in optional:  # steps of an epoch are not the steps of the run
        optional = [c for c in optional if c != "steps"]
    columns = ["devices", *needed, *optional]
    if not set(columns) & {"step_time_s", "epoch_time_s", "total_time_s", "tokens_per_s"}:
        columns.append("step_time_s")
    chance.shuffle(columns)
    if chance.random() < 0.7:
        columns.remove("devices")
        columns.insert(0, "devices")
    if rows[0]["devices"] != 1:
        headings = {c: chance.choice([h for h in HEADINGS[c] if "1 GPU" not in h[0]]) for c in columns}
    else:
        headings = {c: chance.choice(HEADINGS[c]) for c in columns}
    digits = {c: _digits(c, rows, headings[c][1], chance) for c in columns}
    form = form or chance.choice(FORMS)
    table = Table(columns, headings, digits, rows, form)
    if form in ("markdown", "html", "latex"):
        table.thousands = chance.choice(["", ","])
        table.comma = chance.random() < 0.1 and bool(table.thousands)
        if chance.random() < 0.5:
            table.suffixes["speedup"] = chance.choice(["x", "×"])
    return table


def _digits(column: str, rows: list[Values], unit: float, chance: random.Random) -> int:
    """Digits behind the point: enough for three significant ones of the smallest figure."""
    if column in DIGITS:
        return chance.randint(*DIGITS[column]) if unit == 1 or column in ("mfu", "accuracy", "memory") else 1
    values = [row[column] / unit for row in rows if not isinstance(row[column], str)]
    least = min(values, default=1.0)
    need = 0
    while least * 10**need < 300 and need < 6:
        need += 1
    return need + chance.randint(0, 1)


@dataclass(frozen=True)
class Planted:
    """A fault: the code that names it, the index of the row, the true figure (in the correction's unit) or None."""

    code: str
    row: int | None
    figure: float | None = None


Plant = Callable[[Table, random.Random], Planted | None]


def _larger(table: Table, chance: random.Random) -> int:
    return chance.randint(1, len(table.rows) - 1)


def speedup_wrong(table: Table, chance: random.Random) -> Planted | None:
    i = _larger(table, chance)
    true = table.rows[i]["speedup"]
    table.rows[i] = table.rows[i] | {"speedup": true * chance.choice([0.75, 0.82])}
    return Planted("speedup-not-in-table", i, true)


def efficiency_wrong(table: Table, chance: random.Random) -> Planted | None:
    i = _larger(table, chance)
    true = table.rows[i]["efficiency"]
    table.rows[i] = table.rows[i] | {"efficiency": true * 0.8}
    return Planted("efficiency-not-in-table", i, 100 * true)


def efficiency_of_one_device(table: Table, chance: random.Random) -> Planted | None:
    base = table.rows[0]["devices"]
    true = table.rows[-1]["efficiency"]
    table.rows = [row | {"efficiency": row["efficiency"] / base} for row in table.rows]
    return Planted("baseline-below-one", None, 100 * true)


def rate_of_one(table: Table, chance: random.Random) -> Planted | None:
    i = len(table.rows) - 1
    true = table.rows[i]["tokens_per_s"]
    table.rows = [row | {"tokens_per_s": row["tokens_per_s"] / row["devices"]} for row in table.rows]
    return Planted("rate-of-one-rank", i, true)


def rate_multiplied(table: Table, chance: random.Random) -> Planted | None:
    i = len(table.rows) - 1
    true = table.rows[i]["tokens_per_s"]
    table.rows = [row | {"tokens_per_s": row["tokens_per_s"] * row["devices"]} for row in table.rows]
    return Planted("rate-multiplied", i, true)


def rate_typed_wrong(table: Table, chance: random.Random) -> Planted | None:
    i = _larger(table, chance)
    true = table.rows[i]["tokens_per_s"]
    table.rows[i] = table.rows[i] | {"tokens_per_s": true * chance.choice([0.88, 1.13])}
    return Planted("rate-times-time", i, true)


def total_is_not_the_parts(table: Table, chance: random.Random) -> Planted | None:
    i = _larger(table, chance)
    table.rows[i] = table.rows[i] | {"tokens_per_s_each": table.rows[i]["tokens_per_s_each"] * 0.9}
    return Planted("totals-disagree", i)


def total_shorter_than_epochs(table: Table, chance: random.Random) -> Planted | None:
    i = _larger(table, chance)
    table.rows[i] = table.rows[i] | {"total_time_s": table.rows[i]["total_time_s"] * 0.85}
    return Planted("totals-disagree", i)


def fewer_epochs(table: Table, chance: random.Random) -> Planted | None:
    """The larger sizes made a quarter of the epochs; their speed-up is the ratio of total times."""
    first, rows = table.rows[0] | {"epochs": 20, "speedup": 1.0}, []
    i = len(table.rows) - 1
    true = 0.0
    for row in table.rows[1:]:
        ratio = first["total_time_s"] / row["total_time_s"]
        rows.append(row | {"epochs": 5, "speedup": 4 * ratio, "total_time_s": row["total_time_s"] / 4})
        true = ratio
    table.rows = [first, *rows]
    return Planted("unequal-work", i, true)


def super_linear(table: Table, chance: random.Random) -> Planted | None:
    """Consistently too fast: only the ratio to the devices shows it."""
    i = len(table.rows) - 1
    row = table.rows[i]
    factor = 1.3 * (row["devices"] / table.rows[0]["devices"]) / row["speedup"]
    faster = {k: row[k] * factor for k in ("tokens_per_s", "tokens_per_s_each", "speedup", "efficiency")}
    shorter = {k: row[k] / factor for k in ("step_time_s", "epoch_time_s", "total_time_s")}
    table.rows[i] = row | faster | shorter
    return Planted("super-linear", i)


def above_the_peak(table: Table, chance: random.Random) -> Planted | None:
    i = _larger(table, chance)
    table.rows[i] = table.rows[i] | {"mfu": 1.33}
    return Planted("mfu-impossible", i)


def row_copied(table: Table, chance: random.Random) -> Planted | None:
    copied = ("step_time_s", "epoch_time_s", "total_time_s", "tokens_per_s")
    table.rows[1] = table.rows[1] | {k: table.rows[0][k] for k in copied}
    table.digits = {c: d + 3 * (c in copied) for c, d in table.digits.items()}
    return Planted("figures-copied", 1)


# Fault -> the columns with which the table proves it, and what plants it.
FAULTS: dict[str, tuple[tuple[str, ...], Plant]] = {
    "speed-up retyped": (("speedup", "tokens_per_s"), speedup_wrong),
    "efficiency retyped": (("speedup", "efficiency"), efficiency_wrong),
    "efficiency of one device, baseline of two": (("speedup", "efficiency", "base2"), efficiency_of_one_device),
    "rate of one rank called total": (("tokens_per_s", "step_time_s", "global_batch", "seq_len"), rate_of_one),
    "total rate multiplied by the ranks": (("tokens_per_s", "step_time_s", "global_batch", "seq_len"), rate_multiplied),
    "one rate retyped": (("tokens_per_s", "step_time_s", "global_batch", "seq_len"), rate_typed_wrong),
    "total is not devices x per device": (("tokens_per_s", "tokens_per_s_each"), total_is_not_the_parts),
    "total time below epochs x epoch time": (("epochs", "epoch_time_s", "total_time_s"), total_shorter_than_epochs),
    "20 epochs compared with 5": (("epochs", "total_time_s", "speedup"), fewer_epochs),
    "faster than linear": (("speedup",), super_linear),
    "MFU above 100 %": (("mfu",), above_the_peak),
    "row copied": (("tokens_per_s", "total_time_s"), row_copied),
}
# What else a fault drags along: other codes that are true of the same table.
ALONE = {
    "fewer_epochs": (
        "tokens_per_s",
        "tokens_per_s_each",
        "step_time_s",
        "epoch_time_s",
        "efficiency",
        "steps",
        "global_batch",
    )
}


def faulty_table(name: str, chance: random.Random) -> tuple[Table, Planted]:
    needed, plant = FAULTS[name]
    while True:
        table = sound_table(chance, needed)
        dropped = set(ALONE.get(plant.__name__, ()))
        table.columns = [c for c in table.columns if c not in dropped]
        table.rows = [dict(row) for row in table.rows]
        if table.rows[-1]["devices"] > table.rows[0]["devices"] and _strong(table, name):
            planted = plant(table, chance)
            if planted is not None:
                return replace(table, rows=table.rows), planted


def _strong(table: Table, name: str) -> bool:
    """Faults of totals and of epochs are planted into tables of fixed work."""
    batches = {row["global_batch"] for row in table.rows}
    return len(batches) == 1 or name not in ("20 epochs compared with 5", "row copied")
