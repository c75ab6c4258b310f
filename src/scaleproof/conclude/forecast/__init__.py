"""Forecasts: what has not been measured, with an interval, or a refusal that says which measurement would lift it."""
