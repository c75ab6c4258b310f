"""A small audit enters few files, and leaves out no check that would find something."""

import random
import sys
from types import FrameType

import pytest
from markdown_tables import rows

from scaleproof.auditor import audit
from scaleproof.auditor.audit import NoResult, audit_paths

MOST_FILES = {
    "| GPUs | tokens/s |\n|---|---|\n| 1 | 1000 |\n| 2 | 1900 |\n": 21,
    "| GPUs | tokens/s | Speedup |\n|---|---|---|\n| 1 | 1000 | 1.0x |\n| 2 | 1900 | 1.9x |\n": 26,
}
PACKAGE = "/src/scaleproof/"
HEADINGS = (
    *("GPUs", "Config", "tokens/s", "images/s", "step time (ms)", "time (s)", "epoch time (s)", "speedup", "MFU"),
    *("efficiency", "TFLOP/s", "memory (GB)", "loss", "steps", "epochs", "batch size", "tokens/s/GPU", "notes"),
    *("vs baseline", "cost ($)", "power (W)", "energy (kWh)", "perplexity", "p50 (ms)", "p99 (ms)", "it/s", "total"),
)
WORDS = ("DDP", "FSDP", "ours (2x faster)", "baseline", "total", "mean", "8 GPUs", "4x A100", "ddp, bs 32")
FIGURES = ("1", "2", "4", "8", "1.5", "3.9", "50", "100", "195", "390", "1000.5", "0.25", "95", "23295.6115")
BEHIND = ("", "", "", "x", "%", " (1.5x)", " (50%)", " ms", " (+50 percent)", " (2 times)")


@pytest.mark.parametrize("table", MOST_FILES)
def test_a_readme_with_a_table_of_two_rows_enters_few_files(tmp_path, table):
    (tmp_path / "README.md").write_text(f"# Results\n\n{table}")
    entered = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name != "<module>" and PACKAGE in frame.f_code.co_filename:
            entered.add(frame.f_code.co_filename.partition(PACKAGE)[2])

    sys.setprofile(note)
    try:
        audit_paths([tmp_path])
    finally:
        sys.setprofile(None)
    assert len(entered) <= MOST_FILES[table], sorted(entered)


@pytest.mark.parametrize("seed", range(300))
def test_checks_that_are_left_out_would_find_nothing(tmp_path, monkeypatch, seed):
    random_ = random.Random(seed)

    def cell(heading: str) -> str:
        if heading in ("Config", "notes"):
            return random_.choice(WORDS)
        return random_.choice(FIGURES) + ("" if heading == "GPUs" else random_.choice(BEHIND))

    width = random_.choice((2, 2, 3))
    headings = random_.sample(HEADINGS, width)
    body = [" | ".join(map(cell, headings)) for _ in range(random_.choice((1, 2, 3)))]
    (tmp_path / "README.md").write_text("# ImageNet on 4 GPUs\n\n" + rows(" | ".join(headings), *body))
    try:
        findings = audit_paths([tmp_path]).findings
    except NoResult:
        return
    monkeypatch.setattr(audit, "NEEDS", {})
    assert findings == audit_paths([tmp_path]).findings
