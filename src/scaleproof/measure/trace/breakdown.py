"""From a trace to where the time of a step went. Everything is measured in unions of intervals, never in sums."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from scaleproof.ground.facts.kernel_classes import COMMUNICATION, LEAST_CLASSIFIED, UNCLASSIFIED, classify
from scaleproof.ground.records.profile_schema import Collective, Kernel, TraceCoverage, TracedStep
from scaleproof.measure.trace.events import Trace
from scaleproof.measure.trace.ranges import largest_ranges_and_calls, range_tree
from scaleproof.measure.trace.rank_activity import DeviceWork, Windows, count_gaps
from scaleproof.measure.trace.time_spans import Spans, merge_spans, ns_in_windows, subtract
from scaleproof.measure.trace.waiting import Waiting, find_waiting

PHASES = ("data", "forward", "backward", "reduce", "optimizer")
# Fields of a traced step that are not known without communication.
ACTIVITIES = ("compute_ms", "communication_ms", "exposed_ms", "overlapped_ms", "wait_ms", "exposed_wait_ms")
TOP = 10  # kernels that a profile lists


class StepBreakdown:
    """Where the time of a trace's steps went. `unknown`: missing figure -> why it is missing."""

    def __init__(self, trace: Trace, world: int | None = None, n_devices: int | None = None) -> None:
        """Classify the trace's kernels, and find its steps. Figures are computed when they are read.

        `world` and `n_devices`: how many ranks and devices the run had, where that is known.
        """
        self.trace = trace
        self.ranks = trace.ranks
        self.world = world or trace.source.world or len(self.ranks)
        # Whether a rank drives several GPUs, as under nn.DataParallel.
        self.shares_process = bool(n_devices and n_devices > self.world and trace.source.device == "gpu")

        # Names are replaced by small numbers at once: comparing a million texts would take longest of all.
        classes, collectives = classify(trace.work["name"].cat.categories)  # of each name; None: no collective
        codes = trace.work["name"].cat.codes.to_numpy()
        self.kinds = sorted({*classes, COMMUNICATION, UNCLASSIFIED})
        self.collective_names = sorted({name for name in collectives if name})
        # For each row of the trace's work, its place in these lists; -1 for a row that is no collective.
        self.kind = np.array([self.kinds.index(name) for name in classes], np.int8)[codes]
        place_of_collective = {name: place for place, name in enumerate(self.collective_names)}
        collective = np.array([place_of_collective.get(name or "", -1) for name in collectives], np.int8)[codes]
        self.work = {rank: self._work_of_rank(rank, collective) for rank in self.ranks}

        step_counts = [len(window.starts) for window in self.windows.values()]
        self.steps = min(step_counts, default=0) or None  # the number of steps that all ranks have
        self.unknown: dict[str, str] = {}
        if reason := self._why_no_communication():
            self.unknown["communication"] = reason
        if not self.steps:
            self.unknown["per_step"] = (
                "the trace has no `step` ranges (torch has them with a schedule), so nothing can be said per step"
            )

    def _work_of_rank(self, rank: int, collective: np.ndarray) -> DeviceWork:
        """Return the work of one rank. `collective`: for each row of the trace, its place in `collective_names`."""
        is_own = (self.trace.work["rank"] == rank).to_numpy()
        times = {name: self.trace.work[name].to_numpy()[is_own] for name in ("launched", "start", "end")}
        return DeviceWork(**times, kind=self.kind[is_own], collective=collective[is_own])

    def is_kind(self, kind: np.ndarray, name: str) -> np.ndarray:
        """Return which entries of `kind` (indices in `kinds`) are the class called `name`, as a boolean mask."""
        return kind == self.kinds.index(name)

    @cached_property
    def windows(self) -> dict[int, Windows]:
        """When each rank's steps began and ended: rank -> Windows."""
        step_ranges = self.trace.ranges[self.trace.ranges["name"] == "step"]
        windows = {}
        for rank in self.ranks:
            own = step_ranges[step_ranges["rank"] == rank].sort_values("start")
            starts, ends = own["start"].to_numpy(), own["end"].to_numpy()
            if self.trace.source.device == "gpu":
                windows[rank] = self._device_windows(rank, starts, ends)
            else:
                windows[rank] = Windows(starts=starts, ends=ends, host_starts=starts, host_ends=ends)
        return windows

    def _device_windows(self, rank: int, host_starts: np.ndarray, host_ends: np.ndarray) -> Windows:
        """Return when a rank's GPU worked on its steps, each of which lasts until the next step's first kernel.

        The host, which launches the kernels, runs ahead of the GPU. Steps that launched nothing are left out.
        """
        work = self.work[rank]
        order = np.argsort(work.launched, kind="stable")
        launched = work.launched[order]
        kernel_starts = work.start[order]
        kernel_ends = work.end[order]
        # In order of launch, the kernels of a step have the places from `first` up to, but not including, `behind`.
        first = np.searchsorted(launched, host_starts)
        behind = np.searchsorted(launched, host_ends)
        is_busy = behind > first
        kernels_of_steps = [slice(begin, end) for begin, end in zip(first[is_busy], behind[is_busy], strict=True)]
        step_starts = [kernel_starts[kernels].min() for kernels in kernels_of_steps]
        if not step_starts:
            none = np.empty(0, np.int64)
            return Windows(starts=none, ends=none, host_starts=none, host_ends=none)

        # The last step ends with its last kernel, but is not shorter than on the host.
        last_host_length = (host_ends - host_starts)[is_busy][-1]
        last_end = max(kernel_ends[kernels_of_steps[-1]].max(), step_starts[-1] + last_host_length)
        return Windows(
            starts=np.array(step_starts, np.int64),
            ends=np.array([*step_starts[1:], last_end], np.int64),
            host_starts=host_starts[is_busy],
            host_ends=host_ends[is_busy],
        )

    @cached_property
    def coverage(self) -> TraceCoverage:
        """The share of device time in kernels of known classes, and what is missing from the trace."""
        lengths_ns = (self.trace.work["end"] - self.trace.work["start"]).to_numpy()
        total_ns = int(lengths_ns.sum())
        is_unclassified = self.is_kind(self.kind, UNCLASSIFIED)
        unclassified = self.trace.work.loc[is_unclassified, ["name"]].assign(ns=lengths_ns[is_unclassified])
        largest = unclassified.groupby("name", observed=True)["ns"].sum().nlargest(3)
        return TraceCoverage(
            classified_share=1 - int(unclassified["ns"].sum()) / total_ns if total_ns else None,
            mark=LEAST_CLASSIFIED,
            unclassified_top=[str(name) for name in largest.index],
            dropped_events=self.trace.source.dropped,
            diagnostics=self.trace.source.diagnostics,
            missing_ranks=sorted(set(range(self.world)) - set(self.ranks)),
        )

    def _why_no_communication(self) -> str | None:
        """Return why the trace does not tell communication from computation. Returns None where it does."""
        if self.trace.source.device == "none":
            return f"the trace of {self.trace.source.tool} holds no kernels, no operators and no collectives"
        if self.shares_process:
            return "a rank of nn.DataParallel drives several devices: one computing while another copies is not overlap"
        share = self.coverage.classified_share
        if share is not None and share < LEAST_CLASSIFIED:
            names = ", ".join(self.coverage.unclassified_top)
            return f"{1 - share:.1%} of the device time is in kernels of no known class ({names}); they may communicate"
        if self.world > 1 and not self.is_kind(self.kind, COMMUNICATION).any():
            return f"no collective was found in a trace of {self.world} ranks; its kernels may have unknown names"
        if self.trace.source.dropped:
            return f"{self.trace.source.tool} lost {self.trace.source.dropped:,} events"
        return None

    @cached_property
    def knows_communication(self) -> bool:
        """Whether the trace tells which work was communication."""
        return "communication" not in self.unknown

    @cached_property
    def _activity(self) -> dict[int, tuple[Spans, Spans]]:
        """When each rank's device computed and when it communicated: rank -> (computing, communicating)."""
        spans = {}
        for rank, work in self.work.items():
            is_communication = self.is_kind(work.kind, COMMUNICATION)
            computing = work.spans(~is_communication, self.trace.source.pause_ns)
            spans[rank] = computing, work.spans(is_communication)
        return spans

    @cached_property
    def waits(self) -> Waiting | str:
        """When ranks waited for others within collectives, or a text that says why that is unknown."""
        if not self.knows_communication:
            return self.unknown["communication"]
        if missing := self.coverage.missing_ranks:
            noun, verb = ("rank", "is") if len(missing) == 1 else ("ranks", "are")
            return f"{noun} {', '.join(map(str, missing))} {verb} not in the trace"
        if len(self.ranks) < 2:
            return "one rank waits for nobody"
        calls = []
        for rank, work in self.work.items():
            is_call = work.collective >= 0
            names = np.array(self.collective_names, dtype=object)[work.collective[is_call]]
            columns = {"rank": rank, "collective": names, "start": work.start[is_call], "end": work.end[is_call]}
            calls.append(pd.DataFrame(columns))
        windows = {rank: (window.starts, window.ends) for rank, window in self.windows.items()}
        return find_waiting(pd.concat(calls, ignore_index=True), windows, self.steps or 0)

    def per_step(self) -> list[TracedStep]:
        """Return one row per rank and step, in milliseconds, with None for what the trace lacks. [] without steps."""
        return [row for rank in self.ranks for row in self._steps_of_rank(rank)] if self.steps else []

    def _steps_of_rank(self, rank: int) -> Iterator[TracedStep]:
        """Yield the rows of a rank's steps, as `per_step` does."""
        window = self.windows[rank]
        ms = self._activity_ms(rank)
        idle_ms = ms.pop("idle")
        phases = self._phase_times(rank, window)
        knows_idle = self.trace.source.device != "none" and not self.shares_process  # else some work is not recorded
        # Gaps are pauses in all work: in computing and communicating together.
        starts, ends = (np.concatenate(edges) for edges in zip(*self._activity[rank], strict=True))
        gaps = count_gaps(merge_spans(starts, ends), window)

        for step in range(self.steps or 0):
            known_ms: dict[str, Any] = dict.fromkeys(ACTIVITIES)  # None where communication is not known
            if self.knows_communication:
                known_ms |= {f"{name}_ms": round(float(of_steps[step]), 6) for name, of_steps in ms.items()}
            yield TracedStep(
                step=step,
                rank=rank,
                wall_ms=(window.ends[step] - window.starts[step]) / 1e6,
                idle_ms=float(idle_ms[step]) if knows_idle else None,
                gaps=int(gaps[step]) if knows_idle else None,
                ranges_ms={name: float(of_steps[step]) for name, of_steps in phases.items()},
                **known_ms,
            )

    def _activity_ms(self, rank: int) -> dict[str, np.ndarray]:
        """Return the milliseconds of a rank's activities in each step: activity -> one entry a step."""
        window = self.windows[rank]
        compute, communication = self._activity[rank]
        exposed = subtract(communication, compute)
        activities = {"compute": compute, "communication": communication, "exposed": exposed}
        if isinstance(self.waits, Waiting):
            waits = self.waits.by_rank[rank]
            activities |= {"wait": waits, "exposed_wait": subtract(waits, compute)}
        ns = {name: ns_in_windows(spans, window.starts, window.ends) for name, spans in activities.items()}
        ns["overlapped"] = ns["communication"] - ns["exposed"]
        ns["idle"] = window.ends - window.starts - ns["compute"] - ns["exposed"]
        return {name: of_steps / 1e6 for name, of_steps in ns.items()}

    def _phase_times(self, rank: int, window: Windows) -> dict[str, np.ndarray]:
        """Return the milliseconds of each phase on the host in each step: phase (forward, ...) -> one entry a step."""
        own_ranges = self.trace.ranges[self.trace.ranges["rank"] == rank]
        phases = {}
        for name in PHASES:
            ranges = own_ranges[own_ranges["name"] == name]
            if len(ranges):
                spans = merge_spans(ranges["start"].to_numpy(), ranges["end"].to_numpy())
                phases[name] = ns_in_windows(spans, window.host_starts, window.host_ends) / 1e6
        return phases

    def _mean_ms(self, spans: dict[int, Spans]) -> float:
        """Return the milliseconds that `spans` (rank -> spans) take in a step, as the mean over steps and ranks."""
        total_ns = 0
        for rank, spans_of_rank in spans.items():
            window = self.windows[rank]
            total_ns += int(ns_in_windows(spans_of_rank, window.starts, window.ends).sum())
        return total_ns / 1e6 / ((self.steps or 1) * len(self.ranks))

    def class_times(self) -> dict[str, float] | None:
        """Return class of kernels -> milliseconds per step and rank. None where communication is not known."""
        if not self.steps or not self.knows_communication:
            return None
        classes = {}
        for name in self.kinds:
            spans = {rank: work.spans(self.is_kind(work.kind, name)) for rank, work in self.work.items()}
            if any(len(starts) for starts, _ in spans.values()):
                classes[name] = round(self._mean_ms(spans), 6)
        return classes

    def collectives(self) -> dict[str, Collective]:
        """Return name -> calls and milliseconds per step and rank of each collective, {} where they are not known."""
        if not self.steps or not self.knows_communication:
            return {}
        collectives = {}
        waits = self.waits.by_collective if isinstance(self.waits, Waiting) else {}

        for place, name in enumerate(self.collective_names):
            spans = {rank: work.spans(work.collective == place) for rank, work in self.work.items()}
            computing = {rank: self._activity[rank][0] for rank in self.ranks}
            exposed = {rank: subtract(spans[rank], computing[rank]) for rank in self.ranks}
            total_ms = self._mean_ms(spans)
            wait_ms = self._mean_ms(waits[name]) if name in waits else None
            calls = sum(self._calls_started(rank, place) for rank in self.ranks)
            collectives[name] = Collective(
                calls=calls / (self.steps * len(self.ranks)),
                total_ms=total_ms,
                exposed_ms=self._mean_ms(exposed),
                transfer_ms=None if wait_ms is None else total_ms - wait_ms,
                wait_ms=wait_ms,
            )

        return collectives

    def _calls_started(self, rank: int, place: int) -> int:
        """Return how many calls of a collective a rank launched in its steps. `place`: in `collective_names`."""
        window, work = self.windows[rank], self.work[rank]
        launched = work.launched[work.collective == place]
        step = np.searchsorted(window.host_starts, launched, side="right") - 1  # -1: before the first step
        is_inside = (step >= 0) & (launched < window.host_ends[np.maximum(step, 0)])
        return int(is_inside.sum())

    def kernels(self) -> list[Kernel]:
        """Return the TOP kernels by device time: figures per step and rank, or totals of a trace without steps."""
        work = self.trace.work.assign(ns=self.trace.work["end"] - self.trace.work["start"])
        sums = work.groupby("name", observed=True)["ns"].agg(["count", "sum"]).nlargest(TOP, "sum")
        total_ns = int(work["ns"].sum())
        names = [str(name) for name in sums.index]
        kinds, _ = classify(names)
        divisor = self.steps * len(self.ranks) if self.steps else 1

        return [
            Kernel(
                name=name,
                kind=kind,
                calls=int(calls) / divisor,
                total_ms=int(ns) / 1e6 / divisor,
                share=int(ns) / total_ns,
            )
            for name, kind, calls, ns in zip(names, kinds, sums["count"], sums["sum"], strict=True)
        ]

    def kernel_time(self) -> tuple[float | None, float | None]:
        """Return the milliseconds of all kernels, and the share of communication in them, each None if unknown.

        Both are sums over the kernels of all ranks, not unions: of kernels that overlap each counts in full.
        """
        lengths_ns = (self.trace.work["end"] - self.trace.work["start"]).to_numpy()
        total_ns = int(lengths_ns.sum())
        if not total_ns:
            return None, None
        communication_ns = int(lengths_ns[self.is_kind(self.kind, COMMUNICATION)].sum())
        return total_ns / 1e6, communication_ns / total_ns if self.knows_communication else None

    def profile_fields(self) -> dict[str, Any]:
        """Return the fields of a Profile that come from the trace alone: name -> value."""
        kernel_ms, communication_share = self.kernel_time()
        calls = self.trace.work.loc[self.is_kind(self.kind, COMMUNICATION), "name"].value_counts()
        rows = self.per_step()
        if isinstance(self.waits, str) and self.knows_communication:  # else `unknown` has this reason already
            self.unknown["waiting"] = self.waits

        return {
            "tool": self.trace.source.tool,
            "device": self.trace.source.device,
            "ranks": self.ranks,
            "ranks_from": self.trace.source.ranks_from,
            "world_size": self.world,
            "steps": self.steps,
            "coverage": self.coverage,
            "unknown": self.unknown,
            "per_step": rows,
            "classes_ms": self.class_times(),
            "kernel_time_ms": kernel_ms,
            "communication_share": communication_share,
            "collectives": self.collectives(),
            "calls_by_kernel": {str(name): int(count) for name, count in calls.items() if count},
            "slowest": self.waits.slowest if isinstance(self.waits, Waiting) else None,
            "ranges": range_tree(self.trace.ranges, self.steps or 1, len(self.ranks)),
            "kernels_top": self.kernels(),
            **largest_ranges_and_calls(self.trace),
        }
