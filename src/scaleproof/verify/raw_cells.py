"""Cells (configurations with their runs) as their raw files have them, families of them, the bounds of every ratio.

A family holds the ratios of all pairs of the cells of one size and of what they are held against, in intervals that
hold together. A point of a report is one size of a series, of cells that differ in devices alone.
"""

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from scaleproof.verify import intervals
from scaleproof.verify.contents import points_of, schema_of
from scaleproof.verify.intervals import Bounds, CellFamily, Logs, PairNoise
from scaleproof.verify.raw import RawRun, rate_of
from scaleproof.verify.recompute import CONFIDENCE, comparable, has_speedup, measured_by_cell

BATCHLESS = ("model", "vocab_size", "corpus", "tokenizer", "seq_len")  # keys equal in cells that do the same work


@dataclass(frozen=True)
class RawCell:
    """The runs of a cell that have numbers."""

    name: str
    runs: list[RawRun]

    @cached_property
    def logs(self) -> dict[int, float]:
        """Repeat -> logarithm of the rate."""
        return {run.metrics["repeat"]: math.log(rate_of(run)) for run in self.runs}

    @cached_property
    def job_logs(self) -> dict[int, float]:
        """Repeat -> logarithm of whole jobs per second."""
        return {run.metrics["repeat"]: -math.log(run.job_seconds) for run in self.runs}

    @property
    def rate(self) -> float:
        """Tokens/s: all tokens over all time of the windows."""
        return rate_of(*self.runs)

    @property
    def devices(self) -> int:
        return self.runs[0].devices

    @property
    def config(self) -> dict[str, Any]:
        config: dict[str, Any] = self.runs[0].metrics["config"]
        return config

    @property
    def strategy(self) -> str:
        return str(self.config["execution"]["strategy"])

    @property
    def batch(self) -> int | None:
        return self.runs[0].batch

    @property
    def work(self) -> tuple[str, ...]:
        """The values of BATCHLESS as text: cells with equal values, and equal batches, do the same work."""
        workload = dict(self.config["workload"])
        if workload.get("vocab_size") == "derive":  # as many as the tokenizer has
            workload["vocab_size"] = (self.runs[0].metrics.get("data") or {}).get("vocab_size")
        return tuple(str(workload.get(name)) for name in BATCHLESS)

    @property
    def program(self) -> tuple[object, ...]:
        """Code, versions, machine and settings, as a key that is equal for two comparable cells.

        Without the strategy, which may differ: cells of different strategies are held against each other.
        """
        metrics = self.runs[0].metrics
        settings = {key: value for key, value in self.config["execution"].items() if key != "strategy"}
        return metrics["code_sha256"], str(metrics["env"]), str(metrics["hardware"]), str(settings)

    @cached_property
    def machine(self) -> dict[str, set[str]]:
        """Code, versions and machine of the runs: field -> all of its values."""
        values: dict[str, set[str]] = {}
        for run in self.runs:
            hardware = run.metrics["hardware"]
            fields = {"code": run.metrics["code_sha256"], "os": run.metrics["host"]["os"], **run.metrics["env"]}
            for name, value in (fields | {key: hardware[key] for key in ("cpu_model", "cpu_count")}).items():
                values.setdefault(name, set()).add(str(value))
        return values


@dataclass(frozen=True)
class RawAnswer:
    """The cells of a campaign, with the ratios and families that are formed of them.

    `report`: scaling_report.json, of which only names, margins and the level of intervals are taken. `codes`: cell ->
    the codes of findings above a note about its runs.
    """

    cells: Mapping[str, RawCell]
    report: dict[str, Any]
    codes: Mapping[str, Collection[str]]
    families: dict[int, CellFamily | None] = field(default_factory=dict)  # by the index of the ranking
    squares: dict[frozenset[int], list[float]] = field(default_factory=dict)  # of all cells with these repeats

    @property
    def confidence(self) -> float:
        """Level of intervals of ratios: higher where results decide when repeats end (`repeats` of the report)."""
        rule = self.report.get("repeats")
        return float(rule["confidence"]) if rule else CONFIDENCE

    def noise(self, cell: str, base: str) -> PairNoise | None:
        """Return the noise of the ratio of two cells; None where a cell has fewer than three runs.

        It is estimated from all cells that have the same repeats as `cell`.
        """
        logs_of_cell = self.cells[cell].logs
        repeats = frozenset(logs_of_cell)
        if repeats not in self.squares:
            matching = [other.logs for other in self.cells.values() if set(other.logs) == repeats]
            self.squares[repeats] = intervals.residual_sums_of_squares(matching)
        return intervals.pair_noise(logs_of_cell, self.cells[base].logs, self.squares[repeats])

    def ratio(self, cell: str, base: str, confidence: float | None = None) -> tuple[float, Bounds | None]:
        """Return the ratio of two rates, and its own interval; None for an interval that cannot be had."""
        value = self.cells[cell].rate / self.cells[base].rate
        noise = self.noise(cell, base)
        return value, noise.bounds(value, confidence or self.confidence) if noise else None

    @property
    def has_two_intervals(self) -> bool:
        """Whether the report is of a schema in which a speed-up has an interval of its own beside the corrected one."""
        return schema_of(self.report) < (6, 0)

    def speedup_bounds(self, series: Mapping[str, Any], point: Mapping[str, Any]) -> Bounds | None:
        """Return the interval of the speed-up of a size over the baseline of its series; None: it cannot be had."""
        is_corrected, corrected_bounds = self.correction(series, point)
        if is_corrected and not self.has_two_intervals:
            return corrected_bounds
        _, own_bounds = self.ratio(point["cell"], series["baseline"])
        return own_bounds

    def correction(self, series: Mapping[str, Any], point: Mapping[str, Any]) -> tuple[bool, Bounds | None]:
        """Return whether that speed-up has an interval that holds together with the others of the answer, and which.

        By the family of the size's ranking, if the size is held against the baseline there; in an answer without
        rankings, by Bonferroni over the largest size of each series.
        """
        name, base = point["cell"], series["baseline"]
        family = self.family_with(name)
        if family and self.reference(series, point) == base:  # this speed-up is one of the ratios of the family
            return True, family.bounds(name, base)
        confidence = self._level_without_ranking(name)
        _, bounds = self.ratio(name, base, confidence)
        return (True, bounds) if confidence else (False, None)

    def _level_without_ranking(self, name: str) -> float | None:
        """Return the level of the interval of one speed-up in an answer without rankings, by Bonferroni.

        Such an answer states the speed-up of the largest size of each series. Returns None where there is a ranking,
        and where the cell `name` is no such size.
        """
        has_ranking = any(self.family(index) for index in range(len(self.report["ranking"])))
        largest_sizes = [(series, list(series["runs"].values())[-1]) for series in self.report["series"]]
        cells_with_speedup = [largest["cell"] for series, largest in largest_sizes if has_speedup(series, largest)]
        if has_ranking or name not in cells_with_speedup:
            return None
        return 1 - (1 - self.confidence) / len(cells_with_speedup)

    def reference(self, series: Mapping[str, Any], point: Mapping[str, Any]) -> str | None:
        """Return the cell that a point is compared with: the best single device, else the baseline of its speed-up.

        Returns None for a point on one device, where there is no such cell, or where it has too few runs.
        """
        if point["devices"] <= 1:
            return None
        reference: str | None = point["best_single"]
        if not reference and has_speedup(series, point):
            reference = series["baseline"]
        if not reference or len(self.cells[reference].runs) < intervals.FEWEST:
            return None
        return reference

    def family_with(self, cell: str) -> CellFamily | None:
        """Return the family of the largest size that has `cell` in it; None where no family has."""
        families = [self.family(index) for index in range(len(self.report["ranking"]))]  # smallest size first
        return next((family for family in reversed(families) if family and cell in family.cells), None)

    def family(self, index: int) -> CellFamily | None:
        """Return the family of the ranking at `index`, made once: its comparable cells and their references."""
        if index not in self.families:
            self.families[index] = self._family(comparable(self.report["ranking"][index]))
        return self.families[index]

    def _family(self, names: list[str]) -> CellFamily | None:
        """Return the family of the cells `names` and of their references; None for one cell."""
        if len(names) < 2:
            return None
        references_of = {point["cell"]: self.reference(series, point) for series, point in points_of(self.report)}
        references = (references_of.get(name) for name in names)
        cells = [self.cells[name] for name in dict.fromkeys([*names, *filter(None, references)])]
        logs: dict[str, Logs] = {cell.name: cell.logs for cell in cells}
        return intervals.family(logs, {cell.name: cell.rate for cell in cells}, self.confidence)


def answer_of(report: dict[str, Any], runs: Sequence[RawRun], codes: Mapping[str, Collection[str]]) -> RawAnswer:
    """Return the cells of a campaign's `runs` that have numbers. `report`, `codes`: as in RawAnswer."""
    cells = {name: RawCell(name, group) for name, group in measured_by_cell(runs).items()}
    return RawAnswer(cells, report, codes)


def ratio_bounds(answer: RawAnswer) -> dict[str, Bounds | None]:
    """Return "cells/<cell>/<figure>" -> bounds of every ratio of the report; None without enough runs.

    Ratios to the fastest cell and to one device have the intervals of their family, which hold together.
    """
    report = answer.report
    bounds: dict[str, Bounds | None] = {}
    for index, ranking in enumerate(report["ranking"]):
        family = answer.family(index)
        fastest = ranking["cells"][0]["cell"]
        for name in comparable(ranking):
            if name != fastest:
                bounds[f"cells/{name}/relative_to_fastest"] = family.bounds(name, fastest) if family else None
                bounds[f"cells/{name}/fastest_over"] = family.bounds(fastest, name) if family else None

    for series, point in points_of(report):
        name, best = point["cell"], point["best_single"]
        if has_speedup(series, point):
            of_point = _point_bounds(answer, series, point)
            bounds |= {f"cells/{name}/{column}": pair for column, pair in of_point.items()}
        if best not in (None, name):
            _, own_bounds = answer.ratio(name, best)
            # Where the point has a reference this is `best`, and a member of the family.
            family = answer.family_with(name) if answer.reference(series, point) else None
            bounds[f"cells/{name}/speedup_vs_best_single"] = family.bounds(name, best) if family else own_bounds
    return bounds


def _point_bounds(answer: RawAnswer, series: Mapping[str, Any], point: Mapping[str, Any]) -> dict[str, Bounds | None]:
    """Return column -> bounds of the speed-up of a size over its baseline, and of what follows from it."""
    cell, base_cell = answer.cells[point["cell"]], answer.cells[series["baseline"]]
    bounds: dict[str, Bounds | None] = dict.fromkeys(("speedup", "scaling_efficiency", "karp_flatt"))
    bounds["speedup_by_job_wall_time"] = _job_bounds(cell, base_cell, answer.confidence)
    if speedup_bounds := answer.speedup_bounds(series, point):
        low, high = speedup_bounds
        efficiency_over_speedup = base_cell.devices / cell.devices
        bounds["speedup"] = speedup_bounds
        bounds["scaling_efficiency"] = (low * efficiency_over_speedup, high * efficiency_over_speedup)
        if cell.devices > 1:  # the serial part falls with the speed-up
            bounds["karp_flatt"] = (_serial_part(high, cell.devices), _serial_part(low, cell.devices))
    return bounds


def _job_bounds(cell: RawCell, base: RawCell, confidence: float) -> Bounds | None:
    """Return the bounds of the speed-up of whole jobs: by Welch where a cell has two runs, None where it has one."""
    noise = intervals.pair_noise(cell.job_logs, base.job_logs)
    fewest_runs = min(len(cell.runs), len(base.runs))
    if noise is None and fewest_runs > 1:
        noise = intervals.welch_noise([cell.job_logs, base.job_logs], fewest_runs)
    job_s, base_job_s = (statistics.fmean(run.job_seconds for run in one.runs) for one in (cell, base))
    return noise.bounds(base_job_s / job_s, confidence) if noise else None


def _serial_part(speedup: float, n: int) -> float:
    """Return Karp and Flatt's serial part of a speed-up on `n` devices, cut at 0 and 1."""
    serial_part = (1 / speedup - 1 / n) / (1 - 1 / n)
    return min(max(serial_part, 0.0), 1.0)
