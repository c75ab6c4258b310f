"""Reading samples from a flat token file."""

import json
from pathlib import Path

import numpy as np

from scalebench.errors import UserError


class TokenFile:
    """One split of a tokenised corpus, memory-mapped, cut into samples of seq_len predicted tokens."""

    def __init__(self, directory: Path, split: str, seq_len: int) -> None:
        """Open `directory`/{split}.bin as tokens.json describes it. Raises UserError where the two do not fit."""
        self.description = json.loads((directory / "tokens.json").read_text())
        part = self.description[split]
        path = directory / part["file"]
        size = path.stat().st_size if path.exists() else 0
        if size != part["bytes"]:
            raise UserError(
                f"{path} has {size:,} bytes, but tokens.json says {part['bytes']:,}: tokenise the corpus again"
            )
        self.tokens = np.memmap(path, dtype=self.description["dtype"], mode="r")
        self.seq_len = seq_len
        self.samples = max(0, (len(self.tokens) - 1) // seq_len)
        self._window = np.arange(seq_len + 1)

    def read(self, ids: np.ndarray) -> np.ndarray:
        """Tokens of some samples: int64 of shape (len(ids), seq_len + 1); a sample's last token is the next one's first."""
        return self.tokens[ids[:, None] * self.seq_len + self._window].astype(np.int64)
