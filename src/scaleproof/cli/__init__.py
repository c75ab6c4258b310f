"""The command line: how every command begins and ends. The commands are in `commands`, imported when one is run.

Importing this imports next to nothing, so that Ctrl-C in the second of the imports is answered as at any other moment.
"""

from __future__ import annotations  # so that an older Python gets as far as the message in `main`

import atexit
import gc
import os
import signal
import sys

TYPE_CHECKING = False  # as of typing, which takes as long as all the rest to import

if TYPE_CHECKING:
    import argparse
    from typing import Any, NoReturn

__all__ = ["main", "parser"]

LINE_END = "\n"
GARBAGE_OBJECTS = 50_000  # new objects between two looks for garbage; Python's own is 700
OLDEST_PYTHON = (3, 11)  # as in pyproject.toml, which pip alone reads
WRONG = 2  # exit code of wrong input, and of an installation that is broken
STOPS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


def parser(stages_alone: bool = False) -> argparse.ArgumentParser:
    from scaleproof.cli import commands

    return commands.parser(stages_alone)


def main() -> None:
    """Run the command of the command line, and end with its exit code.

    Wrong input ends with exit code 2 and one message. A signal is named in a word; a closed pipe prints nothing.
    """
    if sys.version_info < OLDEST_PYTHON:
        needed, this = (".".join(map(str, version[:2])) for version in (OLDEST_PYTHON, sys.version_info))
        _say(f"Python {needed} or later is needed; this is {this} ({sys.executable})")
        raise SystemExit(WRONG)
    # Imports and records make no garbage: looking for it, and taking all apart at the end, took a quarter of the time.
    gc.set_threshold(GARBAGE_OBJECTS)
    atexit.register(gc.freeze)
    stop = _Stop()
    if sys.stdout is None:  # closed by the shell: read-only, so that printing fails as on a full disk
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w")  # noqa: SIM115
    if (mask := os.umask(0o077)) & 0o700:  # then neither we nor libraries, such as matplotlib, could use own files
        _say(f"umask {mask:03o} keeps files from their owner, too; {mask & 0o077:03o} is used instead")
    os.umask(mask & 0o077)
    try:
        from scaleproof.cli.commands import run

        run()
        _flush()
    except BaseException as error:
        code = stop.code if stop.number else _report_error(error)
        if code is None:  # a defect of ours: its traceback is what one can report
            error.add_note(_defect_text(error))
            raise
        if stop.number:
            _say(STOPS[stop.number])
        raise SystemExit(code) from None
    finally:
        stop.end()


class _Stop:
    """Catches Ctrl-C (SIGINT) and SIGTERM, and remembers which of them has stopped the command.

    The exception that a signal raises does not tell: a library may turn it into another one.
    """

    def __init__(self) -> None:
        """Handle both signals, unless they are ignored, as behind nohup, and exceptions that Python only prints."""
        self.number: signal.Signals | None = None  # the signal that has stopped the command
        self._process = os.getpid()  # a process that is forked from this one has the handlers as well
        self._earlier_handlers: dict[signal.Signals, Any] = {}
        for number, default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
            if signal.getsignal(number) is default:
                self._earlier_handlers[number] = signal.signal(number, self._stop)
        self._earlier_hook = sys.unraisablehook
        sys.unraisablehook = self._unraisable

    @property
    def code(self) -> int:
        return 128 + (self.number or 0)

    def _stop(self, number: int, _: object) -> NoReturn:
        """End the command with a KeyboardInterrupt, so that it cleans up. A second signal ends the process at once."""
        signal.signal(number, self._end_at_once)
        if os.getpid() != self._process:
            self._end_at_once(number)
        self.number = signal.Signals(number)
        if "multiprocessing" in sys.modules:  # a pool waits for its processes, which SIGTERM does not reach
            from multiprocessing import active_children

            for process in active_children():
                process.kill()
        raise KeyboardInterrupt

    def _end_at_once(self, number: int, _: object = None) -> None:
        """End the process by the signal, and say so unless it was forked: the command itself reports the signal."""
        signal.signal(number, signal.SIG_DFL)
        if os.getpid() == self._process:  # not by `print`, which may be what was interrupted
            os.write(2, f"scaleproof: {STOPS[signal.Signals(number)]} twice: nothing is cleaned up\n".encode())
        os.kill(os.getpid(), number)

    def _unraisable(self, problem: sys.UnraisableHookArgs) -> None:
        """Send the signal again a moment later where Python could not raise its exception.

        Python only prints what is raised in a callback of a weak reference, for example. All other errors of this kind
        go to the hook that was there before.
        """
        if self.number is None or problem.exc_type is not KeyboardInterrupt:
            self._earlier_hook(problem)
            return
        from threading import Timer

        signal.signal(self.number, self._stop)  # which the first signal has reset
        Timer(0.01, os.kill, (self._process, self.number)).start()

    def end(self) -> None:
        """Restore the earlier handlers. After that, until Python has ended, Ctrl-C prints no traceback."""
        sys.unraisablehook = self._earlier_hook
        for number, handler in self._earlier_handlers.items():
            signal.signal(number, handler)
        if self._earlier_handlers and self._process == os.getpid():  # signals were caught, and by this process
            atexit.register(signal.signal, signal.SIGINT, signal.SIG_DFL)


def _report_error(error: BaseException) -> int | None:
    """Print the message of an error that ended a command; return its exit code, None for a defect of ours."""
    if isinstance(error, MemoryError):  # first of all: the branches below import modules, which takes memory
        _say("the memory is used up that this process may have (ulimit -v, or what the machine has left)")
        return WRONG
    if isinstance(error, SystemExit):
        return _exit_code(error)
    if isinstance(error, BrokenPipeError):  # `| head`: whoever reads has read enough
        _drop_unwritten_output()
        return 128 + signal.SIGPIPE  # as a program that SIGPIPE ends

    message = _shadowing_file(error) or _message_on(error)
    if message is None:
        return None
    from scaleproof.ground.errors import printable

    _drop_unwritten_output()
    _say(printable(message, besides=LINE_END))
    return WRONG


def _shadowing_file(error: BaseException) -> str | None:
    """Return what to say where a file of the user is imported in place of a module of Python. Returns None if none is.

    Asked before anything else is imported, which would fail as well.
    """
    if not isinstance(error, ImportError | AttributeError):
        return None
    python = os.path.dirname(os.__file__)
    for name in sys.stdlib_module_names & sys.modules.keys():
        file = getattr(sys.modules[name], "__file__", None)
        if file and not file.startswith(python) and "-packages" not in file:  # setuptools brings a distutils
            advice = "rename it, or take its folder out of PYTHONPATH"
            return f"{file} is imported in place of Python's own module {name}: {advice}"
    return None


def _exit_code(error: SystemExit) -> int | None:
    """Return the exit code of argparse, or of a command. Returns None for a text: no command of ours ends with one.

    Output that cannot be written, to a closed pipe or a full disk, is an error of its own.
    """
    try:
        _flush()
    except OSError as fault:
        return _report_error(fault)
    if error.code is None or isinstance(error.code, int):
        return error.code or 0
    return None


def _message_on(error: BaseException) -> str | None:
    """Return the message on wrong input, an unusable library or an error of the system. Returns None for a defect."""
    from scaleproof.ground.errors import UserError

    if isinstance(error, UserError):
        return str(error)
    from scaleproof.cli.libraries import unusable_library

    if library_fault := unusable_library(error):
        return library_fault
    if isinstance(error, OSError):  # a full disk, a folder that may not be written: nothing a traceback would explain
        from scaleproof.ground.files import os_fault

        return os_fault(error)
    return None


def _defect_text(error: BaseException) -> str:
    """Return the sentence that ends the traceback of a defect of ours: which command, what, where, how to report it."""
    import shlex
    from textwrap import shorten
    from traceback import extract_tb

    package = os.path.dirname(os.path.dirname(__file__))
    frames = [frame for frame in extract_tb(error.__traceback__) if frame.filename.startswith(package)]
    where = f" ({os.path.relpath(frames[-1].filename, package)}, line {frames[-1].lineno})" if frames else ""
    what = f"{type(error).__name__}: {shorten(str(error), 300)}"
    ended = f"a defect of scaleproof ended `{shlex.join(['scaleproof', *sys.argv[1:]])}`: {what}{where}"
    return f"scaleproof: {ended}. Please report it with the lines above and what `scaleproof doctor` prints"


def _flush() -> None:
    """Write what is left to be printed, so that a disk that is full or a closed pipe is an error of the command."""
    if sys.stdout is not None:
        sys.stdout.flush()


def _drop_unwritten_output() -> None:
    """Drop the output that cannot be written any more, which Python would try to write once more when it ends."""
    for stream in filter(None, (sys.stdout, sys.stderr)):  # a stream is None where the shell has closed it
        try:
            if not stream.closed:  # by a user's module
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _say(text: str) -> None:
    try:
        print(f"scaleproof: {text}", file=sys.stderr, flush=True)
    except OSError:  # nobody is there to read it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
