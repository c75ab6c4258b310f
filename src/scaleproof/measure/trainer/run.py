"""A whole run on one rank, as the launcher asks for it: the timed steps, and, of a first repeat, a second look."""

from pathlib import Path

from scaleproof.ground.files import write_json
from scaleproof.ground.records.run import METRICS
from scaleproof.measure.trainer.measure import content, measure_in
from scaleproof.measure.trainer.request import Request
from scaleproof.measure.trainer.session import Session
from scaleproof.measure.trainer.witness import second_look


def measure(request: Request, began: float) -> Session:
    """Make the run that `request` asks for; rank 0 writes its metrics.

    `began`: when this program started (epoch seconds). Returns the session, which the caller leaves.
    """
    session = Session(request.cell, timeout_s=request.time_limit, hosts=request.hosts, gpus=request.gpus)
    # The metrics are there before the second look begins: where it fails, the run is kept without it.
    metrics, probed_s, step_s = measure_in(session, request, began)
    if request.witness_steps:
        fields_of_ranks = session.gather(second_look(session, request, probed_s, step_s))
        if metrics and metrics.census:  # on rank 0
            pairs = zip(metrics.census, fields_of_ranks, strict=True)
            census = [of_rank.model_copy(update=fields) for of_rank, fields in pairs]
            write_json(Path(request.out) / METRICS, content(metrics.model_copy(update={"census": census})))
    return session
