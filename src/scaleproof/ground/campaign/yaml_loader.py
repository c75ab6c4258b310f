"""Reading YAML into the typed models: limits first, then ruamel.yaml, then the model, with messages for faults."""

import datetime
import json
import math
import os
import re
import unicodedata
import warnings
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq, CommentedSet, TaggedScalar
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError
from ruamel.yaml.reader import ReaderError
from ruamel.yaml.scalarint import HexInt, ScalarInt

from scaleproof.ground.campaign.campaign_paths import CAMPAIGNS, no_campaign_error, other_folder_hint
from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.campaign.corpora import Corpus, CorpusTable
from scaleproof.ground.campaign.schema_nodes import properties_at
from scaleproof.ground.campaign.validation_messages import Lines, dotted, fault_messages
from scaleproof.ground.errors import (
    Place,
    UserError,
    describe_first_fault,
    path_fault,
    shortened,
)
from scaleproof.ground.file_kinds import no_text_fault
from scaleproof.ground.files import HTML_PAGE
from scaleproof.ground.number_format import integer
from scaleproof.ground.pointers import pointer_fault

CORPORA = Path("config/corpora.yaml")
Model = TypeVar("Model", bound=BaseModel)

# Far above any file that a person writes. Beyond them reading would take seconds, or all of the memory.
MOST_BYTES = 1_000_000
MOST_VALUES = 10_000  # keys, list entries and scalars; an alias counts all behind it
MOST_DEPTH = 30
MOST_DIGITS = 30  # of a whole number
LONG_NUMBER = re.compile(r"\d{4301}")  # more digits than Python reads
NO_WIDTH = r"\u200b-\u200f\u2060\ufeff\u00ad"  # characters that no editor shows
INDENTED = re.compile(rf"[ \t]*([^\S \t\r]|[{NO_WIDTH}])")  # by another kind of blank
INDENTED_KEY = re.compile(rf"[\s{NO_WIDTH}]*[\w.-]+:(?:\s|$)")
LOOK_ALIKE = re.compile(r"\s*[\w.-]+(?::[^\S \t\r]|\uff1a)")  # a blank that does not break, a wide colon
# What stands before each line of a text that was copied together with it -> the words for it.
COPIED_MARKS = {r" *\d+[.)|]?\s+\S": "a line number", r"\+": "the + of a diff", r"> ?(?=\S)": "the > of a quotation"}
# A key with its value on one line, but for an anchor and a block, behind which more may stand in the next lines.
WITH_VALUE = re.compile(r"\s*([\w-]+): +[^\s#&|>].*")
WITHOUT_COLON = re.compile(r"\s*\w(?:[^:#]|:(?=\S))*")  # a line that is neither `key: value` nor an entry of a list
LANGUAGES = {"Python": r"(?:from [\w.]+ )?import \w|def \w+\(|\w+ = \w+\(", "TOML": r"\[[\w.-]+\]\s*$"}  # -> a line
LINE_END = "\n"
# Words of the parser -> what the author probably has to change.
YAML_HINTS = {
    "“": "“ and ” are no quotes in YAML: type \" or '",
    "mapping values are not allowed": 'text with ": " in it needs quotes, and keys of one section begin in one column',
    "found undefined alias": 'text that begins with "*" needs quotes; an anchor stands above its alias',
    "found another document": 'a file has one document; take away what follows "---" or "..."',
    "character '\\t'": "indent with spaces, not tabs, and have one before a comment",
    "that cannot start any token": "text that begins with it needs quotes",
    "expected the node content": "a value or a closing bracket is missing",
    "expected alphabetic or numeric": 'text that begins with "*" or "&" needs quotes',
    "expected chomping": 'text that begins with "|" or ">" needs quotes',
    "expected a comment or a line break": 'text that begins with "|" or ">" needs quotes',
    "mapping keys are not allowed": 'text that begins with "?" needs quotes',
    "expected <block end>": "keys of one section begin in one column, several values stand in brackets, a quote within "
    "'...' is doubled, and text that begins with [, { or a quote needs quotes around all of it",
    "could not find expected ':'": 'each key has a colon and a blank after it ("steps: 10"), a hyphen a blank',
    "not of the mapping above": 'a section is a line such as "work:", and a key has a colon: "steps: 10"',
    "expected ',' or": 'a bracket is not closed, a comma is missing, or a text with {, [ or ": " in it needs quotes',
    "escape": "in \"...\" a backslash begins an escape such as \\n; '...' takes it as it is",
    "for merging": "after <<: stands an alias of a section, such as *base",
}


def load_campaign(path: Path) -> tuple[Campaign, Lines]:
    """Read and check a campaign file. Raises UserError with every fault, one per line."""
    if not path.is_file():
        raise no_campaign_error(path)
    data, lines = _read_mapping(path, Campaign)
    return _validated(path, Campaign, data, lines), lines


def load_corpora(path: Path) -> tuple[dict[str, Corpus], dict[str, str]]:
    """Read a table of corpora. Returns its sound rows by name, and what is wrong with each of the others.

    A faulty row is no fault of the campaigns that do not use it. Raises UserError where no row can be read.
    """
    if not os.path.lexists(path):
        elsewhere = other_folder_hint() or f"; scaleproof works in the folder of the Snakefile; this is {Path.cwd()}"
        is_here = CAMPAIGNS.is_dir() or path.parent.is_file()
        raise UserError(f"{path}{path_fault(path) if is_here else f': no such file{elsewhere}'}")
    data, lines = _read_mapping(path, CorpusTable)
    rows: dict[str, Corpus] = {}
    faults: dict[str, str] = {}
    for name in data:
        try:
            rows |= _validated(path, CorpusTable, {name: data[name]}, lines).root
        except UserError as error:
            faults[str(name)] = str(error)
    return rows, faults


def schema_text(model: type) -> str:
    """Return the JSON schema of a file: of a model, a dataclass or a TypedDict."""
    return json.dumps(TypeAdapter(model).json_schema(), indent=2) + "\n"


@lru_cache
def _cached_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a model. It is for messages alone, as it takes longer than reading a campaign."""
    return model.model_json_schema()


def read_yaml(path: Path) -> tuple[Any, Lines]:
    """Read a YAML file. Returns its document, and the line of each place in it. Raises UserError, for a list too."""
    if not path.is_file():
        raise UserError(f"{path}{path_fault(path) or ' is a folder; a file is expected'}")
    lines = Lines()
    data = _Reader(path, lines).to_plain(_parse_document(path), ())
    if isinstance(data, list):
        is_key_lost = len(data) > 1  # else the list is round the whole mapping
        cure = 'put it below its key, such as "cells:"' if is_key_lost else 'take the "- " (or the brackets) away'
        fault = f"a list stands here; {cure}: a mapping is expected, with lines such as 'key: value'"
        raise UserError(f"{path}, line {lines[()]}: {fault}")
    return data, lines


def _read_mapping(path: Path, model: type[BaseModel]) -> tuple[dict[str, Any], Lines]:
    """Read a YAML file that has the keys of `model`. Returns it, and the line of each place. Raises UserError."""
    data, lines = read_yaml(path)
    if isinstance(data, str) and (pointer := pointer_fault(data)):
        raise UserError(f"{path} is {pointer}")
    if isinstance(data, dict):
        return data, lines
    if model is Campaign:
        document, keys = "a campaign", ", ".join(properties_at(_cached_schema(model), ()))
    else:
        document, keys = "a table of corpora", "mine: {source: text, files: [a.txt]}, ..."
    fault = f" {'has no key' if path.stat().st_size else 'is empty'}: {document}" if data is None else ": a mapping"
    raise UserError(f"{path}{fault} is expected, with lines such as 'key: value'; allowed: {keys}")


def _validated(path: Path, model: type[Model], data: dict[str, Any], lines: Lines) -> Model:
    """Return the content `data` of a file as a `model`. Raises UserError with every fault, one per line."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise UserError("\n".join(fault_messages(path, lines, error, _cached_schema(model), data))) from None
    except RecursionError:
        raise UserError(f"{path}: nested too deeply") from None


def _parse_document(path: Path) -> Any:
    """Read a file with ruamel.yaml, by YAML 1.2: `no`, `on` and `1:30` are text.

    Raises UserError for a file that is not YAML or beyond the limits. The message names the line if it is known.
    """
    with path.open("rb") as file:
        raw = file.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise UserError(f"{path} is larger than {integer(MOST_BYTES)} bytes, the limit for a configuration file")
    if fault := no_text_fault(raw):
        raise UserError(f"{path} {fault}")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise UserError(f"{path}, line {line}: not UTF-8 text (byte {error.start}); save the file as UTF-8") from None
    if HTML_PAGE.match(text):
        raise UserError(f"{path} is a page (HTML), not YAML; download the raw file")
    _check_size(path, text)
    full_lines = [line for line in text.splitlines() if line.strip()]
    for mark, words in COPIED_MARKS.items():
        if len(full_lines) > 1 and all(re.match(mark, line) for line in full_lines):
            raise UserError(f"{path}: {words} stands before each line; take them away")
    for nth, content in enumerate(text.split(LINE_END), 1):
        if INDENTED.match(content) and INDENTED_KEY.match(content):  # the parser takes the blank for a part of the key
            raise UserError(f"{path}{_indented_text(nth, content)}")

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReusedAnchorWarning)  # YAML allows it: the nearest one above counts
            return YAML(typ="rt").load(text)
    except DuplicateKeyError as error:
        line = error.problem_mark.line + 1
        name = re.match(r'found duplicate (?:merge )?key "(.*?)"', error.problem or "", re.DOTALL)
        key = name[1] if name else "a key"
        fault = f"{key} is given twice"
        if key == "<<":
            fault += "; several aliases stand in one list, <<: [*a, *b]"
        if key.isdigit():  # {steps: 1,000,000} is three keys
            fault = "a comma stands between values: write a number without commas, 1000000, and a list in brackets"
        raise UserError(f"{path}, line {line}: {fault}") from None
    except MarkedYAMLError as error:
        raise UserError(f"{path}{_describe_yaml_fault(error, text.split(LINE_END))}") from None
    except ReaderError as error:  # a character that YAML does not allow
        where = f"{path}, line {text[: error.position].count(LINE_END) + 1}"
        code = ord(text[error.position])
        fault = f"an invisible control character (U+{code:04X}) stands here: delete it"
        if code == 0:
            fault = "zero bytes stand here: the file is damaged, or was not written to its end; copy or write it again"
        raise UserError(f"{where}: {fault}") from None
    except YAMLError as error:
        raise UserError(f"{path}: not valid YAML: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise UserError(f"{path}: nested too deeply") from None
    except (ValueError, TypeError, OverflowError, AttributeError) as error:  # a number or a tag that cannot be built
        number = LONG_NUMBER.search(text)
        where = f", line {text[: number.start()].count(LINE_END) + 1}" if number else ""
        raise UserError(f"{path}{where}: not valid YAML: {describe_first_fault(error)}") from None


def _describe_yaml_fault(error: MarkedYAMLError, lines: list[str]) -> str:
    """Describe where and why a document is not YAML: ", line 3, column 5: not valid YAML: ...".

    For the commonest slips, a hint or clearer words tell the author what to change. `lines`: the text of the document.
    """
    # A conflict anywhere in the file comes before all slips.
    for number, text in enumerate(lines, 1):
        if text.startswith(("<<<<<<< ", ">>>>>>> ")) or text == "=" * 7:
            return f", line {number}: a merge conflict of git is not resolved"
    for number, text in enumerate(lines, 1):
        if INDENTED.match(text):
            return _indented_text(number, text)
        if LOOK_ALIKE.match(text):
            return f", line {number}: the colon or the blank behind it only looks like one: type both again"
        if text.startswith("```"):
            return f", line {number}: a fence of Markdown (```) is no YAML: take it away"
        if text.startswith("%") and not text.startswith(("%YAML ", "%TAG ")):
            return f", line {number}: text that begins with % needs quotes"
        for language in (name for name, line in LANGUAGES.items() if re.match(line, text)):
            return f", line {number}: this is {language}, not YAML: keys and values stand as in 'steps: 10'"
        if "{%" in text or "{{ " in text:
            return f", line {number}: templates (Jinja) are not filled in; write the values"

    # Where the parser stopped, and why; for some slips both are replaced by what the author did.
    mark, problem = error.problem_mark or error.context_mark, str(error.problem or error.context)
    context = str(error.context)
    if error.context_mark and "quoted scalar" in context and "escape" not in problem:
        # `problem_mark` is the end of the file.
        mark, problem = error.context_mark, "a quote that begins here has no end"
    elif error.context_mark and "simple key" in context:  # `problem_mark` is on the line below the key
        mark = error.context_mark
    elif "expected '<document start>'" in problem:
        problem = "what stands here is not of the mapping above"

    where = ""
    if mark is not None:
        line, column = mark.line, mark.column
        line_above = lines[line - 1] if 0 < line < len(lines) else ""
        if "mapping values" in problem and WITHOUT_COLON.fullmatch(line_above) and ":" not in lines[line][:column]:
            # The line above lacks the colon: the parser took both lines for one key.
            line, column = line - 1, len(line_above) - len(line_above.lstrip())
            problem = "could not find expected ':'"
        elif "mapping values" in problem and (key := WITH_VALUE.fullmatch(line_above)) and _is_below(lines, line):
            return f", line {line}: a value stands behind {key[1]}:, and keys below it; take one of the two away"
        where = f", line {line + 1}, column {column + 1}"
    text = lines[min(mark.line, len(lines) - 1)] if mark is not None else ""
    if "${" in text:
        return f"{where}: variables (${{X}}) are not filled in; write the value"
    clues = problem + text.partition("“")[1]
    hint = next((f" ({advice})" for words, advice in YAML_HINTS.items() if words in clues), "")
    if "expected ',' or" in problem and error.context_mark:
        hint = hint.replace("a bracket", f"the bracket of line {error.context_mark.line + 1}", 1)
        hint = " (brackets do not match)" if problem.endswith(("']'", "'}'")) else hint
    return f"{where}: not valid YAML: {problem}{hint}"


def _indented_text(number: int, line: str) -> str:
    """Return that a line is indented by something else than blanks and tabs, to be said after the name of the file."""
    (character,) = INDENTED.match(line).groups()  # type: ignore[union-attr]
    name = unicodedata.name(character, f"U+{ord(character):04X}").lower()
    return f", line {number}: a {name} stands where the line begins: indent with blanks"


def _is_below(lines: list[str], index: int) -> bool:
    """Return whether a line, by its index, is indented more than the one above it."""
    indent_above, indent = (len(text) - len(text.lstrip()) for text in lines[index - 1 : index + 1])
    return indent > indent_above


def _check_size(path: Path, text: str) -> None:
    """Raise UserError for too many values or levels, by the events of a parser, which builds no values."""
    anchors: list[str | None] = []  # the anchor, or None, of each collection around the event
    n_values = 0
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            where = f"{path}, line {event.start_mark.line + 1}: "
            if isinstance(event, yaml.CollectionEndEvent):
                anchors.pop()
            elif isinstance(event, yaml.NodeEvent):
                n_values += 1
            if isinstance(event, yaml.CollectionStartEvent):
                anchors.append(event.anchor)
            if isinstance(event, yaml.AliasEvent) and event.anchor in anchors:
                raise UserError(f"{where}an anchor that contains itself")
            if len(anchors) > MOST_DEPTH:
                raise UserError(f"{where}nested too deeply; at most {MOST_DEPTH} levels are read")
            if n_values > MOST_VALUES:
                raise UserError(f"{where}more than {integer(MOST_VALUES)} keys and values, the limit")
    except (yaml.YAMLError, RecursionError):
        return  # ruamel.yaml, which reads the text next, says what is wrong and where


class _Reader:
    """Makes plain data of what ruamel.yaml built, and notes the line of each place in `lines`."""

    def __init__(self, path: Path, lines: Lines) -> None:
        self.path, self.lines = path, lines
        self.count = 0

    def to_plain(self, node: Any, place: Place) -> Any:
        """Convert the node at `place` to dicts, lists and scalars. Raises UserError for tags and beyond the limits."""
        self.count += 1
        if self.count > MOST_VALUES:
            limit = f"{integer(MOST_VALUES)} keys and values, aliases written out; the limit"
            raise UserError(f"{self.path} has more than {limit}")
        if len(place) > MOST_DEPTH:
            raise UserError(f"{self.path}: nested too deeply")
        if isinstance(node, CommentedMap | CommentedSeq) and node.tag.value is not None:
            raise self._tag_error(node.tag.value, place)
        if isinstance(node, CommentedMap):
            self._note_line(place, node.lc.line)
            return {self._key_text(node, key): self._entry_value(node, key, place) for key in node}
        if isinstance(node, CommentedSeq | list):
            if isinstance(node, CommentedSeq):
                self._note_line(place, node.lc.line)
            return [self._item_value(node, index, place) for index in range(len(node))]
        return self._plain_scalar(node, place)

    def _note_line(self, place: Place, line: int | None) -> None:
        """Note the line of a place, unless a line is noted already. `line` is counted from 0."""
        if line is not None:
            self.lines.setdefault(place, line + 1)

    def _key_text(self, node: CommentedMap, key: Any) -> str:
        """Return a key of a mapping as text: "true" for true. Raises UserError for a list or a mapping."""
        if isinstance(key, tuple | list | Mapping):
            positions = node.lc.data or {}  # key -> line and column, counted from 0; keys merged by `<<` have none
            line = (positions[key][0] if key in positions else node.lc.line or 0) + 1
            hint = "text in braces needs quotes, and templates ({{ x }}) are not filled in"
            raise UserError(f"{self.path}, line {line}: a key must be a word, not a list or a mapping; {hint}")
        if isinstance(key, ScalarInt):  # with its zeros: of 1,000 the key is 000
            return f"{key:0{vars(key)['_width'] or 1}}"
        return json.dumps(key) if key is None or isinstance(key, bool) else str(key)

    def _entry_value(self, node: CommentedMap, key: Any, place: Place) -> Any:
        """Return the plain value of a key of the mapping at `place`."""
        inside = (*place, self._key_text(node, key))
        if key in (node.lc.data or {}):  # a key merged by `<<` has no line
            self._note_line(inside, node.lc.key(key)[0])
        return self.to_plain(node[key], inside)

    def _item_value(self, node: Any, index: int, place: Place) -> Any:
        """Return the plain value of an entry of the list at `place`."""
        inside = (*place, index)
        if isinstance(node, CommentedSeq) and index in (node.lc.data or {}):
            self._note_line(inside, node.lc.item(index)[0])
        return self.to_plain(node[index], inside)

    def _tag_error(self, tag: object, place: Place) -> UserError:
        """Return the error for a tag such as !!python/object."""
        where = self.lines.place_prefix(self.path, place)
        key = dotted(place)
        return UserError(f"{where}{key}: tags such as {shortened(tag)} are not allowed; write the value alone")

    def _plain_scalar(self, value: Any, place: Place) -> Any:
        """Convert a scalar of ruamel's own types into None, bool, int, float or str. A date becomes ISO 8601 text."""
        if isinstance(value, TaggedScalar):
            raise self._tag_error(value.tag.value, place)
        if isinstance(value, bytes | CommentedSet):
            raise self._tag_error("!!binary" if isinstance(value, bytes) else "!!set", place)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, HexInt) and "geometry" in place:  # in a geometry, 0x2 is nodes x devices
            return f"0x{value:x}"
        if isinstance(value, int):
            if abs(value) >= 10**MOST_DIGITS:
                return float(value) if abs(value) < 1e300 else math.inf  # no key takes a number as large
            return int(value)
        if isinstance(value, float):
            return float(value)
        if isinstance(value, datetime.date):
            return value.isoformat()
        return str(value)
