"""Texts that are not UTF-8: how much of one is not, and the command that converts it."""

import re
from pathlib import Path

from scaleproof.ground.number_format import rounded_up_percent

UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # with which a text in UTF-16 begins
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
    """Return the command that converts a text to UTF-8; of one that has letters in UTF-8 too, what is wrong with it."""
    text = data.decode("utf-8", "surrogateescape")
    if data.startswith(UTF_16):
        encoding = "UTF-16"
    elif len(LETTER.findall(text)) > len(NO_UTF_8.findall(text)) / 10:
        return "single bytes of a text in UTF-8 are damaged"
    else:
        encoding = "CP1252" if OF_WINDOWS.search(text) else "LATIN1"
    return f"iconv -f {encoding} -t UTF-8 {path} > {path.name}.utf8, and put that in its place"
