"""What is a result: not sources or fixtures; each copy and checkpoint once; archives; and what stands beside a run."""

import errno
import gzip
import inspect
import io
import json
import os
import re
import tarfile
import zipfile
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from scaleproof.auditor import audit
from scaleproof.auditor.audit import audit_paths
from scaleproof.auditor.read import logs
from scaleproof.auditor.read.discover import gather
from scaleproof.auditor.read.documents import read_document
from scaleproof.auditor.read.reported import Evidence, StatedFigure
from scaleproof.auditor.read.sentences import stated_figures
from scaleproof.ground.campaign.command import Reader
from scaleproof.ground.errors import UserError

LOG = "".join(f"iter {k}: loss 4.0, time 500.0ms\n" for k in range(5))
TABLE = "| GPUs | tok/s |\n|---|---|\n| 1 | 1000 |\n| 2 | 1900 |\n"


def kinds(evidence):
    return {u.name: u.kind for u in evidence.unread}


@pytest.mark.parametrize(
    "name", ["train.py", "fix.patch", "tests/fixtures/train.log", "templates/run.log", "run.log.example"]
)
def test_sources_fixtures_and_templates_are_no_results(tmp_path, name):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(LOG)
    evidence = gather([tmp_path])
    assert evidence.runs == []
    assert kinds(evidence) == {name: "not a result"}
    if not name.endswith((".py", ".patch")):
        assert len(gather([tmp_path / name]).runs) == 1  # named by its path, it is what the user means


def test_what_is_not_read_is_listed_with_its_kind(tmp_path):
    (tmp_path / "plot.png").write_bytes(b"\x89PNG")
    (tmp_path / "paper.pdf").write_bytes(b"%PDF-1.4")
    (tmp_path / "model.pt").write_bytes(b"\0" * 10)
    (tmp_path / "big.csv").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 3\n")
    (tmp_path / "large.csv.dvc").write_text("outs:\n- md5: a304afb9\n  size: 37\n  path: large.csv\n")
    (tmp_path / "unlocked.csv").write_text("/annex/objects/SHA256E-s12--a304.csv\n")
    (tmp_path / "locked.csv").symlink_to(".git/annex/objects/aa/bb/SHA256E-s12--a304.csv")
    (tmp_path / "outs.csv").write_text("outs: 1\n")
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "runs/1").mkdir(parents=True)
    (tmp_path / "latest").symlink_to("runs/1")  # is read as runs/1
    (tmp_path / "circle").symlink_to("circle")
    os.mkfifo(tmp_path / "pipe")
    evidence = gather([tmp_path])
    assert {"a link that leads back to itself"} == {file.reason for file in evidence.unread if file.name == "circle"}
    fetched_with = {file.name: file.reason.rpartition(": ")[2] for file in evidence.unread if file.kind == "pointer"}
    assert fetched_with == {"big.csv": "git lfs pull", "large.csv.dvc": "dvc pull", "unlocked.csv": "git annex get"}
    locked = next(file.reason for file in evidence.unread if file.name == "locked.csv")
    assert locked == "a pointer of git-annex, not the file itself; fetch it with: git annex get"
    assert kinds(evidence) == {
        "plot.png": "picture",
        "paper.pdf": "PDF",
        "model.pt": "binary",
        **dict.fromkeys(("big.csv", "large.csv.dvc", "unlocked.csv"), "pointer"),
        "locked.csv": "special",
        "nowhere": "special",
        "loop": "special",
        "circle": "special",
        "pipe": "special",
    }


@pytest.mark.parametrize("place", ["/", "/proc", "/dev/null"])
def test_the_operating_system_is_not_audited(place):
    with pytest.raises(UserError, match="part of the operating system"):
        gather([Path(place)])


def test_archives_are_opened_one_level_deep(tmp_path):
    with zipfile.ZipFile(tmp_path / "runs.zip", "w") as archive:
        archive.writestr("4gpu/train.log", LOG)
        archive.writestr("../../escape.log", LOG)
        archive.writestr("inner.zip", b"PK")
    with tarfile.open(tmp_path / "more.tar.gz", "w:gz") as tar:
        info = tarfile.TarInfo("README.md")
        info.size = len(TABLE)
        tar.addfile(info, io.BytesIO(TABLE.encode()))
    (tmp_path / "broken.zip").write_bytes(b"PK\3\4 no archive")
    evidence = gather([tmp_path])
    assert [(r.name, r.world_size) for r in evidence.runs] == [("runs.zip!/4gpu", 4)]
    assert [t.file for t in evidence.tables] == ["more.tar.gz!/README.md"]
    reasons = {u.name: u.reason for u in evidence.unread}
    assert "leads out of the archive" in reasons["runs.zip!"]
    assert "inside an archive" in reasons["runs.zip!/inner.zip"]
    assert "cannot be opened" in reasons["broken.zip"]


def test_why_a_member_of_an_archive_is_left_out(tmp_path):
    with zipfile.ZipFile(tmp_path / "runs.zip", "w") as archive:
        archive.writestr("train.log", LOG)
        archive.writestr("d/" * 50 + "train.log", LOG)
    (reason,) = (u.reason for u in gather([tmp_path]).unread)
    assert "more than 40 folders deep" in reason
    assert "leads out" not in reason


def test_what_an_archive_unpacks_to_is_limited(tmp_path, monkeypatch):
    from scaleproof.auditor.read import archives

    monkeypatch.setattr(archives, "MOST_ARCHIVE_BYTES", 10_000)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for k in range(3):
            archive.writestr(f"{k}.log", b"0" * 8_000)
    assert any("the rest was left out" in u.reason for u in gather([tmp_path]).unread)


def test_a_gz_that_unpacks_to_too_much_is_cut_off_with_a_word(tmp_path, monkeypatch):
    from scaleproof.auditor.read import archives

    monkeypatch.setattr(archives, "MOST_MEMBER_BYTES", 8_000)
    for size, is_cut_off in ((8_000, False), (8_001, True)):
        (tmp_path / "train.log.gz").write_bytes(gzip.compress(b"0" * size))
        reasons = [unread.reason for unread in gather([tmp_path]).unread]
        assert any("the rest was left out" in reason for reason in reasons) is is_cut_off, reasons


def test_copies_are_marked(tmp_path):
    for name in ("a.log", "docs/a.log", "b.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(LOG if "a" in name else LOG.replace("500", "300"))
    evidence = gather([tmp_path])
    assert {r.name: r.copy_of for r in evidence.runs} == {"a.log": None, "docs/a.log": "a.log", "b.log": None}
    work = {r.name: r.work for r in audit_paths([tmp_path]).readings}
    assert work == {"a.log": "", "docs/a.log": "a copy of a.log", "b.log": ""}


def test_checkpoints_of_one_run_are_one_run(tmp_path):
    history = [{"step": k, "loss": 3 - k / 100, "epoch": 1.0} for k in range(10, 60, 10)]
    for n in (20, 40):
        folder = tmp_path / f"checkpoint-{n}"
        folder.mkdir()
        state = {"global_step": n, "log_history": [h for h in history if h["step"] <= n]}
        (folder / "trainer_state.json").write_text(json.dumps(state))
    (tmp_path / "trainer_state.json").write_text(json.dumps({"global_step": 50, "log_history": history}))
    (run,) = gather([tmp_path]).runs
    assert (run.name, len(run.logged_steps), len(run.files)) == ("trainer_state.json", 5, 3)


def test_a_state_without_an_entry_says_so(tmp_path):
    (tmp_path / "state.json").write_text(json.dumps({"global_step": 0, "log_history": []}))
    with pytest.raises(UserError, match=r"among 1 file; not read: .*state.json: its log_history has no entry"):
        audit_paths([tmp_path / "state.json"])


def test_a_json_that_is_cut_off_is_read_up_to_there(tmp_path):
    entries = ",\n".join(json.dumps({"step": k, "loss": 3.0, "epoch": 1.0}) for k in (10, 20, 30))
    (tmp_path / "trainer_state.json").write_text(f'{{"global_step": 30, "log_history": [\n{entries[:-20]}')
    (run,) = gather([tmp_path]).runs
    assert len(run.logged_steps) == 2
    assert run.problems[0].startswith("trainer_state.json is cut off in line 4")


def test_a_large_log_that_begins_with_a_bracket_is_a_log(tmp_path, monkeypatch):
    from scaleproof.auditor.read import text_files

    monkeypatch.setattr(text_files, "LARGEST_PARSED", 1000)
    (tmp_path / "out.log").write_text("".join(f"[rank0] iter {k}: loss 4.0, time 500.0ms\n" for k in range(5000)))
    (run,) = gather([tmp_path]).runs
    assert len(run.logged_steps) == 5000


def figures_of(sentence: str, line: int) -> list[StatedFigure]:
    """Return the figures of a sentence that says what they are of."""
    figures = stated_figures(read_document([(line, sentence)]).prose, "README.md")
    return [figure for figure in figures if figure.kind != "other"]


@pytest.mark.parametrize(
    ("sentence", "kind", "value", "devices", "over"),
    [
        ("- 3.50x speedup on 4 GPUs", "speedup", 3.5, 4, None),
        ("DDP is 1.39x faster from 2 to 4 GPUs.", "speedup", 1.39, 4, 2),
        ("We reach 87.5% scaling efficiency with 8 GPUs.", "efficiency", 0.875, 8, None),
        ("ZeRO-2 is 48% faster than FSDP at 4 GPUs", "change", 0.48, 4, None),
        ("Larger buckets improved throughput by about 19.5%.", "change", 0.195, None, None),
        ("4 GPUs: 42.33s/epoch", "time", 42.33, 4, None),
        ("It runs at 18,147 tokens/sec on 4 GPUs", "rate", 18147, 4, None),
        ("MFU of 41.2 % on 8 GPUs", "mfu", 0.412, 8, None),
        ("The peak memory is 9.5 GB.", "memory", 9.5 * 2**30, None, None),
        ("DDP is 71 % faster than DP on 4 GPUs.", "change", 0.71, 4, None),
        ("A step takes 19–21 ms per step on 2 GPUs.", "time", 0.020, 2, None),
        ("It reaches 12,000 to 13,000 tokens/s on 8 GPUs.", "rate", 12_500, 8, None),
        ("Training took 4.5 hours on 8 A100s.", "time", 16_200, 8, None),
    ],
)
def test_sentences_that_state_a_figure(sentence, kind, value, devices, over):
    (figure,) = figures_of(sentence, 7)
    assert (figure.kind, figure.value, figure.source) == (kind, pytest.approx(value), "README.md:7")
    assert (figure.devices, figure.over_devices, figure.hypothetical) == (devices, over, False)


@pytest.mark.parametrize(
    "sentence",
    [
        "Use 4 GPUs and 12 workers.",
        "Version 2.3 supports x86.",
        "A range of 5-10% improvement",
        "~3-4x faster",
        "50% dropout",
        "GPT-2 350 tokens/s",
        "See table 3.",
        "step: 1 loss: 10.9 tokens/s: 128000 step: 2 loss: 9.9 tokens/s = 128400",
    ],
)
def test_sentences_that_state_none(sentence):
    assert figures_of(sentence, 1) == []


def test_what_is_expected_is_no_result():
    lines = list(enumerate(["# Expected results", "3.5x speedup on 4 GPUs", "# Results", "It should be 3x faster."], 1))
    figures = stated_figures(read_document(lines).prose, "README.md")
    assert [f.hypothetical for f in figures] == [True, True]


def test_what_is_wrong_with_an_archive_or_a_workbook_is_said_in_words(tmp_path):
    with tarfile.open(tmp_path / "cut.tar.gz", "w:gz") as tar:
        info = tarfile.TarInfo("README.md")
        info.size = 4000
        tar.addfile(info, io.BytesIO(os.urandom(4000)))
    (tmp_path / "cut.tar.gz").write_bytes((tmp_path / "cut.tar.gz").read_bytes()[:2000])
    for name in ("no.tar.gz", "no.zip", "train.log.gz", "sheet.xlsx"):
        (tmp_path / name).write_bytes(b"PK\3\4 is not what its name says")
    unread = {u.name.rstrip("!"): u for u in gather([tmp_path]).unread}
    assert set(unread) == {"cut.tar.gz", "no.tar.gz", "no.zip", "train.log.gz", "sheet.xlsx"}
    assert "it is cut off" in unread["cut.tar.gz"].reason
    for name, one in unread.items():
        assert not re.search(r"Error|BadZipFile|\n", one.reason), one
        assert one.kind == "damaged", name


def test_a_full_disk_is_no_fault_of_the_archive(tmp_path, monkeypatch):
    from scaleproof.auditor.read import archives

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with zipfile.ZipFile(tmp_path / "runs.zip", "w") as archive:
        archive.writestr("train.log", LOG)
    monkeypatch.setattr(archives, "_copy", full)
    (unread,) = gather([tmp_path]).unread
    assert (unread.reason.partition(" in ")[0], unread.kind) == ("no room", "special")
    assert "set TMPDIR to a folder with room" in unread.reason


# What is no result by itself, but beside results, or said of the files.
BESIDE = {
    "published_claims",
    "copies",
    "configurations",
    "completions",
    "traced_folders",
    "named_files",
}


def test_an_audit_counts_every_kind_of_evidence():
    """A further kind: `_count_formats` in auditor/audit.py and `anything` of Evidence, or above."""
    counted = inspect.getsource(audit)
    assert [part.name for part in fields(Evidence) if f"evidence.{part.name}" not in counted] == [
        part.name for part in fields(Evidence) if part.name in BESIDE
    ]


def test_a_campaign_may_name_every_reader():
    assert [kind.__name__ for kind in (*logs.READERS, logs.KeyValues)] == list(get_args(Reader))
