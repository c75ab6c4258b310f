"""An independent replay of the first steps of a workload: what every run's losses are compared with."""

__all__ = ["control", "corpus_reader", "planned", "replay", "schema"]
