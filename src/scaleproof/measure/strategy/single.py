"""One device and no wrapper: what every way of sharing has to beat."""

from torch import nn

from scaleproof.measure.strategy.base import Native, compiled


class Single(Native):
    def wrap(self, model: nn.Module) -> nn.Module:
        """The model itself, compiled where the cell says so."""
        return compiled(model.to(self.device), self.cell)
