"""Who starts the ranks, watches them and says where they ran."""

__all__ = ["attempt", "device_lock", "failure", "local", "replay", "run", "several_runs", "supervise"]
