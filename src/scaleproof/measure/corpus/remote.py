"""The files of corpora that are elsewhere: where they are offered, and where they are kept here for all campaigns."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from scaleproof.ground.campaign.corpora import Corpus, Known, is_address
from scaleproof.ground.errors import UserError
from scaleproof.ground.files import sha256_of
from scaleproof.ground.snakemake_command import RESULTS
from scaleproof.measure.corpus.transfer import RemoteFile, RetryPolicy, download

if TYPE_CHECKING:
    from scaleproof.measure.corpus.hub import HubDataset, HubFile

HUB = "https://huggingface.co"
# The merges of GPT-2's tokenizer, with the checksum that tiktoken pins for this address; the hub has the same file.
MERGES = "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/vocab.bpe"
MERGES_SHA256 = "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"
MERGES_ON_HUB = "openai-community/gpt2/resolve/607a30d783dfa663caf39e06633721c8d4cfcd7e/merges.txt"


@dataclass(frozen=True)
class Remote:
    """How to reach servers from this machine, and where downloads are kept."""

    folder: Path = RESULTS / "downloads"
    endpoint: str = HUB
    token: str | None = field(default=None, repr=False)
    policy: RetryPolicy = RetryPolicy()  # noqa: RUF009  (frozen)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], folder: Path) -> "Remote":
        """Return a Remote as the variables in `environment` say. `folder`: where downloads are kept.

        HF_ENDPOINT is a mirror of the hub. HF_TOKEN is for gated corpora; it is sent to the hub alone, and never
        written down. Raises UserError where the mirror is no address, or the token no token.
        """
        endpoint = environment.get("HF_ENDPOINT") or HUB
        if not is_address(endpoint):
            raise UserError(f'the variable HF_ENDPOINT cannot be "{endpoint}"; allowed: an address, like {HUB}')
        token = environment.get("HF_TOKEN", "").strip() or None
        if token and not re.fullmatch("[!-~]+", token):  # a header of HTTP has no others; the token is not printed
            raise UserError("the variable HF_TOKEN is no token; allowed: letters, digits and signs of ASCII, no blanks")
        return cls(folder, endpoint, token)

    def fetch_gpt2_merges(self) -> Path:
        """Return the path of vocab.bpe, GPT-2's list of merges, downloaded at the first call. Raises UserError."""
        path = self.folder / "gpt2" / "vocab.bpe"
        urls = (MERGES, f"{self.endpoint.rstrip('/')}/{MERGES_ON_HUB}")
        if self.endpoint != HUB:  # whoever names a mirror wants it asked first
            urls = urls[::-1]
        download(RemoteFile(urls, sha256=MERGES_SHA256), path, self.policy)
        return path

    def dataset(self, name: str, corpus: Corpus) -> "HubDataset":
        """Return the data set on the hub that the corpus `name` (`source: dataset`) is read from."""
        from scaleproof.measure.corpus.hub import HubDataset  # half a second that only the hub needs

        return HubDataset(name=name, corpus=corpus, **self._hub_access(corpus))

    def hub_file(self, corpus: Corpus, name: str) -> "HubFile":
        from scaleproof.measure.corpus.hub import HubFile  # half a second that only the hub needs

        known = corpus.known.get(name, Known())
        return HubFile(
            repository=str(corpus.repository),
            revision=str(corpus.revision),
            name=name,
            size=known.size,
            sha256=known.sha256,
            **self._hub_access(corpus),
        )

    def _hub_access(self, corpus: Corpus) -> dict[str, Any]:
        """Return the fields of a HubFile or HubDataset that say how the corpus is reached."""
        token = self.token if corpus.gated else None
        return {"endpoint": self.endpoint.rstrip("/"), "token": token, "gated": corpus.gated}

    def place_of(self, corpus: Corpus, name: str) -> Path:
        """Return the path at which the corpus' file `name` is kept, whether downloaded or put there by hand."""
        version = corpus.revision or "none"
        if corpus.source == "hub":
            return self.folder / "hub" / str(corpus.repository) / version / name
        first_url = urlsplit(corpus.urls[0])
        return self.folder / f"{first_url.hostname}/{first_url.path.strip('/')}" / version / name

    def missing_files(self, corpus: Corpus) -> list[str]:
        """Return the names of the corpus' files that are not here as the table describes them."""
        return [name for name in corpus.remote_files if not self._is_here(corpus, name)]

    def _is_here(self, corpus: Corpus, name: str) -> bool:
        """Return whether the file is here, with the size and sha256 of the table."""
        place = self.place_of(corpus, name)
        known = corpus.known.get(name, Known())
        has_size = place.is_file() and known.size in (None, place.stat().st_size)
        return has_size and (known.sha256 is None or sha256_of(place) == known.sha256)

    def download(self, corpus: Corpus, name: str) -> tuple[Path, dict[str, Any]]:
        """Return path and record of the corpus' file `name`, downloaded unless it is here. Raises UserError."""
        path = self.place_of(corpus, name)
        if corpus.source == "hub":
            from scaleproof.measure.corpus.hub import download_from_hub

            return path, download_from_hub(self.hub_file(corpus, name), path)
        known = corpus.known.get(name, Known())
        urls = tuple(f"{url.rstrip('/')}/{quote(name)}" for url in corpus.urls)
        return path, download(RemoteFile(urls, known.size, known.sha256), path, self.policy)
