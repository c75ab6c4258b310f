"""A page of HTML as a tree, and its texts as a reader has them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from html.parser import HTMLParser

VOID = ("br", "hr", "img", "input", "link", "meta", "col", "wbr")


@dataclass
class Element:
    """An element of a page."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: "list[Element | str]" = field(default_factory=list)

    def all(self, tag: str, **attributes: str) -> "Iterator[Element]":
        """Yield the elements at any depth with `tag` and `attributes`; `kind` stands for the attribute `class`."""
        expected = {name.replace("kind", "class"): value for name, value in attributes.items()}
        left = self.children[::-1]
        while left:
            child = left.pop()
            if isinstance(child, Element):
                if child.tag == tag and all(child.attributes.get(name) == value for name, value in expected.items()):
                    yield child
                left += child.children[::-1]

    @property
    def text(self) -> str:
        """All text inside, with single spaces."""
        return " ".join(self._raw_text.replace("\u00a0", " ").split())

    @property
    def opening(self) -> str:
        return " ".join([f"<{self.tag}", *(f'{name}="{value}"' for name, value in self.attributes.items())]) + ">"

    @property
    def markup(self) -> str:
        """The opening tag, and all that is inside."""
        inner = (" ".join(child.split()) if isinstance(child, str) else child.markup for child in self.children)
        return " ".join([self.opening, *filter(None, inner)])

    @property
    def _raw_text(self) -> str:
        """All text inside, as it stands in the file."""
        return "".join(child if isinstance(child, str) else child._raw_text for child in self.children)


class _Parser(HTMLParser):
    """Parser of a page into a tree."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Element("")
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        for depth in range(len(self._open) - 1, 0, -1):  # the innermost open one ends, with all in it; never the root
            if self._open[depth].tag == tag:
                del self._open[depth:]
                return

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)


@lru_cache(maxsize=4)  # several checks read one page
def tree_of(text: str) -> Element:
    """Return the root of the tree of a page, or of a drawing. Nobody changes it."""
    parser = _Parser()
    parser.feed(text)
    return parser.root
