"""A precision that campaigns may name is known wherever precisions are told apart: none is taken for another one."""

from typing import get_args

import pytest

from scaleproof.auditor.read import run_fields, words
from scaleproof.conclude.checks import comparability, replayed
from scaleproof.ground.campaign.strategies import LOW, PrecisionName
from scaleproof.ground.facts.peaks import FORMATS
from scaleproof.measure.reference import control

FULL = ("fp32", "tf32")  # products of 32 bits, or of TF32; elements of 4 bytes
TABLES = {
    "conclude/checks/comparability.py": ("TOLERANCE", "CLASSIFIER_TOLERANCE", "OF_VALIDATION"),
    "conclude/checks/replayed.py": ("TOLERANCE", "GROWTH", "OF_CLASSES", "OF_VALIDATION", "NORM"),
}


@pytest.mark.parametrize("name", get_args(PrecisionName))
def test_a_precision_is_known_everywhere(name):
    assert (name in LOW) != (name in FULL), "LOW in ground/campaign/strategies.py: 2 bytes an element, or 4"
    assert name in FORMATS, "ground/facts/peaks.py"
    assert name in control.LOW, "measure/reference/control.py"
    assert name in words.PRECISIONS, "auditor/read/words.py"
    assert name in run_fields.PRECISIONS, "auditor/read/run_fields.py"
    for module, (path, tables) in zip((comparability, replayed), TABLES.items(), strict=True):
        assert [table for table in tables if name not in getattr(module, table)] == [], path
