"""Letters and dashes that look like those of a key or a word, which no eye tells apart."""

import re
import unicodedata

# Of alphabets that share letters with ours: these look like the Latin ones below them.
OTHERS = "\u2010\u2011\u2012\u2013\u2212авекмнорстухѕіјԁһԛԝьАВЕКМНОРСТУХЅІЈαορτυικεγχωνηΑΒΕΖΗΙΚΜΝΟΡΤΥΧıɡ"
LATIN = "-----abekmhopctyxsijdhqwbABEKMHOPCTYXSIJaoptuikeyxwvnABEZHIKMNOPTYXig"
PLAIN = str.maketrans(OTHERS, LATIN)
BULLET = re.compile(r"\s*([\u2010-\u2015\u2022\u2023\u2043\u2212\u00b7*])\s+\S")  # in place of a list's hyphen
DASHES = ("Pd", "Sm")  # categories of dashes, and of the minus sign


def bullet_text(text: str) -> str:
    """Return that a text begins with a dash or a bullet in place of a list's hyphen. Returns "" for other texts."""
    bullet = BULLET.match(text)
    return f'"{bullet[1]}" ({unicodedata.name(bullet[1]).lower()}) is no hyphen of a list: type "-"' if bullet else ""


def plain_letters(text: str) -> str:
    """Return a text with Latin letters in place of those of other alphabets, and of wide ones, that look like them."""
    return "".join(c if c.isascii() else unicodedata.normalize("NFKC", c).translate(PLAIN) for c in text)


def look_alike_text(text: str) -> str:
    """Return which letters of a text only look Latin: ` Its "\u043e" is Cyrillic (U+043E).`, or "" for none."""
    plain = plain_letters(text)
    if not plain.isascii() or not any(c.isascii() and c.isalpha() for c in plain):
        return ""
    letters = dict.fromkeys(c for c in text if not c.isascii() and (c.isalnum() or unicodedata.category(c) in DASHES))
    alphabets = dict.fromkeys(map(_sign_text, letters))
    if not letters:
        return ""
    signs = ", ".join(f'"{c}"' for c in letters)
    codes = ", ".join(f"U+{ord(c):04X}" for c in letters)
    words = " and ".join(alphabets).replace("Fullwidth", "full-width")
    return f" Its {signs} {'is' if len(letters) == 1 else 'are'} {words} ({codes})."


def _sign_text(sign: str) -> str:
    """Return the alphabet of a letter, "Cyrillic", or the name of a dash or of another letter, "an en dash"."""
    name = unicodedata.name(sign, "another letter")
    alphabet = name.partition(" ")[0]
    if alphabet in ("CYRILLIC", "GREEK", "FULLWIDTH"):
        return alphabet.capitalize()
    return f"a{'n' * (name[0] in 'AEIOU')} {name.lower()}"


def valid_name(text: str) -> str:
    """Return a name of a campaign, corpus or comparison that resembles a text; "" if no letter of it is left."""
    plain = re.sub(r"[\u0300-\u036f]", "", unicodedata.normalize("NFKD", text.casefold()))  # letters without accents
    return re.sub(r"[^a-z0-9._-]", "-", plain[:60]).strip("-._")
