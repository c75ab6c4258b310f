"""A table as its three files: CSV with plain numbers, Markdown and LaTeX for people."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from scaleproof.conclude.report.tables.latex import latex
from scaleproof.ground.files import write_atomic
from scaleproof.ground.number_format import in_unit


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
        tex = latex(fitting, self.caption, self.label, self.notes, tuple(self.numeric))
        write_atomic(folder / f"{self.name}.tex", in_unit(tex, self.unit))
