"""Facts and formulas of models and devices: peaks, counts of parameters, FLOPs, memory, traffic, kinds of kernels."""

__all__ = ["counts", "kernel_classes", "memory", "peaks", "traffic"]
