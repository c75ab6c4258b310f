"""Take the README's picture of a finished report: docs/report.png, and docs/report.png.json with what it shows.

make picture, or: python benchmarks/picture.py results/demo/report.html
"""

import hashlib
import json
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

OUT = Path("docs/report.png")
SIZE = {"width": 1280, "height": 1180}
# Words of the page itself, not of a campaign: tests/conclude/report/test_picture.py looks for them in its templates.
WORDS = "h2, #table-cells thead th"


def main(page_file: Path) -> None:
    browser_path = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        page.goto(f"file://{page_file.resolve()}")
        page.screenshot(path=OUT)
        words = [text.strip() for text in page.locator(WORDS).all_inner_texts() if text.strip()]
        verdict = page.inner_text(".verdict")
        browser.close()
    facts = {
        "picture_sha256": hashlib.sha256(OUT.read_bytes()).hexdigest(),
        "page_sha256": hashlib.sha256(page_file.read_bytes()).hexdigest(),
        "verdict": verdict,
        "words": words,
    }
    OUT.with_name(f"{OUT.name}.json").write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "results/demo/report.html"))
