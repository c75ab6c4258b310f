"""The list of files and their tests is that of the code."""

from code_map import PAGE, page


def test_the_map_of_the_code_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "python tests/code_map.py"
