"""Batch arithmetic: global batch = micro-batch x accumulation x devices."""

from dataclasses import dataclass

from scalebench.campaign.config import Work
from scalebench.errors import UserError

KEY = ("work", "global_batch")


@dataclass(frozen=True)
class Batch:
    """The resolved numbers of one cell, in samples (micro, global_), micro-batches (accumulation) and devices."""

    micro: int
    accumulation: int
    n_devices: int
    global_: int

    def __str__(self) -> str:
        return f"{self.global_} = {self.micro} x {self.accumulation} x {self.n_devices}"


def resolve(work: Work, n_devices: int) -> Batch:
    """Fill in what the campaign leaves to be derived.

    Raises UserError, with the arithmetic, where the three given numbers disagree or do not divide.
    """
    given = {"global_batch": work.global_batch, "micro_batch": work.micro_batch, "accumulation": work.accumulation}
    total, micro, accumulation = (None if v == "derive" else v for v in given.values())
    if total is None and micro is None:
        raise UserError("work.global_batch and work.micro_batch are both `derive`: give one of them a number", KEY)
    if accumulation is None:
        accumulation = 1 if micro is None or total is None else _divide("accumulation", total, micro, n_devices)
    if micro is None:
        micro = _divide("micro_batch", total or 0, accumulation, n_devices)
    if total is None:
        total = micro * accumulation * n_devices
    if micro * accumulation * n_devices != total:
        raise UserError(
            f"work.global_batch is {total}, but micro_batch x accumulation x devices = "
            f"{micro} x {accumulation} x {n_devices} = {micro * accumulation * n_devices}. Leave one of the three to "
            "`derive`",
            KEY,
        )
    return Batch(micro, accumulation, n_devices, total)


def _divide(what: str, total: int, other: int, n_devices: int) -> int:
    if total % (other * n_devices):
        below = total - total % (other * n_devices)
        near = " or ".join(str(n) for n in (below, below + other * n_devices) if n)
        name = "accumulation" if what == "micro_batch" else "micro_batch"
        raise UserError(
            f"work.global_batch {total} cannot be divided: {what} = global_batch / ({name} x devices) = "
            f"{total} / ({other} x {n_devices}) is not a whole number. Nearest global_batch that works: {near}",
            KEY,
        )
    return total // (other * n_devices)
