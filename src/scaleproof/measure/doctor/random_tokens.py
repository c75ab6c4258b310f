"""Token files of random numbers: what a measurement of the machine needs of a corpus, without one."""

import hashlib
import json
from pathlib import Path

import numpy as np


def write_random_tokens(folder: Path, vocab_size: int, train: int, val: int, tokenizer: str = "random") -> Path:
    """Write {train,val}.bin and tokens.json of random tokens into `folder`, and return `folder`.

    `train`, `val`: how many random tokens each split has. `tokenizer`: the name in tokens.json, which must be that of
    the campaign's tokenizer where runs are checked.
    """
    folder.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(1)

    splits = {}
    for split, count in (("train", train), ("val", val)):
        data = chance.integers(0, vocab_size, count, dtype=np.uint16).tobytes()
        (folder / f"{split}.bin").write_bytes(data)
        sha256 = hashlib.sha256(data).hexdigest()
        splits[split] = {"file": f"{split}.bin", "documents": 1, "tokens": count, "bytes": len(data), "sha256": sha256}

    description = {
        "corpus": "random-tokens",
        "source": "text",
        "revision": None,
        "licence": "none",
        "corpus_sha256": splits["train"]["sha256"],
        "replaced_characters": 0,
        "tokenizer": tokenizer,
        "tokenizer_sha256": "0" * 64,
        "vocab_size": vocab_size,
        "end_of_text": vocab_size - 1,
        "dtype": "uint16",
        "bytes_per_token": 1.0,
        **splits,
    }
    (folder / "tokens.json").write_text(json.dumps(description, indent=2) + "\n")
    return folder
