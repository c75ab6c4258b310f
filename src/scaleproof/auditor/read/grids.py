"""Tables in texts, each as a `Grid` of strings: Markdown, reStructuredText, boxes of lines, columns of pandas."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

MOST_ROWS = 1_000  # of one table; longer ones are raw samples
WIDEST = 200  # columns
OF_WIKI = re.compile(r"\|\|[^|]+(?:\|\|[^|]+)+\|\|")  # a line of Jira, Confluence or MoinMoin
SHORTEST_RULE = 9  # characters of a line of dashes without bars
SEPARATOR = re.compile(r"\|?\s*:?-{1,}:?\s*(?:[|+]\s*:?-{1,}:?\s*)*\|?")  # of Org mode with "+"
BORDER = re.compile(r"[+|]?[-=+|:]{3,}[+|]?|[\u2500-\u257f|+ ]+")
DRAWN = re.compile(r"[+|\u2500-\u257f]")  # how the lines of a box begin
BARS = str.maketrans({"│": "|", "┃": "|", "║": "|"})
RULE = re.compile(r"[=-]{2,}(?: +[=-]{2,})+")  # "=====  =====", above and below columns

Line = tuple[int, str]  # number in the file, 1-based, and text
Row = tuple[int, list[str]]  # the number of its line, and its cells
Field = tuple[str, int, int]  # text, and the columns where it starts and ends


@dataclass(slots=True)
class Grid:
    """A table of strings. `rows` have the number of their line in the file."""

    form: str
    line: int
    header: list[str]
    rows: list[Row]
    caption: str = ""
    section: list[str] = field(default_factory=list)
    cut_off: bool = False
    above: str = ""  # the paragraph above it
    before: list[str] = field(default_factory=list)  # the paragraphs of its section above it, the nearest first


def below_titles(form: str, rows: list[Row], caption: str = "", section: tuple[str, ...] = ()) -> Iterator[Grid]:
    """Yield the grid of rows below their titles, of one filled cell or one over all columns; none without a body."""
    first = next((k for k, (_, cells) in enumerate(rows) if sum(map(bool, cells)) > 1 < len({*cells})), 0)
    titles = " ".join(max(cells) for _, cells in rows[:first])
    for line, header in rows[first : min(first + 1, len(rows) - 1)]:
        yield Grid(form, line, header, rows[first + 1 :][:MOST_ROWS], caption=caption or titles, section=[*section])


def pipe_tables(lines: list[Line]) -> Iterator[Grid]:
    """Yield Markdown tables: a row of headings, a row of dashes, rows: "| a | b |", "|---|---|", "| 1 | 2 |".

    Wikis have two bars around headings, and no row of dashes: "||a||b||". Programs that print such tables often rule
    them without bars. Then the first row must be as long as the headings.
    """
    i = 0
    while i + 1 < len(lines):
        first_line, text = lines[i]
        _, text_below = lines[i + 1]
        is_of_wiki = "||" in text and OF_WIKI.fullmatch(text.strip()) is not None
        if "|" not in text or not (is_of_wiki or is_separator(text_below)):
            i += 1
            continue

        header = pipe_cells(text)
        rows: list[Row] = []
        i += 1 if is_of_wiki else 2
        if "|" not in text_below and [len(pipe_cells(row)) for _, row in lines[i : i + 1]] != [len(header)]:
            continue
        while i < len(lines) and "|" in lines[i][1] and len(rows) < MOST_ROWS:
            number, row = lines[i]
            if not SEPARATOR.fullmatch(row.strip()):
                rows.append((number, pipe_cells(row)))
            i += 1
        if rows and text.strip()[-1] == "|" != lines[i - 1][1].strip()[-1]:
            rows[-1][1].pop()  # the last row is cut off, as in an extract
        if len(header) >= 2 and rows:
            yield Grid("Markdown table", first_line, header, rows)


def is_separator(text: str) -> bool:
    """Whether a line is the row of dashes below the heading of a table: "|---|---|", "===|===" or "----------"."""
    rule = text.strip().replace("=", "-")
    is_long = "|" in rule or len(rule) >= SHORTEST_RULE
    return is_long and "-" in rule and SEPARATOR.fullmatch(rule) is not None


def pipe_cells(line: str) -> list[str]:
    """Return the cells between the bars of a line: "| a | b |" -> ["a", "b"]. Bars in code or behind "\\" are text."""
    text = line.strip().translate(BARS)
    text = text.replace("||", "|") if OF_WIKI.fullmatch(text) else text
    text = re.sub(r"`[^`]*`", lambda m: m[0].replace("|", "\0"), text).replace("\\|", "\0")
    text = text.removeprefix("|").removesuffix("|")
    return [cell.strip().replace("\0", "|") for cell in text.split("|")][:WIDEST]


def box_tables(lines: list[Line]) -> Iterator[Grid]:
    """Yield tables in boxes, as tabulate, prettytable, rich and reStructuredText draw them."""
    texts = [text.strip() for _, text in lines]
    i = 0
    while i < len(lines):
        stop = i + 1
        is_top_of_box = len(texts[i]) > 4 and texts[i][0] not in "|-=:" and BORDER.fullmatch(texts[i])
        if is_top_of_box:
            while stop < len(lines) and DRAWN.match(texts[stop]):
                stop += 1
            if grid := _table_in_box(lines[i:stop]):
                yield grid
        i = stop


def _table_in_box(block: list[Line]) -> Grid | None:
    """Return the table in the lines of one box. None for a box without rows below a heading of several columns."""
    head, *body = _parts_of_box(block) or [[]]  # the lines of the headings, those of each part below
    if not body:
        return None
    first_line, _ = head[0]
    header = _joined_cells(head)
    if len(header) < 2:
        return None

    has_borders_of_rows = len(body) > 1 or len(body[0]) == 1  # then a row may have several lines
    # A further line of a row has an empty cell. A full line would be a row of its own.
    if has_borders_of_rows and all("" in pipe_cells(text) for part in body for _, text in part[1:]):
        rows = [(part[0][0], _joined_cells(part)) for part in body]
    else:
        rows = [(number, pipe_cells(text)) for part in body for number, text in part]
    return Grid("table in a box", first_line, header, rows[:MOST_ROWS], cut_off=len(rows) > MOST_ROWS)


def _parts_of_box(block: list[Line]) -> list[list[Line]]:
    """Return the lines between the borders of a box, part by part: those of the headings, then those of the body."""
    parts: list[list[Line]] = [[]]
    for number, raw in block:
        text = raw.strip()
        if BORDER.fullmatch(text) and not re.search(r"\w", text):
            parts.append([])
        elif "|" in text.translate(BARS):
            parts[-1].append((number, text))
    return [part for part in parts if part]


def _joined_cells(row: list[Line]) -> list[str]:
    """Return the cells of a row of several lines, joined: "| step | 8 |", "| time |  |" -> ["step time", "8"]."""
    lines = [pipe_cells(text) for _, text in row]
    width = max(map(len, lines))
    return [" ".join(cells[k] for cells in lines if k < len(cells) and cells[k]).strip() for k in range(width)]


def ruled_tables(lines: list[Line]) -> Iterator[Grid]:
    """Yield reStructuredText's simple tables: columns under runs of "=", also as tabulate's "simple" with "-"."""
    texts = [text.rstrip() for _, text in lines]
    rules = [i for i, text in enumerate(texts) if RULE.fullmatch(text.strip()) and len(text.strip()) > 6]
    end_of_table = -1  # index behind the last table: rules up to there are its own
    for k, rule in enumerate(rules):
        is_without_headings = rule == 0 and not texts[0].strip().startswith("=")  # "---" as the first line
        if rule <= end_of_table or is_without_headings:
            continue

        spans = _rule_spans(texts[rule])
        rules_below = [below for below in rules[k + 1 : k + 3] if _rule_spans(texts[below]) == spans]
        if rules_below and rules_below[0] - rule <= 4:  # headings between two rules
            top, last_rule = rule + 1, rules_below[0]
            lines_of_headings = [_cells_at(text, spans) for text in texts[top:last_rule]]
            header = [" ".join(filter(None, headings)) for headings in zip(*lines_of_headings, strict=True)]
        else:  # one line of headings above a rule
            top, last_rule = max(rule - 1, 0), rule
            header = _cells_at(texts[top], spans)

        end = min(len(texts), last_rule + 1 + MOST_ROWS)
        ends = (n for n in range(last_rule + 1, end) if not texts[n] or RULE.fullmatch(texts[n].strip()))
        stop = next(ends, end)
        rows = [(number, _cells_at(text, spans)) for number, text in lines[last_rule + 1 : stop]]
        if len(spans) >= 2 and rows and any(header):
            first_line, _ = lines[top]
            yield Grid("reStructuredText table", first_line, header, rows)
            end_of_table = stop


def _rule_spans(rule: str) -> list[tuple[int, int]]:
    """Return (start, end) of each run of "=" or "-": "==  ===" -> [(0, 2), (4, 7)]."""
    return [m.span() for m in re.finditer(r"[=-]+", rule)]


def _cells_at(text: str, spans: list[tuple[int, int]]) -> list[str]:
    """Return the cells of a line, each from the start of a span of the rule to that of the next: ["DDP", "12 ms"]."""
    starts = [start for start, _ in spans]
    ends = [*starts[1:], len(text) + 1]
    return [text[start:end].strip() for start, end in zip(starts, ends, strict=True)]


def tables_of_words(lines: list[Line]) -> Iterator[Grid]:
    """Yield tables without spaces in cells: right edges in line, as pandas has them, or one blank between cells.

    Before the headings may stand "#", as gnuplot reads them.
    """
    i = 0
    while i + 2 < len(lines):
        first_line, text = lines[i]
        words = text.lstrip("# ").split()
        stop = i + 1
        if len(words) >= 3 and not any(_FIGURE_WORD.fullmatch(word) for word in words):  # they may be headings
            edges = _right_edges(text)
            n_single = 0 if "  " in text.strip() else len(words)  # of words with one blank between them
            for _, row in lines[stop : stop + MOST_ROWS]:
                if _right_edges(row) != edges and ("  " in row.strip() or len(row.split()) != n_single):
                    break
                stop += 1

        rows = [(number, text.split()) for number, text in lines[i + 1 : stop]]
        figure_count = sum(bool(_FIGURE_WORD.fullmatch(word)) for _, cells in rows for word in cells)
        if len(rows) >= 2 and 2 * figure_count >= len(rows) * len(words):
            yield Grid("text table", first_line, words, rows)
        i = stop


def _right_edges(text: str) -> list[int]:
    """Return the columns of a line in which a word ends: "a  12" -> [1, 5]."""
    return [m.end() for m in re.finditer(r"\S+", text.expandtabs())]


_FIGURE_WORD = re.compile(r"[-+~]?[\d.,]*\d[\d.,]*(?:e[-+]?\d+)?(?:%|x|×|ms|s|GB|MB|K|M|B)?|nan|NaN|-|N/A|OOM", re.I)


def aligned_tables(lines: list[Line]) -> Iterator[Grid]:
    """Yield tables set with spaces: rows of figures below one to four lines of headings."""
    lines = [line for line in lines if not re.fullmatch(r"\s*\.{2,3}(\s+\.{3})+\s*", line[1])]  # pandas left rows out
    texts = [text for _, text in lines]
    i = 0
    while i < len(lines):
        # _may_be_row is cheap, and rejects most lines before they are cut into fields
        fields = _fields(texts[i]) if _may_be_row(texts[i]) else []
        if not _is_row(fields):
            i += 1
            continue

        rows = [fields]
        names_end = len(texts[i - 1].rstrip()) if i else 0  # of the names of a pandas index, on a line of their own
        for text in texts[i + 1 : i + MOST_ROWS]:
            next_fields = _with_index(_fields(text), rows[-1], names_end)
            if len(next_fields) != len(fields) or not _is_row(next_fields):
                break
            rows.append(next_fields)
        if grid := _aligned_table(lines, i, rows):
            yield grid
        i += len(rows)


def _with_index(fields: list[Field], above: list[Field], names_end: int) -> list[Field]:
    """Return a row with the index that pandas prints once, in the row `above`, before the levels that change."""
    missing = len(above) - len(fields)
    has_names_above = 0 < names_end <= above[-1][1]
    if missing < 1 or not fields or above[missing - 1][2] > fields[0][1] or not has_names_above:
        return fields
    pairs = zip(fields, above[missing:], strict=True)
    are_below = all(start == start_above or end == end_above for (_, start, end), (_, start_above, end_above) in pairs)
    return [*above[:missing], *fields] if are_below else fields


def _may_be_row(text: str) -> bool:
    """Whether a line may be a row, a fast test before `_fields`: two words of it, or more, begin like a figure."""
    words = text.split()
    are_like_figures = [word[0] in FIGURE_STARTS or word.lower() in MISSING_FIGURES for word in words]
    if sum(are_like_figures) < 2:
        return False
    # Without wider spaces `_fields` cuts only before figures at the line's end, two at least: its last two words.
    has_single_spaces = text.isascii() and "\t" not in text and "  " not in text.strip()
    return not has_single_spaces or all(are_like_figures[-2:])


FIGURE_STARTS = frozenset("0123456789+-~.,")
MISSING_FIGURES = frozenset(("nan", "n/a", "oom"))
_WORD = re.compile(r"\S+")
_REMARK = re.compile(r"(?<!\s)\s+(?:<-+|←) \D{0,80}$")  # behind a row: "99.8  <- knee"
_SPACED_WORDS = re.compile(r"\S+(?: (?! )\S+)*")  # with single spaces between them


def _fields(text: str) -> list[Field]:
    """Cut a line into fields at two spaces or more, and before each figure at its end: "A100 8 6.9" has three."""
    fields = []
    for m in _SPACED_WORDS.finditer(_REMARK.sub("", text.expandtabs())):
        words = m[0].split(" ")
        trailing = next((k for k, word in enumerate(reversed(words)) if not _FIGURE_WORD.fullmatch(word)), len(words))
        cut = len(words) - trailing if trailing > 1 else len(words)  # behind it all are figures, two at least
        start = m.start()
        for part in filter(None, [" ".join(words[:cut]), *words[cut:]]):
            fields.append((part, start, start + len(part)))
            start += len(part) + 1
    return fields


def _is_row(fields: list[Field]) -> bool:
    """Whether fields are a row of a table: two figures or more, which are at least half of the fields."""
    if len(fields) < 2 or len(fields) > WIDEST:
        return False
    texts = [text for text, _, _ in fields]
    figure_count = sum(bool(_FIGURE_WORD.fullmatch(text)) for text in texts)
    if figure_count < 2 or figure_count * 2 < len(texts):
        return False
    return any(re.search(r"\d", text) for text in texts[1:])  # figures may be "nan" and "-", but not all


def _aligned_table(lines: list[Line], first: int, rows: list[list[Field]]) -> Grid | None:
    """Return the table of `rows`, which begin at `lines[first]`. None where no headings are above them."""
    columns = zip(*rows, strict=True)
    spans = [(min(start for _, start, _ in column), max(end for _, _, end in column)) for column in columns]
    lines_above = _lines_of_headings(lines, first)
    header = _aligned_header([text for _, text in lines_above], spans)
    if header is None:
        return None
    first_line, _ = lines_above[0]
    body = [(number, [text for text, _, _ in fields]) for (number, _), fields in zip(lines[first:], rows, strict=False)]
    return Grid("text table", first_line, header, body)


def _lines_of_headings(lines: list[Line], first: int) -> list[Line]:
    """Return the lines above `lines[first]` that may be headings, at most four, without rules between them."""
    headings: list[Line] = []
    for k in range(first - 1, -1, -1):
        number, text = lines[k]
        if len(headings) == 4 or not _may_be_headings(text):
            break
        if not re.fullmatch(r"[\s=\-+─]+", text):
            headings.insert(0, (number, text))
    return headings


def _may_be_headings(text: str) -> bool:
    """Whether a line above a table may have headings of columns. Empty lines and Markdown have none."""
    start = text.lstrip()
    if not start or start.startswith(("```", "|", "[")) or ": " in start:  # "Host: gpu7  ranks: 240"
        return False
    return not start.startswith("#") or len(_fields(text)) >= 3  # "# GPUs" with two more fields is a heading


def _aligned_header(texts: list[str], spans: list[tuple[int, int]]) -> list[str] | None:
    """Return the heading of each column by the lines of text above it. None without headings.

    `spans`: where each column starts and ends. A heading of an upper line holds until the next one: "A100" above
    "time", "rate" -> "A100 time", "A100 rate".
    """
    levels: list[list[str]] = []  # for each line of headings the heading of each column, or ""
    index_names: dict[int, str] = {}
    left_edge, _ = spans[0]
    for n, text in enumerate(texts):
        headings = _placed(_SPACED_WORDS, text)
        _, start_of_first, _ = headings[0]
        is_alone = len(headings) == 1 and len(spans) > 2
        if is_alone and n and start_of_first <= left_edge:
            # pandas prints the names of the index on a line of their own.
            index_names |= {_column_at(start, end, spans): name for name, start, end in _placed(_WORD, text)}
        elif is_alone or len(headings) > len(spans) + 1:
            levels = []  # a title or a sentence: the headings are below it
        elif len(headings) < len(spans) - 1 and text == texts[-1]:  # headings with single spaces between them
            levels.append(_headings_at(spans, _placed(_WORD, text)))
        else:
            levels.append(_headings_at(spans, headings))

    if not levels or sum(map(bool, levels[-1])) < 2:
        return None
    return [heading or index_names.get(k, "") for k, heading in enumerate(_joined_levels(levels))]


def _headings_at(spans: list[tuple[int, int]], headings: list[Field]) -> list[str]:
    """Return the headings of a line above each column, joined. Returns "" where none is above it."""
    by_column = [""] * len(spans)
    for heading, start, end in headings:
        k = _column_at(start, end, spans)
        by_column[k] = f"{by_column[k]} {heading}".strip()
    return by_column


def _joined_levels(levels: list[list[str]]) -> list[str]:
    """Return one heading for each column: "A100 time", "A100 rate" of ["A100", ""], ["time", "rate"]; no text twice.

    Where the names of the last line repeat, each heading above them, be it centred, is of one of their rounds.
    """
    names = levels[-1]
    repeated = next((name for name in names if name and names.count(name) > 1), None)
    rounds = [k for k, name in enumerate(names) if name == repeated]
    for level in levels[:-1]:
        centred = [k for k, heading in enumerate(level) if heading and names[k]]
        if len(centred) == len(rounds):
            headings = {start: level[k] for start, k in zip(rounds, centred, strict=True)}
            level[:] = [headings.get(k, "" if k in centred else heading) for k, heading in enumerate(level)]
        for k in range(1, len(level)):
            level[k] = level[k] or level[k - 1]
    return [" ".join(dict.fromkeys(filter(None, texts))) for texts in zip(*levels, strict=True)]


def _placed(pattern: re.Pattern[str], text: str) -> list[Field]:
    """Return the matches of a pattern in a line, each with where it starts and ends."""
    return [(m[0], m.start(), m.end()) for m in pattern.finditer(text.expandtabs())]


def _column_at(start: int, end: int, spans: list[tuple[int, int]]) -> int:
    """Return the index of the span that `start` to `end` overlaps most, else of the span with the nearest edge."""

    def distance(k: int) -> tuple[int, int]:
        """Return a key that is smaller for a span that fits better: (-overlap, gap of the nearest edges)."""
        left, right = spans[k]
        overlap = min(end, right) - max(start, left)
        return -max(overlap, 0), min(abs(end - right), abs(start - left))

    return min(range(len(spans)), key=distance)
