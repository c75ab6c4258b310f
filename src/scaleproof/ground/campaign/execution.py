"""The section `execution` of a campaign: how the work is spread over devices."""

from typing import Annotated, Literal

from pydantic import Field

from scaleproof.ground.campaign.field import Section, key
from scaleproof.ground.campaign.geometry import Geometry, GeometryKey
from scaleproof.ground.campaign.strategies import PrecisionName, StrategyName


class Execution(Section):
    """How the work is spread over devices."""

    strategy: StrategyName = key(
        "ddp",
        "single: one device, no wrapper. dp: nn.DataParallel, one process for all devices of a node. "
        "ddp: DistributedDataParallel, a full replica on each device. fsdp: FSDP2 (fully_shard), everything sharded. "
        "hsdp: FSDP2 that shards over the devices of a node and replicates over nodes; on one node it is fsdp. "
        "zero0 to zero3: DeepSpeed ZeRO stages; with -offload the optimizer's state and step are on the CPU.",
        "none",
        axis="",
    )
    precision: PrecisionName = key(
        "fp32",
        "Arithmetic of forward and backward. fp32: strict. tf32: fp32 with TF32 matrix products. "
        "bf16, fp16: mixed precision with fp32 master weights; fp16 with loss scaling.",
        "none",
        axis="",
    )
    geometry: GeometryKey = key(
        Geometry(nodes=1, devices_per_node=1),
        'nodes x devices_per_node: "2x4" is 2 nodes with 4 devices each.',
        "nodes x devices",
        axis="n",
    )
    attention: Literal["sdpa", "flash", "cudnn", "eager"] = key(
        "sdpa",
        "sdpa: the fused kernel that torch prefers on the device (on Hopper cuDNN's, from cuDNN 9.15.1 on). flash, "
        "cudnn: this one or none. eager: plain matrix products.",
        "none",
        axis="",
    )
    compile: bool | Literal["loss", "max-autotune", "reduce-overhead"] = key(
        False,
        "torch.compile; its time is in the warm-up. loss: of the loss alone, which is most of the memory traffic "
        "beside the blocks. max-autotune: with the kernels of products chosen by timing them, in minutes. "
        "reduce-overhead: with CUDA graphs, for short steps of single.",
        "none",
        axis="compile",
    )
    activation_checkpointing: bool = key(
        False, "Forget activations inside a block and compute them again in the backward pass.", "none", axis="ac"
    )
    loss: Literal["plain", "chunked", "fused"] = key(
        "plain",
        "The same cross-entropy over the vocabulary, for every strategy. plain: all logits "
        "at once. chunked: some tokens at a time, computed again in the backward pass. "
        "fused: some tokens at a time, gradients made at once. Language models alone.",
        "none",
        axis="loss",
    )
    fused_optimizer: bool = key(True, "One kernel for the whole update of AdamW.", "none", axis="fused")
    bucket_elements: Annotated[int, Field(ge=1, le=10**12)] | Literal["auto"] = key(
        "auto",
        "Gradient elements that are reduced together. auto: 25 MiB for ddp; 5e8, but "
        "not more than the model has, for zero, whose zero1 and zero2 need an even "
        "number. Without effect on single, dp and fsdp (which reduces block by block).",
        "elements",
        axis="bucket",
    )
    overlap_comm: bool | Literal["auto"] = key(
        "auto",
        "DeepSpeed's reduction of gradients beside the backward pass, of zero1 to zero3. auto: its default "
        "(on for zero3 alone). Without effect on other strategies.",
        "none",
        axis="overlap",
    )
    fsdp_prefetch: int = key(
        1,
        "Blocks that fsdp gathers ahead of the one that is computed. 1 is torch's own order. Without effect on others.",
        "blocks",
        axis="prefetch",
        ge=1,
        le=8,
    )
    fsdp_reshard: bool = key(
        True,
        "Whether fsdp and hsdp free a block's parameters after its forward pass and gather them again for the backward "
        "pass; false keeps them, as ZeRO-2 does. Without effect on others.",
        "none",
        axis="reshard",
    )
    reduce_dtype: Literal["fp32", "bf16"] = key(
        "fp32",
        "Format in which ddp, fsdp and hsdp exchange gradients of precision bf16. bf16: half the bytes, rounded before "
        "they are added up. Without effect on others.",
        "none",
        axis="reduce",
    )
    device: Literal["auto", "cpu", "cuda"] = key(
        "auto", "auto: CUDA devices where there are any, else the CPU.", "none"
    )
    start: Literal["fresh", "forked"] = key(
        "fresh",
        "fresh: each rank is a new interpreter, started by torchrun. forked: on the CPU of one machine, each rank is "
        "forked from a process that has only imported libraries, which saves most of a short run's start-up; "
        "on GPUs that `device: auto` takes, and on several nodes, as fresh. Not with device: cuda.",
        "none",
    )
    threads_per_device: int = key(
        1, "On the CPU a device is one process bound to this many cores.", "cores", axis="t", ge=1, le=4096
    )
