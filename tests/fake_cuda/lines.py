"""Which lines of a file have run in this process, and which are there to run."""

import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Collection
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

Trace = Callable[[FrameType, str, Any], Any]


def lines_to_run(path: Path) -> set[int]:
    """Lines within functions: those of a module itself run when it is imported."""
    module = compile(path.read_text(), str(path), "exec")
    lines: set[int] = set()

    def collect(code: CodeType) -> None:
        for part in code.co_consts:
            if isinstance(part, CodeType):
                if part.co_flags & 2:  # CO_NEWLOCALS: a function, not the body of a class
                    lines.update(line for *_, line in part.co_lines() if line and line != part.co_firstlineno)
                collect(part)

    collect(module)
    return lines


def watch(paths: Collection[str]) -> dict[str, set[int]]:
    """From now on, note which lines of some files run, in this thread and in new ones."""
    executed: dict[str, set[int]] = defaultdict(set)

    def of_call(frame: FrameType, event: str, argument: Any) -> Trace | None:
        name = frame.f_code.co_filename
        if name not in paths:
            return None
        lines = executed[name]
        lines.add(frame.f_lineno)

        def of_line(frame: FrameType, event: str, argument: Any) -> Trace:
            lines.add(frame.f_lineno)
            return of_line

        return of_line

    threading.settrace(of_call)
    sys.settrace(of_call)
    return executed
