"""Data sets on the Hugging Face Hub: one file through huggingface_hub, or all rows streamed through `datasets`."""

import itertools
import logging
import os
import re
import shutil
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import httpx2
from huggingface_hub import HfApi, HfFileMetadata, constants, get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled, RevisionNotFoundError
from huggingface_hub.file_download import http_get
from huggingface_hub.utils import build_hf_headers

from scaleproof.ground.campaign.corpora import Corpus, is_address
from scaleproof.ground.campaign.local_corpus import absent_field_text
from scaleproof.ground.errors import UserError, shortened
from scaleproof.ground.files import DISK_FULL, sha256_of
from scaleproof.measure.corpus.forms import Document, NotADocument, document_of
from scaleproof.measure.corpus.store import (
    SHA256,
    Denied,
    check_room,
    check_size,
    full_disk_error,
    keep_checked,
    keep_file,
    keep_or_fetch,
    sibling_path,
    size_on_disk,
    what_checked_with,
)
from scaleproof.measure.corpus.transfer import lost_connection, with_scheme

NO_WAY = "; HTTPS_PROXY names a proxy, HF_ENDPOINT a mirror, and docs/corpora.md says what to do without a network"
PROXIES = "allowed in https_proxy, http_proxy and all_proxy: an address, like http://NAME:8080"
ROWS = 20  # of a streamed data set that `corpus check` reads
# Without this the library asks the hub for a list of programs that may have called it, and names versions and caller.
constants.HF_HUB_DISABLE_TELEMETRY = True


class _WithoutQueries(logging.Filter):
    """Removes the query of each address from the library's warnings: it may hold a signature."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Cut the queries from the addresses in a record, which is never dropped."""
        record.msg = re.sub(r"\?[^\s'\"]*", "", record.getMessage())
        record.args = ()
        return True


for _name in ("huggingface_hub.file_download", "huggingface_hub.utils._http"):
    logging.getLogger(_name).addFilter(_WithoutQueries())


def hub_api(endpoint: str, token: str | None) -> HfApi:
    """Return the client of the hub at `endpoint`. Without a `token` it sends none, not even one stored by a login.

    Raises UserError where the environment names a proxy that is no address.
    """
    proxies = getproxies()
    for name in ("http", "https", "all"):
        proxy = proxies.get(name)
        if proxy and not is_address(with_scheme(proxy), ("http", "https", "socks5", "socks5h")):
            raise UserError(f'{name}_proxy is "{proxy}"; {PROXIES}')
        if proxy and proxy.startswith("socks") and find_spec("socksio") is None:
            raise UserError(
                f"{name}_proxy names a SOCKS proxy, which needs a library: pip install socksio; or {PROXIES}"
            )
    return HfApi(endpoint=endpoint, token=token or False, library_name="scaleproof")


@dataclass(frozen=True)
class HubFile:
    """A file of a data set on the hub, and what config/corpora.yaml says of its content."""

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
        """Raise UserError where the hub lacks the file, or has another one than config/corpora.yaml describes."""
        try:
            with denied_for_library_errors(self):
                metadata = _file_metadata(self, is_patient=False)
                _sha256_on_hub(self, metadata)  # called for its error: Denied where size or sha256 differ
        except Denied as reason:
            raise UserError(f"config/corpora.yaml: {self.repository}: {self.name}: {reason}") from None


def download_from_hub(file: HubFile, target: Path) -> dict[str, Any]:
    """Make sure that `target` is the file, and return its record (see `keep_or_fetch`).

    A missing file is copied from huggingface_hub's cache or downloaded; the next process continues an interrupted
    download. Raises UserError where neither is possible.
    """

    def fetch() -> dict[str, Any]:
        """Copy the file from the cache, or download it. Raises Denied."""
        with denied_for_library_errors(file):
            return _copy_from_cache(file, target) or _download_from_hub(file, target)

    advice = f"\nWithout a network, put the file at {target}"
    return keep_or_fetch(target, file.size, file.sha256, offers={file.url: fetch}, advice=advice)


@contextmanager
def denied_for_library_errors(file: HubFile) -> Iterator[None]:
    """Replace the library's errors in the `with` block by Denied, with a reason in words."""
    try:
        yield
        return
    except HfHubHTTPError as error:  # its text holds addresses with signatures
        reason = _refusal_reason(error, file)
    except OfflineModeIsEnabled:
        reason = "HF_HUB_OFFLINE is set, and huggingface_hub's cache does not hold the file"
    except httpx2.TooManyRedirects:
        reason = "the server redirects in a circle"
    except httpx2.TimeoutException:
        reason = "nothing came for HF_HUB_DOWNLOAD_TIMEOUT (10 s by default), at each of 6 tries"
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        reason = lost_connection(error, file.endpoint) + NO_WAY
    except ValueError as error:  # of httpx2: it names the address
        if "proxy" not in str(error):
            raise
        reason = f"{error}; {PROXIES}"
    raise Denied(reason)  # outside of `except`, so that no traceback shows the library's error


def _copy_from_cache(file: HubFile, target: Path) -> dict[str, Any] | None:
    """Copy the file from the library's cache, and return its record.

    Returns None where the cache lacks it, or has another size or sha256 than the table, as far as that states them.
    """
    cached_path = try_to_load_from_cache(file.repository, file.name, revision=file.revision, repo_type="dataset")
    if not isinstance(cached_path, str):  # None, or the library's mark of a file that the hub does not have
        return None
    source = Path(os.path.realpath(cached_path))
    size = source.stat().st_size
    sha256 = sha256_of(source)
    hub_sha256 = source.name if SHA256.fullmatch(source.name) else None  # the cache names a large file by its sha256
    expected_sha256 = file.sha256 or hub_sha256 or sha256
    if sha256 != expected_sha256 or file.size not in (None, size):
        return None

    check_room(target, size, 0)
    part = sibling_path(target, ".cache.part")
    shutil.copyfile(source, part)
    record = {"sha256": sha256, "checked": what_checked_with(file.sha256, hub_sha256), "source": file.url}
    return keep_file(part, target, record)


def _download_from_hub(file: HubFile, target: Path) -> dict[str, Any]:
    """Download the file, from where an earlier download ended, and return its record. Raises Denied."""
    metadata = _file_metadata(file)
    hub_sha256 = _sha256_on_hub(file, metadata)
    # The name of the partial file has the version in it, so that no bytes of another version are appended.
    version = re.sub(r"[^A-Za-z0-9]", "", metadata.etag or "")[:16]
    part = sibling_path(target, f".{version}.part")
    check_room(target, metadata.size, size_on_disk(part))
    _receive_rest(file, metadata, part)

    origin = {"source": file.url}
    if metadata.commit_hash:
        origin["commit"] = metadata.commit_hash
    return keep_checked(part, target, file.sha256, hub_sha256, **origin)


def _file_metadata(file: HubFile, is_patient: bool = True) -> HfFileMetadata:
    """Ask the hub for the metadata of a file: its size, its ETag, and where its content is.

    `is_patient`: a hub that does not answer is asked again for half a minute.
    """
    return get_hf_file_metadata(
        file.url,
        token=file.token or False,  # False: not even a stored token is sent
        endpoint=file.endpoint,
        library_name="scaleproof",
        retry_on_errors=is_patient,
    )


def _sha256_on_hub(file: HubFile, metadata: HfFileMetadata) -> str | None:
    """Return the sha256 that the hub's `metadata` state: the ETag of a large (LFS) file, None for other files.

    Raises Denied without an ETag, and where sha256 or size are not the table's.
    """
    if not metadata.etag:
        raise Denied("the server does not state which version of the file that is (no ETag)")
    hub_sha256 = metadata.etag if SHA256.fullmatch(metadata.etag) else None
    if file.sha256 and hub_sha256 and hub_sha256 != file.sha256:
        raise Denied(f"the hub has sha256 {hub_sha256[:12]}..., expected {file.sha256[:12]}...")
    check_size(metadata.size, file.size)
    return hub_sha256


def _receive_rest(file: HubFile, metadata: HfFileMetadata, part: Path) -> None:
    """Append to the file `part` the bytes that it lacks. Raises Denied where its final length is wrong.

    `hf_hub_download` would start again from the first byte: it deletes its partial file when it fails.
    """
    is_same_host = urlsplit(metadata.location).netloc == urlsplit(file.endpoint).netloc
    token = file.token if is_same_host else None  # the content may lie on another server, which gets no token
    headers = build_hf_headers(token=token or False, library_name="scaleproof")
    # Unbuffered: what a full disk did not take must not be tried again by close().
    with part.open("r+b" if part.exists() else "wb", buffering=0) as out:
        bytes_here = out.seek(0, os.SEEK_END)
        if metadata.size is not None and bytes_here > metadata.size:  # these bytes are wrong: start again
            bytes_here = out.seek(0)
            out.truncate()
        with _writing_errors(part, metadata.size):
            http_get(
                metadata.location,
                out,
                resume_size=bytes_here,
                headers=headers | {"Accept-Encoding": "identity"},
                expected_size=metadata.size,
                displayed_filename=file.name,
            )


@contextmanager
def _writing_errors(part: Path, stated_size: int | None) -> Iterator[None]:
    """Turn errors of writing `part` into UserError (a full disk) or Denied (a wrong length, whose file is removed)."""
    try:
        yield
    except (HfHubHTTPError, OfflineModeIsEnabled):  # subclasses of OSError, but no errors of writing
        raise
    except OSError as error:
        if error.errno in DISK_FULL:
            raise full_disk_error(part) from None
        if error.errno is not None:
            raise
        # Only the library itself raises an OSError without a number: another length came than was stated.
        size = part.stat().st_size
        part.unlink()
        raise Denied(f"{size:,} bytes came, {stated_size:,} were stated") from None


def _refusal_reason(error: HfHubHTTPError, file: HubFile) -> str:
    """Return in words why the hub refused `file` with this error."""
    if advice := _access_advice(error, file):
        return advice
    if isinstance(error, RevisionNotFoundError):
        return f"the repository has no revision {file.revision}"
    code = error.response.status_code
    return f"no such file there (HTTP {code})" if code in (404, 410) else f"HTTP {code}"


def _access_advice(error: HfHubHTTPError, source: "HubFile | HubDataset") -> str | None:
    """Return what to do where the hub denied access to `source`. Returns None for other errors."""
    code = error.response.status_code
    if code not in (401, 403):
        return None
    denial = f"access denied (HTTP {code})"
    page = f"{source.endpoint}/datasets/{source.repository}"
    if not source.gated:
        return f"{denial}; is it gated (`gated: true`), private, or spelled otherwise?"
    if source.token:
        return f"{denial}; the owner of the token in HF_TOKEN must accept the terms at {page} first"
    return f"{denial}; accept the terms at {page}, make a token there, and `export HF_TOKEN=...`"


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
        """The name of the data set on the hub: owner/name."""
        return self.corpus.load[0]

    def commit(self) -> str:
        """Return the commit that the corpus' revision names now. Raises UserError where the hub does not say."""
        api = hub_api(self.endpoint, self.token)
        try:
            return str(api.dataset_info(self.repository, revision=self.corpus.revision).sha)
        except HfHubHTTPError as error:
            raise self._refusal_error(self._refusal_reason(error)) from None
        except OfflineModeIsEnabled:
            raise self._refusal_error(f"HF_HUB_OFFLINE is set{NO_WAY}") from None
        except (httpx2.HTTPError, OSError) as error:
            raise self._refusal_error(lost_connection(error, self.endpoint) + NO_WAY) from None

    def documents(self, commit: str) -> Generator[Document, None, None]:
        """Yield text and label of each row at a commit, in order. Raises UserError where rows cannot be read."""
        try:
            yield from self._stream_documents(commit)
        except NotADocument as error:
            raise self._refusal_error(str(error)) from None
        except HfHubHTTPError as error:  # its text holds addresses with signatures
            raise self._refusal_error(self._refusal_reason(error)) from None
        except (httpx2.HTTPError, OSError, RuntimeError, ValueError) as error:
            first_line, *_ = str(error).strip().splitlines() or [type(error).__name__]
            without_query, *_ = first_line.partition("?")  # an address' query may hold a signature
            raise self._refusal_error(shortened(without_query, 300)) from None

    def _stream_documents(self, commit: str) -> Iterator[Document]:
        """Yield text and label of each row. Raises NotADocument for a faulty row, and the errors of `datasets`."""
        os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
        import datasets  # a second that only this source needs

        _, configuration, split = self.corpus.load
        rows = datasets.load_dataset(
            self.repository, configuration, split=split, revision=commit, streaming=True, token=self.token or False
        )
        with closing(iter(rows)) as stream:  # its threads, left open, may abort the interpreter's end
            for number, row in enumerate(stream, start=1):
                if fault := absent_field_text(list(row), self.corpus):
                    raise NotADocument(f"row {number} {fault}")
                fields = {name: row[name] for name in self.corpus.fields}
                yield document_of(f"row {number}", fields, self.corpus.label is not None)

    def check(self) -> str:
        """Read the first ROWS rows, and return a line about them. Raises UserError where none has text."""
        commit = self.commit()
        with closing(self.documents(commit)) as documents:
            texts = [text for text, _ in itertools.islice(documents, ROWS)]
        if not any(text.strip() for text in texts):
            raise self._refusal_error(f"its first {len(texts)} rows have no text")
        advice = "" if self.corpus.pinned else f"; {self.corpus.revision} is now {commit}: write it as `revision`"
        return f"{self.repository} at {commit[:12]}: the first {len(texts)} rows have text{advice}"

    def _refusal_reason(self, error: HfHubHTTPError) -> str:
        """Return in words why the hub refused the data set with this error."""
        advice = _access_advice(error, self)
        return advice or f"the hub has no such data set or revision (HTTP {error.response.status_code})"

    def _refusal_error(self, reason: str) -> UserError:
        """Return the error to raise where the corpus cannot be read, for a `reason` in words."""
        return UserError(f'config/corpora.yaml: corpus "{self.name}": {self.repository}: {reason}')
