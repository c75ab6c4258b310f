"""What a kernel does, by its name. A name that fits nothing is `unclassified`, and its share is always told."""

import re
from collections.abc import Iterable

UNCLASSIFIED, COMMUNICATION = "unclassified", "communication"
# Collective -> pattern. The names of NCCL 2.4 to 2.27 (`ncclAllReduceRingLLKernel_sum_f16`, `ncclKernel_AllReduce_...`,
# `ncclDevKernel_AllReduce_...`, `nccl:all_reduce`), of RCCL, which keeps them, and of gloo's events in torch's profiler.
COLLECTIVES = {
    name: re.compile(rf"^(?:void )?(?:ncclDevKernel_|ncclKernel_|nccl:|nccl|gloo:)_?(?:{pattern})")
    for name, pattern in {
        "reduce_scatter": r"ReduceScatter|_?reduce_scatter",
        "all_reduce": r"AllReduce|_?all_?reduce",
        "all_gather": r"AllGather|_?all_?gather",
        "broadcast": r"Broadcast|broadcast",
        "reduce": r"Reduce|reduce",
        "all_to_all": r"AllToAll|all_?to_?all",
        "send_recv": r"SendRecv|send|recv",
    }.items()
}
OTHER_COLLECTIVE = re.compile(r"^(?:void )?(?:nccl|rccl|gloo:|mscclKernel|nvshmem)")
# Class -> pattern, in the order in which they are tried; the first that fits wins.
CLASSES = {
    "memcpy": r"memcpy|memset|^fsdp::|^aten::(?:copy_|_to_copy|to|clone|cat|split_with_sizes_copy|_foreach_copy_|contiguous)$",
    "optimizer": r"adam|FusedOptimizer|optimizer|_fused_sgd|multi_tensor_scale|clip_grad|_foreach_norm|lamb\b|LpNorm",
    "attention": r"flash|fmha|attention|sdpa|mem_eff|cudnn_generated_fort_native_sdpa",
    "gemm": r"gemm|gemv|cutlass|cublas|nvjet|wgmma|xmma|splitK|^aten::(?:mm|addmm|bmm|baddbmm|addmv|mv|dot|linear|matmul)$",
    "norm and loss": r"layer_?norm|softmax|GammaBeta|rms_?norm|nll_loss|cross_entropy",
    "elementwise": r"elementwise|vectorized|reduce_kernel|CatArray|embedding|index|gather|scatter|fill|dropout|triton_"
    r"|foreach|multi_tensor_apply|DeviceScan|DeviceReduce|DeviceRadixSort|arange|tril|triu|gelu|unrolled"
    r"|distribution_nullary|compute_cuda_kernel|^aten::",
}
_CLASSES = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in CLASSES.items()}


def collective_of(name: str) -> str | None:
    """The collective that a kernel or event carries out; "other" for a name of NCCL or gloo that is not in the table."""
    for collective, pattern in COLLECTIVES.items():
        if pattern.search(name):
            return collective
    return "other" if OTHER_COLLECTIVE.search(name) else None


def class_of(name: str) -> str:
    """The class of a kernel, a memory operation or an operator of torch."""
    if collective_of(name):
        return COMMUNICATION
    return next((found for found, pattern in _CLASSES.items() if pattern.search(name)), UNCLASSIFIED)


def classify(names: Iterable[str]) -> tuple[list[str], list[str | None]]:
    """Classes and collectives of some names. A trace of millions of kernels has some hundred of them."""
    names = list(names)
    return [class_of(n) for n in names], [collective_of(n) for n in names]
