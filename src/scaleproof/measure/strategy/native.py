"""The strategies of torch itself: one device alone, DataParallel, DDP, and FSDP2 with and without replicas."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from scaleproof.measure.strategy.base import DTYPES, Native, Precision, compile_if_asked

DDP_OPTIONS = ("find_unused_parameters", "gradient_as_bucket_view", "broadcast_buffers")


class Single(Native):
    """One device, no wrapper: what every way of sharing has to beat."""

    def wrap(self, model: nn.Module) -> nn.Module:
        """Return the model itself, compiled if the cell says so."""
        return compile_if_asked(model.to(self.device), self.cell)


class DDP(Native):
    """A full replica on each device; gradients are averaged by all-reduce during the backward pass."""

    def wrap(self, model: nn.Module) -> nn.Module:
        """Return the model in DistributedDataParallel, compiled around it if the cell says so."""
        elements = self.cell.execution.bucket_elements
        self.replica = DistributedDataParallel(
            model.to(self.device),
            device_ids=[self.device] if self.device.type == "cuda" else None,
            bucket_cap_mb=None if elements == "auto" else elements * 4 / 2**20,  # fp32 gradients
            broadcast_buffers=False,  # all of them are constants, such as the frequencies of rotary positions
            gradient_as_bucket_view=True,  # gradients live in the buckets: no copy before and after a reduction
        )
        if self.cell.execution.reduce_dtype == "bf16":
            self.replica.register_comm_hook(None, bf16_compress_hook)  # None: all ranks
        # Compiled from outside: the graph is then cut at the buckets, so that reductions still overlap with backward.
        return compile_if_asked(self.replica, self.cell)

    def engine_config(self) -> dict[str, Any]:
        """DistributedDataParallel's options, read back from torch."""
        return {"ddp": {name: bool(getattr(self.replica, name)) for name in DDP_OPTIONS}}

    def synchronising(self, boundary: bool) -> AbstractContextManager:
        """Return the context of a micro-batch's passes: only the step's last one (`boundary`) reduces gradients."""
        return nullcontext() if boundary else self.replica.no_sync()


class DP(Native):
    """One process: in every pass replicas are made anew, and gradients gathered on the first device.

    The micro-batch that arrives is for all devices together; DataParallel cuts it along its first dimension.
    """

    def wrap(self, model: nn.Module) -> nn.Module:
        """Return the model with a replica on each of the cell's devices, all of one node."""
        count = self.cell.execution.geometry.devices_per_node
        devices = [torch.device("cuda", index) for index in range(count)]
        return Replicas(model.to(self.device), devices, self.precision.autocast)


class Replicas(nn.DataParallel):
    """Replicas that compute in the dtype of `autocast`.

    Each replica runs in a thread of its own. torch turns autocast on in these threads, but does not pass its dtype on.
    """

    def __init__(
        self, model: nn.Module, devices: list[torch.device], autocast: Callable[[], AbstractContextManager]
    ) -> None:
        """Replicate `model` on `devices` in each forward pass. `autocast`: makes the context that replicas run in."""
        super().__init__(model, devices)
        self.autocast = autocast

    def parallel_apply(self, replicas: Sequence[nn.Module], inputs: Sequence[Any], kwargs: Any) -> list[Any]:
        """Return the outputs of all replicas, each for its part of `inputs`, as torch does, but with our autocast."""

        def under_autocast(replica: nn.Module) -> Callable[..., Any]:
            """Return a function that runs a replica's forward pass with our autocast, to be called in its thread."""

            def forward(*replica_inputs: Any, **replica_kwargs: Any) -> Any:
                with self.autocast():
                    return replica(*replica_inputs, **replica_kwargs)

            return forward

        return super().parallel_apply([under_autocast(replica) for replica in replicas], inputs, kwargs)


class FSDP(Native):
    """Each device keeps 1/N of each tensor. Blocks are gathered for forward, freed, and gathered again for backward.

    With `fsdp_reshard: false` they are not freed in between. `fsdp` shards over all devices; `hsdp` shards over the
    devices of a node, and keeps a replica of the whole model on each node.
    """

    folds_clipping = False

    def wrap(self, model: nn.Module) -> nn.Module:
        """Return the model with each block sharded by itself, and the rest (embeddings, head) as one more unit.

        Each part is moved to the device as it is sharded: the whole of the model need not fit there.
        """
        name = self.cell.execution.precision
        # Not autocast: a policy casts blocks as they are gathered, so that low precision travels.
        self.precision = Precision(name, self.device, autocast=False)
        low = DTYPES.get(name)  # None: fp32
        reduced = DTYPES.get(self.cell.execution.reduce_dtype, torch.float32) if low else None
        policy = MixedPrecisionPolicy(param_dtype=low, reduce_dtype=reduced)
        mesh = self._mesh()
        reshards = self.cell.execution.fsdp_reshard
        blocks = cast(nn.ModuleList, model.blocks)

        for index, block in enumerate(blocks):
            sharded = fully_shard(
                compile_if_asked(block, self.cell), mesh=mesh, mp_policy=policy, reshard_after_forward=reshards
            )
            blocks[index] = cast(nn.Module, sharded)

        self.sharded = [cast(FSDPModule, block) for block in blocks]
        self._set_prefetch(self.cell.execution.fsdp_prefetch)
        # None: torch's choice, which keeps the root gathered, as its backward pass follows at once.
        self.root = fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=None if reshards else False)
        return cast(nn.Module, self.root)

    def _mesh(self) -> DeviceMesh:
        """The mesh of the cell's devices, one row for each replica.

        Without it torch would take a mesh of the machine's accelerator, for a cell on the CPU as well.
        """
        ranks = dist.get_world_size()
        sharing = self.cell.sharing_devices
        if sharing == ranks:
            return init_device_mesh(self.device.type, (ranks,))
        return init_device_mesh(self.device.type, (ranks // sharing, sharing), mesh_dim_names=("replicate", "shard"))

    def _set_prefetch(self, depth: int) -> None:
        """Have `depth` blocks gathered ahead of the block that computes, in both passes."""
        if depth <= 1:  # torch gathers one block ahead by itself, in the order in which blocks were used
            return
        for index, block in enumerate(self.sharded):  # forward: the blocks behind it; backward: those before, reversed
            block.set_modules_to_forward_prefetch(self.sharded[index + 1 : index + 1 + depth])
            block.set_modules_to_backward_prefetch(self.sharded[max(0, index - depth) : index][::-1])

    def engine_config(self) -> dict[str, Any]:
        """Return settings read back from torch: blocks gathered ahead (0: torch's default), and replicas."""
        state = self.sharded[0]._get_fsdp_state()  # what was set can be read back by private names alone
        mesh = cast(DTensor, next(self.module.parameters())).device_mesh
        replicas = mesh.size(0) if mesh.ndim > 1 else 1
        return {"fsdp": {"forward_prefetch": len(state._states_to_forward_prefetch), "replicas": replicas}}

    def synchronising(self, boundary: bool) -> AbstractContextManager:
        """Tell torch whether to exchange gradients in this micro-batch, and return an empty context.

        Gradients stay whole on each device up to the last micro-batch of a step (the `boundary`), and are then reduced
        and sharded.
        """
        self.root.set_requires_gradient_sync(boundary)
        return nullcontext()


STRATEGIES: dict[str, type[Native]] = {"single": Single, "dp": DP, "ddp": DDP, "fsdp": FSDP, "hsdp": FSDP}
