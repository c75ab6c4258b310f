"""The fields of a run that many formats state, and the words that they have for them."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RunField:
    """How files write one field of `ReportedRun`."""

    kinds: tuple[str, ...] = ()  # of headings and keys, as `headings` understands them
    words: dict[str, tuple[str, ...]] = field(default_factory=dict)  # program -> its arguments or keys
    in_names: tuple[str, ...] = ()  # patterns in the name of a run, each with one number
    whole: bool = True  # a whole number; else words, or a figure
    claimed: bool = True  # a claims file may say it
    of_file: bool = False  # all runs of a log have it that do not say otherwise


FIELDS = {
    "world_size": RunField(
        kinds=("devices", "processes"),
        words={"Megatron": ("world_size", "num_gpus"), "Accelerate": ("num_processes",)},
        in_names=(r"gpus?_?(\d+)", r"(?!\d0[5-9]0_)(\d+)_?x?_?gpus?", r"(?:world|ws|np)_?(\d+)"),
        of_file=True,
    ),
    "micro_batch": RunField(
        kinds=("micro_batch",),
        words={"Megatron": ("micro_batch_size", "train_micro_batch_size_per_gpu")},
        in_names=(r"(?:bs|mb|mbs)_?(\d+)",),
        of_file=True,
    ),
    "accumulation": RunField(kinds=("accumulation",), of_file=True),
    "global_batch": RunField(
        kinds=("global_batch",), words={"Megatron": ("global_batch_size", "train_batch_size")}, of_file=True
    ),
    "seq_len": RunField(
        kinds=("seq_len",), words={"Megatron": ("seq_length",)}, in_names=(r"(?:sl|seq|seqlen)_?(\d+)",), of_file=True
    ),
    "strategy": RunField(kinds=("strategy",), whole=False, of_file=True),
    "engine": RunField(whole=False),
    "precision": RunField(kinds=("precision",), words={"Accelerate": ("mixed_precision",)}, whole=False, of_file=True),
    "zero_stage": RunField(kinds=("zero_stage",), in_names=(r"(?:zs|zero|zero_stage_?|stage_?)(\d)",), of_file=True),
    "device": RunField(whole=False, of_file=True),
    "commit": RunField(whole=False),
    "launcher": RunField(whole=False),
    "dataset": RunField(kinds=("dataset",), whole=False),
    "dataset_samples": RunField(kinds=("samples",)),
    "model": RunField(kinds=("model",), whole=False),
    "epochs": RunField(kinds=("epochs",), claimed=False),
    "parameters": RunField(whole=False, claimed=False, of_file=True),
    "peak_flops": RunField(whole=False, claimed=False, of_file=True),
}
OF_KIND = {kind: name for name, entry in FIELDS.items() for kind in entry.kinds}
CLAIMED = tuple(name for name, entry in FIELDS.items() if entry.claimed)
OF_FILE = tuple(name for name, entry in FIELDS.items() if entry.of_file)


def words_of(program: str) -> dict[str, str]:
    """A program's arguments or keys -> fields."""
    return {word: name for name, entry in FIELDS.items() for word in entry.words.get(program, ())}
