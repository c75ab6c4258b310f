"""Texts that are not UTF-8: how much of one is not, and the command that converts it."""

import re
from pathlib import Path

from scaleproof.ground.file_kinds import UTF_16
from scaleproof.ground.number_format import rounded_up_percent

PACKED = {".gz": b"\x1f\x8b", ".bz2": b"BZh", ".zst": b"\x28\xb5\x2f\xfd"}  # suffix -> first bytes of the file
UTF_32 = b"\xff\xfe\0\0"
MOST_WESTERN = 0.3  # share of letters beyond ASCII in a text of a western language
NO_UTF_8 = re.compile("[\udc80-\udcff]")  # a byte, as Python decodes it with "surrogateescape"
OF_WINDOWS = re.compile("[\udc80-\udc9f]")  # of these, letters in CP1252 alone
LETTER = re.compile("[^\x00-\x7f\udc80-\udcff]")  # of several bytes in UTF-8


def damage_of_text(path: Path) -> str | None:
    """Describe how much of a text is not UTF-8, with the command that converts it. Returns None where all is."""
    data = path.read_bytes()
    text = data.decode("utf-8", "surrogateescape")
    damaged = len(NO_UTF_8.findall(text))
    if not damaged:
        return None
    return f"{rounded_up_percent(damaged / len(text))} of it is not UTF-8: {conversion(path, data)}"


def conversion(path: Path, data: bytes) -> str:
    """Return the command that converts a text to UTF-8, or what to do where its encoding is not known."""
    if path.suffix in PACKED:
        return "unpack it, and save it as UTF-8"
    text = data.decode("utf-8", "surrogateescape")
    damaged = len(NO_UTF_8.findall(text))
    if data.startswith(UTF_32):
        encoding = "UTF-32"
    elif data.startswith(UTF_16):
        encoding = "UTF-16"
    elif damaged > MOST_WESTERN * len(text):
        return "save it as UTF-8"
    elif len(LETTER.findall(text)) > damaged / 10:
        return "single bytes of a text in UTF-8 are damaged"
    else:
        encoding = "CP1252" if OF_WINDOWS.search(text) else "LATIN1"
    doubt = "" if encoding.startswith("UTF") else f" if it is in {encoding}"
    return f"iconv -f {encoding} -t UTF-8 {path} > {path.name}.utf8, and put that in its place{doubt}"
