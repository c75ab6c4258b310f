"""Nodes and devices, as a campaign writes them."""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from scaleproof.ground.campaign.field import Section

GEOMETRY = r"^([1-9][0-9]{0,4})x([1-9][0-9]{0,2})$"


class Geometry(Section):
    """How many nodes, and how many devices on each."""

    nodes: int = Field(ge=1)
    devices_per_node: int = Field(ge=1)

    @property
    def n_devices(self) -> int:
        return self.nodes * self.devices_per_node

    def slug(self) -> str:
        """Return the geometry as names of cells have it: "2x4" for 2 nodes with 4 devices each."""
        return str(self)

    def __str__(self) -> str:
        return f"{self.nodes}x{self.devices_per_node}"


def _read_geometry(value: Any) -> Any:
    """Return the keys of a Geometry, from a text like "2x4"; any other value as it is, for pydantic to refuse."""
    geometry = re.match(GEOMETRY, value) if isinstance(value, str) else None
    return {"nodes": int(geometry[1]), "devices_per_node": int(geometry[2])} if geometry else value


# Written "nodes x devices_per_node" in the file: "1x2" is two devices of one node.
GeometryKey = Annotated[
    Geometry,
    BeforeValidator(_read_geometry),
    WithJsonSchema({"type": "string", "pattern": GEOMETRY, "examples": ["1x2", "2x4"]}),
]
