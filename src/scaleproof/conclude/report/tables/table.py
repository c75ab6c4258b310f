"""A table as its three files: CSV with plain numbers, Markdown and LaTeX for people.

That for a LaTeX paper is a float over both columns, with booktabs, a caption, a label and notes.
"""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from scaleproof.ground.files import write_atomic
from scaleproof.ground.number_format import in_unit

HEADER = "% Needs \\usepackage{booktabs}; a float over both columns of a two-column page."
HEADING_WIDTH = 11  # characters; longer headings are broken between words
MANY = 9  # columns that need smaller letters
# After escaping by pandas: what pdflatex wants otherwise.
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
    "<": r"$<$",
    ">": r"$>$",
}


def latex_table(table: pd.DataFrame, caption: str, label: str, notes: str = "", numeric: tuple[str, ...] = ()) -> str:
    """Return a `table*` float of text cells; every text is escaped, whatever a title or a reason has in it.

    `notes`: text below the table. `numeric`: columns that stand on the right.
    """
    sides = ["r" if name in numeric else "l" for name in table.columns]
    plain = table.map(_one_line).style.hide(axis="index")
    plain = plain.format(escape="latex").format_index(escape="latex", axis="columns")
    body = _for_pdflatex(plain.to_latex(column_format="".join(sides), hrules=True)).strip()
    # The headings stand in one line between these rules; long ones are broken into several lines.
    start = body.index("\\toprule\n") + len("\\toprule\n")
    end = body.index(" \\\\\n\\midrule")
    headings = zip(body[start:end].split(" & "), sides, strict=True)
    body = body[:start] + " & ".join(_stack_heading(*heading) for heading in headings) + body[end:]
    note = rf"\par\smallskip\begin{{minipage}}{{\textwidth}}\footnotesize {escaped(notes)}\end{{minipage}}"
    size, gap = ("footnotesize", 3) if len(table.columns) < MANY else ("scriptsize", 2)
    lines = [
        HEADER,
        r"\begin{table*}",
        rf"\centering\{size}\setlength{{\tabcolsep}}{{{gap}pt}}",
        rf"\caption{{{escaped(caption)}}}\label{{tab:{label}}}",
        body,
        *([note] if notes else []),
        r"\end{table*}",
    ]
    return "\n".join(lines) + "\n"


def _stack_heading(heading: str, side: str) -> str:
    """Return a long heading on several lines: tables are as wide as their headings otherwise. `side`: "l" or "r"."""
    whole = heading.replace(r"[95 \%]", r"[95~\%]")
    lines = textwrap.wrap(whole, HEADING_WIDTH, break_long_words=False, break_on_hyphens=False)
    stack = r" \\{} ".join(lines)  # {}: a line may begin with a bracket, which would be a length
    return heading if len(lines) < 2 else rf"\shortstack[{side}]{{{stack}}}"


def escaped(text: str) -> str:
    """`text` on one line, every special character of LaTeX escaped."""
    cell = pd.DataFrame([[_one_line(text)]]).style.format(escape="latex").hide(axis="index").hide(axis="columns")
    line = cell.to_latex(column_format="l").split("\n")[1]
    return _for_pdflatex(line.removesuffix(r" \\"))


def _one_line(text: object) -> str:
    """Return the text with a space for each line break or other control character."""
    return "".join(letter if letter.isprintable() or letter == "\u00a0" else " " for letter in str(text))


def _for_pdflatex(text: str) -> str:
    """Return the text with signs that pdflatex lacks as its commands."""
    for character, replacement in TYPOGRAPHIC.items():
        text = text.replace(character, replacement)
    return text


@dataclass(frozen=True)
class Table:
    """`plain`: the rows for programs; `human`: as people read them; `none`: what stands in place of no rows.

    `numeric`: columns of LaTeX that stand on the right. `narrow`: those that fit a page, where these are not all.
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
