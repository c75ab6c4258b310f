"""Taking values out of data that nobody has checked."""

import math
from typing import Any

LARGEST = 1e18  # more is a mistake, whatever it counts


class Fields:
    """Reading access to a nested mapping. What is missing is None; what cannot be used is None and a problem that is told."""

    def __init__(self, data: Any, problems: list[str], where: str = "") -> None:
        self._data = data if isinstance(data, dict) else {}
        self._problems, self._where = problems, where
        if data is not None and not isinstance(data, dict):
            self._tell(where or "the file", data, "a mapping")

    def _tell(self, key: str, value: Any, wanted: str) -> None:
        if len(self._problems) < 20:
            self._problems.append(f"{key} is {str(value)[:40]!r}, not {wanted}")

    def part(self, key: str) -> "Fields":
        return Fields(self._data.get(key), self._problems, self._path(key))

    def parts(self, key: str) -> list["Fields"]:
        return [Fields(v, self._problems, f"{self._path(key)}[{i}]") for i, v in enumerate(self.values(key))]

    def values(self, key: str) -> list[Any]:
        found = self._data.get(key)
        if found is None:
            return []
        if not isinstance(found, list):
            self._tell(self._path(key), found, "a list")
            return []
        return found

    def number(self, key: str, at_least: float = -LARGEST) -> float | None:
        """A finite number."""
        return self._numeric(self._path(key), self._data.get(key), at_least)

    def positive(self, key: str) -> float | None:
        """A finite number above zero; 0 is reported, since nothing here takes no time and does no work."""
        value = self.number(key)
        if value is not None and value <= 0:
            self._tell(self._path(key), value, "above zero")
            return None
        return value

    def count(self, key: str, at_least: int = 1) -> int | None:
        value = self.number(key, at_least)
        if value is not None and value != int(value):
            self._tell(self._path(key), value, "a whole number")
            return None
        return None if value is None else int(value)

    def numbers(self, key: str) -> list[float | None]:
        return [self._numeric(f"{self._path(key)}[{i}]", v, -LARGEST) for i, v in enumerate(self.values(key))]

    def text(self, key: str) -> str | None:
        value = self._data.get(key)
        if value is None or isinstance(value, str):
            return value or None
        if isinstance(value, bool | int | float):
            return str(value)[:100]
        self._tell(self._path(key), value, "a text")
        return None

    def flag(self, key: str) -> bool | None:
        value = self._data.get(key)
        if value is None or isinstance(value, bool):
            return value
        self._tell(self._path(key), value, "true or false")
        return None

    def _path(self, key: str) -> str:
        return f"{self._where}.{key}" if self._where else key

    def _numeric(self, path: str, value: Any, at_least: float) -> float | None:
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._tell(path, value, "a number")
        elif isinstance(value, float) and not math.isfinite(value):
            self._tell(path, value, "finite")
        elif abs(value) > LARGEST or value < at_least:
            self._tell(path, value, f"between {at_least:g} and {LARGEST:g}")
        else:
            return value
        return None


def figure(text: str | None) -> float | None:
    """A finite number in a text, units and thousands separators aside; None where there is none."""
    try:
        value = float(text) if text else None
    except ValueError:
        try:
            value = float(text.replace(",", "").split()[0])
        except (ValueError, IndexError):
            return None
    return value if value is not None and -LARGEST < value < LARGEST else None


def not_finite(text: str) -> bool:
    """Whether a text says infinite, or not a number."""
    try:
        return not math.isfinite(float(text))
    except ValueError:
        return False
