"""From runs to conclusions: checks of own runs, analysis, forecast, report, publication."""

__all__ = ["analysis", "checks", "forecast", "publication", "report"]
