"""Defects that were once there: each is put back, for good, by a function of DEFECTS."""

from types import SimpleNamespace
from typing import Any

import torch
from deepspeed.accelerator import cuda_accelerator

from scaleproof.measure.doctor import doctor_ranks
from scaleproof.measure.strategy import base, native, zero


def ask_nvtx_for_domains() -> None:
    """DeepSpeed asks the nvtx package for a domain, which those of before 0.2.15 do not have."""
    import_deepspeed = zero._import_deepspeed

    def as_it_comes(device: torch.device) -> Any:
        library = import_deepspeed(device)
        library.accelerator.get_accelerator().supports_nvtx_domain = True
        return library

    zero._import_deepspeed = as_it_comes
    cuda_accelerator.nvtx = SimpleNamespace()


def count_the_looks_own_waits() -> None:
    """The read of the losses after the last step was taken for a wait of the step."""

    def of_one_look(device: torch.device, steps: Any, first: int) -> dict[str, float]:
        with doctor_ranks.count_host_waits(device) as places:
            steps(first, 1)
        return dict(places)

    doctor_ranks.count_waits_per_step = of_one_look


def count_torchs_notice() -> None:
    """What torch says when its debug mode is switched on was taken for a wait."""

    def of_no_step(device: torch.device, steps: Any, first: int) -> dict[str, float]:
        with doctor_ranks.count_host_waits(device) as places:
            pass
        return dict(places)

    doctor_ranks.WAITED = "synchronizing"
    doctor_ranks.count_waits_per_step = of_no_step


def leave_replicas_to_torch() -> None:
    """Replicas of DataParallel run in threads, where autocast's dtype is the default again: fp16."""
    del native.Replicas.parallel_apply


def read_in_each_update() -> None:
    """A host wait in every step."""
    set_learning_rate = base.set_learning_rate

    def reading(optimizer: Any, rate: float) -> None:
        torch.ones((), device="cuda").item()
        set_learning_rate(optimizer, rate)

    base.set_learning_rate = reading


DEFECTS = {
    "nvtx": ask_nvtx_for_domains,
    "the look waits": count_the_looks_own_waits,
    "torch's notice": count_torchs_notice,
    "replicas": leave_replicas_to_torch,
    "a read": read_in_each_update,
}
