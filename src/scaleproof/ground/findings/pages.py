"""The pages of all findings as docs/findings.md has them: reading them imports no check, which would take seconds."""

import re
from pathlib import Path

FILE = Path(__file__).parents[2] / "workflow_files/findings.md"  # `scaleproof explain --all` writes it
OURS = "# Runs of scaleproof"  # heading before the pages of findings that only these can have


def written_pages() -> dict[str, str]:
    """Return code -> its page in Markdown."""
    parts = re.split(r"^(?=##? )", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {part.splitlines()[0].removeprefix("## "): part for part in parts if part.startswith("## ")}


def index() -> str:
    """Return a line for each code with the first sentence of its page. Codes of scaleproof's own runs are last."""
    pages, lines = written_pages(), []
    anybodys, ours = (re.findall(r"^## (.+)", part, re.MULTILINE) for part in FILE.read_text("utf-8").split(OURS))
    for title, codes in (("Anybody's results:", anybodys), ("Runs of scaleproof only:", ours)):
        width = max(map(len, codes))
        lines.append(title)
        for code in codes:
            first_sentence = " ".join(pages[code].split("\n\n")[1].split()).partition(". ")[0].rstrip(".")
            lines.append(f"  {code:<{width}}  {first_sentence}")
        lines.append("")
    return "\n".join([*lines, "scaleproof explain CODE prints a page; scaleproof explain --all prints all of them."])
