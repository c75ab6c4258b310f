"""What runs in a step though training does not need it: hooks of others, and processor time of code of no library."""

import cProfile
import functools
import inspect
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import torch
from torch import nn

_PATHS = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
LIBRARIES = (*_PATHS, str(Path(torch.__file__).parents[1]), "<")  # "<": generated, frozen
OURS = str(Path(__file__).parents[2])  # of the package; a model's own files are not looked at
# Attributes, private to torch, that hold hooks: of modules and of parameters.
HOOKS_OF_MODULE = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
HOOKS_OF_PARAMETER = ("_backward_hooks", "_post_accumulate_grad_hooks")
WATCHING = ("scaleproof.measure.trainer.fed_tokens", "scaleproof.measure.trainer.census")  # our own hooks
OF_TRAINING = ("torch", "numpy", "type object", "PyCapsule")  # in names of functions in C that are torch's or NumPy's
LEAST_S = 1e-4  # of a function that is named


def model_packages(model: nn.Module) -> set[str]:
    """Return the packages that a model's classes come from, but this one: what their functions do is training."""
    return {type(module).__module__.partition(".")[0] for module in model.modules()} - {"scaleproof"}


def foreign_hooks(model: nn.Module) -> list[str]:
    """Return the names of hooks on modules and parameters whose functions belong to no library that trains."""
    known = model_packages(model) | {"torch", "deepspeed"}
    owners: list[tuple[Any, tuple[str, ...]]] = [(module, HOOKS_OF_MODULE) for module in model.modules()]
    owners += [(parameter, HOOKS_OF_PARAMETER) for parameter in model.parameters()]
    names = set()
    for owner, attributes in owners:
        hooks = [hook for attribute in attributes for hook in (getattr(owner, attribute, None) or {}).values()]
        for function in hooks:
            while isinstance(function, functools.partial):
                function = function.func
            module = getattr(function, "__module__", None) or type(function).__module__
            if module.partition(".")[0] not in known and module not in WATCHING:
                names.add(f"{module}.{getattr(function, '__qualname__', type(function).__qualname__)}")
    return sorted(names)


def time_other_functions(model: nn.Module, step: Callable[[], object]) -> dict[str, float]:
    """Return what one call of `step` spends in functions that do not train: function -> CPU seconds of this thread.

    These are functions of this package and of no package. Each is charged with its own time and that of what it calls,
    except training. `step` is called twice, and the smaller time counts; below LEAST_S a function is not named.
    """
    files = set(_files_of_model(model))
    first, second = _seconds_beside(step, files), _seconds_beside(step, files)
    least = {name: min(seconds, second.get(name, 0.0)) for name, seconds in first.items()}
    return {name: seconds for name, seconds in sorted(least.items()) if seconds >= LEAST_S}


def _seconds_beside(step: Callable[[], object], of_model: set[str]) -> dict[str, float]:
    """Return function -> CPU seconds that it is charged with in one call of `step`: of those `_is_beside` names.

    `of_model`: files whose functions train.
    """
    profile = cProfile.Profile(time.thread_time)
    with profile:
        step()
    seconds: dict[str, float] = {}
    for entry in profile.getstats():
        code = entry.code
        if isinstance(code, str) or not _is_beside(code.co_filename, of_model):
            continue
        is_ours = code.co_filename.startswith(OURS)
        called = [call for call in entry.calls or () if _is_charged_to_caller(call.code, is_ours, of_model)]
        name = f"{Path(code.co_filename).name}:{code.co_qualname}"
        seconds[name] = seconds.get(name, 0.0) + entry.inlinetime + sum(call.totaltime for call in called)
    return seconds


def _is_beside(file: str, of_model: set[str]) -> bool:
    """Return whether functions in `file` do not train: of this package, or of no library, and never the model's."""
    return file not in of_model and (file.startswith(OURS) or not file.startswith(LIBRARIES))


def _is_charged_to_caller(called: CodeType | str, caller_is_ours: bool, of_model: set[str]) -> bool:
    """Return whether the time in `called` counts as its caller's.

    A function of this package is charged with functions in C that do not train, any other with all that it calls but
    functions of this package and those that are charged themselves.
    """
    if isinstance(called, str):  # the name of a function in C
        return not caller_is_ours or not any(word in called for word in OF_TRAINING)
    is_ours, is_charged = called.co_filename.startswith(OURS), _is_beside(called.co_filename, of_model)
    return not (caller_is_ours or is_ours or is_charged)


def _files_of_model(model: nn.Module) -> Iterator[str]:
    """Yield the files of a model's classes, and of all modules of their packages."""
    for module in model.modules():
        try:
            yield inspect.getfile(type(module))
        except (OSError, TypeError):  # of a class that has no file
            continue
    roots = model_packages(model)
    for name, loaded in list(sys.modules.items()):
        if name.partition(".")[0] in roots or name.startswith("scaleproof.measure.model"):
            yield getattr(loaded, "__file__", None) or ""
