"""In what two configurations differ."""

from scaleproof.ground.configurations import configuration_differences


def test_a_section_on_one_side_alone_differs_as_a_whole():
    """A model by its name in one and by its shape in the other: the shape is a section there."""
    a = {"workload": {"model": "gpt2", "seq_len": 8}, "execution": {"compile": False}}
    b = {"workload": {"model": {"layers": 2}, "seq_len": 8}, "execution": {"compile": True}}
    expected = {"workload.model": ["gpt2", {"layers": 2}], "execution.compile": [False, True]}
    assert configuration_differences(a, b) == expected
