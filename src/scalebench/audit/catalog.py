"""Every code with its page, of both twins: what `scalebench explain` prints and docs/findings.md holds."""

from scalebench.audit.campaign.all_checks import CODES as OWN
from scalebench.audit.external.all_checks import CODES as EXTERNAL
from scalebench.audit.forecast_codes import FORECAST_CODES as FORECAST

PAGES = OWN | EXTERNAL | FORECAST
OWN_ONLY = sorted(set(OWN | FORECAST) - set(EXTERNAL))
ANYBODYS = sorted(EXTERNAL)
