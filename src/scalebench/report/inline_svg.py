"""Charts inside the page: searchable text, values on hover, no request to anywhere."""

import re
from pathlib import Path

# Attributes that name an id of the same file.
ID = re.compile(r'(\bid="|url\(#|(?:xlink:)?href="#)')


def inline_svg(path: Path, name: str, title: str) -> str:
    """The `<svg>` element of `path`. Its ids begin with `name`, so that two charts do not share one.

    The element has an accessible name and scales with its container.
    """
    text = path.read_text(encoding="utf-8")
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = ID.sub(rf"\g<1>{name}-", text)
    head, rest = text.split(">", 1)
    head = re.sub(r'\s(?:width|height)="[^"]*"', "", head)
    return f'{head} role="img" aria-label="{title}">{rest}'
