"""What this machine is: GPUs, hardware, provenance, network, the allocation around it, and what can run here."""

__all__ = ["accelerator", "allocation", "amd", "applicable", "gpus", "network", "provenance"]
