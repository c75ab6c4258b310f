"""What the numbers mean: intervals, cells, scaling."""

__all__ = [
    "ab_comparison",
    "campaign_findings",
    "compare_runs",
    "design",
    "loss_curves",
    "power",
    "ranking",
    "run_tables",
    "scaling",
    "simultaneous",
    "stopping",
    "traces",
    "waterfall",
]
