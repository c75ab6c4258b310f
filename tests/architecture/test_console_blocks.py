"""Commands that documents show with what they print: run, and compared."""

import pytest
from console_blocks import Step, blocks, difference, fault, furnish
from documents import pages, titled

WITH_BLOCKS = [page for page in pages() if blocks(page.read_text())]


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=titled)
def test_what_is_shown_is_what_is_printed(page, repository, tmp_path):
    furnish(tmp_path, repository)
    for block in blocks(page.read_text()):
        for step in block.steps if block.reason is None else ():
            why = fault(step, tmp_path)
            assert why is None, f"{titled(page)}:{block.line}: {step.command}\n{why}"


def test_most_blocks_are_run():
    every = [block for page in WITH_BLOCKS for block in blocks(page.read_text())]
    assert sum(block.reason is None for block in every) >= 8


PAGE = """
<!-- not run: measures for three minutes -->
```console
$ make demo    # three minutes
The report: results/demo/report.html
```

```console
$ cat table.md
| a |
$ scaleproof audit table.md
```

<!-- file: config/mine.yaml -->
```yaml
title: x
```
"""


def test_blocks_have_commands_outputs_and_reasons():
    first, second, file = blocks(PAGE)
    assert (first.line, first.reason) == (2, "measures for three minutes")
    assert first.steps == [Step("make demo", "The report: results/demo/report.html\n")]
    assert second.reason is None
    assert second.steps == [Step("cat table.md", "| a |\n"), Step("scaleproof audit table.md", "")]
    assert file.steps == [Step("cat config/mine.yaml", "title: x\n")]


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a 1\n", "a 1\n", True),
        ("a 1\n", "a 2\n", False),
        ("a 1\n", "a 1\nb 2\n", False),
        ("a ...\n", "a 2\n", True),
        ("...\nb 2\n", "a 1\nb 2\n", True),
        ("...\nb 2\n...\n", "b 2\n", True),
        ("a 1\n...\n", "b 2\na 1\n", False),
        ("a (1.0)\n", "a (1x0)\n", False),
    ],
)
def test_another_output_is_a_difference(shown, printed, same):
    assert (difference(shown, printed) is None) is same


@pytest.mark.parametrize(
    ("command", "shown", "why"),
    [
        ("scaleproof explain sawtooth-timer", "...\n- What to do: Read the clock twice a step...\n", "once a step"),
        ("scaleproof explain sawtooth", "", "ends with 2"),
        ("cat config/campaigns/demo.yaml", "title: another\n", "printed"),
    ],
)
def test_a_document_that_is_wrong_is_named(command, shown, why, repository, tmp_path):
    furnish(tmp_path, repository)
    assert why in (fault(Step(command, shown), tmp_path) or "")


def test_a_file_that_a_document_makes_is_there_for_the_next_command(repository, tmp_path):
    assert fault(Step("cat logs/a.log", "step 1\n"), tmp_path) is None
    assert (tmp_path / "logs/a.log").read_text() == "step 1\n"


def test_what_is_not_run_needs_a_reason(tmp_path):
    with pytest.raises(AssertionError, match="not run"):
        fault(Step("make demo", ""), tmp_path)
