"""The chart catalog: what each chart shows, which campaigns ask for it, when it has something to show."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scaleproof.ground.campaign.loaded import LoadedCampaign
    from scaleproof.ground.records.scaling_report import ScalingReport


def always_drawn(*_: Any) -> bool:
    """Return True: the condition of a chart that every campaign has."""
    return True


@dataclass(frozen=True)
class Chart:
    """An entry of the catalog; `charts` has a function of its name, `CHART_WORDS` its title and caption."""

    planned: Callable[["LoadedCampaign"], bool] = always_drawn  # does a campaign have it? The workflow then draws it
    has_content: Callable[[Any, "ScalingReport"], bool] = always_drawn  # takes cells.csv and scaling_report.json
    rule: str = "charts"  # the rule of the workflow that draws it
    inches_per_cell: float = 0.0  # height of the row of a cell; a chart without such rows is as high as all others
    panels: int = 1  # pairs of axes, one below the other
    banded: bool = False  # are forecasts drawn beside what was measured?


def _count_values(loaded: "LoadedCampaign", *keys: str) -> int:
    """Return how many different combinations of the values of `keys` ("devices", "micro") the cells have."""
    combinations = set()
    for cell in loaded.cells:
        values = {
            "devices": cell.batch.n_devices,
            "global": cell.batch.global_,
            "micro": cell.searched or cell.batch.micro,  # "largest" or "fastest" where trials find it
            "seq_len": cell.workload.seq_len,
        }
        combinations.add(tuple(values[key] for key in keys))
    return len(combinations)


def _is_trained(loaded: "LoadedCampaign") -> bool:
    """Return whether the trainer runs the cells: nothing is known of a command but what it prints."""
    return loaded.campaign.workload.command is None


def _may_count_energy(loaded: "LoadedCampaign") -> bool:
    """Return whether cells of the trainer may run on devices with an energy counter, which CPUs have not."""
    return _is_trained(loaded) and any(cell.execution.device != "cpu" for cell in loaded.cells)


def _has_sizes(loaded: "LoadedCampaign") -> bool:
    return _count_values(loaded, "devices") > 1


def _has_batches(loaded: "LoadedCampaign") -> bool:
    """Return whether the trainer runs cells that have the same number of devices, and another batch."""
    # Then there are more pairs (batch, devices) than numbers of devices.
    sizes = _count_values(loaded, "devices")
    return _is_trained(loaded) and any(_count_values(loaded, batch, "devices") > sizes for batch in ("global", "micro"))


def _is_scaled(_: Any, report: "ScalingReport") -> bool:
    return any(series.kind for series in report.series)


def _has_three_sizes(_: Any, report: "ScalingReport") -> bool:
    """Return whether a series has three sizes; for two, the table and the chart of throughput say all."""
    return any(series.kind and len(series.runs) > 2 for series in report.series)


def _has_runs(cells: Any, _: "ScalingReport") -> bool:
    return bool(cells["n"].any())


def _has_timed_steps(cells: Any, _: "ScalingReport") -> bool:
    """Return whether a cell has timed steps: a program that is timed as a whole has none."""
    return bool((cells["steps"] > 0).any())


def _has_whole_runs(cells: Any, report: "ScalingReport") -> bool:
    """Return whether windows are known to be all of the timed steps: a printed line may be one step of twenty."""
    return _has_runs(cells, report) and not bool(((cells["evidence"] == "printed") & (cells["steps"] > 0)).any())


def _has_several_cells(cells: Any, _: "ScalingReport") -> bool:
    return bool((cells["n"] > 0).sum() > 1)


def _has_column(column: str) -> Callable[[Any, "ScalingReport"], bool]:
    """Return the condition that a cell has a value in `column`."""
    return lambda cells, _: bool(cells[column].notna().any())


CATALOG = {
    "ranking": Chart(has_content=_has_runs, inches_per_cell=0.3),
    "throughput": Chart(_has_sizes, _is_scaled, banded=True),
    "speedup": Chart(_has_sizes, _has_three_sizes, banded=True),
    "efficiency": Chart(_has_sizes, _has_three_sizes),
    "waterfall": Chart(_has_sizes, _is_scaled, rule="waterfall"),
    "forecast": Chart(lambda loaded: loaded.campaign.forecast.enabled, rule="forecast_report"),
    "step_time": Chart(has_content=_has_timed_steps, inches_per_cell=0.4),
    "job_time": Chart(has_content=_has_whole_runs, inches_per_cell=0.3),
    "loss_step": Chart(has_content=_has_column("loss_last"), rule="loss_charts"),  # programs may print no loss
    "loss_seconds": Chart(has_content=_has_column("loss_last"), rule="loss_charts"),
    "memory": Chart(_is_trained, _has_runs, inches_per_cell=0.3),
    # By the column of GPUs: a process on a CPU is busy whenever it runs.
    "utilization": Chart(_is_trained, _has_column("max_cuda_mem_allocated_bytes"), inches_per_cell=0.3),
    "energy": Chart(_may_count_energy, _has_column("joules_per_token"), inches_per_cell=0.3),
    "batch_size": Chart(_has_batches, _has_several_cells, panels=2),
    "seq_len": Chart(lambda loaded: _count_values(loaded, "seq_len") > 1, _has_several_cells, panels=2),
}


def charts_drawn_by(rule: str) -> list[str]:
    """Return the charts that a rule of the workflow draws, for every campaign: one without content says so."""
    return [name for name, chart in CATALOG.items() if chart.rule == rule]


def charts_of(loaded: "LoadedCampaign") -> list[str]:
    """Return the charts of a campaign's report, in their order there."""
    return [name for name, chart in CATALOG.items() if chart.planned(loaded)]


def tables_of(loaded: "LoadedCampaign") -> list[str]:
    """Return the tables of a campaign's report; tables of scaling only where it has several sizes."""
    return ["scaling", "strong", "weak"] if _has_sizes(loaded) else ["scaling"]
