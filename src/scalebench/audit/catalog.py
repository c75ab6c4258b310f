"""Every code with its page, of both twins: what `scalebench explain` prints and docs/audit.md holds."""

from scalebench.audit.campaign.all_checks import CODES as OWN
from scalebench.audit.external.pages import PAGES as EXTERNAL

PAGES = OWN | EXTERNAL
OWN_ONLY = sorted(set(OWN) - set(EXTERNAL))
ANYBODYS = sorted(EXTERNAL)
