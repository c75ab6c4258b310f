"""Every code with its page, of both twins: what `scalebench explain` prints and docs/findings.md holds."""

from scalebench.audit.campaign.all_checks import CODES as OWN
from scalebench.audit.external.all_checks import CODES as EXTERNAL

PAGES = OWN | EXTERNAL
OWN_ONLY = sorted(set(OWN) - set(EXTERNAL))
ANYBODYS = sorted(EXTERNAL)
