"""From runs to conclusions: checks of own runs, analysis, forecast, report, publication."""
