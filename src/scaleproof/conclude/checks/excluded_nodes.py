"""Which nodes of the cluster failed the campaign's jobs?"""

from collections.abc import Iterator

from scaleproof.ground.errors import plural
from scaleproof.ground.findings.registry import Flag, Register
from scaleproof.ground.records.excluded_nodes import ExcludedNode

of_excluded_node: Register[ExcludedNode] = Register(lambda excluded: [excluded.node])


@of_excluded_node.finds("node-excluded", "note")
def nodes_were_left_out(excluded: ExcludedNode) -> Iterator[Flag]:
    """Jobs kept failing on a node, and the driver asked for it no more.

    The runs are from the other nodes: where hardware differs between nodes, from fewer kinds of it.

    Detected: Two failed jobs on one node, of which one ended well on another, or the state NODE_FAIL twice.
    Seen: A node without the shared file system, to which the queue sends job after job because it is always free.
    Repair: The logs of these jobs are in results/job-logs/. Tell the site.
    """
    in_order = sorted(excluded.jobs, key=lambda job: (len(job), job))  # numbers as text: by length, they are in order
    jobs = ", ".join(f"{job} {excluded.jobs[job]}" for job in in_order)
    yield Flag(f"the driver left this node out after {plural(len(excluded.jobs), 'job')} had failed there ({jobs})")
