"""The classes of a corpus' documents: from a column of its Parquet file to flat files beside the tokens."""

import hashlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from scaleproof.ground.errors import UserError, plural

COLUMN = "label"  # the column of documents.parquet with the class as the corpus names it
DTYPE = np.dtype("<u2")
MOST_CLASSES = 1000  # classes; more are no classes but another column
FEW_CLASSES = 20  # so many may be those of a small example, a document each


def order_classes(corpus: str, names: Collection[str], documents: int) -> list[str]:
    """Return the classes of a corpus in order: by value where all are whole numbers, else by name.

    A class' place is its number in label files. Raises UserError where there are fewer than two, over MOST_CLASSES, or
    more than FEW_CLASSES and than half of `documents`.
    """
    if not 2 <= len(names) <= MOST_CLASSES or len(names) > max(FEW_CLASSES, documents // 2):
        raise UserError(
            f'config/corpora.yaml: corpus "{corpus}" has {plural(len(names), "class", "classes")} (key: label); '
            f"2 to {MOST_CLASSES:,} can be told apart, with several of its {plural(documents, 'document')} each"
        )
    are_numbers = all(name.removeprefix("-").isdecimal() for name in names)
    return sorted(names, key=int if are_numbers else str)


def write_labels(store: Path, classes: list[str], held_out: np.ndarray, out: Path) -> dict[str, dict[str, Any]]:
    """Write `out`/{train,val}.labels, one uint16 per document in the order of the token files.

    `store`: the documents.parquet; `classes`: names in the order of their numbers; `held_out`: True for documents of
    the validation split. Returns split -> its file's entry in tokens.json. A corpus without classes has empty files and
    no entries.
    """
    number_of = {name: number for number, name in enumerate(classes)}
    column = pq.read_table(store, columns=[COLUMN])[COLUMN].to_pylist() if classes else []
    labels = np.array([number_of[name] for name in column], dtype=DTYPE)
    files = {}
    for split, is_in_split in (("train", ~held_out), ("val", held_out)):
        data = labels[is_in_split].tobytes() if classes else b""
        path = out / f"{split}.labels"
        path.write_bytes(data)
        files[split] = {"file": path.name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return files if classes else {}
