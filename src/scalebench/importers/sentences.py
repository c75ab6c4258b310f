"""Sentences that state a figure: "3.4x on 4 GPUs", "71 % faster", "scaling efficiency of 87 %"."""

from scalebench.importers.reported import StatedFigure


def stated_figures(prose: list[tuple[int, str, tuple[str, ...]]], file: str) -> list[StatedFigure]:
    """The figures that sentences state."""
    return []
