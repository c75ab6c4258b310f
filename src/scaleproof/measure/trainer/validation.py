"""What the model has learnt: its loss on validation samples, once, after the window. Nothing timed comes after it.

Not within the window, however short the pause: a pipeline that has run empty, caches that hold other data and a device
that has cooled down are a start of their own. Not before it either: some engines (ZeRO-3) order their communication by
what they have seen. The training loss of every step is there anyway.
"""

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from scaleproof.ground.campaign.batch import Batch
from scaleproof.ground.records.run_sections import Validation
from scaleproof.measure.corpus.reader import TokenFile, digest_of_ids, held_out_ids
from scaleproof.measure.strategy import Strategy
from scaleproof.measure.trainer.census import TokenChecksum, add_checksums

LARGEST = 700  # nats; exp of more is no float


@dataclass(frozen=True)
class Scored:
    """What one rank scored. `totals`: sums over its samples, in float64, of loss, targets and correct targets."""

    ids: np.ndarray
    totals: np.ndarray
    checksum: str  # checksum of the scored samples' tokens
    seconds: float
    out_of_memory: bool = False


def score_held_out(
    strategy: Strategy,
    file: TokenFile,
    count: int,
    batch: Batch,
    shares: range,
    device: torch.device,
    entrance: nn.Module,
) -> Scored:
    """Score this rank's part of `count` held-out samples of `file`, or nothing if memory runs out.

    `shares`: the numbers of the devices that this rank feeds; `entrance`: the module at which tokens are hashed.
    """
    began = time.perf_counter()
    ids = held_out_ids(file.n_samples, count)
    totals = np.zeros(3)  # of the counted samples: summed loss, targets, correct targets
    checksum = TokenChecksum()
    if not len(ids):
        return Scored(ids=ids, totals=totals, checksum=str(checksum), seconds=time.perf_counter() - began)
    # Every rank makes as many forward passes, since sharded weights are gathered in them.
    passes = math.ceil(len(ids) / (batch.micro * batch.n_devices))
    # Places in `ids`, dealt out to passes, devices and their samples. Places beyond the end begin `ids` again, to fill
    # up the last pass; their scores do not count.
    places = np.arange(passes * batch.micro * batch.n_devices).reshape(passes, batch.n_devices, batch.micro)
    own_places = places[:, shares].reshape(passes, -1)

    try:
        # Uncompiled: to compile the model once more, for evaluation mode, would take minutes.
        with torch.compiler.set_stance("force_eager"), checksum.record(entrance):
            for places_of_pass in own_places:
                tokens = torch.from_numpy(file.read(ids[places_of_pass % len(ids)])).to(device)
                is_counted = torch.from_numpy(places_of_pass < len(ids)).to(device)
                checksum.counted = is_counted  # for its hook on `entrance`, which `evaluate` runs through
                totals += strategy.evaluate(tokens)[is_counted].double().sum(0).cpu().numpy()
    except torch.OutOfMemoryError:
        return Scored(
            ids=ids[:0],
            totals=np.zeros(3),
            checksum=str(checksum),
            seconds=time.perf_counter() - began,
            out_of_memory=True,
        )

    own_ids = ids[own_places[own_places < len(ids)]]
    return Scored(ids=own_ids, totals=totals, checksum=str(checksum), seconds=time.perf_counter() - began)


def score_mean_loss(strategy: Strategy, micro_batches: Iterable[torch.Tensor]) -> float:
    """Return the mean loss of this rank's `micro_batches`, computed as in the validation. All ranks must take part."""
    totals = torch.stack([strategy.evaluate(tokens).double().sum(0) for tokens in micro_batches]).sum(0)
    return float(totals[0] / totals[1])


class NotFinite(Exception):
    """Raised where the loss, or a gradient, became infinite or NaN."""


def summarise_validation(ranks: list[Scored], task: str) -> Validation | None:
    """Return the validation over all ranks; None where nothing was scored, or a rank ran out of memory.

    Raises NotFinite where the loss is not finite.
    """
    if any(rank.out_of_memory for rank in ranks):
        return None
    loss, targets, correct = np.sum([rank.totals for rank in ranks], axis=0).tolist()
    if not targets:
        return None
    if not np.isfinite(loss):
        raise NotFinite(f"the validation loss after the last step is {loss / targets}")
    mean_loss = loss / targets
    predicts_tokens = task == "language-modelling"
    ids = np.concatenate([rank.ids for rank in ranks])

    return Validation(
        samples=len(ids),
        samples_sha256=digest_of_ids([ids]),
        tokens_checksum=add_checksums([rank.checksum for rank in ranks]),
        targets=int(targets),
        loss=mean_loss,
        perplexity=float(np.exp(mean_loss)) if predicts_tokens and mean_loss < LARGEST else None,
        accuracy=None if predicts_tokens else correct / targets,
        wall_time_s=max(rank.seconds for rank in ranks),
        rank_losses=[float(rank.totals[0]) for rank in ranks],
    )
