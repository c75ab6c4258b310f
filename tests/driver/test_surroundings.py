"""What is refused before Snakemake looks for anything to do."""

import os
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from scaleproof.driver.surroundings import check_config_name, check_order, check_start, find_package, has_config
from scaleproof.ground.errors import UserError


def test_no_core_and_a_file_in_place_of_results_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config/campaigns").mkdir(parents=True)
    (tmp_path / "config/campaigns/mine.yaml").touch()
    (tmp_path / "results/mine").mkdir(parents=True)
    for cores in (None, 1, 64):
        check_start(cores)
    with pytest.raises(UserError, match="--cores 0, or --jobs 0, starts nothing"):
        check_start(0)
    (tmp_path / "results/mine").rmdir()
    (tmp_path / "results/mine").touch()
    with pytest.raises(UserError, match="results/mine is a file"):
        check_start(1)


@pytest.mark.parametrize("make", [Path.touch, lambda path: path.symlink_to("away")], ids=["file", "lost link"])
def test_results_that_are_no_folder_are_refused(tmp_path, monkeypatch, make):
    monkeypatch.chdir(tmp_path)
    check_start(1)  # without results there is nothing to say
    make(tmp_path / "results")
    with pytest.raises(
        UserError, match=r"^results is a (file; a folder is expected|link to away, which leads nowhere)$"
    ):
        check_start(1)


def test_an_option_behind_the_targets_is_refused():
    for words in (["snakemake", "--cores", "2"], ["-n", "--forcerun", "train", "--", "results/demo/report.html"]):
        check_order(words)
    for option in ("--cores", "--cores=2", "-n"):
        with pytest.raises(UserError, match=f"^{option} stands behind --, where only targets may stand: write all "):
            check_order(["snakemake", "--", "results/demo/report.html", option])


@pytest.mark.parametrize(("name", "is_refused"), [("it's {mine}", True), ("a}", True), ("it's mine (2)", False)])
def test_braces_in_the_name_of_the_folder_are_refused(tmp_path, monkeypatch, name, is_refused):
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / name)
    with pytest.raises(UserError, match="takes braces in the name of a folder") if is_refused else nullcontext():
        check_start(2)


def test_the_program_comes_into_the_path_whether_there_is_one_or_not(monkeypatch):
    """`env -i` leaves none."""
    monkeypatch.setenv("SCALEPROOF_ROOT", "")
    monkeypatch.delenv("PATH")
    monkeypatch.setattr("shutil.which", lambda _: None)
    find_package()
    assert os.environ["PATH"] == f"{os.defpath}{os.pathsep}{Path(sys.executable).parent}"
    monkeypatch.setenv("PATH", "/x")
    find_package()
    assert os.environ["PATH"].startswith(f"/x{os.pathsep}")


@pytest.mark.parametrize(
    ("text", "has_keys"), [(None, False), ("", False), ("# anonymous: true\n", False), ("a: 1", True)]
)
def test_a_file_without_keys_is_no_configuration(tmp_path, text, has_keys):
    if text is not None:
        (tmp_path / "config.yaml").write_text(text)
    assert has_config(tmp_path / "config.yaml") == has_keys


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- anonymous\n", "config.yaml, line 1: a list stands here; .*: a mapping is expected, with lines such as"),
        ("a: [", "line 1, column 5: not valid"),
    ],
)
def test_a_configuration_that_snakemake_cannot_read_is_one_message(tmp_path, text, message):
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(UserError, match=message):
        has_config(tmp_path / "config.yaml")


def test_a_config_that_nobody_reads_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").mkdir()
    check_config_name({})
    (tmp_path / "config/config.yml").touch()
    with pytest.raises(UserError, match=r"config/config\.yml is not read: rename it to config/config\.yaml"):
        check_config_name({})
    check_config_name({"own": "a workflow that has ours as a module, and reads the file itself"})
    (tmp_path / "config/config.yaml").touch()
    check_config_name({})
