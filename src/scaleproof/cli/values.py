"""The types of arguments: what each takes."""

import argparse
import os
import re
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from scaleproof.ground.errors import did_you_mean, nearest_path, no_such, path_fault, shortened
from scaleproof.ground.number_format import integer
from scaleproof.ground.snakemake_command import RESULTS

if TYPE_CHECKING:
    from scaleproof.ground.facts.peaks import NamedDevice

ADDRESS = re.compile(r"[a-z][a-z\d+.-]*://|git@", re.IGNORECASE)
LONGEST_NAME = 255  # bytes, of a file or a folder
OTHER_FORMATS = (".pdf", ".png", ".svg", ".html", ".json", ".csv", ".md", ".tex", ".parquet")  # endings of names
MEMORY = {"MB": 1e6, "GB": 1e9, "TB": 1e12}
AMOUNT = re.compile(r"([0-9]*\.?[0-9]+(?:e[0-9]+)?) ?([MGT]B)", re.IGNORECASE)


def refused(text: str, allowed: str, hint: str = "") -> argparse.ArgumentTypeError:
    """Return the error that every type raises for a value that it does not take."""
    return argparse.ArgumentTypeError(f'cannot be "{shortened(text)}"; allowed: {allowed}.{hint}')


def text(words: str) -> str:
    """Return `words`, one line of text that is not blank. Raises ArgumentTypeError for others."""
    if not words.strip() or len(words.splitlines()) > 1:
        raise refused(words, "one line of text that is not blank")
    return words


def file_name(words: str) -> str:
    """Return `words` as the name of a file to write, without a folder. Raises ArgumentTypeError."""
    if not words.strip() or Path(words).name != words or words == "..":
        raise refused(words, "a name, without a folder")
    return words


def campaign_name(words: str) -> str:
    """Return the name of a campaign to make: of its file, and of its folder of results. Raises ArgumentTypeError."""
    from scaleproof.ground.campaign.loaded import NAME

    if not NAME.fullmatch(file_name(words)):
        raise refused(words, 'lower-case letters, digits, "-" and "_"')
    return words


def hub_name(words: str) -> str:
    """Return the name of a model or a data set on a hub. Raises ArgumentTypeError."""
    from scaleproof.ground.campaign.hub_names import HUB_NAME

    if os.path.lexists(words):
        here = "a file or folder of this machine; the hub is asked for"
        raise argparse.ArgumentTypeError(f'"{shortened(words)}" is {here} owner/name, like Qwen/Qwen3-0.6B')
    if not HUB_NAME.fullmatch(words):
        end_of_address = "/".join(words.rstrip("/").split("/")[3:][-2:])  # https://HOST/a/b/c -> "b/c"
        is_address = ADDRESS.match(words) and HUB_NAME.fullmatch(end_of_address)
        hint = f"; write {end_of_address}" if is_address else ""
        name, at, revision = words.partition("@")  # as of packages
        if at and HUB_NAME.fullmatch(name):
            hint = f"; write {name} --revision {revision}"
        raise refused(words, f"owner/name, like Qwen/Qwen3-0.6B{hint}")
    return words


def log_reader(name: str) -> str:
    """Return the name of a reader of logs, or auto. Raises ArgumentTypeError."""
    from scaleproof.ground.campaign.command import Reader

    known = ("auto", *get_args(Reader))
    if name not in known:
        raise argparse.ArgumentTypeError(no_such("reader", name, known))
    return name


def path(text: str) -> Path:
    """Return `text` as a path. Raises ArgumentTypeError for addresses, and for names that no file can have.

    The empty text, which would be the working folder, and a ~ that a shell would replace are refused as well.
    """
    if not text:
        raise argparse.ArgumentTypeError("a path is empty")
    if "\0" in text:
        raise argparse.ArgumentTypeError("a path cannot contain a NUL character")
    if len(text.splitlines()) > 1 or (text != text.rstrip("\r\n") and not os.path.lexists(text)):
        raise argparse.ArgumentTypeError(f'"{shortened(text)}" has a line break in it, as of a script; take it away')
    if text.startswith("~") and not os.path.lexists(text):
        expanded = os.path.expanduser(text)  # an unknown "~user" stays as it is
        advice = "the path itself" if expanded == text else expanded
        raise argparse.ArgumentTypeError(f'"{shortened(text)}" begins with ~, which a shell replaces: write {advice}')
    if ADDRESS.match(text):
        raise argparse.ArgumentTypeError(f'"{shortened(text)}" is an address; download it, and give the file or folder')
    if any(len(part.encode(errors="replace")) > LONGEST_NAME for part in Path(text).parts):
        raise argparse.ArgumentTypeError(f'"{shortened(text, 40)}" has a name of more than {LONGEST_NAME} bytes')
    return Path(text)


def folder(text: str) -> Path:
    """Return `text` as the path of a folder. Raises ArgumentTypeError where none is there."""
    place = path(text)
    if place.is_dir():
        return place
    raise argparse.ArgumentTypeError(f"{place}{path_fault(place) or ' is a file; a folder is expected'}")


def results_folder(text: str) -> Path:
    """Return the folder of all results. Raises ArgumentTypeError where it is not there; `results` may be missing."""
    place = RESULTS if path(text) == RESULTS and not os.path.lexists(text) else folder(text)
    if any(place.glob("runs/*/rep*")):
        raise argparse.ArgumentTypeError(f"{place} is of one campaign; the folder of all results is {place.parent}")
    is_here = place.is_absolute() and place.is_relative_to(Path.cwd())
    return place.relative_to(Path.cwd()) if is_here else place  # as Snakemake's targets name it


def file_to_read(text: str) -> Path:
    """Return `text` as the path of a regular file. Raises ArgumentTypeError where none is there."""
    place = path(text)
    if place.is_dir():
        raise argparse.ArgumentTypeError(f'"{place}" is a folder; give the name of a file in it')
    if fault := path_fault(place):
        raise argparse.ArgumentTypeError(f"{place}{fault}")
    return place


def record_to_read(text: str) -> Path:
    """Return `text` as the path of a record that the workflow wrote. Raises ArgumentTypeError for other files."""
    place = file_to_read(text)
    if place.suffix != ".json":
        raise argparse.ArgumentTypeError(f"{place} is no record, which ends with .json")
    return place


def file_to_write(text: str, replaced: tuple[str, ...]) -> Path:
    """Return `text` as the path of a file to write. Raises ArgumentTypeError.

    Its folder must be there, so that a typo makes no folder. `replaced`: the endings of what the caller writes. A file
    that is there may be the only copy: it is replaced only if it has one of these endings. A new name may have any
    ending but that of another format (.png, .csv).
    """
    place = path(text)
    if text == "-":
        raise argparse.ArgumentTypeError('"-" is standard output; give the name of a file')
    if os.path.lexists(place):
        file_to_read(text)
    endings = " or ".join(replaced)
    if place.is_file() and place.suffix not in replaced:
        allowed = f"a new name, or one that ends in {endings}"
        raise argparse.ArgumentTypeError(f"{place} is there, and would be lost; allowed: {allowed}")
    for folder in place.absolute().parents if place.is_file() else ():
        manifest = folder / "manifest.json"  # of a campaign's results
        if manifest.is_file() and f'"{place.absolute().relative_to(folder)}"' in manifest.read_text(errors="replace"):
            fault = "is a file of a campaign's results, and would be lost; give another name"
            raise argparse.ArgumentTypeError(f"{place} {fault}")
    if place.suffix in OTHER_FORMATS and place.suffix not in replaced:
        raise argparse.ArgumentTypeError(f"{place}: what is written is no {place.suffix}; give a name with {endings}")
    _check_parent(place)
    return place


page_to_write = partial(file_to_write, replaced=(".html",))
chart_to_write = partial(file_to_write, replaced=(".svg",))
record_to_write = partial(file_to_write, replaced=(".json",))


def folder_to_write(text: str) -> Path:
    """Return `text` as a folder, which may be new, inside of one that is there. Raises ArgumentTypeError."""
    place = path(text)
    if os.path.lexists(place):
        folder(text)
    _check_parent(place)
    return place


def new_folder(text: str) -> Path:
    """Return `text` as a folder to write that has nothing in it. Raises ArgumentTypeError."""
    place = folder_to_write(text)
    if place.is_dir() and any(place.iterdir()):
        raise argparse.ArgumentTypeError(f'"{place}" is not empty; give a new folder')
    return place


def trace_folder(text: str) -> Path:
    """Return `text` as the folder of a trace, new or of an earlier one. Raises ArgumentTypeError for other folders."""
    from scaleproof.ground.records.run import CAPTURE, CAPTURE_LOG

    names = (CAPTURE, CAPTURE_LOG)  # the log alone where the capture was stopped
    is_of_trace = any((path(text) / name).is_file() for name in names)
    return folder_to_write(text) if is_of_trace else new_folder(text)


def _check_parent(place: Path) -> None:
    """Raise ArgumentTypeError unless the folder that `place` is to be written into is there, and a screen shows it."""
    parent = place.parent
    if re.search(r"[\x00-\x1f\x7f]", place.name):
        raise argparse.ArgumentTypeError(f"{place.name!r} has a character that is not printed; give another name")
    if not os.path.lexists(parent):
        raise argparse.ArgumentTypeError(f'there is no folder "{parent}".{nearest_path(parent)}')
    folder(str(parent))


@dataclass(frozen=True)
class Number:
    """The type of a number in a unit, up to `most`."""

    unit: str = ""
    least: int = 0  # of numbers that are not whole, 0 itself is not allowed
    most: float = 1e12
    whole: bool = False

    def __call__(self, text: str) -> float:
        """Return `text` as a number. Raises ArgumentTypeError where it is no number, or out of range."""
        try:
            value = int(text) if self.whole else float(text)
            is_plain = re.fullmatch(r"[0-9.eE+-]+", text.strip()) is not None
            if is_plain and self._allows(value):
                return value
        except ValueError:
            pass
        kind = "a whole number" if self.whole else "a number"
        least = f"{kind} from {self.least}" if self.whole or self.least else f"{kind} above 0, up"
        unit = f" ({self.unit})" if self.unit else ""
        raise refused(text, f"{least} to {integer(self.most)}{unit}{self._hint(text)}")

    def _allows(self, value: float) -> bool:
        is_large_enough = value >= self.least if self.whole or self.least else value > 0
        return is_large_enough and value <= self.most

    def _hint(self, text: str) -> str:
        """Return a hint at a number with its unit, whole numbers with commas, an amount of money, a decimal comma.

        Returns "" for other texts.
        """
        with_unit = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?(\D+)", text.strip())  # 2%, 5 min
        if with_unit and self.unit and self.unit.startswith(with_unit[2]) and with_unit[2] != "d":  # 5 d are days
            return f"; write {with_unit[1]}" if self._allows(float(with_unit[1])) else ""
        if self.whole:
            are_several = re.fullmatch(r"[0-9]+(, ?[0-9]+)+", text)
            return "; without commas, several with blanks between them" if are_several else ""
        if re.fullmatch(r"[0-9]{1,3}(,[0-9]{3})+", text):
            return f"; write {text.replace(',', '')}, without commas"
        # Sign of a currency, number, sign or code of a currency: "$2.50", "2,50 EUR".
        match = re.fullmatch(r"([$€£¥]? ?)([0-9]+(?:\.[0-9]+|,[0-9]{1,2})?)( ?(?:[$€£¥]|[A-Z]{3}))?", text)
        if match is None or (self.unit and (match[1] or match[3])):  # a currency where another unit is expected
            return ""
        amount = match[2].replace(",", ".")
        return f"; write {amount}" if amount != text and 0 < float(amount) <= self.most else ""


count = Number(least=1, most=10**6, whole=True)


def memory(text: str) -> float:
    """Return an amount of memory in bytes, from a text like 4GB or 512MB (powers of 1000). Raises ArgumentTypeError."""
    match = AMOUNT.fullmatch(text.strip())
    if match and 0 < (number := float(match[1])) < 1e9:
        return number * MEMORY[match[2].upper()]
    raise refused(text, "a number with MB, GB or TB, like 4GB")


def past_day(text: str) -> str:
    """Return a date, today or before, as YEAR-MONTH-DAY, like 2026-11-01. Raises ArgumentTypeError."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise refused(text, "a date of the calendar as YEAR-MONTH-DAY, like 2026-11-01") from None
    if day > date.today():
        raise refused(text, f"a date up to today, {date.today()}")
    return day.isoformat()


def currency(text: str) -> str:
    """Return three capital letters, as banks write currencies. Raises ArgumentTypeError."""
    if re.fullmatch(r"[A-Z]{3}", text):
        return text
    raise refused(text, "three capital letters, like USD or EUR")


def device(text: str) -> "NamedDevice":
    """Return a device with known peaks by its name. Raises ArgumentTypeError for others."""
    from scaleproof.ground.facts.peaks import device_names, named_device

    if named := named_device(text):
        return named
    names = device_names()
    known = f'{", ".join(names)}, with its memory or without, like "H100 80GB"'
    raise refused(text, f"a GPU with a known data sheet: {known}", did_you_mean(text, names))


def url(text: str) -> str:
    """Return an address of the web. Raises ArgumentTypeError."""
    if re.match(r"https?://[^/\s]+\S*$", text):
        return text
    raise refused(text, "an address that begins with https:// or http://")
