"""What containers, systems and launchers put around the lines of a program: objects of JSON, times before them."""

import json
import re

TEXT = r'("(?:[^"\\\n]|\\.)*+")'
# {"log":"step 1\n","stream":"stdout","time":"..."}; {"MESSAGE": "step 1", "_HOSTNAME": "..."}
WRAPPED = re.compile(rf'(?m)^\{{(?:"log": ?{TEXT}, ?"stream": ?"std|.*"(?:MESSAGE|textPayload)" ?: ?{TEXT}).*\}}\r?$')
# "INFO|2020-05-19T07:15:24|/opt/run.py|27| ", "2026-01-02T03:04:05.67Z " and, of containers, "... stdout F ".
PREFIX = re.compile(
    r"(?:(?:[A-Z]{4,8}\|)?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]*\|[^|]*\|\d+\| ?|"
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(?:Z|[+-]\d\d:\d\d) (?:std(?:out|err) [FP] )?)"
)


def without_prefix(line: str) -> str:
    """Return a line without the level, the time and the place in a program that a launcher put before it."""
    m = PREFIX.match(line)
    return line[m.end() :] if m else line


def unwrapped(text: str) -> str:
    """Return a text whose first line is such an object with all such lines as the program wrote them."""
    return WRAPPED.sub(_line_in, text) if WRAPPED.match(text) else text


def _line_in(wrapped: re.Match[str]) -> str:
    """Return the line of the program; where its text is damaged the whole object."""
    try:
        line: str = json.loads(wrapped[1] or wrapped[2], strict=False)
    except ValueError:
        return wrapped[0]
    return line.rstrip("\r\n").replace("\n", " ")
