"""How a key of a campaign is declared: description, unit, default, and whether it can vary."""

from typing import Any

from pydantic import BaseModel, Field
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo


class Section(BaseModel, extra="forbid", frozen=True, strict=True, allow_inf_nan=False):
    """A group of keys. Unknown keys are refused; values cannot be changed after validation."""


def key(default: Any, description: str | None, unit: str, *, axis: str | None = None, **limits: Any) -> Any:
    """Declare one key of a section: a pydantic field with its default. `limits`: as for `pydantic.Field`.

    `unit` is written into the JSON schema ("none" where the value has no unit). `axis` is the prefix of the key in a
    cell's slug ("" for values that speak for themselves); a key without a prefix cannot stand under `vary`.
    """
    extra: JsonDict = {"unit": unit}
    if axis is not None:
        extra["axis"] = axis
    return Field(default, description=description, json_schema_extra=extra, **limits)


def unit_of(field: FieldInfo) -> str:
    return str(_declared_extra(field)["unit"])


def axis_prefix(field: FieldInfo) -> str | None:
    """Return the slug prefix of a declared key. Returns None where the key is no axis."""
    axis = _declared_extra(field).get("axis")
    return None if axis is None else str(axis)


def _declared_extra(field: FieldInfo) -> JsonDict:
    """Return what `key` has declared beside pydantic's own: unit and axis."""
    return field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
