"""Reading YAML into the typed models: limits first, then ruamel.yaml, then the model, with messages for faults."""

import datetime
import json
import math
import os
import re
import warnings
from collections.abc import Mapping
from html import unescape
from itertools import takewhile
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
from scaleproof.ground.campaign.schema_nodes import properties_at, schema_of
from scaleproof.ground.campaign.validation_messages import Lines, dotted, fault_messages
from scaleproof.ground.campaign.yaml_faults import (
    COPIED_MARKS,
    ENTITY,
    INDENTED,
    INDENTED_KEY,
    assignment_text,
    describe_yaml_fault,
    indented_text,
)
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
LINE_END = "\n"


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
    names, dedented = [*data], set[str]()
    for name in data:
        next_names = names[names.index(name) + 1 :]
        own = [*takewhile(Corpus.model_fields.__contains__, next_names)] if data[name] is None else []
        if own:
            indented = f"{name}: its keys need two blanks before them: {', '.join(own)}"
            faults[name] = f"{lines.place_prefix(path, (name,))}{indented}"
            dedented |= {*own}
        if own or name in dedented:
            continue
        try:
            rows |= _validated(path, CorpusTable, {name: data[name]}, lines).root
        except UserError as error:
            faults[str(name)] = str(error)
    return rows, faults


def schema_text(model: type) -> str:
    """Return the JSON schema of a file: of a model, a dataclass or a TypedDict."""
    return json.dumps(TypeAdapter(model).json_schema(), indent=2) + "\n"


def read_yaml(path: Path) -> tuple[Any, Lines]:
    """Read a YAML file. Returns its document, and the line of each place in it. Raises UserError, for a list too."""
    if not path.is_file():
        raise UserError(f"{path}{path_fault(path) or ' is a folder; a file is expected'}")
    lines = Lines()
    data = _Reader(path, lines).to_plain(_parse_document(path), ())
    for place, line in lines.items():  # in braces, such a comment becomes a part of the next key
        if place and (mark := re.match(r"//|/\*", str(place[-1]))):
            raise UserError(f'{path}, line {line}: "{mark[0]}" begins no comment in YAML, but "#" does')
    if isinstance(data, list):
        keys = [key for entry in data if isinstance(entry, dict) for key in entry]
        is_key_lost = len(data) > 1 and (len({*keys}) < len(keys) or not all(isinstance(entry, dict) for entry in data))
        before = f"before {shortened(', '.join(keys), 100)} " if len(data) > 1 else "(or the brackets) "
        cure = 'put it below its key, such as "cells:"' if is_key_lost else f'take the "- " {before}away'
        fault = f"a list stands here; {cure}: a mapping is expected, with lines such as 'key: value'"
        raise UserError(f"{path}, line {lines[()]}: {fault}")
    return data, lines


def _read_mapping(path: Path, model: type[BaseModel]) -> tuple[dict[str, Any], Lines]:
    """Read a YAML file that has the keys of `model`. Returns it, and the line of each place. Raises UserError."""
    data, lines = read_yaml(path)
    if isinstance(data, str) and (pointer := pointer_fault(data)):
        raise UserError(f"{path} is {pointer}")
    with path.open(encoding="utf-8", errors="replace") as file:
        first_line = file.readline(200).strip()
    if isinstance(data, str):
        texts = path.read_text(encoding="utf-8-sig").split(LINE_END)
        first = next(nth for nth, text in enumerate(texts, 1) if text.strip() and not text.startswith("#"))
        if assignments := assignment_text(texts, first):
            raise UserError(f"{path}{assignments}")
    if first_line.startswith("#!") and not isinstance(data, dict):  # of which YAML makes one text, or none
        raise UserError(f"{path} is a script ({first_line}), not YAML")
    if isinstance(data, dict):
        return data, lines
    if model is Campaign:
        document, keys = "a campaign", ", ".join(properties_at(schema_of(model), ()))
    else:
        document, keys = "a table of corpora", "mine: {source: text, files: [a.txt]}, ..."
    fault = f" {'has no key' if path.stat().st_size else 'is empty'}: {document}" if data is None else ": a mapping"
    raise UserError(f"{path}{fault} is expected, with lines such as 'key: value'; allowed: {keys}")


def _validated(path: Path, model: type[Model], data: dict[str, Any], lines: Lines) -> Model:
    """Return the content `data` of a file as a `model`. Raises UserError with every fault, one per line."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise UserError("\n".join(fault_messages(path, lines, error, schema_of(model), data))) from None
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
            raise UserError(f"{path}{indented_text(nth, content)}")
        if entity := ENTITY.match(content):
            advice = f"is HTML; type the character itself: {unescape(entity[1])}"
            raise UserError(f'{path}, line {nth}: "{entity[1]}" {advice}')

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
        else:
            fault += _first_line_text(text.split(LINE_END)[: line - 1], key, error.problem_mark.column)
        raise UserError(f"{path}, line {line}: {fault}") from None
    except MarkedYAMLError as error:
        raise UserError(f"{path}{describe_yaml_fault(error, text.split(LINE_END))}") from None
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


def _first_line_text(lines_above: list[str], key: str, column: int) -> str:
    """Return where a key that is given twice stands first: ", first in line 3"; "" where it is in a line of others."""
    for number, text in reversed([*enumerate(lines_above, 1)]):
        if re.match(rf" {{{column}}}[\"']?{re.escape(key)}[\"']?\s*:", text):
            return f", first in line {number}"
        if text.strip() and len(text) - len(text.lstrip()) < column:
            break
    return ""


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
        key = f"{dotted(place)}: " if place else ""
        is_file = re.search("include|import|extends|inherit|file", str(tag))
        advice = "a campaign reads no other file, so write its lines here" if is_file else "write the value alone"
        return UserError(f"{where}{key}tags such as {shortened(tag)} are not allowed; {advice}")

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
