"""The chart catalog: what each chart shows, which campaigns ask for it, when it has something to show."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scaleproof.ground.campaign.loaded import LoadedCampaign
    from scaleproof.ground.records.scaling_report import ScalingReport


def always_drawn(*_: Any) -> bool:
    """Condition of a chart that every campaign has."""
    return True


@dataclass(frozen=True)
class Chart:
    """An entry of the catalog; `charts` has a function of its name."""

    title: str
    caption: str
    planned: Callable[["LoadedCampaign"], bool] = always_drawn  # known before anything ran: the workflow draws it
    has_content: Callable[[Any, "ScalingReport"], bool] = always_drawn  # from cells.csv and scaling_report.json
    rule: str = "charts"  # of the workflow, which draws it
    row: float = 0.0  # inches a cell; without them a chart is as high as all others
    panels: int = 1  # pairs of axes side by side
    banded: bool = False  # forecasts stand beside what was measured


def _count_values(loaded: "LoadedCampaign", *keys: str) -> int:
    """How many different combinations of the values of `keys` the cells have."""
    return len({tuple(_cell_value(cell, key) for key in keys) for cell in loaded.cells})


def _cell_value(cell: Any, key: str) -> Any:
    """A cell's value of `key`: "devices", the "global" or "micro" batch, or a key of the workload."""
    values = {"devices": cell.batch.n_devices, "global": cell.batch.global_, "micro": cell.searched or cell.batch.micro}
    return values[key] if key in values else getattr(cell.workload, key)


def _is_trained(loaded: "LoadedCampaign") -> bool:
    """Whether the cells are of the trainer: of a command nothing is known but what it prints."""
    return loaded.campaign.workload.command is None


def _has_sizes(loaded: "LoadedCampaign") -> bool:
    """Whether the cells have several numbers of devices."""
    return _count_values(loaded, "devices") > 1


def _has_batches(loaded: "LoadedCampaign") -> bool:
    """Whether cells of the trainer differ in a batch on as many devices: beside sizes, the batch is varied."""
    sizes = _count_values(loaded, "devices")
    return _is_trained(loaded) and any(_count_values(loaded, batch, "devices") > sizes for batch in ("global", "micro"))


def _is_scaled(_: Any, report: "ScalingReport") -> bool:
    """Whether a series has strong or weak scaling."""
    return any(series.kind for series in report.series)


def _has_three_sizes(_: Any, report: "ScalingReport") -> bool:
    """Whether a series has three sizes: of two, the table and the chart of throughput say all."""
    return any(series.kind and len(series.runs) > 2 for series in report.series)


def _has_runs(cells: Any, _: "ScalingReport") -> bool:
    """Whether a cell has runs with numbers."""
    return bool(cells["n"].any())


def _several_cells(cells: Any, _: "ScalingReport") -> bool:
    """Whether several cells have runs with numbers."""
    return bool((cells["n"] > 0).sum() > 1)


def _has_column(column: str) -> Callable[[Any, "ScalingReport"], bool]:
    """The condition that a cell has a value in `column`."""
    return lambda cells, _: bool(cells[column].notna().any())


CATALOG = {
    "ranking": Chart(
        "Throughput of all cells",
        "Dots: runs; thin lines: 95 % intervals over runs; an arrow: the interval goes on, see the table. Of one "
        "size, cells that share a letter cannot be told apart.",
        has_content=_has_runs,
        row=0.3,
    ),
    "throughput": Chart(
        "Throughput and devices",
        "Dots: runs; marks: cells with 95 % intervals over runs, series side by side; dashed, for a series of several "
        "sizes: the best baseline times the number of devices. A red ring: the number has a finding; an arrow: the "
        "interval goes on, see the table.",
        _has_sizes,
        _is_scaled,
        banded=True,
    ),
    "speedup": Chart(
        "Speed-up",
        "Of each series relative to itself at its smallest number of devices, with 95 % intervals; dashed: ideal.",
        _has_sizes,
        _has_three_sizes,
        banded=True,
    ),
    "efficiency": Chart(
        "Scaling efficiency",
        "Speed-up over the ideal one, with 95 % intervals. 1: N devices do N times the work of one in the same time.",
        _has_sizes,
        _has_three_sizes,
    ),
    "waterfall": Chart(
        "Where scaling is lost",
        "Ideal: the baseline's step, divided among the devices in strong scaling. What nothing measured is unknown "
        "and stays in the unexplained part; traced shares are applied to the timed step.",
        _has_sizes,
        _is_scaled,
        rule="waterfall",
    ),
    "forecast": Chart(
        "Forecasts",
        "Time of a step as it was forecast before the run: the band is the interval, the line its value; the dot is "
        "what was measured afterwards, red where it is outside.",
        lambda loaded: loaded.campaign.forecast.enabled,
        rule="forecast_report",
    ),
    "step_time": Chart(
        "Step times",
        "All steps of all runs of a cell, each with all of its micro-batches on the slowest rank. Stroke: median; "
        "box: 25-75 %; line: 5-95 %, from 20 steps on.",
        has_content=_has_runs,
        row=0.4,
    ),
    "job_time": Chart(
        "Time of a whole run", "Median over runs. Rates are of the timed window alone.", has_content=_has_runs, row=0.3
    ),
    "loss_step": Chart(
        "Loss and steps",
        "Mean over runs. Cells with the same workload and global batch must lie on one line. Diamonds: validation "
        "loss after the last step.",
        has_content=_has_column("loss_last"),  # programs may show none
        rule="loss_charts",
    ),
    "loss_seconds": Chart(
        "Loss and time",
        "The same losses against the seconds of the window. Dashed: the target of “time to "
        "loss”. Steps of the warm-up train as well, but are not timed.",
        has_content=_has_column("loss_last"),  # programs may show none
        rule="loss_charts",
    ),
    "memory": Chart(
        "Memory",
        "Weights, gradients and optimizer state on the fullest device just before an update, beside the ZeRO paper's "
        "model. The difference is buffers, and weights that a strategy gathers and keeps.",
        _is_trained,
        has_content=_has_runs,
        row=0.3,
    ),
    "utilization": Chart(
        "Utilization",
        "In the window. Busy is not fast: a GPU that waits inside a kernel counts as busy.",
        _is_trained,
        has_content=_has_column("max_cuda_mem_allocated_bytes"),  # a process on a CPU is busy whenever it runs
        row=0.3,
    ),
    "energy": Chart(
        "Energy per token",
        "Of the devices, by their counters. Dots: runs.",
        lambda loaded: _is_trained(loaded) and any(cell.execution.device != "cpu" for cell in loaded.cells),
        _has_column("joules_per_token"),
        row=0.3,
    ),
    "batch_size": Chart(
        "Batch size",
        "Step time and throughput against the batch. Band: 5 to 95 % of the steps; bars: 95 % interval over runs.",
        _has_batches,
        _several_cells,
        panels=2,
    ),
    "seq_len": Chart(
        "Sequence length",
        "Step time and throughput against the sequence length. Band: 5 to 95 % of the steps; bars: 95 % interval over "
        "runs.",
        lambda loaded: _count_values(loaded, "seq_len") > 1,
        _several_cells,
        panels=2,
    ),
}
COMPARISON = Chart(
    "A against B",
    "B over A in every pair, both runs one after the other on the same devices. Diamond: mean with its 95 % interval "
    "over pairs. Crosses: A against A, what the method shows where there is no difference.",
)


def charts_drawn_by(rule: str) -> list[str]:
    """The charts that a rule of the workflow draws, for every campaign: one without content says so."""
    return [name for name, chart in CATALOG.items() if chart.rule == rule]


def charts_of(loaded: "LoadedCampaign") -> list[str]:
    """The charts of a campaign's report, in their order there."""
    return [name for name, chart in CATALOG.items() if chart.planned(loaded)]


def tables_of(loaded: "LoadedCampaign") -> list[str]:
    """The tables of a campaign's report; tables of scaling only where it has several sizes."""
    return ["scaling", "strong", "weak"] if _has_sizes(loaded) else ["scaling"]
