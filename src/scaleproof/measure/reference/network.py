"""The networks of the replay, in plain torch and transformers: rows of tokens in, the loss of each row out.

**Initial weights.** `torch.manual_seed(seed)`, then the modules are made in the order below, each with torch's or
transformers' own initialisation, on the CPU in fp32.
"""

import hashlib
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from scaleproof.ground.errors import UserError


class Decoder(nn.Module):
    """A decoder of transformers for next-token prediction, with its own head, plain attention and no dropout."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, rows: Tensor) -> Tensor:
        """Return the mean loss of the targets of each row, float32 of shape (rows,)."""
        logits = self.network(input_ids=rows[:, :-1]).logits
        losses = functional.cross_entropy(logits.transpose(1, 2), rows[:, 1:], reduction="none")
        return losses.mean(dim=1)


class Encoder(nn.Module):
    """A classifier: embeddings, pre-norm encoder layers, the mean of the real tokens, one linear layer.

    The embeddings are tables of tokens and of positions. Made in this order: both tables, layers, final norm,
    classifier; then both tables again from a normal distribution with a standard deviation of 0.02.
    """

    def __init__(self, shape: dict[str, int], vocab_size: int, classes: int) -> None:
        """Make the layers with random weights. `shape`: d_model, heads, feed_forward, layers and context."""
        super().__init__()
        torch.backends.mha.set_fastpath_enabled(False)  # else evaluation would run another, fused layer
        width = shape["d_model"]
        self.token_table = nn.Embedding(vocab_size, width)
        self.position_table = nn.Embedding(shape["context"], width)
        layers = [
            nn.TransformerEncoderLayer(
                width,
                shape["heads"],
                shape["feed_forward"],
                dropout=0.0,
                activation="gelu",
                batch_first=True,
                norm_first=True,
            )
            for _ in range(shape["layers"])
        ]
        self.layers = nn.ModuleList(layers)
        self.final_norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)
        nn.init.normal_(self.token_table.weight, std=0.02)
        nn.init.normal_(self.position_table.weight, std=0.02)

    def forward(self, rows: Tensor) -> Tensor:
        """Return the loss of each row, float32 of shape (rows,): of token ids (negative: padding), then a label."""
        tokens, labels = rows[:, :-1], rows[:, -1]
        is_padding = tokens < 0
        places = torch.arange(tokens.shape[1], device=rows.device)
        hidden = self.token_table(tokens.clamp(min=0)) + self.position_table(places)
        for layer in self.layers:
            hidden = layer(hidden, src_key_padding_mask=is_padding)
        is_token = (~is_padding).unsqueeze(-1).to(hidden.dtype)
        mean = (self.final_norm(hidden) * is_token).sum(dim=1) / is_token.sum(dim=1)
        return functional.cross_entropy(self.head(mean), labels, reduction="none")


class ReplayedClassifier(nn.Module):
    """A classifier of transformers, with plain attention over the real tokens and no dropout."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, rows: Tensor) -> Tensor:
        """Return the loss of each row, float32 of shape (rows,): of token ids (negative: padding), then a label."""
        tokens, labels = rows[:, :-1], rows[:, -1]
        is_token = tokens >= 0
        logits = self.network(input_ids=tokens * is_token, attention_mask=is_token.long()).logits
        return functional.cross_entropy(logits, labels, reduction="none")


def build_network(workload: dict[str, Any], seed: int, classes: int, attention: str = "eager") -> nn.Module:
    """Return the network of a workload, with the initial weights of `seed`.

    `workload`: the section of the effective configuration. `classes`: the number of the corpus' classes, 0 for a
    language model. `attention`: its name in transformers; an Encoder has torch's own. Raises UserError where a model's
    Python file has changed since the run.
    """
    shape, vocab_size = workload["model_shape"], workload["vocab_size"]
    torch.manual_seed(seed)
    if "d_model" in shape:  # an encoder of ours
        return Encoder(shape, vocab_size, classes)
    if "function" in shape:  # the user's, in a Python file
        return Decoder(_from_function(workload["model"]["module"], shape["sha256"], vocab_size, attention))
    return _from_configuration(configuration_of(shape), vocab_size, workload["task"], classes, attention)


def configuration_of(shape: dict[str, Any]) -> Any:
    """Return transformers' configuration for `shape`: the numbers of a GPT-2, or all keys of a config.json."""
    from transformers import AutoConfig, GPT2Config

    if "transformers" in shape:
        keys = dict(shape["transformers"])
        return AutoConfig.for_model(keys.pop("model_type"), **keys)
    return GPT2Config(
        n_positions=shape["context"], n_embd=shape["width"], n_layer=shape["layers"], n_head=shape["heads"]
    )


def _from_configuration(config: Any, vocab_size: int, task: str, classes: int, attention: str) -> nn.Module:
    """Return the network of a configuration for a task, in fp32 and without dropout."""
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

    config.vocab_size = vocab_size
    config.use_cache = False
    for name in vars(config).copy():
        if name.endswith("_token_id"):
            setattr(config, name, None)
        if name.endswith(("dropout", "_pdrop", "dropout_prob", "layerdrop")) and getattr(config, name) is not None:
            setattr(config, name, 0.0)
    choices: dict[str, Any] = {"attn_implementation": attention, "dtype": torch.float32}
    if task == "classification":
        config.num_labels = classes
        return ReplayedClassifier(AutoModelForSequenceClassification.from_config(config, **choices))
    return Decoder(AutoModelForCausalLM.from_config(config, **choices))


def _from_function(module: str, sha256: str, vocab_size: int, attention: str) -> nn.Module:
    """Return the network that a function in a Python file makes (`module`: path:function), with this `attention`.

    Raises UserError where the file's sha256 is not `sha256`, as it was in the run.
    """
    path, _, function_name = module.partition(":")
    source = Path(path).read_bytes()
    if hashlib.sha256(source).hexdigest() != sha256:
        raise UserError(f"{path} was changed since the run: its model cannot be replayed")
    namespace: dict[str, Any] = {"__name__": Path(path).stem, "__file__": path}
    exec(compile(source, path, "exec"), namespace)
    network: Any = namespace[function_name](vocab_size=vocab_size)
    network.config.use_cache = False
    network.set_attn_implementation(attention)
    return cast(nn.Module, network)
