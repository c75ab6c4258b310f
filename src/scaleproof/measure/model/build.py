"""The network of a cell."""

import torch
from torch import nn

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.config import shape_of
from scaleproof.ground.campaign.model_shapes import EncoderShape


def build_model(cell: Cell, classes: int = 0) -> nn.Module:
    """Return the model of a cell, whose weights depend on the seed alone: all ranks and strategies start alike.

    `classes`: how many the corpus has, for classification. Modules of networks are imported when they are needed:
    `transformers` takes seconds.
    """
    torch.manual_seed(cell.work.seed)
    execution = cell.execution
    shape = shape_of(cell.workload.model)
    if isinstance(shape, EncoderShape):
        from scaleproof.measure.model.encoder import Classifier

        return Classifier(shape, cell.vocab_size, classes, execution.activation_checkpointing)
    from scaleproof.measure.model.network import make_network

    if cell.workload.task == "classification":
        from scaleproof.measure.model.wrappers import TransformersClassifier

        network = make_network(shape, cell.vocab_size, classes)
        return TransformersClassifier(network, execution.activation_checkpointing)
    from scaleproof.measure.model.wrappers import LanguageModel

    return LanguageModel(
        make_network(shape, cell.vocab_size),
        cell.workload.seq_len,
        attention=execution.attention,
        checkpointing=execution.activation_checkpointing,
        loss=execution.loss,
        compiled_loss=execution.compile == "loss",
    )
