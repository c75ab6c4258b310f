"""The timed loop and what is counted beside it."""

START_VARIABLE = "SCALEPROOF_START"  # environment of a rank: how its process was made

__all__ = [
    "__main__",
    "batches",
    "census",
    "host_load",
    "measure",
    "monitor",
    "probe",
    "request",
    "session",
    "timed_loop",
]
