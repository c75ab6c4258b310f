"""Every column of the tables of a campaign, once: its name, heading, unit, definition, and how it is printed.

Tables, page, docs/reference.md, `verify` and `scaleproof.columns()` read it; what computes a figure stands elsewhere.
"""

import math
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from scaleproof.ground.number_format import estimate, number

if TYPE_CHECKING:  # with it come numpy and scipy
    from scaleproof.ground.confidence import Estimate
    from scaleproof.ground.records.result_file import Estimated

# configured: left out of a table in which it never changes. learnt: a loss. note: words beside the figures.
Group = Literal["cell", "configured", "rate", "figure", "ratio", "learnt", "note"]
Combined = Literal["largest", "mean"]
TEXT = "text"  # the unit of words; all other columns are numbers
RUNS, CELLS = "runs.csv", "cells.csv"
BOTH = "runs.csv and cells.csv"
SCALING, SERIES = "tables/scaling.csv", "tables/strong.csv and weak.csv"
INTERVAL = " (95 %)"


@dataclass(frozen=True)
class Column:
    """`heading`: in tables for people; a column without heading is in files alone. `unit`: of the stored figure."""

    name: str
    heading: str
    group: Group
    unit: str
    definition: str = ""
    file: str = BOTH
    factor: float = 1.0  # the printed figure over the stored one
    digits: int = 3  # significant ones, printed
    least: float = 0.0
    most: float = math.inf
    over_runs: Combined | None = None  # how a cell's figure comes of its runs' figures, if in one of these ways
    setting: str = ""  # its key in the effective configuration
    in_series: str = ""  # its heading in the tables of strong and weak scaling, if different
    figure: str = ""  # the column of cells.csv with the same figure, if its name is different

    @property
    def interval(self) -> bool:
        """Whether columns with `_low` and `_high` stand beside it."""
        return self.heading.endswith(INTERVAL)

    @property
    def series_heading(self) -> str:
        """The heading in the tables of strong and weak scaling."""
        return self.in_series or self.heading

    @property
    def is_text(self) -> bool:
        """Whether it holds words; all other columns hold numbers."""
        return self.unit == TEXT

    def text(self, value: float | None) -> str:
        """Return a stored figure as it is printed; a dash for None."""
        return number(None if value is None else value * self.factor, self.digits)

    def estimate(self, interval: "Estimated | None") -> str:
        """Return a stored figure with its interval, as it is printed."""
        return estimate(interval, self.factor, self.digits)

    def fault_of(self, values: Iterable[object]) -> str:
        """Return what is wrong with the first faulty value, "loss is -1.0". "" where none is faulty.

        Unknown values (None, NaN) are no fault, and columns of text have none.
        """
        faults = map(self._fault_of_value, () if self.is_text else values)
        return next(filter(None, faults), "")

    def _fault_of_value(self, value: object) -> str:
        """Return what is wrong with a stored value, or ""."""
        if value is None:
            return ""
        if isinstance(value, int | float):
            return f"{self.name} is {value}" if value < self.least or value > self.most else ""
        try:
            float(str(value))  # where one value of a column is no number, all values come as texts
        except ValueError:
            return f"{self.name} is {str(value)[:40]!r}, no number"
        return ""


# `heading`: empty for a column that is printed in no table. `more`: further fields of the column.


def _setting(name: str, heading: str, unit: str, section: str, group: Group = "configured", **more: Any) -> Column:
    """Return the column of a key of the configuration. `section`: where the key stands."""
    return Column(name, heading, group, unit, setting=f"{section}.{name}", **more)


def _figure(name: str, heading: str, unit: str, definition: str, file: str = BOTH, **more: Any) -> Column:
    return Column(name, heading, "figure", unit, definition, file, **more)


def _seconds(name: str, heading: str, definition: str, file: str = BOTH) -> Column:
    """Return the column of a time, stored in seconds, printed in milliseconds where its heading says so."""
    return _figure(name, heading, "s", definition, file, factor=1e3 if "(ms)" in heading else 1.0)


def _bytes(name: str, heading: str, definition: str) -> Column:
    """Return the column of an amount of memory, in bytes, printed in megabytes; a cell has the largest of its runs."""
    return _figure(name, heading, "bytes", definition, factor=1e-6 if heading else 1.0, over_runs="largest")


def _rate(name: str, definition: str, file: str = BOTH, **more: Any) -> Column:
    return Column(name, "tokens/s" + INTERVAL, "rate", "tokens/s", definition, file, digits=4, **more)


def _ratio(name: str, heading: str, definition: str, file: str = SCALING, **more: Any) -> Column:
    return Column(name, heading + INTERVAL, "ratio", "", definition, file, **more)


def _learnt(name: str, heading: str, unit: str, definition: str, file: str = CELLS, **more: Any) -> Column:
    return Column(name, heading, "learnt", unit, definition, file, **more)


def _note(name: str, heading: str, definition: str, file: str) -> Column:
    """Return the column of words that stand beside the figures."""
    return Column(name, heading, "note", TEXT, definition, file)


RATE_OF_CELL = (
    "all tokens over all time of the timed windows of a cell's runs; interval: Student's t over runs, on the logarithm "
    "of their rates"
)
_ENTRIES = (
    # What was run.
    Column("cell", "", "cell", TEXT),
    Column("repeat", "", "cell", "runs", file=RUNS, least=1),
    _note("status", "", "ok, or failed", RUNS),
    _note("failure", "", "the class of a failure", RUNS),
    _note("reason", "", "the reason of a failure", RUNS),
    Column("evidence", "evidence", "configured", TEXT, "what stands behind the figures: printed, watched or built"),
    _setting("task", "task", TEXT, "workload"),
    _setting("strategy", "strategy", TEXT, "execution", "cell"),
    _setting("precision", "precision", TEXT, "execution"),
    _setting("geometry", "nodes x devices", TEXT, "execution", "cell"),
    _setting("threads_per_device", "threads/device", "threads", "execution"),
    _setting("attention", "attention", TEXT, "execution"),
    _setting("compile", "compile", TEXT, "execution"),
    _setting("activation_checkpointing", "act. ckpt", TEXT, "execution"),
    _setting("fused_optimizer", "fused opt.", TEXT, "execution"),
    _setting("bucket_elements", "bucket", TEXT, "execution"),
    _setting("model", "model", TEXT, "workload"),
    _setting("vocab_size", "embedding rows", "rows", "workload"),
    _setting("corpus", "corpus", TEXT, "workload"),
    _setting("tokenizer", "tokenizer", TEXT, "workload"),
    _setting("seq_len", "seq len", "tokens", "workload"),
    _setting("micro_batch", "micro-batch", "samples", "work"),
    _setting("accumulation", "accum.", "micro-batches", "work"),
    _setting(
        *("global_batch", "global batch", "samples", "work"),
        definition="samples per optimizer step: micro-batch x accumulation x devices",
    ),
    _setting("seed", "seed", "", "work"),
    Column("nodes", "", "cell", "nodes"),
    Column("devices", "devices", "cell", "devices"),
    Column("runs", "", "note", "runs", "all runs, failed ones too", CELLS),
    Column("n", "n", "note", "runs", "measured runs, each in its own processes", CELLS),
    # Rates and times of the window.
    _figure("tokens", "", "tokens", "tokens of the window", RUNS),
    _seconds("wall_time_s", "", "wall time of the window", RUNS),
    _rate("tokens_per_s", RATE_OF_CELL),
    _rate("tokens_per_sec_global", RATE_OF_CELL, SERIES, figure="tokens_per_s"),
    _figure("tokens_per_s_median", "", "tokens/s", "median of the rates of a cell's runs", CELLS),
    _figure("samples_per_s", "samples/s", "samples/s", "all samples over all time of the timed windows"),
    _figure("tokens_per_s_per_device", "tokens/s/device", "tokens/s", "tokens/s over the number of devices"),
    _seconds("step_time_mean_s", "", "mean over the steps of the window", RUNS),
    _seconds("step_time_p05_s", "", "5 % quantile over the steps of all runs", CELLS),
    _seconds("step_time_p25_s", "", "25 % quantile over the steps of all runs", CELLS),
    _seconds(
        "step_time_p50_s", "step p50 (ms)", "median over the steps of all runs, each step that of its slowest rank"
    ),
    _seconds("step_time_p75_s", "", "75 % quantile over the steps of all runs", CELLS),
    _seconds(
        "step_time_p95_s", "step p95 (ms)", "95 % quantile over the steps of all runs; none for fewer than 20 steps"
    ),
    _seconds("step_time_max_s", "", "the longest step of all runs", CELLS),
    _figure("steps", "", "steps", "timed steps (of a command printed lines); of a cell those of all runs"),
    _figure("data_wait_share", "", "", "part of a step that waits for its samples"),
    # Ratios.
    _ratio(
        "fastest_over",
        "fastest over this",
        "tokens/s of the fastest cell of the same size over that of this one; simultaneous 95 % intervals of all pairs "
        "of that size, with their ratios to one device",
    ),
    _ratio(
        "speedup",
        "speed-up",
        "tokens/s of the timed window over that of the same series at its smallest number of devices; 95 % "
        "intervals hold together with those of fastest over this where the baseline is among the cells compared; else "
        "a single one; none for fewer than 3 repeats",
        in_series="speed-up by tokens/s" + INTERVAL,
    ),
    _ratio("scaling_efficiency", "efficiency", "speed-up over the ratio of the numbers of devices"),
    _ratio(
        "speedup_vs_best_single",
        "vs fastest 1-device",
        "tokens/s over that of the fastest cell with one device that does the same work (batch, model, data) with the "
        "same settings, strategy apart; intervals hold together with those of fastest over this; of the only cell of "
        "its size a single one, as that of the speed-up",
    ),
    _ratio(
        "speedup_by_job_wall_time",
        "speed-up by wall time of the job",
        "wall time of the baseline's whole job over that of this one: from the launcher's start to the last result, "
        "with start-up, warm-up and validation",
        SERIES,
    ),
    _ratio(
        "karp_flatt",
        "Karp-Flatt",
        "serial fraction (1/S - 1/N) / (1 - 1/N) that a speed-up S on N devices stands for",
        SERIES,
        least=-math.inf,
    ),
    _note(
        "letters",
        "group",
        "of the cells of one size, those that share a letter cannot be told apart, with 95 % for all pairs together; "
        "none for fewer than 3 repeats",
        SCALING,
    ),
    Column("series", "series", "cell", TEXT, file=SCALING),
    _note("kind", "scaling", "strong or weak", SCALING),
    _note("overhead_only", "", "a sharding strategy on one device: there is nothing to shard", SCALING),
    _note("baseline", "", "the cell that the speed-up is relative to", SCALING),
    _note("best_single", "", "the fastest cell with one device that does the same work", SCALING),
    _note("is_fastest", "", "no cell of its size has a higher rate", SCALING),
    _note("incomparable", "", "what forbids a ratio to the baseline", SCALING),
    _note("best_single_incomparable", "", "what forbids a ratio to the fastest cell with one device", SCALING),
    _seconds("window_wall_time_sec", "", "wall time of the window, median over runs", SERIES),
    _note(
        "verdict",
        "rating",
        "in words where the efficiency's whole interval is: low below 0.7, excellent from 0.85",
        SERIES,
    ),
    # Losses.
    _figure("loss_first", "", "nats", "training loss of the first timed step", RUNS, least=-math.inf),
    _figure(
        *("loss_last", "", "nats", "training loss of the last timed step; of a cell that of its first run"),
        least=-math.inf,  # of somebody's program a loss may be less than 0
    ),
    _learnt(
        "validation_loss",
        "val. loss",
        "nats",
        "mean over runs of the loss on the validation samples after the window",
        BOTH,
        digits=5,
        over_runs="mean",
    ),
    _figure(
        "perplexity", "perplexity", "", "mean over runs of e to the power of the validation loss", over_runs="mean"
    ),
    _figure(
        "accuracy",
        "accuracy",
        "",
        "mean over runs of the part of the validation samples that is classified correctly",
        most=1,
        over_runs="mean",
    ),
    _learnt("target_loss", "target loss", "nats", "what the time to loss is the time to", digits=5),
    _learnt(
        "time_to_loss_s",
        "time to loss (s)" + INTERVAL,
        "s",
        "seconds in the window until the smoothed training loss falls to the target loss",
    ),
    _note("time_to_loss_why", "", "why there is no time to loss", CELLS),
    _figure(
        "steps_to_loss",
        "",
        "steps",
        "steps (of a command printed lines) until the smoothed training loss falls to the target loss",
        CELLS,
    ),
    # Hardware.
    _figure("mfu", "MFU", "", "model FLOPs per second over the peak of the devices"),
    _figure("device_load", "", "", "part of the window in which the devices were busy"),
    _figure("joules_per_token", "mJ/token", "J/token", "energy of the devices in the window over tokens", factor=1e3),
    _figure("skipped_steps", "", "steps", "steps of the window without an update", RUNS),
    _bytes(
        "state_bytes", "state (MB)", "weights, gradients and optimizer state on the fullest device, largest over runs"
    ),
    _bytes("state_bytes_predicted", "ZeRO model (MB)", "weights, gradients, moments by the model of the ZeRO paper"),
    _bytes("max_rss_bytes", "", "peak of a rank's resident memory"),
    _bytes(
        "max_cuda_mem_allocated_bytes",
        "peak allocated (MB)",
        "peak of the memory allocated on the fullest device, largest over runs",
    ),
    _figure("max_cuda_mem_reserved_bytes", "", "bytes", "peak of the memory that torch's allocator reserved", RUNS),
    # Times of the whole run.
    _seconds("startup_s", "start-up (s)", "launch and set-up, median over runs"),
    _seconds("warmup_s", "", "warm-up, median over runs"),
    _seconds("first_step_s", "", "first step of the warm-up", RUNS),
    _seconds("window_s", "", "wall time of the window, median over runs", CELLS),
    _seconds("total_wall_time_s", "", "from the launcher's start to the last result, median over runs"),
    # Where a row comes from, and what to think of it.
    _note("timestamp_utc", "", "when the run began", RUNS),
    _note("git_commit", "", "the commit of the code that ran", RUNS),
    _note("fingerprint", "", "the hash of everything that makes runs comparable", RUNS),
    _note("metrics", "", "the file that the row was made from", RUNS),
    _note("sha256", "", "the hash of that file", RUNS),
    _note("failures", "", "class and reason of the failed runs", CELLS),
    _note("findings", "findings", "codes of the checks' findings", CELLS),
)
COLUMNS = {column.name: column for column in _ENTRIES}
CONFIGURED = tuple(column.name for column in _ENTRIES if column.group == "configured")
# The tables, as the names of their columns. First the columns of the public tables that people quote, then what those
# leave out: interval, baseline, n, findings.
CELLS_TABLE = (
    *("evidence", "task", "strategy", "precision", "model", "vocab_size", "seq_len", "corpus", "tokenizer"),
    *("attention", "compile", "activation_checkpointing", "fused_optimizer", "bucket_elements", "threads_per_device"),
    *("seed", "geometry"),
    *("micro_batch", "accumulation", "global_batch", "tokens_per_s", "samples_per_s", "n", "letters", "kind"),
    *("fastest_over", "speedup", "scaling_efficiency", "speedup_vs_best_single", "tokens_per_s_per_device"),
    *("mfu", "validation_loss", "perplexity", "accuracy", "time_to_loss_s", "target_loss", "step_time_p50_s"),
    *("step_time_p95_s", "state_bytes", "state_bytes_predicted", "max_cuda_mem_allocated_bytes", "joules_per_token"),
    *("startup_s", "findings"),
)


def columns_in_group(group: Group) -> list[Column]:
    """Return the columns of CELLS_TABLE that belong to a group."""
    return [COLUMNS[name] for name in CELLS_TABLE if COLUMNS[name].group == group]


# What a narrow table shows: LaTeX columns, and the first view of the page.
MAIN = ("tokens_per_s", "n", "letters", *(column.name for column in columns_in_group("ratio")))
# The tables of strong and weak scaling, and what of them scaling_report.json has of each size.
SERIES_TABLE = (
    *("series", "devices", "tokens_per_sec_global", "n", "speedup", "scaling_efficiency", "verdict"),
    *("speedup_by_job_wall_time", "karp_flatt", "findings"),
)
SERIES_FIGURES = tuple(name for name in SERIES_TABLE if COLUMNS[name].interval)


def combined_columns(by: Combined) -> list[str]:
    """Return the columns of cells.csv that are, as `by` says, the largest or the mean over the runs of a cell."""
    return [column.name for column in _ENTRIES if column.over_runs == by]


def bounds_columns(name: str, figure: "Estimate | Estimated | None") -> dict[str, float | None]:
    """Return the columns NAME, NAME_low and NAME_high of a figure with its interval; None where it is unknown."""
    value, low, high = (figure.value, figure.low, figure.high) if figure else (None, None, None)
    return {name: value, f"{name}_low": low, f"{name}_high": high}


def columns_reference() -> str:
    """Return the list of columns, file by file, that docs/reference.md has."""
    parts = []
    for file in dict.fromkeys(column.file for column in _ENTRIES):
        entries = [_column_entry(column) for column in _ENTRIES if column.file == file]
        lines = [textwrap.fill(entry, 118, subsequent_indent="  ") for entry in entries]
        parts.append("\n".join([f"In {file}:", "", *lines]))
    return "\n\n".join(parts) + "\n"


def _column_entry(column: Column) -> str:
    """Return a line of the list of columns: "- `name` (“heading”, unit): what it means"."""
    heading = f"“{column.heading}”" if column.heading else ""
    facts = ", ".join(fact for fact in (heading, column.unit) if fact)
    meaning = column.definition or (f"`{column.setting}` of the configuration" if column.setting else "")
    entry = f"- `{column.name}`"
    if facts:
        entry += f" ({facts})"
    return f"{entry}: {meaning}" if meaning else entry


if __name__ == "__main__":
    print(columns_reference(), end="")
