"""What a campaign asks formally, and what it counts as a difference."""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from scaleproof.ground.campaign.field import Section, key
from scaleproof.ground.campaign.geometry import GeometryKey


def _read_percent(value: Any) -> Any:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?%", value) if isinstance(value, str) else None
    return float(match[1]) / 100 if match else value


Percent = Annotated[
    float,
    BeforeValidator(_read_percent, json_schema_input_type=str | float),
    Field(ge=0, lt=1),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? ?%$", "examples": ["2 %"]},
                {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
            ]
        }
    ),
]


class Question(Section):
    """Is one cell faster than another? The first line of the report answers exactly this."""

    subject: str = Field(
        alias="is",
        description="The cell that is asked about: its name, or its strategy.",
        examples=["zero2", "zero2-n1x4"],
        json_schema_extra={"unit": "none"},
    )
    better_than: str = Field(
        description="The cell that it is compared with: its name, or its strategy.",
        examples=["ddp", "ddp-n1x4"],
        json_schema_extra={"unit": "none"},
    )
    on: GeometryKey | None = key(
        None, "Geometry of both, where strategies are named and there are several.", "nodes x devices"
    )
    by: Percent = key(0.0, "How much faster it must be shown to be, e.g. 2 %.", "part of the tokens/s")
