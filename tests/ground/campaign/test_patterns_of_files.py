"""Patterns of a corpus' files: which files they meet."""

import pytest

from scaleproof.ground.campaign.corpora import Corpus, local_files
from scaleproof.ground.errors import UserError


def test_a_pattern_leaves_folders_and_hidden_files_out(tmp_path):
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "b.txt").mkdir()
    (tmp_path / "._a.txt").write_bytes(b"\0")  # what macOS leaves on other disks
    (tmp_path / ".#a.txt").symlink_to("me@host.123:456")  # Emacs' lock of a file
    corpus = Corpus(source="text", files=[str(tmp_path / "*.txt")])
    assert local_files("mine", corpus) == [str(tmp_path / "a.txt")]


def test_hidden_files_are_met_by_their_names_and_by_patterns_with_the_dot(tmp_path):
    (tmp_path / ".notes").mkdir()
    (tmp_path / ".notes/a.txt").write_text("text")
    for pattern in (".notes/a.txt", ".notes/*.txt", ".*/*.txt"):
        assert local_files("mine", Corpus(source="text", files=[str(tmp_path / pattern)])) != []
    with pytest.raises(
        UserError, match=r"matches no file but hidden ones, which a pattern leaves out; write \S+a\.txt"
    ):
        local_files("mine", Corpus(source="text", files=[str(tmp_path / "**/*.txt")]))


def test_a_link_to_a_device_leads_somewhere(tmp_path):
    (tmp_path / "a.txt").symlink_to("/dev/zero")
    with pytest.raises(UserError, match=r"a\.txt is not a regular file"):
        local_files("mine", Corpus(source="text", files=[str(tmp_path / "*.txt")]))
