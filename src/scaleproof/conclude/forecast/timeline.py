"""A step as operations on two streams: what of the communication is hidden behind computation, and what is exposed.

A few dozen events instead of a closed form: closed forms are wrong about the last bucket.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from scaleproof.conclude.forecast.collective import Collective

FORWARD = 1 / 3  # of a micro-batch; backward computes two products where forward computes one
FIRST_BUCKET = 2**20  # bytes: DistributedDataParallel starts with a small bucket (dist._DEFAULT_FIRST_BUCKET_BYTES)

Seconds = Callable[[Collective, float], float]  # of one collective call of so many bytes


@dataclass(frozen=True)
class Operation:
    """Something that takes `seconds` on its stream; starts after its predecessor there and after all of `after`."""

    name: str
    stream: Literal["compute", "communication"]
    seconds: float
    after: tuple[str, ...] = ()
    collective: Collective | None = None
    nbytes: float = 0.0


@dataclass(frozen=True)
class Timeline:
    """Seconds from the first operation's start to the last one's end, and what each stream would take alone."""

    end: float
    compute: float
    communication: float

    @property
    def exposed(self) -> float:
        """Seconds that communication adds to computing: waiting for it, and slowing each other down."""
        return max(0.0, self.end - self.compute)


def simulate(operations: Sequence[Operation], contention: float = 0.0, slower_transfer: float = 0.0) -> Timeline:
    """Run the operations, each stream in the given order.

    While both streams are busy, computing takes (1 + contention)
    times and a transfer (1 + slower_transfer) times as long.
    """
    queues = {name: [o for o in operations if o.stream == name] for name in ("compute", "communication")}
    totals = {name: sum(o.seconds for o in queue) for name, queue in queues.items()}
    factors = {"compute": 1 + contention, "communication": 1 + slower_transfer}
    done: set[str] = set()
    places = dict.fromkeys(queues, 0)
    left = dict.fromkeys(queues, -1.0)
    now = 0.0
    while any(places[name] < len(queue) for name, queue in queues.items()):
        for name, queue in queues.items():
            waiting = places[name] < len(queue) and left[name] < 0
            if waiting and all(other in done for other in queue[places[name]].after):
                left[name] = queue[places[name]].seconds
        busy = [name for name in queues if left[name] >= 0]
        if not busy:
            blocked = [queue[places[name]].name for name, queue in queues.items() if places[name] < len(queue)]
            raise ValueError(f"operations wait for each other: {', '.join(blocked)}")
        slowed = {name: factors[name] if len(busy) == 2 else 1.0 for name in busy}
        ahead = min(left[name] * slowed[name] for name in busy)
        now += ahead
        for name in busy:
            left[name] -= ahead / slowed[name]
            if left[name] <= 1e-12 * max(totals[name], 1e-30):
                done.add(queues[name][places[name]].name)
                places[name], left[name] = places[name] + 1, -1.0
    return Timeline(now, totals["compute"], totals["communication"])


@dataclass(frozen=True)
class Layer:
    """A block, or the root (embeddings, last norm and head): parameters, and its share of a micro-batch's compute."""

    parameters: int
    share: float


@dataclass(frozen=True)
class Layers:
    """The model: blocks in the order of the forward pass; the root's gradients are complete when backward ends.

    (With tied embeddings the token table receives its last gradient from the embedding, at the very end.)
    """

    blocks: tuple[Layer, ...]
    root: Layer
    forward: float = FORWARD  # of a micro-batch's compute

    @property
    def parameters(self) -> int:
        return self.root.parameters + sum(block.parameters for block in self.blocks)


@dataclass(frozen=True)
class Sharing:
    """How ranks share a step.

    Bytes per element of what is reduced and gathered; `bucket_bytes` of gradients together.
    """

    strategy: str
    accumulation: int
    reduce_bytes: int = 4
    gather_bytes: int = 4
    bucket_bytes: float = 25 * 2**20
    overlaps: bool = True  # gloo: only DDP does


def step_operations(model: Layers, sharing: Sharing, micro: float, update: float, seconds: Seconds) -> list[Operation]:
    """Operations of one optimizer step: `micro` seconds of compute a micro-batch, an update of `update` seconds."""
    strategy = sharing.strategy.removesuffix("-offload")
    if strategy in ("ddp", "zero0"):
        operations = _data_parallel(model, sharing, micro, seconds)
    elif strategy in ("zero1", "zero2"):
        operations = _zero(model, sharing, micro, seconds, every=strategy == "zero2")
    elif strategy in ("fsdp", "zero3"):
        operations = _sharded(model, sharing, micro, seconds, stays=strategy == "zero3")
    else:
        operations = [Operation("compute", "compute", micro * sharing.accumulation)]
    last = tuple(o.name for o in operations if o.stream == "communication")
    operations.append(Operation("update", "compute", update, last))
    if strategy in ("zero1", "zero2"):
        size = model.parameters * sharing.gather_bytes
        operations.append(_transfer("gather", "all_gather", size, ("update",), seconds))
    return operations


def step_timeline(
    model: Layers, sharing: Sharing, micro: float, update: float, seconds: Seconds, contention: float = 0.0
) -> Timeline:
    """The step on two streams, or one after the other where the strategy does not overlap on this backend."""
    operations = step_operations(model, sharing, micro, update, seconds)
    if sharing.overlaps:
        return simulate(operations, contention)
    compute = sum(o.seconds for o in operations if o.stream == "compute")
    communication = sum(o.seconds for o in operations if o.stream == "communication")
    return Timeline(compute + communication, compute, communication)


def traffic(operations: Sequence[Operation]) -> dict[str, float]:
    """Bytes of a step by collective."""
    totals: dict[str, float] = {}
    for operation in operations:
        if operation.collective:
            totals[operation.collective] = totals.get(operation.collective, 0.0) + operation.nbytes
    return totals


def fill_buckets(
    gradients: Sequence[tuple[str, float]], limit: float, first: float | None = None
) -> list[tuple[str, float]]:
    """Gradients (name, bytes) in the order in which they are complete -> buckets (name of the last one, bytes).

    A bucket is closed when it has reached the limit; a tensor is never split.
    """
    buckets = []
    size = 0.0
    allowed = first if first is not None else limit
    for name, nbytes in gradients:
        size += nbytes
        if size >= allowed:
            buckets.append((name, size))
            size, allowed = 0.0, limit
    if size:
        buckets.append((gradients[-1][0], size))
    return buckets


def _transfer(name: str, collective: Collective, nbytes: float, after: tuple[str, ...], seconds: Seconds) -> Operation:
    return Operation(name, "communication", seconds(collective, nbytes), after, collective, nbytes)


def _passes(model: Layers, micro: float, number: int) -> tuple[list[Operation], list[Operation]]:
    """Forward and backward of one micro-batch: block by block, then the root; backward the other way round."""
    forward = [
        Operation(f"forward{number}.{i}", "compute", micro * model.forward * b.share)
        for i, b in enumerate(model.blocks)
    ]
    forward.append(Operation(f"forward{number}.root", "compute", micro * model.forward * model.root.share))
    back = micro * (1 - model.forward)
    backward = [Operation(f"backward{number}.head", "compute", back * model.root.share)]
    for i in reversed(range(len(model.blocks))):
        backward.append(Operation(f"backward{number}.{i}", "compute", back * model.blocks[i].share))
    backward.append(Operation(f"backward{number}.root", "compute", 0.0))
    return forward, backward


def _gradients(model: Layers, number: int, width: int) -> list[tuple[str, float]]:
    """Whose gradients are complete after which operation of backward, in bytes."""
    blocks = reversed(list(enumerate(model.blocks)))
    complete = [(f"backward{number}.{i}", float(b.parameters * width)) for i, b in blocks]
    return [*complete, (f"backward{number}.root", float(model.root.parameters * width))]


def _data_parallel(model: Layers, sharing: Sharing, micro: float, seconds: Seconds) -> list[Operation]:
    """Buckets are reduced while the backward pass of the last micro-batch runs."""
    number = sharing.accumulation - 1
    forward, backward = _passes(model, micro, number)
    gradients = _gradients(model, number, sharing.reduce_bytes)
    first = FIRST_BUCKET if sharing.strategy == "ddp" else None
    buckets = fill_buckets(gradients, sharing.bucket_bytes, first)
    reduces = [_transfer(f"reduce.{i}", "all_reduce", size, (name,), seconds) for i, (name, size) in enumerate(buckets)]
    earlier = [Operation("earlier", "compute", micro * number)] if number else []
    return [*earlier, *forward, *backward, *reduces]


def _zero(model: Layers, sharing: Sharing, micro: float, seconds: Seconds, every: bool) -> list[Operation]:
    """Gradients reduced at the boundary (stage 1) or in every micro-batch (stage 2); one bucket overlaps nothing."""
    operations: list[Operation] = []
    for number in range(sharing.accumulation):
        forward, backward = _passes(model, micro, number)
        operations += [*forward, *backward]
        if every or number == sharing.accumulation - 1:
            gradients = _gradients(model, number, sharing.reduce_bytes)
            buckets = fill_buckets(gradients, sharing.bucket_bytes)
            reduces = [
                _transfer(f"reduce{number}.{i}", "all_reduce", size, (name,), seconds)
                for i, (name, size) in enumerate(buckets)
            ]
            operations += reduces
    return operations


def _sharded(model: Layers, sharing: Sharing, micro: float, seconds: Seconds, stays: bool) -> list[Operation]:
    """FSDP: each block is gathered for forward and again for backward, one block ahead, and scattered at the boundary.

    ZeRO-3 (`stays`; a model below `stage3_max_live_parameters`): gathered once a micro-batch, scattered in every one.
    """
    operations: list[Operation] = []
    count = len(model.blocks)
    for number in range(sharing.accumulation):
        forward, backward = _passes(model, micro, number)
        boundary = stays or number == sharing.accumulation - 1
        before = operations[-1].name if operations else None
        first = (_last_compute(operations),) if before else ()
        root = model.root.parameters * sharing.gather_bytes
        talk = [_transfer(f"gather{number}.root", "all_gather", root, first, seconds)]
        for i, block in enumerate(model.blocks):
            # Issued when the block before starts, that is when the one before that has ended.
            needs = (f"forward{number}.{i - 2}",) if i >= 2 else ()
            talk.append(
                _transfer(f"gather{number}.{i}", "all_gather", block.parameters * sharing.gather_bytes, needs, seconds)
            )
        forward = [
            replace(o, after=(f"gather{number}.{i}", f"gather{number}.root")) if i < count else o
            for i, o in enumerate(forward)
        ]
        if not stays:
            again = []
            for i in reversed(range(count)):
                issued = f"backward{number}.{i + 2}" if i + 2 < count else f"forward{number}.root"
                size = model.blocks[i].parameters * sharing.gather_bytes
                again.append(_transfer(f"regather{number}.{i}", "all_gather", size, (issued,), seconds))
            backward = [
                replace(o, after=(f"regather{number}.{o.name.rsplit('.', 1)[1]}",))
                if o.name.rsplit(".", 1)[1].isdigit()
                else o
                for o in backward
            ]
            talk += again
        if boundary:
            scatters = [
                _transfer(f"scatter{name}", "reduce_scatter", size, (name,), seconds)
                for name, size in _gradients(model, number, sharing.reduce_bytes)
            ]
            talk = _interleaved(talk, scatters, count)
        operations += [*forward, *backward, *talk]
    return operations


def _last_compute(operations: Sequence[Operation]) -> str:
    return next(o.name for o in reversed(operations) if o.stream == "compute")


def _interleaved(gathers: list[Operation], scatters: list[Operation], blocks: int) -> list[Operation]:
    """One queue: two gathers ahead, then the scatter of a block and the next gather in turn."""
    ahead = blocks + 1
    again = gathers[ahead:]
    ordered, rest = list(gathers[:ahead]), list(again)
    ordered += rest[:2]
    rest = rest[2:]
    for scatter in scatters:
        ordered.append(scatter)
        if rest:
            ordered.append(rest.pop(0))
    return [*ordered, *rest]
