"""scaleproof: which way of spreading GPT-2-class training over devices pays off, by how much, and how sure are we?

The Python interface: `load_runs`, `to_frame`, `audit`, `compare`, `read_trace`, `columns`, of MFU `peak`, `counts` and
`mfu`, and for training loops `watch` and `watch_callback` (docs/python.md); `workflow_file` is for Snakefiles. Each
imports what it needs when it is called, so that `import scaleproof` costs nothing.
"""

from __future__ import annotations

from functools import wraps

TYPE_CHECKING = False  # as of typing, whose import takes as long as a command has until it can be interrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path
    from typing import Literal, ParamSpec, TypeVar

    import pandas as pd
    from torch.nn import Module
    from torch.optim import Optimizer

    from scaleproof.auditor.audit import Audit
    from scaleproof.ground.columns import Column
    from scaleproof.ground.comparison import Compared
    from scaleproof.ground.facts.counts import Counts
    from scaleproof.ground.facts.peaks import DevicePeak
    from scaleproof.ground.records.profile_schema import Profile
    from scaleproof.ground.records.run import Run
    from scaleproof.measure.watch.lightning_callback import LightningWatch
    from scaleproof.measure.watch.loop import Watched
    from scaleproof.measure.watch.trainer_callback import WatchCallback

    Batch = TypeVar("Batch")
    Parameters = ParamSpec("Parameters")
    Result = TypeVar("Result")

__version__ = "0.1.0"
__all__ = [
    "audit",
    "columns",
    "compare",
    "counts",
    "load_runs",
    "mfu",
    "peak",
    "read_trace",
    "to_frame",
    "watch",
    "watch_callback",
    "workflow_file",
]


def _in_words(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Return `function` with UserError in place of an OSError, as of a file that this user may not read."""

    @wraps(function)
    def in_words(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except OSError as error:
            from scaleproof.ground.errors import UserError
            from scaleproof.ground.files import os_fault

            raise UserError(os_fault(error)) from None

    return in_words


@_in_words
def audit(*paths: str | Path, world_size: int | None = None, global_batch: int | None = None) -> Audit:
    """Check the results in files and folders, ours or anybody's; return what was read, and the findings.

    `world_size`, `global_batch`: where the files do not state them. Raises UserError where there is no result.
    """
    from scaleproof.auditor.audit import audit_paths
    from scaleproof.ground.errors import check_counts

    facts = {"world_size": world_size, "global_batch": global_batch}
    given = {key: value for key, value in facts.items() if value is not None}
    check_counts(**given)
    return audit_paths(_paths(*paths), {"": given} if given else {})


def columns() -> dict[str, Column]:
    """The columns of runs.csv, cells.csv and the tables: name -> heading, unit, definition, how it is printed."""
    from scaleproof.ground.columns import COLUMNS

    return dict(COLUMNS)


def counts(layers: int, width: int, seq_len: int, vocab_size: int = 50257) -> Counts:
    """Parameters and FLOPs of a token, forward and backward, of a GPT-2 of this shape; `source` says how they count.

    For its context of `seq_len` tokens. Another network: 6 x parameters in products + 12 x layers x width x seq_len.
    """
    from scaleproof.ground.campaign.model_shapes import ModelShape
    from scaleproof.ground.errors import check_counts
    from scaleproof.ground.facts.counts import count_gpt2

    check_counts(layers=layers, width=width, seq_len=seq_len, vocab_size=vocab_size)
    return count_gpt2(ModelShape(layers=layers, width=width, heads=1, context=seq_len), vocab_size, seq_len)


def mfu(flops_per_s: float, device: str, precision: str) -> float | None:
    """Model FLOPs utilization (PaLM, appendix B): the part of the `peak` that is reached; None where that is unknown.

    `flops_per_s`: FLOPs of a token (`counts`) x tokens per second of one device. Raises UserError above the peak.
    """
    from scaleproof.ground.errors import UserError
    from scaleproof.ground.facts.peaks import mfu as share_of_peak

    share = share_of_peak(flops_per_s, device, precision)
    if share is not None and share > 1:
        fault = f"flops_per_s {flops_per_s:.3g} is {share:.3g} times the peak of {device} in {precision}"
        raise UserError(f"{fault}; allowed: those of one device, at most its peak")
    return share


def peak(device: str, precision: str) -> DevicePeak | None:
    """Dense peak of a device in FLOP/s (`flops`) and where it is published (`source`); None where it is unknown.

    `device`: its name as the driver gives it; `precision`: fp32, tf32, bf16 or fp16. Raises UserError for another.
    """
    from scaleproof.ground.facts.peaks import peak as published_peak

    return published_peak(device, precision)


@_in_words
def load_runs(folder: str | Path) -> list[Run]:
    """Return all runs of scaleproof below `folder` (results/<campaign>, a cell, or one run), also failed ones, by path.

    A run has `metrics`, and `steps`: the raw series of all ranks, read when it is first used. Runs in one allocation
    are listed once, where they were copied to. Raises UserError where there is no run or a file cannot be read.
    """
    from scaleproof.ground.records.run import read_runs

    return read_runs(*_paths(folder))


@_in_words
def to_frame(folder: str | Path) -> pd.DataFrame:
    """Return all runs below `folder` as a table: one row each, with the columns of runs.csv (`columns`), and `unit`.

    `unit` is of the work that the rates count: of a command perhaps samples or steps, whatever the columns are called.
    Runs of an A/B comparison have its name, their pair and their arm in `comparison`, `pair` and `arm`, which are empty
    for all others. Raises UserError as `load_runs`.
    """
    from scaleproof.conclude.analysis.run_tables import add_pair_columns, runs_table
    from scaleproof.ground.columns import COLUMNS

    runs = load_runs(folder)
    table = add_pair_columns(runs_table(runs))
    # Where no run has numbers, pandas would take their columns for objects, which other tables cannot be joined with.
    empty = [name for name in table if name in COLUMNS and not COLUMNS[name].is_text and table[name].isna().all()]
    units = [getattr(run.metrics, "unit", None) for run in runs]
    return table.astype(dict.fromkeys(empty, float)).assign(unit=units)


@_in_words
def compare(a: str | Path, b: str | Path, vary: str | Sequence[str] = ()) -> list[Compared]:
    """Compare `b` with `a`: for each pair of cells the ratio b/a with its interval, or why there is none.

    `vary`: what is meant to differ, e.g. "strategy", or several. Raises UserError where a side cannot be read.
    """
    from scaleproof.auditor.compare_external import compare_external
    from scaleproof.conclude.analysis.compare_runs import are_all_own, compare_results
    from scaleproof.ground.errors import UserError

    if not isinstance(vary, str | list | tuple | set):
        raise UserError(f"vary cannot be {vary!r}; allowed: names of what is meant to differ, such as strategy")
    fields = [vary] if isinstance(vary, str) else list(vary)
    first, second = _paths(a, b)
    if are_all_own(first, second):
        return compare_results(first, second, fields)[0]
    return [compare_external(first, second, fields)]


@_in_words
def read_trace(*paths: str | Path, ranks: int | None = None, steps: int | None = None) -> Profile:
    """Return where the time of a step goes, from a summarised capture of scaleproof or from anybody's trace files.

    `ranks`, `steps`: how many the files hold, where they do not say. Raises UserError where a file cannot be read.
    """
    from scaleproof.ground.errors import check_counts
    from scaleproof.ground.records.profile_schema import PROFILE, read_profile
    from scaleproof.measure.trace.summarise import summarise_files

    given = {"ranks": ranks, "steps": steps}
    check_counts(**{name: number for name, number in given.items() if number is not None})
    places = _paths(*paths)
    if len(places) == 1 and (places[0].name == PROFILE or (places[0] / PROFILE).is_file()):
        return read_profile(places[0])
    return summarise_files(places, ranks, steps)


def watch(
    batches: Iterable[Batch], model: Module, optimizer: Optimizer, folder: str | Path | None = None
) -> Watched[Batch]:
    """Return the `batches` for a training loop to iterate over in their place; what the loop does is recorded.

    `model` and `optimizer`: those that train, after DDP or FSDP have wrapped them. `folder`: for the record, which
    `scaleproof watched` reads; by default SCALEPROOF_WATCH where it is set, else scaleproof-watch.
    """
    from scaleproof.measure.watch.loop import Watched

    return Watched(batches, model, optimizer, folder and _paths(folder)[0])


def watch_callback(
    folder: str | Path | None = None, of: Literal["transformers", "lightning"] = "transformers"
) -> WatchCallback | LightningWatch:
    """For the Trainer of transformers or Lightning what `watch` is for a loop: `callbacks=[watch_callback()]`."""
    from scaleproof.ground.errors import UserError, did_you_mean

    folder = folder and _paths(folder)[0]
    if of not in (known := ("transformers", "lightning")):
        raise UserError(f'of cannot be "{of}"; allowed: {", ".join(known)}.{did_you_mean(of, known)}')
    if of == "lightning":
        from scaleproof.measure.watch.lightning_callback import LightningWatch

        return LightningWatch(folder)
    from scaleproof.measure.watch.trainer_callback import WatchCallback

    return WatchCallback(folder)


def workflow_file() -> str:
    """The Snakefile of this version: `snakefile: workflow_file()` under `module scaleproof:` of another workflow."""
    from pathlib import Path

    return str(Path(__file__).with_name("workflow_files").joinpath("workflow", "Snakefile").resolve())


def _paths(*given: str | Path) -> list[Path]:
    """Return what is given as paths. Raises UserError where nothing is, or one is something else."""
    from os.path import expanduser
    from pathlib import Path

    from scaleproof.ground.errors import UserError, shortened

    strange = [path for path in given if not isinstance(path, str | Path) or path == ""]
    if strange or not given:
        what = f"not {shortened(repr(strange[0]))}" if strange else "and none is given"
        raise UserError(f"each argument is the path of a file or folder, {what}")
    return [Path(expanduser(path)) for path in given]  # in a notebook no shell has replaced "~"
