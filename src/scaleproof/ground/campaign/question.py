"""What a campaign asks formally, and what it counts as a difference."""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from scaleproof.ground.campaign.field import Section, key
from scaleproof.ground.campaign.geometry import GeometryKey


def _read_percent(value: Any) -> Any:
    """Return a text like "2 %" as a part, 0.02; any other value as it is, for pydantic to check."""
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


class Question(Section, json_schema_extra={"examples": [{"is": "zero2", "better_than": "ddp", "on": "1x2"}]}):
    """Is one cell faster than another, or not slower? The first line of the report answers exactly this."""

    subject: str = Field(
        alias="is",
        description="The cell that is asked about: its name, or its strategy.",
        examples=["zero2", "zero2-n1x4"],
        json_schema_extra={"unit": "none"},
    )
    better_than: str | None = Field(
        None,
        description="The cell that it shall be faster than: its name, or its strategy.",
        examples=["ddp", "ddp-n1x4"],
        json_schema_extra={"unit": "none"},
    )
    not_slower_than: str | None = Field(
        None,
        description="Instead of better_than: the cell that it may be slower than by less than `by`.",
        examples=["ddp", "ddp-n1x4"],
        json_schema_extra={"unit": "none"},
    )
    on: GeometryKey | None = key(
        None, "Geometry of both, where strategies are named and there are several.", "nodes x devices"
    )
    by: Percent = key(
        0.0,
        "How much faster it must be shown to be than better_than, e.g. 2 %; how much slower than not_slower_than it "
        "may be.",
        "part of the tokens/s",
    )

    @model_validator(mode="after")
    def _check_one_comparison(self) -> "Question":
        """Check that the cell is compared with one other. Raises ValueError."""
        if self.better_than is not None and self.not_slower_than is not None:
            raise ValueError("give better_than or not_slower_than, not both")
        if self.not_slower_than is not None and self.by == 0:
            raise ValueError("not_slower_than needs by, the part that it may be slower, e.g. by: 5 %")
        return self
