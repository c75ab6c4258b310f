"""The fields of a run that many formats state, and their words for them, also in names and command lines."""

import math
import re
from dataclasses import dataclass
from typing import Any, TypeGuard

from scaleproof.auditor.read.reported import ReportedRun
from scaleproof.auditor.read.reported_tables import LARGEST


class Fields:
    """Reading access to a nested mapping. Missing values are None, and so are unusable ones, with a problem noted."""

    def __init__(self, data: Any, problems: list[str], where: str = "") -> None:
        self._data = data if isinstance(data, dict) else {}
        self._problems, self._where = problems, where
        if data is not None and not isinstance(data, dict):
            self._report(where or "the file", data, "a mapping")

    def _report(self, key: str, value: Any, expected: str) -> None:
        """Note the problem that a value is not what was `expected`, up to 20 of one file."""
        if len(self._problems) < 20:
            self._problems.append(f"{key} is {str(value)[:40]!r}, not {expected}")

    def part(self, key: str) -> "Fields":
        return Fields(self._data.get(key), self._problems, self._path(key))

    def parts(self, key: str) -> list["Fields"]:
        return [Fields(entry, self._problems, f"{self._path(key)}[{k}]") for k, entry in enumerate(self.values(key))]

    def values(self, key: str) -> list[Any]:
        """Return the entries of a list. [] where it is missing or no list."""
        entries = self._data.get(key)
        if entries is None:
            return []
        if not isinstance(entries, list):
            self._report(self._path(key), entries, "a list")
            return []
        return entries

    def number(self, key: str, at_least: float = -LARGEST) -> float | None:
        """Return a finite number of `at_least` or more. Returns None where it is missing or another value."""
        return self._numeric(self._path(key), self._data.get(key), at_least)

    def positive(self, key: str) -> float | None:
        """Return a finite number above zero. 0 is reported: nothing here takes no time or does no work."""
        value = self.number(key)
        if value is not None and value <= 0:
            self._report(self._path(key), value, "above zero")
            return None
        return value

    def count(self, key: str, at_least: int = 1) -> int | None:
        """Return a whole number (3.0 is one) of `at_least` or more."""
        value = self.number(key, at_least)
        if value is not None and value != int(value):
            self._report(self._path(key), value, "a whole number")
            return None
        return None if value is None else int(value)

    def numbers(self, key: str) -> list[float | None]:
        """Return the entries of a list of numbers, None for each that is none. Returns [] where there is no list."""
        return [self._numeric(f"{self._path(key)}[{k}]", entry, -LARGEST) for k, entry in enumerate(self.values(key))]

    def text(self, key: str) -> str | None:
        """Return a text that is not empty. A number or flag counts as the text that it is printed as: 2 -> "2"."""
        value = self._data.get(key)
        if value is None or isinstance(value, str):
            return value or None
        if isinstance(value, bool | int | float):
            return str(value)[:100]
        self._report(self._path(key), value, "a text")
        return None

    def flag(self, key: str) -> bool | None:
        """Return true or false. Returns None where it is missing or neither, which is noted as a problem."""
        value = self._data.get(key)
        if value is None or isinstance(value, bool):
            return value
        self._report(self._path(key), value, "true or false")
        return None

    def _path(self, key: str) -> str:
        return f"{self._where}.{key}" if self._where else key

    def _numeric(self, path: str, value: Any, at_least: float) -> float | None:
        """Return a finite number from `at_least` to LARGEST. None for anything else, with a problem noted."""
        if value is None:
            return None
        if not is_number(value):
            self._report(path, value, "a number")
        elif isinstance(value, float) and not math.isfinite(value):
            self._report(path, value, "finite")
        elif abs(value) > LARGEST or value < at_least:
            self._report(path, value, f"between {at_least:g} and {LARGEST:g}")
        else:
            return value
        return None


DECIMAL_COMMA = re.compile(r"[-+]?(?:\d{1,3}(?:\.\d{3})+,\d+|0,\d+|\d+,(?:\d{1,2}|\d{4,}))(?:e[-+]?\d+)?", re.I)


def figure(text: str | None) -> float | None:
    """Return the finite number that a text begins with: "1,234 tok/s" -> 1234, "5,00" -> 5. None without one."""
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        number, *_ = text.split() or [""]
        if DECIMAL_COMMA.fullmatch(number):
            number = number.replace(".", "").replace(",", ".")
        try:
            value = float(number.replace(",", ""))
        except ValueError:
            return None
    return value if -LARGEST < value < LARGEST else None


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether a value of a JSON file is a number. True and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def number_of(value: Any) -> float | None:
    """Return a value of a JSON file that is a finite number. None for all others, 1e999 among them."""
    return figure(str(value)) if is_number(value) else None


def not_finite(text: str) -> bool:
    """Whether a text is "nan" or "inf"."""
    try:
        return not math.isfinite(float(text))
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class RunField:
    """How files write one field of `ReportedRun`."""

    kinds: tuple[str, ...] = ()  # of headings and keys, as `headings` understands them
    words: tuple[str, ...] = ()  # arguments of Megatron-LM and its kin
    in_names: tuple[str, ...] = ()  # patterns in the name of a run, each with one number
    whole: bool = True  # the value is a whole number, else words or a figure
    claimed: bool = True  # a claims file may state the field
    of_file: bool = False  # the field holds for all runs of a log that do not say otherwise


FIELDS = {
    "world_size": RunField(
        kinds=("devices", "processes"),
        words=("world_size", "num_gpus"),
        in_names=(r"gpus?_?(\d+)", r"(?!\d0[5-9]0_)(\d+)_?x?_?gpus?", r"(?:world|ws|np)_?(\d+)"),
        of_file=True,
    ),
    "micro_batch": RunField(
        kinds=("micro_batch",),
        words=("micro_batch_size", "train_micro_batch_size_per_gpu"),
        in_names=(r"(?:bs|mb|mbs)_?(\d+)",),
        of_file=True,
    ),
    "accumulation": RunField(kinds=("accumulation",), of_file=True),
    "global_batch": RunField(kinds=("global_batch",), words=("global_batch_size", "train_batch_size"), of_file=True),
    "seq_len": RunField(
        kinds=("seq_len",), words=("seq_length",), in_names=(r"(?:sl|seq|seqlen)_?(\d+)",), of_file=True
    ),
    "strategy": RunField(kinds=("strategy",), whole=False, of_file=True),
    "engine": RunField(whole=False),
    "precision": RunField(kinds=("precision",), whole=False, of_file=True),
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


# `_`, `-`, `/` and `.` separate the parts of a name.
PRECISIONS = ("fp16", "bf16", "fp32", "tf32")
STRATEGIES = ("ddp", "fsdp", "dp")
BEFORE, AFTER = r"(?:^|[_\-/. #,])", r"(?=$|[_\-/. #,])"
SINGLE = re.compile(BEFORE + r"single_?-?(?:gpu|device)" + AFTER)
# `dp1_tp4_pp16`: sizes of a mesh, of which `dp` is no strategy of its own.
MESH = re.compile(BEFORE + r"(dp|tp|pp|cp)_?(\d{1,4})" + AFTER)


def complete_from_name(run: ReportedRun) -> None:
    """Fill fields that no file states from the name of a run, "ddp_4gpu_bf16"; metrics JSON says all by itself."""
    if run.format.startswith("metrics JSON"):
        return
    name = run.own_name.lower()
    for field_name, entry in FIELDS.items():
        if getattr(run, field_name) is None:
            least = 0 if field_name == "zero_stage" else 1  # there is a stage 0
            setattr(run, field_name, _number_in_name(name, entry.in_names, least))

    mesh = dict(MESH.findall(name))  # "dp2_tp4": replicas and the ranks that share each, not one strategy
    if run.world_size is None and SINGLE.search(name):
        run.world_size = 1
    if run.world_size is None and len(mesh) > 1 and "dp" in mesh:
        run.world_size = math.prod(int(size) for size in mesh.values()) or None
    if run.precision is None:
        run.precision = next((word for word in PRECISIONS if re.search(BEFORE + word + AFTER, name)), None)
    if run.strategy is None and len(mesh) < 2:
        run.strategy = next((word for word in STRATEGIES if re.search(BEFORE + word + r"\d*" + AFTER, name)), None)


def _number_in_name(name: str, patterns: tuple[str, ...], least: int) -> int | None:
    """Return the first number of `least` or more that a pattern finds in a name: 8 of "ddp_8gpus". Else None."""
    for pattern in patterns:
        m = re.search(BEFORE + pattern + AFTER, name)
        if m is not None and int(m[1][:9]) >= least:
            return int(m[1][:9])
    return None


# Program or option of a command line -> its name in reports.
DEBUGGING_ARGUMENTS = {
    r"(^|/)nsys$": "nsys",
    r"(^|/)ncu$": "ncu",
    r"^--profile$": "--profile",
    r"^--use-pytorch-profiler$": "--use-pytorch-profiler",
    r"^(-m)?cProfile$": "cProfile",
    r"^--?detect_anomaly$": "detect_anomaly",
    r"^NSYS=1$": "NSYS",
}
# Environment variable -> values that mean it is off.
DEBUGGING_VARIABLES = {
    "NCCL_DEBUG": ("", "WARN", "VERSION", "0"),
    "TORCH_DISTRIBUTED_DEBUG": ("", "OFF", "0"),
    "TORCH_CPP_LOG_LEVEL": ("", "ERROR", "WARNING"),
    **dict.fromkeys(("CUDA_LAUNCH_BLOCKING", "TORCH_NCCL_TRACE_BUFFER_SIZE", "NCCL_LOGS", "NSYS"), ("", "0")),
}


def debug_settings_of(arguments: list[str]) -> dict[str, str]:
    """Return the profilers and debugging aids that a command line starts, each "on"."""
    settings = {}
    for argument in arguments[:2000]:
        for pattern, name in DEBUGGING_ARGUMENTS.items():
            if re.search(pattern, argument):
                settings[name] = "on"
    return settings


def debug_settings_in(environment: dict[str, object]) -> dict[str, str]:
    """Return name -> value of the environment variables that switch debugging on: {"NCCL_DEBUG": "INFO"}."""
    return {
        name: str(value)[:40]
        for name, value in environment.items()
        if name in DEBUGGING_VARIABLES and str(value).upper() not in DEBUGGING_VARIABLES[name]
    }
