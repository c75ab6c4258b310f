"""The documentation site: every link leads somewhere, and no page loads anything from elsewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs")
LOADED = re.compile(r'<(?:script|img|iframe)[^>]+src="(?:https?:)?//|<link[^>]+rel="(?:stylesheet|preconnect)"[^>]+//')


@pytest.fixture(scope="module")
def site(tmp_path_factory, request) -> Path:
    folder = tmp_path_factory.mktemp("site")
    # Without --quiet, under which mkdocs counts no warning, and --strict passes whatever there is.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=request.config.rootpath, env=quiet, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_document_is_a_page(site, repository):
    for page in (repository / "docs").glob("*.md"):
        name = "docs/index.html" if page.name == "README.md" else f"docs/{page.stem}/index.html"
        assert (site / name).is_file(), page.name
    assert "which way of training" in (site / "index.html").read_text().lower()


def test_every_document_is_in_the_contents(site, repository):
    contents = (repository / "mkdocs.yml").read_text()
    assert [page.name for page in (repository / "docs").glob("*.md") if f"docs/{page.name}" not in contents] == []


def test_nothing_is_loaded_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    assert [page.name for page in pages if LOADED.search(page.read_text())] == []
