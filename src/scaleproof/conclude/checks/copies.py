"""Is each run a run of its own, alone on its devices, and left as it was written?"""

import hashlib
import json
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np

from scaleproof.ground.campaign.batch import SEARCHED
from scaleproof.ground.files import read_record
from scaleproof.ground.findings.registry import Code, Flag, Register, of_run, of_runs
from scaleproof.ground.findings.shared_codes import RUN_COPIED
from scaleproof.ground.number_format import fixed, seconds
from scaleproof.ground.records.grouping import group_by, runs_by_cell
from scaleproof.ground.records.open_sections import Rank
from scaleproof.ground.records.run import (
    COMPLETE,
    LAUNCHER,
    METRICS,
    METRICS_SEAL,
    STEPS,
    MeasuredRun,
    Run,
    measured_runs,
)

SLACK_S = 2.0  # start and total are rounded to seconds
HOURS_APART = 2.0
DISTINCT = 10  # values that tell a series from another
OWN_NOISE, ONE_RATIO = 1e-4, 1e-6  # standard deviations of logarithms of step times: of a run, of two runs' ratio
REPEAT_FOLDER = re.compile(r"rep(\d+)")

Timed = tuple[MeasuredRun, np.ndarray]  # a run, and the logarithms of its step times

# Checks that look at failed runs as well.
of_all_runs: Register[Sequence[Run]] = Register(lambda runs: list(runs))


@of_runs.check(RUN_COPIED)
def runs_are_no_copies(runs: list[MeasuredRun]) -> Iterator[Flag]:
    """Flag each group of runs that have one id, one series of steps, one time of the window or one series of waits.

    A group is flagged once, though it may have several of these in common. Then come pairs with scaled step times.
    """
    identities: dict[str, Callable[[MeasuredRun], Any]] = {
        "run id": lambda run: run.metrics.run_id,
        "series of steps": lambda run: run.metrics.files.get(STEPS),
        "time of the window": lambda run: run.metrics.window.wall_time_s,
        "waits for data": _waits_digest,
    }
    reported: set[frozenset[str]] = set()
    for what, identity in identities.items():
        for value, group in group_by(runs, identity).items():
            folders = frozenset(str(run.folder) for run in group)
            if value is not None and len(group) > 1 and folders not in reported:
                reported.add(folders)
                names = [run.name for run in group]
                if len(set(names)) < len(names):  # a copied folder has another name
                    names = ["/".join(run.folder.parts[-2:]) for run in group]
                yield Flag(f"{' and '.join(names)} have the same {what}: {value}", about=group)
    yield from _flag_scaled_copies(runs, reported)


def _waits_digest(run: MeasuredRun) -> str | None:
    """Return the digest of a run's waits for data, in all steps of all ranks.

    None where they have fewer than DISTINCT different values, which two runs may share by chance.
    """
    if len(np.unique(run.waits)) < DISTINCT:
        return None
    return hashlib.sha256(run.waits.tobytes()).hexdigest()


def _flag_scaled_copies(runs: list[MeasuredRun], reported: set[frozenset[str]]) -> Iterator[Flag]:
    """Flag pairs of repeats of a cell whose step times have one ratio throughout, because one run is a scaled copy.

    Sound runs never come near this: each step of each run has a noise of its own. Runs with few or equal step times are
    left out. `reported`: the folders of each group of runs that has a flag already.
    """
    cells: dict[str, list[Timed]] = defaultdict(list)
    for run in runs:
        times = run.step_times
        if len(times) < DISTINCT or not (times > 0).all():
            continue
        logs = np.log(times)
        if logs.std() > OWN_NOISE:
            cells[run.metrics.cell].append((run, logs))
    for repeats in cells.values():
        for (first, first_logs), (second, second_logs) in _pairs_of_one_ratio(repeats):
            if frozenset((str(first.folder), str(second.folder))) not in reported:
                ratio = float(np.exp((second_logs - first_logs).mean()))
                yield Flag(
                    f"all {len(first_logs)} steps of {second.name} took {fixed(ratio, 6)} times as long as those of "
                    f"{first.name}",
                    about=[first, second],
                )


def _pairs_of_one_ratio(repeats: list[Timed]) -> Iterator[tuple[Timed, Timed]]:
    """Yield pairs of repeats with equally many steps whose step times have one ratio in all steps."""
    for length in dict.fromkeys(len(logs) for _, logs in repeats):
        of_length = [(run, logs) for run, logs in repeats if len(logs) == length]
        table = np.array([logs for _, logs in of_length])  # (runs, steps)
        for place, first in enumerate(of_length):
            # Of the logarithms' difference of each later run and this one: none where the ratio never changes.
            spread = (table[place + 1 :] - table[place]).std(axis=1)
            for index in np.flatnonzero(spread < ONE_RATIO):
                yield first, of_length[place + 1 + index]


@of_runs.finds("runs-overlap", "invalid")
def runs_do_not_overlap(runs: list[MeasuredRun]) -> Iterator[Flag]:
    """Two runs used the same devices at the same time: each measured the other.

    Detected: Time of day, and time since the machine's start, of both windows (in older files start and total) on the
    same host and devices.
    Seen: Two Snakemakes, two folders, one machine.
    Repair: Run them again, one after the other; a lock now keeps runs of one machine apart.
    """
    spans = sorted(((*_span_on_devices(run), run) for run in runs), key=lambda span: span[:2])  # (start, end, run)
    for place, (start, end, first) in enumerate(spans):
        for later_start, _, second in islice(spans, place + 1, None):
            if later_start >= end:  # as do all that follow
                break
            # Copies of one record are `runs_are_no_copies`' matter.
            if first.metrics.run_id == second.metrics.run_id or not _devices(first) & _devices(second):
                continue
            if _ran_apart(first, second):
                continue
            yield Flag(
                f"{second.name} began {seconds(later_start - start, 1)} after {first.name}, "
                f"which took {seconds(end - start, 1)}, on the same devices",
                about=[first, second],
            )


def _span_on_devices(run: MeasuredRun) -> tuple[float, float]:
    """Return begin and end, in epoch seconds, of a time that a run surely spent on its devices: its window.

    Older files have the whole run alone, rounded to seconds; it is shortened, so that neighbours seem not to overlap.
    """
    ranks = run.metrics.ranks
    if all("window_start_epoch_s" in rank for rank in ranks):
        return min(rank["window_start_epoch_s"] for rank in ranks), max(rank["window_end_epoch_s"] for rank in ranks)
    began = start_epoch_s(run)
    return began, began + run.metrics.total_wall_time_s - SLACK_S


def _monotonic_window(rank: Rank) -> tuple[float, float]:
    """Return begin and end of a rank's window, in seconds since its machine's start."""
    return rank["window_start_monotonic_s"], rank["window_end_monotonic_s"]


def _ran_apart(first: MeasuredRun, second: MeasuredRun) -> bool:
    """Return whether one run had ended before the other began, by the monotonic clock of every host that they share.

    Nobody can set that clock, as one can the time of day. False where the runs share no host or have no such clock.
    """
    pairs = [
        (_monotonic_window(rank), _monotonic_window(other))
        for rank, other in product(first.metrics.ranks, second.metrics.ranks)
        if rank["host"] == other["host"] and "window_start_monotonic_s" in rank.keys() & other.keys()
    ]
    return bool(pairs) and all(
        end <= other_start or other_end <= start for (start, end), (other_start, other_end) in pairs
    )


def start_epoch_s(run: MeasuredRun) -> float:
    """Return the epoch seconds of the launcher's start."""
    return datetime.fromisoformat(run.metrics.timestamp_utc.replace("Z", "+00:00")).timestamp()


def _devices(run: MeasuredRun) -> set[tuple[str, str]]:
    """Return (host, device) of all devices of a run: GPUs by their names; all of a host's cores are one."""
    return {(rank["host"], device) for rank in run.metrics.ranks for device in rank["devices"]}


@of_runs.finds("cells-alike", "suspect")
def cells_differ_in_more_than_name(runs: list[MeasuredRun]) -> Iterator[Flag]:
    """Two cells have different names and one configuration: what differs between their figures is noise, and the key
    that their names differ in was not tried.

    Detected: Fingerprints of the configurations of all cells; cells whose micro-batch was searched are left out.
    Seen: Options that a launcher drops on the way to the program.
    Repair: Find out where the key is lost; run the cells again.
    """
    # A search may well find the micro-batch that another cell has.
    planned = [run for run in runs if not any(word in run.metrics.cell for word in SEARCHED)]
    for alike in group_by(planned, lambda run: run.metrics.fingerprint).values():
        cells = runs_by_cell(alike)
        if len(cells) > 1:
            first_runs = [repeats[0] for repeats in cells.values()]
            yield Flag(f"{' and '.join(sorted(cells))} have one configuration", about=first_runs)


@of_runs.finds("measured-apart", "note", only_first=True)
def cells_were_interleaved(runs: list[MeasuredRun]) -> Iterator[Flag]:
    """Cells were measured hours apart and not in turns: what changed on the machine meanwhile is in the comparison.

    Detected: Two hours between the last run of one cell and the first of another.
    Seen: Baselines of another day.
    Repair: Run all cells again in one session, repeat by repeat.
    """
    times = {cell: [start_epoch_s(run) for run in of_cell] for cell, of_cell in runs_by_cell(runs).items()}
    cells = sorted(times, key=lambda cell: min(times[cell]))
    starts = [min(times[cell]) for cell in cells]  # ascending
    for cell in cells:
        ended = max(times[cell])
        place = bisect_right(starts, ended + 3600 * HOURS_APART)  # of the first cell that began so much later
        if place < len(cells):
            hours = (starts[place] - ended) / 3600
            both = [cell, cells[place]]
            evidence = f"{cells[place]} was measured {fixed(hours, 1)} h after {cell}"
            yield Flag(evidence, cells=both, about=both)


@of_run.finds("record-edited", "invalid")
def record_is_as_it_was_written(run: MeasuredRun) -> Iterator[Flag]:
    """The record was changed after the run: nothing in it can be relied on.

    Detected: sha256 of the metrics as the launcher wrote them, the fingerprint of the configuration, the number of the
    repeat, and the figures that RUN_COMPLETE.txt repeats.
    Seen: Figures corrected by hand.
    Repair: Restore the file, or run the cell again.
    """
    if problems := [*_traces_of_edits(run), *_seal_problems(run)]:
        yield Flag("; ".join(problems))


def _traces_of_edits(run: MeasuredRun) -> Iterator[str]:
    """Yield in words what in a run's metrics does not fit their sha256, the configuration or the folder."""
    metrics, launcher = run.metrics, run.folder / LAUNCHER
    # The sha256 of the metrics as the launcher wrote them; older launchers left none.
    seal = read_record(launcher, lambda data: json.loads(data).get(METRICS_SEAL)) if launcher.is_file() else None
    if seal and hashlib.sha256((run.folder / METRICS).read_bytes()).hexdigest() != seal:
        yield f"{METRICS} is not the file whose sha256 {LAUNCHER} has"
    config = json.dumps(metrics.config, sort_keys=True, separators=(",", ":"))
    if hashlib.sha256(config.encode()).hexdigest()[:16] != metrics.fingerprint:
        yield "`fingerprint` is not that of `config`"
    repeat_folder = REPEAT_FOLDER.fullmatch(run.folder.name)
    if repeat_folder and int(repeat_folder[1]) != metrics.repeat:
        yield f"`repeat` is {metrics.repeat}, but the folder is {run.folder.name}"


def _seal_problems(run: MeasuredRun) -> Iterator[str]:
    """Yield in words which figures in RUN_COMPLETE.txt, written as name=value, are not those of the metrics."""
    complete = run.folder / COMPLETE
    if not complete.is_file():
        return
    repeated = dict(word.split("=", 1) for word in complete.read_text().split() if "=" in word)
    recorded = {"tokens_per_sec": run.metrics.window.tokens_per_s, "total_wall_time_sec": run.metrics.total_wall_time_s}
    for name, value in recorded.items():
        if name in repeated and repeated[name] != fixed(value, 2):
            yield f"{name} is {repeated[name]} in {COMPLETE} and {fixed(value, 2)} in {METRICS}"


@of_all_runs.check(
    Code(
        "repeat-failed",
        "note",
        what="Some repeats of a cell failed: its figures are of those that did not, which may be the faster ones.",
        detected="Failed runs beside measured ones of the same cell.",
        seen="Out-of-memory errors in every third run.",
        repair="Run them again (scaleproof retry), and state how many failed.",
    ),
    Code(
        "repeat-missing",
        "note",
        what="A repeat of a cell is not there, though later ones are, or other cells have it: the figures are of the "
        "others, which may be the faster ones.",
        detected="Numbers of the repeats of each cell, failed ones included, against the largest of the campaign.",
        seen="Slow runs that were removed by hand.",
        repair="Run it again: snakemake makes what is missing.",
    ),
    Code(
        "code-uncommitted",
        "note",
        what="The runs were made from code that is in no commit: nobody else can make them again.",
        detected="`git status` at the launcher's start.",
        seen="Everywhere.",
        repair="Commit and run again before publishing.",
    ),
    Code(
        "hosts-differ",
        "note",
        what="Runs of one campaign were made on different machines.",
        detected="Hosts of rank 0.",
        seen="Cluster partitions with several kinds of nodes.",
        repair="Ask for one node, or same_allocation, where differences between machines matter.",
    ),
)
def attempts_are_told(runs: Sequence[Run]) -> Iterator[Flag]:
    """Flag repeats that failed or are missing, code without a commit, and several hosts where no scheduler chose them.

    Cells without a measured run have no figures, and no flag of their repeats.
    """
    measured_cells = {run.metrics.cell for run in measured_runs(runs)}
    failures = runs_by_cell(run for run in runs if not run.ok)
    for cell in sorted(measured_cells & failures.keys()):
        failed = failures[cell]
        reasons = ", ".join(f"{run.name}: {run.metrics.failure.failure_class}" for run in failed if run.metrics.failure)
        yield Flag(f"{len(failed)} of its runs failed ({reasons})", about=failed, code="repeat-failed")
    yield from _flag_missing_repeats(runs, measured_cells)
    dirty = [run for run in measured_runs(runs) if run.metrics.git_dirty]
    if dirty:
        yield Flag("the working tree had changes that are in no commit", about=dirty, code="code-uncommitted")
    hosts = sorted({run.metrics.host["hostname"] for run in measured_runs(runs)})
    if len(hosts) > 1 and not any(run.metrics.scheduler for run in runs):
        yield Flag(f"launched on {', '.join(hosts)}", code="hosts-differ", about=measured_runs(runs))


def _flag_missing_repeats(runs: Sequence[Run], measured_cells: set[str]) -> Iterator[Flag]:
    """Flag each of `measured_cells` without a folder of some repeat, up to the last one that any cell has."""
    folders: dict[str, dict[int, Path]] = defaultdict(dict)  # cell -> number of the repeat -> its folder
    for run in runs:
        if run.folder.name == f"rep{run.metrics.repeat}":  # not an arm of an A/B pair
            folders[run.metrics.cell][run.metrics.repeat] = run.folder
    most = max((repeat for of_cell in folders.values() for repeat in of_cell), default=0)
    for cell in sorted(measured_cells & folders.keys()):
        cell_folder = next(iter(folders[cell].values())).parent
        missing = [
            repeat
            for repeat in range(1, most + 1)
            if repeat not in folders[cell] and not (cell_folder / f"rep{repeat}").exists()
        ]
        if missing and len(folders[cell]) > 1:  # one run alone may have been copied to be looked at
            repeats = f"repeat{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}"
            yield Flag(f"{cell} has no {repeats} of {most}", cells=[cell], about=[cell], code="repeat-missing")
