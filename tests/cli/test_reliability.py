"""docs/reliability.md: its table is that of the tests."""

from collections import Counter

from fault_matrix import PAGE, rows, with_section


def test_the_table_is_the_one_of_the_tests():
    text = PAGE.read_text()
    assert text == with_section(text), "python tests/fault_matrix.py"


def test_there_are_many_faults_and_none_twice():
    every = rows()
    assert len(every) >= 40
    assert sum(row.cluster for row in every) >= 15
    assert [fault for fault, n in Counter(row.fault for row in every).items() if n > 1] == []
    assert all("|" not in row.fault + row.outcome for row in every)
