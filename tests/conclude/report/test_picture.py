"""The README's picture is of the page as it is now."""

import hashlib
import json

from scaleproof.ground.columns import COLUMNS


def test_the_picture_shows_the_page_as_it_is(repository):
    facts = json.loads((repository / "docs/report.png.json").read_text())
    picture = (repository / "docs/report.png").read_bytes()
    assert hashlib.sha256(picture).hexdigest() == facts["picture_sha256"], "make picture writes both"
    templates = sorted((repository / "src/scaleproof").glob("**/templates/*.j2"))
    page = "".join(path.read_text() for path in templates if path.name in ("report.html.j2", "macros.html.j2"))
    columns = {column.heading.replace("\u00a0", " ") for column in COLUMNS.values()}
    stale = [
        word
        for word in facts["words"]
        if word.replace("\u00a0", " ") not in columns and word.removeprefix("Strong ").removeprefix("Weak ") not in page
    ]
    assert not stale, f"docs/report.png shows {stale}, which the page no longer has: make picture"
