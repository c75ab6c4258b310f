"""The command line: how every command begins and ends. The commands are in `commands`, imported when one is run.

Importing this imports next to nothing, so that Ctrl-C in the second of the imports is answered as at any other moment.
"""

import os
import signal
import sys

TYPE_CHECKING = False  # as of typing, which takes as long as all the rest to import

if TYPE_CHECKING:
    import argparse
    from typing import Any, NoReturn

__all__ = ["main", "parser"]

LINE_END = "\n"
WRONG = 2  # exit code of wrong input, and of an installation that is broken
STOPS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


def parser(stages_alone: bool = False) -> "argparse.ArgumentParser":
    """Return the parser of all commands, or of those that the workflow calls."""
    from scaleproof.cli import commands

    return commands.parser(stages_alone)


def main() -> None:
    """Run the command of the command line, and end as it ends.

    Wrong input ends with exit code 2 and one message; a signal or a closed pipe ends the command without more.
    """
    stop = _Stop()
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
    """What stopped the command: Ctrl-C (SIGINT) or SIGTERM, whose exceptions a library may turn into others."""

    def __init__(self) -> None:
        """Catch SIGINT and SIGTERM, unless they are ignored, and exceptions that Python only prints (`_unraisable`)."""
        self.number: signal.Signals | None = None
        self._process = os.getpid()  # a process that is forked from this one has the handlers as well
        self._before: dict[signal.Signals, Any] = {}
        for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
            if signal.getsignal(number) is usual:  # not where they are ignored, as behind nohup
                self._before[number] = signal.signal(number, self._stop)
        self._hook, sys.unraisablehook = sys.unraisablehook, self._unraisable

    @property
    def code(self) -> int:
        """The exit code after the signal, as shells give it."""
        return 128 + (self.number or 0)

    def _stop(self, number: int, _: object) -> "NoReturn":
        """End the command on a signal, undoing what is begun. A second signal ends the process at once."""
        signal.signal(number, signal.SIG_DFL)
        if os.getpid() != self._process:  # forked from the command, which says what there is to say
            os.kill(os.getpid(), number)
        self.number = signal.Signals(number)
        if "multiprocessing" in sys.modules:  # a pool waits for its processes, which SIGTERM does not reach
            from multiprocessing import active_children

            for process in active_children():
                process.kill()
        raise KeyboardInterrupt

    def _unraisable(self, problem: "sys.UnraisableHookArgs") -> None:
        """Send the signal again a moment later where Python could not raise it, as in a callback of a weak reference.

        All other errors that cannot be raised are for the hook that was there before.
        """
        if self.number is None or problem.exc_type is not KeyboardInterrupt:
            self._hook(problem)
            return
        from threading import Timer

        signal.signal(self.number, self._stop)
        Timer(0.01, os.kill, (self._process, self.number)).start()

    def end(self) -> None:
        """Restore what was there before; from the end of Python on, Ctrl-C ends the process without a traceback."""
        sys.unraisablehook = self._hook
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._before and self._process == os.getpid():  # signals were caught, and by this process
            import atexit

            atexit.register(signal.signal, signal.SIGINT, signal.SIG_DFL)


def _report_error(error: BaseException) -> int | None:
    """Print the message of an error that has ended a command, and return its exit code; None for a defect of ours."""
    if isinstance(error, MemoryError):  # before anything is imported
        _say("the memory is used up that this process may have (ulimit -v, or what the machine has left)")
        return WRONG
    from scaleproof.ground.errors import UserError, printable

    if isinstance(error, SystemExit):  # its code is argparse's or the command's own
        try:
            _flush()
        except BrokenPipeError as closed:
            return _report_error(closed)
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        return None  # no command of ours ends with a text
    if isinstance(error, UserError):
        _say(printable(str(error), besides=LINE_END))
        return WRONG
    if isinstance(error, BrokenPipeError):  # `| head`: whoever reads has read enough
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:  # what is left in it would be written, in vain, when Python ends
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return 128 + signal.SIGPIPE  # as a program that SIGPIPE ends
    from scaleproof.cli.libraries import unusable_library

    if text := unusable_library(error):
        _say(printable(text))
        return WRONG
    if isinstance(error, OSError):  # a full disk, a folder that may not be written: nothing a traceback would explain
        from scaleproof.ground.files import os_fault

        _say(printable(os_fault(error)))
        return WRONG
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


def _say(text: str) -> None:
    """Print a message to standard error, in the name of the program."""
    try:
        print(f"scaleproof: {text}", file=sys.stderr, flush=True)
    except OSError:  # nobody is there to read it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
