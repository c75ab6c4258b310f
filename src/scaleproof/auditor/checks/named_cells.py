"""Which rows and columns of a table the words of a sentence name: "FSDP on 4 GPUs", the step time."""

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from scaleproof.auditor.checks.columns import ITEM_NAMES, FigureColumn, FigureTable
from scaleproof.auditor.read.printed_figures import figures_of, unit_of
from scaleproof.auditor.read.sentences import ANY_DEVICE
from scaleproof.auditor.read.words import in_english

MOST_WORDS = 6  # of a cell that names its row
SETTINGS = ("devices", "nodes", "processes", "batch", "micro_batch", "global_batch", "seq_len", "accumulation")
# What ends a clause: a piece of a sentence that is about one row.
END_OF_CLAUSE = re.compile(
    r"(?i)→|->|=>|[;,:]\s|[；，。（]| [-–—] |"
    r"\b(?:vs\.?|versus|than|to|from|and|while|whereas|but|over|against|compared)\b"
)
WITHOUT_CONTENT = re.compile(
    r"avg|average|mean|median|total|overall|the|of|per|and|in|with|for|at|on|to|an?|is|gpus?|rank|device|max|min|time|\d+"
)
_COUNTED = re.compile(rf"(?<![\w.])(\d+)[ -]?(?:[x×] ?)?{ANY_DEVICE}\b", re.I)
_JOINED = re.compile(r"(?<=[a-z])(?:[-_]|=(?!\d+[.,]\d))(?=\d)|(?<=\d)[-_](?=[a-z\d])")
_WORD = re.compile(r"\d+(?:\.\d+)*(?![a-z\d.])|[^\W\d_][^\W_]*|\d[^\W_]*")


@lru_cache(maxsize=2_000)
def units_of(column: FigureColumn) -> tuple[set[str | None], set[str]]:
    """Return the dimensions of the figures of a column and the items that they count: ({"rate"}, {"tokens"}).

    A cell without a unit has that of the heading.
    """
    cell_units = [figures[0].unit for text in column.texts if (figures := figures_of(text))]
    last_word = column.heading.rpartition(" ")[2]
    heading_unit = unit_of(last_word) if "/" in last_word else None  # "c=64 tok/s"; not "64 MiB"
    heading_dimension = column.meaning.unit or (heading_unit.dimension if heading_unit else None)
    dimensions = {unit.dimension if unit else heading_dimension for unit in cell_units}
    items = {column.meaning.item, *(unit.item for unit in (heading_unit, *cell_units) if unit)}
    return dimensions, {item for item in items if item}


def named_columns(clauses: Sequence[str], columns: list[FigureColumn]) -> list[FigureColumn]:
    """Return the columns that share most words with the first clause that names any, "step time"; else all."""
    for words in map(words_of, clauses):
        counts = [sum(occurs(word, words) for word in _telling_words(column.heading)) for column in columns]
        if any(counts):
            return [column for column, count in zip(columns, counts, strict=True) if count == max(counts)]
    return columns


def _telling_words(heading: str) -> set[str]:
    """Return the words of a heading that tell it from others, no units: "Comm overhead (%)" -> {"comm", "overhead"}."""
    words = words_of(heading) - ITEM_NAMES
    return {word for word in words if not WITHOUT_CONTENT.fullmatch(word) and unit_of(word) is None}


def occurs(word: str, words: set[str]) -> bool:
    """Whether a word is among others, or one is short for the other, of three letters or more: "mem", "memory"."""
    longer = (other for other in words if min(len(other), len(word)) > 2 and other.isalpha())
    return word in words or any(other.startswith(word) or word.startswith(other) for other in longer)


def named_rows(clauses: Sequence[str], table: FigureTable, of_settings: Sequence[str] = ()) -> set[int]:
    """Return the rows that have all the words and settings of a sentence: those of 4 GPUs and "DDP".

    For each column the first clause that names any of its cells counts. `of_settings`: further clauses, that may say
    the numbers of devices and other settings.
    """
    rows = set(range(len(table.places)))
    for texts in table.words.values():
        if len(set(texts)) <= 1 or any(len(words_of(text)) > MOST_WORDS for text in texts):
            continue  # the column names no rows
        if named_texts := next(filter(None, (_named_texts(texts, clause) for clause in clauses)), None):
            rows = {row for row in rows if texts[row] in named_texts}
    for column in (column for column in table.columns if column.kind in SETTINGS):
        if numbers := next(
            filter(None, (_numbers_of_setting(column, clause) for clause in (*clauses, *of_settings))), None
        ):
            rows = {row for row in rows if column.figures.middle[row] in numbers}
    return rows


def _named_texts(texts: Sequence[str], clause: str) -> set[str]:
    """Return the cells of a column that a clause names: by a word of this cell alone, or by all its telling words.

    Words that all cells have tell nothing. A clause with "AWQ Marlin" does not name the cell "AWQ" besides.
    """
    words_by_text = {text: words_of(text) for text in set(texts) if text}
    common_words = set.intersection(*words_by_text.values())
    counts = Counter(word for words in words_by_text.values() for word in words)
    shared_words = {}  # text of a named cell -> its telling words in the clause
    for text, words in words_by_text.items():
        shared = (words - common_words) & words_of(clause)
        has_unique_word = any(counts[word] == 1 and len(word) > 2 and not word.isdigit() for word in shared)
        if shared and (shared == words - common_words or has_unique_word):
            shared_words[text] = shared
    return {text for text, words in shared_words.items() if not any(words < more for more in shared_words.values())}


def _numbers_of_setting(column: FigureColumn, clause: str) -> set[float]:
    """Return the numbers that a clause states of a setting: 4 of "4 GPUs", 16 of "batch=16"."""
    own_words = re.findall("[a-z]{3,}", column.heading.lower()) or ["#"]  # "#": no number has it as a noun
    noun = ANY_DEVICE if column.kind in ("devices", "processes") else "|".join(own_words)
    behind = rf"(?<![\w.,])(\d+)[ -]?(?:[x×] ?)?(?:\w+ )?(?:{noun})s?\b"
    before = rf"\b(?:{noun})s?(?: size| of|[ =:])*(\d+)(?![\w.]*\d)"
    return {float(m[1] or m[2]) for m in re.finditer(rf"(?i){behind}|{before}", clause)}


def words_of(text: str) -> set[str]:
    """Return the words of a text in lower case, names with digits as one: "ZeRO-2, c=4" -> {"zero2", "c4"}."""
    text = _COUNTED.sub(r"\1gpu", in_english(text)).lower()
    return set(_WORD.findall(_JOINED.sub("", text)))
