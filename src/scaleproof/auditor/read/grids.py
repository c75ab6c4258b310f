"""Tables in texts, each as a `Grid` of strings: Markdown, reStructuredText, boxes of lines, columns of pandas."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

MOST_ROWS = 20_000  # of one table
WIDEST = 200  # columns
SEPARATOR = re.compile(r"\|?\s*:?-{1,}:?\s*(?:\|\s*:?-{1,}:?\s*)*\|?")
BORDER = re.compile(r"[+|]?[-=+|:]{3,}[+|]?|[┌┬┐├┼┤└┴┘─━┏┳┓┡╇┩╞╪╡═╒╤╕╘╧╛╔╦╗╠╬╣╚╩╝║╟╢╫╥╨╭╮╰╯|+┠┨┯┷┿╂ ]+")
BARS = str.maketrans({"│": "|", "┃": "|", "║": "|"})
RULE = re.compile(r"[=-]{2,}(?: +[=-]{2,})+")


@dataclass(slots=True)
class Grid:
    """A table of strings. `rows` have the number of their line in the file."""

    form: str
    line: int
    header: list[str]
    rows: list[tuple[int, list[str]]]
    caption: str = ""
    section: list[str] = field(default_factory=list)
    cut_off: bool = False
    above: str = ""  # the paragraph above it
    before: list[str] = field(default_factory=list)  # the paragraphs of its section above it, the nearest first


Line = tuple[int, str]  # number in the file, 1-based, and text


def pipe_tables(lines: list[Line]) -> Iterator[Grid]:
    """Yield Markdown tables: a heading row, a row of dashes, rows."""
    i = 0
    while i + 1 < len(lines):
        first_line, text = lines[i]
        _, below = lines[i + 1]
        if "|" in text and "-" in below and "|" in below and SEPARATOR.fullmatch(below.strip()):
            header = pipe_cells(text)
            rows: list[tuple[int, list[str]]] = []
            j = i + 2
            while j < len(lines) and "|" in lines[j][1] and len(rows) < MOST_ROWS:
                number, row = lines[j]
                if not SEPARATOR.fullmatch(row.strip()):
                    rows.append((number, pipe_cells(row)))
                j += 1
            if len(header) >= 2 and rows:
                yield Grid("Markdown table", first_line, header, rows)
            i = j
        else:
            i += 1


def pipe_cells(line: str) -> list[str]:
    """Return the cells between the bars of a line; a bar behind a backslash or inside backticks is part of its cell."""
    text = line.strip().translate(BARS)
    text = re.sub(r"`[^`]*`", lambda m: m[0].replace("|", "\0"), text).replace("\\|", "\0")
    text = text.removeprefix("|")
    text = text.removesuffix("|")
    return [cell.strip().replace("\0", "|") for cell in text.split("|")][:WIDEST]


def box_tables(lines: list[Line]) -> Iterator[Grid]:
    """Yield tables in boxes, as tabulate, prettytable, rich and reStructuredText draw them."""
    texts = [text.strip() for _, text in lines]
    i = 0
    while i < len(lines):
        text = texts[i]
        if len(text) > 4 and text[0] in "+┌┏╒╔╭" and BORDER.fullmatch(text):
            j = i + 1
            while j < len(lines) and texts[j][:1] in tuple("+|│┃║├┡╞╠└┕╘╚╰┗┠╟"):
                j += 1
            yield from _box(lines[i:j])
            i = max(j, i + 1)
        else:
            i += 1


def _box(block: list[Line]) -> Iterator[Grid]:
    """Yield the table in the lines of one box, if it is one. The first part above a border is the heading."""
    parts: list[list[Line]] = [[]]
    for number, raw in block:
        text = raw.strip()
        if BORDER.fullmatch(text) and not re.search(r"\w", text):
            if parts[-1]:
                parts.append([])
        elif "|" in text.translate(BARS):
            parts[-1].append((number, text))
    parts = [p for p in parts if p]
    if len(parts) < 2:
        return
    head, *body = parts
    header = _joined(head)
    first_line, _ = head[0]
    ruled = len(body) > 1 or len(body[0]) == 1  # a line between any two rows: a row may have several lines
    # Further lines of a row only continue it: some of their cells are empty.
    if ruled and all("" in pipe_cells(text) for part in body for _, text in part[1:]):
        rows = [(part[0][0], _joined(part)) for part in body]
    else:
        rows = [(number, pipe_cells(text)) for part in body for number, text in part]
    if len(header) >= 2:
        yield Grid("table in a box", first_line, header, rows[:MOST_ROWS], cut_off=len(rows) > MOST_ROWS)


def _joined(part: list[Line]) -> list[str]:
    """Return the cells of a row that takes several lines, those of each column joined."""
    cells = [pipe_cells(text) for _, text in part]
    width = max(map(len, cells))
    return [" ".join(c[k] for c in cells if k < len(c) and c[k]).strip() for k in range(width)]


def ruled_tables(lines: list[Line]) -> Iterator[Grid]:
    """Yield reStructuredText's simple tables: columns under runs of "=", also as tabulate's "simple" with "-"."""
    texts = [text for _, text in lines]
    rules = [i for i, text in enumerate(texts) if RULE.fullmatch(text.strip()) and len(text.strip()) > 6]
    end = -1  # of the table before
    for k, i in enumerate(rules):
        if i <= end or (i == 0 and not texts[i].strip().startswith("=")):
            continue
        spans = _rule_spans(texts[i])
        following = [r for r in rules[k + 1 : k + 3] if _rule_spans(texts[r]) == spans]
        if following and following[0] - i <= 4:  # headings between two rules
            top, start = i + 1, following[0]
            header = _header_of(lines[top:start], spans)
        else:  # one line of headings above a rule
            top, start = max(i - 1, 0), i
            header = _columns_at(texts[top], spans)
        rows: list[tuple[int, list[str]]] = []
        j = start + 1
        while j < len(lines) and texts[j].strip() and not RULE.fullmatch(texts[j].strip()) and len(rows) < MOST_ROWS:
            number, text = lines[j]
            rows.append((number, _columns_at(text, spans)))
            j += 1
        if len(spans) >= 2 and rows and any(header):
            first_line, _ = lines[top]
            yield Grid("reStructuredText table", first_line, header, rows)
            end = j


def _rule_spans(rule: str) -> list[tuple[int, int]]:
    """(start, end) of each run of "=" or "-"."""
    return [m.span() for m in re.finditer(r"[=-]+", rule)]


def _header_of(lines: list[Line], spans: list[tuple[int, int]]) -> list[str]:
    parts = [_columns_at(text, spans) for _, text in lines]
    return [" ".join(p[k] for p in parts if p[k]) for k in range(len(spans))]


def _columns_at(text: str, spans: list[tuple[int, int]]) -> list[str]:
    starts = [a for a, _ in spans]
    ends = [*starts[1:], len(text) + 1]
    return [text[a:b].strip() for a, b in zip(starts, ends, strict=True)]


def right_aligned_tables(lines: list[Line]) -> Iterator[Grid]:
    """Yield tables of pandas' `to_string(index=False)`: words without spaces, the right edges of columns in line."""
    i = 0
    while i + 2 < len(lines):
        first_line, text = lines[i]
        words = text.split()
        j = i + 1
        if len(words) >= 3 and not any(_FIGURE.fullmatch(word) for word in words):
            edges = _right_edges(text)
            while j < len(lines) and j - i <= MOST_ROWS and _right_edges(lines[j][1]) == edges:
                j += 1
        rows = [(number, text.split()) for number, text in lines[i + 1 : j]]
        figures = sum(bool(_FIGURE.fullmatch(word)) for _, cells in rows for word in cells)
        if len(rows) >= 2 and 2 * figures >= len(rows) * len(words):
            yield Grid("text table", first_line, words, rows)
        i = j


def _right_edges(text: str) -> list[int]:
    return [m.end() for m in re.finditer(r"\S+", text.expandtabs())]


_FIGURE = re.compile(r"[-+~]?[\d.,]*\d[\d.,]*(?:e[-+]?\d+)?(?:%|x|×|ms|s|GB|MB|K|M|B)?|nan|NaN|-|N/A|OOM", re.I)


def aligned_tables(lines: list[Line]) -> Iterator[Grid]:
    """Yield tables set with spaces, as pandas prints them: rows of figures below one to three lines of headings."""
    texts = [text for _, text in lines]
    i = 0
    while i < len(lines):
        # _may_be_row is cheap, and ends most lines before they are split
        fields = _fields(texts[i]) if _may_be_row(texts[i]) else []
        if not _is_row(fields):
            i += 1
            continue
        j = i + 1
        while j < len(lines) and j - i < MOST_ROWS:
            further = _fields(texts[j])
            if len(further) != len(fields) or not _is_row(further):
                break
            j += 1
        if grid := _aligned(lines, i, j):
            yield grid
        i = j


def _may_be_row(text: str) -> bool:
    """Whether two words of a line, or more, begin like a figure; most lines of logs and documents end here."""
    words = text.split()
    begin = [word[0] in FIGURE_STARTS or word.lower() in NO_FIGURES for word in words]
    if sum(begin) < 2:
        return False
    # Words with single spaces between them are one field, but for figures at their end.
    one_field = text.isascii() and "\t" not in text and "  " not in text.strip()
    return not one_field or (begin[-1] and begin[-2])


FIGURE_STARTS = frozenset("0123456789+-~.,")
NO_FIGURES = frozenset(("nan", "n/a", "oom"))
Field = tuple[str, int, int]  # text, and the columns where it starts and ends


def _fields(text: str) -> list[Field]:
    """Return the fields of a line, set apart by two spaces or more; words with single spaces are one field if the first
    of them is no figure.
    """
    fields = []
    for m in re.finditer(r"\S+(?: (?! )\S+)*", text.expandtabs()):
        words = m[0].split(" ")
        figures = [bool(_FIGURE.fullmatch(w)) for w in words]
        cut = next((k for k in range(len(words)) if all(figures[k:]) and len(words) - k > 1), len(words))
        at = m.start()
        head = " ".join(words[:cut])
        if head:
            fields.append((head, at, at + len(head)))
            at += len(head) + 1
        for word in words[cut:]:
            fields.append((word, at, at + len(word)))
            at += len(word) + 1
    return fields


def _is_row(fields: list[Field]) -> bool:
    """Whether fields are a row of a table: two or more, of which at least half, and two, are figures."""
    if len(fields) < 2 or len(fields) > WIDEST:
        return False
    figures = [bool(_FIGURE.fullmatch(f)) for f, _, _ in fields]
    return sum(figures) >= 2 and sum(figures) * 2 >= len(fields) and any(re.search(r"\d", f) for f, _, _ in fields[1:])


def _aligned(lines: list[Line], first: int, last: int) -> Grid | None:
    """Return the table whose rows are `lines[first:last]`, with the headings above them; None where there are none."""
    rows = [_fields(text) for _, text in lines[first:last]]
    columns = list(zip(*rows, strict=True))
    spans = [(min(start for _, start, _ in column), max(end for _, _, end in column)) for column in columns]
    above: list[Line] = []
    k = first - 1
    while k >= 0 and len(above) < 4 and _may_be_headings(lines[k][1]):
        number, text = lines[k]
        if not re.fullmatch(r"[\s=\-+─]+", text):
            above.insert(0, (number, text))
        k -= 1
    header = _aligned_header(above, spans)
    if header is None:
        return None
    numbers = [number for number, _ in lines[first:last]]
    body = [(number, [text for text, _, _ in fields]) for number, fields in zip(numbers, rows, strict=True)]
    first_line, _ = above[0]
    return Grid("text table", first_line, header, body)


def _may_be_headings(text: str) -> bool:
    """Whether a line above a table may have headings of columns: it is not empty, and no Markdown."""
    start = text.lstrip()
    if not start or start.startswith(("```", "|", "[")):
        return False
    return not start.startswith("#") or len(_fields(text)) >= 3  # "# GPUs", with others beside it, is a heading


def _aligned_header(above: list[Line], spans: list[tuple[int, int]]) -> list[str] | None:
    """Return a heading for each column (`spans`: where it starts and ends) by the lines above; None without headings.

    Of two levels the upper one holds for the columns right of it, too, until the next.
    """
    levels: list[list[str]] = []
    index_names: dict[int, str] = {}
    for n, (_, text) in enumerate(above):
        tokens = [(m[0], m.start(), m.end()) for m in re.finditer(r"\S+(?: (?! )\S+)*", text.expandtabs())]
        is_alone = len(tokens) == 1 and len(spans) > 2
        left, _ = spans[0]
        if is_alone and n and tokens[0][1] <= left:
            # pandas prints the names of the index on a line of their own
            for name in re.finditer(r"\S+", text.expandtabs()):
                index_names[_column_at(name.start(), name.end(), spans)] = name[0]
            continue
        if is_alone or len(tokens) > len(spans) + 1:
            levels = []  # a title or a sentence: the headings are below it
            continue
        level = [""] * len(spans)
        if len(tokens) < len(spans) - 1:
            tokens = [(m[0], m.start(), m.end()) for m in re.finditer(r"\S+", text.expandtabs())]
        for word, start, end in tokens:
            at = _column_at(start, end, spans)
            level[at] = f"{level[at]} {word}".strip()
        levels.append(level)
    if not levels or sum(map(bool, levels[-1])) < 2:
        return None
    for level in levels[:-1]:
        for k in range(1, len(level)):
            level[k] = level[k] or level[k - 1]
    header = [" ".join(dict.fromkeys(level[k] for level in levels if level[k])) for k in range(len(spans))]
    return [heading or index_names.get(k, "") for k, heading in enumerate(header)]


def _column_at(start: int, end: int, spans: list[tuple[int, int]]) -> int:
    """Return the column that a heading from `start` to `end` overlaps most, else the one whose edge is nearest."""

    def distance(k: int) -> tuple[int, int]:
        left, right = spans[k]
        overlap = min(end, right) - max(start, left)
        return -max(overlap, 0), min(abs(end - right), abs(start - left))

    return min(range(len(spans)), key=distance)
