"""What happens on devices: corpora, models, strategies, the trainer and its launch, traces, the doctor."""

__all__ = [
    "command",
    "corpus",
    "doctor",
    "launch",
    "machine",
    "model",
    "reference",
    "strategy",
    "trace",
    "trainer",
    "watch",
]
