"""The command line: every option explained, an example for each command, short answers to wrong words."""

import argparse
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import scaleproof

from scaleproof.cli import parser
from scaleproof.cli.audit import _definition
from scaleproof.cli.verify import USUAL_LOSS
from scaleproof.ground.campaign.config import Work
from scaleproof.ground.findings.catalog import pages_by_code
from scaleproof.ground.findings.pages import index, written_pages


def leaves(top: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Name -> parser of every command that does something."""
    groups = [action for action in top._actions if isinstance(action, argparse._SubParsersAction)]
    if not groups:
        return {top.prog: top}
    return {name: leaf for sub in groups[0].choices.values() for name, leaf in leaves(sub).items()}


COMMANDS = leaves(parser())
FOR_PEOPLE = [name for name in COMMANDS if not name.startswith("scaleproof stage ")]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_argument_is_explained(name):
    assert COMMANDS[name].description
    for action in COMMANDS[name]._actions:
        assert action.help, f"{name}: {action.option_strings or action.dest} has no help"


@pytest.mark.parametrize("name", FOR_PEOPLE)
def test_a_command_for_people_has_an_example_that_parses(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file in ("nccl.log", "topo.xml", "all_reduce.json", "all_gather.json", "scaling.csv"):  # that examples read
        Path(file).touch()
    for folder in ("scaleproof-watch", "ddp/scaleproof-watch", "zero2/scaleproof-watch"):
        Path(folder).mkdir(parents=True)
    epilog = COMMANDS[name].epilog or ""
    lines = [line.partition("#")[0].strip() for line in epilog.splitlines()]
    examples = [shlex.split(line.partition(">")[0]) for line in lines if line.startswith(name)]
    assert examples, f"{name} has no example"
    for words in examples:
        parser().parse_args(words[1 : words.index("--") if "--" in words else None])


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["campaing"], 'Did you mean "campaign"?'),
        (["campaign", "vaildate"], 'Did you mean "validate"?'),
        (["audit", "results", "--jsno"], 'Did you mean "--json"?'),
        (["stage", "train", "x.yaml", "c", "--tokens", ".", "--out", "o", "--repeat", "0"], "1 to 1,000,000"),
        (["audit", ""], "a path is empty"),
        (["--gate"], 'gate: error: "--gate" is no option but a command, without hyphens: scaleproof gate'),
        (["--results"], '"--results" is not expected. A command is missing; allowed: init, doctor'),
    ],
)
def test_a_wrong_word_is_answered_with_the_nearest(words, hint):
    done = subprocess.run([sys.executable, "-m", "scaleproof", *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert hint in done.stderr
    assert "Traceback" not in done.stderr


def test_explain_prints_an_index_then_a_page():
    index = subprocess.run([sys.executable, "-m", "scaleproof", "explain"], capture_output=True, text=True)
    codes, _, words = index.stdout.partition("Words of reports: ")
    assert len(codes.splitlines()) < 170, "a line for each code"
    assert len(words.splitlines()) < 40, "the words one behind the other"
    assert "super-linear" in index.stdout
    page = subprocess.run(
        [sys.executable, "-m", "scaleproof", "explain", "super-linear"], capture_output=True, text=True
    )
    assert page.stdout.startswith("## super-linear")


@pytest.mark.fault("the reader of the output goes away", "quiet end, exit code 141")
def test_a_closed_pipe_ends_quietly(repository):
    command = f"{shlex.quote(sys.executable)} -m scaleproof explain --all | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=repository)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_a_default_that_help_repeats_is_that_of_a_campaign():
    default = Work.model_fields["warmup_steps"].default
    assert f"first steps that do not count (default: {default})" in COMMANDS["scaleproof ab"].format_help()
    assert f"({USUAL_LOSS:g})" in COMMANDS["scaleproof gate"].format_help()


def test_shells_can_complete_what_shtab_makes_of_the_parser():
    results = {action.dest: action for action in COMMANDS["scaleproof verify"]._actions}["results"]
    assert results.complete["bash"] == "_shtab_compgen_files"
    for name, one in COMMANDS.items():
        for action in one._actions:
            is_group = isinstance(action, argparse._SubParsersAction)
            assert is_group or not isinstance(action.choices, dict), (
                f"{name} {action.dest}: shtab takes a mapping for commands"
            )


@pytest.mark.parametrize("word", ["work.global_batch", "margin", "tokens_per_s", "machine-busy", "kernels", ""])
def test_all_is_explained_without_the_libraries_of_the_audit(word):
    program = (
        "import sys; from scaleproof import cli; cli.main(); "
        "sys.exit(bool({'numpy', 'pydantic', 'scipy', 'pandas'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program, "explain", *word.split()], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout) > 40


def test_the_written_pages_are_those_of_all_findings():
    assert set(written_pages()) == set(pages_by_code())
    lines = index().splitlines()
    assert sum(line.startswith("  ") for line in lines) == len(pages_by_code())
    assert "Runs of scaleproof only:" in lines


def test_no_code_hides_behind_a_key_or_a_column():
    assert not [code for code in pages_by_code() if _definition(code)]


def test_a_heading_is_the_nearest_name_of_one_that_is_misspelt(tmp_path):
    assert 'Did you mean "efficiency"?' in scaleproof("explain", "efficency", cwd=tmp_path).stderr
    assert "Did you mean" not in scaleproof("explain", "zebra", cwd=tmp_path).stderr


def test_explain_prints_the_page_of_each_finding():
    words = [sys.executable, "-m", "scaleproof", "explain", "machine-busy", "run-stands-out"]
    pages = subprocess.run(words, capture_output=True, text=True)
    assert pages.returncode == 0
    assert "machine-busy" in pages.stdout
    assert "run-stands-out" in pages.stdout
    several = subprocess.run([*words, "nonsense"], capture_output=True, text=True)
    assert (several.returncode, several.stdout) == (2, "")


def test_the_version_has_a_short_option(tmp_path):
    assert scaleproof("-V", cwd=tmp_path).stdout == scaleproof("--version", cwd=tmp_path).stdout != ""
