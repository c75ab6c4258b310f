"""Configurations beside runs: YAML, TOML, DeepSpeed's JSON, batch scripts and their command lines.

What they say goes to `ReportedRun.context` with its file and line. It is not copied to the run: a configuration says
what was meant.
"""

import json
import os
import re
import shlex
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from scaleproof.auditor.read.headings import column_of
from scaleproof.auditor.read.logs.base import LAUNCH, NODES, PROCESSES_PER_NODE
from scaleproof.auditor.read.reading import Reading
from scaleproof.auditor.read.reported import ContextFact, ReportedRun
from scaleproof.auditor.read.run_fields import FIELDS, OF_KIND, words_of
from scaleproof.auditor.read.walk import SCRIPTS
from scaleproof.auditor.read.words import described

OUTPUT = re.compile(
    r"(?i)(?:output|save|log|results?|checkpoint|exp(?:eriment)?|run|logging|metrics)_?(?:dir|path|folder|root|file)$|"
    r"^(?:output|o|out)$"
)
# What is no field of a run, and says how many devices it had: key -> name, and kinds of headings with this name.
KEYS = {"num_machines": "nodes", "num_nodes": "nodes", "nproc_per_node": "devices_per_node"}
KINDS = ("batch", "nodes", "devices_per_node")
WORDS = words_of("Accelerate")
DIRECTIVE = re.compile(r"#SBATCH\s+--?([\w-]+)(?:[ =]+(\S+))?")
GPUS = re.compile(r"(?:gpu:)?(?:[a-zA-Z]\w*:)?(\d{1,3})$")
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # both build plain values only
# Names of folders that every project has.
COMMON_FOLDERS = {"logs", "log", "results", "output", "outputs", "runs", "out", "checkpoints", "experiments"}
MOST_KEYS, MOST_WORDS = 500, 400
DEEPEST = 7


@dataclass(slots=True)
class ConfigurationFile:
    """What one file says."""

    path: Path
    name: str
    facts: list[ContextFact] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)  # where its run writes, as far as it says

    def add(self, field_name: str, value: Any, line: int | None) -> None:
        """Note a fact, unless there is no value or the field has one."""
        if value is not None and not any(f.field == field_name for f in self.facts):
            self.facts.append(ContextFact(field_name, value, self.name, line))


def attach_configurations(reading: Reading) -> None:
    """Give every run the configurations that are its own: those that name its folder, the only ones beside it, or the
    one that has its name.
    """
    if not reading.evidence.runs:
        return
    configurations = [c for path, name, text in reading.configurations if (c := _read(path, name, text)) and c.facts]
    reading.evidence.configurations = [c.name for c in configurations]
    index = _Index(configurations)
    for run in reading.evidence.runs:
        for configuration in index.of_folder(run) or index.beside(run) or index.of_name(run):
            run.context += configuration.facts


class _Index:
    """Configurations by what connects them with runs, so that no run is compared with each of them."""

    def __init__(self, configurations: list[ConfigurationFile]) -> None:
        self._by_output: dict[str | tuple[str, ...], list[ConfigurationFile]] = defaultdict(list)
        self._by_folder: dict[str, list[ConfigurationFile]] = defaultdict(list)
        self._by_name: dict[str, list[ConfigurationFile]] = defaultdict(list)
        self._order = {id(configuration): place for place, configuration in enumerate(configurations)}
        for configuration in configurations:
            for key in set(_output_keys(configuration)):
                self._by_output[key].append(configuration)
            folder = configuration.path.parent
            self._by_folder[str(folder.parent if folder.name in (".hydra", "files") else folder)].append(configuration)
            if folder.name in (".hydra", "files"):
                self._by_folder[str(folder)].append(configuration)
            if len(configuration.path.stem) > 5:
                self._by_name[configuration.path.stem.lower()].append(configuration)

    def of_folder(self, run: ReportedRun) -> list[ConfigurationFile]:
        """Configurations whose output folder is the run's: of the same last names, or the same place."""
        folder = PurePosixPath(run.files[0]).parent
        keys = (folder.parts[-2:], folder.name, os.path.normpath(run.details.get("folder", "")))
        named = {id(c): c for key in keys for c in self._by_output.get(key, ())}
        return sorted(named.values(), key=lambda c: self._order[id(c)])

    def beside(self, run: ReportedRun) -> list[ConfigurationFile]:
        """Configurations in the run's own folder; none where two have one suffix: which of them was used is unknown."""
        neighbours = self._by_folder.get(str(Path(run.details.get("folder", ""))), [])
        suffixes = {file.path.suffix for file in neighbours}
        return neighbours if len(suffixes) == len(neighbours) else []

    def of_name(self, run: ReportedRun) -> list[ConfigurationFile]:
        """The one configuration whose name is the run's, or that of its folder."""
        file = Path(run.files[0])
        names = {file.stem.lower(), file.parent.name.lower(), run.name.lower()}
        named = [c for name in names for c in self._by_name.get(name, ())]
        return named if len(named) == 1 else []


def _output_keys(configuration: ConfigurationFile) -> Iterator[str | tuple[str, ...]]:
    """Yield what runs in the output folders of a configuration may be found by: two last names, a rare one, a place."""
    for output in configuration.outputs:
        if "$" in output or "{" in output:
            continue
        parts = tuple(part for part in PurePosixPath(output).parts if part not in (".", "..", "/"))
        if len(parts) >= 2:
            yield parts[-2:]
        if parts and parts[-1].lower() not in COMMON_FOLDERS:
            yield parts[-1]
        yield os.path.normpath(configuration.path.parent / output)


def _read(path: Path, name: str, text: str) -> ConfigurationFile | None:
    """Read a configuration by its suffix; None for a template, or a file of another language."""
    configuration = ConfigurationFile(path, name)
    suffix = path.suffix.lower()
    try:
        if suffix in SCRIPTS:
            _script(configuration, text)
        elif suffix == ".toml":
            _mapping(configuration, tomllib.loads(text), text)
        elif suffix in (".yaml", ".yml"):
            _mapping(configuration, yaml.load(text, Loader=LOADER), text)
        elif suffix == ".json":
            _mapping(configuration, json.loads(text), text)
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, AttributeError):
        return None
    return configuration


def _mapping(configuration: ConfigurationFile, data: Any, text: str) -> None:
    """Note the facts and output folders of a nested mapping; `text` is its file, to find the lines of keys."""
    if not isinstance(data, dict):
        return
    _deepspeed(configuration, data, text)
    for keys, value in _leaves(data, ()):
        key = keys[-1] if keys[-1] != "value" or len(keys) < 2 else keys[-2]  # W&B's config.yaml
        line = _line_of(text, key)
        if isinstance(value, str) and OUTPUT.search(key):
            configuration.outputs.append(value)
        else:
            _take(configuration, key, value, line)


def _leaves(data: dict[Any, Any], above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield (keys from the outermost one on, value) of nested mappings, up to `MOST_KEYS` of each, `DEEPEST` levels."""
    if len(above) == DEEPEST:
        return
    for key, value in islice(data.items(), MOST_KEYS):
        keys = (*above, str(key))
        if isinstance(value, dict):
            yield from _leaves(value, keys)
        elif isinstance(value, str | int | float):
            yield keys, value


def _take(configuration: ConfigurationFile, key: str, value: Any, line: int | None) -> None:
    """Note a key that is understood, with a whole number or a word. Keys of anything else are passed over."""
    kind = column_of(key).kind or ""
    name = KEYS.get(key) or WORDS.get(key) or OF_KIND.get(kind) or (kind if kind in KINDS else None)
    if name is None or isinstance(value, bool):
        return
    if name in FIELDS and not FIELDS[name].whole:
        if isinstance(value, str) and value and len(value) < 100:
            normal = described(value).words.get(name) if name in ("precision", "strategy") else value
            configuration.add(name, normal, line)
        return
    number = int(value) if isinstance(value, str) and value.isdigit() else value
    if (isinstance(number, int) and 0 < number < 10**12) or (number == 0 and name == "zero_stage"):
        configuration.add(name, number, line)


def _deepspeed(configuration: ConfigurationFile, data: dict[str, Any], text: str) -> None:
    """Note what DeepSpeed's sections state: ZeRO's stage, offloading, precision, batch sizes."""
    zero = data.get("zero_optimization")
    if isinstance(zero, dict):
        if isinstance(zero.get("stage"), int):
            configuration.add("zero_stage", zero["stage"], _line_of(text, "stage"))
        offload = zero.get("offload_optimizer")
        if isinstance(offload, dict) and offload.get("device") not in (None, "none"):
            configuration.add("offload", str(offload["device"]), _line_of(text, "offload_optimizer"))
    for precision in ("fp16", "bf16"):
        block = data.get(precision)
        if isinstance(block, dict) and block.get("enabled") is True:
            configuration.add("precision", precision, _line_of(text, precision))
    if "zero_optimization" in data or "train_micro_batch_size_per_gpu" in data:
        for key, name in (("train_batch_size", "global_batch"), ("train_micro_batch_size_per_gpu", "micro_batch")):
            if isinstance(data.get(key), int):
                configuration.add(name, data[key], _line_of(text, key))


def _line_of(text: str, key: str) -> int | None:
    """Return the first line with a key, 1-based; None where it is not there."""
    m = re.search(rf"(?m)^[^\n]*\b{re.escape(key)}\b", text)
    return text.count("\n", 0, m.start()) + 1 if m else None


def _script(configuration: ConfigurationFile, text: str) -> None:
    """Note what a batch script states: the directives of Slurm, then the commands that start the ranks."""
    requested: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if m := DIRECTIVE.match(line.strip()):
            _directive(configuration, requested, m[1], m[2] or "", number)
    joined = re.sub(r"\\\n", " ", text)
    for m in LAUNCH.finditer(joined):
        at = text.find(m[0][:20])
        line_number = text.count("\n", 0, at) + 1 if at >= 0 else None
        nodes = NODES.search(m[0])
        each = PROCESSES_PER_NODE.search(m[0])
        count = int(nodes[1]) if nodes else requested.get("nodes", 1)
        if each:
            configuration.add("world_size", int(each[1]) * count, line_number)
        elif "tasks" in requested and m[0].startswith("srun"):
            configuration.add("world_size", requested["tasks"] * requested.get("nodes", 1), line_number)
        _arguments(configuration, m[0], line_number)


def _directive(configuration: ConfigurationFile, requested: dict[str, int], name: str, value: str, line: int) -> None:
    """Note one directive of Slurm (`#SBATCH --name=value`); nodes and tasks go to `requested`, too."""
    if name in ("nodes", "N") and value.isdigit():
        requested["nodes"] = int(value)
        configuration.add("nodes", int(value), line)
    elif name == "ntasks-per-node" and value.isdigit():
        requested["tasks"] = int(value)
    elif name in ("gres", "gpus-per-node", "gpus") and (m := GPUS.search(value)):
        configuration.add("devices_per_node", int(m[1]), line)
    elif name in ("output", "o") and value:
        configuration.outputs.append(str(PurePosixPath(value).parent))


def _arguments(configuration: ConfigurationFile, command: str, line: int | None) -> None:
    """Note the options of a command line: `--key value` or `--key=value`, without variables of the shell."""
    try:
        words = shlex.split(command, comments=True)[:MOST_WORDS]
    except ValueError:
        words = command.split()[:MOST_WORDS]
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if not word.startswith("--"):
            continue
        key, _, value = word[2:].partition("=")
        value = value or ("" if following.startswith("-") else following)
        if not value or "$" in value:
            continue
        if OUTPUT.search(key.replace("-", "_")):
            configuration.outputs.append(value)
        elif not PROCESSES_PER_NODE.match(f"--{key} 1") and not NODES.match(f"--{key} 1"):
            _take(configuration, key.replace("-", "_"), value, line)
