"""From a trace to where the time of a step went. Everything is measured in unions of intervals, never in sums."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from scaleproof.ground.facts.kernel_classes import COMMUNICATION, LEAST_CLASSIFIED, UNCLASSIFIED, classify
from scaleproof.ground.records.profile_schema import Collective, Kernel, TraceCoverage, TracedStep
from scaleproof.measure.trace.events import Trace
from scaleproof.measure.trace.ranges import largest_ranges_and_calls, range_tree
from scaleproof.measure.trace.time_spans import Spans, merge_spans, ns_in_windows, subtract
from scaleproof.measure.trace.waiting import Waiting, find_waiting

GAP_NS = 10_000  # of a device without work, to be counted
PHASES = ("data", "forward", "backward", "reduce", "optimizer")
TOP = 10  # kernels of a profile


@dataclass(frozen=True)
class Windows:
    """When the traced steps of one rank began and ended; on a GPU a step lasts until the next one's first kernel."""

    starts: np.ndarray
    ends: np.ndarray
    host_starts: np.ndarray
    host_ends: np.ndarray


@dataclass(frozen=True)
class DeviceWork:
    """What one rank's device did, as parallel arrays: times in ns, and indices of a breakdown's lists of names."""

    launched: np.ndarray
    start: np.ndarray
    end: np.ndarray
    kind: np.ndarray  # in `kinds`
    collective: np.ndarray  # in `collective_names`; -1: none

    def spans(self, chosen: np.ndarray, pause: int = 0) -> Spans:
        """Return when any of the work in the boolean mask `chosen` ran; pauses of at most `pause` ns count as work."""
        return merge_spans(self.start[chosen], self.end[chosen], pause)


class StepBreakdown:
    """Where the time of a trace's steps went. `unknown`: name of a figure that is missing -> why.

    `world` and `n_devices`: how many ranks and devices the run had, where that is known.
    """

    def __init__(self, trace: Trace, world: int | None = None, n_devices: int | None = None) -> None:
        """Classify the trace's kernels and find its steps; figures are computed when asked for."""
        self.trace, self.ranks = trace, trace.ranks
        self.world = world or len(self.ranks)
        # Whether a rank drives several GPUs, as under nn.DataParallel.
        self.shares_process = bool(n_devices and n_devices > self.world and trace.source.device == "gpu")
        # Names become small numbers at once: comparing text a million times takes longer than everything else.
        classes, collectives = classify(trace.work["name"].cat.categories)
        codes = trace.work["name"].cat.codes.to_numpy()
        self.kinds = sorted({*classes, COMMUNICATION, UNCLASSIFIED})
        self.collective_names = sorted({name for name in collectives if name})
        # Of each row of the trace's work an index of these lists; -1: it is no collective.
        self.kind = np.array([self.kinds.index(name) for name in classes], np.int8)[codes]
        collective = np.array([self.collective_names.index(c) if c else -1 for c in collectives], np.int8)[codes]
        self.work = {rank: self._work_of_rank(rank, collective) for rank in self.ranks}
        self.steps = min((len(window.starts) for window in self.windows.values()), default=0) or None  # that all have
        self.unknown: dict[str, str] = {}
        reason = self._why_no_communication()
        if reason:
            self.unknown["communication"] = reason
        if not self.steps:
            self.unknown["per_step"] = "the trace has no `step` ranges, so nothing can be said per step"

    def _work_of_rank(self, rank: int, collective: np.ndarray) -> DeviceWork:
        """Return the work of one rank. `collective`: of each row of the whole trace's work."""
        own = (self.trace.work["rank"] == rank).to_numpy()
        launched, start, end = (self.trace.work[name].to_numpy()[own] for name in ("launched", "start", "end"))
        return DeviceWork(launched, start, end, self.kind[own], collective[own])

    def is_kind(self, kind: np.ndarray, name: str) -> np.ndarray:
        """Return a boolean mask of the entries of `kind` (indices of `kinds`) that are the class called `name`."""
        return kind == self.kinds.index(name)

    @cached_property
    def windows(self) -> dict[int, Windows]:
        """When each rank's steps began and ended: rank -> Windows."""
        step_ranges = self.trace.ranges[self.trace.ranges["name"] == "step"]
        windows = {}
        for rank in self.ranks:
            own = step_ranges[step_ranges["rank"] == rank].sort_values("start")
            host = own["start"].to_numpy(), own["end"].to_numpy()
            on_gpu = self.trace.source.device == "gpu"
            windows[rank] = self._device_windows(rank, *host) if on_gpu else Windows(*host, *host)
        return windows

    def _device_windows(self, rank: int, starts: np.ndarray, ends: np.ndarray) -> Windows:
        """Return the steps of a rank as its GPU worked on them: each lasts until the next one's first kernel.

        `starts` and `ends`: of the steps on the host, which runs ahead. Steps that launched nothing are left out.
        """
        work = self.work[rank]
        order = np.argsort(work.launched, kind="stable")
        launched = work.launched[order]
        started = work.start[order]
        ended = work.end[order]
        # Of the work in order of launch, each step has launched that from `first` on, up to before `behind`.
        first, behind = np.searchsorted(launched, starts), np.searchsorted(launched, ends)
        busy = behind > first
        of_steps = [slice(begin, end) for begin, end in zip(first[busy], behind[busy], strict=True)]
        first_starts = [started[of_step].min() for of_step in of_steps]
        if not first_starts:
            none = np.empty(0, np.int64)
            return Windows(none, none, none, none)
        # No step follows the last one: it is over when its kernels are, but not sooner than on the host.
        host_length = (ends - starts)[busy][-1]
        last_end = max(ended[of_steps[-1]].max(), first_starts[-1] + host_length)
        step_ends = [*first_starts[1:], last_end]
        return Windows(np.array(first_starts, np.int64), np.array(step_ends, np.int64), starts[busy], ends[busy])

    @cached_property
    def coverage(self) -> TraceCoverage:
        """The share of device time in known classes of kernels, and what is missing from the trace."""
        lengths = (self.trace.work["end"] - self.trace.work["start"]).to_numpy()
        total, source = int(lengths.sum()), self.trace.source
        is_unclassified = self.is_kind(self.kind, UNCLASSIFIED)
        unclassified = self.trace.work.loc[is_unclassified, ["name"]].assign(ns=lengths[is_unclassified])
        top = unclassified.groupby("name", observed=True)["ns"].sum().nlargest(3)
        return TraceCoverage(
            classified_share=1 - int(unclassified["ns"].sum()) / total if total else None,
            mark=LEAST_CLASSIFIED,
            unclassified_top=[str(name) for name in top.index],
            dropped_events=source.dropped,
            diagnostics=source.diagnostics,
            missing_ranks=sorted(set(range(self.world)) - set(self.ranks)),
        )

    def _why_no_communication(self) -> str | None:
        """Return why the trace says nothing about communication; None where it does."""
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
        """When ranks waited for others within collectives; a text where that is not known: why."""
        if not self.knows_communication:
            return self.unknown["communication"]
        if self.coverage.missing_ranks:
            return f"ranks {', '.join(map(str, self.coverage.missing_ranks))} are not in the trace"
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
        """Return one row per rank and step, in milliseconds, None for what the trace lacks; [] without steps."""
        if not self.steps:
            return []
        rows = []
        waited = self.waits.by_rank if isinstance(self.waits, Waiting) else None
        knows_idle = self.trace.source.device != "none" and not self.shares_process  # else all, or some, is unseen
        for rank in self.ranks:
            window = self.windows[rank]
            compute, communication = self._activity[rank]
            starts, ends = (np.concatenate(edges) for edges in zip(compute, communication, strict=True))
            busy = merge_spans(starts, ends)
            exposed = subtract(communication, compute)
            parts = {"compute": compute, "communication": communication, "exposed": exposed}
            ns = {name: ns_in_windows(spans, window.starts, window.ends) for name, spans in parts.items()}
            ns["overlapped"] = ns["communication"] - ns["exposed"]
            ns["idle"] = window.ends - window.starts - ns["compute"] - ns["exposed"]
            ms = {name: values / 1e6 for name, values in ns.items()}
            waits = None if waited is None else _step_ms(waited[rank], window)
            exposed_waits = None if waited is None else _step_ms(subtract(waited[rank], compute), window)
            phases = self._phase_times(rank, window)
            gaps = _count_gaps(busy, window)
            for step in range(self.steps):
                known_ms = {name: round(float(ms[name][step]), 6) if self.knows_communication else None for name in ms}
                rows.append(
                    TracedStep(
                        step=step,
                        rank=rank,
                        wall_ms=(window.ends[step] - window.starts[step]) / 1e6,
                        compute_ms=known_ms["compute"],
                        communication_ms=known_ms["communication"],
                        exposed_ms=known_ms["exposed"],
                        overlapped_ms=known_ms["overlapped"],
                        wait_ms=None if waits is None else round(float(waits[step]), 6),
                        exposed_wait_ms=None if exposed_waits is None else round(float(exposed_waits[step]), 6),
                        idle_ms=float(ms["idle"][step]) if knows_idle else None,
                        gaps=int(gaps[step]) if knows_idle else None,
                        ranges_ms={name: float(of_steps[step]) for name, of_steps in phases.items()},
                    )
                )
        return rows

    def _phase_times(self, rank: int, window: Windows) -> dict[str, np.ndarray]:
        """Return phase of the program (forward, ...) -> milliseconds that it took on the host, for each step."""
        own = self.trace.ranges[self.trace.ranges["rank"] == rank]
        phases = {}
        for name in PHASES:
            chosen = own[own["name"] == name]
            if len(chosen):
                spans = merge_spans(chosen["start"].to_numpy(), chosen["end"].to_numpy())
                phases[name] = ns_in_windows(spans, window.host_starts, window.host_ends) / 1e6
        return phases

    def _mean_ms(self, spans: dict[int, Spans]) -> float:
        """Return the milliseconds that `spans` (by rank) take within the steps: mean per step and rank."""
        total_ns = 0
        for rank, of_rank in spans.items():
            total_ns += int(ns_in_windows(of_rank, self.windows[rank].starts, self.windows[rank].ends).sum())
        return total_ns / 1e6 / ((self.steps or 1) * len(self.ranks))

    def class_times(self) -> dict[str, float] | None:
        """Return class of kernels -> milliseconds per step and rank; None where communication is not known."""
        if not self.steps or not self.knows_communication:
            return None
        classes = {}
        for name in self.kinds:
            spans = {rank: work.spans(self.is_kind(work.kind, name)) for rank, work in self.work.items()}
            if any(len(starts) for starts, _ in spans.values()):
                classes[name] = round(self._mean_ms(spans), 6)
        return classes

    def collectives(self) -> dict[str, Collective]:
        """Return calls and milliseconds of each collective per step and rank; {} where communication is not known."""
        if not self.steps or not self.knows_communication:
            return {}
        collectives = {}
        waits = self.waits.by_collective if isinstance(self.waits, Waiting) else {}
        for place, name in enumerate(self.collective_names):
            spans = {rank: work.spans(work.collective == place) for rank, work in self.work.items()}
            computing = {rank: self._activity[rank][0] for rank in self.ranks}
            exposed = {rank: subtract(spans[rank], computing[rank]) for rank in self.ranks}
            total = self._mean_ms(spans)
            wait = self._mean_ms(waits[name]) if name in waits else None
            calls = sum(self._calls_started(rank, place) for rank in self.ranks)
            collectives[name] = Collective(
                calls=calls / (self.steps * len(self.ranks)),
                total_ms=total,
                exposed_ms=self._mean_ms(exposed),
                transfer_ms=None if wait is None else total - wait,
                wait_ms=wait,
            )
        return collectives

    def _calls_started(self, rank: int, place: int) -> int:
        """Return how many calls of a collective a rank asked for in its steps. `place`: in `collective_names`."""
        window, work = self.windows[rank], self.work[rank]
        launched = work.launched[work.collective == place]
        step = np.searchsorted(window.host_starts, launched, side="right") - 1  # -1: before the first
        inside = (step >= 0) & (launched < window.host_ends[np.maximum(step, 0)])
        return int(inside.sum())

    def kernels(self) -> list[Kernel]:
        """Return the TOP kernels by device time; figures are per step and rank, or totals of a trace without steps."""
        work = self.trace.work.assign(ns=self.trace.work["end"] - self.trace.work["start"])
        totals = work.groupby("name", observed=True)["ns"].agg(["count", "sum"]).nlargest(TOP, "sum")
        total = int(work["ns"].sum())
        names = [str(name) for name in totals.index]
        kinds, _ = classify(names)
        divisor = self.steps * len(self.ranks) if self.steps else 1
        return [
            Kernel(
                name=name,
                kind=kind,
                calls=int(calls) / divisor,
                total_ms=int(ns) / 1e6 / divisor,
                share=int(ns) / total,
            )
            for name, kind, calls, ns in zip(names, kinds, totals["count"], totals["sum"], strict=True)
        ]

    def kernel_time(self) -> tuple[float | None, float | None]:
        """Return the milliseconds of all kernels, and which share of them communicates; None for what is not known."""
        lengths = (self.trace.work["end"] - self.trace.work["start"]).to_numpy()
        total = int(lengths.sum())
        if not total:
            return None, None
        communication = int(lengths[self.is_kind(self.kind, COMMUNICATION)].sum())
        return total / 1e6, communication / total if self.knows_communication else None

    def profile_fields(self) -> dict[str, Any]:
        """Return the fields of a Profile that come from the trace alone: name -> value."""
        total, share = self.kernel_time()
        calls = self.trace.work.loc[self.is_kind(self.kind, COMMUNICATION), "name"].value_counts()
        rows = self.per_step()
        if isinstance(self.waits, str) and self.knows_communication:  # else that is the reason, and is there
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
            "kernel_time_ms": total,
            "communication_share": share,
            "collectives": self.collectives(),
            "calls_by_kernel": {str(name): int(count) for name, count in calls.items() if count},
            "slowest": self.waits.slowest if isinstance(self.waits, Waiting) else None,
            "ranges": range_tree(self.trace.ranges, self.steps or 1, len(self.ranks)),
            "kernels_top": self.kernels(),
            **largest_ranges_and_calls(self.trace),
        }


def _step_ms(spans: Spans, window: Windows) -> np.ndarray:
    """Return the milliseconds that `spans` take in each step of `window`."""
    return ns_in_windows(spans, window.starts, window.ends) / 1e6


def _count_gaps(busy: Spans, window: Windows) -> np.ndarray:
    """Return how many pauses of more than GAP_NS begin in each step. `busy`: when the device worked."""
    starts, ends = busy
    if not len(starts):
        return np.zeros(len(window.starts), np.int64)
    # A pause is from the end of a stretch of work to the start of the next; after the last one, to the last step's end.
    pause_starts, pause_ends = ends, np.append(starts[1:], window.ends[-1:])
    gaps = pause_starts[(pause_ends - pause_starts) > GAP_NS]
    return np.searchsorted(gaps, window.ends) - np.searchsorted(gaps, window.starts)
