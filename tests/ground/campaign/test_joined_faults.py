"""Several faults of one mistake are one message: keys that are not indented, a list without its brackets."""

import pytest
from command_line import scaleproof

TITLE = "title: x\n"
GRID = "vary: {strategy: [ddp, zero2], geometry: [1x1, 1x2]}\n"
DEDENTED = "need two blanks more before them than it has: "


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        (GRID + "execution:\nprecision: bf16\n", [f"line 3: execution: its keys {DEDENTED}precision"]),
        ("vary:\nstrategy: [ddp]\ngeometry: [1x1]\n", [f"line 2: vary: its keys {DEDENTED}strategy, geometry"]),
        (
            GRID + "work:\n  optimizer:\n  learning_rate: 0.1\n",
            [f"line 4: work.optimizer: its keys {DEDENTED}learning_rate"],
        ),
        (
            GRID + "work:\n\u00a0\u00a0steps: 8\n  seed: 1\n",
            ["line 4: a no-break space stands where the line begins: indent"],
        ),
        # One message each, where the keys are not those of the empty section, or stand before it.
        (GRID + "execution:\nsteps: 8\n", ["execution has no value", "steps. It belongs under "]),
        (GRID + "precision: bf16\nexecution:\n", ["precision. It belongs under execution.", "execution has no value"]),
        (GRID + "execution: {precision: bf16}\nsteps: 8\n", ["steps. It belongs under "]),
        ("vary: {strategy: ddp, zero2, geometry: [1x1]}\n", ["Write [ddp, zero2]."]),
        (GRID + "execution:{precision: bf16}\n", ['write "execution: " before "{precision".']),
        ("vary:\n  strategy:\n    – ddp\n    – zero2\n", ['Its "–" (en dash) is no hyphen of a list: type "-".']),
        (GRID + "cells:\n  — strategy: ddp\n", ['Its "—" (em dash) is no hyphen of a list: type "-".']),
        (GRID + "execution: {precision :bf16}\n", ['write "precision: " before "bf16".']),
    ],
)
def test_one_message_for_one_mistake(tmp_path, repository, text, messages):
    path = tmp_path / "mine.yaml"
    path.write_text(TITLE + text)
    done = scaleproof("campaign", "validate", path, cwd=repository)
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert len(lines) == len(messages), done.stderr
    for line, message in zip(lines, messages, strict=True):
        assert message in line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<<<<<<< HEAD\ntitle: x\n=======\ntitle: y\n>>>>>>> b\n", "mine.yaml, line 1: a merge conflict of git"),
        (
            "zero_optimization: {stage: 2}\nbf16: {enabled: true}\n",
            "mine.yaml is no campaign, but a file of DeepSpeed;",
        ),
        ("<demo>: 1\n", "mine.yaml is no campaign; it has <demo>"),
        ("<!-- saved from a site -->\n<html></html>\n", "mine.yaml is a page (HTML), not YAML"),
    ],
)
def test_what_begins_with_an_angle_bracket_need_not_be_a_page(tmp_path, repository, text, message):
    (tmp_path / "mine.yaml").write_text(text)
    assert message in scaleproof("campaign", "validate", tmp_path / "mine.yaml", cwd=repository).stderr


@pytest.mark.parametrize(("corpus", "told"), [("python-doc", True), ("python-docs", False)])
def test_a_misspelt_corpus_is_told_with_other_faults(tmp_path, repository, corpus, told):
    path = tmp_path / "mine.yaml"
    path.write_text(f"{TITLE}workload: {{corpus: {corpus}}}\nwork: {{steps: 0}}\n{GRID}")
    done = scaleproof("campaign", "validate", path, cwd=repository)
    assert done.returncode == 2
    assert "mine.yaml, line 3: work.steps cannot be 0" in done.stderr
    assert ('line 2: workload.corpus: there is no corpus "python-doc"' in done.stderr) == told
