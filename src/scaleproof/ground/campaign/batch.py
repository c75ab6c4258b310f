"""Batch arithmetic: global batch = micro-batch x accumulation x devices."""

from dataclasses import dataclass

from scaleproof.ground.campaign.config import Work
from scaleproof.ground.errors import UserError

KEY = ("work", "global_batch")
SEARCHED = ("largest", "fastest")  # values of micro_batch that trials find


@dataclass(frozen=True)
class Batch:
    """The resolved numbers of one cell, in samples (micro, global_), micro-batches (accumulation) and devices."""

    micro: int
    accumulation: int
    n_devices: int
    global_: int

    def __str__(self) -> str:
        """Global batch = micro-batch x accumulation x devices."""
        return f"{self.global_} = {self.micro} x {self.accumulation} x {self.n_devices}"


def resolve_batch(work: Work, n_devices: int) -> Batch:
    """Return the batch of a cell on `n_devices` devices, with what the campaign leaves to `derive` filled in.

    A micro-batch that is still to be found (`largest`, `fastest`) stands as 1. Raises UserError, with the arithmetic,
    where the three given numbers disagree or do not divide.
    """
    if work.micro_batch in SEARCHED:
        return _batch_before_search(work, n_devices)
    given = (work.global_batch, work.micro_batch, work.accumulation)
    total, micro, accumulation = (value if isinstance(value, int) else None for value in given)  # None: `derive`
    if total is None and micro is None:
        raise UserError("work.global_batch and work.micro_batch are both `derive`: give one of them a number", KEY)
    if accumulation is None:  # it follows where both others are given; else nothing fixes it
        accumulation = 1 if micro is None or total is None else _divide("accumulation", total, micro, n_devices)
    if micro is None:
        assert total is not None  # otherwise both would be derived
        micro = _divide("micro_batch", total, accumulation, n_devices)
    if total is None:
        total = micro * accumulation * n_devices
    if micro * accumulation * n_devices != total:
        raise UserError(
            f"work.global_batch is {total}, but micro_batch x accumulation x "
            f"devices = {micro} x {accumulation} x {n_devices} = "
            f"{micro * accumulation * n_devices}. Leave one of the three to `derive`",
            KEY,
        )
    return Batch(micro, accumulation, n_devices, total)


def _batch_before_search(work: Work, n_devices: int) -> Batch:
    """Return the batch of a cell whose micro-batch trials are still to find: 1 stands for it. Raises UserError."""
    if work.global_batch == "derive" or work.accumulation != "derive":
        raise UserError(
            f"work.micro_batch: {work.micro_batch} needs a number for work.global_batch and `derive` for "
            "work.accumulation, which follows from both",
            ("work", "micro_batch"),
        )
    return Batch(1, _divide("accumulation", work.global_batch, 1, n_devices), n_devices, work.global_batch)


def candidate_micro_batches(work: Work, n_devices: int) -> list[int]:
    """Return the micro-batches that divide a device's samples of a step evenly, the smallest first."""
    share = resolve_batch(work, n_devices).global_ // n_devices
    return [size for size in range(1, share + 1) if share % size == 0]


def _divide(what: str, total: int, other: int, n_devices: int) -> int:
    """Return the global batch `total` / (`other` x devices): the micro-batch or the accumulation, as `what` names it.

    `other`: the one that is given. Raises UserError where the quotient is not a whole number.
    """
    divisor = other * n_devices
    if total % divisor:
        below = total - total % divisor
        near = " or ".join(str(multiple) for multiple in (below, below + divisor) if multiple)
        name = "accumulation" if what == "micro_batch" else "micro_batch"
        raise UserError(
            f"work.global_batch {total} cannot be divided: {what} = global_batch / ({name} x devices) = "
            f"{total} / ({other} x {n_devices}) is not a whole number. Nearest global_batch that works: {near}",
            KEY,
        )
    return total // divisor
