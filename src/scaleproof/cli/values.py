"""The types of arguments: what each takes, and the value that is meant by one that it does not take."""

import argparse
import os
import re
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from scaleproof.ground.campaign.value_hints import value_hint
from scaleproof.ground.errors import nearest_path, path_fault, shortened
from scaleproof.ground.number_format import integer

RESULTS = Path("results")
ADDRESS = re.compile(r"[a-z]+://|git@", re.IGNORECASE)
GIGABITS = re.compile(r"([0-9.]+) ?(?:Gb/s|[Gg]bit/s|[Gg]bps|Gb)")  # eight of them are a gigabyte
LONGEST_NAME = 255  # bytes, of a file or a folder
MEMORY = {"MB": 1e6, "GB": 1e9, "TB": 1e12}
AMOUNT = re.compile(r"([0-9]*\.?[0-9]+(?:e[0-9]+)?) ?([kmgt]?i?b?)", re.IGNORECASE)
CURRENCIES = {"$": "USD", "dollar": "USD", "dollars": "USD", "€": "EUR", "euro": "EUR", "euros": "EUR", "£": "GBP"}
YEAR_FIRST = re.compile(r"([0-9]{4})[./ -]?([0-9]{1,2})[./ -]?([0-9]{1,2})")
YEAR_LAST = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4})")


def refused(text: str, allowed: str, hint: str = "") -> argparse.ArgumentTypeError:
    """What every type says of a value that it does not take. `hint`: `Write 10.` with a leading space."""
    return argparse.ArgumentTypeError(f'cannot be "{shortened(text)}"; allowed: {allowed}.{hint}')


def text(words: str) -> str:
    """Text that is not blank."""
    if not words.strip():
        raise refused(words, "text that is not blank")
    return words


def path(text: str) -> Path:
    """A path; the empty text, which would be the working folder, is refused."""
    if not text:
        raise argparse.ArgumentTypeError("a path is empty")
    if "\0" in text:
        raise argparse.ArgumentTypeError("a path cannot contain a NUL character")
    if ADDRESS.match(text):
        raise argparse.ArgumentTypeError(f'"{shortened(text)}" is an address; download it, and give the file or folder')
    if any(len(part.encode(errors="replace")) > LONGEST_NAME for part in Path(text).parts):
        raise argparse.ArgumentTypeError(f'"{shortened(text, 40)}" has a name of more than {LONGEST_NAME} bytes')
    return Path(text)


def folder(text: str) -> Path:
    """A folder that is there."""
    place = path(text)
    if place.is_dir():
        return place
    raise argparse.ArgumentTypeError(f"{place}{path_fault(place) or ' is a file; a folder is expected'}")


def results_folder(text: str) -> Path:
    """The folder of all results; the usual one need not be there yet."""
    return RESULTS if path(text) == RESULTS and not os.path.lexists(text) else folder(text)


def file_to_read(text: str) -> Path:
    """A regular file that is there."""
    place = path(text)
    if place.is_dir():
        raise argparse.ArgumentTypeError(f'"{place}" is a folder; give the name of a file in it')
    if fault := path_fault(place):
        raise argparse.ArgumentTypeError(f"{place}{fault}")
    return place


def file_to_write(text: str, replaced: tuple[str, ...] = (".html", ".svg")) -> Path:
    """A file to write: no folder, and in a folder that is there, so that a typo makes none.

    One that is there is replaced only if its name ends as what is written does: others may be the only copy.
    """
    place = path(text)
    if place.is_dir():
        raise argparse.ArgumentTypeError(f'"{place}" is a folder; give the name of a file in it')
    if os.path.lexists(place) and (fault := path_fault(place)):
        raise argparse.ArgumentTypeError(f"{place}{fault}")
    if place.is_file() and place.suffix not in replaced:
        endings = " or ".join(replaced)
        raise argparse.ArgumentTypeError(
            f"{place} is there, and would be lost; allowed: a new name, or one that ends in {endings}"
        )
    _check_parent(place)
    return place


def record_to_write(text: str) -> Path:
    """A JSON file to write."""
    return file_to_write(text, (".json",))


def folder_to_write(text: str) -> Path:
    """A folder to write into, which may still have to be made, in one that is there."""
    place = path(text)
    if os.path.lexists(place) and not place.is_dir():
        what = path_fault(place) or " is a file"
        raise argparse.ArgumentTypeError(f'"{place}"{what}; give a folder, which is made where there is none')
    _check_parent(place)
    return place


def _check_parent(place: Path) -> None:
    """Raises ArgumentTypeError where the folder is not there that something is to be written into."""
    parent = place.parent
    if os.path.lexists(parent) and not parent.is_dir():
        raise argparse.ArgumentTypeError(f"{parent}{path_fault(parent) or ' is a file; a folder is expected'}")
    if not parent.is_dir():
        raise argparse.ArgumentTypeError(f'there is no folder "{parent}".{nearest_path(parent)}')


@dataclass(frozen=True)
class Number:
    """A number from `least` to `most`, in a unit; `least` itself only where numbers are whole."""

    unit: str = ""
    least: int = 0
    most: float = 1e12
    whole: bool = False

    def __call__(self, text: str) -> float:
        option = {"type": "integer", "minimum": self.least} if self.whole else {"type": "number", "exclusiveMinimum": 0}
        try:
            value = int(text) if self.whole else float(text)
            is_plain = re.fullmatch(r"[0-9.eE+-]+", text.strip()) is not None
            if is_plain and (value >= self.least if self.whole else value > 0) and value <= self.most:
                return value
        except ValueError:
            pass
        gigabits = GIGABITS.fullmatch(text.strip()) if self.unit == "GB/s" else None
        least = f"a whole number from {self.least}" if self.whole else "a number above 0, up"
        unit = f" ({self.unit})" if self.unit else ""
        # A rate is hinted at by its amount: 10GB/s is 10, as is $10.
        plain = text.casefold().removesuffix("/s").strip(" $€£")
        if gigabits and gigabits[1].count(".") <= 1 and gigabits[1] != ".":
            text_of_bytes = f"{float(gigabits[1]) / 8:g}"
            raise refused(text, f"{least} to {integer(self.most)}{unit}", f" Write {text_of_bytes}: 8 Gb are 1 GB.")
        hint = value_hint(plain, [option | {"maximum": self.most}], [], self.unit.removesuffix("/s"))
        raise refused(text, f"{least} to {integer(self.most)}{unit}", hint)


count = Number(least=1, most=10**6, whole=True)


def memory(text: str) -> float:
    """An amount of memory in bytes: 4GB, 512MB, in powers of 1000."""
    match = AMOUNT.fullmatch(text.strip())
    number = float(match[1]) if match else 0.0
    unit = match[2].upper() if match else ""
    if unit in MEMORY and 0 < number < 1e9:
        return number * MEMORY[unit]
    meant = {"": "GB", "M": "MB", "G": "GB", "T": "TB", "MIB": "MB", "GIB": "GB", "TIB": "TB"}.get(unit)
    hint = f" Write {number:g}{meant}." if match and meant and number > 0 else ""
    raise refused(text, "a number with MB, GB or TB, like 4GB", hint)


def day(text: str) -> str:
    """A date: 2026-11-01."""
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        first, last = YEAR_FIRST.fullmatch(text.strip()), YEAR_LAST.fullmatch(text.strip())
        year, month, of_month = first.groups() if first else reversed(last.groups()) if last else ("", "", "")
        meant = f"{year}-{month:0>2}-{of_month:0>2}"
        hint = f" Write {meant}." if first or last else ""
        raise refused(text, "a date of the calendar as YEAR-MONTH-DAY, like 2026-11-01", hint) from None


def currency(text: str) -> str:
    """Three capital letters, as banks write them."""
    if re.fullmatch(r"[A-Z]{3}", text):
        return text
    meant = CURRENCIES.get(text.strip().casefold(), text.strip().upper())
    hint = f" Write {meant}." if re.fullmatch(r"[A-Z]{3}", meant) else ""
    raise refused(text, "three capital letters, like USD or EUR", hint)


def url(text: str) -> str:
    """An address of the web."""
    if re.match(r"https?://[^/\s]+\S*$", text):
        return text
    hint = f" Write https://{text}." if re.fullmatch(r"[\w-]+(\.[\w-]+)+(/\S*)?", text) else ""
    raise refused(text, "an address that begins with https:// or http://", hint)
