"""JSON that may be something else, or cut off."""

import json
import re
from typing import Any

JSON_TOKEN = re.compile(
    r"\s*(?:(?P<string>\"(?:[^\"\\\n]|\\.)*\")|(?P<scalar>-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.-])|(?:true|false|null|NaN|"
    r"-?Infinity)(?!\w))|(?P<mark>[\[\]{},:]))"
)
KEY_OF_JSON = re.compile(r'\s*(?:\[\s*)?\{\s*"[^"\n]{0,200}"\s*:')
CUT_TOKEN = re.compile(r'\s*(?:"[^"\n]*|-?[\d.]*|[a-zA-Z]{0,8})')  # at the end of what was read
FEW_TOKENS, MOST_TOKENS = 8, 2_000  # of JSON, after which a text that goes on otherwise is damaged JSON
# Kind of a token -> kinds that may stand behind it; "" is the beginning, "value" a string, a number or a word.
VALUES = ("value", "[", "{")
FOLLOWING = {"": ("[", "{"), "[": (*VALUES, "]"), "{": ("value", "}"), ",": VALUES, ":": VALUES}
BEHIND_VALUE = (",", ":", "]", "}")  # and behind closing brackets


def begins_like_json(text: str) -> bool:
    """Whether a text that begins with a bracket goes on as JSON does, unlike "[rank0] step 1" and "{'loss': 2.1}"."""
    end = tokens = depth = 0  # end of the tokens so far, their number, brackets that are open
    before = ""
    while tokens < MOST_TOKENS and (m := JSON_TOKEN.match(text, end)):
        kind = m["mark"] or "value"
        is_key = before == "{" and kind == "value"
        if kind not in FOLLOWING.get(before, BEHIND_VALUE) or (is_key and not m["string"]):
            break
        depth += (kind in "[{") - (kind in "]}")
        tokens += 1
        end, before = m.end(), kind
        if not depth:  # all of a value: other lines of JSON may follow, and no other text
            rest = text[end:].lstrip(" \t")
            return not rest.strip() or (rest[0] in "\r\n" and rest.lstrip()[:1] in ("{", "["))
    is_cut_off = tokens > 0 and CUT_TOKEN.fullmatch(text, end) is not None
    return is_cut_off or tokens >= FEW_TOKENS or KEY_OF_JSON.match(text) is not None


def parse_json(text: str) -> tuple[Any, str]:
    """Return the value of a JSON text, and what is wrong with it: "", or where it is cut off.

    A text that is cut off is read up to its last complete entry. Raises ValueError where it is no JSON.
    """
    try:
        return json.loads(text), ""
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:
        if (completed := _close_json(text)) is None:
            raise
        try:
            data = json.loads(completed)
        except (ValueError, RecursionError):
            raise error from None
        return data, f"it is cut off in line {text.count(chr(10)) + 1}; what stands before was read"


STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"?|[{}\[\]]', re.S)


def _close_json(text: str) -> str | None:
    """Return a JSON text that ends early, closed behind its last complete entry; None where it does not end early."""
    to_close: list[str] = []  # brackets, the innermost last
    last: tuple[int, list[str]] | None = None  # where an entry ended, and what was open then
    for m in STRING_OR_BRACKET.finditer(text):
        if m[0] in ("{", "["):
            to_close.append("}" if m[0] == "{" else "]")
        elif m[0] in ("}", "]"):
            if not to_close or to_close.pop() != m[0] or not to_close:
                return None  # brackets of no JSON, or all of a value with something behind it
            last = (m.end(), to_close.copy())
    if not to_close or last is None:
        return None
    end, still_open = last
    return text[:end] + "".join(reversed(still_open))
