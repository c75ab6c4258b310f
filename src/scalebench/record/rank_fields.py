"""Fields of a rank's record that are not of the kind that the trainer writes: somebody changed the file."""

from scalebench.record.metrics import Measured

# What every rank has, and its kind. Numbers that a machine may not know are checked where they are there.
KINDS = {"rank": int, "host": str, "device_name": str, "devices": list, "cores": list}
WORDS = {int: "number", str: "text", list: "list"}
NUMBERS = ("_s", "_bytes", "_load", "_cpus", "_switches", "threads")


def field_fault(metrics: Measured) -> str:
    """The first field of another kind, in words; "" where there is none."""
    if not metrics.ranks:
        return "ranks: there is none"
    for place, rank in enumerate(metrics.ranks):
        for name, kind in KINDS.items():
            if name not in rank:
                return f"ranks.{place}.{name} is missing"
            if not isinstance(rank[name], kind) or isinstance(rank[name], bool):
                return f"ranks.{place}.{name} is {rank[name]!r}, no {WORDS[kind]}"
        for name, value in rank.items():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if name.endswith(NUMBERS) and value is not None and not number:
                return f"ranks.{place}.{name} is {value!r}, no number"
    return ""
