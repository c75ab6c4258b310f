"""What the corpora of a campaign download before its first run, and what stands in the way."""

import os

from scaleproof.ground.campaign.config import ENTRIES
from scaleproof.ground.campaign.corpora import Corpus, folder_of
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.errors import plural
from scaleproof.ground.number_format import bytes_text
from scaleproof.ground.snakemake_command import RESULTS
from scaleproof.measure.corpus.remote import Remote

CORPORA = RESULTS / "corpora"
DOWNLOADS = "downloads "


def describe_corpora(loaded: LoadedCampaign) -> str:
    """Return a line for each corpus of a campaign: its download, its licence, and what could prevent the download."""
    lines = [_corpus_line(name, corpus) for name, corpus in loaded.corpora.items()]
    # Ready-made tokenizers; bytes need no file.
    tokenizers = {cell.workload.tokenizer for cell in loaded.cells} & (ENTRIES.keys() - {"bytes"})
    lines += [f"\n  tokenizer {name}: downloads a file of less than 1 MB, once" for name in sorted(tokenizers)]
    return "\n\nCorpora:" + "".join(lines)


def describe_corpora_table(rows: dict[str, Corpus]) -> str:
    """Return a line for each corpus in `rows` of config/corpora.yaml: source, download and licence."""
    return "\n".join(f"{_corpus_line(name, corpus).strip()}; source {corpus.source}" for name, corpus in rows.items())


def lines_of_downloads(loaded: LoadedCampaign) -> list[str]:
    """Return a line for each corpus that is downloaded before the campaign's first run."""
    texts = {name: _download_text(name, corpus) for name, corpus in loaded.corpora.items()}
    return [f"corpus {name} {text}" for name, text in texts.items() if text.startswith(DOWNLOADS)]


def _download_text(name: str, corpus: Corpus) -> str:
    """Return in words what of a corpus would be downloaded: "downloads at most 3 files, 1.2 GB"."""
    if not corpus.remote and corpus.source != "dataset":
        return "nothing to download"
    files = corpus.remote_files
    missing_files = Remote().missing_files(corpus)
    is_complete = bool(files) and not missing_files
    if is_complete or (CORPORA / folder_of(name, corpus) / "corpus.json").exists():
        return "there already"
    if corpus.source == "dataset":
        return f"{DOWNLOADS}what is read of it, as a stream from the hub"
    total = bytes_text(corpus.size) if corpus.size else "of unknown size"
    # "at most": the budget may end the download early (unless it is one file of unknown size), or some files are there.
    may_stop_early = corpus.budget and (corpus.size or len(files) > 1)
    limit = "at most " if may_stop_early or len(missing_files) < len(files) else ""
    return f"{DOWNLOADS}{limit}{plural(len(files), 'file')}, {total}"


def _corpus_line(name: str, corpus: Corpus) -> str:
    """Return an indented line about a corpus: revision, budget, download, licence, and obstacles to the download."""
    parts = [f"{name} at {corpus.revision[:12]}" if corpus.revision else name]
    if corpus.budget:
        parts.append(f"first {corpus.budget}")
    parts.append(_download_text(name, corpus))
    parts.append(f"licence {corpus.licence}")
    if corpus.gated:
        token_state = "is set" if os.environ.get("HF_TOKEN") else "is not set"
        parts.append(f"gated: accept its terms on the hub; HF_TOKEN {token_state}")
    if not corpus.pinned:
        parts.append("its revision may move")
    return f"\n  {'; '.join(parts)}"
