"""The environment of the pages' templates."""

from collections.abc import Callable
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


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
