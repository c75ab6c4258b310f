"""The token files themselves, held against tokens.json before a run is made from them."""

from pathlib import Path

from scaleproof.ground.errors import UserError
from scaleproof.ground.files import sha256_of
from scaleproof.ground.records.corpus_files import TOKENS, read_tokens
from scaleproof.ground.snakemake_command import snakemake_command

MOST_HASHED = 256 << 20  # bytes of a file: a larger one takes longer than 0.2 s, and its size alone is compared


def check_token_files(folder: Path) -> None:
    """Raise UserError where a token file in `folder` is not the one that tokens.json describes: by size, by sha256.

    What is missing is left to its readers.
    """
    if not (folder / TOKENS).is_file():
        return
    tokens = read_tokens(folder)  # compares the sizes
    splits = [tokens["train"], *([tokens["val"]] if "val" in tokens else [])]
    for file in (*splits, *(split["labels"] for split in splits if "labels" in split)):
        path = folder / file["file"]
        if "sha256" not in file or file["bytes"] > MOST_HASHED or not path.is_file():
            continue
        if sha256_of(path) != file["sha256"]:
            again = f"rm {path} && {snakemake_command(path)}"
            raise UserError(f"{path} was changed: {TOKENS} has another sha256. Tokenise the corpus again: {again}")
