"""The audit as one HTML page that needs nothing but itself."""

from scaleproof.auditor.audit import Audit
from scaleproof.auditor.audit_text import (
    HEADINGS,
    SCALING,
    cells,
    grouped,
    names_of,
    one_line,
    reading_sentence,
    scaling_cells,
    verdict,
)
from scaleproof.ground.findings.catalog import meaning_of
from scaleproof.ground.html import jinja_environment


def audit_page(audit: Audit, date: str = "", base: str = "") -> str:
    """Return the audit as one HTML page.

    `date`: when it was made. `base`: the address that links to files begin with ("https://github.com/.../blob/main").
    """

    def link(place: str) -> str:
        """Return the address of a place: "a.md:7" -> "https://.../a.md#L7"."""
        file, _, line = place.rpartition(":")
        return f"{base.rstrip('/')}/{file}#L{line}" if line.isdigit() else f"{base.rstrip('/')}/{place}"

    html = jinja_environment(
        "scaleproof.auditor", line=one_line, names=names_of, cells=cells, scaling_cells=scaling_cells, link=link
    )
    template = html.get_template("audit.html.j2")
    return template.render(
        audit=audit,
        date=date,
        base=base,
        verdict=verdict(audit),
        reading=reading_sentence(audit),
        groups=grouped(audit.findings),
        what_of=meaning_of,
        headings=HEADINGS,
        scaling_headings=SCALING,
    )
