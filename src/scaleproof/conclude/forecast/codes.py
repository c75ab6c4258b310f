"""The codes of findings about forecasts and links, with their pages: what `scaleproof explain` has of this room."""

from scaleproof.conclude.forecast.findings import CHECKS
from scaleproof.ground.findings.registry import codes_of

FORECAST_CODES = codes_of(CHECKS)
