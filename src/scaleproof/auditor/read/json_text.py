"""JSON that may be something else, or cut off."""

import json
import re
from typing import Any

KEY_OF_JSON = re.compile(r'\s*(?:\[\s*)?\{\s*"[^"\n]{0,200}"\s*:')
CUT_TOKEN = re.compile(r'\s*(?:"[^"\n]*|-?[\d.]*|[a-zA-Z]{0,8})')  # at the end of the text
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[\w.+-]+|[\[\]{},:]')
LEAST_TOKENS = 8  # a text that begins with so many tokens of JSON is JSON, though perhaps damaged


def begins_like_json(text: str) -> bool:
    """Whether a text that begins with a bracket goes on as JSON does, unlike "[rank0] step 1" and "{'loss': 2.1}"."""
    beginning = text.lstrip()
    if beginning[:1] not in ("{", "["):
        return False
    try:
        _, end = json.JSONDecoder().raw_decode(beginning)
    except json.JSONDecodeError as error:
        is_cut_off = CUT_TOKEN.fullmatch(beginning, error.pos) is not None
        has_tokens = len(TOKEN.findall(beginning, 0, error.pos)) >= LEAST_TOKENS
        return is_cut_off or has_tokens or KEY_OF_JSON.match(beginning) is not None
    except RecursionError:
        return True
    rest = beginning[end:].lstrip(" \t")  # other lines of JSON may follow, and no other text
    return not rest.strip() or (rest[0] in "\r\n" and rest.lstrip()[:1] in ("{", "["))


def parse_json(text: str) -> tuple[Any, str]:
    """Return the value of a JSON text, and what is wrong with it: "", or where it is cut off.

    A text that is cut off is read up to its last complete entry. Raises ValueError where it is no JSON.
    """
    try:
        return json.loads(text), ""
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:
        closed_text = _close_json(text)
        if closed_text is None:
            raise
        try:
            data = json.loads(closed_text)
        except (ValueError, RecursionError):
            raise error from None
        last_line = text.count("\n") + 1
        return data, f"it is cut off in line {last_line}"


STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"?|[{}\[\]]', re.S)


def _close_json(text: str) -> str | None:
    """Return a JSON text that ends early, closed behind its last complete entry: '[{}, {"a' -> '[{}]'. Else None."""
    closing_brackets: list[str] = []  # of all open brackets, the innermost last
    end_of_entry = 0  # of the last complete entry
    brackets_behind_entry: list[str] = []
    for m in STRING_OR_BRACKET.finditer(text):
        if m[0] in ("{", "["):
            closing_brackets.append("}" if m[0] == "{" else "]")
        elif m[0] in ("}", "]"):
            if not closing_brackets or closing_brackets.pop() != m[0]:
                return None  # the brackets do not match: no JSON
            if not closing_brackets:
                return None  # a whole value with something behind it
            end_of_entry, brackets_behind_entry = m.end(), closing_brackets.copy()

    if not closing_brackets or not end_of_entry:
        return None
    return text[:end_of_entry] + "".join(reversed(brackets_behind_entry))
