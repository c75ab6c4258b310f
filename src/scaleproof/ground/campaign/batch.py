"""Batch arithmetic: global batch = micro-batch x accumulation x devices."""

from dataclasses import dataclass

from scaleproof.ground.campaign.command import PerStep
from scaleproof.ground.campaign.config import Work
from scaleproof.ground.errors import UserError

KEY = ("work", "global_batch")
SEARCHED = ("largest", "fastest")  # values of micro_batch that trials find


@dataclass(frozen=True)
class Batch:
    """The resolved batch of one cell."""

    micro: int  # samples
    accumulation: int  # micro-batches
    n_devices: int
    global_: int  # samples

    def __str__(self) -> str:
        """Global batch = micro-batch x accumulation x devices."""
        return f"{self.global_} = {self.micro} x {self.accumulation} x {self.n_devices}"


def resolve_batch(work: Work, n_devices: int) -> Batch:
    """Compute the batch of a cell on `n_devices` devices, with the numbers that the campaign leaves to `derive`.

    1 stands for a micro-batch that is still to be found (`largest`, `fastest`). Raises UserError, with the arithmetic,
    where the three given numbers disagree or do not divide.
    """
    if work.micro_batch in SEARCHED:
        return _batch_before_search(work, n_devices)
    given = (work.global_batch, work.micro_batch, work.accumulation)
    total, micro, accumulation = (value if isinstance(value, int) else None for value in given)  # None: `derive`
    if total is None and micro is None:
        raise UserError("work.global_batch and work.micro_batch are both `derive`: give one of them a number", KEY)
    if accumulation is None:  # it follows from both other numbers; without one of them it is 1
        accumulation = 1 if micro is None or total is None else _divide("accumulation", total, micro, n_devices)
    if micro is None:
        assert total is not None  # otherwise both would be derived
        micro = _divide("micro_batch", total, accumulation, n_devices)
    if total is None:
        total = micro * accumulation * n_devices
    if micro * accumulation * n_devices != total:
        product = f"{micro} x {accumulation} x {n_devices} = {micro * accumulation * n_devices}"
        fault = f"work.global_batch is {total}, but micro_batch x accumulation x devices = {product}"
        raise UserError(f"{fault}. Leave one of the three to `derive`", KEY)
    return Batch(micro, accumulation, n_devices, total)


def takes_global_batch(work: Work, command: str, per_step: PerStep | None) -> bool:
    """Return whether a command's batch is `work.global_batch`: it is passed that, or a number derived from it."""
    if "{global_batch}" in command:
        return True
    if "global_batch" not in work.model_fields_set or isinstance(work.micro_batch, int):
        return False  # the batch is derived from the micro-batch instead
    # The command or its work per step names the batch, or a number that is derived from it.
    texts = f"{command} {per_step.amount if per_step else ''}"
    return any(name in texts for name in ("{global_batch}", "{micro_batch}", "{accumulation}"))


def _batch_before_search(work: Work, n_devices: int) -> Batch:
    """Return the batch of a cell before trials have found its micro-batch: 1 stands for it. Raises UserError."""
    if work.global_batch == "derive" or work.accumulation != "derive":
        needs = "a number for work.global_batch and `derive` for work.accumulation, which follows from both"
        raise UserError(f"work.micro_batch: {work.micro_batch} needs {needs}", ("work", "micro_batch"))
    return Batch(1, _divide("accumulation", work.global_batch, 1, n_devices), n_devices, work.global_batch)


def candidate_micro_batches(work: Work, n_devices: int) -> list[int]:
    """Return the micro-batches that divide a device's samples of a step evenly, the smallest first."""
    share = resolve_batch(work, n_devices).global_ // n_devices
    return [size for size in range(1, share + 1) if share % size == 0]


def _divide(quotient_key: str, total: int, factor: int, n_devices: int) -> int:
    """Return `total` / (`factor` x devices), the value of `quotient_key`. Raises UserError where it is not whole."""
    divisor = factor * n_devices
    if total % divisor:
        below = total - total % divisor
        nearest = " or ".join(str(multiple) for multiple in (below, below + divisor) if multiple)
        factor_key = "accumulation" if quotient_key == "micro_batch" else "micro_batch"
        formula = f"{quotient_key} = global_batch / ({factor_key} x devices) = {total} / ({factor} x {n_devices})"
        fault = f"work.global_batch {total} cannot be divided: {formula} is not a whole number"
        raise UserError(f"{fault}. Nearest global_batch that works for this cell: {nearest}", KEY)
    return total // divisor
