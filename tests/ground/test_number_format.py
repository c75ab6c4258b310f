"""Numbers for people: thousands separators and percent signs are written in one place."""

import ast
import re
from pathlib import Path

import pytest

from scaleproof.ground.code_dependencies import PACKAGE
from scaleproof.ground.number_format import (
    duration_in_words,
    duration_text,
    in_unit,
    integer,
    megabytes,
    percent,
    seconds,
)

# Formats of the module, and nobody else's: thousands separators of whole numbers, shares in percent.
SPEC = re.compile(r",(\.0f)?|\.\d%")
# The number of a message of pydantic, without separators again.
OTHERS = {PACKAGE / "ground/number_format.py", PACKAGE / "ground/campaign/validation_messages.py"}
FILES = [
    path
    for folder in (
        "cli",
        "conclude/checks",
        "conclude/publication",
        "conclude/report/charts",
        "driver",
        "ground",
        "verify",
    )
    for path in sorted((PACKAGE / folder).rglob("*.py"))
    if path not in OTHERS
]


def specs(path: Path) -> set[str]:
    """The formats of the f-strings of a file, as far as they are constant."""
    values = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FormattedValue))
    parts = [node.format_spec.values for node in values if isinstance(node.format_spec, ast.JoinedStr)]
    return {"".join(part.value for part in spec if isinstance(part, ast.Constant)) for spec in parts}


def test_kinds_of_numbers():
    assert integer(12345) == integer(12345.4) == "12,345"
    assert integer(2**60 + 1) == "1,152,921,504,606,846,977", "no digit of a count is lost"
    assert percent(0.594) == "59%"
    assert percent(0.594, 1) == "59.4%"
    assert seconds(1.23456) == "1.235 s"
    assert seconds(1.23456, 1) == "1.2 s"
    assert megabytes(12_340_000) == "12.3 MB"


def test_a_unit_of_work_takes_the_place_of_tokens():
    definition = "all tokens over all time of the windows, in tokens/s; tokens of a document"
    assert (
        in_unit(definition, "samples") == "all samples over all time of the windows, in samples/s; tokens of a document"
    )
    assert in_unit(definition, "tokens") == definition


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_conventions_stand_in_one_place(path):
    assert not {spec for spec in specs(path) if SPEC.fullmatch(spec)}, "scaleproof.ground.number_format has them"


@pytest.mark.parametrize(
    ("time", "text"), [(119, "119 s"), (120, "2 min"), (7199, "120 min"), (7200, "2 h"), (43_200, "12 h")]
)
def test_a_time_is_said_in_its_unit(time, text):
    assert duration_text(time) == text


def test_a_time_has_no_exponent():
    texts = [duration_text(seconds, 2) for seconds in (5969, 6000, 7140, 1234 * 3600)]
    assert texts == ["99 min", "100 min", "119 min", "1,234 h"]


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (0.2, "1 second"),
        (40, "40 seconds"),
        (500, "8 minutes"),
        (9000, "2.5 hours"),
        (72000, "20 hours"),
        (3e5, "3.5 days"),
    ],
)
def test_a_time_is_said_in_words(time, text):
    assert duration_in_words(time) == text
