"""Arithmetic of the strategies of torch itself: autocast, TF32, loss scaling."""

from contextlib import AbstractContextManager, nullcontext

import torch

# The same first loss scale for every strategy; GradScaler's own 2^16 skips the first steps of a GPT-2.
INITIAL_SCALE_POWER = 12
LOW = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Precision:
    """fp32 parameters; matrix products in the asked-for format; a loss scaler that does nothing but in fp16."""

    def __init__(self, name: str, device: torch.device, autocast: bool = True) -> None:
        """`name`: fp32, tf32, bf16 or fp16; `autocast`: False where something else casts to a low precision."""
        self.low, self.device = LOW.get(name) if autocast else None, device
        set_matmul_precision(name)
        self.scaler = torch.amp.GradScaler(device.type, init_scale=2.0**INITIAL_SCALE_POWER, enabled=name == "fp16")

    def autocast(self) -> AbstractContextManager:
        """The context of forward passes: torch's autocast in a low precision, else one that does nothing."""
        return torch.autocast(self.device.type, self.low) if self.low else nullcontext()


def set_matmul_precision(name: str) -> None:
    """TF32 for tf32 alone: strict fp32 products otherwise."""
    torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = name == "tf32"
