"""What a file of results says, statement by statement, and how two versions of it differ.

A statement is a block of a page, a line of a table, a claim or a sentence. Its contents are its figures, and its
words that are names or are known to decide something: other words may be chosen otherwise and mean the same.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence, Set
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import takewhile, zip_longest

from scaleproof.verify.html_tree import Element

BLOCKS = (
    *("p", "li", "dt", "dd", "th", "td", "h1", "h2", "h3", "summary", "figcaption", "label"),
    *("title", "style", "script", "pre", "svg"),
)
NOT_STATED = ("style", "id", "role", "viewbox", "tabindex", "href")  # attributes that state nothing to readers
MARKS = {"~", "\\textasciitilde", "†"}  # of figures, which a note explains
TOKEN = re.compile(r"(?<![\w.])-?[^\W_]+(?:[./'_-]+[^\W_]+)*|~(?= )|\\textasciitilde|†")
# Words that decide what a sentence says.
DECIDING = {
    *("faster", "slower", "fastest", "slowest", "undecided", "unclaimed", "unrated", "incomparable", "unknown"),
    *("yes", "no", "not", "none", "nothing", "never", "nobody", "all", "every", "only", "without", "failed"),
    *("more", "less", "most", "least", "above", "below", "low", "good", "high", "excellent", "unsigned"),
    *("recommended", "clear", "winner", "pays", "off", "near", "shown", "differ", "cannot", "apart", "within"),
    *("decided", "long", "short", "too", "enough", "higher", "lower", "larger", "smaller", "best", "worst"),
    *("first", "last", "yet", "but", "however", "and", "or"),
}
MANY = 2_000  # statements, from which on a frequent one is no place to begin a comparison: its time is their square
FIGURE = re.compile(r"-?\d")
AROUND = 40  # letters of a text that are shown before the first different one


@dataclass(frozen=True)
class Statement:
    """A block of a page, a line, a claim or a sentence: as a reader has it, and with its markup."""

    text: str
    whole: str

    def contents(self, names: Collection[str]) -> str:
        """Return the figures and, each once, the deciding words. `names`: words that are names, in lower case."""
        stated = re.sub(rf'\b(?:{"|".join(NOT_STATED)})="[^"]*"|</?\w+', " ", self.whole)
        tokens = TOKEN.findall(stated.lower())
        known = [token for token in tokens if re.search(r"\d", token) or token in DECIDING or token in names]
        return " ".join(token for k, token in enumerate(known) if FIGURE.match(token) or token not in known[:k])


def entries_of(text: str) -> list[Statement]:
    """Return the statements of claims.json: whatever it says but for `code_sha256`, then claims, then sentences."""
    content = json.loads(text)
    sentences = [(f"{one['topic']}: {one['text']}", one) for one in content.pop("sentences")]
    claims = [(str(one["id"]), one) for one in content.pop("claims")]
    others = [(name, value) for name, value in content.items() if name != "code_sha256"]
    return [Statement(name, json.dumps(one)) for name, one in [*others, *claims, *sentences]]


def lines_of(text: str) -> list[Statement]:
    """Return the lines of a table, and the sentences around it."""
    return [Statement(part, part) for line in text.splitlines() for part in re.split(r"(?<=\.) ", line) if part.strip()]


def blocks_of(element: Element) -> list[Statement]:
    """Return the statements in an element of a page: texts, charts, innermost blocks, and the tags around them."""
    blocks: list[Statement] = []
    for child in element.children:
        if isinstance(child, str):
            text = " ".join(child.split())
            blocks += [Statement(text, text)] if text else []
        elif child.tag == "svg":
            blocks.append(Statement(f"chart {child.attributes.get('aria-label', '')}", child.markup))
        elif child.tag in BLOCKS and not any(list(child.all(tag)) for tag in BLOCKS):
            blocks.append(Statement(child.text, child.markup))
        else:
            blocks += [Statement("", child.opening), *blocks_of(child)]
    return blocks


Pair = tuple[Statement | None, Statement | None]  # what stands there, and what should


def differing(stated: Sequence[Statement], again: Sequence[Statement]) -> Iterator[Pair]:
    """Yield the statements that are others, too many, or left out, in their order."""
    n_before = _count_common(stated, again)  # it costs much less than SequenceMatcher
    n_after = _count_common(stated[n_before:][::-1], again[n_before:][::-1])
    stated, again = (side[n_before : len(side) - n_after] for side in (stated, again))
    matcher = SequenceMatcher(None, stated, again, autojunk=len(stated) > MANY)
    for kind, start, end, start_again, end_again in matcher.get_opcodes():
        if kind != "equal":
            pairs = zip_longest(stated[start:end], again[start_again:end_again])
            yield from (pair for pair in pairs if pair[0] != pair[1] and not _differ_in_pseudonyms(*pair))


def _count_common(stated: Sequence[object], again: Sequence[object]) -> int:
    """Return with how many equal statements, or letters, both begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(stated, again, strict=False)))


def _differ_in_pseudonyms(stated: Statement | None, again: Statement | None) -> bool:
    """Return whether `stated`, of an anonymous publication, differs in names of hosts alone: it has "host1" for one."""
    if not stated or not again:
        return False
    pattern = re.sub(r"\bhost\d+\b", lambda _: r"[\w.-]+", re.escape(stated.whole))
    return bool(re.fullmatch(pattern, again.whole))


def differing_contents(pairs: Sequence[Pair], names: Set[str], is_of_before: bool = False) -> list[Pair]:
    """Return the pairs whose figures or deciding words differ, wherever they stand. `names`: in lower case.

    `is_of_before`: of an earlier form, which had fewer explanations: what it leaves out counts only if it names
    something or has a decimal figure, as explanations have whole numbers alone.
    """
    names = names if is_of_before else names | MARKS
    contents = [tuple(one.contents(names) if one else "" for one in pair) for pair in pairs]
    stated, again = Counter(here for here, _ in contents), Counter(there for _, there in contents)
    too_many = set(stated - again) - {""}
    left_out = set(again - stated) - {""}
    if is_of_before:
        telling = {name for name in names - DECIDING if len(name) > 3}  # a shorter one may be any word
        left_out = {text for text in left_out if re.search(r"\d\.\d", text) or not telling.isdisjoint(text.split())}
    return [pair for pair, (a, b) in zip(pairs, contents, strict=True) if a in too_many or b in left_out]


def in_words(pair: Pair) -> tuple[str, str]:
    """Return the statement that differs, in quotes, and how it differs, as the end of a sentence."""
    stated, again = pair
    if stated is None or again is None:
        one = stated or again
        assert one
        return f'"{(one.text or one.whole)[:80]}"', "is left out" if stated is None else "is not what its files give"
    texts = (stated.text, again.text) if stated.text != again.text else (stated.whole, again.whole)
    begin = max(0, _count_common(*texts) - AROUND)  # a little before the first letter that differs
    here, there = (text[begin:][:80] for text in texts)
    return f'"{(stated.text or stated.whole)[:60]}"', f'says "{here}", and its files give "{there}"'


def names_in(content: object) -> Iterator[str]:
    """Yield the words, in lower case, of the texts of up to three words in a JSON content: they are its names."""
    if isinstance(content, str) and content.count(" ") < 3:
        yield from TOKEN.findall(content.lower())
    elif isinstance(content, dict | list):
        for part in content.values() if isinstance(content, dict) else content:
            yield from names_in(part)
