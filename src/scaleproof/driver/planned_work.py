"""Everything that a campaign will run, counted, and an estimate of its time."""

from dataclasses import dataclass
from pathlib import Path

from scaleproof.conclude.forecast.requirements import RunTimes, counts_of_cell, kind_of, run_times
from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.loaded import LoadedCampaign, tokens_dir
from scaleproof.ground.cores import available_cores
from scaleproof.ground.errors import UserError, plural
from scaleproof.ground.number_format import duration_in_words, integer
from scaleproof.measure.launch.replayed_cells import cells_by_workload
from scaleproof.measure.reference.planned import expected_s
from scaleproof.measure.reference.schema import FOLDER, read_reference

# Seconds on a laptop or a small node; none of them matters where runs take minutes.
JOB_S = 1.3  # of a run: Snakemake, and the interpreter that launches it
PAIR_S = 0.3  # the same within the pairs of a comparison
TRACE_S = 5.0  # writing and reading a trace
TRIALS, TRIAL_S = 4, 5.0  # of a search for a micro-batch, and the steps of one
SWEEP_S = 15.0  # of one launch over all sizes
CORPUS_S = 5.0  # tokenising a small corpus
WITNESS_S = 0.5  # setting up a witness, and the bare loop beside it
PROBED = 1.5  # how many times as long a step of a witness takes, as a probe looks at it
BARE_STEPS = 7  # of the bare loop, on CPUs alone: plain ones, and some under Python's profiler
TABLES_S = 2.6  # a table, a chart or another file of the report, on one core
UNKNOWN = "the time of a command is not known before its first run; of each this counts the start alone"
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
    seconds: float
    basis: str  # what the estimate rests on
    too_long: str  # a line on a cell that its time limit will stop; "" where there is none

    @property
    def text(self) -> str:
        """Return counts and time as one sentence: "18 timed runs, 24 runs in A/B pairs and 1 trace: about ..."."""
        several = f"{integer(self.fewest)} to " if self.fewest < self.timed else ""
        others = (
            (self.compared, f"{plural(self.compared, 'run')} in A/B pairs"),
            (self.traced, plural(self.traced, "trace")),
            (self.witnessed, f"{plural(self.witnessed, 'witness', 'witnesses')} ({duration_in_words(self.witness_s)})"),
            (self.replayed, plural(self.replayed, "reference")),
            (self.swept, plural(self.swept, "sweep of collectives", "sweeps of collectives")),
            (self.searched, plural(self.searched, "search for a micro-batch", "searches for a micro-batch")),
        )
        parts = [several + plural(self.timed, "timed run"), *(words for number, words in others if number)]
        counts = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
        most = "at most " if several else ""
        return (
            f"{counts}: {most}about {duration_in_words(self.seconds)} one after the other ({self.basis}){self.too_long}"
        )


def planned_work(loaded: LoadedCampaign, results: Path, drawn: int = 0, probes: bool = True) -> Planned:
    """Count the runs of a campaign, and estimate how long all of it takes.

    The time is that of earlier runs on this machine, else computed from the cells' FLOPs. `drawn`: tables and charts of
    its report. `probes`: whether the speed of this machine may be measured for the estimate.
    """
    campaign, forecast = loaded.campaign, loaded.campaign.forecast
    times = run_times(results, loaded.name, probes)
    # Cells, each as often as it runs: alone (`timed`), and in A/B pairs (`arms`).
    timed = [cell for cell in loaded.cells for _ in range(campaign.most_repeats)]
    pairs = [(c.pairs + c.null_pairs, a, b) for c, a, b in loaded.comparisons.values()]
    arms = [arm for number, a, b in pairs for arm in (a, b) for _ in range(number)]
    trained = [cell for cell in loaded.cells if cell.command is None]
    workloads = cells_by_workload(loaded.cells)
    references = results / loaded.name / FOLDER
    witnesses_s = _witnesses_s(loaded, times)
    swept = len(loaded.communicating_groups) if forecast.enabled and forecast.launches else 0
    searched = [cell for cell in loaded.cells if cell.searched]
    corpora = {tokens_dir(results, cell) for cell in trained}
    parts_s = (
        sum(times.seconds(cell) + JOB_S for cell in timed),
        sum(times.seconds(arm) + PAIR_S for arm in arms),
        _engine_starts_s([*timed, *arms], times),
        sum(times.seconds(cell) + JOB_S + TRACE_S for cell in loaded.traced),
        sum(witnesses_s),
        sum(_replay_s(references / f"{name}.json", cell, times) for name, cell in workloads.items()),
        (times.speed.start_s() + SWEEP_S) * swept * forecast.launches,
        sum(TRIALS * (times.outside(cell) + TRIAL_S) for cell in searched),
        CORPUS_S * sum(not (folder / "train.bin").is_file() for folder in corpora),
        TABLES_S * (drawn + ANALYSES) / min(available_cores(), drawn + ANALYSES),  # side by side
    )
    return Planned(
        timed=len(timed),
        fewest=len(loaded.cells) * campaign.fewest_repeats,
        compared=len(arms),
        traced=len(loaded.traced),
        witnessed=len(witnesses_s),
        witness_s=sum(witnesses_s),
        replayed=len(workloads),
        swept=swept,
        searched=len(searched),
        seconds=sum(parts_s),
        basis=times.basis([*timed, *arms]) if trained else UNKNOWN,
        too_long=_time_limit_warning(loaded, times),
    )


def _engine_starts_s(cells: list[Cell], times: RunTimes) -> float:
    """Return the seconds to import engines: once for each kind of rank that is forked from one process."""
    kinds = {kind_of(cell.execution.start, cell.execution.strategy, times.device(cell)) for cell in cells}
    return sum(times.speed.start_s(engine) for start, engine in kinds if start == "forked")


def _time_limit_warning(loaded: LoadedCampaign, times: RunTimes) -> str:
    """Return a line on the slowest cell if its runs would reach the time limit; else ""."""
    slowest = max((cell for cell in loaded.cells if cell.command is None), key=times.seconds, default=None)
    if slowest is None or times.seconds(slowest) <= loaded.time_limit_s:
        return ""
    takes = f"a run of {slowest.slug} takes about {duration_in_words(times.seconds(slowest))}"
    return f"\n{takes}, and resources.time_limit stops it after {duration_in_words(loaded.time_limit_s)}"


def _witnesses_s(loaded: LoadedCampaign, times: RunTimes) -> list[float]:
    """Estimate the seconds of each witness (steps that are made once more, each looked at), with its bare loop."""
    repeats = [(cell, loaded.campaign.fewest_repeats) for cell in loaded.cells]
    repeats += [(arm, c.pairs) for c, a, b in loaded.comparisons.values() for arm in (a, b)]
    seconds = []
    for cell, number in repeats:
        if steps := loaded.count_witness_steps(cell, number):
            bare_steps = BARE_STEPS if times.device(cell) == "cpu" else 0
            seconds.append(WITNESS_S + (PROBED * steps + bare_steps) * times.step_s(cell))
    return seconds


def _replay_s(path: Path, cell: Cell, times: RunTimes) -> float:
    """Return the seconds of a workload's reference, by the file `path` of an earlier one, else estimated from FLOPs."""
    start_s = times.speed.start_s()
    try:
        return start_s + read_reference(path).seconds
    except (UserError, OSError):
        counts = counts_of_cell(cell)
    if counts is None:
        return start_s
    tokens = cell.batch.global_ * cell.workload.seq_len
    step_s = counts.flops_per_token * tokens / times.replay_flops(cell)
    return start_s + expected_s(counts.parameters, tokens, cell.work.warmup_steps + cell.work.steps, step_s)
