"""report.pdf: whole, the same bytes from the same results, text that is never markup."""

import re
from dataclasses import replace

from scaleproof.conclude.report.page import write_page
from scaleproof.conclude.report.paper import _paper_texts, write_paper
from scaleproof.ground.findings.finding import Finding


def test_the_paper_is_a_pdf_of_a_few_pages(results):
    inputs = results.inputs()
    for name in ("a.pdf", "b.pdf"):
        write_paper(inputs, results.folder / name)
    first, second = ((results.folder / name).read_bytes() for name in ("a.pdf", "b.pdf"))
    assert first.startswith(b"%PDF")
    assert first == second
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", first)) <= 4 or b"ObjStm" in first
    assert not list(results.folder.glob(".*"))


def test_a_title_is_text(results):
    results.report.title = 'one\n#read("/etc/passwd") \\input{x} $x_1 [*a*'
    write_paper(results.inputs(), results.folder / "report.pdf")
    assert (results.folder / "report.pdf").stat().st_size > 10_000


def test_a_campaign_without_numbers_has_a_paper_too(nothing):
    write_paper(nothing.inputs(), nothing.folder / "report.pdf")
    assert (nothing.folder / "report.pdf").read_bytes().startswith(b"%PDF")


def test_an_anonymous_report_names_no_host(results):
    inputs = results.inputs()
    (host,) = {run.metrics.host["hostname"] for run in results.runs}
    texts = {}
    for anonymous in (False, True):
        write_page(replace(inputs, anonymous=anonymous), results.folder / "report.html")
        texts[anonymous] = (results.folder / "report.html").read_text()
        write_paper(replace(inputs, anonymous=anonymous), results.folder / f"{anonymous}.pdf")
    assert (f"<td>{host}</td>" in texts[False], f"<td>{host}</td>" in texts[True]) == (True, False)
    assert "<td>host1</td>" in texts[True]
    assert (results.folder / "True.pdf").read_bytes() != (results.folder / "False.pdf").read_bytes()


def test_what_is_said_of_several_runs_is_printed_once(results):
    runs = [f"ddp-n1x2/rep{k}" for k in (1, 2, 3)]
    same = {"code": "single-run", "severity": "note", "cells": ["ddp-n1x2"], "evidence": "n=1", "advice": "none"}
    results.findings.findings = [Finding(runs=[run], **same) for run in runs]
    texts = _paper_texts(results.inputs(), [])
    assert [(f["where"], f["evidence"]) for f in texts["findings"]] == [("ddp-n1x2/rep1, rep2, rep3", "n=1")]
    results.findings.findings = [Finding(runs=[run], **same | {"evidence": run}) for run in runs]
    assert len(_paper_texts(results.inputs(), [])["findings"]) == 3


def test_a_finding_of_all_rows_stands_once_beside_the_table(results):
    rows = _paper_texts(results.inputs(), [])["rows"]
    cells = [row[0] for row in rows]
    for concerned in (cells, cells[:1]):
        table = results.inputs().cells.assign(findings=["machine-busy" * (cell in concerned) for cell in cells])
        texts = _paper_texts(replace(results.inputs(), cells=table), [])
        are_all = concerned == cells
        assert texts["constant"].endswith(", findings machine-busy") == are_all
        assert [row[-1] for row in texts["rows"]].count("machine-busy") == (0 if are_all else 1)
