"""Networks of `transformers` with random weights by their configuration, and why some cannot be measured."""

from collections.abc import Iterator
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
from scaleproof.ground.campaign.transformers_model import TransformersModel
from scaleproof.ground.errors import edit_distance
from scaleproof.measure.model.known_names import ENCODES, HAS_STATE, model_fault

SPECIAL_TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id", "cls_token_id", "sep_token_id")
PRODUCTS = (nn.Linear, Conv1D)  # modules whose weight multiplies what comes in; a Conv1D is a transposed Linear


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
        raise model_fault(f"{model.file}: transformers refuses it: {first_line}") from None
    # A key that transformers does not know is kept without a word; a letter beside one that is absent, it is misspelt.
    for key in sorted(keys.keys() - known.keys()):
        for name in sorted(known.keys() - keys.keys()):
            if edit_distance(key, name) == 1:
                raise model_fault(f'{model.file}: unknown key {key}. Did you mean "{name}"?')
    return config


def network_of_config(model: ModelShape | TransformersModel, vocab_size: int, classes: int) -> PreTrainedModel:
    """Return the network of a shape or a config.json with random weights, a classifier if `classes`.

    Raises KeyError where transformers has no such network for this task (known_names.py says so before).
    """
    config = _make_config(model)
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


def network_faults(network: PreTrainedModel, vocab_size: int, classifies: bool) -> Iterator[str]:
    """Yield reasons why formulas, strategies or the comparison of losses would be wrong for this network."""
    rows = cast(nn.Embedding, network.get_input_embeddings()).num_embeddings
    if not vocab_size <= rows <= 2 * vocab_size:  # more: padding, at most
        yield f"it has {rows} embeddings for {vocab_size} tokens; make as many as its function's vocab_size says"
    if len(_lists_of_blocks(network)) != 1:
        yield "it has no single list of as many blocks as layers"
    marks = [getattr(module, "is_causal", None) for module in network.modules()]
    are_causal = {mark for mark in marks if isinstance(mark, bool)}  # {True}: all attention is causal
    if network._is_stateful:
        yield HAS_STATE
    elif not are_causal:
        yield "none of its modules is an attention that has is_causal"
    elif classifies and are_causal != {False}:
        yield "a classifier must not be causal"
    elif not classifies and are_causal != {True}:
        yield ENCODES
    if any(isinstance(module, nn.Dropout) and module.p > 0 for module in network.modules()):
        yield "it has dropout, with which no two world sizes make the same step"
    if kinds := sorted({str(parameter.dtype) for parameter in network.parameters()} - {"torch.float32"}):
        yield f"it has weights of {kinds[0]}; make them of torch.float32, as execution.precision says what computes"
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
