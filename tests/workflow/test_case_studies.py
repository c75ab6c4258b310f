"""The page of five published benchmarks, made by the real Snakemake; and the audit of what it left."""

from collections import Counter

PAGE = "results/case-studies/case-studies.html"


def test_the_page_is_made_and_rebuilt_for_its_own_reasons(make_copy):
    copy = make_copy()
    copy.build(PAGE)
    assert "115,869 tokens/s" in (copy.root / PAGE).read_text()
    assert copy.planned(PAGE) == Counter()
    (copy.root / "src/scaleproof/auditor/checks/published_claims.py").open("a").write("\nEDITED = True\n")
    assert copy.planned(PAGE) == Counter(audit_case_studies=1)
    copy.build(PAGE)
    figures = copy.root / "config/case_studies/h100.yaml"
    figures.write_text(figures.read_text().replace("23173.730", "23173.731"))
    assert copy.planned(PAGE) == Counter(write_case_studies=1, audit_case_studies=1)

    done = copy.command("scaleproof", "audit", "results/case-studies/files/v100")
    assert (done.returncode, done.stderr) == (1, "")
    assert "invalid rate-of-one-rank" in done.stdout
