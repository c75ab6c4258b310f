"""The configuration of a cell as columns, and what cells have in common that are compared."""

from collections.abc import Mapping
from typing import Any

from scaleproof.ground.campaign.transformers_model import TransformersModel
from scaleproof.ground.columns import COLUMNS

# What identifies a cell, in the order of the columns: name -> section and key in the effective configuration.
CONFIGURATION = {name: column.setting.split(".") for name, column in COLUMNS.items() if column.setting}
# What two cells must have in common to do the same work, their batch aside.
SAME_WORK = ("model", "vocab_size", "corpus", "tokenizer", "seq_len")
# What the cells of one ranking have in common.
GROUPED_BY = ("devices", *SAME_WORK, "global_batch")


def columns_of_config(config: Mapping[str, object]) -> dict[str, object]:
    """Return the columns of an effective configuration: {"strategy": "ddp", ..., "nodes": 2, "devices": 8}."""
    sections: Mapping[str, Any] = config
    values: dict[str, object] = {name: sections[section][key] for name, (section, key) in CONFIGURATION.items()}
    if isinstance(values["model"], dict):
        values["model"] = _model_in_words(values["model"])
    nodes, per_node = (int(number) for number in str(values["geometry"]).split("x"))  # as "2x4"
    return values | {"nodes": nodes, "devices": nodes * per_node}


def size_of(values: Mapping[str, object]) -> tuple[object, ...]:
    """Return the values of GROUPED_BY in the columns of a cell: cells that have the same ones are ranked together."""
    return tuple(values[key] for key in GROUPED_BY)


def _model_in_words(model: Mapping[str, object]) -> str:
    """Return what a table calls a model without a name: its shape, or the file or name of a transformers model."""
    if "layers" not in model:
        return TransformersModel.model_validate(model).slug()
    # The width of an encoder is called d_model.
    return f"{model['layers']} layers, {model.get('width', model.get('d_model'))} wide, {model['heads']} heads"
