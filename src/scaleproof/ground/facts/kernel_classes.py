"""What a kernel does, by its name. A name that fits nothing is `unclassified`, and its share is always reported."""

import re
from collections.abc import Iterable

UNCLASSIFIED, COMMUNICATION = "unclassified", "communication"
LEAST_CLASSIFIED = 0.95  # share of device time that must be understood before anything is said about communication
# Collective -> pattern. The names of NCCL 2.4 to 2.29 (`ncclAllReduceRingLLKernel_sum_f16`, `ncclKernel_AllReduce_...`,
# `ncclDevKernel_AllReduce_...`, `ncclSymkDevKernel_AllReduce_...`, `nccl:all_reduce`), of RCCL, which keeps them, and
# of gloo's events in torch's profiler.
COLLECTIVES = {
    name: re.compile(rf"^(?:void )?(?:nccl(?:Symk)?(?:Dev)?Kernel_|nccl:|nccl|gloo:)_?(?:{pattern})")
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
OTHER_COLLECTIVE = re.compile(r"^(?:void )?(?:nccl|rccl|gloo:|mscclKernel|nvshmem|.*\boneRankReduce)")
# Kernels that torch.compile has written: named after all that was fused into them, so that those words say little.
# A template is a matrix product (or attention); a loop with a reduction over a row is a norm or a softmax by its words.
INDUCTOR = re.compile(r"^triton_")
GENERATED = (
    ("attention", re.compile(r"^triton_tem_.*(?:flex_attention|attention)", re.IGNORECASE)),
    ("gemm", re.compile(r"^triton_tem_", re.IGNORECASE)),
    ("norm and loss", re.compile(r"^triton_(?:red|per)_.*(?:layer_?norm|softmax|rms_?norm|nll_loss)", re.IGNORECASE)),
)
# Class -> parts of names, in the order in which they are tried; the first that fits wins.
CLASSES = {
    "memcpy": (
        r"memcpy|memset|^fsdp::|chunk_cat|split_with_sizes_copy",  # the last two: FSDP2 packing and unpacking shards
        r"^aten::(?:copy_|_to_copy|to|clone|cat|_foreach_copy_|contiguous)$",
    ),
    "optimizer": (
        r"adam|FusedOptimizer|optimizer|_fused_sgd|multi_tensor_scale|clip_grad|_foreach_norm|lamb\b|LpNorm",
        r"amp_update_scale|amp_non_finite|amp_foreach",
    ),
    "attention": (
        r"flash|fmha|attention|sdpa|mem_eff|cudnn_generated_fort_native_sdpa",
        r"^attn_fwd|^bwd_kernel_d[kq]",  # AOTriton's, on AMD's devices
        # cuDNN's attention, which torch prefers on compute capability 9.0, around its flash kernels
        r"cudnn::fusion::(?:compute_dot_do_o|convert_dq)",
    ),
    "gemm": (
        r"gemm|gemv|cutlass|cublas|nvjet|wgmma|xmma|splitK",
        r"^Cijk_",  # rocBLAS and hipBLASLt
        r"^aten::(?:mm|addmm|bmm|baddbmm|addmv|mv|dot|linear|matmul)$",
    ),
    "norm and loss": (r"layer_?norm|softmax|GammaBeta|rms_?norm|nll_loss|cross_entropy",),
    "elementwise": (
        r"elementwise|vectorized|reduce_kernel|CatArray|embedding|index|gather|scatter|fill|dropout|foreach",
        r"multi_tensor_apply|DeviceScan|DeviceReduce|DeviceRadixSort|arange|tril|triu|gelu|unrolled",
        r"distribution_nullary|compute_cuda_kernel|tensor_kernel_scan|_kernel_agent|^aten::",
        # the backward pass of an embedding: sorting, segments and their sums
        r"krn_partial|compute_grad_weight|compute_num_of_partial_segments|sum_and_scatter",
    ),
}
_CLASSES = {name: re.compile("|".join(parts), re.IGNORECASE) for name, parts in CLASSES.items()}


def collective_of(name: str) -> str | None:
    """Return the collective that a kernel or event carries out, such as "all_reduce".

    Returns None for a kernel that does not communicate, and "other" for an unknown name of NCCL, RCCL, gloo or another
    library for communication.
    """
    for collective, pattern in COLLECTIVES.items():
        if pattern.search(name):
            return collective
    return "other" if OTHER_COLLECTIVE.search(name) else None


def class_of(name: str) -> str:
    """Return the class of a kernel, a memory operation or an operator of torch by its name: "gemm", "attention", ..."""
    if collective_of(name):
        return COMMUNICATION
    if INDUCTOR.search(name):
        return next((kind for kind, pattern in GENERATED if pattern.search(name)), "elementwise")
    return next((kind for kind, pattern in _CLASSES.items() if pattern.search(name)), UNCLASSIFIED)


def classify(names: Iterable[str]) -> tuple[list[str], list[str | None]]:
    """Return the class and the collective (None: none) of each name, of which a trace has some hundred."""
    names = list(names)
    return [class_of(name) for name in names], [collective_of(name) for name in names]
