"""Profilers and debugging aids that slow a run down, as they show in command lines and environments."""

import re

# Program or option of a command line -> what it is.
ARGUMENTS = {
    r"(^|/)nsys$": "nsys",
    r"(^|/)ncu$": "ncu",
    r"^--profile$": "--profile",
    r"^--use-pytorch-profiler$": "--use-pytorch-profiler",
    r"^(-m)?cProfile$": "cProfile",
    r"^--?detect_anomaly$": "detect_anomaly",
    r"^NSYS=1$": "NSYS",
}
# Environment variable -> values that mean it is off.
ENVIRONMENT = {
    "NCCL_DEBUG": ("", "WARN", "VERSION", "0"),
    "TORCH_DISTRIBUTED_DEBUG": ("", "OFF", "0"),
    "CUDA_LAUNCH_BLOCKING": ("", "0"),
    "TORCH_NCCL_TRACE_BUFFER_SIZE": ("", "0"),
    "NCCL_LOGS": ("", "0"),
    "NSYS": ("", "0"),
    "TORCH_CPP_LOG_LEVEL": ("", "ERROR", "WARNING"),
}


def debug_settings_of(arguments: list[str]) -> dict[str, str]:
    """Return the profilers and debugging aids that a command line starts, each "on"."""
    settings = {}
    for argument in arguments[:2000]:
        for pattern, name in ARGUMENTS.items():
            if re.search(pattern, argument):
                settings[name] = "on"
    return settings


def debug_settings_in(environment: dict[str, object]) -> dict[str, str]:
    """Return, of environment variables, those that are set to something that costs time."""
    return {
        name: str(value)[:40]
        for name, value in environment.items()
        if name in ENVIRONMENT and str(value).upper() not in ENVIRONMENT[name]
    }
