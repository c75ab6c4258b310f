"""What the numbers mean: intervals, cells, scaling."""

__all__ = [
    "ab_comparison",
    "campaign_findings",
    "compare_runs",
    "design",
    "error_budget",
    "loss_curves",
    "ranking",
    "run_tables",
    "scaling",
    "simultaneous",
    "traces",
    "waterfall",
]
