"""Everything that a campaign will run, counted, and an estimate of its time."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from scaleproof.conclude.forecast.requirements import RunTimes, counts_of_cell, kind_of, run_times
from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.campaign.loaded import LoadedCampaign, tokens_dir
from scaleproof.ground.confidence import few_repeats_note
from scaleproof.ground.cores import available_cores
from scaleproof.ground.errors import UserError, plural
from scaleproof.ground.number_format import duration_in_words, integer
from scaleproof.ground.records.run import METRICS, read_run
from scaleproof.measure.launch.replayed_cells import cells_by_workload
from scaleproof.measure.machine.applicable import reason_anywhere, unsupported_reason
from scaleproof.measure.machine.gpus import cuda_devices, usable_gpus
from scaleproof.measure.reference.planned import expected_s
from scaleproof.measure.reference.schema import FOLDER, read_reference

# Seconds on a laptop or a small node; none of them matters where runs take minutes.
JOB_S = 1.3  # of Snakemake and the interpreter that launches a run
PAIR_S = 0.3  # of launching a run within the pairs of a comparison
TRACE_S, TRACED_STEP_S = 4.5, 0.1  # writing and reading a trace, and each of its steps
TRIALS, TRIAL_S = 4, 5.0  # number of trials in a search for a micro-batch, and the steps of each
SWEEP_S = 15.0  # one launch of collectives over all sizes
CORPUS_S = 5.0  # tokenising a small corpus
WITNESS_S = 0.5  # setting up a witness, and the bare loop beside it
PROBED = 1.5  # factor on the time of a step that a witness looks at
BARE_STEPS = 7  # of the bare loop, on CPUs alone: plain ones, and some under Python's profiler
TABLES_S = 2.6  # a table, a chart or another file of the report, on one core
ANALYSES = 7  # jobs of the report beside its tables and charts


@dataclass(frozen=True)
class Planned:
    """How many runs of each kind a campaign makes, and how long they may take."""

    timed: int  # with `repeats.resolve` at most
    fewest: int  # timed runs before the first look at the results
    compared: int  # runs in the pairs of A/B comparisons
    traced: int
    witnessed: int  # runs whose steps are made once more, each looked at
    witness_s: float  # seconds of that, and of the bare loops beside it
    replayed: int  # workloads whose first steps are replayed as a reference
    swept: int  # groups of devices in which collectives are timed
    searched: int  # cells whose micro-batch is found by trials
    seconds: float  # of all these, one after the other
    basis: str  # the source of the estimate, in words
    warnings: str  # lines: too few repeats for intervals, a cell that its time limit will stop; "" where there are none

    @property
    def text(self) -> str:
        """Return counts and time as one sentence: "18 timed runs, 24 runs in A/B pairs and 1 trace: about ..."."""
        fewest = f"{integer(self.fewest)} to " if self.fewest < self.timed else ""
        others = (
            (self.compared, f"{plural(self.compared, 'run')} in A/B pairs"),
            (self.traced, plural(self.traced, "trace")),
            (self.witnessed, f"{plural(self.witnessed, 'witness', 'witnesses')} ({duration_in_words(self.witness_s)})"),
            (self.replayed, plural(self.replayed, "reference")),
            (self.swept, plural(self.swept, "sweep of collectives", "sweeps of collectives")),
            (self.searched, plural(self.searched, "search for a micro-batch", "searches for a micro-batch")),
        )
        parts = [fewest + plural(self.timed, "timed run"), *(words for number, words in others if number)]
        counts = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
        at_most = "at most " if fewest else ""
        time = f"{at_most}about {duration_in_words(self.seconds)} one after the other"
        return f"{counts}: {time} ({self.basis}){self.warnings}"


def planned_work(
    loaded: LoadedCampaign, results: Path, drawn: int = 0, probes: bool = True, times: RunTimes | None = None
) -> Planned:
    """Count the runs of a campaign, and estimate how long all of it takes.

    The estimate takes the times of earlier runs on this machine; without any, it computes them from the cells' FLOPs.
    `drawn`: number of the report's tables and charts. `probes`: whether the estimate may measure this machine's speed.
    `times`: other estimates, as of a machine with other GPUs.
    """
    campaign, forecast = loaded.campaign, loaded.campaign.forecast
    is_of_other_machine = times is not None and times.named is not None
    gpus = usable_gpus(cuda_devices)[0]
    here = [] if is_of_other_machine else [cell for cell in loaded.cells if not unsupported_reason(cell, gpus)]
    # Of a campaign for another machine, all that can run on any.
    cells = here or [cell for cell in loaded.cells if not reason_anywhere(cell)]
    slugs = {cell.slug for cell in cells}
    traced = [_as_traced(cell, campaign.trace.steps) for cell in loaded.traced if cell.slug in slugs]
    basis = "" if here or is_of_other_machine else "elsewhere, as none of them can run here; "
    times = times or run_times(results, loaded.name, probes)
    arms: list[Cell] = []  # one entry for each run in a pair
    for comparison, a, b in loaded.comparisons.values():
        n_pairs = comparison.pairs + comparison.null_pairs
        arms += [a] * n_pairs + [b] * n_pairs
    trained = [cell for cell in cells if cell.command is None]
    searched = [cell for cell in cells if cell.searched]  # their micro-batch is found by trials
    workloads = cells_by_workload(cells)
    # Groups of devices in which collectives are timed for the forecast, each in `forecast.launches` launches.
    swept = len(loaded.communicating_groups) if forecast.enabled and forecast.launches else 0
    witnesses_s = _witnesses_s(loaded, cells, times)
    references = results / loaded.name / FOLDER
    token_folders = {tokens_dir(results, cell) for cell in trained}
    report_jobs = drawn + ANALYSES

    def run_s(cell: Cell) -> float:
        """Return the seconds of a run, or until its time limit stops it."""
        return min(times.seconds(cell), loaded.time_limit_s)

    seconds: dict[str, float] = {  # only their sum is used; the names are for the reader
        "timed runs": sum(run_s(cell) + JOB_S for cell in cells) * campaign.most_repeats,
        "runs in pairs": sum(run_s(arm) + PAIR_S for arm in arms),
        "starts of engines": _engine_starts_s([*cells, *arms], times),
        "traces": sum(run_s(cell) + JOB_S + TRACE_S + TRACED_STEP_S * cell.work.steps for cell in traced),
        "witnesses": sum(witnesses_s),
        "references": sum(_replay_s(references / f"{name}.json", cell, times) for name, cell in workloads.items()),
        "sweeps": (times.speed.start_s() + SWEEP_S) * swept * forecast.launches,
        "searches": sum(TRIALS * (times.outside(cell) + TRIAL_S) for cell in searched),
        "tokens": CORPUS_S * sum(not (folder / "train.bin").is_file() for folder in token_folders),
        "report": TABLES_S * report_jobs / min(available_cores(), report_jobs),  # as many at a time as there are cores
    }
    return Planned(
        timed=len(cells) * campaign.most_repeats,
        fewest=len(cells) * campaign.fewest_repeats,
        compared=len(arms),
        traced=len(traced),
        witnessed=len(witnesses_s),
        witness_s=sum(witnesses_s),
        replayed=len(workloads),
        swept=swept,
        searched=len(searched),
        seconds=sum(seconds.values()),
        basis=basis + times.basis([*cells, *arms]),
        warnings=copied_from_text(loaded, results)
        + few_repeats_note(campaign.most_repeats)
        + _time_limit_warning(loaded, cells, times)
        + _minutes_warning(campaign, seconds["timed runs"] / campaign.most_repeats),
    )


def copied_from_text(loaded: LoadedCampaign, results: Path) -> str:
    """Return a line, after a line end, where another campaign has runs as this one plans them and has not; else ""."""
    cell = loaded.cells[0]
    if (results / loaded.name / "runs").is_dir():
        return ""
    for record in sorted(results.glob(f"*/runs/{cell.slug}/rep*/{METRICS}")):
        with suppress(UserError):  # a damaged record
            if read_run(record.parent).metrics.fingerprint == cell.fingerprint:
                own = f"{loaded.name} is a campaign of its own, whose runs are measured anew"
                return f"\n{record.parents[3]} has runs of the same configuration; {own}"
    return ""


def _as_traced(cell: Cell, steps: int) -> Cell:
    """Return the cell with so many steps after its warm-up, as in the run that is traced."""
    return replace(cell, work=cell.work.model_copy(update={"steps": steps}))


def _engine_starts_s(cells: list[Cell], times: RunTimes) -> float:
    """Estimate the seconds to import engines: once for each kind of rank, in the process that ranks are forked from."""
    kinds = {kind_of(cell.execution.start, cell.execution.strategy, times.device(cell)) for cell in cells}
    return sum(times.speed.start_s(engine) for start, engine in kinds if start == "forked")


def _time_limit_warning(loaded: LoadedCampaign, cells: Sequence[Cell], times: RunTimes) -> str:
    """Warn of the slowest cell, if its runs would reach the time limit. Returns "" where none would."""
    slowest = max((cell for cell in cells if cell.command is None), key=times.seconds, default=None)
    if slowest is None or times.seconds(slowest) <= loaded.time_limit_s:
        return ""
    takes = f"a run of {slowest.slug} takes about {duration_in_words(times.seconds(slowest))}"
    limit_s = loaded.time_limit_s
    limit = f"{limit_s:.3g} seconds" if limit_s < 60 else duration_in_words(limit_s)  # as it was given, not rounded up
    return f"\n{takes}, and resources.time_limit stops it after {limit}"


def _minutes_warning(campaign: Campaign, round_s: float) -> str:
    """Warn of `repeats.minutes` that the first rounds use up: no further one begins. `round_s`: seconds of a round."""
    until = campaign.repeat_until
    if not until or not until.minutes or 60 * until.minutes >= round_s * until.at_least:
        return ""
    first = f"the {until.at_least} repeats of repeats.at_least take about {duration_in_words(round_s * until.at_least)}"
    return f"\n{first}, more than repeats.minutes ({until.minutes:g}): no further repeat would begin"


def _witnesses_s(loaded: LoadedCampaign, cells: Sequence[Cell], times: RunTimes) -> list[float]:
    """Estimate the seconds of each witness, which makes and looks at a run's steps, and its bare loop."""
    repeats = [(cell, loaded.campaign.fewest_repeats) for cell in cells]
    for comparison, a, b in loaded.comparisons.values():
        repeats += [(a, comparison.pairs), (b, comparison.pairs)]
    seconds = []
    for cell, n_repeats in repeats:
        steps = loaded.count_witness_steps(cell, n_repeats)
        if steps and times.seconds(cell) <= loaded.time_limit_s:  # else the run ends before them
            bare_steps = BARE_STEPS if times.device(cell) == "cpu" else 0
            seconds.append(WITNESS_S + (PROBED * steps + bare_steps) * times.step_s(cell))
    return seconds


def _replay_s(path: Path, cell: Cell, times: RunTimes) -> float:
    """Estimate the seconds of a workload's reference, from an earlier one at `path`, else from its FLOPs."""
    start_s = times.speed.start_s()
    try:
        return start_s + read_reference(path).seconds
    except (UserError, OSError):
        counts = counts_of_cell(cell)  # parameters and FLOPs; None for classifiers
    if counts is None:
        return start_s
    tokens = cell.batch.global_ * cell.workload.seq_len
    step_s = counts.flops_per_token * tokens / times.replay_flops(cell)
    return start_s + expected_s(counts.parameters, tokens, cell.work.warmup_steps + cell.work.steps, step_s)
