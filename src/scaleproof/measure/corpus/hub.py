"""Data sets on the Hugging Face Hub: one file through huggingface_hub, or all rows streamed through `datasets`."""

import itertools
import logging
import os
import re
import shutil
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
from huggingface_hub import HfApi, HfFileMetadata, constants, get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled, RevisionNotFoundError
from huggingface_hub.file_download import http_get
from huggingface_hub.utils import build_hf_headers

from scaleproof.ground.campaign.corpora import Corpus, absent_field_text
from scaleproof.ground.errors import UserError, shortened
from scaleproof.ground.files import DISK_FULL, sha256_of
from scaleproof.measure.corpus.forms import Document, NotADocument, document_of
from scaleproof.measure.corpus.store import (
    SHA256,
    Denied,
    check_room,
    full_disk_error,
    keep_checked,
    keep_file,
    keep_or_fetch,
    sibling_path,
    what_checked_with,
)

NO_WAY = "; HF_ENDPOINT names a mirror, and docs/corpora.md says what to do without a network"
ROWS = 20  # of a streamed data set that `corpus check` reads
# Without this the library asks the hub for a list of programs that may have called it, and names versions and caller.
constants.HF_HUB_DISABLE_TELEMETRY = True


class _WithoutQueries(logging.Filter):
    """Removes the query of each address from the library's warnings: it may hold a signature."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Take the queries out of the addresses in a record, and let every record through."""
        record.msg, record.args = re.sub(r"\?[^\s'\"]*", "", record.getMessage()), ()
        return True


for _name in ("huggingface_hub.file_download", "huggingface_hub.utils._http"):
    logging.getLogger(_name).addFilter(_WithoutQueries())


def hub_api(endpoint: str, token: str | None) -> HfApi:
    """Return the client of the hub at `endpoint`. Without a token it gets False: not even a stored one is sent."""
    return HfApi(endpoint=endpoint, token=token or False, library_name="scaleproof")


@dataclass(frozen=True)
class HubFile:
    """A file at a revision, and what the corpus table knows of it."""

    repository: str
    revision: str
    name: str
    endpoint: str
    size: int | None = None
    sha256: str | None = None
    token: str | None = field(default=None, repr=False)  # sent to the endpoint alone; None where it is free for all
    gated: bool = False

    @property
    def url(self) -> str:
        """The address from which the file is received."""
        return hf_hub_url(
            self.repository, self.name, repo_type="dataset", revision=self.revision, endpoint=self.endpoint
        )

    def check(self) -> None:
        """Ask the hub whether it has the file that the table describes. Raises UserError."""
        try:
            with denied_for_library_errors(self):
                _sha256_on_hub(self, _file_metadata(self, is_patient=False))
        except Denied as reason:
            raise UserError(f"config/corpora.yaml: {self.repository}: {self.name}: {reason}") from None


def download_from_hub(file: HubFile, target: Path) -> dict[str, Any]:
    """Get the file as `target`, from huggingface_hub's cache or the hub; return its record, as `keep_or_fetch` does.

    An interrupted download is continued by the next process. Raises UserError where the file is not to be had.
    """
    advice = f"\nWithout a network, put the file at {target}"
    return keep_or_fetch(target, file.size, file.sha256, {file.url: lambda: _fetch_file(file, target)}, advice)


def _fetch_file(file: HubFile, target: Path) -> dict[str, Any]:
    """Copy the file from the cache, or download it; returns its record. Raises Denied."""
    with denied_for_library_errors(file):
        return _copy_from_cache(file, target) or _download_from_hub(file, target)


@contextmanager
def denied_for_library_errors(file: HubFile) -> Iterator[None]:
    """Turn whatever the library raises in the `with` block about the file into Denied, with a reason in words."""
    try:
        yield
        return
    except HfHubHTTPError as error:  # its text holds addresses with signatures
        reason = _reason_in_words(error, file)
    except OfflineModeIsEnabled:
        reason = "HF_HUB_OFFLINE is set, and huggingface_hub's cache does not hold the file"
    except httpx2.TooManyRedirects:
        reason = "the server redirects in a circle"
    except httpx2.TimeoutException:
        reason = "nothing came for HF_HUB_DOWNLOAD_TIMEOUT (10 s by default), at each of 6 tries"
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        reason = f"the connection failed ({type(error).__name__}){NO_WAY}"
    raise Denied(reason)  # here, where the library's error does not stand behind it


def _copy_from_cache(file: HubFile, target: Path) -> dict[str, Any] | None:
    """Copy the file from the library's cache; returns its record, or None where this very file is not in the cache."""
    cached = try_to_load_from_cache(file.repository, file.name, revision=file.revision, repo_type="dataset")
    if not isinstance(cached, str):
        return None
    source = Path(os.path.realpath(cached))
    hub_sha256 = source.name if SHA256.fullmatch(source.name) else None  # the cache names a large file by its sha256
    sha256 = sha256_of(source)
    expected = file.sha256 or hub_sha256 or sha256
    if sha256 != expected or file.size not in (None, source.stat().st_size):
        return None
    check_room(target, source.stat().st_size, 0)
    part = sibling_path(target, ".cache.part")
    shutil.copyfile(source, part)
    record = {"sha256": sha256, "checked": what_checked_with(file.sha256, hub_sha256), "source": file.url}
    return keep_file(part, target, record)


def _download_from_hub(file: HubFile, target: Path) -> dict[str, Any]:
    """Download the file, continuing an earlier download; returns its record. Raises Denied."""
    metadata = _file_metadata(file)
    hub_sha256 = _sha256_on_hub(file, metadata)
    # Each version of the file has a part of its own, which is never continued with the bytes of another version.
    version = re.sub(r"[^A-Za-z0-9]", "", metadata.etag or "")[:16]
    part = sibling_path(target, f".{version}.part")
    check_room(target, metadata.size, part.stat().st_size if part.exists() else 0)
    _receive_rest(file, metadata, part)
    origin = {"source": file.url}
    if metadata.commit_hash:
        origin["commit"] = metadata.commit_hash
    return keep_checked(part, target, file.sha256, hub_sha256, **origin)


def _file_metadata(file: HubFile, is_patient: bool = True) -> HfFileMetadata:
    """Ask the hub for a file's metadata; if `is_patient`, again for half a minute where it does not answer.

    Without a token the library gets False, so that not even a stored one is sent.
    """
    token, endpoint = file.token or False, file.endpoint
    return get_hf_file_metadata(
        file.url, token=token, endpoint=endpoint, library_name="scaleproof", retry_on_errors=is_patient
    )


def _sha256_on_hub(file: HubFile, metadata: HfFileMetadata) -> str | None:
    """Return the sha256 that the hub states of a file.

    The ETag of a large (LFS) file is its sha256; for other files returns None. Raises Denied if the table has another
    sha256, or another size.
    """
    if not metadata.etag:
        raise Denied("the server does not state which version of the file that is (no ETag)")
    hub_sha256 = metadata.etag if SHA256.fullmatch(metadata.etag) else None
    if file.sha256 and hub_sha256 and hub_sha256 != file.sha256:
        raise Denied(f"the hub has sha256 {hub_sha256[:12]}..., expected {file.sha256[:12]}...")
    if file.size is not None and metadata.size not in (None, file.size):
        raise Denied(
            f"{metadata.size:,} bytes are offered, {file.size:,} were expected: another file has taken its place"
        )
    return hub_sha256


def _receive_rest(file: HubFile, metadata: HfFileMetadata, part: Path) -> None:
    """Download what the file `part` still lacks. Raises Denied where the final length is wrong.

    `hf_hub_download` would start again from the first byte: it deletes its part when it fails.
    """
    same_host = urlsplit(metadata.location).netloc == urlsplit(file.endpoint).netloc
    headers = build_hf_headers(token=(same_host and file.token) or False, library_name="scaleproof")
    # Unbuffered: what a full disk did not take must not be tried again by close().
    with part.open("r+b" if part.exists() else "wb", buffering=0) as out:
        bytes_here = out.seek(0, os.SEEK_END)
        if metadata.size is not None and bytes_here > metadata.size:
            bytes_here = out.seek(0)
            out.truncate()
        try:
            http_get(
                metadata.location,
                out,
                resume_size=bytes_here,
                headers=headers | {"Accept-Encoding": "identity"},
                expected_size=metadata.size,
                displayed_filename=file.name,
            )
        except OSError as error:
            if isinstance(error, HfHubHTTPError | OfflineModeIsEnabled):
                raise
            if error.errno in DISK_FULL:
                raise full_disk_error(part) from None
            if error.errno is None:  # the library's own: another length than the hub stated
                size = part.stat().st_size
                part.unlink()
                raise Denied(f"{size:,} bytes came, {metadata.size:,} were stated") from None
            raise


def _reason_in_words(error: HfHubHTTPError, file: HubFile) -> str:
    """Return why the hub answered with this error, in words."""
    if denied := _access_advice(error, file):
        return denied
    if isinstance(error, RevisionNotFoundError):
        return f"the repository has no revision {file.revision}"
    code = error.response.status_code
    return f"no such file there (HTTP {code})" if code in (404, 410) else f"HTTP {code}"


def _access_advice(error: HfHubHTTPError, source: "HubFile | HubDataset") -> str | None:
    """Return what to do about the hub's denial of access; None where it answered something else."""
    code = error.response.status_code
    page = f"{source.endpoint}/datasets/{source.repository}"
    if code not in (401, 403):
        return None
    if not source.gated:
        return f"access denied (HTTP {code}); is it gated (`gated: true`), private, or spelled otherwise?"
    if source.token:
        return f"access denied (HTTP {code}); the owner of the token in HF_TOKEN must accept the terms at {page} first"
    return f"access denied (HTTP {code}); accept the terms at {page}, make a token there, and `export HF_TOKEN=...`"


@dataclass(frozen=True)
class HubDataset:
    """A corpus with `source: dataset`, and how to reach the hub."""

    name: str  # of the corpus, for messages
    corpus: Corpus
    endpoint: str
    token: str | None = field(default=None, repr=False)  # sent to the hub alone; None where it is free for all
    gated: bool = False

    @property
    def repository(self) -> str:
        """The name of the dataset on the Hugging Face hub: owner/name."""
        return self.corpus.load[0]

    def commit(self) -> str:
        """Return the commit that the corpus' revision stands for now. Raises UserError where the hub does not say."""
        try:
            answer = hub_api(self.endpoint, self.token).dataset_info(self.repository, revision=self.corpus.revision)
            return str(answer.sha)
        except HfHubHTTPError as error:
            raise self._refusal_error(self._reason_in_words(error)) from None
        except OfflineModeIsEnabled:
            raise self._refusal_error(f"HF_HUB_OFFLINE is set{NO_WAY}") from None
        except (httpx2.HTTPError, OSError) as error:
            raise self._refusal_error(f"the connection failed ({type(error).__name__}){NO_WAY}") from None

    def documents(self, commit: str) -> Generator[Document, None, None]:
        """Yield text and label of each row at a commit, in order. Raises UserError where rows cannot be read."""
        os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
        import datasets  # a second that only this source needs

        _, configuration, split = self.corpus.load
        try:
            rows = datasets.load_dataset(
                self.repository, configuration, split=split, revision=commit, streaming=True, token=self.token or False
            )
            with closing(iter(rows)) as stream:  # its threads, left open, may abort the interpreter's end
                for number, row in enumerate(stream, start=1):
                    if fault := absent_field_text(list(row), self.corpus):
                        raise self._refusal_error(f"row {number} {fault}")
                    chosen = {name: row[name] for name in self.corpus.fields}
                    yield document_of(f"row {number}", chosen, self.corpus.label is not None)
        except NotADocument as error:
            raise self._refusal_error(str(error)) from None
        except HfHubHTTPError as error:  # its text holds addresses with signatures
            raise self._refusal_error(self._reason_in_words(error)) from None
        except (httpx2.HTTPError, OSError, RuntimeError, ValueError) as error:
            first_line, *_ = str(error).strip().splitlines() or [type(error).__name__]
            without_query, *_ = first_line.partition("?")  # an address' query may hold a signature
            raise self._refusal_error(shortened(without_query, 300)) from None

    def check(self) -> str:
        """Read the first rows from the hub; returns a line about them. Raises UserError where they have no text."""
        commit = self.commit()
        with closing(self.documents(commit)) as documents:
            texts = [text for text, _ in itertools.islice(documents, ROWS)]
        if not any(text.strip() for text in texts):
            raise self._refusal_error(f"its first {len(texts)} rows have no text")
        pinned = "" if self.corpus.pinned else f"; {self.corpus.revision} is now {commit}: write it as `revision`"
        return f"{self.repository} at {commit[:12]}: the first {len(texts)} rows have text{pinned}"

    def _reason_in_words(self, error: HfHubHTTPError) -> str:
        """Return why the hub answered with this error, in words."""
        denied = _access_advice(error, self)
        return denied or f"the hub has no such data set or revision (HTTP {error.response.status_code})"

    def _refusal_error(self, reason: str) -> UserError:
        """Return the error to raise where the corpus cannot be read from its repository. `reason`: in words."""
        return UserError(f'config/corpora.yaml: corpus "{self.name}": {self.repository}: {reason}')
