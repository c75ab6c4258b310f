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
OURS = str(Path(__file__).parents[2])  # the folder of this package
# Attributes, private to torch, that hold hooks: of modules and of parameters.
HOOKS_OF_MODULE = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
HOOKS_OF_PARAMETER = ("_backward_hooks", "_post_accumulate_grad_hooks")
WATCHING = ("scaleproof.measure.trainer.fed_tokens", "scaleproof.measure.trainer.census")  # modules of our own hooks
# Words in names of functions in C that are torch's or NumPy's.
OF_TRAINING = ("torch", "numpy", "type object", "PyCapsule")
LEAST_S = 1e-4  # a function that takes less is not named


def model_packages(model: nn.Module) -> set[str]:
    """Return the packages of a model's classes, but this package. Their functions do training."""
    return {type(module).__module__.partition(".")[0] for module in model.modules()} - {"scaleproof"}


def foreign_hooks(model: nn.Module) -> list[str]:
    """Return the names of hooks on modules and parameters that no library of training has set."""
    training_packages = model_packages(model) | {"torch", "deepspeed"}
    owners: list[tuple[Any, tuple[str, ...]]] = [(module, HOOKS_OF_MODULE) for module in model.modules()]
    owners += [(parameter, HOOKS_OF_PARAMETER) for parameter in model.parameters()]
    names = set()
    for owner, attributes in owners:
        for function in _hooks_of(owner, attributes):
            module = getattr(function, "__module__", None) or type(function).__module__
            if module.partition(".")[0] not in training_packages and module not in WATCHING:
                names.add(f"{module}.{getattr(function, '__qualname__', type(function).__qualname__)}")
    return sorted(names)


def _hooks_of(owner: Any, attributes: tuple[str, ...]) -> Iterator[Any]:
    """Yield the functions of the hooks in `attributes` of a module or parameter, freed from `partial`."""
    for attribute in attributes:
        for function in (getattr(owner, attribute, None) or {}).values():
            while isinstance(function, functools.partial):
                function = function.func
            yield function


def time_other_functions(model: nn.Module, step: Callable[[], object]) -> dict[str, float]:
    """Return the CPU seconds that functions that do not train take in one call of `step`: function -> seconds.

    They are functions of this package, and of files in no library. Each is charged with its own time and with what it
    calls, except training. `step` is called twice, and the smaller time counts; times below LEAST_S are left out.
    """
    model_files = set(_files_of_model(model))
    first_call_s = _seconds_beside(step, model_files)
    second_call_s = _seconds_beside(step, model_files)
    least_s = {name: min(seconds, second_call_s.get(name, 0.0)) for name, seconds in first_call_s.items()}
    return {name: seconds for name, seconds in sorted(least_s.items()) if seconds >= LEAST_S}


def _seconds_beside(step: Callable[[], object], model_files: set[str]) -> dict[str, float]:
    """Return the CPU seconds of functions that do not train (`_is_beside`) in one call of `step`: function -> seconds.

    `model_files`: files whose functions train.
    """
    profile = cProfile.Profile(time.thread_time)
    with profile:
        step()
    seconds: dict[str, float] = {}
    for entry in profile.getstats():
        code = entry.code
        if isinstance(code, str) or not _is_beside(code.co_filename, model_files):
            continue  # a function in C, or one that trains
        is_ours = code.co_filename.startswith(OURS)
        charged_calls = [call for call in entry.calls or () if _is_charged_to_caller(call.code, is_ours, model_files)]
        name = f"{Path(code.co_filename).name}:{code.co_qualname}"
        seconds[name] = seconds.get(name, 0.0) + entry.inlinetime + sum(call.totaltime for call in charged_calls)
    return seconds


def _is_beside(file: str, model_files: set[str]) -> bool:
    """Return whether functions in `file` do not train: it is of this package, or of neither a library nor the model."""
    return file not in model_files and (file.startswith(OURS) or not file.startswith(LIBRARIES))


def _is_charged_to_caller(code: CodeType | str, caller_is_ours: bool, model_files: set[str]) -> bool:
    """Return whether the time in a called function counts as its caller's.

    `code`: of the called function; for a function in C, its name. A caller in this package is charged only with
    functions in C that do not train. Any other caller is charged with all functions in C, and with functions of
    libraries and of the model. Functions of this package, and others that do not train, have entries of their own.
    """
    if isinstance(code, str):
        return not caller_is_ours or not any(word in code for word in OF_TRAINING)
    is_ours = code.co_filename.startswith(OURS)
    is_charged_itself = _is_beside(code.co_filename, model_files)
    return not caller_is_ours and not is_ours and not is_charged_itself


def _files_of_model(model: nn.Module) -> Iterator[str]:
    """Yield the files of a model's classes, and of all modules of their packages."""
    for module in model.modules():
        try:
            yield inspect.getfile(type(module))
        except (OSError, TypeError):  # the class has no file
            continue
    roots = model_packages(model)
    for name, loaded in list(sys.modules.items()):
        if name.partition(".")[0] in roots or name.startswith("scaleproof.measure.model"):
            yield getattr(loaded, "__file__", None) or ""
