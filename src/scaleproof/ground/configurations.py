"""The configurations of two cells: their keys, and in which of these they differ."""

from collections.abc import Iterator, Mapping

from scaleproof.ground.errors import shortened


def dotted_items(content: Mapping[str, object], at: str = "") -> Iterator[tuple[str, object]]:
    """Yield dotted name and value of everything in nested dictionaries; `at`: what the names begin with."""
    for key, value in content.items():
        if isinstance(value, dict):
            yield from dotted_items(value, f"{at}{key}.")
        else:
            yield f"{at}{key}", value


def configuration_differences(
    a: Mapping[str, object], b: Mapping[str, object], at: str = ""
) -> dict[str, list[object]]:
    """Return the keys in which two configurations differ, with both values: "section.key" -> [of a, of b].

    None stands for a key that one side lacks, because records of an older version do not have it. A key that is a
    section on one side alone, as a model by its shape beside one by its name, differs as a whole. `at`: what stands
    before the keys, "section." within a section.
    """
    differences: dict[str, list[object]] = {}
    for name in dict.fromkeys((*a, *b)):
        value_a, value_b = a.get(name), b.get(name)
        if isinstance(value_a, Mapping) and isinstance(value_b, Mapping):
            differences |= configuration_differences(value_a, value_b, f"{at}{name}.")
        elif value_a != value_b:
            differences[f"{at}{name}"] = [value_a, value_b]
    return differences


def changed_keys(before: Mapping[str, object], now: Mapping[str, object]) -> str:
    """Return the keys in which two configurations differ, with both values: "work.steps 30 -> 40"; "" for none."""
    differences = configuration_differences(before, now)
    return shortened(", ".join(f"{key} {old} -> {new}" for key, (old, new) in differences.items()), 300)
