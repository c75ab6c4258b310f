"""50 MB of text to tokens: ours, the two usual recipes with `datasets.map`, and the batch encoder of `tokenizers`.

The recipes: nanoGPT's (tiktoken in `map`, then a memory map of all ids), and that of transformers' run_clm.py (a fast
tokenizer in a batched `map`, then blocks of 1,024 ids, from which it trains). All start from the same
documents.parquet with the same tokenizer, in a fresh process each, and use two processes or threads. The text is the
Python source of the installed packages. Needs `pip install -e .[bench]`.
"""

import json
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

from side_by_side import in_turn, quietly, ratios, show

from scaleproof.ground.campaign.corpora import Corpus
from scaleproof.measure.corpus import documents, encode, tokenizer

MEGABYTES = 50
ROUNDS = 5
WANTED = 2.0
OURS = """
import sys; from pathlib import Path
from scaleproof.measure.corpus.tokenise import tokenise_corpus
if __name__ == "__main__":
    root, out = Path(sys.argv[1]), Path(sys.argv[2])
    tokenise_corpus(root, root / "tokenizer.json", out, processes=2)
"""
NANOGPT = """
import sys, os; from pathlib import Path
root, out = Path(sys.argv[1]), Path(sys.argv[2])
os.environ["HF_HOME"] = str(out / "cache")  # nothing from an earlier round
import numpy as np, datasets
from scaleproof.measure.corpus import tokenizer
datasets.disable_progress_bars()
encoding = tokenizer.load_encoder(root / "tokenizer.json")
end = encoding.n_vocab - 1
def encode(row):
    ids = encoding.encode_ordinary(row["text"])
    ids.append(end)
    return {"ids": ids, "len": len(ids)}
if __name__ == "__main__":
    rows = datasets.load_dataset("parquet", data_files=str(root / "documents.parquet"), split="train")
    rows = rows.map(encode, remove_columns=["text"], num_proc=2)
    flat = np.memmap(out / "train.bin", dtype=np.uint16, mode="w+", shape=(int(np.sum(rows["len"], dtype=np.int64)),))
    place, shards = 0, 64
    for i in range(shards):
        batch = rows.shard(shards, i, contiguous=True).with_format("numpy")
        if len(batch):
            ids = np.concatenate(batch["ids"][:])
            flat[place : place + len(ids)] = ids
            place += len(ids)
    flat.flush()
"""
RUN_CLM = """
import sys, os; from itertools import chain; from pathlib import Path
root, out = Path(sys.argv[1]), Path(sys.argv[2])
os.environ["HF_HOME"] = str(out / "cache")
import datasets
from transformers import PreTrainedTokenizerFast
datasets.disable_progress_bars()
tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(root / "hf.json"))
def encode(rows):
    return tokenizer(rows["text"])
def group(rows):
    joined = {k: list(chain(*rows[k])) for k in rows}
    whole = len(joined["input_ids"]) // 1024 * 1024
    blocks = {k: [v[i : i + 1024] for i in range(0, whole, 1024)] for k, v in joined.items()}
    return blocks | {"labels": blocks["input_ids"].copy()}
if __name__ == "__main__":
    rows = datasets.load_dataset("parquet", data_files=str(root / "documents.parquet"), split="train")
    rows = rows.map(encode, batched=True, num_proc=2, remove_columns=["text"])
    rows.map(group, batched=True, num_proc=2)
"""
BATCH_ENCODER = """
import sys, json; from pathlib import Path
import numpy as np, pyarrow.parquet as pq
from tokenizers import Tokenizer
root, out = Path(sys.argv[1]), Path(sys.argv[2])
encoder = Tokenizer.from_file(str(root / "hf.json"))
end = np.array([encoder.get_vocab_size()], dtype=np.uint16)
with open(out / "train.bin", "wb") as file:
    for batch in pq.ParquetFile(root / "documents.parquet").iter_batches(1000):
        for encoding in encoder.encode_batch_fast(batch.column("text").to_pylist(), add_special_tokens=False):
            file.write(np.array(encoding.ids, dtype=np.uint16).tobytes() + end.tobytes())
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        prepare(root)
        sides = {"ours": OURS, "nanoGPT": NANOGPT, "run_clm": RUN_CLM, "tokenizers": BATCH_ENCODER}
        for name, text in sides.items():
            (root / f"side-{name}.py").write_text(text)
        seconds = in_turn({name: lambda name=name: run(root, name) for name in sides}, ROUNDS)
        others = [name for name in sides if name != "ours"]
        faster = [show(f"{other} / ours", ratios(seconds[other], seconds["ours"])) for other in others]
    return 0 if min(faster) >= WANTED else 1


def prepare(root: Path) -> None:
    """documents.parquet, and one tokenizer in the formats of both libraries."""
    picked, size = [], 0
    for path in sorted(Path(sysconfig.get_path("purelib")).rglob("*.py")):
        text = path.read_text(errors="ignore")
        if text.strip():
            picked.append({"text": text})
            size += len(text)
        if size >= MEGABYTES * 1e6:
            break
    (root / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in picked))
    corpus = documents.gather_documents("bench", Corpus(source="jsonl", files=[str(root / "in.jsonl")]), root)
    print(f"{corpus['documents']:,} documents, {corpus['bytes'] / 1e6:.1f} MB")
    tokenizer.train_tokenizer("bpe-8192", encode.read_documents(root / "documents.parquet"), root / "tokenizer.json")
    write_for_tokenizers(root)


def write_for_tokenizers(root: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=8191, initial_alphabet=alphabet, min_frequency=2, show_progress=False)
    learner.train_from_iterator(encode.read_documents(root / "documents.parquet"), trainer)
    learner.save(str(root / "hf.json"))


def run(root: Path, name: str) -> float:
    with tempfile.TemporaryDirectory() as out:
        began = time.perf_counter()
        quietly([sys.executable, root / f"side-{name}.py", root, out])
        return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
