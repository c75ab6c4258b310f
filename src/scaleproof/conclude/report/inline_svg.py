"""Charts inside the page: searchable text, values on hover, no request to anywhere, and nothing that runs.

A chart is a file that anybody may have edited. What the page takes from it is listed here; all else is left out.
"""

import re
from html import escape
from pathlib import Path
from xml.etree.ElementTree import ParseError, XMLParser

from scaleproof.ground.errors import damaged_file, missing_file

SVG, LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
ELEMENTS = re.compile(
    "svg|g|defs|title|desc|path|rect|circle|ellipse|line|polyline|polygon|use|text|tspan|image|clipPath|pattern"
    "|linearGradient|radialGradient|stop"
)
# Attributes; what matplotlib writes into a style of an element may be one, too.
DRAWING = re.compile(
    "d|x|y|width|height|[xy][12]|[cr][xy]|r|points|offset|transform|viewBox|preserveAspectRatio|version"
    "|(?:pattern|patternContent|gradient|clipPath)(?:Units|Transform)"
    "|(?:fill|stroke|stop)(?:-opacity|-rule|-color)?|stroke-(?:width|dasharray|dashoffset|linecap|linejoin|miterlimit)"
    "|clip-path|clip-rule|opacity|font(?:-family|-size|-style|-weight|-stretch|-variant)?|text-anchor|image-rendering"
)
FUNCTIONS = {"rgb", "rgba", "matrix", "translate", "rotate", "scale", "skewX", "skewY", "url"}
OWN = re.compile(r"url\(\s*#")  # something in the same file
PICTURE = re.compile(r"data:image/png;base64,[A-Za-z0-9+/=\s]+")


def inline_svg(path: Path, name: str, title: str) -> str:
    """Return the `<svg>` element of the file `path`. Its ids begin with `name`, so that no two charts share an id.

    `title` is its accessible name; it scales with its container. Raises UserError where the file is no SVG.
    """
    if not path.is_file():
        raise missing_file(path)
    text = path.read_text(encoding="utf-8", errors="replace")
    chart = _Chart(name, title)
    parser = XMLParser(target=chart)
    try:
        parser.feed(text[max(text.find("<svg"), 0) :])  # without a document type, which could define entities
        parser.close()
    except ParseError as error:
        raise damaged_file(path, f"no SVG, or cut off ({error})") from None
    return "".join(chart.parts)


class _Chart:
    """Writes the elements and attributes that are listed; of others nothing, with all that is inside of them."""

    def __init__(self, name: str, title: str) -> None:
        self.name, self.title = name, title
        self.parts: list[str] = []
        self.depth = 0
        self.left_out_at = 0  # the depth of the element that is left out; 0 where none is

    def start(self, tag: str, given: dict[str, str]) -> None:
        """Begin an element with its attributes that draw; an element that is not listed is left out."""
        self.depth += 1
        name = tag.removeprefix(SVG)
        if self.left_out_at:  # within an element that is left out
            return
        is_outermost = self.depth == 1
        is_listed = tag.startswith(SVG) and ELEMENTS.fullmatch(name) is not None
        is_misplaced = (name == "svg") != is_outermost  # the outermost element, and no other, is an svg
        if not is_listed or is_misplaced:
            self.left_out_at = self.depth
            return

        if is_outermost:  # the page decides on its size and its look
            given = {key: value for key, value in given.items() if key in ("viewBox", "version")}
        attributes = [pair for key, value in given.items() for pair in self._page_attribute(name, key, value)]
        if is_outermost:
            attributes += [("role", "img"), ("aria-label", self.title)]
        self.parts.append("".join([f"<{name}", *(f' {key}="{escape(value)}"' for key, value in attributes), ">"]))

    def data(self, text: str) -> None:
        """Write the text of an element, unless it is left out."""
        if not self.left_out_at:
            self.parts.append(escape(text, quote=False))

    def end(self, tag: str) -> None:
        """End an element, unless it is left out."""
        if not self.left_out_at:
            self.parts.append(f"</{tag.removeprefix(SVG)}>")
        elif self.left_out_at == self.depth:  # the element that is left out ends here
            self.left_out_at = 0
        self.depth -= 1

    def _page_attribute(self, element: str, name: str, value: str) -> list[tuple[str, str]]:
        """Return an attribute as it stands on the page: a list of one (name, value), empty where it is left out."""
        is_link = name in ("href", LINK)
        if is_link and value.startswith("#"):
            return [("href", f"#{self.name}-{value[1:]}")]
        if is_link:
            return [("href", value)] if element == "image" and PICTURE.fullmatch(value) else []
        if name == "id":
            return [(name, f"{self.name}-{value}")]
        if name == "style":
            properties = (pair.partition(":") for pair in value.split(";"))
            drawing = [f"{key}:{self._with_prefix(text)}" for key, _, text in properties if _only_draws(key, text)]
            return [(name, ";".join(drawing))]
        is_tip = (name, value) == ("class", "tip")  # marks what has a text on hover
        return [(name, self._with_prefix(value))] if _only_draws(name, value) or is_tip else []

    def _with_prefix(self, value: str) -> str:
        """Return a value whose url(#...), a reference to this file, has the prefix of this chart's ids."""
        return OWN.sub(f"url(#{self.name}-", value)


def _only_draws(name: str, value: str) -> bool:
    """Return whether an attribute, or a property of `style`, only draws: without escapes or any unknown function."""
    functions = re.findall(r"([\w-]*)\s*\(", value)
    return (
        DRAWING.fullmatch(name.strip()) is not None
        and "\\" not in value
        and set(functions) <= FUNCTIONS
        and functions.count("url") == len(OWN.findall(value))  # every address is of something in this file
    )
