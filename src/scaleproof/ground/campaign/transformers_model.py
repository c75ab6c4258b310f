"""A model of `transformers` as a campaign names it. Imports neither torch nor transformers."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from pydantic import JsonValue, model_validator

from scaleproof.ground.campaign.field import Section, key
from scaleproof.ground.errors import UserError, describe_first_fault, did_you_mean, nearest_path, shortened
from scaleproof.ground.file_kinds import no_text_fault
from scaleproof.ground.json_faults import keys_given_twice
from scaleproof.ground.number_format import integer

FETCHED = Path("config/models")  # configurations that `scaleproof model fetch` has written
# Sizes, and the largest, as of models by shape (model_shapes.py).
SIZES = dict.fromkeys(("num_hidden_layers", "n_layer", "num_attention_heads", "n_head"), 10_000) | dict.fromkeys(
    ("hidden_size", "n_embd", "intermediate_size"), 10**7
)
CONTEXTS = ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "seq_length")
# Keys of a config.json that ask for arithmetic which no formula here counts, or which a strategy cannot follow.
REFUSED = {
    "auto_map": "its code is on the hub, not in transformers; use `module`",
    "quantization_config": "its weights are quantised",
    "final_logit_softcapping": "its logits are capped, which the loss here does not do",
    "attn_logit_softcapping": "its attention is capped, which no fused kernel does",
    "logit_scale": "its logits are scaled, which the loss here does not do",
    "logits_scaling": "its logits are scaled, which the loss here does not do",
}
# Models whose heads share the width equally. transformers says so, too, after seconds in which it imports torch.
HEADS_DIVIDE_WIDTH = ("bert", "falcon", "gpt_neox", "llama", "opt", "phi")
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")


class TransformersModel(Section):
    """A decoder or encoder of `transformers`, with random weights: of the hub, of a file, or of a function."""

    hub: str | None = key(
        None,
        "owner/name of a model on the Hugging Face hub; `scaleproof model fetch owner/name` fetches its config.json.",
        "none",
        pattern=r"^[\w.-]+/[\w.-]+$",
    )
    revision: str | None = key(None, "For hub: the commit, 40 digits.", "none", pattern=r"^[0-9a-f]{40}$")
    config: str | None = key(None, "A config.json of transformers, relative to the working folder.", "none")
    module: str | None = key(
        None,
        "`file.py:function`. The function gets vocab_size=<rows of the token table> and returns a model of "
        "transformers with a head for language modelling, without dropout.",
        "none",
        pattern=r"^[^:]+\.py:[A-Za-z_][A-Za-z0-9_]*$",
    )

    @model_validator(mode="after")
    def _check_one_source(self) -> "TransformersModel":
        """Check that one of hub, config and module names the model. Raises ValueError."""
        named = [name for name in ("hub", "config", "module") if getattr(self, name) is not None]
        if len(named) != 1:
            count = len(named)
            raise ValueError(f"a model of transformers is named by one of hub, config, module; not {count} of them")
        if self.hub and self.revision is None:
            advice = f"scaleproof model fetch {self.hub} prints it"
            raise ValueError(f"`revision` is missing: the commit, so that the model never changes; {advice}")
        if self.revision and not self.hub:
            raise ValueError("`revision` is for `hub`")
        return self

    @property
    def file(self) -> Path:
        """The file that describes the model: a config.json, or the Python file of `module`."""
        if self.hub:
            return fetched_config(self.hub, self.revision or "")
        return Path(self.config or str(self.module).partition(":")[0])

    def slug(self) -> str:
        """Return a name for folders and tables: of the hub's model, or of the file."""
        return self.hub.partition("/")[2] if self.hub else self.file.stem

    def description(self) -> dict[str, JsonValue]:
        """Return what is trained, in full: the content of the config.json, or the digest of the Python file.

        Raises UserError where the file is missing or describes a model that cannot be measured exactly.
        """
        if not self.file.is_file():
            raise UserError(self._missing_text(), ("workload", "model"))
        data = self.file.read_bytes()
        if fault := no_text_fault(data):
            raise UserError(f"workload.model: {self.file} {fault}", ("workload", "model"))
        if self.module:
            name = self.module.partition(":")[2]
            if name.encode() not in data and b"import *" not in data:  # by its text: an import of torch takes seconds
                defined = re.findall(r"^(?:def|class) (\w+)", data.decode(errors="replace"), re.MULTILINE)
                hint = did_you_mean(name, defined)
                if not hint and defined:
                    hint = f" Defined there: {shortened(', '.join(defined), 200)}"
                raise UserError(f'workload.model: {self.file} has no function "{name}".{hint}', ("workload", "model"))
            return {"function": name, "sha256": hashlib.sha256(data).hexdigest()}
        return {"transformers": _architecture(str(self.file), data)}

    def _missing_text(self) -> str:
        """Return what to say where the file is missing: how to fetch it, or the nearest one."""
        if self.hub:
            fetch = f"scaleproof model fetch {self.hub} --revision {self.revision}"
            return f"workload.model: the configuration of {self.hub} is not here yet; fetch it once (2 kB): {fetch}"
        if "://" in str(self.config):
            return f"workload.model: {self.config} is an address; download it, and give the file"
        if self.file.is_dir():
            in_it = f"{self.config}/config.json" if (self.file / "config.json").is_file() else "a file in it"
            return f"workload.model: {self.file} is a folder; give the name of {in_it}"
        beside = FETCHED.with_name("campaigns") / self.file
        hint = f' Did you mean "{beside}"?' if beside.is_file() else nearest_path(self.file)
        return f"workload.model: {self.file} is no file.{hint}"

    @property
    def context(self) -> int | None:
        """Tokens of the longest sample. It is None where the configuration does not say."""
        architecture = self.description().get("transformers")
        sizes = [architecture.get(name) for name in CONTEXTS] if isinstance(architecture, dict) else []
        return next((size for size in sizes if isinstance(size, int)), None)


def fetched_config(hub: str, revision: str) -> Path:
    """Return the path at which the configuration of a hub's model is kept."""
    return FETCHED / f"{hub.replace('/', '--')}@{revision[:12]}.json"


@lru_cache(maxsize=64)
def _architecture(path: str, data: bytes) -> dict[str, JsonValue]:
    """Return the content of the config.json at `path`, whose bytes are `data`.

    Raises UserError where it is not a config.json, or its model cannot be measured exactly.
    """
    place, key_ = f"workload.model: {path}", ("workload", "model")
    try:
        architecture = json.loads(data)
        twice = keys_given_twice(data)
    except (ValueError, RecursionError) as error:
        hint = "" if path.endswith(".json") else "; give the config.json of the model"
        if path.endswith(".py"):
            hint = "; a function that makes a model is {module: file.py:function}"
        raise UserError(f"{place}: {describe_first_fault(error)}{hint}", key_) from None
    if twice:
        raise UserError(f'{place}: the key "{twice[0]}" is given twice', key_)
    if not isinstance(architecture, dict) or not isinstance(architecture.get("model_type"), str):
        raise UserError(f'{place} is no configuration of transformers: it has no "model_type"', key_)
    for name, most in (SIZES | dict.fromkeys(CONTEXTS, 10**7)).items():
        size = architecture.get(name)
        if isinstance(size, str | float | bool) or (isinstance(size, int) and not 1 <= size <= most):
            text = shortened(json.dumps(size))
            allowed = f"a whole number from 1 to {integer(most)}"
            raise UserError(f"{place}: {name} cannot be {text}; allowed: {allowed}", key_)
    heads, groups = architecture.get("num_attention_heads"), architecture.get("num_key_value_heads")
    if isinstance(heads, int) and isinstance(groups, int) and (groups < 1 or heads % groups):
        raise UserError(f"{place}: num_attention_heads {heads} is not a multiple of num_key_value_heads {groups}", key_)
    width = architecture.get("hidden_size")
    divides = architecture["model_type"] in HEADS_DIVIDE_WIDTH and "head_dim" not in architecture
    if divides and isinstance(width, int) and isinstance(heads, int) and width % heads:
        raise UserError(f"{place}: hidden_size {width} is not a multiple of num_attention_heads {heads}", key_)
    for reason in reasons_not_measurable(architecture):
        raise UserError(f"{place} ({architecture['model_type']}) cannot be measured exactly: {reason}", key_)
    return architecture


def reasons_not_measurable(architecture: Mapping[str, JsonValue]) -> Iterator[str]:
    """Yield each reason why a model with this config.json cannot be measured exactly."""
    for name, reason in REFUSED.items():
        if architecture.get(name) not in (None, 1, 1.0, False):  # with these the key changes nothing
            yield f"{name}: {reason}"
    for name in EXPERTS:
        experts = architecture.get(name)
        if isinstance(experts, int) and experts > 1:
            yield f"{name} {experts}: how much arithmetic a token takes depends on where it is sent"
