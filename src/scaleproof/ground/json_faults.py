"""JSON that may be damaged: what a file says, if it says it, and why a text is none.

A parser says only which character it did not expect.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Part = TypeVar("Part")
BEGIN = re.compile(r"""^(?:\{\s*(?:["}]|$)|\[\s*(?:[\[{"\]]|$))""", re.MULTILINE)  # of an object or a list

# What stands where a parser stops -> why, in the words of somebody who wrote that by hand or with another program.
REASONS = {
    "/": "JSON has no comments",
    "#": "JSON has no comments",
    "'": 'texts of JSON stand in double quotes, "so"',
    "\ufeff": "a byte order mark stands before it",
    "<": "a merge conflict of git?",
    "True": "write true",
    "False": "write false",
    "None": "write null",
}


def read_part(path: Path, part: Callable[..., Part]) -> Part | None:
    """Return what `part` takes from a JSON file's content; None where the file is missing or damaged.

    No error is raised here: the command that needs the file says what is wrong with it.
    """
    try:
        return part(json.loads(path.read_bytes())) if path.is_file() else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def reason_of_json_fault(content: str | bytes, problem: str) -> str:
    """Return ": REASON", by the text at the place that `problem` names ("line 3 column 5"); "" if none is known."""
    match = re.search(r"line (\d+) column (\d+)", problem)
    if match is None:
        return ""
    text = content if isinstance(content, str) else content.decode("utf-8", "replace")
    lines = text.splitlines(keepends=True)
    position = sum(map(len, lines[: int(match[1]) - 1])) + int(match[2]) - 1
    before, rest = text[:position].rstrip(), text[position:]
    begin = BEGIN.search(text)
    if not before and begin and begin.start() and not rest.startswith(("#", "/", "\ufeff", "<<<<<<<")):
        line = text.count("\n", 0, begin.start()) + 1
        return f': the JSON begins in line {line}, behind "{lines[0].strip()[:30]}"'
    if not before and begin is None and rest.startswith("#"):
        return ": it is text, not JSON"
    reason = next((reason for start, reason in REASONS.items() if rest.startswith(start)), "")
    if rest.startswith(("]", "}")) and before.endswith(","):
        reason = "the comma before it has nothing behind it"
    if problem.startswith("Extra data") and rest.startswith(","):
        reason = "JSON lines have no commas between them; a list of objects stands in [ and ]"
    if problem.startswith("Extra data") and rest.startswith(("{", "[")):
        reason = "a second value begins there; JSON lines are objects, each in a line of a .jsonl file"
    return f": {reason}" if reason else ""
