"""Fields of a rank's record that its schema leaves open, and that are not of the kind that the trainer writes."""

from scaleproof.ground.records.metrics import Measured

# Numbers that a machine may not know are checked where they are there.
NUMBERS = ("_s", "_bytes", "_load", "_cpus", "_switches", "threads")


def field_fault(metrics: Measured) -> str:
    """The first field of another kind, in words; "" where there is none."""
    for place, rank in enumerate(metrics.ranks):
        if not isinstance(rank.get("cores"), list):
            return f"ranks.{place}.cores is {rank.get('cores')!r}, no list"
        for name, value in rank.items():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if name.endswith(NUMBERS) and value is not None and not number:
                return f"ranks.{place}.{name} is {value!r}, no number"
    return ""
