"""The audit as one HTML page that needs nothing but itself."""

from jinja2 import Environment, PackageLoader, StrictUndefined

from scalebench.audit.everything import Audit
from scalebench.report.audit_text import PAGES, grouped, names_of, shown_line, summary


def audit_page(audit: Audit) -> str:
    return (
        environment()
        .get_template("audit.html.j2")
        .render(audit=audit, summary=summary(audit), groups=grouped(audit.findings), pages=PAGES)
    )


def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("scalebench.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["line"] = shown_line
    made.filters["names"] = names_of
    return made
