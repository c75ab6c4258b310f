"""What a step of each strategy does, operator by operator.

LIST, its argument, holds paths of requests. Of each cell rank 0 writes, into LIST's folder, the reads of the device by
the host in one step (operators, with the line that made them), and of compiled cells the attention calls of the
compiled graphs and the reasons for which torch.compile left a graph: a read of the device by the host is one of them.
"""

import gc
import json
import sys
import traceback
import warnings
from collections import Counter
from pathlib import Path

warnings.filterwarnings("ignore", category=FutureWarning)

import torch  # noqa: E402
from torch._dynamo.backends.common import aot_autograd  # noqa: E402
from torch._dynamo.utils import counters  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from scaleproof.measure.trainer.measure import set_up  # noqa: E402
from scaleproof.measure.trainer.request import Request  # noqa: E402
from scaleproof.measure.trainer.session import Session  # noqa: E402

WAITS = ("_local_scalar_dense", "item", "nonzero", "is_nonzero", "equal", "masked_select", "unique")
GRAPHS: list[torch.fx.GraphModule] = []


class Waits(TorchDispatchMode):
    """Counts the operators that make the host wait for a device, by the nearest line outside of torch."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name.removeprefix("aten::")
        if name in WAITS:
            frames = [f for f in traceback.extract_stack() if "/torch/" not in f.filename and f.filename != __file__]
            place = frames[-1].filename.partition("site-packages/")[2] or Path(frames[-1].filename).name
            self.seen[f"{name} {place}:{frames[-1].lineno}"] += 1
        return func(*args, **(kwargs or {}))


def captured(graph, inputs):
    GRAPHS.append(graph)
    return graph.forward


def attention_calls() -> list[dict]:
    """Causal flag and mask of every attention operator in the compiled graphs of the forward pass."""
    calls = []
    for graph in GRAPHS:
        for node in graph.graph.nodes:
            name = str(node.target)
            if "scaled_dot_product" in name and "backward" not in name:
                names = [a.name for a in node.target._schema.arguments]
                given = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
                calls.append({"causal": given.get("is_causal", False), "mask": given.get("attn_mask") is not None})
    return calls


def main(paths: list[str], out: Path) -> None:
    backend = aot_autograd(fw_compiler=captured, bw_compiler=captured)
    compile_ = torch.compile
    torch.compile = lambda module, **options: compile_(module, **options | {"backend": backend})
    requests = [Request.read(Path(p)) for p in paths]
    session = Session(requests[0].cell, timeout_s=120)
    for request in requests:
        GRAPHS.clear()
        torch._dynamo.reset()
        counters.clear()
        run = set_up(session, request)
        if request.cell.execution.compile and hasattr(run.strategy, "engine"):
            run.strategy.engine._is_compiled = False
            run.strategy.engine.compile(backend=backend)
        run.steps(0, 2)
        eager = not request.cell.execution.compile
        with Waits() as waits:
            if eager:
                run.steps(2, 1)
        operators = Counter(str(node.target) for graph in GRAPHS for node in graph.graph.nodes)
        result = {
            "waits": waits.seen,
            "attention": attention_calls(),
            "graphs": len(GRAPHS),
            "graph_breaks": dict(counters["graph_break"]),
            "waits_in_graphs": [name for name in operators if any(f"aten.{w}." in name for w in WAITS)],
        }
        if session.rank == 0:
            (out / f"{request.slug}.json").write_text(json.dumps(result))
        del run
        gc.collect()
    session.leave()


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[1]).parent)
