"""Columns that count the devices of each node, though their heading says "GPUs" alone."""

from collections.abc import Sequence

from scaleproof.auditor.read.reported_tables import TableColumn

FEWEST_ROWS = 2  # with fewer devices than nodes: one may be mistyped


def mark_devices_of_nodes(columns: list[TableColumn], rows: Sequence[Sequence[str]]) -> list[TableColumn]:
    """Return the columns, that of devices marked as of each node where rows have fewer devices than nodes.

    No node takes part without a device, so that "3 nodes, 1 GPU" is 3 GPUs, and the heading means that in all rows.
    """
    nodes = [k for k, column in enumerate(columns) if column.kind == "nodes"]
    devices = [k for k, column in enumerate(columns) if column.kind == "devices"]
    if len(nodes) != 1 or len(devices) != 1 or any(column.kind == "processes" for column in columns):
        return columns
    cells = [(row[devices[0]].strip(), row[nodes[0]].strip()) for row in rows if len(row) > max(*devices, *nodes)]
    sizes = [(int(per_node), int(count)) for per_node, count in cells if per_node.isdecimal() and count.isdecimal()]
    if sum(0 < per_node < count for per_node, count in sizes) >= FEWEST_ROWS:
        columns[devices[0]].kind = "devices_per_node"
    return columns
