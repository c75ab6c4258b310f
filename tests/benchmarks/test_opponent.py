"""The opponent's grammar: every edit is a program that runs, and says in a line what it is."""

import ast
import random
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import opponent_edits
from opponent_edits import Edit, Opponent

sys.path.pop(0)  # a module there has the name of a folder of tests

LOOP = """
def total(values, scale):
    result = 0.0
    for value in values:
        result += value * scale
    return max(result, 1.0)
"""


def edited(operation: str, before: str, when: str = "always") -> tuple[float, float]:
    """What the loop above gives with an edit of the part `before`, in the first call and in the tenth."""
    tree = ast.parse(LOOP)
    chosen = [site for site in opponent_edits.sites(tree) if site.operation == operation]
    site = next(site for site in chosen if ast.unparse(site.before) == before)
    site.put(site.after if when == "always" else opponent_edits._guarded(site, "here", when))
    names = {"_opponent": Opponent()}
    exec(compile(ast.fix_missing_locations(tree), "loop", "exec"), names)
    calls = [names["total"]([1.0, 2.0, 3.0, 6.0], 2.0) for _ in range(10)]
    return calls[0], calls[-1]


@pytest.mark.parametrize(
    ("operation", "before", "gives"),
    [
        ("skip", "result += value * scale", 1.0),
        ("repeat", "result += value * scale", 48.0),
        ("shorten", "values", 6.0),
        ("rescale", "scale", 19.2),
        ("swap", "value * scale", 6.0),
        ("cache", "max(result, 1.0)", 24.0),
    ],
)
def test_an_edit_does_what_it_says(operation, before, gives):
    assert edited(operation, before)[0] == pytest.approx(gives)


def test_an_edit_acts_when_it_says():
    assert edited("shorten", "values", "once in ten") == (24.0, 6.0)
    assert edited("shorten", "values", "in the window") == (24.0, 24.0)


def test_drawn_edits_are_programs_and_lines():
    chance, file = random.Random(1), "measure/trainer/timed_loop.py"
    for _ in range(40):
        edit = opponent_edits.drawn(chance, {file: set(range(60, 90))}, timed=True)
        assert isinstance(edit, Edit)
        tree = ast.parse((opponent_edits.PACKAGE / file).read_text())
        site = edit.site(tree)
        assert edit.line(site).startswith(f"{file}:")
        site.put(opponent_edits._guarded(site, "here", "once in ten"))
        compile(ast.fix_missing_locations(tree), file, "exec")


def test_what_is_no_number_is_left_as_it_is():
    opponent = Opponent()
    assert opponent.scaled("text", 0.5) == "text"
    assert opponent.scaled(True, 0.5) is True
    assert opponent.half({"a": 1}) == {"a": 1}
    assert list(opponent.half(np.arange(4))) == [0, 1]
    assert opponent.coarse(1.2345) == pytest.approx(1.2)
