"""Thousands of generated bad inputs, over all commands and files: is each answered, in time, and nothing written?

    python benchmarks/bad_inputs.py                          # 3,000 inputs; exit code 1 if one is answered badly
    python benchmarks/bad_inputs.py --seed 7 --show 200      # prints 200 inputs with their answers, to be read

Inputs are derived from the parser of the command line, the schemas of campaigns and corpora, and the files of the
published campaign; surroundings and signals are those of real processes. Of each answer is asked: no traceback, a
documented exit code, within LONGEST_S, the file and the key that are wrong, what is allowed, the name that was
misspelt, and that no file was written or lost.
"""

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

REPOSITORY = Path(__file__).parents[1]
sys.path[:0] = [str(REPOSITORY / "tests"), str(REPOSITORY / "benchmarks")]

import snakemake.cli  # noqa: E402, F401  (looks for programs while it is imported)
from bad_cases import Case, Special  # noqa: E402
from bad_commands import command_line  # noqa: E402
from bad_configs import CAMPAIGN, campaign, corpus, meant, profile, text_of_corpus, text_of_yaml  # noqa: E402
from bad_records import foreign, record  # noqa: E402
from bad_results import changed_results  # noqa: E402
from bad_surroundings import command, interrupted, surrounded  # noqa: E402
from command_line import Done, scaleproof  # noqa: E402

INPUTS = 3000
LONGEST_S = 5.0  # of CPU time, of one command
ALARM_S = 20  # a command that takes longer is stopped
PROCESS_S = 60  # and a process of its own, whose seconds are those of the machine
FORBIDDEN = ("Traceback", "Error(", "pydantic", "validation error", "\x1b", "<class ", "object at 0x")

# How often each kind is drawn, and what makes one.
KINDS: dict[str, tuple[int, Callable[[Random], Case]]] = {
    "command line": (9, command_line),
    "campaign": (8, campaign),
    "text of a campaign": (2, text_of_yaml),
    "meant otherwise": (1, meant),
    "corpora": (3, corpus),
    "own files": (2, text_of_corpus),
    "records": (3, record),
    "foreign files": (3, foreign),
    "profile": (1, profile),
    "changed results": (3, changed_results),
    "surroundings": (2, surrounded),
    "signals": (2, interrupted),
}


def make_place(folder: Path) -> None:
    """A repository with the results of one campaign, a few files of text, and a campaign and corpora to be changed."""
    for name in ("config", "profiles", "slurm"):
        shutil.copytree(REPOSITORY / name, folder / name)
    for name in ("Snakefile", "README.md"):
        shutil.copy(REPOSITORY / name, folder)
    published = next((REPOSITORY / "results/published").glob("demo_*"))
    shutil.copytree(published, folder / "results/demo")
    shutil.copy(published / "campaign.yaml", folder / "config/campaigns/demo.yaml")
    (folder / "config/campaigns/mine.yaml").write_bytes(CAMPAIGN)
    (folder / "notes").mkdir()
    (folder / "notes/one.txt").write_text("one\ntwo\n")
    (folder / "empty").mkdir()
    (folder / "binary.bin").write_bytes(bytes(range(256)) * 8)
    (folder / "empty.txt").touch()
    os.mkfifo(folder / "pipe")
    (folder / "circle").symlink_to("circle")


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file and folder with its size and time."""
    return {
        str(path): (entry.st_size, entry.st_mtime_ns) if not path.is_dir() else (0, 0)
        for path in folder.rglob("*")
        if (entry := path.lstat())
    }


@contextlib.contextmanager
def changed(place: Path, case: Case) -> Iterator[None]:
    """The files of the case in their places; afterwards everything is as it was."""
    aside = Path(tempfile.mkdtemp(dir=place.parent))
    names = list(case.files)
    for number, name in enumerate(names):
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() or path.is_symlink():
            path.rename(aside / str(number))
        content = case.files[name]
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            MAKE[content](path)
    try:
        yield
    finally:
        for number, name in enumerate(names):
            path = place / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
            if (aside / str(number)).exists() or (aside / str(number)).is_symlink():
                (aside / str(number)).rename(path)
        shutil.rmtree(aside)


MAKE: dict[Special, Callable[[Path], None]] = {
    Special.PIPE: os.mkfifo,
    Special.FOLDER: Path.mkdir,
    Special.CIRCLE: lambda path: path.symlink_to(path.name),
    Special.NOWHERE: lambda path: path.symlink_to("nowhere-at-all"),
    Special.GONE: lambda path: None,
}


class Stopped(BaseException):
    """The command took too long; no `except Exception` of it catches this."""


def too_long(*_: object) -> None:
    raise Stopped(f"more than {ALARM_S} s")


POPEN = subprocess.Popen


class NoProgram(subprocess.Popen):  # type: ignore[type-arg]
    """No program is started for a bad input; those that are asked about the machine are not there.

    Snakemake is: what a random change leaves sound, such as `stale` of all campaigns, asks it.
    """

    def __new__(cls, words: list[str] | str, *rest: Any, **options: Any) -> Any:
        if list(words[1:3]) == ["-m", "snakemake"]:
            return POPEN(words, *rest, **options)
        return super().__new__(cls)

    def __init__(self, words: list[str] | str, *_: object, **__: object) -> None:
        name = Path(words[0] if isinstance(words, list | tuple) else str(words)).name
        if name in ("scontrol", "sinfo", "squeue", "sacct", "sacctmgr", "sbatch", "git", "nvidia-smi"):
            raise FileNotFoundError(2, "No such file or directory", name)
        raise AssertionError(f"a program would be started: {str(words)[:200]}")

    def __del__(self, *_: object) -> None:
        return


def answer(case: Case, place: Path) -> tuple[Done, float]:
    """What the command prints, and its seconds of CPU time; a traceback is printed as a shell would show it."""
    if case.shell:
        return alone(case, place)
    began = time.process_time()
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(ALARM_S)
    try:
        done = scaleproof(*case.words, cwd=place)
    except (Exception, Stopped):
        done = Done(99, "", traceback.format_exc()[-3000:])
    finally:
        signal.alarm(0)
    return done, time.process_time() - began


def alone(case: Case, place: Path) -> tuple[Done, float]:
    """What a process of its own prints, and its seconds of CPU time."""
    site = Path(tempfile.mkdtemp(dir=place.parent))
    (site / "sitecustomize.py").write_text(case.site)
    environment = os.environ | {"PYTHONPATH": f"{site}:{REPOSITORY / 'src'}", "PYTHONSAFEPATH": "1"}
    before = os.times()
    with POPEN(
        ["bash", "-c", command(case)],
        cwd=place,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=PROCESS_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = b"", f"more than {PROCESS_S} s".encode()
            process.communicate()
    after = os.times()
    shutil.rmtree(site)
    done = Done(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))
    return done, after.children_user + after.children_system - before.children_user - before.children_system


def faults(case: Case, done: Done, seconds: float, before: dict, after: dict) -> list[str]:
    """What is wrong with an answer, as far as a program can tell."""
    text = done.stdout + done.stderr
    wrong = []
    if done.returncode not in case.codes:
        wrong.append(f"exit code {done.returncode}, not {' or '.join(map(str, case.codes))}")
    wrong += [f"has {word!r}" for word in FORBIDDEN if word in text and word not in case.note]
    if seconds > LONGEST_S:
        wrong.append(f"took {seconds:.1f} s")
    parts = [name for name in after if name.endswith(".part") and name not in before]
    if parts:
        wrong.append(f"leaves {parts[:3]}")
    if done.returncode in case.judged:
        for words in case.must:
            one_of = words if isinstance(words, tuple) else (words,)
            if not any(word in text for word in one_of):
                wrong.append(f"does not have {' or '.join(map(repr, one_of))}")
    if done.returncode == 2:
        if len(text) > 6000:
            wrong.append(f"{len(text)} characters")
        if before != after and not case.shell:
            names = {name for name in before | after if before.get(name) != after.get(name)}
            wrong.append(f"changed {sorted(names)[:3]}")
    return wrong


def run(inputs: int, seed: int, show: int = 0, kind_alone: str | None = None) -> Counter[str]:
    """Answers to `inputs` cases; prints those with faults, or `show` of them as they are. Returns counts by kind."""
    random = Random(seed)
    counts: Counter[str] = Counter()
    kinds = [kind_alone] if kind_alone else [kind for kind, (weight, _) in KINDS.items() for _ in range(weight)]
    os.environ["SCALEPROOF_CACHE"] = ""  # sound campaigns do not measure how fast this machine is
    subprocess.Popen = NoProgram  # type: ignore[misc, assignment]
    try:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "place"
            place.mkdir()
            make_place(place)
            drawn = set(random.sample(range(inputs), min(show, inputs)))
            for number in range(inputs):
                kind = random.choice(kinds)
                case = KINDS[kind][1](random)
                if show and number not in drawn:
                    continue
                with changed(place, case):
                    before = listing(place)
                    done, seconds = answer(case, place)
                    after = listing(place)
                wrong = faults(case, done, seconds, before, after)
                counts[f"{kind}{' BAD' if wrong else ''}"] += 1
                if wrong or show:
                    print(f"\n##### {number} [{kind}] {case.note or ' '.join(case.words)} | exit {done.returncode}")
                    print(f"$ {' '.join(case.words)}"[:400])
                    print((done.stdout + done.stderr).strip()[:2500] or "(no answer)")
                    print(*(f"!!! {one}" for one in wrong), sep="\n", end="\n" if wrong else "")
                if before != after and done.returncode != 2:  # a command that did its work
                    shutil.rmtree(place)
                    place.mkdir()
                    make_place(place)
    finally:
        subprocess.Popen = POPEN  # type: ignore[misc]
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=INPUTS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=0, help="print so many inputs and answers, drawn at random")
    parser.add_argument("--kind", choices=KINDS, help="inputs of one kind alone")
    args = parser.parse_args()
    counts = run(args.inputs, args.seed, args.show, args.kind)
    bad = sum(count for kind, count in counts.items() if kind.endswith("BAD"))
    print(f"\n{dict(sorted(counts.items()))}\n{bad} of {counts.total()} answered badly")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
