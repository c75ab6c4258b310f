"""A data set of the Hugging Face hub, streamed through `datasets`."""

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field

import httpx2
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

from scaleproof.ground.campaign.corpora import Corpus, absent_field
from scaleproof.ground.errors import UserError, shortened
from scaleproof.measure.corpus.forms import Document, NotADocument, document_of
from scaleproof.measure.corpus.hub import hub_api

ROWS = 20  # that `corpus check` reads


@dataclass(frozen=True)
class HubDataset:
    """A corpus with `source: dataset`, and how the hub is reached."""

    name: str  # of the corpus, for messages
    corpus: Corpus
    endpoint: str
    token: str | None = field(default=None, repr=False)  # sent to the hub alone; None where it is free for all

    @property
    def repository(self) -> str:
        """The name of the dataset on the Hugging Face hub: owner/name."""
        return self.corpus.load[0]

    def commit(self) -> str:
        """The commit that the corpus' revision stands for now. Raises UserError where the hub does not say."""
        try:
            answer = hub_api(self.endpoint, self.token).dataset_info(self.repository, revision=self.corpus.revision)
            return str(answer.sha)
        except HfHubHTTPError as error:
            raise self._refused(self._answer(error)) from None
        except OfflineModeIsEnabled:
            raise self._refused("HF_HUB_OFFLINE is set") from None
        except (httpx2.HTTPError, OSError) as error:
            raise self._refused(f"the connection failed ({type(error).__name__})") from None

    def documents(self, commit: str) -> Iterator[Document]:
        """Text and label of each row at a commit, in order. Raises UserError where it cannot be read."""
        os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
        import datasets  # a second that only this source needs

        _, configuration, split = self.corpus.load
        try:
            rows = datasets.load_dataset(
                self.repository, configuration, split=split, revision=commit, streaming=True, token=self.token or False
            )
            for number, row in enumerate(rows, start=1):
                if fault := absent_field(list(row), self.corpus):
                    raise self._refused(f"row {number} {fault}")
                chosen = {name: row[name] for name in self.corpus.fields}
                yield document_of(f"row {number}", chosen, self.corpus.label is not None)
        except NotADocument as error:
            raise self._refused(str(error)) from None
        except HfHubHTTPError as error:  # its text holds addresses with signatures
            raise self._refused(self._answer(error)) from None
        except (httpx2.HTTPError, OSError, RuntimeError, ValueError) as error:
            first_line, *_ = str(error).strip().splitlines() or [type(error).__name__]
            without_query, *_ = first_line.partition("?")  # an address' query may hold a signature
            raise self._refused(shortened(without_query, 300)) from None

    def check(self) -> str:
        """Ask the hub for the first rows; returns a line about them. Raises UserError where they have no text."""
        commit = self.commit()
        texts = [text for text, _ in itertools.islice(self.documents(commit), ROWS)]
        if not any(text.strip() for text in texts):
            raise self._refused(f"its first {len(texts)} rows have no text")
        pinned = "" if self.corpus.pinned else f"; {self.corpus.revision} is now {commit}: write it as `revision`"
        return f"{self.repository} at {commit[:12]}: the first {len(texts)} rows have text{pinned}"

    def _answer(self, error: HfHubHTTPError) -> str:
        """The reason, in words, why the hub answered with this error."""
        code = error.response.status_code
        if code not in (401, 403):
            return f"the hub has no such data set or revision (HTTP {code})"
        page = f"{self.endpoint}/datasets/{self.repository}"
        if not self.corpus.gated:
            return f"access denied (HTTP {code}); is it gated (`gated: true`), private, or spelled otherwise?"
        return f"access denied (HTTP {code}); accept the terms at {page}, make a token there, and `export HF_TOKEN=...`"

    def _refused(self, reason: str) -> UserError:
        """The error that the corpus cannot be taken from its repository. `reason`: in words."""
        return UserError(f'config/corpora.yaml: corpus "{self.name}": {self.repository}: {reason}')
