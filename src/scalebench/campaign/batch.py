"""Batch arithmetic: global batch = micro-batch x accumulation x world size."""

from dataclasses import dataclass

from scalebench.campaign.config import Work
from scalebench.errors import UserError

KEY = ("work", "global_batch")


@dataclass(frozen=True)
class Batch:
    """The resolved numbers of one cell, in samples (micro, global_), micro-batches (accumulation) and devices (world)."""

    micro: int
    accumulation: int
    world: int
    global_: int

    def __str__(self) -> str:
        return f"{self.global_} = {self.micro} x {self.accumulation} x {self.world}"


def resolve(work: Work, world: int) -> Batch:
    """Fill in what the campaign leaves to be derived.

    Raises UserError, with the arithmetic, where the three given numbers disagree or do not divide.
    """
    given = {"global_batch": work.global_batch, "micro_batch": work.micro_batch, "accumulation": work.accumulation}
    total, micro, accumulation = (None if v == "derive" else v for v in given.values())
    if total is None and micro is None:
        raise UserError("work.global_batch and work.micro_batch are both `derive`: give one of them a number", KEY)
    if accumulation is None:
        accumulation = 1 if micro is None or total is None else _divide("accumulation", total, micro, world)
    if total is None:
        total = micro * accumulation * world
    if micro is None:
        micro = _divide("micro_batch", total, accumulation, world)
    if micro * accumulation * world != total:
        raise UserError(
            f"work.global_batch is {total}, but micro_batch x accumulation x world size = "
            f"{micro} x {accumulation} x {world} = {micro * accumulation * world}. Leave one of the three to `derive`",
            KEY,
        )
    return Batch(micro, accumulation, world, total)


def _divide(what: str, total: int, other: int, world: int) -> int:
    if total % (other * world):
        below = total - total % (other * world)
        near = " or ".join(str(n) for n in (below, below + other * world) if n)
        name = "accumulation" if what == "micro_batch" else "micro_batch"
        raise UserError(
            f"work.global_batch {total} cannot be divided: {what} = global_batch / ({name} x world size) = "
            f"{total} / ({other} x {world}) is not a whole number. Nearest global_batch that works: {near}",
            KEY,
        )
    return total // (other * world)
