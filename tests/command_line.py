"""Commands of scaleproof called in this process: the words and answers of a shell, without a second of imports."""

import contextlib
import io
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from scaleproof import cli
from scaleproof.ground.campaign import loaded


@dataclass(frozen=True)
class Done:
    """What a command returned and printed."""

    returncode: int
    stdout: str
    stderr: str


def scaleproof(*words: str | Path, cwd: Path) -> Done:
    """Run a command in folder `cwd`. An exception that is no SystemExit leaves here, as a traceback leaves a shell.

    A signal that ended the command was meant for the tests, such as that of a time limit around them: it comes again.
    """
    out, err = io.StringIO(), io.StringIO()
    loaded._corpus_table.cache_clear()
    loaded.load_named.cache_clear()
    before = Path.cwd()
    os.chdir(cwd)
    try:
        argv = mock.patch.object(sys, "argv", ["scaleproof", *map(str, words)])
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), argv:
            try:
                cli.main()
                code = 0
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        os.chdir(before)
        loaded._corpus_table.cache_clear()
    if code in (128 + signal.SIGINT, 128 + signal.SIGTERM):
        signal.raise_signal(signal.Signals(code - 128))
    return Done(code, out.getvalue(), err.getvalue())
