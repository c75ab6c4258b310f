"""The network of a campaign, of a configuration or of a user's function; what fails in that, in one message.

`transformers` takes seconds to import: a function that fails, or makes something else, is answered without it.
"""

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from scaleproof.ground.campaign.model_shapes import ModelShape
from scaleproof.ground.campaign.transformers_model import TransformersModel, reasons_not_measurable
from scaleproof.ground.errors import UserError, shortened
from scaleproof.measure.model.known_names import model_fault

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def make_network(model: ModelShape | TransformersModel, vocab_size: int, classes: int = 0) -> "PreTrainedModel":
    """Return a network of `transformers`, in fp32 and without dropout, which is a classifier if there are `classes`.

    The caller has seeded torch, which makes its random weights. Raises UserError with the first fault where the network
    cannot be measured exactly.
    """
    name = model.slug() if isinstance(model, TransformersModel) else "gpt2"
    try:
        if isinstance(model, TransformersModel) and model.module:
            network = _from_function(model, vocab_size)
        else:
            from scaleproof.measure.model.architecture import network_of_config

            network = network_of_config(model, vocab_size, classes)
        from scaleproof.measure.model.architecture import network_faults

        faults = list(network_faults(network, vocab_size, classifies=classes > 0))
        if isinstance(model, TransformersModel):  # what its configuration leaves out has defaults
            faults = [*reasons_not_measurable(network.config.to_dict()), *faults]
    except UserError:
        raise
    except (Exception, SystemExit) as error:  # whatever the user's code raises, or transformers with the user's numbers
        if isinstance(model, ModelShape):  # a shape of ours
            raise
        raise model_fault(_failure_text(model, error)) from None
    for reason in faults:
        raise model_fault(f"{name} ({type(network).__name__}) cannot be measured exactly: {reason}")
    return network


def _from_function(model: TransformersModel, vocab_size: int) -> "PreTrainedModel":
    """Return the network that a function in the user's file makes (`model.module`: path:function).

    Raises UserError where it is no model of transformers, and what the function raises.
    """
    path, _, function_name = str(model.module).partition(":")
    network = _load_function(Path(path), function_name)(vocab_size=vocab_size)
    library = sys.modules.get("transformers.modeling_utils")  # what makes a model has imported it
    if library is None or not isinstance(network, library.PreTrainedModel):
        raise model_fault(f"{model.module} returns a {type(network).__name__}, no model of transformers")
    network.config.use_cache = False
    return cast("PreTrainedModel", network)


def _failure_text(model: TransformersModel, error: BaseException) -> str:
    """Return why no network can be built, with the model's file, and its line if `error` comes from there."""
    path = str(model.file)
    line = _line_of_error(error, path)
    place = f"{path}, line {line}" if line else path
    reason = shortened(f"{type(error).__name__}: {error}", 200)
    config = model.description().get("transformers")
    # transformers has looked up the value of a key (hidden_act: gelus) in a table: the reason names key and value.
    if isinstance(error, KeyError) and isinstance(config, dict):
        keys = [f"{key} is {value}" for key, value in config.items() if value == error.args[0]]
        reason = f"{keys[0]}, which transformers does not know" if keys else reason
    return f"{place}: no network can be built: {reason}"


def _line_of_error(error: BaseException, path: str) -> int | None:
    """Return the line of the file `path` at which `error` was raised. Returns None where it came from elsewhere."""
    if isinstance(error, SyntaxError) and (error.filename or "").endswith(path):
        return error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename.endswith(path)]
    return lines[-1] if lines else None


def _load_function(path: Path, name: str) -> Any:
    """Return the function `name` of a Python file. Raises UserError where the file has none."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None  # a file that ends with .py has a spec and a loader
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not callable(getattr(module, name, None)):
        raise model_fault(f'{path} has no function "{name}"')
    function = getattr(module, name)
    if inspect.isfunction(function) and not _takes_vocab_size(function):
        line = function.__code__.co_firstlineno
        raise model_fault(f"{path}, line {line}: {name} is called with one argument; write def {name}(vocab_size)")
    if inspect.iscoroutinefunction(function):
        raise model_fault(f'{path}: "{name}" returns a coroutine, no model of transformers: write def, without async')
    return function


def _takes_vocab_size(function: Callable[..., object]) -> bool:
    """Return whether a function can be called with `vocab_size` alone."""
    try:
        inspect.signature(function).bind(vocab_size=0)
    except TypeError:
        return False
    return True
