"""The page of five published benchmarks."""

import re

import pytest
from case_study_files import FIGURES, write_case_study
from five_benchmarks import ORDER, case_study, page


@pytest.fixture(scope="module")
def benchmarks(tmp_path_factory):
    root = tmp_path_factory.mktemp("case_studies")
    return {name: case_study(name, root) for name in ORDER}


def test_the_document_is_what_the_audits_say(benchmarks, repository):
    text = (repository / "docs/five-benchmarks.md").read_text()
    assert text == page(list(benchmarks.values())), "run: python tests/five_benchmarks.py"


def row(benchmarks, name, claim):
    (found,) = [r for r in benchmarks[name].rows if r.claim == claim]
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


def test_every_link_of_the_page_leads_somewhere(benchmarks, repository):
    headings = set(re.findall(r"^## (.+)$", (repository / "docs/findings.md").read_text(), re.MULTILINE))
    links = set(re.findall(r"\(findings\.md#([^)]+)\)", page(list(benchmarks.values()))))
    assert links
    assert links <= headings


def test_the_same_figures_make_the_same_files(tmp_path):
    for n in ("a", "b"):
        write_case_study(FIGURES / "agnews.yaml", tmp_path / n)
    files = sorted(p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*.csv"))
    assert files
    assert all((tmp_path / "a" / p).read_bytes() == (tmp_path / "b" / p).read_bytes() for p in files)
