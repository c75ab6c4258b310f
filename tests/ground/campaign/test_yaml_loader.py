"""Files that are not the text of a mapping, in place of a campaign."""

import gzip
import io
import zipfile

import pytest

from scaleproof.ground.campaign.transformers_model import TransformersModel
from scaleproof.ground.campaign.yaml_loader import load_campaign
from scaleproof.ground.errors import UserError

GOOD = b"title: x\nrepeats: 3\n"


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("mine.yaml", GOOD)
    return file.getvalue()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            GOOD + bytes(9),
            ", line 3: zero bytes stand here: the file is damaged, or was not written to its end; copy or",
        ),
        (GOOD + b"\x1a", ", line 3: an invisible control character (U+001A) stands here: delete it"),
        (b"title: x\x08y\nrepeats: 3\n", ", line 1: an invisible control character (U+0008) stands here: delete it"),
        (gzip.compress(GOOD), " is gzip data, not text; unpack it"),
        (zipped(), " is a zip archive or an Office document, not text; unpack it, or save its text"),
        (b"\x28\xb5\x2f\xfd\x04", " is zstd data, not text; unpack it"),
        (b"\x89PNG\r\n\x1a\n\0", " is a picture, not text; a text belongs here"),
        (b"%PDF-1.7\n%\xe2\xe3", " is a PDF, not text; a text belongs here"),
        ("vary:\n\u00a0\u00a0strategy: [ddp]\n".encode(), ", line 2: a no-break space stands where the line begins"),
        (b"title: \xff\n", ", line 1: not UTF-8 text (byte 7); save the file as UTF-8"),
        (b"- title: x\n  repeats: 3\n", ', line 1: a list stands here; take the "- "'),
        (b"- {strategy: ddp}\n- {strategy: fsdp}\n", ", line 1: a list stands here; put it below its key, such as"),
        (b"  1  title: x\n  9  repeats: 3\n 10  seed: 1\n", ": a line number stands before each line; take them away"),
        (b"1| title: x\n2| repeats: 3\n", ": a line number stands before each line; take them away"),
        (b"     1\ttitle: x\n     2\t\n     3\trepeats: 3\n", ": a line number stands before each line; take them"),
        (b"$ cat mine.yaml\n" + GOOD, ', line 1: "$ cat mine.yaml" has no "key: value"; is it a pasted prompt? Take'),
        (b"(x) me@host:~/y$ cat a\n" + GOOD, ', line 1: "(x) me@host:~/y$ cat a" has no "key: value"; is it a pasted'),
        (
            GOOD + b"[me@host y]$ \n",
            ', line 3: "[me@host y]$" has no "key: value"; is it a pasted prompt? Take the line',
        ),
        (b"> type mine.yaml\n" + GOOD, ', line 1: "> type mine.yaml" has no "key: value"; is it a pasted prompt? Take'),
        (b"#!/bin/sh\n#SBATCH --nodes=2\nsrun train\n", " is a script (#!/bin/sh), not YAML"),
        (b"#!/bin/sh\nx: y: z\n", ", line 1: this is a script, not YAML"),
        (
            b"title: x\nwork:\n  global_batch: 8\n   warmup_steps: 3\n",
            ", line 4: warmup_steps is indented deeper than global_batch (line 3), which has a value: begin both",
        ),
        (b"title: x\n repeats: 3\n", ", line 2: repeats is indented deeper than title (line 1), which has a value"),
        (
            "title: x\ncells:\n  – {strategy: ddp, seed: 1}\n".encode(),
            ', line 3: "–" (en dash) is no hyphen of a list: type "-"',
        ),
        (b"title: x\nvary:\n  strategy:\n    * ddp\n", ', line 4: "*" (asterisk) is no hyphen of a list: type "-"'),
        (b"+title: x\n+\n+repeats: 3\n", ": the + of a diff stands before each line; take them away"),
        (b"> title: x\n> repeats: 3\n", ": the > of a quotation stands before each line; take them away"),
        (
            b"title: x\nwork: !include w.yaml\n  steps: 8\n",
            ", line 2: a value stands behind work:, and keys below it; take one of the two away",
        ),
    ],
)
def test_what_is_no_text_of_a_mapping_is_named(tmp_path, data, message):
    path = tmp_path / "mine.yaml"
    path.write_bytes(data)
    with pytest.raises(UserError) as fault:
        load_campaign(path)
    assert str(fault.value).startswith(f"{path}{message}")


@pytest.mark.parametrize(
    "data",
    [
        GOOD,
        b"\xef\xbb\xbf" + GOOD,
        GOOD + "# \u2028 \x85\n".encode(),
        b"title: PK\n",
        b"title: &x\n  y\n",
        b"title: >\n  + 1\n",
        b"title: >\n  $ cat x\n  me@host:~$ cat y\n",
        "title:\n  – ddp – fsdp\n".encode(),
        b"#!/usr/bin/env scaleproof\n" + GOOD,
    ],
)
def test_a_text_is_read(tmp_path, data):
    path = tmp_path / "mine.yaml"
    path.write_bytes(data)
    assert load_campaign(path)[0].title


@pytest.mark.parametrize("key", ["config", "module"])
def test_a_model_that_is_no_text_is_named(tmp_path, key):
    path = tmp_path / "model.py"
    model = TransformersModel(**{key: f"{path}{':build' if key == 'module' else ''}"})
    path.write_bytes(gzip.compress(b"{}"))
    with pytest.raises(UserError, match=f"workload.model: {path} is gzip data, not text; unpack it"):
        model.description()
    path.write_bytes({"config": b'{"model_type": "opt"}', "module": b"def build(): ..."}[key])
    assert model.description()
