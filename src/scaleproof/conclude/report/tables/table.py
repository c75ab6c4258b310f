"""A table as its three files: CSV with plain numbers, Markdown and LaTeX for people.

The LaTeX table is a float over both columns of a paper, with booktabs, a caption, a label and notes.
"""

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from scaleproof.ground.files import write_atomic
from scaleproof.ground.number_format import in_unit
from scaleproof.ground.records.result_file import Estimated

UNDECIDED = "~: the interval contains 1, so a difference is undecided."  # of the marks that `mark_undecided` sets
HEADER = "% Needs \\usepackage{booktabs}; a float over both columns of a two-column page."
HEADING_WIDTH = 11  # characters; longer headings are broken between words
CELL_WIDTH = 24  # characters; longer cells are broken, too (in tables with MANY columns, cells beyond HEADING_WIDTH)
MANY = 9  # columns that need smaller letters
PAGE_PT = 465  # width of both columns of an article
LETTER_PT = 3.9  # mean width of a letter in \footnotesize
# Sign, after escaping by pandas -> what pdflatex needs.
TYPOGRAPHIC = {
    "–": "--",
    "\u00a0": "~",
    "…": r"\ldots{}",
    "×": r"$\times$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "≈": r"$\approx$",
    "→": r"$\rightarrow$",
    "\N{MINUS SIGN}": "$-$",
    "\\textasciitilde \\space ": r"\textasciitilde{}~",
    "<": r"$<$",
    ">": r"$>$",
}


def latex_table(table: pd.DataFrame, caption: str, label: str, notes: str = "", numeric: tuple[str, ...] = ()) -> str:
    """Return a `table*` float of text cells; every text is escaped, whatever a title or a reason has in it."""
    sides = ["r" if name in numeric else "l" for name in table.columns]
    is_narrow = len(table.columns) < MANY and _width_pt(table) <= PAGE_PT
    styler = table.map(_one_line).style.hide(axis="index")
    styler = styler.format(escape="latex").format_index(escape="latex", axis="columns")
    body = _replace_unknown_signs(styler.to_latex(column_format="".join(sides), hrules=True)).strip()

    # Each row is one line of `body`. Long headings and cells are broken into lines: they decide on the table's width.
    lines = []
    width = HEADING_WIDTH  # of the headings, the first row; changes after it
    for line in body.split("\n"):
        if not line.endswith(r" \\"):  # a rule, or the environment
            lines.append(line)
            continue
        entries = zip(line.removesuffix(r" \\").split(" & "), sides, strict=True)
        lines.append(" & ".join(_break_into_lines(entry, side, width) for entry, side in entries) + r" \\")
        width = CELL_WIDTH if is_narrow else HEADING_WIDTH
    if notes:
        minipage = rf"\begin{{minipage}}{{\textwidth}}\footnotesize {escape_latex(notes)}\end{{minipage}}"
        lines.append(rf"\par\smallskip{minipage}")

    size, gap = ("footnotesize", 3) if is_narrow else ("scriptsize", 2)
    beginning = [
        HEADER,
        r"\begin{table*}",
        rf"\centering\{size}\setlength{{\tabcolsep}}{{{gap}pt}}",
        rf"\caption{{{escape_latex(caption)}}}\label{{tab:{label}}}",
    ]
    return "\n".join([*beginning, *lines, r"\end{table*}"]) + "\n"


def _width_pt(table: pd.DataFrame) -> float:
    """Return about how many points wide a table is in \\footnotesize, its headings and cells broken into lines."""
    widths = []
    for heading in table.columns:
        lines = [line for cell in table[heading] for line in textwrap.wrap(_one_line(cell), CELL_WIDTH)]
        widths.append(max(map(len, [*textwrap.wrap(heading, HEADING_WIDTH), *lines]), default=0))
    return LETTER_PT * sum(widths) + 6 * len(widths)  # 3 points on both sides of each column


def _break_into_lines(text: str, side: str, width: int) -> str:
    """Return a text as LaTeX, broken into several lines where it is longer than `width`. `side`: "l" or "r"."""
    unbroken_unit = text.replace(r"(95 \%)", r"(95~\%)")  # "~": no line break within the unit
    # A command such as \textasciitilde counts as nothing.
    printed_length = len(re.sub(r"\\text\w+", "", unbroken_unit))
    if printed_length <= width:
        return text
    lines = textwrap.wrap(unbroken_unit, width, break_long_words=False, break_on_hyphens=False)
    if len(lines) < 2:  # one long word
        return text
    stack = r" \\{} ".join(lines)  # {}: a line may begin with a bracket, which would be a length
    return rf"\shortstack[{side}]{{{stack}}}"


def escape_latex(text: str) -> str:
    """Return `text` on one line, with every special character of LaTeX escaped."""
    cell = pd.DataFrame([[_one_line(text)]]).style.format(escape="latex").hide(axis="index").hide(axis="columns")
    line = cell.to_latex(column_format="l").split("\n")[1]
    return _replace_unknown_signs(line.removesuffix(r" \\"))


def _one_line(text: object) -> str:
    """Return the text with a space for each line break or other control character."""
    return "".join(letter if letter.isprintable() or letter == "\u00a0" else " " for letter in str(text))


def _replace_unknown_signs(text: str) -> str:
    """Return the text with LaTeX commands for the signs that pdflatex does not know."""
    for character, replacement in TYPOGRAPHIC.items():
        text = text.replace(character, replacement)
    return text


def mark_undecided(texts: pd.DataFrame, ratios: Mapping[str, Sequence[Estimated | None]]) -> pd.DataFrame:
    """Return the table with "~" before each ratio whose interval contains 1. `ratios`: heading -> ratio of each row."""

    def marked(heading: str) -> list[str]:
        pairs = zip(texts[heading], ratios[heading], strict=True)
        return [f"~ {text}" if ratio and ratio.spans() else text for text, ratio in pairs]

    return texts.assign(**{heading: marked(heading) for heading in ratios if heading in texts})


@dataclass(frozen=True)
class Table:
    """A table with its captions. `plain`: the rows for programs. `human`: the rows as people read them.

    `none`: what stands in place of no rows. `numeric`: columns of LaTeX that stand on the right. `narrow`: the columns
    that fit a page, where not all do.
    """

    name: str
    plain: pd.DataFrame
    human: pd.DataFrame
    caption: str
    label: str
    numeric: Sequence[str] = ()
    narrow: Sequence[str] | None = None
    below: Sequence[str] = ()  # paragraphs below the Markdown table
    notes: str = ""  # of the LaTeX table
    none: str = ""
    unit: str = "tokens"  # of the work in its rates

    def write(self, folder: Path) -> None:
        """Write `folder`/`name`.csv, .md and .tex; the last has the columns that fit a page."""
        write_atomic(folder / f"{self.name}.csv", self.plain.to_csv(index=False))
        if self.human.empty and self.none:
            write_atomic(folder / f"{self.name}.md", f"{self.none}\n")
            write_atomic(folder / f"{self.name}.tex", f"% {self.none}\n")
            return
        markdown = self.human.to_markdown(index=False, disable_numparse=True)
        text = "\n\n".join([markdown, *self.below]) + "\n"
        write_atomic(folder / f"{self.name}.md", in_unit(text, self.unit))
        fitting = self.human if self.narrow is None else self.human[list(self.narrow)]
        tex = latex_table(fitting, self.caption, self.label, self.notes, tuple(self.numeric))
        write_atomic(folder / f"{self.name}.tex", in_unit(tex, self.unit))
