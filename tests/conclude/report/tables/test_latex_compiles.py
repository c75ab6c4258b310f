"""Every tables/*.tex compiles, in a two-column page with booktabs and nothing else, whatever stands in a title."""

import re
import shutil
import subprocess

import pandas as pd
import pytest
from patience import HANGS
from result_models import comparison, comparisons, forecast_row, paired

from scaleproof.conclude.analysis.waterfall import waterfall_report
from scaleproof.conclude.report.read_results import read_inputs
from scaleproof.conclude.report.tables.cells import write_tables
from scaleproof.conclude.report.tables.comparison import write_comparison
from scaleproof.conclude.report.tables.forecast import write_forecast
from scaleproof.conclude.report.tables.scaling import write_series
from scaleproof.conclude.report.tables.table import latex_table, mark_undecided
from scaleproof.conclude.report.tables.waterfall import write_waterfall
from scaleproof.ground.records.result_file import Estimated

PAGE = r"""\documentclass[twocolumn]{article}
\usepackage{booktabs}
\begin{document}
%s
\end{document}
"""
TITLE = "50 % of $x_1 & #2 ~ ^ \\input{/etc/passwd} {a} – → ± µs ≤ ü “b” <c> −1"


@pytest.fixture
def pdflatex():
    path = shutil.which("pdflatex")
    if path is None or subprocess.run(["kpsewhich", "booktabs.sty"], capture_output=True).returncode:
        pytest.skip("pdflatex with booktabs is not installed (apt-get install texlive-latex-recommended)")
    return path


def tables(results):
    """The .tex files of a campaign that has every kind of table."""
    folder = results.folder / "tables"
    results.report.title = TITLE
    _, cells, _ = read_inputs(results.folder)
    cells["findings"] = "machine-busy process-starved run-stands-out"
    write_tables(cells, results.report, folder)
    for kind in ("strong", "weak"):
        write_series(results.report, kind, folder)
    write_waterfall(waterfall_report("synthetic", cells, results.report, {}).cells, "synthetic", folder)
    entry = comparison(paired(), name="fused_50%", a="x_1", b="y&z", findings=["machine-busy"])
    write_comparison(comparisons(entry), folder)
    row = forecast_row("ddp-n1x8", 8, 0.02, measured=0.025, construction="model_x")
    write_forecast([row, forecast_row("ddp-n1x8", 8, None, refusal="a_b & 5 %")], "synthetic", folder)
    return sorted(folder.glob("*.tex"))


def test_all_tables_compile_together(results, pdflatex, tmp_path):
    files = tables(results)
    names = [path.stem for path in files]
    assert names == ["comparison", "forecast", "scaling", "strong", "waterfall", "weak"]
    page = tmp_path / "page.tex"
    page.write_text(PAGE % "\n".join(rf"\input{{{path}}}" for path in files), encoding="utf-8")
    words = [pdflatex, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "page.tex"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=HANGS)
    assert done.returncode == 0, re.findall(r"^!.*(?:\n.*){3}", done.stdout, re.MULTILINE) or done.stdout[-500:]
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    wide = [float(points) for points in re.findall(r"Overfull \\hbox \(([\d.]+)pt", done.stdout)]
    assert not [points for points in wide if points > 5], "a table sticks out of the page"


def test_a_ratio_is_marked_where_its_interval_contains_1_and_nowhere_else():
    texts = pd.DataFrame({"speed-up": ["0.9 [0.8, 1.1]", "1.4 [1.2, 1.6]", "–"], "n": ["3"] * 3})
    ratios = [Estimated(value=0.9, low=0.8, high=1.1, n=3), Estimated(value=1.4, low=1.2, high=1.6, n=3), None]
    marked = mark_undecided(texts, {"speed-up": ratios, "not there": ratios})
    assert list(marked["speed-up"]) == ["~ 0.9 [0.8, 1.1]", "1.4 [1.2, 1.6]", "–"]
    tex = latex_table(marked, "", "t")
    assert r"\textasciitilde{}~0.9" in tex
    assert tex.count("textasciitilde") == 1


def test_long_texts_are_broken_between_words_and_short_ones_are_not():
    tex = latex_table(pd.DataFrame({"a": ["ddp"], "findings": ["machine-busy process-starved"]}), "", "t")
    assert r"ddp & \shortstack[l]{machine-busy \\{} process-starved} \\" in tex


@pytest.mark.parametrize(("letters", "size"), [(11, "footnotesize"), (22, "scriptsize")])
def test_letters_are_as_small_as_the_page_needs(letters: int, size: str) -> None:
    table = pd.DataFrame({f"column {n}": ["x" * letters] for n in range(6)})
    assert rf"\centering\{size}" in latex_table(table, "", "t")
