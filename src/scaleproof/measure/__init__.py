"""What happens on devices: corpora, models, strategies, the trainer and its launch, traces, the doctor."""
