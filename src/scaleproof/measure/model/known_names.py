"""Whether transformers has what a campaign names, read from its files: its networks take seconds to import."""

import ast
import importlib.util
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from scaleproof.ground.campaign.transformers_model import TransformersModel
from scaleproof.ground.errors import UserError, did_you_mean, shortened

# Its warnings are about texts, such as special tokens that are no entry; here samples are any tokens.
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
# An entry of its tables: ("llama", "LlamaForCausalLM"), ("gpt-sw3", "GPT2Config"), "gpt-sw3": "GPT2Config".
ENTRY = re.compile(r'"([\w.-]+)"[,:] "(\w+)"')
TABLES = {"language-modelling": "MODEL_FOR_CAUSAL_LM", "classification": "MODEL_FOR_SEQUENCE_CLASSIFICATION"}
HAS_STATE = "it mixes tokens by a state (state space, recurrence), whose arithmetic no formula here counts"
ENCODES = (
    'a language model must be causal; an encoder has task: classification, or "is_decoder": true in its config.json'
)


def model_fault(text: str) -> UserError:
    return UserError(f"workload.model: {text}", ("workload", "model"))


def check_names(model: TransformersModel, task: str) -> None:
    """Raise UserError where transformers has no model_type, network for `task` or name that `model` needs."""
    fault = _missing_name(model.file) if model.module else _missing_type(model, task)
    if fault:
        raise model_fault(fault)


def _missing_type(model: TransformersModel, task: str) -> str | None:
    """Return what to say where transformers has no configuration or no network of the type in a config.json."""
    description = model.description()["transformers"]
    assert isinstance(description, dict)
    model_type = str(description["model_type"])
    configs, networks = _tables(task)
    if not configs or not networks:  # a version with other files: transformers itself will say it
        return None
    if model_type not in configs:
        near = did_you_mean(model_type, configs)
        return f'{model.file}: transformers has no model_type "{shortened(model_type)}".{near}'
    if configs[model_type] not in {configs.get(name) for name in networks}:
        return f"{model.file}: transformers has no model of type {model_type} for {task}"
    name = model_type.replace("-", "_")
    code = _text(_models_folder() / name / f"modeling_{name}.py")
    reason = HAS_STATE if "_is_stateful = True" in code else None
    # Where its code has this warning, a network without that key is an encoder.
    if (
        task != "classification"
        and "as a standalone, add `is_decoder=True" in code
        and not description.get("is_decoder")
    ):
        reason = ENCODES
    return f"{model.file} ({model_type}) cannot be measured exactly: {reason}" if reason else None


def _missing_name(path: Path) -> str | None:
    """Return what to say where a Python file imports a name that transformers does not have, or uses one of it."""
    try:
        tree = ast.parse(path.read_bytes())
    except SyntaxError as error:
        return f"{path}, line {error.lineno}: no network can be built: SyntaxError: {error.msg}"
    except ValueError:
        return None  # running it will say what is wrong
    imports = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    for line, name in _names_used(tree, has_library="transformers" in imports):
        import transformers

        folder = Path(transformers.__file__).parent
        if not name.startswith("_") and name not in dir(transformers) and not any(folder.glob(f"{name}*")):
            near = did_you_mean(name, dir(transformers))
            return f"{path}, line {line}: transformers {transformers.__version__} has no {shortened(name)}.{near}"
    return None


def _names_used(node: ast.AST, has_library: bool) -> Iterator[tuple[int, str]]:
    """Yield line and name of all that is imported from transformers, and, if the file `has_library`, of its attributes.

    What a file tries, or does on a condition, is its own answer to what is missing.
    """
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Try() | ast.If() | ast.IfExp():
                continue
            case ast.ImportFrom(module="transformers", level=0, names=names):
                yield from ((child.lineno, alias.name) for alias in names if alias.name != "*")
            case ast.Attribute(value=ast.Name(id="transformers"), attr=name) if has_library:
                yield child.lineno, name
        yield from _names_used(child, has_library)


@cache
def _tables(task: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return model_type -> class of the configurations of transformers, and of its networks for `task`."""
    folder = _models_folder() / "auto"
    configs: dict[str, str] = {}
    for name in ("auto_mappings.py", "configuration_auto.py"):
        configs |= {key: value for key, value in ENTRY.findall(_text(folder / name)) if value.endswith("Config")}
    table = re.search(
        rf"^{TABLES[task]}_MAPPING_NAMES = OrderedDict\((.*?)^\)",
        _text(folder / "modeling_auto.py"),
        re.MULTILINE | re.DOTALL,
    )
    return configs, dict(ENTRY.findall(table[1])) if table else {}


def _models_folder() -> Path:
    """Return the folder in which transformers has one folder for each type of model."""
    spec = importlib.util.find_spec("transformers")
    return Path(spec.origin or "").parent / "models" if spec else Path()


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""
