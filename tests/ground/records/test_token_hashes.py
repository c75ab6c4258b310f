"""A token file that is not the one of tokens.json."""

from argparse import Namespace
from hashlib import sha256
from pathlib import Path

import pytest

from scaleproof.cli import run as commands
from scaleproof.driver.stale import _faults_of_tokens
from scaleproof.ground.campaign.loaded import LoadedCampaign, tokens_dir
from scaleproof.ground.errors import UserError
from scaleproof.ground.files import write_json
from scaleproof.ground.records import token_hashes
from scaleproof.ground.records.token_hashes import check_token_files

DATA = b"12345678"


def write_tokens(folder: Path) -> None:
    """Write tokens.json and both splits."""
    folder.mkdir()
    splits = {}
    for split in ("train", "val"):
        (folder / f"{split}.bin").write_bytes(DATA)
        digest = sha256(DATA).hexdigest()
        splits[split] = {"file": f"{split}.bin", "bytes": len(DATA), "tokens": 4, "sha256": digest}
    write_json(folder / "tokens.json", {"vocab_size": 9, "dtype": "uint16", **splits})


@pytest.mark.parametrize("split", ["train", "val"])
def test_a_changed_token_file_is_refused_with_what_makes_it_again(tmp_path, monkeypatch, split):
    folder = tmp_path / "bytes"
    check_token_files(folder)  # not made yet
    write_tokens(folder)
    check_token_files(folder)
    path = folder / f"{split}.bin"
    path.write_bytes(b"12345679")
    with pytest.raises(UserError) as refused:
        check_token_files(folder)
    assert str(refused.value).startswith(
        f"{path} was changed: tokens.json has another sha256. Tokenise the corpus again: rm {path} && snakemake "
    )
    monkeypatch.setattr(token_hashes, "MOST_HASHED", 7)
    check_token_files(folder)  # too large to be hashed before each run


def test_no_run_is_begun_from_a_changed_token_file(tmp_path, repository, monkeypatch):
    monkeypatch.chdir(repository)
    folder, out = tmp_path / "bytes", tmp_path / "rep1"
    write_tokens(folder)
    (folder / "train.bin").write_bytes(b"12345679")
    args = {"campaign": Path("config/campaigns/demo.yaml"), "results": tmp_path, "cell": "ddp-n1x1", "repeat": 1}
    with pytest.raises(UserError, match=r"train\.bin was changed"):
        commands.train(Namespace(**args, tokens=folder, out=out, fingerprints=None, read_log=None))
    assert not out.exists()


def test_stale_names_a_token_file_of_another_size_or_content(tmp_path, repository, monkeypatch):
    monkeypatch.chdir(repository)
    loaded = LoadedCampaign(Path("config/campaigns/demo.yaml"))
    folder = tokens_dir(tmp_path, loaded.cells[0])
    folder.parent.mkdir(parents=True)
    write_tokens(folder)
    assert _faults_of_tokens(loaded, tmp_path) == []
    for data, fault in (
        (b"1234567", "has 7 bytes, but tokens.json says 8: tokenise the"),
        (b"12345679", "was changed"),
    ):
        (folder / "train.bin").write_bytes(data)
        (line,) = _faults_of_tokens(loaded, tmp_path)
        assert line.startswith(f"{folder}/train.bin {fault}")
