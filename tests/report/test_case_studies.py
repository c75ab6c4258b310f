"""The page of five published benchmarks."""

import re

import pytest

from scalebench.importers.case_studies import write_benchmark
from scalebench.report.case_studies import five_html, five_markdown, read_benchmark

ORDER = ("h100", "agnews", "l4", "v100", "nodes")  # of workflow/rules/five.smk


@pytest.fixture(scope="module")
def benchmarks(tmp_path_factory, request):
    root, config = tmp_path_factory.mktemp("five"), request.config.rootpath / "config/five"
    for name in ORDER:
        write_benchmark(config / f"{name}.yaml", root / name)
    return [read_benchmark(config / f"{name}.yaml", root / name) for name in ORDER]


def test_the_document_is_what_the_pipeline_makes(benchmarks, repository):
    text = (repository / "docs/five-benchmarks.md").read_text()
    assert text == five_markdown(benchmarks), "copy results/five-benchmarks/five-benchmarks.md to docs/"
    assert all(f'"{name}"' in (repository / "workflow/rules/five.smk").read_text() for name in ORDER)


def row(benchmarks, name, claim):
    (found,) = [r for b in benchmarks if b.name == name for r in b.rows if r.claim == claim]
    return found


def test_claims_stand_beside_what_the_files_say(benchmarks):
    headline = row(benchmarks, "agnews", "speed-up of exp042 over exp041")
    assert (headline.published, headline.files, headline.corrected) == (
        "0.46",
        "0.461",
        "0.46x is 1.85x (46% of ideal), if each rank trained on all of the data",
    )
    assert (
        row(benchmarks, "h100", "tokens/s of zs0_fp16_gpus1_bs32_sl128").corrected
        == "true step 35.35 ms, 115,869 tokens/s"
    )
    assert row(benchmarks, "nodes", "bucket200_300 over accum2_300").files == "+19.47%"
    assert row(benchmarks, "v100", "speed-up of v100/4gpu over v100/1gpu").files == "3.405"
    assert row(benchmarks, "agnews", "speed-up of exp021 over exp020").findings == []


def test_every_link_of_the_pages_leads_somewhere(benchmarks, repository):
    page = five_html(benchmarks)
    anchors = re.findall(r'id="([^"]+)"', page)
    assert len(anchors) == len(set(anchors))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(anchors)
    headings = set(re.findall(r"^## (.+)$", (repository / "docs/audit.md").read_text(), re.MULTILINE))
    assert set(re.findall(r"\(audit\.md#([^)]+)\)", five_markdown(benchmarks))) <= headings


def test_the_same_figures_make_the_same_files(benchmarks, tmp_path, repository):
    for n in ("a", "b"):
        write_benchmark(repository / "config/five/agnews.yaml", tmp_path / n)
    files = sorted(p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*.csv"))
    assert files
    assert all((tmp_path / "a" / p).read_bytes() == (tmp_path / "b" / p).read_bytes() for p in files)
