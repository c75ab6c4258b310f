"""Forecasts: what has not been measured, with an interval, or a refusal that says which measurement would lift it."""

__all__ = [
    "campaign_forecast",
    "codes",
    "frontier",
    "ledger",
    "plan",
    "planner",
    "report_data",
    "requirements",
    "spent",
    "sweep",
    "sweep_file",
    "table_forecast",
    "text",
]
