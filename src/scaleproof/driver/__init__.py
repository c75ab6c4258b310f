"""All that knows Snakemake, or the queue of a cluster: targets, requests, previews, what is out of date."""

__all__ = [
    "ab",
    "as_sent",
    "campaign_preview",
    "cluster_check",
    "job_environment",
    "job_minutes",
    "keep",
    "new_project",
    "planned_work",
    "rehearse",
    "site",
    "slurm_executor",
    "slurm_request",
    "snakemake_run",
    "stale",
    "surroundings",
    "targets",
]
