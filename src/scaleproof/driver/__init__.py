"""All that knows Snakemake, or the queue of a cluster: targets, requests, previews, what is out of date."""

__all__ = [
    "ab",
    "ab_campaign",
    "as_sent",
    "campaign_preview",
    "cells_here",
    "cluster",
    "keep",
    "new_project",
    "planned_work",
    "rehearse",
    "snakemake_view",
    "stale",
    "stale_text",
    "surroundings",
    "targets",
]
