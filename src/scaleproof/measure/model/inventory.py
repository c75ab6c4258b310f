"""The tensors of a cell's model, before anything is built: by formula, or from the network without its weights."""

from functools import lru_cache

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.config import shape_of
from scaleproof.ground.campaign.transformers_model import TransformersModel
from scaleproof.ground.errors import UserError
from scaleproof.ground.facts.counts import Inventory, inventory_of_shape
from scaleproof.measure.model.time_limit import time_limit

MOST_SECONDS = 20  # of computing, for what makes a network without memory for its weights
SOME_CLASSES = 2  # classes of a classifier whose corpus has not been read yet


def inventory_of(cell: Cell, classes: int = 0) -> Inventory:
    """Count the tensors of a cell's model, for formulas. `classes`: number of the corpus' classes, for a classifier.

    Raises UserError where a model of transformers cannot be measured exactly.
    """
    shape = shape_of(cell.workload.model)
    if not isinstance(shape, TransformersModel):
        return inventory_of_shape(shape, cell.vocab_size, classes)
    labels = (classes or SOME_CLASSES) if cell.workload.task == "classification" else 0
    return _count_network(shape, str(shape.description()), cell.vocab_size, labels)


@lru_cache(maxsize=64)
def _count_network(model: TransformersModel, description: str, vocab_size: int, classes: int) -> Inventory:
    """Count the tensors of a network, which is built without memory for its weights. `classes`: 0 for a language model.

    `description`: the content of the model's file, for the cache alone: a changed file is counted anew.
    """
    from scaleproof.measure.model.known_names import check_names

    check_names(model, "classification" if classes else "language-modelling")
    import torch

    from scaleproof.measure.model.network import make_network

    try:
        with torch.device("meta"), time_limit(MOST_SECONDS):
            network = make_network(model, vocab_size, classes)
    except UserError as error:
        raise UserError(str(error), ("workload", "model")) from None
    from scaleproof.measure.model.architecture import PRODUCTS, blocks_of

    blocks = blocks_of(network)
    sizes_of_blocks = [sum(parameter.numel() for parameter in block.parameters()) for block in blocks]
    ids_in_blocks = {id(module) for block in blocks for module in block.modules()}
    products = [module for module in network.modules() if isinstance(module, PRODUCTS)]
    block_weights = sum(module.weight.numel() for module in products if id(module) in ids_in_blocks)
    other_weights = sum(module.weight.numel() for module in products if id(module) not in ids_in_blocks)

    config = network.config
    head_width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return Inventory(
        blocks=sizes_of_blocks,
        root=sum(parameter.numel() for parameter in network.parameters()) - sum(sizes_of_blocks),
        block_weights=block_weights,
        token_weights=0 if classes else other_weights,  # a language model's head is multiplied with each token
        sample_weights=other_weights if classes else 0,  # a classifier's head is multiplied with each sample
        attention_width=config.num_hidden_layers * config.num_attention_heads * head_width,
        largest_tensor=max(parameter.numel() for parameter in network.parameters()),
    )
