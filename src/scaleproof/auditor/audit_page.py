"""The audit as one HTML page that needs nothing but itself."""

from scaleproof.auditor import audit_text
from scaleproof.auditor.audit import Audit
from scaleproof.ground.findings.catalog import meaning_of
from scaleproof.ground.html import jinja_environment


def audit_page(audit: Audit, date: str = "", base: str = "") -> str:
    """Return the audit as one HTML page.

    `date`: when it was made. `base`: the address that links to files begin with ("https://github.com/.../blob/main").
    """

    def link(place: str) -> str:
        """Return the address of a place: "a.md:7" -> "https://.../a.md#L7"; of "a.xlsx#B:7" its file's."""
        whole, _, part = place.partition("#")
        file, _, line = whole.rpartition(":")
        is_line = line.isdigit() and not part
        return f"{base.rstrip('/')}/{file}#L{line}" if is_line else f"{base.rstrip('/')}/{whole}"

    html = jinja_environment(
        "scaleproof.auditor",
        line=audit_text.one_line,
        names=audit_text.names_of,
        cells=audit_text.cells,
        scaling_cells=audit_text.scaling_cells,
        link=link,
    )
    return html.get_template("audit.html.j2").render(
        audit=audit,
        date=date,
        base=base,
        verdict=audit_text.verdict(audit),
        reading=audit_text.reading_sentence(audit),
        groups=audit_text.grouped(audit.findings),
        what_of=meaning_of,
        headings=audit_text.HEADINGS,
        scaling_headings=audit_text.SCALING,
        numbers=("devices", "rate", "speed-up", "efficiency"),  # columns that are sorted by their numbers
    )
