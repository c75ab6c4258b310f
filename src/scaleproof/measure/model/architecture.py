"""Networks of `transformers` with random weights, as a campaign names them, and why some cannot be measured."""

import importlib.util
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import torch
from huggingface_hub.errors import StrictDataclassError
from torch import nn
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING,
    AutoConfig,
    GPT2Config,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.pytorch_utils import Conv1D

from scaleproof.ground.campaign.model_shapes import ModelShape
from scaleproof.ground.campaign.transformers_model import TransformersModel, reasons_not_measurable
from scaleproof.ground.errors import UserError, edit_distance, shortened

SPECIAL_TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id", "cls_token_id", "sep_token_id")
PRODUCTS = (nn.Linear, Conv1D)  # modules whose weight multiplies what comes in; a Conv1D is a transposed Linear


def _fault(text: str) -> UserError:
    return UserError(f"workload.model: {text}", ("workload", "model"))


def make_network(model: ModelShape | TransformersModel, vocab_size: int, classes: int = 0) -> PreTrainedModel:
    """Return a network of `transformers`, in fp32 and without dropout, which is a classifier if there are `classes`.

    The caller has seeded torch, which makes its random weights. Raises UserError with the first fault where the network
    cannot be measured exactly.
    """
    name = model.slug() if isinstance(model, TransformersModel) else "gpt2"
    try:
        if isinstance(model, TransformersModel) and model.module:
            network = _from_function(model, vocab_size)
        else:
            network = _from_config(_make_config(model), vocab_size, classes)
        faults = list(_network_faults(network, vocab_size, classifies=classes > 0))
    except UserError:
        raise
    except (Exception, SystemExit) as error:  # whatever the user's code raises, or transformers with the user's numbers
        if isinstance(model, ModelShape):  # a shape of ours
            raise
        raise _fault(_failure_text(model, error)) from None
    for reason in faults:
        raise _fault(f"{name} ({type(network).__name__}) cannot be measured exactly: {reason}")
    return network


def blocks_of(network: PreTrainedModel) -> nn.ModuleList:
    """Return the network's blocks: the modules that are sharded, checkpointed and compiled one by one."""
    (blocks,) = _lists_of_blocks(network)
    return blocks


def _make_config(model: ModelShape | TransformersModel) -> PreTrainedConfig:
    """Return transformers' configuration of `model`. Raises UserError where transformers refuses it."""
    if isinstance(model, ModelShape):
        return GPT2Config(
            n_positions=model.context,
            n_embd=model.width,
            n_layer=model.layers,
            n_head=model.heads,
            activation_function="gelu_new",
        )
    keys = cast(dict[str, Any], model.description()["transformers"])
    try:
        config = AutoConfig.for_model(**keys)
        known = type(config)().to_dict()
    except (ValueError, TypeError, KeyError, StrictDataclassError) as error:
        first_line = str(error.__cause__ or error).strip().splitlines()[0]  # the cause says which rule was broken
        raise _fault(f"{model.file}: transformers refuses it: {first_line}") from None
    # A key that transformers does not know is kept without a word; a letter beside one that is absent, it is misspelt.
    for key in sorted(keys.keys() - known.keys()):
        for name in sorted(known.keys() - keys.keys()):
            if edit_distance(key, name) == 1:
                raise _fault(f'{model.file}: unknown key {key}. Did you mean "{name}"?')
    return config


def _from_config(config: PreTrainedConfig, vocab_size: int, classes: int) -> PreTrainedModel:
    """Set vocabulary and classes in `config`, and return its network with random weights, a classifier if `classes`.

    Raises KeyError where transformers has no such network for this task (known_names.py says so before).
    """
    mapping = MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING if classes else MODEL_FOR_CAUSAL_LM_MAPPING
    if classes:
        config.num_labels = classes
    config.vocab_size = vocab_size
    _set_for_measurement(config)
    network_class: Any = mapping[type(config)]
    return cast(PreTrainedModel, network_class(config))


def _set_for_measurement(config: PreTrainedConfig) -> None:
    """Set in `config` what every measured network has: fp32, no cache, no special tokens, no dropout."""
    config.use_cache = False
    config.dtype = torch.float32
    for name in SPECIAL_TOKENS:  # samples are full windows of any tokens
        setattr(config, name, None)
    # Without dropout the same samples make the same step at every world size: that is what proves equal work.
    for name, value in config.to_dict().items():
        if "drop" in name and isinstance(value, float):
            setattr(config, name, 0.0)
    # The same function as `gelu_new`, by one kernel instead of eight.
    for name in ("activation_function", "hidden_act"):
        if getattr(config, name, None) == "gelu_new":
            setattr(config, name, "gelu_pytorch_tanh")


def _from_function(model: TransformersModel, vocab_size: int) -> PreTrainedModel:
    """Return the network that a function in the user's file makes (`model.module`: path:function).

    Raises UserError where it is no model of transformers, or cannot be measured exactly, and what the function raises.
    """
    path, _, function_name = str(model.module).partition(":")
    network = _load_function(Path(path), function_name)(vocab_size=vocab_size)
    if not isinstance(network, PreTrainedModel):
        raise _fault(f"{model.module} returns a {type(network).__name__}, no model of transformers")
    for reason in reasons_not_measurable(network.config.to_dict()):
        raise _fault(f"{model.module} cannot be measured exactly: {reason}")
    network.config.use_cache = False
    return network


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
        raise _fault(f'{path} has no function "{name}"')
    return getattr(module, name)


def _network_faults(network: PreTrainedModel, vocab_size: int, classifies: bool) -> Iterator[str]:
    """Yield reasons why formulas, strategies or the comparison of losses would be wrong for this network."""
    rows = cast(nn.Embedding, network.get_input_embeddings()).num_embeddings
    if rows < vocab_size:
        yield f"it has {rows} embeddings for {vocab_size} tokens; make as many as its function's vocab_size says"
    if len(_lists_of_blocks(network)) != 1:
        yield "it has no single list of as many blocks as layers"
    marks = [getattr(module, "is_causal", None) for module in network.modules()]
    are_causal = {mark for mark in marks if isinstance(mark, bool)}  # {True}: all attention is causal
    if classifies and are_causal != {False}:
        yield "a classifier must not be causal"
    if not classifies and are_causal != {True}:
        yield "a language model must be causal"
    if any(isinstance(module, nn.Dropout) and module.p > 0 for module in network.modules()):
        yield "it has dropout, with which no two world sizes make the same step"
    if any(not parameter.requires_grad for parameter in network.parameters()):
        yield "some of its parameters are frozen"

    counted_ids = {id(module.weight) for module in network.modules() if isinstance(module, (*PRODUCTS, nn.Embedding))}
    matrices = {name: parameter for name, parameter in network.named_parameters() if parameter.dim() > 1}
    if unknown := [name for name, matrix in matrices.items() if id(matrix) not in counted_ids]:
        yield f"{unknown[0]} is the weight neither of a linear layer nor of an embedding, so its arithmetic is unknown"

    head = network.get_output_embeddings()
    if not classifies and type(head) is not nn.Linear:
        yield f"its head is a {type(head).__name__}, the loss here is that of a linear layer"


def _lists_of_blocks(network: PreTrainedModel) -> list[nn.ModuleList]:
    """Return the module lists with one entry a layer; if transformers names unsplit classes, only lists of these."""
    layers = network.config.num_hidden_layers
    lists = [module for module in network.modules() if isinstance(module, nn.ModuleList) and len(module) == layers]
    unsplit_lists = [blocks for blocks in lists if type(blocks[0]).__name__ in (network._no_split_modules or ())]
    return unsplit_lists or lists
