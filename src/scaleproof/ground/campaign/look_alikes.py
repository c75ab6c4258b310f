"""Letters of other alphabets that look like those of a key or a word, which no eye tells apart."""

import unicodedata

# Of alphabets that share letters with ours: these look like the Latin ones below them.
OTHERS = "авекмнорстухѕіјԁһԛԝьАВЕКМНОРСТУХЅІЈαορτυικεγχωνηΑΒΕΖΗΙΚΜΝΟΡΤΥΧıɡ"
LATIN = "abekmhopctyxsijdhqwbABEKMHOPCTYXSIJaoptuikeyxwvnABEZHIKMNOPTYXig"
PLAIN = str.maketrans(OTHERS, LATIN)


def plain_letters(text: str) -> str:
    """Return a text with Latin letters in place of those of other alphabets, and of wide ones, that look like them."""
    return "".join(c if c.isascii() else unicodedata.normalize("NFKC", c).translate(PLAIN) for c in text)


def look_alike_text(text: str) -> str:
    """Return which letters of a text only look Latin: ` Its "\u043e" is Cyrillic (U+043E).`, or "" for none."""
    plain = plain_letters(text)
    if not plain.isascii() or not any(c.isascii() and c.isalpha() for c in plain):
        return ""
    letters = dict.fromkeys(c for c in text if c.isalnum() and not c.isascii())
    alphabets = dict.fromkeys(unicodedata.name(c, "another letter").partition(" ")[0].capitalize() for c in letters)
    if not letters:
        return ""
    signs = ", ".join(f'"{c}"' for c in letters)
    codes = ", ".join(f"U+{ord(c):04X}" for c in letters)
    words = " and ".join(alphabets).replace("Fullwidth", "full-width")
    return f" Its {signs} {'is' if len(letters) == 1 else 'are'} {words} ({codes})."
