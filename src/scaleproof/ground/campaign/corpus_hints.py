"""What to write where a file, an address or a text of the user's own stands in place of the name of a corpus."""

import json
import re
from collections.abc import Iterable
from pathlib import Path

from scaleproof.ground.campaign.hub_names import OF_FILES
from scaleproof.ground.campaign.look_alikes import valid_name
from scaleproof.ground.errors import Place, no_such, shortened

FILE = re.compile(rf"^[./~]|\\|(?:{'|'.join(map(re.escape, ('/', *OF_FILES)))})$")  # how a path begins or ends
ROWS = ("jsonl", "csv", "parquet")  # files whose rows have fields
FIELD = "text"  # of a row, the usual name


def no_such_corpus(name: str, names: Iterable[str], table: Path) -> str:
    """Return that no row of `table` is called `name`; `names`: all rows. For a file's name, the row to write."""
    fault = no_such("corpus", name, names, f"Corpora of {table}")
    return f"{fault}.{own_file_hint(name)}" if name.endswith(OF_FILES) else fault


def own_text_hint(place: Place, value: object) -> str:
    """Return the row to write for a file, address or row in place of a corpus; "" for other values."""
    if place[-1:] != ("corpus",):
        return ""
    if isinstance(value, dict):
        return _own_row_hint("mine", shortened(json.dumps(value, default=str), 200))
    text = str(value)
    is_folder_of_web = "://" in text and text.endswith("/")  # whose files are not known
    if FILE.search(text) and not is_folder_of_web:
        return own_file_hint(text)
    is_prose = len(text.split()) > 3
    cure = " Text of your own goes into a file, and the file into a row of config/corpora.yaml (docs/corpora.md)."
    return cure if is_prose else ""


def own_file_hint(value: str) -> str:
    """Return the row to write for a file or an address in place of the name of a corpus."""
    name = valid_name(Path(value).name.partition(".")[0]) or "mine"
    file = re.sub("/$", "/*.txt", value)
    form = next((form for form in ROWS if f".{form}" in Path(file).name), "text")  # also of a.jsonl.gz
    source = form
    folder, _, file_name = file.rpartition("/")
    if "://" in folder:
        source, file = f"http, urls: [{folder}], revision: v1, format: {form}", file_name
    # What one document is.
    document = f", field: {FIELD}" if form != "text" else ", document: paragraph" * ("*" not in file)
    return _own_row_hint(name, f"{{source: {source}, files: [{shortened(file, 60)}]{document}}}")


def _own_row_hint(name: str, row: str) -> str:
    return f" A file of your own is a row of config/corpora.yaml (docs/corpora.md): {name}: {row}; then corpus: {name}."
