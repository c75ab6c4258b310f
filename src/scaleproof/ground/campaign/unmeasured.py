"""Keys of what is made beside the timed runs: traces, forecasts, trials. Changing them re-runs no timed run."""

from typing import Any, Literal

from pydantic import Field, model_validator

from scaleproof.ground.campaign.field import Section, key
from scaleproof.ground.campaign.geometry import GeometryKey


class Tracing(Section, json_schema_extra={"examples": [{"cells": "all"}]}):
    """Which cells are traced, in a separate short run each. Changing these re-runs no timed run."""

    cells: list[str] | Literal["all"] = key([], "Names of cells, as `campaign show` lists them, or all.", "none")
    steps: int = key(5, "Traced optimizer steps, after the cell's warm-up.", "optimizer steps", ge=1, le=1000)
    tool: Literal["auto", "nsys", "torch.profiler"] = key(
        "auto",
        "nsys: Nsight Systems. torch.profiler: Kineto. auto: nsys on GPUs where it is installed, else torch.profiler.",
        "none",
    )
    nodes: Literal["first", "all"] = key(
        "first", "The nodes that nsys traces; torch.profiler traces every rank.", "none"
    )
    interconnect: bool = key(
        False,
        "On GPUs, also keep what NCCL, nvidia-smi and ibstat report about the links between devices. Formerly `proof`.",
        "none",
    )

    @model_validator(mode="before")
    @classmethod
    def _read_former_names(cls, data: Any) -> Any:
        """Read `proof`, the former name of `interconnect`."""
        if isinstance(data, dict) and "proof" in data and "interconnect" not in data:
            return {"interconnect" if name == "proof" else name: value for name, value in data.items()}
        return data


class Forecasting(Section, json_schema_extra={"examples": [{"hold_out": ["1x4"]}]}):
    """Forecasts of sizes before they run, from measurements of others. Changing these re-runs no timed run."""

    from_: list[GeometryKey] = Field(
        [],
        alias="from",
        description="Geometries whose runs forecasts are made from; empty: all that are measured.",
        json_schema_extra={"unit": "nodes x devices"},
    )
    hold_out: list[GeometryKey] = key(
        [],
        "Geometries that are forecast before they run. Their runs wait for the forecast, and score it.",
        "nodes x devices",
    )
    launches: int = key(
        3, "Launches of a sweep of collectives, each in fresh processes; 0: no sweep.", "launches", ge=0, le=100
    )

    @property
    def enabled(self) -> bool:
        return bool(self.from_ or self.hold_out)


class Frontier(Section):
    """The search for the micro-batch of cells that say `largest` or `fastest`. Another limit searches again."""

    limit_gb: float | None = key(
        None,
        "Memory of a device that may be used. Empty: all of the smallest GPU's; a CPU needs one.",
        "GB of 10^9 bytes",
        gt=0,
        le=10**6,
    )
