"""report.pdf: a short paper of a campaign, set by Typst.

Typst and not LaTeX: it comes as one wheel with its fonts, needs nothing installed, and takes its data as JSON, so that
a title or a reason of a failure is text and never markup.
"""

import json
from importlib import resources
from pathlib import Path
from typing import Any

import matplotlib
import typst

from scaleproof.conclude.report.chart_catalog import CATALOG
from scaleproof.conclude.report.page import group_findings
from scaleproof.conclude.report.page_facts import PageInputs
from scaleproof.conclude.report.page_tables import cells_view
from scaleproof.conclude.report.sentences.answer import answer_campaign
from scaleproof.conclude.report.tables.cells import split_shared_codes
from scaleproof.ground.chart_words import CHART_WORDS
from scaleproof.ground.files import whole_file
from scaleproof.ground.findings.registry import by_severity
from scaleproof.ground.number_format import in_unit

CHARTS = ("ranking", "throughput", "loss_seconds", "memory")
MOST_FINDINGS = 12


def write_paper(inputs: PageInputs, out: Path) -> None:
    """Write the paper to `out`; the same results make the same bytes."""
    template = resources.files("scaleproof.conclude.report") / "templates" / "paper.typ"
    drawn = [name for name in CHARTS if name in inputs.drawn]
    charts = [name for name in drawn if CATALOG[name].has_content(inputs.cells, inputs.report)]
    texts = json.dumps(_paper_texts(inputs, charts))
    # Typst reads no file outside of its root, the campaign's folder: so the template is copied there and removed after.
    source = inputs.charts.parent / ".paper.typ"
    source.write_text(template.read_text(encoding="utf-8"), encoding="utf-8")
    try:
        pdf = typst.compile(
            str(source),
            root=str(inputs.charts.parent),
            font_paths=[str(Path(matplotlib.get_data_path()) / "fonts" / "ttf")],
            sys_inputs={"data": in_unit(inputs.without_hosts(texts), inputs.report.unit)},
            timestamp=0,
        )
    finally:
        source.unlink()
    with whole_file(out) as part:
        part.write_bytes(pdf)


def _paper_texts(inputs: PageInputs, charts: list[str]) -> dict[str, Any]:
    """Return all texts and rows that the paper's template is filled with, by name. `charts`: names of its charts."""
    conclusion = answer_campaign(inputs.report, inputs.comparisons, inputs.forecast, inputs.remarks)
    facts = inputs.facts
    groups = group_findings(by_severity(inputs.findings.findings), set(inputs.cells["cell"]))
    findings = [
        {"severity": group.severity, "code": group.code, "where": same.where, "evidence": same.evidence}
        for group in groups
        for same in group.occurrences
    ]
    table = cells_view(inputs.cells, inputs.report)
    first_columns = [index for index, column in enumerate(table.columns) if column.first]  # more do not fit on paper
    labels = [table.columns[index].label.replace("(95 %)", "(95\u00a0%)") for index in first_columns]
    shared, own_codes = split_shared_codes([row.findings for row in table.rows])
    constants = [*table.constant, *([("findings", " ".join(shared))] if shared else [])]
    rows = []
    for row, codes in zip(table.rows, own_codes, strict=True):
        texts = [row.figures[index].text for index in first_columns]
        rows.append([row.cell, *texts, " ".join(codes) or "–"])
    return {
        "title": inputs.report.title,
        "campaign": inputs.report.campaign,
        "folder": inputs.report.folder,
        "verdict": conclusion.verdict,
        "bullets": [bullet.sentence for bullet in conclusion.bullets],
        "when": facts.when,
        "machine": facts.machine,
        "file": inputs.campaign_file,
        "header": ["cell", *labels, "findings"],
        "rows": rows,
        "constant": ", ".join(f"{name} {value}" for name, value in constants),
        "charts": [{"path": f"charts/{name}.svg", "caption": ". ".join(CHART_WORDS[name])} for name in charts],
        "findings": findings[:MOST_FINDINGS],
        "more_findings": max(0, len(findings) - MOST_FINDINGS),
        "checks": len(inputs.findings.checks),
        "protocol": facts.protocol,
        "environment": facts.environment,
        "references": REFERENCES,
    }


REFERENCES = [
    "Hoefler, Belli: Scientific Benchmarking of Parallel Computing Systems, SC 2015 (intervals, what to report).",
    "Amdahl, AFIPS 1967; Gustafson, CACM 31(5), 1988; Karp, Flatt, CACM 33(5), 1990 (laws of scaling).",
    "Rajbhandari et al.: ZeRO, SC 2020 (model of the memory).",
    "Chowdhery et al.: PaLM, appendix B, 2022 (FLOPs per token).",
]
