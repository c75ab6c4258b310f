"""A name of the Hugging Face hub where the name of a corpus is expected: what to write instead."""

import re

from scaleproof.ground.campaign.text_encoding import PACKED

ADDRESS_OF_DATA_SET = re.compile(r"https?://[^/]+/datasets/")  # on the hub, before its name
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
# What names of local files end with.
OF_FILES = (".txt", ".md", ".json", ".jsonl", ".parquet", ".csv", ".yaml", ".yml", ".bin", ".pt", *PACKED)


def refuse_hub_name(name: object) -> object:
    """Return `name` as it is. Raises ValueError, with what to write instead, for a data set of the hub (owner/name)."""
    if lines := lines_of_hub_name(name):
        raise ValueError(lines)
    return name


def lines_of_hub_name(name: object) -> str | None:
    """Return what to write in place of the name of a data set of the hub. Returns None for any other name."""
    if isinstance(name, str):
        name = ADDRESS_OF_DATA_SET.sub("", name.rstrip("/"), count=1)
    if not isinstance(name, str) or not HUB_NAME.fullmatch(name) or name.endswith(OF_FILES):
        return None
    row = re.sub(r"[^a-z0-9._-]+", "-", name.partition("/")[2].lower()).strip("-._") or "my-dataset"
    return (
        f'"{name}" looks like a data set of the Hugging Face hub. Write into config/corpora.yaml\n'
        f"  {row}:\n"
        f"    source: dataset\n"
        f"    load: [{name}, default, train]  # owner/name, configuration, split\n"
        f"    revision: main                  # better a commit\n"
        f"    budget: 100 MB\n"
        f"    field: text                     # of a document; for classification also label: FIELD, its class\n"
        f"and in the campaign corpus: {row}. scaleproof corpus check {row} asks the hub"
    )
