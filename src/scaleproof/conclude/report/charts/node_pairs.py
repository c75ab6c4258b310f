"""Bus bandwidth between every two nodes, as a map."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from scaleproof.conclude.report.chart_style import MOST_ROWS, write_chart
from scaleproof.ground.findings.forecast_report import NodePair, nodes_of_pairs
from scaleproof.ground.number_format import integer

INCHES_PER_NODE = 0.25


def node_pairs_chart(axes: Axes, rows: Sequence[NodePair]) -> None:
    """Draw the bus bandwidth between each two nodes of a sweep as colours: dark is fast; the scale begins at 0."""
    nodes = nodes_of_pairs(rows)
    gigabytes_per_s = np.full((len(nodes), len(nodes)), np.nan)
    for row in rows:
        first, second = nodes.index(row.first), nodes.index(row.second)
        gigabytes_per_s[first, second] = gigabytes_per_s[second, first] = row.bus_bytes_per_s / 1e9
    image = axes.imshow(gigabytes_per_s, cmap="viridis_r", vmin=0)
    axes.figure.colorbar(image, ax=axes, label="bus bandwidth (GB/s)", shrink=0.8)
    if len(nodes) <= MOST_ROWS:
        axes.set_xticks(range(len(nodes)), nodes, rotation=90)
        axes.set_yticks(range(len(nodes)), nodes)
    axes.grid(visible=False)
    axes.set_title(f"All-reduce of {integer(rows[0].nbytes)} bytes between two nodes")


def draw_node_pairs(rows: Sequence[NodePair], folder: Path) -> None:
    """Write `folder`/node_pairs.svg and .png from the pairs of nodes of a sweep; nothing without pairs."""
    if rows:
        inches = 2.0 + INCHES_PER_NODE * min(len(nodes_of_pairs(rows)), MOST_ROWS)
        write_chart(folder / "node_pairs", inches, lambda axes: node_pairs_chart(axes, rows))
