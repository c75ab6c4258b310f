"""The page of five published benchmarks."""

import re

import pytest

from scaleproof.auditor.case_studies import case_studies_html, case_studies_markdown, read_case_study
from scaleproof.auditor.read.case_studies import write_case_study

ORDER = ("h100", "agnews", "l4", "v100", "nodes")  # of workflow/rules/case_studies.smk


@pytest.fixture(scope="module")
def benchmarks(tmp_path_factory, request):
    root, config = tmp_path_factory.mktemp("case_studies"), request.config.rootpath / "config/case_studies"
    for name in ORDER:
        write_case_study(config / f"{name}.yaml", root / name)
    return [read_case_study(config / f"{name}.yaml", root / name) for name in ORDER]


def test_the_document_is_what_the_pipeline_makes(benchmarks, repository):
    text = (repository / "docs/five-benchmarks.md").read_text()
    assert text == case_studies_markdown(benchmarks), "copy results/case-studies/case-studies.md to docs/"
    assert all(f'"{name}"' in (repository / "workflow/rules/case_studies.smk").read_text() for name in ORDER)


def row(benchmarks, name, claim):
    (found,) = [r for b in benchmarks if b.name == name for r in b.rows if r.claim == claim]
    return found


def test_claims_stand_beside_what_the_files_say(benchmarks):
    headline = row(benchmarks, "agnews", "speed-up of exp042 over exp041")
    assert (headline.published, headline.files, headline.corrected) == (
        "0.46",
        "0.461",
        "1.845x",
    )
    assert row(benchmarks, "h100", "tokens/s of zs0_fp16_gpus1_bs32_sl128").corrected == "115,869 tokens/s"
    assert row(benchmarks, "nodes", "bucket200_300 over accum2_300").files == "+19.47%"
    assert row(benchmarks, "v100", "speed-up of v100/4gpu over v100/1gpu").files == "3.405"
    assert row(benchmarks, "agnews", "speed-up of exp021 over exp020").findings == []


def test_every_link_of_the_pages_leads_somewhere(benchmarks, repository):
    page = case_studies_html(benchmarks)
    anchors = re.findall(r'id="([^"]+)"', page)
    assert len(anchors) == len(set(anchors))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(anchors)
    headings = set(re.findall(r"^## (.+)$", (repository / "docs/findings.md").read_text(), re.MULTILINE))
    assert set(re.findall(r"\(findings\.md#([^)]+)\)", case_studies_markdown(benchmarks))) <= headings


def test_the_same_figures_make_the_same_files(benchmarks, tmp_path, repository):
    for n in ("a", "b"):
        write_case_study(repository / "config/case_studies/agnews.yaml", tmp_path / n)
    files = sorted(p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*.csv"))
    assert files
    assert all((tmp_path / "a" / p).read_bytes() == (tmp_path / "b" / p).read_bytes() for p in files)
