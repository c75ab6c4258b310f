"""How a command ends that is stopped, that nobody listens to, or that lacks a library: at most one line, no traceback.

Real processes. What happens to them is arranged in their `sitecustomize`, which Python imports first.
"""

import ast
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scaleproof import cli
from scaleproof.cli.libraries import _library_of_file, unusable_library

PUBLISHED = next((Path(__file__).parents[2] / "results/published").glob("demo_*"))
COMMANDS = {
    "audit": ["audit", PUBLISHED],
    "campaign show": ["campaign", "show", "config/campaigns/demo.yaml"],
    "compare": ["compare", PUBLISHED / "runs/ddp-n1x1", PUBLISHED / "runs/ddp-n1x2"],
    "doctor": ["doctor", "--no-ranks", "--out", "OUT/doctor.json"],
    "explain": ["explain"],
    "plan": ["plan", "config/campaigns/demo.yaml"],
    "publish": ["publish", PUBLISHED, "--author", "Jane", "--out", "OUT/published"],
    "verify": ["verify", PUBLISHED],
}
# Sends a signal to its own process, or fails, when the command looks for its N-th module or for one of some name.
SITE = """
import os, signal, sys

class Finder:
    seen = 0

    def find_spec(self, name, path=None, target=None):
        if name == "scaleproof.cli.commands" or Finder.seen:
            Finder.seen += 1
        if {when}:
            sys.meta_path.remove(FINDER)
            {what}

FINDER = Finder()
sys.meta_path.insert(0, FINDER)
"""


@pytest.fixture
def scaleproof(tmp_path, repository):
    """Run a command in the repository; `when` and `what` of SITE, `where`: a shell line around it."""

    def run(*words, when="False", what="pass", shell="{}"):
        (tmp_path / "sitecustomize.py").write_text(SITE.format(when=when, what=what))
        given = [str(word).replace("OUT", str(tmp_path)) for word in words]
        line = shlex.join([sys.executable, "-m", "scaleproof", *given])
        environment = os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONSAFEPATH": "1"}
        return subprocess.run(
            ["bash", "-c", shell.format(line)], env=environment, capture_output=True, text=True, cwd=repository
        )

    return run


@pytest.mark.fault("Ctrl-C in any command, while it imports or works", "one line, exit code 130")
@pytest.mark.parametrize("moment", [1, 40, 150])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_interrupted_says_so_in_one_line(scaleproof, name, moment):
    done = scaleproof(
        *COMMANDS[name], when=f"Finder.seen == {moment}", what="os.kill(os.getpid(), signal.SIGINT)", shell="exec {}"
    )
    if done.returncode in (0, 1) and moment > 40:
        pytest.skip("the command imports fewer modules than that")
    assert (done.returncode, done.stderr) == (130, "scaleproof: interrupted\n")


@pytest.mark.parametrize("signals", ["SIGTERM", "SIGINT"])
def test_an_import_that_makes_something_else_of_it_is_interrupted_all_the_same(scaleproof, signals):
    """As C code does, which imports numpy for itself."""
    what = (
        f"\n            try: os.kill(os.getpid(), signal.{signals})"
        "\n            except BaseException: raise ImportError('multiarray failed to import') from None"
    )
    done = scaleproof("explain", when="Finder.seen == 9", what=what)
    words = {"SIGINT": (130, "scaleproof: interrupted\n"), "SIGTERM": (143, "scaleproof: terminated\n")}
    assert (done.returncode, done.stderr) == words[signals]


WORK = """
import sys, time
from pathlib import Path
from scaleproof import cli
from scaleproof.cli import commands
from scaleproof.measure.launch.device_lock import hold_devices

def busy(*_):
    print("begun", flush=True)
    time.sleep(60)

def pool():
    from concurrent.futures import ProcessPoolExecutor
    from scaleproof.measure.corpus import encode
    with ProcessPoolExecutor(2, initializer=encode.end_with_parent) as workers:
        list(workers.map(busy, range(2)))

def callback():
    import os, signal, weakref
    class Thing:
        pass
    thing = Thing()
    number = signal.Signals[sys.argv[3]]
    reference = weakref.ref(thing, lambda _: [os.kill(os.getpid(), number), time.sleep(0)])
    del thing
    busy()

def lock():
    with hold_devices(["core-0"], "mine", Path(sys.argv[2])):
        pass

def stubborn():
    try:
        busy()
    except KeyboardInterrupt:
        print("cleaning", flush=True)
        time.sleep(60)

works = {"busy": busy, "pool": pool, "lock": lock, "callback": callback, "stubborn": stubborn}
commands.run = works[sys.argv[1]]
cli.main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("work", ["busy", "pool", "lock"])
def test_work_of_several_processes_and_waiting_are_interrupted(tmp_path, work, number):
    """Ctrl-C reaches all processes of a terminal; SIGTERM the command alone."""
    from scaleproof.measure.launch.device_lock import hold_devices

    with hold_devices(["core-0"], "theirs", tmp_path):
        process = subprocess.Popen(
            [sys.executable, "-c", WORK, work, tmp_path],
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if work == "lock":
            assert process.stderr.readline().startswith("scaleproof: waiting for theirs")
        else:
            assert process.stdout.readline().startswith("begun")  # of a pool's processes, which write at once
        (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
        _, errors = process.communicate(timeout=60)
    words = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
    assert (process.returncode, errors) == (128 + number, f"scaleproof: {words[number]}\n")
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)  # nobody goes on


def test_a_second_ctrl_c_ends_at_once_and_says_so(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", WORK, "stubborn", tmp_path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for line in ("begun\n", "cleaning\n"):
        assert process.stdout.readline() == line
        process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (-signal.SIGINT, "scaleproof: interrupted twice: nothing is cleaned up\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_where_python_cannot_raise_comes_a_moment_later(tmp_path, number):
    done = subprocess.run(
        [sys.executable, "-c", WORK, "callback", tmp_path, signal.Signals(number).name],
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 128 + number
    assert re.fullmatch(r"scaleproof: (interrupted|terminated)\n", done.stderr)


def test_ctrl_c_that_is_ignored_stays_so(scaleproof):
    what = "os.kill(os.getpid(), signal.SIGINT)"
    done = scaleproof("explain", when="Finder.seen == 9", what=what, shell="trap '' INT; exec {}")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words", [["explain", "--all"], ["explain"], ["--help"], ["audit", PUBLISHED], ["nope"]])
def test_a_reader_that_goes_away_is_no_error(scaleproof, words):
    done = scaleproof(*words, shell="{} 2>&1 | head -1 >/dev/null; exit ${{PIPESTATUS[0]}}")
    assert done.stderr == ""
    assert done.returncode in (0, 1, 2, 141)
    gone = scaleproof(*words, shell="{} 2>&1 | true; exit ${{PIPESTATUS[0]}}")
    assert gone.stderr == ""
    assert gone.returncode in (0, 1, 2, 141), "0 where all was written before it went"


NEEDED = [
    *[(name, "numpy") for name in COMMANDS if name not in ("campaign show", "publish", "explain")],
    *[("compare", library) for library in ("pandas", "pydantic")],
    *[("campaign show", library) for library in ("yaml", "pydantic", "ruamel")],
    *[("doctor", library) for library in ("pydantic", "psutil")],
    ("publish", "pydantic"),
]


OF_EXTRA = {"psutil"}  # where it is absent, the extra that brings it is the cure


@pytest.mark.fault("a library cannot be imported", "one line names it and the cure, exit code 2")
@pytest.mark.parametrize("how", ["absent", "broken"])
@pytest.mark.parametrize(("name", "library"), NEEDED)
def test_a_library_that_cannot_be_imported_is_named_with_the_cure(scaleproof, tmp_path, name, library, how):
    if how == "broken":
        (tmp_path / f"{library}.py").write_text('raise ImportError("IMPORTANT: READ THIS\\n\\nlong advice")\n')
        done = scaleproof(*COMMANDS[name])
    else:
        absent = "raise ModuleNotFoundError(f\"No module named '{name}'\", name=name)"
        done = scaleproof(*COMMANDS[name], when=f"name == {library!r}", what=absent)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(f"scaleproof: {library} cannot be imported (")
    assert done.stderr.count("\n") == 1
    again = "'scaleproof[train]'" if how == "absent" and library in OF_EXTRA else '--force-reinstall "'
    assert f"Install it: pip install {again}" in done.stderr
    assert "make setup" in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "import nothing_of_that_name",
            "nothing_of_that_name cannot be imported (ModuleNotFoundError: No module named",
        ),
        (
            "x = {}['y']",
            "psutil cannot be imported (KeyError: 'y'). Install it: pip install --force-reinstall \"psutil<8,>=",
        ),
        ("def", "psutil cannot be imported (SyntaxError: "),
        (
            "import os; raise ValueError(f\"Key backend: {os.environ['MPLBACKEND']!r}\")",
            "psutil does not take MPLBACKEND=foo of the environment (Key backend: 'foo'). Unset it, or correct it",
        ),
        (
            "import os; raise ValueError(f\"no port: {os.environ['HF_ENDPOINT'].rpartition(':')[2]!r}\")",
            "psutil does not take HF_ENDPOINT=http://x:abc of the environment (no port: 'abc'). Unset it, or",
        ),
        ("raise ValueError(\"no number: ''\")", "psutil cannot be imported (ValueError: no number: ''). Install it"),
        (
            "raise ValueError('Key backend: bar')",
            "psutil cannot be imported (ValueError: Key backend: bar). Install it",
        ),
    ],
)
def test_a_library_that_is_damaged(scaleproof, tmp_path, monkeypatch, text, message):
    monkeypatch.setenv("MPLBACKEND", "foo")
    monkeypatch.setenv("HF_ENDPOINT", "http://x:abc")
    monkeypatch.setenv("EMPTY", "")
    (tmp_path / "psutil.py").write_text(f"{text}\n")
    done = scaleproof(*COMMANDS["doctor"])
    assert done.stderr.startswith(f"scaleproof: {message}"), done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.fault("torch cannot be imported", "the doctor says so in one line, and checks nothing")
def test_without_torch_the_doctor_examines_nothing(scaleproof, tmp_path):
    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so.12: cannot open shared object file')\n")
    done = scaleproof(*COMMANDS["doctor"])
    assert done.returncode == 2
    assert done.stderr.startswith("scaleproof: torch cannot be imported (OSError: libcudart.so.12: cannot open")
    assert done.stdout == ""


def test_an_older_python_gets_as_far_as_the_message(monkeypatch, capsys):
    ast.parse(Path(cli.__file__).read_text(), feature_version=(3, 9))
    monkeypatch.setattr(sys, "version_info", (3, 9, 18, "final", 0))
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("scaleproof: Python 3.11 or later is needed; this is 3.9 (")


def test_a_file_of_the_user_that_is_called_as_a_library(scaleproof, tmp_path):
    (tmp_path / "yaml.py").write_text("x = 1\n")
    done = scaleproof(*COMMANDS["campaign show"])
    assert done.returncode == 2
    assert done.stderr.startswith("scaleproof: yaml cannot be imported (AttributeError: module 'yaml' has no ")
    assert f"; it is {tmp_path / 'yaml.py'}, maybe another file of that name)" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("random.py", ["{} is imported in place of Python's own module random: rename it, or take its folder out of"]),
        (
            "numpy.py",
            ["numpy cannot be imported (", "Error: ", "; it is {}, maybe another", "). Rename it then"],
        ),
        ("unused.py", []),
    ],
)
def test_a_file_of_the_name_of_a_module_is_named(scaleproof, tmp_path, name, words):
    (tmp_path / name).write_text("x = 1\n")
    done = scaleproof(*COMMANDS["verify"])
    assert [word in done.stderr for word in (word.format(tmp_path / name) for word in words)] == [True] * len(words)
    assert (done.returncode, done.stderr.count("\n")) == ((2, 1) if words else (0, 0)), done.stderr


def test_an_attribute_that_python_does_not_have_is_a_defect_of_ours():
    for module in (sys, cli):
        with pytest.raises(AttributeError) as fault:
            module.nothing  # noqa: B018
        assert unusable_library(fault.value) is None


def test_a_library_for_which_there_is_no_memory():
    fault = ImportError("x.so: failed to map segment from shared object", name="_flapack")
    assert str(unusable_library(fault)).startswith("_flapack cannot be imported: the memory is used up")


def test_a_library_whose_name_is_longer_than_that_of_the_folder_it_lies_in(monkeypatch, tmp_path):
    packages = tmp_path / "site-packages"
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(packages)])
    assert _library_of_file(packages / "a_very_long_library_name/__init__.py") == "a_very_long_library_name"
    assert _library_of_file(tmp_path.parent / "train.py") == "scaleproof"


def test_a_defect_of_ours_keeps_its_traceback_and_ends_with_a_sentence():
    for defect in ("from scaleproof.ground.errors import nothing", "import scaleproof.nothing", "{}['x']"):
        code = f"from scaleproof import cli; from scaleproof.cli import commands\ndef run():\n    {defect}\n"
        code += "commands.run = run; cli.main()"
        line = [sys.executable, "-c", code, "stage", "waterfall", "my file.yaml"]
        done = subprocess.run(line, capture_output=True, text=True)
        assert done.returncode == 1
        assert done.stderr.startswith("Traceback")
        *_, sentence = done.stderr.splitlines()
        begin = "scaleproof: a defect of scaleproof ended `scaleproof stage waterfall 'my file.yaml'`: "
        assert sentence.startswith(begin)
        assert sentence.endswith(". Please report it with the lines above and what `scaleproof doctor` prints")
    assert f"{begin}KeyError: 'x' (" in sentence


@pytest.mark.parametrize("words", [["--version"], ["explain"], ["compare", *COMMANDS["compare"][1:]]])
def test_output_to_a_full_disk_is_one_message(scaleproof, words):
    """Also where a command ends with an exit code of its own, and all of its output is still to be written."""
    done = scaleproof(*words, shell="PYTHONUNBUFFERED= {} > /dev/full")
    assert (done.returncode, done.stderr) == (2, "scaleproof: output: No space left on device\n")
    closed = scaleproof(*words, shell="{} >&-")
    assert (closed.returncode, closed.stderr) == (2, "scaleproof: output is closed\n")


def test_memory_that_is_used_up_is_one_message():
    code = "from scaleproof import cli; from scaleproof.cli import commands\ndef run():\n    raise MemoryError\n"
    code += "commands.run = run; raise SystemExit(cli.main())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "the memory is used up" in done.stderr
