"""The environment of the pages' templates."""

import re
from collections.abc import Callable, Collection
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape


def environment(**filters: Callable[..., Any]) -> Environment:
    """Everything escaped, nothing undefined passed over; `filters` by their names in the templates."""
    made = Environment(
        loader=PackageLoader("scalebench.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= filters
    return made


def linked(text: str, cells: Collection[str]) -> Markup:
    """`text`, escaped, in which the name of each of `cells` is a link to the cell's row."""
    if not cells:
        return escape(text)
    names = "|".join(re.escape(cell) for cell in sorted(cells, key=len, reverse=True))
    parts = re.split(rf"(?<![\w-])({names})(?![\w-])", text)
    link = Markup('<a href="#row-{0}">{0}</a>')
    return Markup("").join(link.format(part) if part in cells else escape(part) for part in parts)
