"""What this machine is: GPUs, hardware, provenance, network, Slurm, and what can run here."""

__all__ = ["applicable", "gpus", "network", "provenance", "slurm"]
