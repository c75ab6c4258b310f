"""The timed loop. Nothing happens in it that training itself does not need."""

from dataclasses import dataclass
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from scaleproof.measure.machine import accelerator
from scaleproof.measure.strategy import Strategy
from scaleproof.measure.trainer.batches import Batches
from scaleproof.measure.trainer.request import PHASES


@dataclass(frozen=True)
class Series:
    """What one rank measured of some steps. Arrays are of shape (steps,), times in seconds."""

    first: int  # number of the first step
    step_time: np.ndarray
    data_wait: np.ndarray  # the part of the step's time in which it waited for its tokens
    loss: np.ndarray  # mean over the micro-batches of the step
    wall: float  # time of all steps together, by the host's clock


class StepTimer:
    """Marks the ends of steps: by a monotonic clock on a CPU, by events on a GPU, for which nothing waits."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._by_events = accelerator.is_accelerator(device)
        self.marks: list = []  # events, or seconds of the clock

    def start(self) -> None:
        """Wait until the device is idle, and mark the start of the first step."""
        accelerator.synchronize(self.device)
        self.began = perf_counter()
        self.mark()

    def mark(self) -> None:
        """Mark the end of a step, where the next one begins."""
        self.marks.append(accelerator.mark_event(self.device) if self._by_events else perf_counter())

    def stop(self) -> tuple[np.ndarray, float]:
        """Wait for the device. Returns the seconds of each step, and of all together by the host's clock."""
        accelerator.synchronize(self.device)
        wall = perf_counter() - self.began
        ends = zip(self.marks, self.marks[1:], strict=False)
        if self._by_events:
            steps = [begin.elapsed_time(end) / 1e3 for begin, end in ends]  # events count milliseconds
        else:
            steps = [end - begin for begin, end in ends]
        return np.array(steps), wall


def run_steps(
    strategy: Strategy, batches: Batches, first: int, count: int, clock: StepTimer, heartbeat: np.ndarray | None = None
) -> Series:
    """Make `count` optimizer steps from step `first` on, and time each of them whole.

    A step lasts from asking for its first micro-batch to the end of the optimizer's update, where the next step begins.
    Losses stay on the device until the last step is done. `heartbeat`: this rank's mark for the launcher
    (`open_heartbeat`), if there is one.
    """
    accumulation = strategy.accumulation
    heartbeat = np.zeros(1, dtype=np.int64) if heartbeat is None else heartbeat
    waits = np.zeros(count)
    losses: list[Tensor] = []
    no_loss = torch.zeros((), device=batches.device)
    clock.start()

    for step in range(first, first + count):
        total = no_loss
        for micro in range(accumulation):
            requested = perf_counter()
            tokens = batches.take(step, micro)
            waits[step - first] += perf_counter() - requested
            heartbeat[0] = PHASES * step + 1
            total = total + strategy.micro_step(tokens, boundary=micro == accumulation - 1)
        heartbeat[0] = PHASES * step + 2
        strategy.update(step)
        losses.append(total)
        clock.mark()
        heartbeat[0] = PHASES * (step + 1)

    step_time, wall = clock.stop()
    mean_losses = torch.stack(losses).double().div(accumulation).cpu().numpy()
    return Series(first=first, step_time=step_time, data_wait=waits, loss=mean_losses, wall=wall)
