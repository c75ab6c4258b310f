"""Which campaigns make their runs together is known before any of them is read."""

import pytest

from scalebench.campaign import loaded


@pytest.mark.parametrize(
    ("text", "together"),
    [
        ("resources:\n  same_allocation: true\n", True),
        ("resources: {time_limit: 2, same_allocation: true}\n", True),
        ("resources: {same_allocation: false}\n", False),
        ("# same_allocation: true\ntitle: x\n", False),
        ("title: [broken\nresources: {same_allocation: true}\n", True),
        ("title: x\n", False),
    ],
)
def test_by_the_text(tmp_path, monkeypatch, text, together):
    monkeypatch.setattr(loaded, "CAMPAIGNS", tmp_path)
    (tmp_path / "ab.yaml").write_text(text)
    assert loaded.in_one_allocation() == (["ab"] if together else [])
