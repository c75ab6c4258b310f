"""Who starts the ranks, watches them and says where they ran."""

__all__ = [
    "attempt",
    "device_lock",
    "failure",
    "local",
    "pairs",
    "replay",
    "replayed_cells",
    "run",
    "shared_job",
    "supervise",
]
