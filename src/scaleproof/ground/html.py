"""The environment of the pages' templates."""

import base64
import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from functools import cache, partial
from importlib import resources

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from scaleproof.ground.findings.finding import count_text
from scaleproof.ground.number_format import with_spaces


@cache  # a page asks twice, and templates are compiled once
def jinja_environment(house: str, **filters: Callable[..., object]) -> Environment:
    """Return Jinja for the templates of the package `house` and the templates that all pages share.

    Values are escaped, and a name that is not defined raises. `filters`: more filters, by the names in the templates.
    """
    jinja = Environment(
        loader=ChoiceLoader([PackageLoader(house), PackageLoader("scaleproof.ground")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.filters |= {"spaced": with_spaces, "bounded": mark_bounds, "counted": count_text}
    jinja.filters |= {"coded": partial(link_cells, cells=()), **filters}
    jinja.globals |= {"policy": content_policy, "script_source": partial(script_source, house)}
    return jinja


def script_source(house: str, name: str = "") -> Markup:
    """Return the text of the script of a page: that of all tables, and `name` of the package `house` behind it."""
    folders = [("scaleproof.ground", "tables.js"), *([(house, name)] if name else [])]
    return Markup("".join((resources.files(p) / "templates" / n).read_text(encoding="utf-8") for p, n in folders))


def content_policy(script: str) -> str:
    """Return the Content-Security-Policy of a page that runs `script` (its text; "": none).

    The page loads nothing. It holds texts and charts from files that anybody may have edited. All are escaped where
    they are put in; this policy is the second line of defence.
    """
    scripts = "'none'"
    if script:
        digest = hashlib.sha256(script.encode()).digest()
        scripts = f"'sha256-{base64.b64encode(digest).decode()}'"
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


SPAN = r"\(-?[\d.,]+(?:-| to )[\d.,]+(?:\u00a0%)?\)"  # an interval, "(1.04-1.48)"; no line ends inside of one


def mark_bounds(text: str) -> Markup:
    """Return a figure, escaped, with its interval in an element of its own, so that it can be given a look."""
    match = re.fullmatch(rf"(.*) ({SPAN})", text)
    return Markup('{} <span class="bounds">{}</span>').format(*match.groups()) if match else escape(text)


# Lines of a campaign file, files and commands in sentences. The quotes around a line, or a word, are left out.
CODE = re.compile(
    r'"(?P<quoted>repeats: [^"]+)"|`(?P<ticked>[^`]+)`'
    r"|(?P<plain>config/campaigns/[\w.-]+\.yaml|snakemake (?:--[a-z-]+ \S+ )+\S+\.html"
    r"|scaleproof (?:explain [\w-]+|plan \S+|retry [^\s;,]+(?: --cell [\w./-]*\w)*(?: --results \S*\w)?)"
    r"|results/[\w-]+/(?:runs|looks)\b)"
)


def link_cells(text: str, cells: Collection[str]) -> Markup:
    """Return `text` as HTML: names of `cells` link to their rows; files, commands and `words` are in code font."""
    linked = Markup("")
    end_of_code = 0
    for match in CODE.finditer(text):
        linked += _link_plain_text(text[end_of_code : match.start()], cells)
        linked += Markup("<code>{}</code>").format(match[match.lastgroup or 0])
        end_of_code = match.end()
    return linked + _link_plain_text(text[end_of_code:], cells)


def link_findings(text: str, severity_of: Mapping[str, str]) -> Markup:
    """Return `text` as HTML, escaped; codes of findings are links, coloured by `severity_of`: code -> severity."""
    if not severity_of:
        return escape(with_spaces(text))
    names = "|".join(re.escape(code) for code in sorted(severity_of, key=len, reverse=True))
    parts = re.split(rf"(?<![\w-])({names})(?![\w-])", with_spaces(text))
    link = Markup('<a class="{1}" href="#{0}">{0}</a>')
    return Markup("").join(
        link.format(part, severity_of[part]) if part in severity_of else escape(part) for part in parts
    )


def _link_plain_text(text: str, cells: Collection[str]) -> Markup:
    """Return plain `text` as HTML, escaped: names of `cells` link to their rows, and no line ends in an interval."""
    names = "|".join(re.escape(cell) for cell in sorted(cells, key=len, reverse=True))
    pattern = rf"((?<![\w-])(?:{names})(?![\w-])|{SPAN})" if names else f"({SPAN})"
    linked = Markup("")
    for part in re.split(pattern, with_spaces(text)):
        if part in cells:
            linked += Markup('<a href="#row-{0}">{0}</a>').format(part)
        elif re.fullmatch(SPAN, part):
            linked += Markup('<span class="whole">{}</span>').format(part)
        else:
            linked += escape(part)
    return linked
