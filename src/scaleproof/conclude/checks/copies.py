"""Is each run a run of its own, alone on its devices, and left as it was written?"""

import hashlib
import json
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import chain, islice, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scaleproof.ground.campaign.batch import SEARCHED
from scaleproof.ground.campaign.cells import fingerprint_of
from scaleproof.ground.errors import UserError
from scaleproof.ground.files import read_record
from scaleproof.ground.findings.registry import Code, Flag, Register, of_run, of_runs
from scaleproof.ground.findings.shared_codes import RUN_COPIED
from scaleproof.ground.number_format import duration_in_words, fixed, seconds
from scaleproof.ground.records.grouping import group_by, runs_by_cell
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

SLACK_S = 2.0  # older records have start and total in whole seconds
APART_S = 600  # between cells that were to be measured in turns
SCHEDULED_APART_S = 7200
DISTINCT = 10  # different values that tell a series from all others
# Standard deviations of logarithms: of step times, below which they are equal; of the ratios of two runs' step times,
# below which there is one ratio.
OWN_NOISE, ONE_RATIO = 1e-4, 1e-6
REPEAT_FOLDER = re.compile(r"rep(\d+)")
HAS_COPY = "has a copy of its record"  # of a run, whose folder is another one
OF_CELL = re.compile(r"[a-z0-9]+(?:-offload)?-n\d+x\d+")  # how the names of cells with a strategy begin

# Checks that look at failed runs as well.
of_all_runs: Register[Sequence[Run]] = Register(lambda runs: list(runs))


@of_runs.check(RUN_COPIED)
def runs_are_no_copies(runs: list[MeasuredRun]) -> Iterator[Flag]:
    """Flag each group of runs that have one id, one series of steps, one time of the window or one series of waits.

    A group is flagged once, though its runs may share several of these. Then come pairs with scaled step times.
    """
    identities: dict[str, Callable[[MeasuredRun], Any]] = {
        "run id": lambda run: run.metrics.run_id,
        "series of steps": lambda run: run.metrics.files.get(STEPS),
        "time of the window": lambda run: run.metrics.window.wall_time_s,
        "waits for data": _waits_digest,
    }
    flagged_groups: set[frozenset[str]] = set()  # a group is the folders of its runs
    for identity_text, identity in identities.items():
        for value, group in group_by(runs, identity).items():
            folders = frozenset(str(run.folder) for run in group)
            if value is not None and len(group) > 1 and folders not in flagged_groups:
                flagged_groups.add(folders)
                yield Flag(
                    f"{' and '.join(_different_names(group))} have the same {identity_text}: {value}", about=group
                )

    yield from _flag_scaled_copies(runs, flagged_groups)


def _different_names(runs: list[MeasuredRun]) -> list[str]:
    """Return the names of runs; the ends of their folders' paths where copies have one name."""
    names = [run.name for run in runs]
    if len(set(names)) == len(names):
        return names
    return ["/".join(run.folder.parts[-2:]) for run in runs]


def _waits_digest(run: MeasuredRun) -> str | None:
    """Return the digest of a run's waits for data; None where fewer than DISTINCT differ, which may be chance."""
    if len(np.unique(run.waits)) < DISTINCT:
        return None
    return hashlib.sha256(run.waits.tobytes()).hexdigest()


def _flag_scaled_copies(runs: list[MeasuredRun], flagged_groups: set[frozenset[str]]) -> Iterator[Flag]:
    """Flag pairs of repeats of a cell whose step times have one ratio throughout, because one run is a scaled copy.

    Sound runs never come near this: each step of each run has a noise of its own. Runs with few or equal step times are
    left out. `flagged_groups`: the folders of each group of runs that has a flag already.
    """
    noisy_runs = []
    for run in runs:
        times = run.step_times
        if len(times) >= DISTINCT and (times > 0).all() and np.log(times).std() > OWN_NOISE:
            noisy_runs.append(run)

    for repeats in group_by(noisy_runs, lambda run: run.metrics.cell).values():
        for first, second in _pairs_of_one_ratio(repeats):
            if frozenset((str(first.folder), str(second.folder))) in flagged_groups:  # one flag is enough
                continue
            ratio = float(np.exp((np.log(second.step_times) - np.log(first.step_times)).mean()))
            yield Flag(
                f"all {len(first.step_times)} steps of {second.name} took {fixed(ratio, 6)} times as long as those of "
                f"{first.name}",
                about=[first, second],
            )


def _pairs_of_one_ratio(repeats: list[MeasuredRun]) -> Iterator[tuple[MeasuredRun, MeasuredRun]]:
    """Yield pairs of repeats with equally many steps whose step times have one ratio in all steps."""
    for equally_long in group_by(repeats, lambda run: len(run.step_times)).values():
        logs = np.log([run.step_times for run in equally_long])  # runs x steps
        for index, first in enumerate(equally_long):
            # For each later run: how its log ratio to this run scatters over the steps; 0 where the ratio is constant.
            deviations = (logs[index + 1 :] - logs[index]).std(axis=1)
            for distance in np.flatnonzero(deviations < ONE_RATIO):
                yield first, equally_long[index + 1 + distance]


@of_runs.finds("runs-overlap", "invalid")
def runs_do_not_overlap(runs: list[MeasuredRun]) -> Iterator[Flag]:
    """Two runs used the same devices at the same time: each measured the other.

    Detected: Time of day, and time since the machine's start, of both windows (in older files start and total) on the
    same host and devices.
    Seen: Two Snakemakes, two folders, one machine.
    Repair: Run them again, one after the other; a lock now keeps runs of one machine apart.
    """
    spans = sorted(map(_span_on_devices, runs), key=lambda span: (span.start_epoch_s, span.end_epoch_s))
    for index, first in enumerate(spans):
        for second in islice(spans, index + 1, None):
            if second.start_epoch_s >= first.end_epoch_s:  # all that follow began later still
                break
            if first.run.metrics.run_id == second.run.metrics.run_id:  # copies of one record: see `runs_are_no_copies`
                continue
            if _devices(first.run) & _devices(second.run) and not _ran_apart(first.run, second.run):
                began_later_s = second.start_epoch_s - first.start_epoch_s
                took_s = first.end_epoch_s - first.start_epoch_s
                yield Flag(
                    f"{second.run.name} began {seconds(began_later_s, 1)} after {first.run.name}, "
                    f"which took {seconds(took_s, 1)}, on the same devices",
                    about=[first.run, second.run],
                )


class _Span(NamedTuple):
    """A time that a run surely spent on its devices."""

    start_epoch_s: float
    end_epoch_s: float
    run: MeasuredRun


def _span_on_devices(run: MeasuredRun) -> _Span:
    """Return the window of a run, from its first rank's start to its last rank's end.

    Older records have no times of the window. Their span is the whole run, in whole seconds; it is shortened by
    SLACK_S, so that neighbours do not seem to overlap.
    """
    ranks = run.metrics.ranks
    if all("window_start_epoch_s" in rank for rank in ranks):
        first_start = min(rank["window_start_epoch_s"] for rank in ranks)
        last_end = max(rank["window_end_epoch_s"] for rank in ranks)
        return _Span(first_start, last_end, run)
    start = start_epoch_s(run)
    return _Span(start, start + run.metrics.total_wall_time_s - SLACK_S, run)


def _ran_apart(first: MeasuredRun, second: MeasuredRun) -> bool:
    """Return whether one run had ended before the other began, by the monotonic clock of every host that they share.

    Nobody can set that clock, as one can the time of day. False where the runs share no host or have no such clock.
    """
    have_common_clock = False
    for rank, other in product(first.metrics.ranks, second.metrics.ranks):
        if rank["host"] == other["host"] and "window_start_monotonic_s" in rank.keys() & other.keys():
            have_common_clock = True
            ended_first = rank["window_end_monotonic_s"] <= other["window_start_monotonic_s"]
            began_later = other["window_end_monotonic_s"] <= rank["window_start_monotonic_s"]
            if not ended_first and not began_later:
                return False
    return have_common_clock


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
    planned_runs = [run for run in runs if not any(word in run.metrics.cell for word in SEARCHED)]
    for runs_alike in group_by(planned_runs, lambda run: run.metrics.fingerprint).values():
        cells = runs_by_cell(runs_alike)
        if len(cells) > 1:
            first_runs = [repeats[0] for repeats in cells.values()]
            yield Flag(f"{' and '.join(sorted(cells))} have one configuration", about=first_runs)


@of_runs.finds("measured-apart", "note", only_first=True)
def cells_were_interleaved(runs: list[MeasuredRun]) -> Iterator[Flag]:
    """Cells were not measured in turns: what changed on the machine meanwhile is in the comparison.

    Detected: Ten minutes between the last run of one cell and the first of another; two hours from a scheduler.
    Seen: Baselines of another day.
    Repair: Run all cells again in one session, repeat by repeat.
    """
    runs_of_cells = runs_by_cell(runs)
    # A scheduler takes jobs in its own order, and of cells with a single run one comes first.
    are_rounds = min(map(len, runs_of_cells.values())) > 1 and not any(run.metrics.scheduler for run in runs)
    least_gap_s = APART_S if are_rounds else SCHEDULED_APART_S
    starts_of = {cell: sorted(map(start_epoch_s, repeats)) for cell, repeats in runs_of_cells.items()}
    cells = sorted(starts_of, key=lambda cell: starts_of[cell][0])
    first_starts = [starts_of[cell][0] for cell in cells]
    for cell in cells:
        last_start = starts_of[cell][-1]
        first_beyond_gap = bisect_right(first_starts, last_start + least_gap_s)
        if first_beyond_gap < len(cells):
            later_cell = cells[first_beyond_gap]
            gap = duration_in_words(first_starts[first_beyond_gap] - last_start)
            evidence = f"the first run of {later_cell} began {gap} after the last one of {cell}"
            yield Flag(evidence, cells=[cell, later_cell], about=[cell, later_cell])


@of_runs.finds("repeat-made-later", "note")
def repeats_came_in_order(runs: list[MeasuredRun]) -> Iterator[Flag]:
    """A run was made after later repeats of its cell: it was tried again, and does not share the state of the machine
    with the other runs of its round.

    Detected: Starts of the runs of a cell, where no scheduler chose their order.
    Seen: A slow run that was measured again until it was fast.
    Repair: Say why it was made again, or run all cells again: scaleproof retry FILE --cell all.
    """
    for repeats in runs_by_cell(run for run in runs if not run.metrics.scheduler).values():
        for run in repeats:
            start_s = start_epoch_s(run)
            later = [other for other in repeats if other.metrics.repeat > run.metrics.repeat]
            overtaken = [other for other in later if start_epoch_s(other) < start_s]
            if overtaken:
                last = max(overtaken, key=start_epoch_s)
                apart = duration_in_words(start_s - start_epoch_s(last))
                yield Flag(f"started {apart} after {last.folder.name}", about=[run])


@of_run.finds("record-edited", "invalid")
def record_is_as_it_was_written(run: MeasuredRun) -> Iterator[Flag]:
    """The record was changed after the run, or its folder was: nothing in it can be relied on.

    Detected: sha256 of the metrics as the launcher wrote them, the fingerprint of the configuration, the names of
    its folders, and the figures that RUN_COMPLETE.txt repeats.
    Seen: Figures corrected by hand.
    Repair: Restore the file, or run the cell again.
    """
    if problems := [*_traces_of_edits(run), *_completion_problems(run)]:
        as_copy = f"the folder {'/'.join(run.folder.absolute().parts[-2:])} {HAS_COPY}"
        yield Flag(as_copy if _is_copy(run) else "; ".join(problems))


def _is_copy(run: MeasuredRun) -> bool:
    """Whether the folder of which the metrics are is another one, which has the same metrics."""
    own = run.folder.absolute() / METRICS
    original = own.parents[2] / run.metrics.cell / f"rep{run.metrics.repeat}" / METRICS
    return original != own and original.is_file() and original.read_bytes() == own.read_bytes()


def _traces_of_edits(run: MeasuredRun) -> Iterator[str]:
    """Yield in words what in a run's metrics does not fit their sha256, the configuration or the folder."""
    launcher = run.folder / LAUNCHER
    if not launcher.is_file() and (run.folder / COMPLETE).is_file():  # COMPLETE is written after LAUNCHER
        raise UserError(f"{LAUNCHER} is missing, though {COMPLETE} is there")
    # The sha256 of the metrics as the launcher wrote them; older launchers left none.
    seal = read_record(launcher, lambda data: json.loads(data).get(METRICS_SEAL)) if launcher.is_file() else None
    if seal and hashlib.sha256((run.folder / METRICS).read_bytes()).hexdigest() != seal:
        yield f"{METRICS} is not the file whose sha256 {LAUNCHER} has"

    if fingerprint_of(run.metrics.config) != run.metrics.fingerprint:
        yield "`fingerprint` is not that of `config`"

    repeat_folder = REPEAT_FOLDER.fullmatch(run.folder.name)
    if repeat_folder and int(repeat_folder[1]) != run.metrics.repeat:
        yield f"`repeat` is {run.metrics.repeat}, but the folder is {run.folder.name}"
    cell_folder = run.folder.absolute().parent
    named, recorded = (OF_CELL.match(name) for name in (cell_folder.name, run.metrics.cell))
    if repeat_folder and named and recorded and named[0] != recorded[0]:  # a folder without a cell's name says nothing
        yield f"`cell` is {run.metrics.cell}, but the folder is {cell_folder.name}"


def _completion_problems(run: MeasuredRun) -> Iterator[str]:
    """Yield in words which figures in RUN_COMPLETE.txt, written as name=value, are not those of the metrics."""
    complete = run.folder / COMPLETE
    if not complete.is_file():
        return
    complete_texts = dict(word.split("=", 1) for word in complete.read_text().split() if "=" in word)
    recorded = {"tokens_per_sec": run.metrics.window.tokens_per_s, "total_wall_time_sec": run.metrics.total_wall_time_s}
    for name, figure in recorded.items():
        if name in complete_texts and complete_texts[name] != fixed(figure, 2):
            yield f"{name} is {complete_texts[name]} in {COMPLETE} and {fixed(figure, 2)} in {METRICS}"


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
        what="The repository had changes in no commit when the runs were made: nobody else has exactly these files.",
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
    all_measured = measured_runs(runs)
    measured_cells = {run.metrics.cell for run in all_measured}
    failures = runs_by_cell(run for run in runs if not run.ok)
    for cell in sorted(measured_cells & failures.keys()):
        reasons = [f"{run.name}: {run.metrics.failure.failure_class}" for run in failures[cell] if run.metrics.failure]
        evidence = f"{len(failures[cell])} of its runs failed ({', '.join(reasons)})"
        yield Flag(evidence, about=failures[cell], code="repeat-failed")

    yield from _flag_missing_repeats(runs, measured_cells)

    if uncommitted := [run for run in all_measured if run.metrics.git_dirty]:
        yield Flag(
            "the repository that runs were started in had changes that are in no commit",
            about=uncommitted,
            code="code-uncommitted",
        )

    hosts = sorted({run.metrics.host["hostname"] for run in all_measured})
    if len(hosts) > 1 and not any(run.metrics.scheduler for run in runs):
        yield Flag(f"launched on {', '.join(hosts)}", code="hosts-differ", about=all_measured)


def _flag_missing_repeats(runs: Sequence[Run], measured_cells: set[str]) -> Iterator[Flag]:
    """Flag each of `measured_cells` that lacks a repeat which another cell has, and has not even a folder of it.

    A folder without numbers is a failed or damaged run, which has findings of its own.
    """
    folders: dict[str, dict[int, Path]] = defaultdict(dict)  # cell -> number of the repeat -> its folder
    for run in runs:
        if run.folder.name == f"rep{run.metrics.repeat}":  # not an arm of an A/B pair
            folders[run.metrics.cell][run.metrics.repeat] = run.folder
    last_repeat = max(chain.from_iterable(folders.values()), default=0)  # of the keys, which are numbers of repeats

    for cell in sorted(measured_cells & folders.keys()):
        if len(folders[cell]) == 1:
            continue  # this run may have been copied alone, to be looked at
        some_folder, *_ = folders[cell].values()  # the other repeats are its siblings
        absent_repeats = [repeat for repeat in range(1, last_repeat + 1) if repeat not in folders[cell]]
        missing = [str(repeat) for repeat in absent_repeats if not some_folder.with_name(f"rep{repeat}").exists()]
        if missing:
            noun = "repeats" if len(missing) > 1 else "repeat"
            evidence = f"{cell} has no {noun} {', '.join(missing)} of {last_repeat}"
            yield Flag(evidence, cells=[cell], about=[cell], code="repeat-missing")
