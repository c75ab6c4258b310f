"""Documents to flat token files: train.bin, val.bin and tokens.json."""

import hashlib
import json
import multiprocessing
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from scaleproof.ground.cores import available_cores
from scaleproof.ground.errors import UserError
from scaleproof.ground.files import sha256_of, whole_file, write_json
from scaleproof.ground.progress import show_progress
from scaleproof.ground.records.corpus_files import read_corpus_record
from scaleproof.measure.corpus import encode, tokenizer
from scaleproof.measure.corpus.encode import SPLITS, Shard
from scaleproof.measure.corpus.labels import write_labels

FEW_GROUPS = 8  # row groups; up to so many are not worth starting processes for
LARGEST_SHARD = 16  # row groups
COPY_BYTES = 1 << 22  # bytes in memory while shards are joined


def tokenise_corpus(corpus_dir: Path, tokenizer_file: Path, out: Path, processes: int | None = None) -> dict[str, Any]:
    """Encode `corpus_dir`/documents.parquet into `out`/{train,val}.bin, and describe them in `out`/tokens.json.

    Returns the description. The files are flat little-endian token ids, uint16 for up to 65,536 entries, uint32 above;
    end-of-text follows each document. The next call continues one that was killed. Raises UserError where the corpus
    cannot be split, and where a process is killed.
    """
    corpus_record: dict[str, Any] = dict(read_corpus_record(corpus_dir))
    encoding = tokenizer.load_encoder(tokenizer_file)
    dtype = np.dtype("<u2" if encoding.n_vocab <= 1 << 16 else "<u4")
    store = corpus_dir / "documents.parquet"
    folder = out / "shards"
    tokenizer_sha256 = sha256_of(tokenizer_file)
    code = hashlib.sha256(Path(encode.__file__).read_bytes() + Path(tokenizer.__file__).read_bytes()).hexdigest()
    documents = corpus_record["documents"]
    fraction = corpus_record["validation_fraction"]
    check_documents(f'corpus "{corpus_record["corpus"]}"', documents, fraction)
    held_out = held_out_of(documents, fraction)
    shards = list(_cut_into_shards(encode.count_documents_by_group(store), held_out))
    key = {  # what the content of the shards depends on
        "corpus": corpus_record["sha256"],
        "tokenizer": tokenizer_sha256,
        "split": fraction,
        "shards": len(shards),
        "code": code,
    }
    _prepare_folder(folder, key)
    encode_shard = partial(encode.encode_shard, store, tokenizer_file, dtype, folder)
    _encode_unfinished(encode_shard, shards, folder, processes)

    description = {
        **{name: corpus_record[name] for name in ("corpus", "source", "revision", "licence", "replaced_characters")},
        "corpus_sha256": corpus_record["sha256"],
        "tokenizer": encoding.name,
        "tokenizer_sha256": tokenizer_sha256,
        "vocab_size": encoding.n_vocab,
        "end_of_text": encoding.n_vocab - 1,
        "dtype": dtype.name,
        **{split: _join_shards(shards, split, folder, out, dtype) for split in SPLITS},
    }
    classes = corpus_record.get("classes", [])
    for split, labels in write_labels(store, classes, held_out, out).items():
        description |= {"classes": classes, split: description[split] | {"labels": labels}}
    tokens = sum(description[split]["tokens"] for split in SPLITS)
    description["bytes_per_token"] = round(corpus_record["bytes"] / tokens, 4)
    write_json(out / "tokens.json", description)
    shutil.rmtree(folder)
    return description


def held_out_of(documents: int, fraction: float) -> np.ndarray:
    """Return the boolean mask of the documents of the validation split, chosen at random.

    The choice depends on the number of documents alone.
    """
    is_held_out = np.zeros(documents, dtype=bool)
    count = max(1, round(fraction * documents))
    order = np.random.RandomState(0).permutation(documents)  # numpy never changes the stream of RandomState
    is_held_out[order[:count]] = True
    return is_held_out


def check_documents(corpus: str, documents: int, fraction: float, document: str = "file") -> None:
    """Raise UserError where a corpus has too few documents for a training and a validation split.

    `corpus`: its name or files, for the message. `fraction`: of them for validation. `document`: what one is in a text.
    """
    if documents < 2:
        hint = "; of a text file, paragraphs or lines can be documents (`document: paragraph`)"
        raise UserError(
            f"config/corpora.yaml: {corpus} has one document, which cannot be split into train and "
            f"validation{hint if document == 'file' else ''}"
        )
    if round(fraction * documents) >= documents:
        fault = f"validation_fraction {fraction} of {documents} documents leaves none to train with"
        raise UserError(f"config/corpora.yaml: {corpus}: {fault}")


def _cut_into_shards(documents: list[int], held_out: np.ndarray) -> Iterator[Shard]:
    """Yield all row groups in shards: many enough for all cores to end together, but few files.

    `documents`: the number of documents of each row group. `held_out`: for each document, whether it is for validation.
    """
    groups_per_shard = max(1, min(LARGEST_SHARD, len(documents) // 32))  # 32 shards or more, if there are such groups
    first_document = 0  # number of the shard's first document
    for number, first_group in enumerate(range(0, len(documents), groups_per_shard)):
        groups = range(first_group, min(first_group + groups_per_shard, len(documents)))
        count = sum(documents[group] for group in groups)
        yield Shard(number, groups, held_out[first_document : first_document + count])
        first_document += count


def _prepare_folder(folder: Path, key: dict[str, Any]) -> None:
    """Make `folder` for shards of the inputs that `key` describes, without any shards of other inputs."""
    path = folder / "key.json"
    key_text = json.dumps(key)
    has_same_inputs = path.exists() and path.read_text() == key_text
    if folder.exists() and not has_same_inputs:
        # Renamed before it is removed: worker processes of a killed call may still be writing into it.
        old_folder = folder.with_name(f"{folder.name}-before")
        shutil.rmtree(old_folder, ignore_errors=True)
        folder.rename(old_folder)
        shutil.rmtree(old_folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(key_text)


def _is_finished(shard: Shard, folder: Path) -> bool:
    """Return whether the shard was encoded by an earlier call, and its files are intact."""
    path = shard.file(folder, "json")
    if not path.exists():
        return False
    description = json.loads(path.read_text())
    return all(sha256_of(shard.file(folder, split)) == description[split]["sha256"] for split in SPLITS)


def _encode_unfinished(encode_shard: partial, shards: list[Shard], folder: Path, processes: int | None) -> None:
    """Encode the shards that no earlier call has encoded into `folder`, by `processes` at most, with a progress bar."""
    unfinished = [shard for shard in shards if not _is_finished(shard, folder)]
    if len(unfinished) < len(shards):
        print(f"tokenise: {len(shards) - len(unfinished)} of {len(shards)} shards are there already", file=sys.stderr)
    n_groups = sum(len(shard.groups) for shard in unfinished)
    for _ in show_progress(_encode_groups(encode_shard, unfinished, processes), n_groups, "tokenise", "groups"):
        pass  # going through the groups encodes them


def _encode_groups(encode_shard: partial, shards: list[Shard], processes: int | None) -> Iterator[None]:
    """Encode the shards, in any order, and yield None for each row group that is done, for a progress bar.

    `encode_shard` encodes a shard and returns the number of its row groups. `processes`: the most processes to use,
    None for one a core. Raises UserError where a process is killed.
    """
    cores = available_cores()
    workers = min(processes or cores, cores, len(shards))
    if workers < 2 or sum(len(shard.groups) for shard in shards) <= FEW_GROUPS:
        for shard in shards:
            yield from [None] * encode_shard(shard)
        return
    # fork, where it is safe, spares each process its imports: a tenth of the time that 50 MB take
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")

    with ProcessPoolExecutor(workers, context, initializer=encode.end_with_parent) as pool:
        futures = [pool.submit(encode_shard, shard) for shard in shards]
        try:
            for future in as_completed(futures):
                yield from [None] * future.result()
        except BrokenProcessPool:
            raise UserError(
                "a tokenising process was killed (for its memory, perhaps: use fewer --processes); finished shards "
                "are kept, and the next run goes on with the others"
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


def _join_shards(shards: list[Shard], split: str, folder: Path, out: Path, dtype: np.dtype) -> dict[str, Any]:
    """Join the shards of a split to `out`/{split}.bin, and return its entry in tokens.json."""
    path = out / f"{split}.bin"
    digest = hashlib.sha256()
    documents = 0
    with whole_file(path) as part, part.open("wb") as file:
        for shard in shards:
            documents += json.loads(shard.file(folder, "json").read_text())[split]["documents"]
            with shard.file(folder, split).open("rb") as piece:
                while data := piece.read(COPY_BYTES):
                    file.write(data)
                    digest.update(data)
        size = file.tell()
    tokens = size // dtype.itemsize
    sha256 = digest.hexdigest()
    return {"file": path.name, "documents": documents, "tokens": tokens, "bytes": size, "sha256": sha256}
