"""Summaries of captures: our own, whose conditions are known, and files of anybody else."""

from filecmp import cmp
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd

from scaleproof.ground.errors import UserError
from scaleproof.ground.files import now_utc, scrub, write_atomic, write_json
from scaleproof.ground.records.profile_schema import PROFILE, Profile
from scaleproof.measure.trace.breakdown import StepBreakdown
from scaleproof.measure.trace.capture.capture_schema import RAW, Captured, read_capture
from scaleproof.measure.trace.ranges import largest_ranges_and_calls
from scaleproof.measure.trace.readers.interconnect import read_interconnect
from scaleproof.measure.trace.readers.nsys_stats import summarise_text
from scaleproof.measure.trace.readers.open_trace import read_trace, trace_kind, traces_at
from scaleproof.measure.trace.timeline import COLUMNS, timeline_of_median_step

TIMELINE = "timeline.csv"
PER_RANK = (".sqlite", ".json", ".json.gz")
INTERCONNECT_FILES = (".log", ".xml", ".txt")


def summarise_capture(folder: Path) -> Profile:
    """Return the profile of the capture in `folder`, and write it there, with a timeline. Raises UserError.

    It is dated as its capture, so that a summary made again has the bytes whose hash a report has.
    """
    captured = read_capture(folder)
    if captured.status == "ok":
        profile, spans = _summarise_trace(folder, captured)
    else:
        profile = Profile(
            **_capture_fields(captured, folder), status=captured.status, reason=captured.reason, tool=captured.tool
        )
        spans = pd.DataFrame(columns=COLUMNS)
    write_atomic(folder / TIMELINE, spans.to_csv(index=False, float_format="%.6f"))
    write_json(folder / PROFILE, profile.model_dump(mode="json"))
    return profile


def _summarise_trace(folder: Path, captured: Captured) -> tuple[Profile, pd.DataFrame]:
    """Return the profile of a successful capture, and the timeline of its median step."""
    capture_fields = _capture_fields(captured, folder)
    paths = sorted(folder / RAW / name for name in captured.files if name.endswith(PER_RANK))
    breakdown = StepBreakdown(read_trace(paths), captured.world_size, capture_fields["n_devices"])
    per_file = {}
    if len(paths) > 1:
        per_file = {path.name: largest_ranges_and_calls(read_trace([path])) for path in paths}
    reports = [name for name in captured.files if name.endswith(".nsys-rep")]
    nsys_report: str | list[str] | None = reports or None  # a list only if there are several
    if len(reports) == 1:
        nsys_report = reports[0]
    profile = Profile(
        **capture_fields | breakdown.profile_fields(),
        interconnect=_read_interconnects(folder, captured),
        inputs=[path.name for path in paths],
        nsys_report=nsys_report,
        per_file=per_file,
    )
    _add_bandwidth(profile, captured)
    return profile, timeline_of_median_step(breakdown)


def _add_bandwidth(profile: Profile, captured: Captured) -> None:
    """Set the bus bandwidth of each collective of `profile`: bytes in the probed step x factor / transfer time.

    For n ranks the factor is 2 (n - 1) / n for an all-reduce, else (n - 1) / n. The bandwidth is then the speed of the
    slowest link whatever n is (nccl-tests, doc/PERFORMANCE.md). It stays None where bytes or transfer time are unknown.
    """
    ranks = captured.world_size
    bytes_of_collective: dict[str, int] = {}  # name without underscores -> bytes
    for name, probed in (captured.collectives or {}).items():
        short_name = name.removesuffix("_base").replace("_", "")
        bytes_of_collective[short_name] = bytes_of_collective.get(short_name, 0) + probed["bytes"]
    for name, collective in profile.collectives.items():
        nbytes = bytes_of_collective.get(name.replace("_", ""))
        if nbytes and collective.transfer_ms and ranks > 1:
            factor = (2 if name == "all_reduce" else 1) * (ranks - 1) / ranks
            collective.bus_gb_per_s = factor * nbytes / (collective.transfer_ms * 1e6)


def summarise_files(places: list[Path], ranks: int | None = None, steps: int | None = None) -> Profile:
    """Return the profile of trace files that scaleproof did not capture. Raises UserError where a file is no trace.

    `places`: files, or folders of them. `ranks` and `steps`: how many the run had, for files that do not say it.
    """
    paths = [path for place in places for path in traces_at(place)]
    kinds = {trace_kind(path) for path in paths}
    for one, other in combinations(paths if kinds == {"kineto"} else (), 2):
        if cmp(one, other, shallow=False):
            raise UserError(f"{one} and {other} are the same profile, whose steps would count twice; give it once")
    if "text" in kinds and len(kinds) > 1:
        raise UserError("text reports and single events cannot be summarised together; give one kind of file")
    if kinds == {"text"}:
        fields = summarise_text(paths, ranks, steps)
    else:
        fields = StepBreakdown(read_trace(paths), ranks).profile_fields()
    known = {"generated_at_utc": now_utc(), "run_dir": scrub(str(paths[0].parent))}
    return Profile(**known, inputs=[path.name for path in paths], **fields)


def _read_interconnects(folder: Path, captured: Captured) -> dict[str, Any]:
    """Return the reports about links in a capture: name of the file -> kind and content, or why it is unreadable."""
    evidence: dict[str, Any] = {}
    for name in captured.files:
        if name.endswith(INTERCONNECT_FILES):
            try:
                kind, content = read_interconnect(folder / RAW / name)
                evidence[name] = {"kind": kind, "content": content}
            except UserError as error:
                evidence[name] = {"kind": "unknown", "content": scrub(str(error))}
    return evidence


def _capture_fields(captured: Captured, folder: Path) -> dict[str, Any]:
    """Return the fields of a Profile that do not depend on the trace itself: name -> value."""
    config, collectives = captured.training_config, captured.collectives
    return {
        "generated_at_utc": captured.timestamp_utc,
        "run_dir": scrub(str(folder)),
        "slurm_job_id": (captured.scheduler or {}).get("job_id"),
        "hosts": list(dict.fromkeys(place["host"] for place in captured.ranks)),
        "world_size": captured.world_size,
        "n_devices": sum(len(rank["devices"]) for rank in captured.ranks) or None,
        "gpu": next((rank["device_name"] for rank in captured.ranks if rank["device_name"] != "cpu"), None),
        "torch": captured.env.get("torch_version"),
        "deepspeed": captured.env.get("deepspeed_version"),
        "seq_length": config["seq_len"],
        "micro_batch_size_per_gpu": config["micro_batch_size_per_gpu"],
        "grad_accum_steps": config["grad_accum_steps"],
        "total_wall_time_sec": captured.total_wall_time_sec,
        "campaign": captured.campaign,
        "cell": captured.cell,
        "fingerprint": captured.fingerprint,
        "strategy": captured.strategy,
        "precision": config.get("precision"),
        "tool_reason": captured.tool_reason,
        "expected_calls": {name: probed["calls"] for name, probed in collectives.items()} if collectives else None,
        "step_time_ms": [1e3 * seconds for seconds in captured.step_time_s],
    }
