"""Findings and their register: codes, severities, pages."""

__all__ = ["catalog", "finding", "forecast_report", "own_runs", "pages", "registry", "shared_codes"]
