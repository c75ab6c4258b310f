"""JSON that may be damaged: what a file says, if it says it, and why a text is none.

A parser says only which character it did not expect.
"""

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from scaleproof.ground.file_kinds import no_text_fault
from scaleproof.ground.pointers import pointer_fault

Part = TypeVar("Part")
BEGIN = re.compile(r"""^(?:\{\s*(?:["}]|$)|\[\s*(?:[\[{"\]]|$))""", re.MULTILINE)  # of an object or a list

# What stands where a parser stops -> why, in the words of somebody who wrote that by hand or with another program.
REASONS = {
    "/": "JSON has no comments",
    "#": "JSON has no comments",
    "'": 'texts of JSON stand in double quotes, "so"',
    "\ufeff": "a byte order mark stands before it",
    "\0": "zero bytes, as a crash leaves them",
    "<<<<<<<": "a merge conflict of git?",
    "<": "a page (HTML) or XML?",
    "True": "write true",
    "False": "write false",
    "None": "write null",
}
# What Python's or pydantic's parser says -> the same, followed by what stands there.
WORDS = {
    "[`']:[`']": "a colon is missing behind a key, before",
    "[`'],[`']": "a comma or a bracket is missing before",
    "key must be|property name": "a key in double quotes is missing before",
    "Extra data|trailing char": "more stands behind its end:",
    "Unterminated": "a text has no quote at its end:",
    "ontrol char": "a text holds a tab or an end of line before",
    "escape": r"a backslash in a text is written \\, and this is no escape:",
    ".": "there is no value of JSON:",
}


NO_COMMA = "no comma is between the names in its first line"
UNREADABLE = "not readable"  # how `verify` says that a file is damaged
NEWER = "it was written by a newer version of scaleproof"


def newer_version(place: str, value: str, allowed: str) -> str:
    """Return that a newer program wrote a file, where its schema's version says so; else "".

    `place`, `value`: the key, and what stands there. `allowed`: the versions that this program reads.
    """
    if not place.endswith("schema_version"):
        return ""
    numbers = re.findall(r"\d+\.\d+", f"{value} {allowed}")
    there, *known = [tuple(map(int, number.split("."))) for number in numbers] or [()]
    if not known or there <= max(known):
        return ""
    return f"is {value}: {NEWER}; this one reads {' to '.join(dict.fromkeys((numbers[1], numbers[-1])))}"


def fault_of_heading(text: str) -> str:
    """Return why a text does not begin with names of columns: it is another file, has a merge conflict or no comma."""
    marks = (reason for start, reason in REASONS.items() if start[0] in "<\0" and text.lstrip().startswith(start))
    return pointer_fault(text) or no_text_fault(text[:40].encode()) or next(marks, NO_COMMA)


def keys_given_twice(text: str | bytes) -> list[str]:
    """Return the keys that an object of a JSON text has twice; parsers take the last."""
    objects: list[list[str]] = []
    json.loads(text, object_pairs_hook=lambda pairs: objects.append([key for key, _ in pairs]))
    return [key for keys in objects if len(set(keys)) < len(keys) for key, count in Counter(keys).items() if count > 1]


def read_part(path: Path, part: Callable[..., Part]) -> Part | None:
    """Return what `part` takes from a JSON file's content; None where the file is missing or damaged.

    No error is raised here: the command that needs the file says what is wrong with it.
    """
    try:
        return part(json.loads(path.read_bytes())) if path.is_file() else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def fault_of_json(content: str | bytes, problem: str) -> str:
    """Return where and why a text is no JSON: "line 3, column 5: a comma or a bracket is missing before "4"".

    `problem`: what a parser says, with the place; it is returned as it is where it names none.
    """
    match = re.search(r"line (\d+) column (\d+)", problem)
    if match is None:
        return problem
    text = content if isinstance(content, str) else content.decode("utf-8", "replace")
    line, column = map(int, match.groups())
    position = sum(len(one) + 1 for one in text.split("\n")[: line - 1]) + max(column, 1) - 1
    if not text[position:].strip():  # one place for the end, whatever blanks follow it
        position = len(text.rstrip())
        line, column = text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)
    reason = _reason(text, position, problem)
    return f"line {line}, column {column}: {reason}"


def _reason(text: str, position: int, problem: str) -> str:
    """Return why a parser stopped at a `position`, by what stands there, else by the `problem` that it names."""
    before, rest = text[:position].rstrip(), text[position:]
    begin = BEGIN.search(text)
    if not before and begin and begin.start() and not rest.startswith(("#", "/", "\ufeff", "<<<<<<<")):
        line = text.count("\n", 0, begin.start()) + 1
        return f'the JSON begins in line {line}, behind "{text.partition(chr(10))[0].strip()[:30]}"'
    if not before and begin is None and rest.startswith("#"):
        return "it is text, not JSON"
    if rest.startswith(("]", "}")) and before.endswith(","):
        return "the comma before it has nothing behind it"
    if rest[:1].isdigit() and re.search(r"\d,$", text[:position]):
        return "a decimal comma? Numbers of JSON have a point"
    is_behind_end = problem.startswith(("Extra data", "trailing characters"))
    if is_behind_end and rest.startswith(","):
        return "JSON lines have no commas between them; a list of objects stands in [ and ]"
    if is_behind_end and rest.startswith(("{", "[")):
        return "a second value begins there; JSON lines are objects, each in a line of a .jsonl file"
    for start, reason in REASONS.items():
        if rest.startswith(start):
            return reason
    if not rest.strip() or "EOF" in problem:
        return "it ends there"
    words = next((words for of_parser, words in WORDS.items() if re.search(of_parser, problem)), problem)
    beginning = rest[:20].splitlines()[0]
    return f"{words} {beginning}" if rest.startswith('"') else f'{words} "{beginning}"'
