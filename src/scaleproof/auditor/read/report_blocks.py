"""Reports of programs in plain text: blocks of `Name: figure unit` lines, each below a title."""

import re

from scaleproof.auditor.read.grids import Grid, Line
from scaleproof.auditor.read.headings import NOT_FIGURES, column_of
from scaleproof.auditor.read.kinds import RESULTS
from scaleproof.auditor.read.printed_figures import figures_of, plain_text

PAIR = re.compile(
    r"[\s>*+\-•✓✅|]*(?:\*\*)?([A-Za-z][\w /().%#-]{1,60}?)(?:\*\*)?\s*(?::|=|\.{3,})\s*(?:\*\*)?\s*(\S.{0,100}?)\s*$"
)
INLINE = re.compile(
    r"([A-Za-z][\w /().%#-]{1,50}?)\s*[:=]\s*([~≈<>]?[-+]?\d[\d.,]*(?:e[-+]?\d+)?\s*(?:%|"
    r"[A-Za-zµ×][\w/×]{0,18})?)(?=[,;|\s]|$)"
)
RULE = re.compile(r"\s*([=\-*#~_─━═])\1{3,}\s*")
PLAUSIBLE = re.compile(r"[:=.].*\S")
# What was run for the figures below it.
COMMAND = re.compile(r"(?:\$ ?)?(?:\w+=\S+ )*(?:python3?|torchrun|bash|sh|srun|sbatch|accelerate|deepspeed|mpirun) \S")
LEAST = 2  # results in a block
LONGEST_TITLE = 120


def report_blocks(lines: list[Line], least: int = LEAST) -> list[Grid]:
    """Return one grid of a text's blocks: a row a block, a column a name. [] where no block has `least` results."""
    blocks: list[tuple[int, str, dict[str, str]]] = []
    current: dict[str, str] = {}
    title, start = "", 1
    for number, raw in lines:
        text = raw.strip()
        if not text or RULE.fullmatch(text):
            continue
        pairs = _pairs(text)
        if not pairs:
            if (heading := _title(text)) is not None:
                _close(blocks, start, title, current, least)
                current = {}
                title = heading
                start = number
            continue
        begins = _begins(pairs)
        if begins or any(name in current for name, _ in pairs):
            _close(blocks, start, title, current, least)
            current = {}
            if begins:
                _, title = pairs[0]
        if not current:
            start = number
        for name, value in pairs:
            current.setdefault(name, value)
    _close(blocks, start, title, current, least)
    if not blocks:
        return []
    names = list(dict.fromkeys(name for _, _, values in blocks for name in values))
    rows = [(line, [head, *(values.get(name, "") for name in names)]) for line, head, values in blocks]
    return [Grid("report text", blocks[0][0], ["Configuration", *names], rows)]


def _close(
    blocks: list[tuple[int, str, dict[str, str]]], line: int, title: str, values: dict[str, str], least: int
) -> None:
    """Add a block that ends, if it has `least` results."""
    results = [name for name, value in values.items() if column_of(name).kind in RESULTS and figures_of(value)]
    if len(results) >= least:
        blocks.append((line, title, values))


def _begins(pairs: list[tuple[str, str]]) -> bool:
    """Whether names and values begin a block, like `Configuration: 4 GPUs`."""
    name, value = pairs[0]
    return column_of(name).kind == "run" and not figures_of(value)


def _pairs(text: str) -> list[tuple[str, str]]:
    """Return the (name, value) of a line that are understood: one for `Name: figure`, several for `a=1, b=2`."""
    if len(text) > 400 or not PLAUSIBLE.search(text) or "|" in text.strip("|"):
        return []
    cleaned = plain_text(text.lstrip("-•*+> ").rstrip(" \\"))  # a backslash at the end breaks the line in Markdown
    separated = ":" in cleaned or "=" in cleaned
    several = [(m[1].strip(), m[2].strip()) for m in INLINE.finditer(cleaned)] if separated else []
    understood = [(name, value) for name, value in several if column_of(name).kind is not None]
    if len(understood) >= 2:
        return understood
    m = PAIR.fullmatch(cleaned) if separated or "..." in cleaned else None
    if m is None:
        return understood
    kind = column_of(m[1]).kind
    if kind is None or (kind not in NOT_FIGURES and not figures_of(m[2]) and not re.match(r"[~≈<>]?[-+]?\d", m[2])):
        return understood
    return [(m[1].strip(), m[2])]


def _title(text: str) -> str | None:
    """Return a line that names what follows, without markup; None for a sentence, a command or a line of a log."""
    cleaned = plain_text(text).strip("#=-*[] :")
    if COMMAND.match(cleaned):
        return None
    if re.search(r"[:=]\s*[~<>]?\d", cleaned):
        return None  # a figure of some other kind
    if cleaned.endswith((".", "!", ",", ";")) or text.startswith(("- ", "* ", "|", "$")):
        return None
    if not cleaned or len(cleaned) > LONGEST_TITLE:
        return None
    return cleaned if len(cleaned.split()) <= 14 else None
