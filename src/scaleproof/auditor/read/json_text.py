"""JSON that may be something else, or cut off."""

import json
import re
from typing import Any

JSON_TOKEN = re.compile(
    r"\s*(?:(?P<string>\"(?:[^\"\\\n]|\\.)*\")|(?P<scalar>-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.-])|(?:true|false|null|NaN|"
    r"-?Infinity)(?!\w))|(?P<mark>[\[\]{},:]))"
)
KEY_OF_JSON = re.compile(r'\s*(?:\[\s*)?\{\s*"[^"\n]{0,200}"\s*:')
CUT_TOKEN = re.compile(r'\s*(?:"[^"\n]*|-?[\d.]*|[a-zA-Z]{0,8})')  # at the end of the text
LEAST_TOKENS = 8  # a text that begins with so many tokens of JSON is JSON, though perhaps damaged
MOST_TOKENS = 2_000  # are looked at
# Kind of a token -> kinds that may stand behind it; "" is the beginning, "value" a string, a number or a word.
VALUES = ("value", "[", "{")
FOLLOWING = {"": ("[", "{"), "[": (*VALUES, "]"), "{": ("value", "}"), ",": VALUES, ":": VALUES}
BEHIND_VALUE = (",", ":", "]", "}")  # and behind closing brackets


def begins_like_json(text: str) -> bool:
    """Whether a text that begins with a bracket goes on as JSON does, unlike "[rank0] step 1" and "{'loss': 2.1}"."""
    end = token_count = open_brackets = 0
    kind_before = ""
    while token_count < MOST_TOKENS and (m := JSON_TOKEN.match(text, end)):
        kind = m["mark"] or "value"
        is_key = kind_before == "{" and kind == "value"
        if kind not in FOLLOWING.get(kind_before, BEHIND_VALUE) or (is_key and not m["string"]):
            break
        open_brackets += (kind in "[{") - (kind in "]}")
        token_count += 1
        end, kind_before = m.end(), kind
        if not open_brackets:  # a whole value: other lines of JSON may follow, and no other text
            rest = text[end:].lstrip(" \t")
            return not rest.strip() or (rest[0] in "\r\n" and rest.lstrip()[:1] in ("{", "["))

    is_cut_off = token_count > 0 and CUT_TOKEN.fullmatch(text, end) is not None
    return is_cut_off or token_count >= LEAST_TOKENS or KEY_OF_JSON.match(text) is not None


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
        return data, f"it is cut off in line {last_line}; what stands before was read"


STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"?|[{}\[\]]', re.S)


def _close_json(text: str) -> str | None:
    """Return a JSON text that ends early, closed behind its last complete entry. None where it does not end early."""
    closing_brackets: list[str] = []  # of all open brackets, the innermost last
    end_of_entry = 0  # of the last complete entry
    brackets_behind_entry: list[str] = []
    for m in STRING_OR_BRACKET.finditer(text):
        if m[0] in ("{", "["):
            closing_brackets.append("}" if m[0] == "{" else "]")
        elif m[0] in ("}", "]"):
            if not closing_brackets or closing_brackets.pop() != m[0]:
                return None  # no brackets of JSON
            if not closing_brackets:
                return None  # a whole value with something behind it
            end_of_entry, brackets_behind_entry = m.end(), closing_brackets.copy()
    if not closing_brackets or not end_of_entry:
        return None
    return text[:end_of_entry] + "".join(reversed(brackets_behind_entry))
