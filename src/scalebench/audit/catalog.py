"""Every code with its page, of both twins: what `scalebench explain` prints and docs/findings.md holds."""

from scalebench.audit.campaign.all_checks import CODES as OWN
from scalebench.audit.campaign.pages import PAGES as OWN_PAGES
from scalebench.audit.external.all_checks import CODES as EXTERNAL

PAGES = OWN | OWN_PAGES | EXTERNAL
OWN_ONLY = sorted(set(PAGES) - set(EXTERNAL))
ANYBODYS = sorted(EXTERNAL)
