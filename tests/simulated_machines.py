"""Random machines whose truth is known, with parts that the model of `forecast` does not have."""

import math
from dataclasses import dataclass

import numpy as np

from scaleproof.conclude.forecast.collective import COLLECTIVES, CollectiveTimes, Group, Network, factor, hops
from scaleproof.conclude.forecast.step_model import MeasuredStep, StepModel, Target
from scaleproof.conclude.forecast.timeline import Layer, Layers, Sharing, step_timeline

STRATEGIES = ("ddp", "fsdp", "zero2", "zero3")
SIZES = tuple(4**i * 4096 for i in range(10))
GPT2_SMALL = Layers(tuple(Layer(7_087_872, 0.058) for _ in range(12)), Layer(39_385_344, 0.304))
REPEATS = 5


@dataclass
class Machine:
    """Latency (s), bandwidth of a link (bytes/s), and what the model does not know of."""

    random: np.random.Generator
    latency: float
    bandwidth: float
    fall: float  # of the bandwidth, a doubling
    contention: float
    straggler: float  # part of the compute, at 8 devices
    growth: float  # part of the compute, a doubling
    launch: float
    per_sample: float
    update: float
    noise: float  # of a run

    def collective(self, name: str, nbytes: float, size: int) -> float:
        bandwidth = self.bandwidth * (1 - self.fall) ** math.log2(max(size, 2) / 2)
        return hops(name, size) * self.latency + factor(name, size) * nbytes / bandwidth

    def step(self, strategy: str, size: int, micro_batch: int, accumulation: int) -> float:
        """The true mean seconds of a step."""
        own = 1 + 0.02 * (STRATEGIES.index(strategy) + 1)
        micro = own * (self.launch + self.per_sample * micro_batch)
        sharing = Sharing(strategy, accumulation, bucket_bytes=_bucket(strategy), overlaps=_overlaps(strategy))
        if size == 1:
            return micro * accumulation + self.update
        line = step_timeline(
            GPT2_SMALL,
            sharing,
            micro,
            self.update,
            lambda name, nbytes: self.collective(name, nbytes, size),
            self.contention,
        )
        compute = micro * accumulation
        extra = self.straggler * compute * math.sqrt(2 * math.log(size)) + self.growth * compute * math.log2(size)
        return line.end + extra

    def sweep(self, sizes: tuple[int, ...]) -> Network:
        """Tables with 2 % of noise, for groups of `sizes` in a node."""
        tables = [
            CollectiveTimes(
                name, Group(1, size), SIZES, tuple(self._noisy(self.collective(name, b, size), 0.02) for b in SIZES)
            )
            for size in sizes
            for name in COLLECTIVES
        ]
        return Network(tuple(tables))

    def runs(self, strategy: str, target: Target) -> MeasuredStep:
        """Mean of five noisy repeats, with the variance of its logarithm."""
        truth = self.step(strategy, target.group.size, target.micro_batch, target.accumulation)
        logs = self.random.normal(math.log(truth), self.noise, REPEATS)
        seconds = float(np.exp(logs.mean()))
        group, micro, accumulation = target.group, target.micro_batch, target.accumulation
        return MeasuredStep(group, micro, accumulation, seconds, float(logs.var(ddof=1)) / REPEATS)

    def _noisy(self, seconds: float, spread: float) -> float:
        return seconds * float(np.exp(self.random.normal(0, spread)))


def machine(seed: int) -> Machine:
    random = np.random.default_rng(seed)
    uniform = random.uniform
    return Machine(
        random=random,
        latency=10 ** uniform(-5.5, -4),
        bandwidth=10 ** uniform(9.7, 11.3),
        fall=uniform(0, 0.12),
        contention=uniform(0.02, 0.2),
        straggler=uniform(0, 0.01),
        growth=uniform(-0.002, 0.01),
        launch=uniform(0.002, 0.02),
        per_sample=uniform(0.001, 0.006),
        update=uniform(0.002, 0.01),
        noise=uniform(0.003, 0.02),
    )


def models(
    box: Machine, measured: tuple[int, ...], swept: tuple[int, ...], micro_batch: int = 16, accumulation: int = 1
) -> dict[str, StepModel]:
    """A model of each strategy from runs on `measured` devices, with tables of groups of `swept` devices."""
    network = box.sweep(swept) if swept else None
    made = {}
    for strategy in STRATEGIES:
        targets = [Target(Group(1, size), micro_batch, accumulation) for size in measured]
        targets += [Target(Group(1, 1), b, accumulation) for b in (micro_batch // 4, micro_batch // 2)]
        runs = tuple(box.runs(strategy, target) for target in targets)
        made[strategy] = StepModel(
            strategy, GPT2_SMALL, runs, network, bucket_bytes=_bucket(strategy), overlaps=_overlaps(strategy)
        )
    return made


def _overlaps(strategy: str) -> bool:
    return strategy != "zero2"


def _bucket(strategy: str) -> float:
    return 25 * 2**20 if strategy == "ddp" else 4 * GPT2_SMALL.parameters
