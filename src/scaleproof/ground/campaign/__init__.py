"""What to run: typed campaigns, their cells, slugs and fingerprints. Imports no torch."""

__all__ = [
    "batch",
    "campaign_paths",
    "cells",
    "command",
    "config",
    "corpora",
    "execution",
    "hub_names",
    "loaded",
    "model_shapes",
    "rehearsal",
    "repeats",
    "shared_jobs",
    "strategies",
    "text_encoding",
    "transformers_model",
    "unmeasured",
    "validation_messages",
    "yaml_loader",
]
