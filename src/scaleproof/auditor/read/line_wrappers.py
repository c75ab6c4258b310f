"""Lines as a program wrote them: without colours, and out of the objects of JSON that hold them in the logs of others.

Docker, journald and Google Cloud write such objects.
"""

import json
import re

TEXT = r'("(?:[^"\\\n]|\\.)*+")'
# {"log":"step 1\n","stream":"stdout","time":"..."}; {"MESSAGE": "step 1", "_HOSTNAME": "..."}
WRAPPED = re.compile(rf'(?m)^\{{(?:"log": ?{TEXT}, ?"stream": ?"std|.*"(?:MESSAGE|textPayload)" ?: ?{TEXT}).*\}}\r?$')

# Colours, titles and links of a terminal, bytes of value 0, and characters of no width.
CONTROL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])|[\0\ufeff\u200b-\u200d\u2060]"
)
LOST_DIGITS = re.compile(r"(?<=\d)\0+")  # bytes of value 0 in place of what may have been further digits


def cleaned(text: str) -> str:
    """Return a text without wrappers, colours and characters of no width; a hyphen that does not break is "-"."""
    text = _unwrapped(text) if text.startswith("{") else text
    if is_plain(text):
        return text
    return CONTROL.sub("", LOST_DIGITS.sub("\ufffd", text)).replace("\u2011", "-")


def is_plain(text: str) -> bool:
    return text.isascii() and "\x1b" not in text and "\0" not in text


def _unwrapped(text: str) -> str:
    """Return a text whose first line is such an object with all such lines as the program wrote them."""
    return WRAPPED.sub(_line_in, text) if WRAPPED.match(text) else text


def _line_in(wrapped: re.Match[str]) -> str:
    """Return the line of the program; where its text is damaged the whole object."""
    try:
        line: str = json.loads(wrapped[1] or wrapped[2], strict=False)
    except ValueError:
        return wrapped[0]
    return line.rstrip("\r\n").replace("\n", " ")
