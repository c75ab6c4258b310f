"""Surroundings that no command expects: real processes in other locales, on full disks, without libraries, interrupted.

Each is a process of its own, of about a second, in the folder of the generated project.
"""

import functools
import re
import shlex
import shutil
import signal
import subprocess
import sys
from importlib import metadata
from random import Random

from bad_cases import DEMO, OTHER, RESULTS, RUN, Case

# Imported by Python before anything else. `{when}` is of the modules that are looked for after the commands.
SITE = """
import os, signal, sys, threading

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
ABSENT = "raise ModuleNotFoundError(f\"No module named '{name}'\", name=name)"
# A file of the library's name, which Python finds first, fails when it is run.
BROKEN = """
from pathlib import Path
Path(__file__).with_name("{name}.py").write_text("VERSION = {{}}['version']")
"""
READING = [
    ["audit", RESULTS],
    ["campaign", "show", DEMO],
    ["campaign", "validate", DEMO],
    ["compare", RUN, OTHER, "--vary", "strategy"],
    ["corpus", "list"],
    ["explain", "machine-busy"],
    ["explain", "--all"],
    ["plan", DEMO],
    ["stale", DEMO],
    ["verify", RESULTS],
    ["why", RESULTS, "cells/ddp-n1x2/tokens_per_s"],
    ["index", "results"],
]
# Commands that write: the words, and the folder that they write into.
WRITING = [
    (["audit", RESULTS, "--html", "small/audit.html"], "small"),
    (["compare", RUN, OTHER, "--vary", "strategy", "--html", "small/compare.html"], "small"),
    (["export", "prometheus", RESULTS, "small/cells.prom"], "small"),
    (["init", "small/project"], "small"),
    (["stage", "tables", RESULTS], f"{RESULTS}/tables"),
    (["stage", "report", DEMO], RESULTS),
    (["stage", "collect", DEMO], RESULTS),
    (["stage", "analyse", DEMO], RESULTS),
]
STAGES = [["stage", name, DEMO] for name in ("collect", "findings", "analyse", "waterfall", "report", "pdf")]
STAGES += [["stage", name, RESULTS] for name in ("tables", "charts", "loss_charts", "trace_charts")]
CLOCK = "mkdir past; echo 'import time; time.time = lambda: 10.0' > past/usercustomize.py;"
ODD = {
    "locale C": "LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 {}",
    "ASCII streams": "PYTHONIOENCODING=ascii {}",
    "a terminal of 7 columns": "COLUMNS=7 {}",
    "COLUMNS is no number": "COLUMNS=wide {}",
    "no HOME": "env -u HOME {}",
    "HOME nowhere": "HOME=/nowhere {}",
    "TMPDIR nowhere": "TMPDIR=/nowhere {}",
    "time zone unknown": "TZ=Nowhere/AtAll {}",
    "empty PATH": "PATH=/nowhere {}",
    "no standard input": "{} <&-",
    "no standard output": "{} >&-",
    "no standard error": "{} 2>&-",
    "standard output full": "{} >/dev/full",
    "HOME is empty": "HOME= {}",
    "HOME is /proc": "HOME=/proc {}",
    "in 1970": f"{CLOCK} PYTHONPATH=past:$PYTHONPATH {{}}",
    "umask 777": "umask 777; {}",
    "files of 1 kB": "ulimit -f 1; {}",
    "few open files": "ulimit -n 24; {}",
    "warnings are errors": "PYTHONWARNINGS=error {}",
    "Python -OO": "PYTHONOPTIMIZE=2 {}",
    "the folder is gone": "mkdir gone && cd gone && rmdir ../gone && {}",
}
FULL = "mount -t tmpfs -o size=8k,mode=777 tmpfs {folder} && {}"
READ_ONLY = "mount --bind {folder} {folder} && mount -o remount,ro,bind {folder} && {}"


# Whether this machine lets anybody mount a disk of his own.
MOUNTS = (
    bool(shutil.which("unshare")) and subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode == 0
)


@functools.cache
def libraries() -> list[str]:
    """Return the modules of the packages that scaleproof asks for."""
    required = {re.split(r"[^\w.-]", line)[0].lower() for line in metadata.requires("scaleproof") or []}
    owners = metadata.packages_distributions()
    return sorted(name for name, packages in owners.items() if {p.lower() for p in packages} & required)


def surrounded(random: Random) -> Case:
    """A right command where its surroundings are odd: it works, or one message says why not."""
    kind = random.choice(["odd", "odd", "disk", "library"])
    if kind == "library":
        name, words = random.choice(libraries()), random.choice(READING)
        site = SITE.format(when=f"name == {name!r}", what=ABSENT) if random.random() < 0.5 else BROKEN.format(name=name)
        return Case(words, [], {}, (0, 1, 2), f"without {name}: {' '.join(words)}", shell="{}", site=site)
    if kind == "disk" and MOUNTS:
        words, folder = random.choice(WRITING)
        full = random.random() < 0.5 and folder == "small"
        inner = (FULL if full else READ_ONLY).replace("{folder}", folder)
        note = f"{'full' if full else 'read-only'} disk: {' '.join(words)}"
        must = [("disk is full", "No room") if full else ("cannot be written", "read-only", "Read-only")]
        return Case(words, must, {}, (0, 2), note, shell=f"mkdir -p small; unshare -rm sh -c {shlex.quote(inner)}")
    name, shell = random.choice(list(ODD.items()))
    words = random.choice(READING)
    return Case(words, [], {}, (0, 1, 2), f"{name}: {' '.join(words)}", shell=shell)


def interrupted(random: Random) -> Case:
    """A command that a signal ends, while it imports or works: one line, and no part of a file is left."""
    words = random.choice([*READING, *(words for words, _ in WRITING), *STAGES])
    name = random.choice(["SIGINT", "SIGTERM"])
    kill = f"os.kill(os.getpid(), signal.{name})"
    when, what = f"Finder.seen == {random.randrange(1, 400)}", kill
    if random.random() < 0.5:  # so many seconds after the commands were looked for
        after = random.uniform(0.2, 2.5)
        when = 'name == "scaleproof.cli.commands"'
        what = f"timer = threading.Timer({after:.2f}, lambda: {kill}); timer.daemon = True; timer.start()"
    number, word = (signal.SIGINT, "interrupted") if name == "SIGINT" else (signal.SIGTERM, "terminated")
    code = 128 + number
    return Case(
        words,
        [f"scaleproof: {word}"],
        {},
        # Negative: while Python ended, when all was done and said. It ends by SIGINT, whatever the signal, where that
        # came while a library executed a text.
        (0, 1, code, -number, -signal.SIGINT),
        f"{name}, {when}: {' '.join(words)}",
        shell="mkdir -p small; exec {}",
        site=SITE.format(when=when, what=what),
        judged=(code,),
    )


def command(case: Case) -> str:
    """Return the line of a shell that runs the case."""
    return case.shell.replace("{}", shlex.join([sys.executable, "-m", "scaleproof", *case.words]))
