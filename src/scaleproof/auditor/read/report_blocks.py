"""Reports in plain text: blocks of `Name: figure unit` below a title."""

import re
from dataclasses import dataclass, field

from scaleproof.auditor.read.grids import Grid, Line
from scaleproof.auditor.read.headings import NOT_FIGURES, column_of
from scaleproof.auditor.read.printed_figures import RESULTS, figures_of, plain_text

NAME_AND_FIGURE = re.compile(
    r"[\s>*+\-•✓✅|]*(?:\*\*)?([A-Za-z][\w /().%#-]{1,60}?)(?:\*\*)?\s*(?::|=|\.{3,})\s*(?:\*\*)?\s*(\S.{0,100}?)\s*$"
)
NAMES_AND_FIGURES = re.compile(
    r"([A-Za-z][\w /().%#-]{1,50}?)\s*[:=]\s*([~≈<>]?[-+]?\d[\d.,]*(?:e[-+]?\d+)?\s*(?:%|"
    r"[A-Za-zµ×][\w/×]{0,18})?)(?=[,;|\s]|$)"
)
RULE = re.compile(r"\s*([=\-*#~_─━═])\1{3,}\s*")
MAY_HAVE_PAIRS = re.compile(r"[:=.].*\S")
# What was run for the figures below it.
COMMAND = re.compile(r"(?:\$ ?)?(?:\w+=\S+ )*(?:python3?|torchrun|bash|sh|srun|sbatch|accelerate|deepspeed|mpirun) \S")
LEAST_RESULTS = 2  # results in a block
LONGEST_LINE = 400  # characters, of a title or of pairs
LONGEST_TITLE = 120  # characters
MOST_TITLE_WORDS = 14


def report_blocks(lines: list[Line], least: int = LEAST_RESULTS) -> list[Grid]:
    """Return the blocks with `least` results or more as one grid: a row for each, a column for each name. Else []."""
    blocks = [block for block in _blocks_of_pairs(lines) if block.number_of_results >= least]
    if not blocks:
        return []
    names = list(dict.fromkeys(name for block in blocks for name in block.values))
    rows = [(block.line, [block.title, *(block.values.get(name, "") for name in names)]) for block in blocks]
    return [Grid("report text", blocks[0].line, ["Configuration", *names], rows)]


@dataclass
class Block:
    """Names and values below a title."""

    line: int
    title: str
    values: dict[str, str] = field(default_factory=dict)

    @property
    def number_of_results(self) -> int:
        return sum(column_of(name).kind in RESULTS and bool(figures_of(value)) for name, value in self.values.items())


def _blocks_of_pairs(lines: list[Line]) -> list[Block]:
    """Return the blocks of a text. A title, a configuration ("run: a") or a name that comes again begins the next."""
    blocks = [Block(1, "")]
    line_of_pair = -1
    for number, raw in lines:
        text = raw.strip()
        if not text or RULE.fullmatch(text):
            continue
        pairs = _pairs(text)
        title = _title_of_next_block(text, pairs, blocks[-1])
        block = blocks[-1]
        is_below_pair = title is not None and not pairs and number == line_of_pair + 1
        if is_below_pair and all(column_of(name).kind in ("run", "model") for name in block.values):
            block.title = f"{block.title} {title}".strip()  # right below "Model: W8A8" it goes on with the name
        elif title is not None:
            blocks.append(block := Block(number, title))

        line_of_pair = number if pairs else line_of_pair
        if pairs and not block.values:
            block.line = number  # of its first pair, not of its title
        for name, value in pairs:
            block.values.setdefault(name, value)
    return blocks


def _title_of_next_block(text: str, pairs: list[tuple[str, str]], block: Block) -> str | None:
    """Return the title of the block that a line with these pairs begins. None where it goes on with `block`."""
    if not pairs:
        return _title(text) if len(text) <= LONGEST_LINE else None
    first_name, first_value = pairs[0]
    kind = column_of(first_name).kind
    has_known_name = any(name in block.values for name, _ in pairs)
    names_configuration = kind == "run" or (kind == "model" and has_known_name)  # "Configuration: 4 GPUs"
    if names_configuration and not figures_of(first_value) and not first_value.startswith('"'):
        return first_value
    return block.title if has_known_name else None


def _pairs(text: str) -> list[tuple[str, str]]:
    """Return the pairs of a line whose name is understood: ("gpus", "8"), ("loss", "2.3") of "gpus=8; loss=2.3"."""
    if len(text) > LONGEST_LINE or not MAY_HAVE_PAIRS.search(text) or "|" in text.strip("|"):
        return []
    cleaned = plain_text(text.lstrip("-•*+> ").rstrip(" \\"))  # a backslash at the end breaks the line in Markdown
    understood: list[tuple[str, str]] = []
    has_separator = ":" in cleaned or "=" in cleaned
    if has_separator:  # few lines have one, and the pattern is slow
        pairs = [(m[1].strip(), m[2].strip()) for m in NAMES_AND_FIGURES.finditer(cleaned)]
        understood = [(name, value) for name, value in pairs if column_of(name).kind is not None]
    if len(understood) >= 2:
        return understood

    # The line may be one pair, whose value is more than a figure: "GPUs: 8 x A100"
    m = NAME_AND_FIGURE.fullmatch(cleaned) if has_separator or "..." in cleaned else None
    if m is None:
        return understood
    kind = column_of(m[1]).kind
    value = re.split(r"[ \t]+\w+: ", m[2])[0]  # of "ModelType: OverFeat   Kernels: clnn" the first
    has_value = kind in NOT_FIGURES or figures_of(value) or re.match(r"[~≈<>]?[-+]?\d", value)
    return [(m[1].strip(), value)] if kind is not None and has_value else understood


def _title(text: str) -> str | None:
    """Return the title of the lines that follow, "4 GPUs" of "### 4 GPUs:". None for what is too long or no title."""
    cleaned = plain_text(text).strip("#=-*[] :")
    is_pair = re.search(r'[:=]\s*(?:[~<>]?\d|")', cleaned)
    if COMMAND.match(cleaned) or is_pair or re.search("[{}]", cleaned) or not re.search(r"\w", cleaned):
        return None
    if cleaned.endswith((".", "!", ",", ";")) or text.startswith(("- ", "* ", "|", "$", '"')):
        return None
    is_short = len(cleaned) <= LONGEST_TITLE and len(cleaned.split()) <= MOST_TITLE_WORDS
    return cleaned if cleaned and is_short else None
