"""The README's picture is of the page as it is now."""

import hashlib
import json

from scaleproof.ground.columns import COLUMNS


def test_the_picture_shows_the_page_as_it_is(repository):
    facts = json.loads((repository / "docs/report.png.json").read_text())
    picture = (repository / "docs/report.png").read_bytes()
    assert hashlib.sha256(picture).hexdigest() == facts["picture_sha256"], "make picture writes both"
    templates = repository / "src/scaleproof/report/templates"
    page = (templates / "report.html.j2").read_text() + (templates / "macros.html.j2").read_text()
    columns = {column.heading.replace("\u00a0", " ") for column in COLUMNS.values()}
    stale = [
        word
        for word in facts["words"]
        if word.replace("\u00a0", " ") not in columns and word.removeprefix("Strong ").removeprefix("Weak ") not in page
    ]
    assert not stale, f"docs/report.png shows {stale}, which the page no longer has: make picture"
