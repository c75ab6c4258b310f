"""Writing results: whole files or none."""

import errno
import os
from pathlib import Path

import pytest

from scaleproof.ground.errors import UserError, path_fault
from scaleproof.ground.files import (
    STALE_S,
    disk_filled_up,
    full_disk_text,
    os_fault,
    read_regular,
    whole_file,
    write_atomic,
)


def write_half(path):
    with whole_file(path) as part:
        part.write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.fault("the disk is full when a result is written", "the part is removed, the target named")
def test_a_full_disk_leaves_no_part_and_is_named(tmp_path):
    with pytest.raises(OSError, match="No space left") as error:
        write_half(tmp_path / "out.txt")
    assert error.value.filename == str(tmp_path / "out.txt")
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_cannot_be_written_is_told_by_the_name_of_the_file(tmp_path, monkeypatch):
    def refused(path, *_, **__):
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(Path, "write_bytes", refused)
    monkeypatch.setattr(Path, "unlink", refused)
    with pytest.raises(OSError, match="Read-only") as caught:
        write_atomic(tmp_path / "page.html", "text")
    assert os_fault(caught.value) == f"{tmp_path / 'page.html'} is on a disk that cannot be written"


@pytest.mark.parametrize(("number", "named"), [(errno.EFBIG, "copy"), (errno.EROFS, "copy"), (errno.EACCES, "source")])
def test_a_copy_that_cannot_be_written_is_named(tmp_path, number, named):
    (tmp_path / "source").touch()
    assert os_fault(OSError(number, "", str(tmp_path / "source"), None, "copy")).startswith(
        f"{tmp_path / named if named == 'source' else named}{': this user' if named == 'source' else ' '}"
    )


def test_a_file_in_the_place_of_a_folder_is_named(tmp_path):
    (tmp_path / "config").touch()
    with pytest.raises(FileExistsError) as caught:
        write_atomic(tmp_path / "config/mine.yaml", "text")
    assert os_fault(caught.value) == f"{tmp_path / 'config'} is a file; a folder is expected"


@pytest.mark.fault("a killed process left a part of a file", "removed by the next writer")
def test_a_stale_part_is_removed(tmp_path):
    stale, fresh = tmp_path / ".out.txt.1.part", tmp_path / ".out.txt.2.part"
    for part in (stale, fresh):
        part.write_text("half")
    os.utime(stale, (0, fresh.stat().st_mtime - 2 * STALE_S))
    write_atomic(tmp_path / "out.txt", "whole")
    assert sorted(p.name for p in tmp_path.iterdir()) == [".out.txt.2.part", "out.txt"]


def test_a_full_disk_is_told_from_another_one(tmp_path, monkeypatch):
    """A program says ENOSPC of /dev/shm as well: only where the disk of the results has no room is it that one."""
    lines = ["Traceback ...", "OSError: [Errno 28] No space left on device"]
    assert not disk_filled_up(lines, tmp_path)
    monkeypatch.setattr("scaleproof.ground.files.shutil.disk_usage", lambda _: type("Usage", (), {"free": 4096}))
    assert disk_filled_up(lines, tmp_path)
    assert not disk_filled_up(["ValueError"], tmp_path)
    text = full_disk_text(tmp_path / "not there/report.html")
    assert "report.html: the disk is full. Make room, then" in text
    assert "results/downloads" in text


def test_half_of_a_surrogate_pair_does_not_stop_a_report(tmp_path):
    write_atomic(tmp_path / "out.txt", "a\ud800b")
    assert (tmp_path / "out.txt").read_text() == "a\N{REPLACEMENT CHARACTER}b"


def test_a_link_to_a_device_is_called_one(tmp_path):
    (tmp_path / "endless").symlink_to("/dev/zero")
    (tmp_path / "nothing").symlink_to("nowhere")
    assert path_fault(tmp_path / "endless") == " is a device, not a regular file"
    assert path_fault(tmp_path / "nothing") == " is a link to nowhere, which leads nowhere"
    with pytest.raises(UserError, match="is a device, not a regular file"):
        read_regular(tmp_path / "endless")
    with pytest.raises(UserError, match="is a link to nowhere, which leads nowhere"):
        read_regular(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "absent")


def test_what_may_not_be_read_is_the_folder_that_is_closed(tmp_path, monkeypatch):
    (tmp_path / "open").mkdir()
    inside = OSError(errno.EACCES, "Permission denied", str(tmp_path / "open/not/there.txt"))
    assert os_fault(inside).startswith(f"{tmp_path}/open: this user may not")
    monkeypatch.chdir(tmp_path)
    assert os_fault(OSError(errno.EACCES, "Permission denied", "a/b")).startswith(f"{tmp_path}: this user may not")
    (tmp_path / "open/a.txt").touch()
    there = OSError(errno.EACCES, "Permission denied", str(tmp_path / "open/a.txt"))
    assert os_fault(there).startswith(f"{tmp_path}/open/a.txt: this user may not")
