"""Tables for a LaTeX paper: a float over both columns, with booktabs, a caption, a label and notes."""

import pandas as pd

HEADER = "% Needs \\usepackage{booktabs}; a float over both columns of a two-column page."
# After escaping by pandas: what pdflatex wants otherwise.
TYPOGRAPHIC = {"–": "--", "\u00a0": "~", "×": r"$\times$", "≥": r"$\geq$", "≤": r"$\leq$", "…": r"\ldots{}"}


def latex(table: pd.DataFrame, caption: str, label: str, notes: str = "", numeric: tuple[str, ...] = ()) -> str:
    """A `table*` float of text cells; every text is escaped, whatever a title or a reason has in it.

    `numeric`: columns that stand on the right.
    """
    columns = "".join("r" if name in numeric else "l" for name in table.columns)
    plain = table.map(_one_line).style.hide(axis="index")
    plain = plain.format(escape="latex").format_index(escape="latex", axis="columns")
    body = _typographic(plain.to_latex(column_format=columns, hrules=True)).strip()
    note = rf"\par\smallskip\begin{{minipage}}{{\textwidth}}\footnotesize {escaped(notes)}\end{{minipage}}"
    lines = [
        HEADER,
        r"\begin{table*}",
        r"\centering\footnotesize\setlength{\tabcolsep}{4pt}",
        rf"\caption{{{escaped(caption)}}}\label{{tab:{label}}}",
        body,
        *([note] if notes else []),
        r"\end{table*}",
    ]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """`text` on one line, every special character of LaTeX escaped."""
    cell = pd.DataFrame([[_one_line(text)]]).style.format(escape="latex").hide(axis="index").hide(axis="columns")
    line = cell.to_latex(column_format="l").split("\n")[1]
    return _typographic(line.removesuffix(r" \\"))


def _one_line(text: object) -> str:
    """Without line breaks and other control characters."""
    return "".join(c if c.isprintable() or c == "\u00a0" else " " for c in str(text))


def _typographic(text: str) -> str:
    for character, replacement in TYPOGRAPHIC.items():
        text = text.replace(character, replacement)
    return text
