"""Text of campaigns, corpora and foreign files reaches no shell, HTML, LaTeX, CSV formula or terminal as anything but
text; archives write nowhere but into their folder."""

import csv
import io
import re
import shlex
import tarfile
import zipfile
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from scaleproof.auditor.audit import audit_paths
from scaleproof.auditor.audit_page import audit_page
from scaleproof.auditor.audit_text import audit_markdown, audit_text
from scaleproof.auditor.read.archives import unpack
from scaleproof.conclude.report.tables.table import escape_latex
from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.campaign.corpora import CorpusTable
from scaleproof.ground.campaign.loaded import NAME
from scaleproof.ground.html import jinja_environment

SHARP = [
    "$(touch x)",
    "`id`",
    "; rm -rf ~",
    "a b",
    "../../etc/passwd",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ 7*7 }}",
    "\\input{/etc/passwd}",
    "\\write18{id}",
    "$x^2_3$ 100% #1 & ~",
    '=HYPERLINK("http://x","y")',
    "@SUM(1)",
    "+1",
    "-1",
    "\x1b[31mred\x1b]0;title\x07",
    "a\rb",
    "one\ntwo",
    "\u202egnp.exe",
    "\u2028",
    "-rf",
]
texts = st.one_of(
    st.sampled_from(SHARP),
    st.text(max_size=25),
    st.builds("".join, st.lists(st.one_of(st.sampled_from(SHARP), st.text(max_size=5)), max_size=3)),
)
cheap = settings(
    max_examples=80, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def accepted(model, document) -> bool:
    try:
        model.model_validate(document)
    except ValidationError:
        return False
    return True


@settings(cheap, max_examples=150)
@given(texts)
@example("fused")
def test_names_are_words_of_a_shell_and_no_formula(text):
    """Names of campaigns, cells, comparisons and corpora stand in paths, commands and tables."""
    names = [text] if NAME.fullmatch(text) else []
    names += [text] if accepted(Campaign, {"title": "x", "compare": [{"name": text, "b": {"seed": 2}}]}) else []
    names += [text] if accepted(CorpusTable, {text: {"source": "text", "files": ["a.txt"]}}) else []
    for name in names:
        assert shlex.quote(name) == name
        assert not name.startswith(FORMULA)
        assert ".." not in Path(name).parts


@settings(cheap, max_examples=150)
@given(texts)
def test_a_title_is_one_line_that_a_terminal_prints(text):
    if accepted(Campaign, {"title": text}):
        title = Campaign.model_validate({"title": text}).title
        assert title.isprintable()


@cheap
@given(texts)
def test_a_page_shows_text_as_text(text):
    page = jinja_environment("scaleproof.conclude.report").from_string('<p title="{{ t }}">{{ t }}</p>').render(t=text)
    assert page.count("<") == 2
    assert page.count('"') == 2


# What `escaped` itself may write.
COMMANDS = (
    r"\\textbackslash ?|\\textasciitilde ?|\\textasciicircum ?|\\ldots\{\}"
    r"|\$(?:\\(?:times|geq|leq|approx|rightarrow)|[-<>])\$"
    r"|\\[_{}$#%&]|\\space ?"
)


@settings(cheap, max_examples=40)
@given(texts)
@example("\\input{/etc/passwd} $x^2_3$ 100% #1 & ~")
def test_latex_gets_no_commands_from_texts(text):
    line = escape_latex(text)
    assert "\n" not in line
    assert not re.search(r"[\\{}$#%&_^]", re.sub(COMMANDS, "", line)), line


@settings(cheap, max_examples=15)
@given(texts, texts)
@example("<script>alert(1)</script>", "\x1b[31mred")
def test_an_audit_of_foreign_names(tmp_path_factory, one, two):
    folder = tmp_path_factory.mktemp("foreign")
    table = io.StringIO()
    rows = [["run", "gpus", "tokens/s", "speedup"], [one, "1", "1000", "1.0"], [two, "4", "3900", "9.9"]]
    csv.writer(table).writerows(rows)
    # A NUL would make it a binary file, which is not read.
    (folder / "results.csv").write_bytes(table.getvalue().replace("\0", "").encode("utf-8", "replace"))
    (folder / "plain.csv").write_text("run,gpus,tokens/s,speedup\na,1,1000,1.0\nb,4,3900,9.9\n")
    foreign, plain = audit_paths([folder / "results.csv"]), audit_paths([folder / "plain.csv"])
    for text in (audit_text(foreign), audit_markdown(foreign)):
        controls = [c for c in text if not c.isprintable() and c != "\n"]
        assert controls == []
    page, harmless = (audit_page(audit, "2026-01-01", "") for audit in (foreign, plain))
    for tag in ("<script", "<img", "<iframe", "<svg", "<a "):
        assert page.lower().count(tag) == harmless.lower().count(tag), tag


@settings(cheap, max_examples=60)
@given(st.lists(texts, min_size=1, max_size=4), st.sampled_from([".zip", ".tar"]))
@example(["../../outside.txt", "/tmp/outside.txt", "..\\outside.txt"], ".zip")
@example(["../outside.txt", "a/../../outside.txt"], ".tar")
def test_an_archive_writes_into_its_folder_only(tmp_path_factory, names, kind):
    root = tmp_path_factory.mktemp("archive")
    archive, folder = root / f"a{kind}", root / "deep/inside"
    folder.mkdir(parents=True)
    names = [name.encode("utf-8", "replace").decode().replace("\0", "") or "x" for name in names]
    if kind == ".zip":
        with zipfile.ZipFile(archive, "w") as packed:
            for name in dict.fromkeys(names):
                packed.writestr(name, "data")
    else:
        with tarfile.open(archive, "w") as packed:
            for name in names:
                member = tarfile.TarInfo(name)
                member.size = 4
                packed.addfile(member, io.BytesIO(b"data"))
            link = tarfile.TarInfo("link")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            packed.addfile(link)
    unpack(archive, folder)
    outside = [path for path in root.rglob("*") if path.is_file() and folder not in path.parents]
    assert outside == [archive]
    assert not any(path.is_symlink() for path in root.rglob("*"))
