"""What a run leaves behind: schemas, atomic writing, reading."""

__all__ = [
    "census",
    "comparison_report",
    "excluded_nodes",
    "failed_runs",
    "host_names",
    "lost_results",
    "metrics",
    "open_sections",
    "profile_schema",
    "recomputed_window",
    "result_file",
    "retry",
    "run",
    "scaling_report",
    "series",
    "steps",
    "traces_report",
    "unreadable",
    "waterfall_report",
]
