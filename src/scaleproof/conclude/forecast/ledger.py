"""Forecasts written before the runs that test them, and scored afterwards: the scores of all campaigns are the ledger.

A file of forecasts is sealed: it carries the hash of its content.
"""

import json
import math
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field

from scaleproof.conclude.forecast.interval import Interval, clopper_pearson, interval_score
from scaleproof.conclude.forecast.law import doublings
from scaleproof.ground.errors import damaged_file
from scaleproof.ground.files import read_record, write_json
from scaleproof.ground.findings.forecast_report import CellForecast, Coverage
from scaleproof.verify.reports import forecast_seal

MODEL_VERSION = "2"  # residuals of another law say nothing of this law
LEDGER = "ledger.json"


class Record(BaseModel, extra="forbid", frozen=True):
    """A part of a record of forecasts, with these fields and no others."""


class Entry(CellForecast, frozen=True):
    """The forecast of one cell as it was made, with its interval."""

    @property
    def interval(self) -> Interval | None:
        """The interval as it was forecast, with its bounds at 80 % (`likely`); None where it was refused."""
        if self.value is None or self.low is None or self.high is None:
            return None
        likely = None
        if self.likely_low is not None and self.likely_high is not None:
            likely = (self.likely_low, self.likely_high)
        return Interval(
            value=self.value,
            low=self.low,
            high=self.high,
            level=self.level or 0.95,  # older entries have neither level nor construction
            construction=self.construction or "",
            n=self.n or 0,
            likely=likely,
        )


class Forecasts(Record):
    """forecasts/<time>.json of a campaign: made at `made_utc` from what had been measured then."""

    schema_version: Literal["1.0"] = "1.0"
    model_version: str = MODEL_VERSION
    campaign: str
    made_utc: str
    machine: str = Field(description="Class of the machine: device, backend. Residuals of one class are comparable.")
    calibrated_on: dict[str, str] = Field(description="Runs that went in: name -> sha256 of their metrics.")
    entries: list[Entry]
    sha256: str = ""

    def content(self) -> dict[str, Any]:
        """Return the content of the file without its seal; unknown bounds at 80 % are left out, as in older files."""
        content = self.model_dump(mode="json", exclude={"sha256"})
        for entry in content["entries"]:
            if entry["likely_low"] is None:
                del entry["likely_low"], entry["likely_high"]
        return content

    def digest(self) -> str:
        """Return the seal: sha256 of the content."""
        return forecast_seal(self.content())


class Score(Record):
    """One scored forecast: a row of the ledger."""

    campaign: str
    cell: str
    machine: str
    level_law: Literal["node", "network"]
    made_utc: str
    measured_utc: str
    forecast_sha256: str
    forecast_s: float
    low_s: float
    high_s: float
    level: float
    construction: str
    measured_s: float
    error: float = Field(description="forecast / measured - 1")
    inside: bool
    score: float = Field(description="Interval score in logarithms; smaller is better.")
    distance: float = Field(description="Doublings from the largest measured size.")
    model_version: str

    @property
    def residual(self) -> float:
        """|log(measured / forecast)| per doubling."""
        return abs(math.log(self.measured_s / self.forecast_s)) / self.distance


def write_forecasts(folder: Path, forecasts: Forecasts) -> Path:
    """Write a new file, named by its time, so that no older file is overwritten. Returns its path."""
    seal = forecasts.digest()
    path = folder / f"{forecasts.made_utc.replace(':', '').replace('-', '')}-{seal[:8]}.json"
    write_json(path, forecasts.content() | {"sha256": seal})
    return path


def seal_ahead(folder: Path, forecasts: Forecasts, with_runs: Collection[str]) -> str:
    """Write the forecasts of the cells without runs, where there are any, and return in lines what is sealed."""
    measured = [entry.cell for entry in forecasts.entries if entry.cell in with_runs]
    lines = ["", f"no forecast is sealed of what has runs already: {', '.join(measured)}"] if measured else []
    ahead = [entry for entry in forecasts.entries if entry.cell not in with_runs]
    if any(entry.interval for entry in ahead):
        file = write_forecasts(folder, forecasts.model_copy(update={"entries": ahead}))
        lines += ["", f"written before its runs: {file}"]
    return "\n".join(lines)


def read_forecasts(folder: Path) -> list[Forecasts]:
    """Return all forecasts in a campaign's `folder`, the oldest first. Raises UserError where one was changed."""
    history = []
    for path in sorted(folder.glob("*.json")):  # their names begin with their times
        forecasts = read_record(path, lambda data: Forecasts.model_validate(json.loads(data)))
        if forecasts.sha256 != forecasts.digest():
            raise damaged_file(path, "its hash is not that of its content: it was changed after it was written")
        history.append(forecasts)
    return history


def score_forecasts(forecasts: Forecasts, measured: dict[str, tuple[float, str]], nodes: dict[str, int]) -> list[Score]:
    """Return the scores of the entries whose cells were measured after the forecast was made.

    A cell that was measured before, or on which the forecast was calibrated, tests nothing and is left out. `measured`:
    cell -> (seconds of a step, time of its first run, ISO 8601 UTC). `nodes`: cell -> number of its nodes.
    """
    scores = []
    for entry in forecasts.entries:
        interval = entry.interval
        if interval is None or entry.cell not in measured or entry.largest_measured is None:  # refused, or not measured
            continue
        seconds, measured_utc = measured[entry.cell]
        # Runs are named "CELL/rep1".
        is_calibrated_on = any(name.startswith(f"{entry.cell}/") for name in forecasts.calibrated_on)
        if measured_utc <= forecasts.made_utc or is_calibrated_on:  # it tests nothing
            continue
        scores.append(
            Score(
                campaign=forecasts.campaign,
                cell=entry.cell,
                machine=forecasts.machine,
                level_law="network" if nodes.get(entry.cell, 1) > 1 else "node",
                made_utc=forecasts.made_utc,
                measured_utc=measured_utc,
                forecast_sha256=forecasts.sha256,
                forecast_s=interval.value,
                low_s=interval.low,
                high_s=interval.high,
                level=interval.level,
                construction=interval.construction,
                measured_s=seconds,
                error=interval.value / seconds - 1,
                inside=interval.holds(seconds),
                score=interval_score(interval, seconds),
                distance=doublings(entry.devices, entry.largest_measured),
                model_version=forecasts.model_version,
            )
        )
    return scores


def read_ledger(path: Path) -> list[Score]:
    """Return the rows of the ledger's file; [] without a file. Raises UserError where it is damaged."""
    if not path.is_file():
        return []
    return read_record(path, lambda data: [Score.model_validate(row) for row in json.loads(data)["scores"]])


def add_to_ledger(path: Path, scores: Iterable[Score]) -> list[Score]:
    """Add `scores` to the ledger's file, and return all of its rows; a forecast that has a score keeps it."""
    known = {(score.forecast_sha256, score.cell): score for score in read_ledger(path)}
    for score in scores:
        known.setdefault((score.forecast_sha256, score.cell), score)
    rows = sorted(known.values(), key=lambda score: (score.made_utc, score.campaign, score.cell))
    write_json(path, {"schema_version": "1.0", "scores": [row.model_dump(mode="json") for row in rows]})
    return rows


def past_residuals(scores: Iterable[Score], machine: str, level: Literal["node", "network"]) -> list[float]:
    """Return the residuals of past forecasts on one class of machines, at one `level` of links, by the present law.

    Only the largest residual of each campaign counts, because cells of a campaign share their errors.
    """
    largest_residuals: dict[str, float] = {}  # campaign -> residual
    for score in scores:
        if (score.machine, score.level_law, score.model_version) == (machine, level, MODEL_VERSION):
            largest_residuals[score.campaign] = max(score.residual, largest_residuals.get(score.campaign, 0.0))
    return list(largest_residuals.values())


def coverage_of(scores: Iterable[Score]) -> Coverage:
    """Return how many forecasts held, with Clopper-Pearson bounds, and the mean level that they claimed, if any."""
    rows = list(scores)
    inside_count = sum(row.inside for row in rows)
    low, high = clopper_pearson(inside_count, len(rows))
    nominal = sum(row.level for row in rows) / len(rows) if rows else None
    return Coverage(n=len(rows), inside=inside_count, low=low, high=high, nominal=nominal)
