"""Taking values out of data that nobody has checked."""

import math
from typing import Any

LARGEST = 1e18  # more is a mistake, whatever it counts


class Fields:
    """Reading access to a nested mapping: None for what is missing, and, with a problem noted, for what is unusable."""

    def __init__(self, data: Any, problems: list[str], where: str = "") -> None:
        self._data = data if isinstance(data, dict) else {}
        self._problems, self._where = problems, where
        if data is not None and not isinstance(data, dict):
            self._report(where or "the file", data, "a mapping")

    def _report(self, key: str, value: Any, expected: str) -> None:
        if len(self._problems) < 20:
            self._problems.append(f"{key} is {str(value)[:40]!r}, not {expected}")

    def part(self, key: str) -> "Fields":
        return Fields(self._data.get(key), self._problems, self._path(key))

    def parts(self, key: str) -> list["Fields"]:
        return [Fields(v, self._problems, f"{self._path(key)}[{i}]") for i, v in enumerate(self.values(key))]

    def values(self, key: str) -> list[Any]:
        """Return the entries of a list; none where it is missing or no list."""
        entries = self._data.get(key)
        if entries is None:
            return []
        if not isinstance(entries, list):
            self._report(self._path(key), entries, "a list")
            return []
        return entries

    def has(self, key: str) -> bool:
        """Whether the key is there, with any value."""
        return key in self._data

    def finite(self, key: str) -> float | None:
        """Return a number, or None where it is NaN or infinite, which is no problem of the file but a result."""
        value = self._data.get(key)
        if isinstance(value, float) and not math.isfinite(value):
            return None
        if isinstance(value, str) and not_finite(value):
            return None
        return self.number(key)

    def number(self, key: str, at_least: float = -LARGEST) -> float | None:
        """A finite number."""
        return self._numeric(self._path(key), self._data.get(key), at_least)

    def positive(self, key: str) -> float | None:
        """Return a finite number above zero; 0 is reported, since nothing here takes no time and does no work."""
        value = self.number(key)
        if value is not None and value <= 0:
            self._report(self._path(key), value, "above zero")
            return None
        return value

    def count(self, key: str, at_least: int = 1) -> int | None:
        """Return a whole number (3.0 is one) of `at_least` or more."""
        value = self.number(key, at_least)
        if value is not None and value != int(value):
            self._report(self._path(key), value, "a whole number")
            return None
        return None if value is None else int(value)

    def numbers(self, key: str) -> list[float | None]:
        return [self._numeric(f"{self._path(key)}[{i}]", v, -LARGEST) for i, v in enumerate(self.values(key))]

    def text(self, key: str) -> str | None:
        """Return a text that is not empty; a number or flag counts as the text that it is printed as."""
        value = self._data.get(key)
        if value is None or isinstance(value, str):
            return value or None
        if isinstance(value, bool | int | float):
            return str(value)[:100]
        self._report(self._path(key), value, "a text")
        return None

    def flag(self, key: str) -> bool | None:
        """Return true or false."""
        value = self._data.get(key)
        if value is None or isinstance(value, bool):
            return value
        self._report(self._path(key), value, "true or false")
        return None

    def _path(self, key: str) -> str:
        return f"{self._where}.{key}" if self._where else key

    def _numeric(self, path: str, value: Any, at_least: float) -> float | None:
        """Return a finite number from `at_least` to LARGEST; None for anything else, with a problem noted at `path`."""
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._report(path, value, "a number")
        elif isinstance(value, float) and not math.isfinite(value):
            self._report(path, value, "finite")
        elif abs(value) > LARGEST or value < at_least:
            self._report(path, value, f"between {at_least:g} and {LARGEST:g}")
        else:
            return value
        return None


def figure(text: str | None) -> float | None:
    """Return the finite number in a text, units and thousands separators aside; None where it has none."""
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        try:
            value = float(text.replace(",", "").split()[0])
        except (ValueError, IndexError):
            return None
    return value if -LARGEST < value < LARGEST else None


def not_finite(text: str) -> bool:
    """Whether a text is "nan" or "inf"."""
    try:
        return not math.isfinite(float(text))
    except ValueError:
        return False
