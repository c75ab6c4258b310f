"""Which charts a report has: what each shows, which campaigns ask for it, when it has something to show."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scalebench.campaign.loaded import LoadedCampaign


@dataclass(frozen=True)
class Entry:
    caption: str
    asked: Callable[[LoadedCampaign], bool]  # known before anything ran: the workflow draws it
    shown: Callable[[Any, dict[str, Any]], bool]  # from cells.csv and scaling_report.json: the page shows it


def _values(loaded: LoadedCampaign, *keys: str) -> int:
    """How many different values of some keys of the batch or the workload the cells have."""
    return len({tuple(_of(cell, key) for key in keys) for cell in loaded.cells})


def _of(cell: Any, key: str) -> Any:
    places = {"devices": cell.batch.n_devices, "global": cell.batch.global_, "micro": cell.batch.micro}
    return places[key] if key in places else getattr(cell.workload, key)


def always(*_: Any) -> bool:
    return True


def _sizes(loaded: LoadedCampaign) -> bool:
    return _values(loaded, "devices") > 1


def _scaled(_: Any, report: dict[str, Any]) -> bool:
    return any(s["kind"] for s in report["series"])


GALLERY = {
    "ranking": Entry(
        "Throughput of every cell, the fastest first. Dots are runs, black lines 95 % intervals over runs; an interval that leaves the "
        "chart is in the table.",
        always,
        always,
    ),
    "throughput": Entry(
        "Throughput against the number of devices. Dots are runs, marks are cells with 95 % intervals over runs, "
        "the dashed line is the best baseline times the number of devices. Series stand side by side; an interval that leaves "
        "the chart is in the table.",
        _sizes,
        always,
    ),
    "speedup": Entry(
        "Speed-up of each series relative to itself at its smallest world size; the dashed line is ideal.", _sizes, _scaled
    ),
    "efficiency": Entry(
        "The same as a part of the ideal speed-up. 1: N devices do N times the work of one in the same time.", _sizes, _scaled
    ),
    "waterfall": Entry(
        "From the ideal time of a step (the baseline's, divided among the devices in strong scaling) to the measured one. What nothing "
        "measured is unknown and stays in the unexplained part; traced shares are applied to the timed step.",
        _sizes,
        _scaled,
    ),
    "step_time": Entry(
        "Time of an optimizer step with all of its micro-batches, the slowest rank's. All steps of all runs of a cell; no line below 20 steps.",
        always,
        always,
    ),
    "loss_step": Entry(
        "Training loss of every cell, smoothed, against the optimizer step. Cells with the same workload and global batch must lie on "
        "one line. Diamonds: loss on held-out samples after the last step.",
        always,
        lambda cells, _: bool(cells["n"].any()),
    ),
    "loss_seconds": Entry(
        "The same losses against the seconds of the window: what throughput is worth. The dashed line is the target that “time to "
        "loss” is the time to. Steps of the warm-up train as well, but are not timed.",
        always,
        lambda cells, _: bool(cells["n"].any()),
    ),
    "job_time": Entry("What a whole run took. Rates are of the timed window alone.", always, always),
    "memory": Entry(
        "Weights, gradients and optimizer state on the fullest device just before an update, beside what the ZeRO paper's "
        "model says. The difference is buffers, and weights that a strategy gathers and keeps.",
        always,
        always,
    ),
    "utilization": Entry(
        "How busy the devices were in the window. Busy is not fast: a GPU that waits inside a kernel counts as busy.",
        always,
        lambda cells, _: bool(cells["device_load"].notna().any()),
    ),
    "energy": Entry(
        "Energy of the devices per token, by their counters.",
        lambda loaded: any(cell.execution.device != "cpu" for cell in loaded.cells),
        lambda cells, _: bool(cells["joules_per_token"].notna().any()),
    ),
    "batch_size": Entry(
        "Step time and throughput against the batch. Band: 5 to 95 % of the steps; bars: 95 % interval over runs.",
        lambda loaded: _values(loaded, "global", "devices") > _values(loaded, "devices")
        or _values(loaded, "micro", "devices") > _values(loaded, "devices"),
        always,
    ),
    "seq_len": Entry(
        "Step time and throughput against the sequence length. Band: 5 to 95 % of the steps; bars: 95 % interval over runs.",
        lambda loaded: _values(loaded, "seq_len") > 1,
        always,
    ),
}  # fmt: skip
COMPARISON = (
    "B over A in every pair, both runs one after the other on the same devices. Black: mean with its 95 % interval over pairs. "
    "Crosses: A against A, what the method sees where there is nothing to see."
)


def charts_of(loaded: LoadedCampaign) -> list[str]:
    """The charts of a campaign's report, in their order there."""
    return [name for name, entry in GALLERY.items() if entry.asked(loaded)]


def tables_of(loaded: LoadedCampaign) -> list[str]:
    """The tables of a campaign's report; those of scaling where it has more than one size."""
    return ["scaling", "strong", "weak"] if _sizes(loaded) else ["scaling"]
