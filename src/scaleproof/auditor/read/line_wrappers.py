"""Lines of a program that a container's or a system's log holds in objects of JSON: Docker, journald, Google Cloud."""

import json
import re

TEXT = r'("(?:[^"\\\n]|\\.)*+")'
# {"log":"step 1\n","stream":"stdout","time":"..."}; {"MESSAGE": "step 1", "_HOSTNAME": "..."}
WRAPPED = re.compile(rf'(?m)^\{{(?:"log": ?{TEXT}, ?"stream": ?"std|.*"(?:MESSAGE|textPayload)" ?: ?{TEXT}).*\}}\r?$')


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
