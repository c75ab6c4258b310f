"""What this machine is: GPUs, hardware, provenance, network, Slurm, and what can run here."""

__all__ = ["accelerator", "applicable", "gpus", "hardware", "network", "provenance", "slurm"]
