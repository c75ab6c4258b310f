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
from scaleproof.auditor.read.words import describe

OUTPUT_KEY = re.compile(
    r"(?i)(?:output|save|log|results?|checkpoint|exp(?:eriment)?|run|logging|metrics)_?(?:dir|path|folder|root|file)$|"
    r"^(?:output|o|out)$"
)
# What is no field of a run, and says how many devices it had: key -> name, and kinds of headings with this name.
KEYS = {"num_machines": "nodes", "num_nodes": "nodes", "nproc_per_node": "devices_per_node"}
KINDS = ("batch", "nodes", "devices_per_node")
WORDS = words_of("Accelerate")
SLURM_DIRECTIVE = re.compile(r"#SBATCH\s+--?([\w-]+)(?:[ =]+(\S+))?")
GPUS = re.compile(r"(?:gpu:)?(?:[a-zA-Z]\w*:)?(\d{1,3})$")
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # both build plain values only
# Names of folders that every project has.
COMMON_FOLDERS = {"logs", "log", "results", "output", "outputs", "runs", "out", "checkpoints", "experiments"}
MOST_KEYS, MOST_WORDS = 500, 400
MOST_LEVELS = 7


@dataclass(slots=True)
class ConfigurationFile:
    """What one file says."""

    path: Path
    name: str
    facts: list[ContextFact] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)  # where its run writes, as far as it says

    def add(self, field_name: str, value: Any, line: int | None) -> None:
        """Note a fact, unless there is no value or the field has one."""
        if value is not None and all(fact.field != field_name for fact in self.facts):
            self.facts.append(ContextFact(field_name, value, self.name, line))


def attach_configurations(reading: Reading) -> None:
    """Give runs the facts of configurations that name their folder, else of the only one there, else of their name."""
    if not reading.evidence.runs:
        return
    read = (_read(path, name, text) for path, name, text in reading.configurations)
    configurations = [configuration for configuration in read if configuration and configuration.facts]
    reading.evidence.configurations = [configuration.name for configuration in configurations]
    index = _Index(configurations)
    for run in reading.evidence.runs:
        for configuration in index.with_output_of(run) or index.in_folder_of(run) or index.with_name_of(run):
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

    def with_output_of(self, run: ReportedRun) -> list[ConfigurationFile]:
        """Return the configurations whose output folder is the run's: of the same last names, or the same place."""
        folder = PurePosixPath(run.files[0]).parent
        keys = (folder.parts[-2:], folder.name, os.path.normpath(run.details.get("folder", "")))
        by_id = {id(configuration): configuration for key in keys for configuration in self._by_output.get(key, ())}
        return sorted(by_id.values(), key=lambda configuration: self._order[id(configuration)])

    def in_folder_of(self, run: ReportedRun) -> list[ConfigurationFile]:
        """Return the configurations in the run's folder. [] where two have one suffix: it may have used either."""
        neighbours = self._by_folder.get(str(Path(run.details.get("folder", ""))), [])
        suffixes = {file.path.suffix for file in neighbours}
        return neighbours if len(suffixes) == len(neighbours) else []

    def with_name_of(self, run: ReportedRun) -> list[ConfigurationFile]:
        """Return the configuration whose name is the run's, or that of its folder. [] where several are."""
        file = Path(run.files[0])
        names = {file.stem.lower(), file.parent.name.lower(), run.name.lower()}
        named = [configuration for name in names for configuration in self._by_name.get(name, ())]
        return named if len(named) == 1 else []


def _output_keys(configuration: ConfigurationFile) -> Iterator[str | tuple[str, ...]]:
    """Yield what the output folders of a configuration go by: "runs/a" -> ("runs", "a"), "a", and its full path."""
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
    """Read a configuration by its suffix. None for a template, or a file of another language."""
    configuration = ConfigurationFile(path, name)
    suffix = path.suffix.lower()
    try:
        if suffix in SCRIPTS:
            _read_script(configuration, text)
        elif suffix == ".toml":
            _read_mapping(configuration, tomllib.loads(text), text)
        elif suffix in (".yaml", ".yml"):
            _read_mapping(configuration, yaml.load(text, Loader=LOADER), text)
        elif suffix == ".json":
            _read_mapping(configuration, json.loads(text), text)
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, AttributeError):
        return None
    return configuration


def _read_mapping(configuration: ConfigurationFile, data: Any, text: str) -> None:
    """Note the facts and output folders of a nested mapping. `text`: its file, to find the lines of keys."""
    if not isinstance(data, dict):
        return
    _read_deepspeed(configuration, data, text)
    for keys, value in _leaves(data, ()):
        key = keys[-1] if keys[-1] != "value" or len(keys) < 2 else keys[-2]  # W&B's config.yaml
        line = _line_of(text, key)
        if isinstance(value, str) and OUTPUT_KEY.search(key):
            configuration.outputs.append(value)
        else:
            _add_value(configuration, key, value, line)


def _leaves(data: dict[Any, Any], above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the values in nested mappings with their keys: {"model": {"layers": 12}} -> (("model", "layers"), 12)."""
    if len(above) == MOST_LEVELS:
        return
    for key, value in islice(data.items(), MOST_KEYS):
        keys = (*above, str(key))
        if isinstance(value, dict):
            yield from _leaves(value, keys)
        elif isinstance(value, str | int | float):
            yield keys, value


def _add_value(configuration: ConfigurationFile, key: str, value: Any, line: int | None) -> None:
    """Note a known key with its number or word: "seq_len", 2048. Other keys and values are passed over."""
    kind = column_of(key).kind or ""
    name = KEYS.get(key) or WORDS.get(key) or OF_KIND.get(kind) or (kind if kind in KINDS else None)
    if name is None or isinstance(value, bool):
        return
    if name in FIELDS and not FIELDS[name].whole:
        if isinstance(value, str) and value and len(value) < 100:
            has_usual_names = name in ("precision", "strategy")  # "bfloat16" is bf16
            configuration.add(name, describe(value).words.get(name) if has_usual_names else value, line)
        return
    number = int(value) if isinstance(value, str) and value.isdigit() else value
    if (isinstance(number, int) and 0 < number < 10**12) or (number == 0 and name == "zero_stage"):
        configuration.add(name, number, line)


def _read_deepspeed(configuration: ConfigurationFile, data: dict[str, Any], text: str) -> None:
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
    """Return the number of the first line with a key. None where it is not there."""
    m = re.search(rf"(?m)^[^\n]*\b{re.escape(key)}\b", text)
    return text.count("\n", 0, m.start()) + 1 if m else None


def _read_script(configuration: ConfigurationFile, text: str) -> None:
    """Note what a batch script states: the directives of Slurm, then the commands that start the ranks."""
    requested: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if m := SLURM_DIRECTIVE.match(line.strip()):
            _read_directive(configuration, requested, m[1], m[2] or "", number)

    joined = re.sub(r"\\\n", " ", text)  # commands of several lines
    for m in LAUNCH.finditer(joined):
        command = m[0]
        start = text.find(command[:20])
        line_number = text.count("\n", 0, start) + 1 if start >= 0 else None
        nodes, per_node = NODES.search(command), PROCESSES_PER_NODE.search(command)
        if per_node:
            number_of_nodes = int(nodes[1]) if nodes else requested.get("nodes", 1)
            configuration.add("world_size", int(per_node[1]) * number_of_nodes, line_number)
        elif "tasks" in requested and command.startswith("srun"):
            configuration.add("world_size", requested["tasks"] * requested.get("nodes", 1), line_number)
        _read_options(configuration, command, line_number)


def _read_directive(
    configuration: ConfigurationFile, requested: dict[str, int], name: str, value: str, line: int
) -> None:
    """Note one directive of Slurm, `#SBATCH --name=value`. Nodes and tasks a node go to `requested`, too."""
    if name in ("nodes", "N") and value.isdigit():
        requested["nodes"] = int(value)
        configuration.add("nodes", int(value), line)
    elif name == "ntasks-per-node" and value.isdigit():
        requested["tasks"] = int(value)
    elif name in ("gres", "gpus-per-node", "gpus") and (m := GPUS.search(value)):
        configuration.add("devices_per_node", int(m[1]), line)
    elif name in ("output", "o") and value:
        configuration.outputs.append(str(PurePosixPath(value).parent))


def _read_options(configuration: ConfigurationFile, command: str, line: int | None) -> None:
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
        if OUTPUT_KEY.search(key.replace("-", "_")):
            configuration.outputs.append(value)
        elif not PROCESSES_PER_NODE.match(f"--{key} 1") and not NODES.match(f"--{key} 1"):
            _add_value(configuration, key.replace("-", "_"), value, line)
