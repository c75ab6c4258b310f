"""What a campaign needs before it can run: memory for the model's state, and text from elsewhere."""

import os
from pathlib import Path

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.corpora import Corpus, folder_of
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.facts.counts import Counts
from scaleproof.ground.facts.counts import counts_of as counts_of_inventory
from scaleproof.ground.facts.memory import state_bytes
from scaleproof.ground.number_format import integer, significant, size
from scaleproof.measure.machine.gpus import Gpu
from scaleproof.measure.model.inventory import inventory_of

CORPORA = Path("results/corpora")


def counts_of(cell: Cell) -> Counts | None:
    """Parameters and FLOPs of a cell's model; None of a command's, and of a classifier, where they follow from text."""
    if cell.command is not None or cell.workload.task == "classification":
        return None
    return counts_of_inventory(inventory_of(cell), cell.workload.seq_len)


def state(cell: Cell) -> float | None:
    """Bytes of weights, gradients and optimizer state on one device; None where the model is not known."""
    counts, execution = counts_of(cell), cell.execution
    if counts is None:
        return None
    return state_bytes(execution.strategy, execution.precision, counts.parameters, cell.sharing_devices)


def models(loaded: LoadedCampaign) -> str:
    """A list with a line for each model of a campaign: its parameters, and the work of a token; empty without any."""
    lines = {}
    for cell in loaded.cells:
        counts, name = counts_of(cell), cell.workload.model
        if counts is None:
            continue
        label = name if isinstance(name, str) else name.slug()
        label += f", {integer(cell.vocab_size)} entries, seq_len {integer(cell.workload.seq_len)}"
        lines[label] = (
            f"\n  {label}: {integer(counts.parameters)} parameters (tied head), "
            f"{significant(counts.flops_per_token / 1e6, 3, grouped=True)} MFLOP a token"
        )
    return "\n\nModels:" + "".join(lines.values()) if lines else ""


def memory(loaded: LoadedCampaign, gpus: list[Gpu]) -> str:
    """A note on the table's column state/device: what it leaves out, and which cells it rules out on these `gpus`."""
    note = (
        "\n\nstate/device: weights, gradients and optimizer state by the formula of the ZeRO paper; activations, "
        "buffers and the allocator's reserve come on top."
    )
    least = min((gpu.memory for gpu in gpus if gpu.memory), default=None)
    if least is None:
        return note
    large = [cell.slug for cell in loaded.cells if cell.execution.device != "cpu" and (state(cell) or 0) > least]
    if large:
        note += f"\nThe state alone is more than the {size(least)} of a device here: {', '.join(large)}"
    return note


def corpora(loaded: LoadedCampaign) -> str:
    """A list with a line for each corpus of a campaign: its download, its licence, and what stands in the way."""
    lines = [_corpus(name, corpus) for name, corpus in loaded.corpora.items()]
    if any(cell.workload.tokenizer == "gpt2" for cell in loaded.cells):
        lines.append("\n  tokenizer gpt2: downloads a file of less than 1 MB, once")
    return "\n\nCorpora:" + "".join(lines)


def corpora_text(rows: dict[str, Corpus]) -> str:
    """A line for each corpus of the table: its source, what would be downloaded, its licence."""
    return "\n".join(f"{_corpus(name, corpus).strip()}; source {corpus.source}" for name, corpus in rows.items())


def _corpus(name: str, corpus: Corpus) -> str:
    """A line about a corpus, indented: its revision, what would be downloaded, its licence, what stands in the way."""
    parts = [f"{name} at {corpus.revision[:12]}" if corpus.revision else name]
    if corpus.budget:
        parts.append(f"first {corpus.budget}")
    if not corpus.remote:
        parts.append("nothing to download")
    elif (CORPORA / folder_of(name, corpus) / "corpus.json").exists():
        parts.append("there already")
    else:
        files = len(corpus.remote_files)
        total = size(corpus.size) if corpus.size else "of unknown size"
        at_most = "at most " if corpus.budget and (corpus.size or files > 1) else ""
        parts.append(f"downloads {at_most}{files} file{'s' if files > 1 else ''}, {total}")
    parts.append(f"licence {corpus.licence}")
    if corpus.gated:
        here = "is set" if os.environ.get("HF_TOKEN") else "is not set"
        parts.append(f"gated: accept its terms on the hub; HF_TOKEN {here}")
    if not corpus.pinned:
        parts.append("its revision may move")
    return f"\n  {'; '.join(parts)}"
