"""What this rank really does and is set to: read back from the objects that run, not from the configuration."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.distributed_c10d import _world
from torch.distributed.tensor import DTensor

from scaleproof.ground.cores import cores_of_this_process
from scaleproof.ground.records.census import Census, OptimizerGroup, ProbedStep
from scaleproof.measure.machine.provenance import OF_ARITHMETIC, cpu_model, variables_to_record
from scaleproof.measure.strategy import Strategy
from scaleproof.measure.strategy.base import local_shard
from scaleproof.measure.trainer.probe import Probe

VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES")  # null where they are not set
# Options of AdamW that change its rule, with their usual value: no configuration asks for another.
VARIANTS = {"amsgrad": False, "maximize": False, "decoupled_weight_decay": True}
MODULUS = 2**64
SAMPLED = 2**16  # elements of a tensor that are looked at
INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}  # bytes -> dtype of as many bytes


class TokenChecksum:
    """Sum of a hash of the tokens of each row that enters a model; its rule is in measure/reference/samples.py."""

    def __init__(self) -> None:
        self.total = 0
        self.counted: Tensor | None = None  # a mask of the rows of a forward pass that count; None: all

    def add(self, rows: Tensor) -> None:
        """Add the rows of one forward pass that count, int64 of shape (rows, tokens)."""
        if self.counted is not None and len(self.counted) == len(rows):
            rows = rows[self.counted]
        for row in rows.detach().cpu().numpy().astype("<i8"):
            self.total += int.from_bytes(hashlib.sha256(row.tobytes()).digest()[:8], "little")

    def __str__(self) -> str:
        """Return the checksum of all rows so far, as 16 hexadecimal digits."""
        return f"{self.total % MODULUS:016x}"

    @contextmanager
    def record(self, model: nn.Module) -> Iterator[None]:
        """Add all tokens that enter `model` within the `with` block."""
        hook = model.register_forward_pre_hook(lambda module, arguments: self.add(arguments[0]))
        try:
            yield
        finally:
            hook.remove()


def add_checksums(checksums: list[str]) -> str:
    """Return the checksum of all ranks' tokens together, from the checksum of each rank."""
    return f"{sum(int(checksum, 16) for checksum in checksums) % MODULUS:016x}"


def autograd_nodes_made() -> int:
    """Return the running number of this thread's autograd nodes. Each call makes one node."""
    node = (torch.zeros((), requires_grad=True) + 0).grad_fn
    assert node is not None  # a sum of what requires a gradient has one
    return int(node._sequence_nr())  # torch has no public word for it


def record_of_probed_step(
    step: int,
    probe: Probe,
    strategy: Strategy,
    checksum: TokenChecksum | None,
    nodes: int,
    tokens_inside: int | None,
    saved_on_host: bool = False,
) -> ProbedStep:
    """Return the record of step `step`, from what `probe` counted in it.

    `checksum`: of the tokens that entered the model, None where it could not be made. `nodes`: autograd nodes that the
    step made. `tokens_inside`: tokens that reached the model's embedding. `saved_on_host`: whether activations were
    kept in the host's memory.
    """
    dtypes = probe.dtypes()
    return ProbedStep(
        step=step,
        linear_flops=probe.flops["linear"],
        batched_flops=probe.flops["batched"],
        attention=dict(probe.attention),
        updates=dict(probe.updates),
        collectives=probe.collectives(),
        products=dtypes["products"],
        gradients=dtypes["gradients"],
        reduced=dtypes["reduced"],
        tokens_checksum=str(checksum) if checksum else None,
        groups=optimizer_groups(strategy),
        nodes=nodes,
        saved_on_host=saved_on_host,
        busy_s=probe.clock.busy_s if probe.clock else None,
        idle_s=probe.clock.idle_s if probe.clock else None,
        gradient_norm=probe.witness.gradient_norm,
        scaled_by=probe.witness.scaled_by,
        tokens_inside=tokens_inside,
    )


def census_of_rank(strategy: Strategy, model: nn.Module, **of_steps: Any) -> Census:
    """Return this rank's census after the window. `model`: without wrapper; `of_steps`: what was seen of steps."""
    parameters = {id(tensor): tensor for tensor in strategy.module.parameters()}.values()  # tied ones once
    # What this process itself sees of its libraries and machine, which the launcher has recorded as well.
    env = {
        "torch_version": torch.__version__,
        "cpu_model": cpu_model(),
        "cpu_instructions": torch.backends.cpu.get_cpu_capability(),
        **{name: value for name, value in variables_to_record().items() if name.startswith(OF_ARITHMETIC)},
    }
    return Census(
        parameters=sum(map(elements_of, parameters)),
        trainable=sum(elements_of(parameter) for parameter in parameters if parameter.requires_grad),
        engine=engine_settings(strategy),
        threads=torch.get_num_threads(),
        cores=cores_of_this_process(),
        compiled_graphs=compiled_graphs(),
        compiled=compiled_parts(strategy.module),
        env={name: os.environ.get(name) for name in VARIABLES} | env,
        wrapper=None if strategy.module is model else type(strategy.module).__name__,
        weights=weights_checksum(parameters),
        **of_steps,
    )


def weights_checksum(parameters: Iterable[nn.Parameter]) -> str | None:
    """Return a checksum of the bits of all parameters as 16 hexadecimal digits, None where this rank holds only a part.

    It is the sum over parameters of their place, from 1, x the sum of their elements' bits, modulo 2^64. Two ranks with
    equal checksums have, but for rare chance, equal weights.
    """
    total = 0
    for place, parameter in enumerate(parameters, start=1):
        if isinstance(parameter, DTensor) or hasattr(parameter, "ds_numel"):  # sharded by FSDP2, by ZeRO-3
            return None
        bits = parameter.detach().contiguous().view(INTEGERS[parameter.element_size()])
        total += place * int(bits.sum(dtype=torch.int64))
    return f"{total % MODULUS:016x}"


def share_exact_in_bf16(strategy: Strategy) -> float | None:
    """Return the share of the updated fp32 weights that are exact in bf16, None where all are zero.

    By chance it is one in 65,536: a larger share tells of weights that were rounded. About SAMPLED elements of each
    tensor are looked at; zeros do not count.
    """
    n_nonzero = n_exact = 0
    for tensor in strategy.optimizer.state:
        if tensor.dtype != torch.float32:
            continue
        elements = local_shard(tensor).flatten()
        bits = elements[:: max(1, len(elements) // SAMPLED)].contiguous().view(torch.int32)
        n_nonzero += int((bits != 0).sum())
        n_exact += int(((bits != 0) & ((bits & 0xFFFF) == 0)).sum())  # bf16 lacks the lower 16 bits of fp32
    return n_exact / n_nonzero if n_nonzero else None


def collectives_made() -> int:
    """Return how many collectives this rank has begun, by the counters that process groups of NCCL and gloo have."""
    # Both names are private. In public a collective is seen by a dispatch mode alone, which would slow the window, and
    # there is no list of all groups: FSDP2 and DeepSpeed make their own.
    groups: list[Any] = list(_world.pg_map)
    made = 0
    for group in groups:
        with suppress(RuntimeError):  # another backend
            made += group._get_sequence_number_for_group()
    return made


def optimizer_groups(strategy: Strategy) -> list[OptimizerGroup]:
    """Return the parameter groups of the optimizer that updates the weights, which may be inside of an engine."""
    optimizer = getattr(getattr(strategy, "engine", None), "optimizer", strategy.optimizer)
    groups = optimizer.param_groups
    elements = _elements_of_groups(optimizer)
    return [
        OptimizerGroup(
            kind=type(strategy.optimizer).__name__,
            learning_rate=float(group["lr"]),
            weight_decay=float(group["weight_decay"]),
            betas=[float(beta) for beta in group["betas"]],
            eps=float(group["eps"]),
            variants=[name for name, usual in VARIANTS.items() if group.get(name, usual) != usual],
            elements=elements[number] if len(elements) == len(groups) else None,  # None: the lists do not match
        )
        for number, group in enumerate(groups)
    ]


def _elements_of_groups(optimizer: Any) -> list[int]:
    """Return the elements that each parameter group updates, over all ranks. ZeRO's groups have partitions."""
    if hasattr(optimizer, "bit16_groups"):  # ZeRO of stages 1 and 2, in any precision
        groups = optimizer.bit16_groups
    elif hasattr(optimizer, "trainable_param_groups"):  # ZeRO of stage 3
        groups = [group["params"] for group in optimizer.trainable_param_groups]
    else:
        groups = [group["params"] for group in optimizer.param_groups]
    return [sum(map(elements_of, parameters)) for parameters in groups]


def engine_settings(strategy: Strategy) -> dict[str, Any] | None:
    """Return settings as DeepSpeed's engine has them: name -> value. Returns None without an engine."""
    engine = getattr(strategy, "engine", None)
    if engine is None:
        return None
    return {
        "zero_stage": int(engine.zero_optimization_stage()),
        "gradient_clipping": float(engine.gradient_clipping()),
        "micro_batch": int(engine.train_micro_batch_size_per_gpu()),
        "accumulation": int(engine.gradient_accumulation_steps()),
    }


def compiled_graphs() -> int:
    """Return how many graphs torch.compile has made in this process."""
    from torch._dynamo.utils import counters  # what its logs print; torch.compiler has no count

    return int(counters["stats"]["unique_graphs"])


def compiled_parts(model: nn.Module) -> str:
    """Return the classes of compiled modules in `model`, or with a compiled method: "Block, LossHead".

    Two options are named where they are on: "Block with max_autotune", "Block with triton.cudagraphs".
    """
    names = set()
    for module in model.modules():
        for candidate in (module, *vars(module).values()):
            if read_options := getattr(candidate, "get_compiler_config", None):
                options = read_options() or {}
                options_on = [name for name in ("max_autotune", "triton.cudagraphs") if options.get(name)]
                names.add(" with ".join([type(module).__name__, *options_on]))
    return ", ".join(sorted(names))


def elements_of(parameter: Tensor) -> int:
    """Return the number of elements of a parameter over all ranks, of which this rank may hold only a part."""
    whole_size = getattr(parameter, "_unpadded_unsharded_size", None)  # FSDP of torch 1 has it
    if whole_size:
        return int(whole_size.numel())
    return int(getattr(parameter, "ds_numel", parameter.numel()))  # ZeRO-3 has ds_numel
