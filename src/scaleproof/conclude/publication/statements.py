"""What a file of results says, statement by statement, and how two versions of it differ.

A statement is a block of a page, a line of a table, a claim or a sentence. Its contents are its figures, its names, and
the words that decide something: other words may differ and mean the same.
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
MARKS = {"~", "\\textasciitilde", "†"}  # beside figures; a note explains them
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
# From so many statements on, no comparison begins at a frequent one: its time would grow with their square.
MANY = 2_000
MANY_DIFFER = 100  # statements of a page, of which a quarter differs by no edit; a table has fewer
# What to do next is no result: other code may advise otherwise, as long as it claims nothing.
ADVICE = re.compile(
    r"next: (?!.*\b(?:faster|slower|fastest|slowest|pays|winner|recommended)\b)", re.IGNORECASE | re.DOTALL
)
LOOK = re.compile(r"<(?:style|script|meta http-equiv)\b")  # how a page looks and is sorted: other code has others
FIGURE = re.compile(r"-?\d")
AROUND = 40  # letters of a text that are shown before the first letter that differs


@dataclass(frozen=True)
class Statement:
    """A block of a page, a line, a claim or a sentence: the `text` that a reader sees, and the `whole` with markup."""

    text: str
    whole: str

    def contents(self, names: Collection[str]) -> str:
        """Return all figures and, each once, the deciding words. `names`: words that are names, in lower case."""
        without_markup = re.sub(rf'\b(?:{"|".join(NOT_STATED)})="[^"]*"|</?\w+', " ", self.whole)
        telling: list[str] = []
        # "1.24x (1.04-1.48)" has been "1.24 [1.04, 1.48]".
        without_spans = re.sub(r"(?<=\d)(?:-(?=\d)|x(?!\w))", " ", without_markup)
        for token in TOKEN.findall(without_spans.lower()):
            is_figure = FIGURE.match(token) is not None
            is_telling = re.search(r"\d", token) or token in DECIDING or token in names  # \d: also "n1x2"
            if is_telling and (is_figure or token not in telling):
                telling.append(token)
        return " ".join(telling)


def entries_of(text: str) -> list[Statement]:
    """Return the statements of claims.json: all fields but the hash of its code, then claims, then sentences."""
    content = json.loads(text)
    sentences, claims = content.pop("sentences"), content.pop("claims")
    content.pop("code_sha256", None)
    statements = [Statement(name, json.dumps(value)) for name, value in content.items()]
    statements += [Statement(str(claim["id"]), json.dumps(claim)) for claim in claims]
    statements += [Statement(f"{entry['topic']}: {entry['text']}", json.dumps(entry)) for entry in sentences]
    return statements


def lines_of(text: str) -> list[Statement]:
    """Return the lines of a table, and the sentences around it."""
    parts = [part for line in text.splitlines() for part in re.split(r"(?<=\.) ", line)]
    return [Statement(part, part) for part in parts if part.strip()]


def blocks_of(element: Element) -> list[Statement]:
    """Return the statements in an element of a page: texts, charts, innermost blocks, and the tags around them."""
    blocks: list[Statement] = []
    for child in element.children:
        if isinstance(child, str):
            if text := " ".join(child.split()):
                blocks.append(Statement(text, text))
        elif child.tag == "svg":
            blocks.append(Statement(f"chart {child.attributes.get('aria-label', '')}", child.markup))
        elif child.tag in BLOCKS and not any(any(child.all(tag)) for tag in BLOCKS):  # with no block inside
            blocks.append(Statement(child.text, child.markup))
        else:
            blocks += [Statement("", child.opening), *blocks_of(child)]  # its tag, then what it holds
    return blocks


Pair = tuple[Statement | None, Statement | None]  # the stated one, and the one that should stand there


def differing(stated: Sequence[Statement], again: Sequence[Statement]) -> Iterator[Pair]:
    """Yield the statements that differ, are too many, or are left out, in their order."""
    # The common beginning and end are cut off first, as SequenceMatcher is slow.
    n_before = _count_common(stated, again)
    n_after = _count_common(stated[n_before:][::-1], again[n_before:][::-1])
    stated, again = (side[n_before : len(side) - n_after] for side in (stated, again))
    matcher = SequenceMatcher(None, stated, again, autojunk=len(stated) > MANY)
    for kind, start, end, start_again, end_again in matcher.get_opcodes():
        if kind == "equal":
            continue
        for one, other in zip_longest(stated[start:end], again[start_again:end_again]):
            if one != other and not _differ_in_pseudonyms(one, other):
                yield one, other


def _count_common(stated: Sequence[object], again: Sequence[object]) -> int:
    """Return the number of equal statements, or letters, with which both begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(stated, again, strict=False)))


def _differ_in_pseudonyms(stated: Statement | None, again: Statement | None) -> bool:
    """Return whether `stated` differs from `again` only by "host1" for a host's name, as in anonymous publications."""
    if not stated or not again:
        return False
    pattern = re.sub(r"\bhost\d+\b", lambda _: r"[\w.-]+", re.escape(stated.whole))
    return bool(re.fullmatch(pattern, again.whole))


def differing_contents(pairs: Sequence[Pair], names: Set[str], is_of_before: bool = False) -> list[Pair]:
    """Return the pairs whose figures or deciding words differ, in whatever order they stand. `names`: in lower case.

    `is_of_before`: the file has an earlier form, with fewer explanations. What it leaves out then counts only if it
    names something or has a decimal figure, as explanations have whole numbers alone.
    """
    pairs = [(_unless_advice(stated), _unless_advice(again)) for stated, again in pairs if not _is_look(stated, again)]
    known_names = names if is_of_before else names | MARKS  # marks point to explanations
    stated_contents = [stated.contents(known_names) if stated else "" for stated, _ in pairs]
    expected_contents = [again.contents(known_names) if again else "" for _, again in pairs]
    too_many = set(Counter(stated_contents) - Counter(expected_contents)) - {""}
    left_out = set(Counter(expected_contents) - Counter(stated_contents)) - {""}
    if is_of_before:
        telling_names = {name for name in names - DECIDING if len(name) > 3}  # a shorter name may be any word
        left_out = {
            text for text in left_out if re.search(r"\d\.\d", text) or not telling_names.isdisjoint(text.split())
        }
    contents = zip(pairs, stated_contents, expected_contents, strict=True)
    return [pair for pair, stated, expected in contents if stated in too_many or expected in left_out]


def _unless_advice(side: Statement | None) -> Statement | None:
    return None if side and ADVICE.match(side.text) else side


def _is_look(stated: Statement | None, again: Statement | None) -> bool:
    return all(side is not None and LOOK.match(side.whole) for side in (stated, again))


def is_telling(pair: Pair) -> bool:
    """Return whether one of the two is more than a tag without attributes."""
    return any(side and (side.text or "=" in side.whole) for side in pair)


def fault_of_whole(stated: Sequence[Statement], again: Sequence[Statement], *, count: int) -> str:
    """Return that a text is cut off, another one or two; "" where it differs from `again` in some statements alone.

    `count`: of the statements that differ: many on a page of another measurement, which has the same headings.
    """
    if any(statement.text.startswith("<<<<<<< ") for statement in stated):
        return "has a merge conflict of git"
    common = _count_common(stated, again)
    if len(stated) - 1 <= common < len(again) - 2:  # the statement before the cut may be cut, too
        return f"is cut off: {common} of its {len(again)} statements are there"
    if len(again) > 2 and set(stated).isdisjoint(again):
        begin = stated[0].text[:40] if stated else ""
        return f'is another text ("{begin}")'
    if len(again) > MANY_DIFFER and count > len(again) / 4:
        return f"differs in {count} of its {len(again)} statements: is it of other results?"
    return ""


def in_words(pair: Pair) -> tuple[str, str]:
    """Return the statement that differs, in quotes, and how it differs, as the end of a sentence."""
    stated, again = pair
    if stated is None:
        assert again
        return f'"{(again.text or again.whole)[:80]}"', "is left out"
    if again is None:
        return f'"{(stated.text or stated.whole)[:80]}"', "is not what its files give"

    texts = (stated.text, again.text) if stated.text != again.text else (stated.whole, again.whole)
    begin = max(0, _count_common(*texts) - AROUND)  # a little before the first letter that differs
    stated_part, expected_part = (text[begin:][:80] for text in texts)
    problem = f'says "{stated_part}", and its files give "{expected_part}"'
    return f'"{(stated.text or stated.whole)[:60]}"', problem


def names_in(content: object) -> Iterator[str]:
    """Yield the names in a JSON content, in lower case: the words of its short texts, of up to three words."""
    if isinstance(content, str) and content.count(" ") < 3:
        yield from TOKEN.findall(content.lower())
    elif isinstance(content, dict):
        yield from names_in([*content.values()])
    elif isinstance(content, list):
        for part in content:
            yield from names_in(part)
