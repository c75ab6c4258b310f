"""What documents name exists."""

import re


def test_the_tests_of_the_fault_table_exist(repository):
    rows = re.findall(r"`(tests/\S+\.py)::(test_\w+)`", (repository / "docs/reliability.md").read_text())
    assert len(rows) > 20
    for path, name in rows:
        assert re.search(rf"^def {name}\(", (repository / path).read_text(), re.MULTILINE), f"{path}::{name}"
