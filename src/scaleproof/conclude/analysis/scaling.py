"""Speed-up, efficiency and ranking: scaling_report.json."""

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scaleproof.conclude.analysis.measured_cells import MeasuredCell, measured_cells, unintended_differences
from scaleproof.conclude.analysis.ranking import (
    MARGIN,
    answer_question,
    cells_by_size,
    family_of_size,
    rank_cells,
    ratio_in_family,
)
from scaleproof.conclude.analysis.scaling_laws import fit_scaling_law, karp_flatt
from scaleproof.conclude.analysis.simultaneous import Family, resolution_of_ratio
from scaleproof.conclude.analysis.stopping import confidence_at, take_look
from scaleproof.ground.campaign.repeats import RepeatUntil
from scaleproof.ground.campaign.strategies import SHARDING, without_offload
from scaleproof.ground.confidence import (
    CONFIDENCE,
    FEWEST_REPEATS,
    Estimate,
    paired_ratio,
    ratio_of_independent,
    times_per_second,
)
from scaleproof.ground.findings.finding import Findings, codes_above_note
from scaleproof.ground.records.configuration import SAME_WORK
from scaleproof.ground.records.evidence import lowest_level
from scaleproof.ground.records.grouping import group_by, lists_by_key
from scaleproof.ground.records.result_file import Estimated
from scaleproof.ground.records.run import METRICS, Run, timed_runs
from scaleproof.ground.records.scaling_report import COMMAND, Kind, ScalingPoint, ScalingReport, ScalingSeries
from scaleproof.ground.snakemake_command import HERE, options_of_runs

GOOD_EFFICIENCY, EXCELLENT_EFFICIENCY = 0.7, 0.85
GEOMETRY_IN_SLUG = re.compile(r"(^|-)n[0-9]+x[0-9]+(?=-|$)")


def scaling_report(
    campaign: str,
    title: str,
    runs: Sequence[Run],
    findings: Findings,
    margin: float = MARGIN,
    question: Mapping[str, str | float] | None = None,
    repeat_until: RepeatUntil | None = None,
    snakemake: str | None = None,
) -> ScalingReport:
    """Compute scaling_report.json: the speed-ups of each series of cells, and the ranking of each size.

    The cells of a series differ in their devices alone. No ratio is formed between cells whose provenance differs.
    Where a finding about a cell is `invalid`, the `status` is `invalid_comparison`, and the figures are kept, so that
    they can be looked at.

    `margin`, `question`, `repeat_until`: the campaign's. With `repeat_until` results decide when repeats end, so that
    intervals need a higher level to hold with 95 % (stopping.py). `snakemake`: the options by which the campaign goes
    on; by default those that its runs record.
    """
    confidence = CONFIDENCE
    resolve = None  # the difference at which repeats end
    if repeat_until:
        confidence = confidence_at(repeat_until, max((run.metrics.repeat for run in runs), default=0))
        resolve = repeat_until.resolve

    cells = measured_cells(runs, confidence)
    series = scaling_series(cells, resolve or margin)
    for point in _points(series):
        point.findings = codes_above_note(findings.of(point.cell))

    sizes = cells_by_size(cells)
    families = _compare_within_sizes(sizes, series, cells, confidence)  # sets intervals in `series`, too
    beats_single = _beats_single(series)
    ranking = []
    for key, members in sizes.items():
        ranking.append(rank_cells(key, members, families[key], findings, beats_single, margin, resolve))

    findings_on_figures = [*findings.concerning("runs"), *findings.concerning("scaling")]
    invalid_codes = {finding.code for finding in findings_on_figures if finding.severity == "invalid"}
    report = ScalingReport(
        campaign=campaign,
        title=title,
        confidence=CONFIDENCE,  # of all looks at the results together; a single look has a higher level
        evidence=lowest_level(run.metrics.evidence for run in timed_runs(runs) or runs),
        unit=next((cell.runs[0].metrics.unit for cell in cells.values()), "tokens"),
        status="invalid_comparison" if invalid_codes else "ok",
        mismatches=sorted(invalid_codes),
        seconds_per_repeat=_seconds_per_repeat(runs),
        snakemake=snakemake or options_of_runs(run.metrics.scheduler for run in runs) or HERE,
        series=series,
        question=answer_question(question, cells, resolve),
        ranking=ranking,
    )
    if repeat_until:
        report.repeats = take_look(report, runs, repeat_until)
    return report


def _points(series: Sequence[ScalingSeries]) -> Iterator[ScalingPoint]:
    """Yield the points of all series."""
    for one_series in series:
        yield from one_series.points


def _seconds_per_repeat(runs: Sequence[Run]) -> float | None:
    """Return the seconds of one repeat of all cells: the sum of their mean job times; None where no run recorded it."""
    seconds = ((run.metrics.cell, run.metrics.total_wall_time_s) for run in runs)
    jobs_s = lists_by_key((cell, job_s) for cell, job_s in seconds if job_s is not None)
    return sum(map(statistics.fmean, jobs_s.values())) if jobs_s else None


def _beats_single(series: list[ScalingSeries]) -> dict[str, bool | None]:
    """Return cell -> whether its speed-up over the best single device is above 1 with its whole interval.

    None where the cell has one device itself, or no comparable single device was measured.
    """
    beats_single: dict[str, bool | None] = {}
    for point in _points(series):
        speedup = point.speedup_vs_best_single if point.devices > 1 else None
        beats_single[point.cell] = speedup.above() if speedup else None
    return beats_single


def scaling_series(cells: dict[str, MeasuredCell], effect: float = MARGIN) -> list[ScalingSeries]:
    """Return the series of a campaign with their figures; no interval is yet adjusted for multiple comparisons.

    The name of a series is the slug of its cells without the geometry: ddp-n2x4 is in ddp, and n1x2, a command on two
    devices, in "command". Whatever else a campaign varies is in the slug, and so makes another series.
    """
    members_by_series = group_by(cells.values(), lambda cell: GEOMETRY_IN_SLUG.sub("", cell.cell).strip("-") or COMMAND)
    with_one_device = [cell for cell in cells.values() if cell.values["devices"] == 1]
    singles = group_by(with_one_device, lambda cell: _work_key(cell.values, cell.values["global_batch"]))
    entries = []
    for name, members in members_by_series.items():
        smallest_first = sorted(members, key=lambda cell: (cell.values["devices"], cell.values["nodes"]))
        entries.append(_series_entry(name, smallest_first, singles, effect))
    return entries


def _reference_cells(series: Sequence[ScalingSeries], cells: Mapping[str, MeasuredCell]) -> dict[str, MeasuredCell]:
    """Return cell -> its reference, with enough repeats: the best single device, else its series' baseline."""
    references: dict[str, MeasuredCell] = {}
    for one_series in series:
        for point in one_series.points:
            baseline = one_series.baseline if point.speedup else None  # without a speed-up it is not comparable
            reference_name = point.best_single or baseline
            if point.devices == 1 or not reference_name:  # needs no reference, or has none
                continue
            if len(cells[reference_name].runs) >= FEWEST_REPEATS:
                references[point.cell] = cells[reference_name]
    return references


def _compare_within_sizes(
    sizes: Mapping[tuple, Sequence[MeasuredCell]],
    series: Sequence[ScalingSeries],
    cells: Mapping[str, MeasuredCell],
    confidence: float,
) -> dict[tuple, Family | None]:
    """Return size -> the family of its cells, and set in `series` the intervals that hold together with theirs."""
    references = _reference_cells(series, cells)
    family_by_size = {key: family_of_size(members, references, confidence) for key, members in sizes.items()}
    if families := [family for family in family_by_size.values() if family]:
        _set_intervals_of_families(series, cells, references, families)
    else:
        _set_intervals_of_largest_sizes(series, cells)
    return family_by_size


def _set_intervals_of_families(
    series: Sequence[ScalingSeries],
    cells: Mapping[str, MeasuredCell],
    references: Mapping[str, MeasuredCell],
    families: Sequence[Family],
) -> None:
    """Give the speed-ups of ranked cells intervals that hold together with those of the ranking.

    Else a cell that is picked because it looks best would too often seem faster than one device by chance.
    `references`: cell -> the cell that it is compared with; `families`: for each ranked size, its cells with their
    references.
    """
    # A family holds its references as well: these have no reference themselves, and no interval to be set.
    family_of = {cell: family for family in families for cell in family.cells if cell in references}
    for one_series in series:
        for point in one_series.points:
            family = family_of.get(point.cell)
            if family is None:  # of a size that is not ranked, or without a reference
                continue
            reference = references[point.cell]
            speedup = ratio_in_family(cells[point.cell], reference, family)
            point.speedup_vs_best_single = speedup if point.best_single else None
            if reference.cell == one_series.baseline:
                _set_speedup(point, one_series, speedup, corrected=True)


def _set_intervals_of_largest_sizes(series: Sequence[ScalingSeries], cells: Mapping[str, MeasuredCell]) -> None:
    """Let the speed-ups at the largest size of each series hold together: an answer without a ranking states these."""
    # The points of a series begin with the smallest size.
    answered_series = [one for one in series if len(one.runs) > 1 and one.points[-1].speedup]
    for one_series in answered_series:
        largest_size = one_series.points[-1]
        cell, baseline = cells[largest_size.cell], cells[one_series.baseline]
        # By Bonferroni the intervals of all series hold together.
        confidence = 1 - (1 - cell.confidence) / len(answered_series)
        speedup = Estimated.of(cell.relative_to(baseline, confidence))
        _set_speedup(largest_size, one_series, speedup, corrected=True)


def _set_speedup(point: ScalingPoint, series: ScalingSeries, speedup: Estimated, corrected: bool) -> None:
    """Give a size of a series its speed-up over the baseline, and what follows from it and the numbers of devices."""
    point.speedup = speedup
    point.speedup_corrected = corrected
    point.scaling_efficiency = speedup.times(series.baseline_devices / point.devices)
    point.verdict = efficiency_verdict(point.scaling_efficiency, speedup)
    if series.kind == "strong" and series.baseline_devices == 1:  # as Karp and Flatt's formula has it
        point.karp_flatt = karp_flatt(speedup, point.devices)


def scaling_kind(cells: list[dict[str, Any]]) -> Kind | None:
    """Return how the batch of a series grows: "strong" is one global batch for all sizes, "weak" one batch per device.

    None where neither is the case, the batch is unknown, or there is a single size. `cells`: the configurations of the
    series' cells.
    """
    sizes = {cell["devices"] for cell in cells}
    batches = {cell["global_batch"] for cell in cells}
    if len(sizes) < 2 or None in batches:
        return None
    if len(batches) == 1:
        return "strong"
    batches_per_device = {cell["global_batch"] / cell["devices"] for cell in cells}
    return "weak" if len(batches_per_device) == 1 else None


def _work_key(values: dict[str, Any], batch: float) -> tuple:
    """Return a key that is equal for cells of the same work: configured as `values`, with `batch` samples a step."""
    return batch, *(values[name] for name in SAME_WORK)


def _series_entry(
    name: str, members: list[MeasuredCell], singles: dict[tuple, list[MeasuredCell]], effect: float
) -> ScalingSeries:
    """Return the series of `members`, smallest size first, with its law and each size's speed-up over the smallest.

    `singles`: `_work_key` -> the cells with one device. `effect`: the difference that further repeats are planned for.
    """
    kind = scaling_kind([cell.values for cell in members])
    base = members[0]
    # The configuration that all cells of the series have in common.
    protocol = {key: value for key, value in base.values.items() if all(cell.values[key] == value for cell in members)}
    # Geometry -> the cell with its speed-ups.
    points = {cell.values["geometry"]: _series_point(cell, base, kind, singles) for cell in members}

    # The baseline is comparable with itself, so it stands first.
    comparable = [cell for cell in members if not points[cell.values["geometry"]].incomparable]
    law = None
    if kind:
        law = fit_scaling_law(kind, {cell.values["devices"]: cell.rates for cell in comparable}, base.confidence)

    resolution = None
    largest_size = comparable[-1]
    if largest_size is not base:
        speedup = largest_size.relative_to(base)
        if speedup.low is not None:
            resolution = resolution_of_ratio(speedup, effect, base.confidence)

    series = ScalingSeries(
        name=name,
        strategy=base.values["strategy"],
        kind=kind,
        protocol=protocol,
        baseline=base.cell,
        baseline_devices=base.values["devices"],
        resolve=resolution,
        law=law,
        runs=points,
    )
    for cell in comparable if kind else ():
        if cell is not base:
            own_speedup = Estimated.of(cell.relative_to(base))
            _set_speedup(points[cell.values["geometry"]], series, own_speedup, corrected=False)
    return series


def _series_point(
    cell: MeasuredCell, base: MeasuredCell, kind: Kind | None, singles: dict[tuple, list[MeasuredCell]]
) -> ScalingPoint:
    """Return a cell of a series, not yet with its speed-up over the series' baseline `base`, with that of whole jobs.

    `kind`: the scaling of the series; without a kind no speed-up is defined. `singles`: `_work_key` -> the cells with
    one device, of which the best is what each cell is compared with.
    """
    devices = cell.values["devices"]
    incomparable = unintended_differences(base.provenance, cell.provenance, same_program=True) if kind else []

    job_speedup = None
    if kind == "strong" and cell is not base and not incomparable:  # only equal work has a ratio of job times
        job_speedup = Estimated.of(_job_ratio(cell, base))

    # The best cell with one device, perhaps `cell` itself; or None, and the fields that forbid a comparison with each.
    single, single_incomparable = _best_single(cell, kind, singles)
    single_speedup = Estimated.of(cell.relative_to(single)) if single and single is not cell else None

    is_overhead_only = devices == 1 and without_offload(cell.values["strategy"]) in SHARDING  # one shards nothing
    return ScalingPoint(
        cell=cell.cell,
        devices=devices,
        repeats=[run.metrics.repeat for run in cell.runs],
        metrics_paths=[str(run.folder / METRICS) for run in cell.runs],
        n=len(cell.runs),
        tokens_per_sec_global=Estimated.of(cell.rate),
        tokens_per_sec_median=statistics.median(cell.rates.values()),
        window_wall_time_sec=sum(run.metrics.window.wall_time_s for run in cell.runs) / len(cell.runs),
        speedup_by_job_wall_time=job_speedup,
        incomparable=incomparable,
        best_single=single and single.cell,
        speedup_vs_best_single=single_speedup,
        best_single_incomparable=single_incomparable,
        overhead_only=is_overhead_only,
    )


def _job_ratio(cell: MeasuredCell, base: MeasuredCell) -> Estimate:
    """Return jobs (whole runs) per second of a cell over those of its baseline, paired by repeat where they match."""
    job_s = {run.metrics.repeat: run.metrics.total_wall_time_s for run in cell.runs}
    base_job_s = {run.metrics.repeat: run.metrics.total_wall_time_s for run in base.runs}
    jobs_per_s = times_per_second(list(job_s.values()))
    base_jobs_per_s = times_per_second(list(base_job_s.values()))
    ratio = jobs_per_s.value / base_jobs_per_s.value
    # The ratio of rates is the inverse ratio of seconds, so that the baseline's seconds are the numerator.
    paired = paired_ratio(top=base_job_s, bottom=job_s, value=ratio, confidence=cell.confidence)
    return paired or ratio_of_independent(jobs_per_s, base_jobs_per_s, cell.confidence)


def _best_single(
    cell: MeasuredCell, kind: Kind | None, singles: dict[tuple, list[MeasuredCell]]
) -> tuple[MeasuredCell | None, list[str]]:
    """Return the fastest comparable cell with one device that does the same work, and []; or None, and why it is None.

    The same work has the same global batch, or in weak scaling one device's part of it. Why: the fields in which the
    provenance of the cells of this work differs; [] where there are no such cells. `singles`: `_work_key` -> cells.
    """
    batch = cell.values["global_batch"]
    if batch is None:  # whether another cell does the same work is not known
        return None, []
    if kind == "weak":
        batch = batch / cell.values["devices"]
    fastest_first = sorted(singles.get(_work_key(cell.values, batch), ()), key=lambda single: -single.rate.value)
    differing_fields: set[str] = set()
    for single in fastest_first:
        differing = unintended_differences(single.provenance, cell.provenance, same_program=False)  # dtypes may differ
        if not differing:
            return single, []
        differing_fields |= set(differing)
    return None, sorted(differing_fields)


def efficiency_verdict(efficiency: Estimated | None, speedup: Estimated | None) -> str | None:
    """Return a word for an efficiency: "low" (below 0.7), "good" or "excellent" (from 0.85); None without an interval.

    It is "slower than the baseline" where the speed-up's interval is below 1, and "undecided, low to good" where the
    bounds of the efficiency have different words.
    """
    if not efficiency or not speedup or efficiency.low is None or efficiency.high is None:
        return None
    if speedup.high is not None and speedup.high < 1:
        return "slower than the baseline"
    low_word, high_word = _efficiency_word(efficiency.low), _efficiency_word(efficiency.high)
    return low_word if low_word == high_word else f"undecided, {low_word} to {high_word}"


def _efficiency_word(efficiency: float) -> str:
    """Return the word for an efficiency that is known exactly."""
    if efficiency < GOOD_EFFICIENCY:
        return "low"
    return "good" if efficiency < EXCELLENT_EFFICIENCY else "excellent"
