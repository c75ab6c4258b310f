"""The doctor's report is shown where it is there, and is asked for by nobody."""

from collections import Counter


def test_the_doctor_redraws_the_page_alone(built):
    path = built.root / "results/doctor.json"
    assert built.planned("results/tiny/report.html") == Counter()
    path.write_text("{}")
    try:
        assert built.planned("results/tiny/report.html") == Counter(report=1)
    finally:
        path.unlink()
