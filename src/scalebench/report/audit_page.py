"""The audit as one HTML page that needs nothing but itself."""

from scalebench.audit.audit_paths import Audit
from scalebench.report.audit_text import PAGES, grouped, names_of, one_line, summary
from scalebench.report.html import environment


def audit_page(audit: Audit) -> str:
    return (
        environment(line=one_line, names=names_of)
        .get_template("audit.html.j2")
        .render(audit=audit, summary=summary(audit), groups=grouped(audit.findings), pages=PAGES)
    )
