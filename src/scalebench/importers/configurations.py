"""Configurations beside runs."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scalebench.importers.discover import Reading


def attach_configurations(reading: "Reading") -> None:
    """What configurations say of the runs beside them."""
