"""Sentences of the report and the console."""

__all__ = ["ab", "answer", "forecast", "next_step", "ratios", "scaling", "trace", "trust"]
