"""Why a file is not YAML, for people: the slip that its author made, and where, in place of the parser's words."""

import re
import unicodedata

from ruamel.yaml.error import MarkedYAMLError

from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.campaign.corpora import CorpusTable
from scaleproof.ground.campaign.look_alikes import bullet_text
from scaleproof.ground.campaign.schema_nodes import properties_at, schema_of
from scaleproof.ground.errors import shortened

NO_WIDTH = r"\u200b-\u200f\u2060\ufeff\u00ad"  # characters that no editor shows
INDENTED = re.compile(rf"[ \t]*([^\S \t\r]|[{NO_WIDTH}])")  # by another kind of blank
INDENTED_KEY = re.compile(rf"[\s{NO_WIDTH}]*[\w.-]+:(?:\s|$)")
LOOK_ALIKE = re.compile(r"\s*[\w.-]+(?::[^\S \t\r]|\uff1a)")  # a blank that does not break, a wide colon
# What stands before each line of a text that was copied together with it -> the words for it.
COPIED_MARKS = {
    r"\[?\d{1,2}:\d\d\b": "a time",
    r" *\d+(?:[.)|]?(?:\s|$)|:(?:\s*[\w#-]|$))": "a line number",
    r"\+": "the + of a diff",
    r" ?>": "the > of a quotation",
    r" ?\|": "the | of a table or quotation",
    r" ?[*\u2022](?:\s|$)": "a bullet",
}
ASSIGNED = re.compile(r"\s*([A-Za-z]\w*)\s*(?:[-=]>|:?=)\s*(\S.*?)\s*[;,]?\s*(?:\s#.*)?")  # of other languages
# A line of a comment in other languages: of C, SQL (or above a signature), INI, LaTeX.
NO_COMMENT = re.compile(r"(?=\s*/[/*]|--(?:\s|$)|;|%(?!YAML |TAG ))\s*(//|/\*|--|;|%)")
MOST_MARKED = 0.7  # share of lines with a mark from which it belongs to the copied text
ENDED = re.compile(r"([;,]+)\s*(?:#.*)?$")  # what other languages have behind a value
# "$ cat x", "me@host:~$ cat x", "(venv) [me@host ~]$ cat x", "PS C:\\> type x", in the first column and without ": "
PROMPT = re.compile(r"(?:\(\S+\) )?(?:[$>\u276f]|\[?[\w.-]+@[\w.-]+[: ]?\S* ?[$%#>]|PS \S*>)(?: (?!.*: )|$)")
# A key with its value on one line, but for an anchor and a block, behind which more may stand in the next lines.
WITH_VALUE = re.compile(r"\s*([\w-]+): +[^\s#&|>].*")
KEY = re.compile(r"( *(?:- +)?)([\w-]+):(?:\s|$)")  # with what stands before it
WITHOUT_COLON = re.compile(r"\s*\w(?:[^:#]|:(?=\S))*")  # a line that is neither `key: value` nor an entry of a list
LANGUAGES = {  # -> how a line of it begins
    "Python": r"(?:from [\w.]+ )?import \w|def \w+\(|\w+ = \w+\(",
    "TOML or INI": r"\[\[?[\w.-]+\]\]?\s*$",
    "a script": r"#!",
    "a diff": r"@@ -\d|diff --git ",
    "a mail": r"(?:From|Sent|To|Subject): \S",
}
# A character as HTML has it, where a value begins: to YAML it is an anchor, and the value another.
ENTITY = re.compile(r"(?:[^#]*[:\[{,-])?\s*(&(?:quot|apos|amp|lt|gt|nbsp|#\w{1,6});)")
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
    "not of the mapping above": 'keys of one section begin in one column, and have a colon: "steps: 10"',
    "expected ',' or": 'a bracket is not closed, a comma is missing, or a text with {, [ or ": " in it needs quotes',
    "escape": "in \"...\" a backslash begins an escape such as \\n; '...' takes it as it is",
    "for merging": "after <<: stands an alias of a section, such as *base; a campaign reads no other file",
}

# Words of the parser -> plain ones.
PLAIN_WORDS = {
    r"expected <block end>.*": "this belongs neither to the value before it nor to the keys above",
    r"expected the node content.*": "a value is expected",
    r"expected chomping.*": "| or > is followed by more than a comment",
    r"expected alphabetic or numeric.*": "* or & is followed by no name",
    r"expected ',' or '(.)'.*": r'"," or "\1" is expected',
    r"expected a mapping or list of mappings for merging.*": "no section stands after <<:",
    r"mapping values are not allowed": "a colon makes a key, and none can stand",
    r"mapping keys are not allowed": "a question mark makes a key, and none can stand",
    r"could not find expected ':'": "a colon is missing",
    r"(?:found character )?(.*) that cannot start any token": r"no value begins with \1",
}


def describe_yaml_fault(error: MarkedYAMLError, lines: list[str]) -> str:
    """Describe where and why a document is not YAML: ", line 3, column 5: not valid YAML: ...".

    For the commonest slips, a hint or clearer words tell the author what to change. `lines`: the text of the document.
    """
    # A conflict anywhere in the file comes before all slips.
    for number, text in enumerate(lines, 1):
        if text.startswith(("<<<<<<< ", ">>>>>>> ")) or text == "=" * 7:
            return f", line {number}: a merge conflict of git is not resolved"
    full_lines = [text for text in lines if text.strip()]
    for mark, words in COPIED_MARKS.items():
        n_marked = sum(re.match(mark, text) is not None for text in full_lines)
        if n_marked >= max(2, MOST_MARKED * len(full_lines)):  # a heading may stand above a quotation
            others = ", and lines that are no part of the file" if n_marked < len(full_lines) else ""
            return f": {words} stands before {'most lines' if others else 'each line'}; take them away{others}"
    for number, text in enumerate(lines, 1):
        if INDENTED.match(text):
            return indented_text(number, text)
        if LOOK_ALIKE.match(text):
            return f", line {number}: the colon or the blank behind it only looks like one: type both again"
        if markdown := re.match(r"```|\*\*", text):
            return f", line {number}: a mark of Markdown ({markdown[0]}) is no YAML: take it away"
        if comment := NO_COMMENT.match(text):
            return f', line {number}: "{comment[1]}" begins no comment in YAML, but "#" does; a text needs quotes'
        if PROMPT.match(text):
            pasted = shortened(text.strip(), 60)
            return f', line {number}: "{pasted}" has no "key: value"; is it a pasted prompt? Take the line away'
        if text.startswith(("%YAML ", "%TAG ")) and "---" not in (line.strip() for line in lines):
            return f', line {number}: a line "---" is missing below the lines that begin with %'
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
    is_outside = problem.startswith(("what stands here", "expected <block end>"))
    if is_outside and mark and "".join(lines[mark.line : mark.line + 1])[mark.column :].startswith(("}", "]")):
        problem = "this bracket closes none"

    where = ""
    if mark is not None:
        line, column = mark.line, mark.column
        line_above = lines[line - 1] if 0 < line < len(lines) else ""
        if "mapping values" in problem and WITHOUT_COLON.fullmatch(line_above) and ":" not in lines[line][:column]:
            # The line above lacks the colon: the parser took both lines for one key.
            line, column = line - 1, len(line_above) - len(line_above.lstrip())
            problem = "could not find expected ':'"
        elif "mapping values" in problem and (key := WITH_VALUE.fullmatch(line_above)) and _is_below(lines, line):
            return _fault_of_deeper_key(lines, line, key[1])
        where = f", line {line + 1}, column {column + 1}"
        end = ENDED.match(lines[min(line, len(lines) - 1)][column:])
        if end and "<block end>" in problem:
            return f'{where}: "{end[1]}" stands behind the value; take it away, as lines end without one'
        assigned = assignment_text(lines, line + 1) or assignment_text(lines, line)
        if assigned and "<block end>" not in problem:
            return assigned
        bulleted = {nth: key[2] for nth, text in enumerate(lines, 1) if (key := KEY.match(text)) and key[1] == "- "}
        if "<block end>" in problem and bulleted and {*bulleted.values()} <= {*properties_at(schema_of(Campaign), ())}:
            return f', line {min(bulleted)}: take the "- " before {", ".join(bulleted.values())} away'
    text = lines[min(mark.line, len(lines) - 1)] if mark is not None else ""
    if mark and "found '-'" in problem and (key := KEY.match(text)):
        among_keys = "an entry of a list, and what stands above are keys"
        return f', line {mark.line + 1}: "- {key[2]}" is {among_keys}: take the "- " away, or begin each with one'
    if mark and (bullet := bullet_text(text)):
        return f", line {mark.line + 1}: {bullet}"
    if "${" in text:
        return f"{where}: variables (${{X}}) are not filled in; write the value"
    clues = problem + text.partition("“")[1]
    hint = next((f" ({advice})" for words, advice in YAML_HINTS.items() if words in clues), "")
    if "expected ',' or" in problem and error.context_mark:
        hint = hint.replace("a bracket", f"the bracket of line {error.context_mark.line + 1}", 1)
        hint = " (brackets do not match)" if problem.endswith(("']'", "'}'")) else hint
    for words, plain in PLAIN_WORDS.items():
        problem = re.sub(f"^{words}", plain, problem)
    return f"{where}: not valid YAML: {problem}{hint}"


def assignment_text(lines: list[str], number: int) -> str:
    """Return `, lines 4 and 5: write global_batch: 8, steps: 15` of lines such as "steps = 15", or "" without any.

    `number`: of a line, from 1, that is one of them, else "" is returned.
    """
    schemas = (schema_of(Campaign), schema_of(CorpusTable))
    nodes = [node for schema in schemas for node in (schema, *schema["$defs"].values())]
    keys = {key for node in nodes for key in node.get("properties", {})}
    matches = {nth: match for nth, text in enumerate(lines, 1) if (match := ASSIGNED.fullmatch(text))}
    if any(match[2].endswith(("(", "{")) for match in matches.values()):  # a value of Python, which goes on
        return ""
    written = {nth: f"{match[1]}: {match[2]}" for nth, match in matches.items() if match[1] in keys}
    if number not in written:
        return ""
    *others, last = map(str, written)
    numbers = f"lines {', '.join(others)} and {last}" if others else f"line {last}"
    return f", {numbers}: write {shortened(', '.join(written.values()), 300)}"


def indented_text(number: int, line: str) -> str:
    """Return that a line is indented by something else than blanks and tabs, to be said after the name of the file."""
    (character,) = INDENTED.match(line).groups()  # type: ignore[union-attr]
    name = unicodedata.name(character, "").lower() or f"character U+{ord(character):04X}"
    return f", line {number}: a {name} stands where the line begins: indent with blanks"


def _fault_of_deeper_key(lines: list[str], index: int, key_above: str) -> str:
    """Describe a key that is indented more than the one above it, which has a value. `index`: of its line, from 0."""
    place: list[str] = []  # the keys around the one above
    indent = len(lines[index - 1]) - len(lines[index - 1].lstrip())
    for match in filter(None, map(KEY.match, reversed(lines[: index - 1]))):
        if len(match[1]) < indent:
            indent = len(match[1])
            place.insert(0, match[2])
    deeper = KEY.match(lines[index])
    if deeper and any(deeper[2] in properties_at(schema_of(model), tuple(place)) for model in (Campaign, CorpusTable)):
        beside = f"{key_above} (line {index}), which has a value: begin both in one column"
        return f", line {index + 1}: {deeper[2]} is indented deeper than {beside}"
    return f", line {index}: a value stands behind {key_above}:, and keys below it; take one of the two away"


def _is_below(lines: list[str], index: int) -> bool:
    """Return whether a line, by its index, is indented more than the one above it."""
    indent_above, indent = (len(text) - len(text.lstrip()) for text in lines[index - 1 : index + 1])
    return indent > indent_above
