"""A Snakemake profile's folder, as far as `scaleproof cluster check` needs to know what it says."""

import contextlib
import io
import itertools
import json
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from scaleproof.driver.cluster.site import OF_RESOURCES, Site, check_resource_names
from scaleproof.ground.campaign.validation_messages import dotted
from scaleproof.ground.campaign.yaml_loader import read_yaml
from scaleproof.ground.errors import UserError, did_you_mean, edit_distance, nearest_name, path_fault, shortened
from scaleproof.ground.records.grouping import lists_by_key
from scaleproof.ground.snakemake_command import SNAKEFILE

NAMES = ("profile.v9+.yaml", "config.v9+.yaml", "profile.yaml", "config.yaml")
WORDS_FOR_ALL = {"jobs": "unlimited", "cores": "all"}  # option -> the word that may stand in place of its number
NOT_ZERO = (*WORDS_FOR_ALL, "seconds-between-status-checks")  # 0 starts nothing, or asks without a pause
UNITS = {"mem_mb": "MB", "runtime": "minutes", "cpus_per_task": "cores", "nodes": "nodes", "tasks": "tasks"}
# Of a resource: a number, a time, or an expression of Snakemake's.
IS_AMOUNT = re.compile(r"(\d+ ?[smhdw] ?)*\d*|.*([(*+/]|attempt|input|threads).*")
RULE = re.compile(r"^rule (\w+):", re.MULTILINE)
EXECUTORS = ("scaleproof", "slurm", "local", "cluster-generic")
# Rules that measure, and the resources that the workflow sets for each of their jobs -> where they come from.
MEASURING = ("train", "frontier", "shared_job", "pairs", "trace_capture", "reference", "sweep")
OF_MEASURING = {
    "nodes": "geometry in the campaign",
    "tasks": "geometry in the campaign",
    "slurm_extra": "the workflow (--no-kill, --exclusive; without whole nodes config: {exclusive: false})",
}
OF_DEVICES = "how many devices a job gets is geometry in the campaign; which ones, config: {gpu_type: NAME}"


def check_profile(name: str) -> None:
    """Raise UserError unless there is a sound profile of this name: here, or where Snakemake looks for a user's."""
    places = (Path(), Path.home() / ".config/snakemake", Path("/etc/xdg/snakemake"))
    SnakemakeProfile(next((place / name for place in places if (place / name).exists()), Path(name)))


def check_profile_of_call(words: Sequence[str]) -> None:
    """Check the profile that the command line `words` of a snakemake names, or SNAKEMAKE_PROFILE. Raises UserError."""
    named = [word.removeprefix("--profile=") for word in words if word.startswith("--profile=")]
    named += [name for option, name in itertools.pairwise(words) if option == "--profile"]
    for name in named:
        if name != "none":
            check_profile(name)
    variable = os.environ.get("SNAKEMAKE_PROFILE", "none")
    if not named and variable != "none":
        try:
            check_profile(variable)
        except UserError as error:
            raise UserError(f"the variable SNAKEMAKE_PROFILE: {error}") from None


class SnakemakeProfile:
    """The keys of the profile in `folder`. Raises UserError where there is none."""

    def __init__(self, folder: Path) -> None:
        """Read the profile in `folder`, or its file. Raises UserError where it is missing or has unknown options."""
        settings_files = [path for path in (folder, *(folder / name for name in NAMES)) if path.is_file()]
        if not settings_files:
            raise _no_profile_error(folder)
        self.path = settings_files[0]
        data, self._lines = read_yaml(self.path)
        if not isinstance(data, Mapping) or not data:
            fault = " is empty: a profile" if data is None else ": a mapping"
            raise UserError(f"{self.path}{fault} is expected, with lines such as 'executor: scaleproof', 'jobs: 20'")
        self.settings: dict[str, Any] = dict(data)
        if "__use_yte__" not in self.settings:  # a template of Snakemake's, which alone knows what it makes
            self._check_keys()
        self._check_resources()

    def _check_keys(self) -> None:
        """Raise UserError for an option that Snakemake does not have, and for a value that it refuses or drops.

        Also raises it for a misspelt rule. Options and values of plugins are known where these are installed.
        """
        from snakemake.cli import get_argument_parser  # takes a second, which only this check needs

        parser = get_argument_parser()
        options = parser._option_string_actions  # "--cores" -> its argparse.Action
        long_names = {name[2:] for name in options if name.startswith("--")}
        self._check_names((), self.settings, long_names, "snakemake has no option")
        self._check_names(("executor",), [str(self.settings.get("executor"))], EXECUTORS, "there is no executor")
        for name, value in self.settings.items():
            if name not in long_names:
                fault = f'snakemake has no option "{shortened(str(name))}".'
                is_of_plugin = str(name).partition("-")[0] in EXECUTORS
                near = "" if is_of_plugin else did_you_mean(name, sorted(long_names))
                advice = OF_RESOURCES.get(name) or f" Those of a plugin need it installed.{near}"
                raise UserError(f"{self._lines.place_prefix(self.path, (name,))}{fault}{advice}")
            option = options[f"--{name}"]
            word = WORDS_FOR_ALL.get(name)  # in place of a number: "all" cores
            takes_number = word is not None or option.type is int
            least = 1 if name in NOT_ZERO else 0
            is_number = str(value).isdecimal() and int(value) >= least
            if takes_number and value != word and not is_number:
                allowed = f"a whole number >= {least}{' or ' + word if word else ''}"
                raise self._wrong((name,), value, allowed)
            self._check_value(parser, option, name, value)
        rules = {name for file in SNAKEFILE.parent.glob("rules/*.smk") for name in RULE.findall(file.read_text())}
        for setting in ("set-resources", "set-threads"):
            names = self.settings.get(setting)
            if isinstance(names, Mapping):
                self._check_names((setting,), names, rules, "the workflow has no rule")
            if isinstance(names, Mapping) and setting == "set-threads":
                for rule, value in names.items():
                    if value == 0 or not IS_AMOUNT.fullmatch(str(value)):
                        raise self._wrong((setting, rule), value, "a whole number >= 1 (cores)")
        for variable in re.split(r"[,\s]+", str(self.settings.get("scaleproof-variables", ""))):
            if not re.fullmatch(r"[\w*?]*", variable):
                raise self._wrong(("scaleproof-variables",), variable, "names of variables, such as MY_MODE,SITE_*")
        arrays = str(self.settings.get("scaleproof-array-jobs", "")).replace(",", " ").split()
        self._check_names(("scaleproof-array-jobs",), arrays, {*rules, "all"}, "the workflow has no rule")

    def _check_value(self, parser: Any, option: Any, name: str, value: Any) -> None:
        """Raise UserError where Snakemake's `parser` refuses a value of the profile, or drops it without a word."""
        printed = io.StringIO()
        reason = ""
        try:
            with contextlib.redirect_stderr(printed):
                parsed, _ = parser.parse_known_args([], config_file_contents=json.dumps({name: value}, default=str))
            if not isinstance(value, Mapping) or not value or getattr(parsed, option.dest) != option.default:
                return
        except (Exception, SystemExit) as error:  # SystemExit: argparse has printed why
            reason = printed.getvalue().strip().rpartition("error: ")[2] or str(error)
        if option.dest in ("default_resources", "overwrite_resources"):
            self._check_resources()  # in our words
        if option.nargs == 0:
            raise self._wrong((name,), value, "true, false")
        if option.choices:
            plugin = f"; another needs its plugin: pip install snakemake-executor-plugin-{shortened(str(value))}"
            allowed = ", ".join(sorted(map(str, option.choices)))
            raise self._wrong((name,), value, allowed + (plugin if name == "executor" else ""))
        if isinstance(value, Mapping | list) and option.nargs is None:
            raise self._wrong((name,), value, "a word or a number; several as one text: a,b")
        raise UserError(f"{self._lines.place_prefix(self.path, (name,))}{name}: {reason}")

    def _check_resources(self) -> None:
        """Raise UserError for a wrong value of a resource or of `config`, and for a resource that reaches no job."""
        _ = self.site
        if "gres" in self.resources(""):
            raise self._misplaced(("default-resources", "gres"), f"reaches no job that measures: {OF_DEVICES}")
        for rule, name in itertools.product(MEASURING, OF_MEASURING):
            if name in self.replaced(rule):
                raise self._misplaced(
                    ("set-resources", rule, name), f"cannot be set: it comes from {OF_MEASURING[name]}"
                )

    def _misplaced(self, place: tuple[str, ...], fault: str) -> UserError:
        """Return the error for a resource that jobs that measure do not have from a profile."""
        return UserError(f"{self._lines.place_prefix(self.path, place)}{dotted(place)} {fault}")

    def _check_names(self, place: tuple[str, ...], names: Iterable[str], known: Collection[str], what: str) -> None:
        """Check the names at a place of the profile. Raises UserError for a name within two letters of a known one."""
        for key in names:
            check_name(self._lines.place_prefix(self.path, (*place, key)), key, known, what)

    def resources(self, rule: str) -> dict[str, str]:
        """Return the resources that the profile gives a rule: its defaults, and what it replaces."""
        defaults = self._parsed_pairs(("default-resources",), self.settings.get("default-resources"))
        return defaults | self.replaced(rule)

    def replaced(self, rule: str) -> dict[str, str]:
        """Return name -> value for the resources that set-resources puts in place of the rule's own."""
        return self._set_resources.get(rule, {})

    @property
    def partitions(self) -> dict[str, list[str]]:
        """The partitions that set-resources of the profile names: partition -> the rules that it sends there."""
        chosen = ((changed.get("slurm_partition"), rule) for rule, changed in self._set_resources.items())
        return lists_by_key((partition, rule) for partition, rule in chosen if partition is not None)

    @cached_property
    def site(self) -> Site:
        """How the cluster wants to be asked, as the profile's `config` says. Raises UserError."""
        try:
            return Site.from_config(self._parsed_pairs(("config",), self.settings.get("config")))
        except UserError as error:
            raise UserError(f"{self.path}: {error}") from None

    @cached_property
    def _set_resources(self) -> dict[str, dict[str, str]]:
        """The set-resources, rule -> resource -> value, from a mapping or a list, as on the command line."""
        setting = self.settings.get("set-resources") or {}
        key_path = ("set-resources",)
        if isinstance(setting, Mapping):
            return {rule: self._parsed_pairs((*key_path, rule), assigned) for rule, assigned in setting.items()}
        by_rule: dict[str, dict[str, str]] = {}
        for entry in _list_of(setting):
            rule, colon, assigned = str(entry).partition(":")
            if not colon:
                raise self._wrong(key_path, entry, "RULE: {NAME: VALUE}, such as train: {slurm_partition: gpu}")
            by_rule.setdefault(rule, {}).update(self._parsed_pairs(key_path, [assigned]))
        return by_rule

    def _parsed_pairs(self, key_path: tuple, setting: Any) -> dict[str, str]:
        """Return name -> value of a setting: a mapping, one NAME=VALUE, a list of these, or None.

        Values lose the quotes that keep Snakemake from evaluating them. `key_path`: of the profile, for messages.
        Raises UserError for an entry without a value, a misspelt resource, and an amount that is no whole number.
        """
        pairs: list[tuple[str, Any]] = []
        if isinstance(setting, Mapping):
            pairs += setting.items()
        else:
            for entry in _list_of(setting):
                name, equals, value = str(entry).partition("=")
                if not equals:
                    raise self._wrong(key_path, entry, "NAME: VALUE, or a list of NAME=VALUE")
                pairs.append((name, value))

        for name, value in pairs:
            if value in (None, "") or isinstance(value, Mapping | list):
                raise self._wrong((*key_path, name), value, "a word or a number")
            if re.fullmatch(r"<.*>", str(value)):
                raise self._wrong((*key_path, name), value, "what this placeholder stands for")
            if key_path != ("config",):  # names under `config` are no resources
                check_resource_names([name], self._lines.place_prefix(self.path, (*key_path, name)))
                if name in UNITS and not IS_AMOUNT.fullmatch(str(value).strip("'\"")):
                    raise self._wrong((*key_path, name), value, f"a whole number ({UNITS[name]})")
        return {name: str(value).strip("'\"") for name, value in pairs}

    def _wrong(self, place: tuple, value: object, allowed: str) -> UserError:
        """Return the error for a value that a key of the profile cannot have. `place`: the keys down to it."""
        where = f"{self._lines.place_prefix(self.path, place)}{dotted(place)}"
        return UserError(f"{where} cannot be {shortened(repr(value))}; allowed: {allowed}")


def check_name(where: str, key: str, known: Collection[str], what: str) -> None:
    """Raise UserError, its message after `where`, for a name within two letters of a known one."""
    near = [name for name in sorted(known) if edit_distance(key, name) <= min(2, len(str(key)) - 1)]
    likely = [name for name in near if "rule" not in what or _is_misspelt_rule(key, name)]
    if key not in known and likely:
        nearest = min(likely, key=lambda name: edit_distance(key, name))
        raise UserError(f'{where}{what} "{shortened(key)}". Did you mean "{nearest}"?')


def _is_misspelt_rule(key: str, rule: str) -> bool:
    """Return whether `key`, within two letters of our `rule`, means it; "pair", "train2" may be another workflow's."""
    endings = "s_0123456789"
    is_slip = len(rule) >= 5 and edit_distance(key, rule) == 1 and key.rstrip(endings) != rule.rstrip(endings)
    return "_" in rule or sorted(key) == sorted(rule) or is_slip


def _no_profile_error(folder: Path) -> UserError:
    """Return the error for a folder that holds no profile. It names the nearest profile, and all profiles."""
    places = [f"{folder}/{name}" for folder in ("slurm", "profiles/*") for name in NAMES]
    profiles = sorted({str(file.parent) for place in places for file in Path().glob(place)})
    if folder.is_dir():
        fault = f": {NAMES[0]} is missing there"
    elif os.path.lexists(folder):
        fault = path_fault(folder)
    else:
        by_name = {Path(profile).name: profile for profile in profiles}
        known_name = folder.name if folder.name in by_name else nearest_name(folder.name, by_name)
        nearest = by_name.get(known_name or "")
        fault = ": no such profile." + (f' Did you mean "{nearest}"?' if nearest and nearest != str(folder) else "")
        if not profiles:
            place = "cd to a clone, or to a folder that scaleproof init made, or give the path of the profile's folder"
            return UserError(f"{folder}{fault} There are no profiles in {Path.cwd()}: {place}")
    return UserError(f"{folder}{fault} (profiles: {', '.join(profiles) or 'none'})")


def _list_of(setting: Any) -> list[Any]:
    """Return a setting as a list: [value] for a single value, a list as it is, [] for None."""
    if setting is None:
        return []
    return setting if isinstance(setting, list) else [setting]
