"""The time of a step as a waterfall of what has not run: compute, update, communication, waiting, residual."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from scaleproof.conclude.forecast import residual
from scaleproof.conclude.forecast.collective import Collective, Group, Network, Unsupported
from scaleproof.conclude.forecast.compute import Compute, Sample, slowest_of
from scaleproof.conclude.forecast.interval import Interval, conformal, doublings, leave_largest_out
from scaleproof.conclude.forecast.timeline import Layers, Sharing, step_timeline

LARGEST_STEP = 4  # devices up to so many times those of the largest measured or swept group
UNKNOWN_CONTENTION = (
    0.0,
    0.1,
    0.4,
)  # low, value, high without a trace (arXiv 2507.03114: 0.19 on average, 0.40 at most)


@dataclass(frozen=True)
class MeasuredStep:
    """Mean seconds of a step in `group`. `variance`: of the logarithm of that mean, by repeats; None with one."""

    group: Group
    micro_batch: int
    accumulation: int
    seconds: float
    variance: float | None = None


# hsdp gathers within a node and reduces over nodes; fsdp-kept (`fsdp_reshard: false`) gathers once.
NOT_MODELLED = ("hsdp", "fsdp-kept")


@dataclass(frozen=True)
class Target:
    """The step to forecast."""

    group: Group
    micro_batch: int
    accumulation: int


@dataclass(frozen=True)
class Parts:
    """Seconds of a step. `other_law`: how far apart both laws of the residual are."""

    compute: float
    update: float
    communication: float
    waiting: float
    residual: float
    other_law: float = 0.0

    @property
    def total(self) -> float:
        return self.compute + self.update + self.communication + self.waiting + self.residual


@dataclass(frozen=True)
class StepModel:
    """One strategy in one setting: everything but devices, micro-batch and accumulation is the same in all of it.

    `network`: None where nothing was swept; all communication is in the residual then. `contention`: from a trace, or
    None. `rank_spread`: seconds, of ranks within a step.
    """

    strategy: str
    layers: Layers
    measured: tuple[MeasuredStep, ...]
    network: Network | None = None
    bucket_bytes: float = 25 * 2**20
    reduce_bytes: int = 4
    gather_bytes: int = 4
    overlaps: bool = True
    contention: float | None = None
    rank_spread: float = 0.0
    borrowed: tuple[Sample, ...] = field(default=())  # one device under another strategy, where this one has none

    @cached_property
    def compute(self) -> Compute:
        own = tuple(
            Sample(m.micro_batch, m.accumulation, m.seconds, m.variance) for m in self.measured if m.group.size == 1
        )
        return Compute(own or self.borrowed)

    @cached_property
    def shared(self) -> tuple[MeasuredStep, ...]:
        """Measurements on several devices, from small to large groups."""
        return tuple(sorted((m for m in self.measured if m.group.size > 1), key=lambda m: m.group.size))

    @property
    def largest(self) -> int:
        return max((m.group.size for m in self.measured), default=1)

    def parts(self, target: Target) -> Parts:
        """The waterfall of a step. Raises Unsupported where the model has no support."""
        exact = [m for m in self.measured if _same(m, target)]
        if target.group.size == 1:
            if exact:
                return self._on_one_device(target, exact[0].seconds)
            return self._on_one_device(target, self.compute.step(target.micro_batch, target.accumulation))
        self._check_support(target)
        modelled = self.modelled(target)
        points = self._points(target)
        residual.check_series(points)
        extra, other = residual.carried(points, target.group)
        if exact:
            extra, other = exact[0].seconds - modelled.total, 0.0
        return Parts(modelled.compute, modelled.update, modelled.communication, modelled.waiting, extra, other)

    def _on_one_device(self, target: Target, seconds: float) -> Parts:
        """A step of `seconds` without communication; its update is what the fit of one device says, where there is."""
        try:
            _, update = self.compute.parts(target.micro_batch, target.accumulation)
        except Unsupported:
            update = 0.0
        return Parts(seconds - update, update, 0.0, 0.0, 0.0)

    def _check_support(self, target: Target) -> None:
        needed = f"run {self.strategy} on {target.group}"
        if self.strategy == "dp" and target.group.size > self.largest:
            raise Unsupported("dp-beyond-measured", "nn.DataParallel is not forecast beyond measured sizes", needed)
        if self.strategy in NOT_MODELLED:
            raise Unsupported("strategy-not-modelled", f"no timeline is known of {self.strategy}", needed)
        if not self.shared and self.network is None:
            raise Unsupported(
                "never-shared",
                f"{self.strategy} was never measured on two or more devices, and no link was swept",
                needed,
            )
        levels = {m.group.level for m in self.shared}
        if self.network is None and target.group.level not in levels:
            raise Unsupported(
                "link-never-swept",
                f"no {self.strategy} run and no sweep crosses the {target.group.level}",
                f"scaleproof sweep, or run {self.strategy} on 2x{target.group.devices_per_node}",
            )
        known = [self.largest]
        if self.network is not None:
            known += [table.group.size for table in self.network.tables]
        if target.group.size > LARGEST_STEP * max(known):
            raise Unsupported(
                "group-too-large",
                f"{target.group} has {target.group.size} devices, more than {LARGEST_STEP} times the {max(known)} "
                "of the largest measured group",
                needed,
            )
        self._check_accumulation(target)

    def _check_accumulation(self, target: Target) -> None:
        """Without accumulation all communication runs beside computing: unseen where every run accumulates."""
        if not self.overlaps or self.network is None or self.contention is not None or target.accumulation > 1:
            return
        if self.shared and all(m.accumulation > 1 for m in self.shared):
            raise Unsupported(
                "contention-unknown",
                "every measured run on several devices accumulates, this one does not: how much communication and "
                "computation slow each other down decides",
                f"trace {self.strategy} on {self.shared[-1].group}, or run it with accumulation 1",
            )

    def modelled(self, target: Target) -> Parts:
        """The waterfall without a residual. Raises Unsupported."""
        micro, update = self.compute.parts(target.micro_batch, target.accumulation)
        computing = micro * target.accumulation
        waiting = slowest_of(self.rank_spread, target.group.size)
        if self.network is None:
            return Parts(computing, update, 0.0, waiting, 0.0)
        network = self.network

        def seconds(collective: Collective, nbytes: float) -> float:
            return network.seconds(collective, nbytes, target.group)

        sharing = Sharing(
            self.strategy,
            target.accumulation,
            self.reduce_bytes,
            self.gather_bytes,
            self.bucket_bytes,
            self.overlaps,
        )
        contention = UNKNOWN_CONTENTION[1] if self.contention is None else self.contention
        line = step_timeline(self.layers, sharing, micro, update, seconds, contention if self.overlaps else 0.0)
        return Parts(computing, update, line.exposed, waiting, 0.0)

    def _points(self, target: Target) -> list[residual.Point]:
        """Measured and modelled seconds of each group: of the setting that is nearest to the target's."""
        points = []
        for group in sorted({m.group for m in self.shared}):
            near = min(
                (m for m in self.shared if m.group == group),
                key=lambda m: (
                    m.accumulation != target.accumulation,
                    abs(math.log(m.micro_batch / target.micro_batch)),
                ),
            )
            modelled = self.modelled(Target(near.group, near.micro_batch, near.accumulation))
            points.append(residual.Point(group, near.seconds, modelled.total))
        return points

    def held_out(self, group: Group | None = None) -> float | None:
        """log(measured / forecast) per doubling of the largest measured group, forecast from what is smaller.

        `group`: the one that is to be forecast. Where it was not swept itself, tables as large as the held-out
        group are left out as well: the forecast stands as far beyond its sweep. None where nothing can be held out.
        """
        if not self.shared:
            return None
        last = self.shared[-1]
        rest = tuple(m for m in self.measured if m.group.size < last.group.size)
        network = self.network
        if network is not None and not any(table.group == group for table in network.tables):
            network = network.below(last.group.size)
        before = replace(self, measured=rest, network=network)
        target = Target(last.group, last.micro_batch, last.accumulation)
        try:
            forecast = before.parts(target).total
        except Unsupported:
            try:  # all that can be held out of sizes 1 and 2: computing alone
                forecast = before.modelled(target).total
            except Unsupported:
                return None
        return math.log(last.seconds / forecast) / doublings(last.group.size, before.largest)

    def repeat_variance(self, target: Target) -> float:
        """Of the logarithm of the forecast, by the repeats of what anchors it."""
        exact = [m.variance or 0.0 for m in self.measured if _same(m, target)]
        if exact:
            return exact[0]
        alone = self.compute.variance(target.micro_batch, target.accumulation) if self.compute.samples else 0.0
        return alone + (self.shared[-1].variance or 0.0 if self.shared else 0.0)


def _same(measured: MeasuredStep, target: Target) -> bool:
    own = (measured.group, measured.micro_batch, measured.accumulation)
    return own == (target.group, target.micro_batch, target.accumulation)


@dataclass(frozen=True)
class EstimatedStep:
    """Seconds of a step with parts and interval; `interval` is None where nothing says how wrong the model is."""

    parts: Parts
    interval: Interval | None


def forecast_step(
    model: StepModel, target: Target, residuals: Sequence[float], past: Sequence[float] = (), level: float = 0.95
) -> EstimatedStep:
    """`residuals`: `held_out` of all series of the campaign; `past`: residuals of the ledger, one a campaign.

    Conformal where the ledger allows the wanted level, else leave-largest-out. The difference of both laws of the
    residual widens the interval. Raises Unsupported.
    """
    parts = model.parts(target)
    distance = doublings(target.group.size, model.largest)
    interval = conformal(parts.total, past, distance, level) if past else None
    if interval is None or interval.level < level:
        own = leave_largest_out(parts.total, residuals, distance, model.repeat_variance(target), level)
        interval = own or interval
    if interval is not None and parts.other_law:
        more = 1 + parts.other_law / parts.total
        interval = Interval(
            interval.value, interval.low / more, interval.high * more, interval.level, interval.construction, interval.n
        )
    return EstimatedStep(parts, interval)
