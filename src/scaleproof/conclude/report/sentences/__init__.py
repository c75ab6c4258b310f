"""Sentences of the report and the console."""

__all__ = [
    "ab",
    "answer",
    "drift",
    "forecast",
    "next_step",
    "ratios",
    "scaling_laws",
    "trace",
    "trust",
    "waterfall",
]
