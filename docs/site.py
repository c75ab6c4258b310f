"""The files of the documentation site: those of the repository, in its own tree, so that links work in both."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

PAGES = (
    "README.md",
    "C*.md",
    "docs/*.md",
    "config/README.md",
    "profiles/README.md",
    "profiles/slurm/README.md",
    "results/published/*/README.md",
)
LINKED = (
    "docs/report.png",
    "docs/notebooks/*.ipynb",
    ".github/examples/*.yml",
    "config/*.schema.json",
    "CITATION.cff",
    "LICENSE",
)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """The pages of the whole repository instead of those below docs/, and the theme's own files."""
    top = Path(config.config_file_path).parent
    names = [path.relative_to(top).as_posix() for pattern in (*PAGES, *LINKED) for path in sorted(top.glob(pattern))]
    of_theme = [file for file in files if file.src_dir != config.docs_dir]
    ours = [File(name, str(top), config.site_dir, config.use_directory_urls) for name in names]
    return Files([*of_theme, *ours])
